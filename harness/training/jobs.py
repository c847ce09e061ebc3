"""What a worker does with a run: checks what it rests on, performs it, and says how.

A job gets a specification (what the run is) and a place (where things are), which never enters the run's identity.
"""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from harness import registry
from harness.files import JSON, checksums, note_checksums, remove
from harness.ledger import KNOWN
from harness.runs import Run
from harness.runs.told import Performed
from harness.training import code_versions, inputs, machine, processes
from harness.training.loop import Tell
from harness.training.place import Place
from harness.training.work import Work


def perform(specification: JSON, place: Place, tell: Tell) -> Performed:
    """Do one run. Returns (record, predictions: ids, predictions and labels of the dev split, (N,) each, or None).

    Raises UserError where data or teacher cannot be read, TrainingFailure where the loss is not finite.
    """
    began = time.perf_counter()
    note_checksums(place.cache / KNOWN)
    for path in place.plugins:
        registry.load_file(path)
    run = Run.read(specification)
    code_versions.check_plugins(run)
    torch.set_num_threads(run.settings["threads"])
    machine.check_precision(run.settings)
    for part in place.run.glob(".*.tmp") if processes.leads() else ():
        remove(part)  # left by a process that was killed while it wrote
    machine.reset_peak_memory()
    rests_on = inputs.check(run, place)
    # What other code stored of teachers and texts may be other than what this one would.
    work = Work(replace(place, cache=place.cache / code_versions.of_stored(place.teacher)), tell)
    record, predictions = run.perform(work)
    if (place.run / "weights").is_dir() and processes.leads():
        record["weights"] = checksums(place.run / "weights")
    return record | {
        "status": "finished",
        "specification": run.specification(),
        "started_from": rests_on,
        "seconds": time.perf_counter() - began,
        "model_seconds": work.clock.seconds,
        "peak_memory_mib": machine.peak_memory(),
        "device": machine.device().type,
        "versions": machine.versions(),
        "code": code_versions.of_run(run),
    }, predictions
