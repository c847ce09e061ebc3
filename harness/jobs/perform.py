"""What a worker does with a run: checks what it rests on, performs it, and says how.

A job gets a specification (what the run is) and a workspace (where things are), which never enters the run's identity.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from harness import code_versions, plugin_code, registry
from harness.data import own
from harness.errors import UserError
from harness.files import JSON, canonical, checksums, note_checksums, remove
from harness.jobs import inputs, reading
from harness.ledger import CHECKPOINT, KNOWN
from harness.runs import Run, TaskRun
from harness.runs.told import Performed
from harness.training import machine, processes
from harness.training.loop import Tell, TrainingFailure
from harness.training.work import Work
from harness.training.workspace import Workspace


def perform(specification: JSON, workspace: Workspace, tell: Tell) -> Performed:
    """Do one run. Returns what it leaves: see `Performed`.

    Raises UserError where data or teacher cannot be read, Diverged where the loss is not finite.
    """
    try:
        return _checked(specification, workspace, tell)
    finally:
        reading.end()  # also of a run that is refused: this process may do another thing next


def _checked(specification: JSON, workspace: Workspace, tell: Tell) -> Performed:
    began = time.perf_counter()
    note_checksums(workspace.cache / KNOWN)
    opened = reading.begin() if workspace.plugins or registry.installed() else None
    for path in workspace.plugins:
        registry.load_file(path)
    own.recall(workspace.declared)
    run = Run.read(specification)
    code_versions.check_plugins(run)
    to_be_read = code_versions.read_later(run)
    torch.set_num_threads(run.settings["threads"])
    machine.check_precision(run.settings)
    for part in workspace.run.glob(".*.tmp") if processes.leads() else ():
        remove(part)  # left by a process that was killed while it wrote
    machine.reset_peak_memory()
    rests_on = inputs.check(run, workspace)
    # What other code stored of teachers and texts may be other than what this one would.
    work = Work(replace(workspace, cache=workspace.cache / code_versions.of_stored(workspace.teacher.name)), tell)
    record, predictions = _left(run, _performed(run, work))
    try:
        code_versions.check_read_later(to_be_read)
    except UserError:
        remove(workspace.run / CHECKPOINT)  # of what is not this run, which would go on from it
        raise
    reading.end()
    if (workspace.run / "weights").is_dir() and processes.leads():
        record["weights"] = checksums(workspace.run / "weights")
    return record | {
        "status": "finished",
        "specification": run.specification(),
        "started_from": rests_on,
        "seconds": time.perf_counter() - began,
        "model_seconds": work.clock.seconds,
        "peak_memory_mib": machine.peak_memory(),
        "device": machine.device().type,
        "versions": machine.versions(),
        "code": code_versions.of_run(run) | (opened.by_plugins(run) if opened else {}),
    }, predictions


def _left(run: Run, left: Any) -> Performed:
    """What the run leaves, which of a kind of yours may be something else. Raises TrainingFailure then."""
    who = f"{type(run).__name__}.perform returned"
    if not (isinstance(left, tuple) and len(left) == 2 and isinstance(left[0], dict)):
        raise TrainingFailure(f"{who} {left!r:.80}, but must return (its record, its predictions)")
    record = left[0]
    try:
        canonical(record)
    except (TypeError, ValueError, RecursionError) as error:
        raise TrainingFailure(f"{who} a record that is not JSON: {error}") from error
    if run.scored and not plugin_code.ours(Path(registry.file_of(type(run)))):
        if lacking := [what for what in ("metrics", "selection", "best") if what not in record]:
            raise TrainingFailure(f"{who} a record without {lacking[0]!r}, which tables need")
        told = {**record["metrics"], "selection": record["selection"]}
        asked = [name for name in (getattr(run, "metric", "selection"), *told) if not isinstance(told.get(name), float)]
        if asked:
            raise TrainingFailure(f"{who} {asked[0]} {told.get(asked[0])!r}, which must be a float")
        sizes = {what: len((left[1] or {}).get(what, ())) for what in ("ids", "predictions", "labels")}
        if isinstance(run, TaskRun) and len({*sizes.values()}) > 1:
            raise TrainingFailure(f"{who} predictions of unequal lengths: {sizes}")
    return left


def _performed(run: Run, work: Work) -> Performed:
    """What the run leaves. Where a GPU cannot compute all of it twice the same, its record names what."""
    machine.repeatable()
    try:
        return run.perform(work)
    except (RuntimeError, TrainingFailure) as error:
        if not (what := machine.unrepeatable(error)):
            raise
    machine.repeatable(strictly=False)
    record, predictions = run.perform(work)
    return {**record, "unrepeatable": what}, predictions
