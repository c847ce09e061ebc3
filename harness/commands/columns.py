"""What --columns asks for: how large the models of a table are, and how fast they encode on this machine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness import registry, reports
from harness.commands.telling import say
from harness.contracts import Task
from harness.data.tasks import get_task
from harness.errors import UserError, check_known, counted, sentence
from harness.executors.made_on import processor
from harness.files import checksum, digest, read_sealed, write_sealed
from harness.ledger import Ledger
from harness.planning.planned import Plan
from harness.runs import JointRun
from harness.search.driver import workspace_of
from harness.search.kept import best_run
from harness.search.progress import Finished
from harness.search.results import replayed

ROUNDS = 5
SPEEDS = (
    "sentences_per_second_from_ids",
    "sentences_per_second_from_text",
    "sentences_tokenized_per_second",
    "tokenizer_share",
)
COLUMNS = {"parameters": ("parameters",), "megabytes": ("megabytes",), "speed": SPEEDS}
NOT_KEPT = "the weights of its best run are not kept, so that they are neither weighed nor timed"


def added(plan: Plan, ledger: Any, table: reports.Table, asked: Sequence[str]) -> reports.Table:
    """The table with the columns asked for after its own: of its models on its first task.

    ledger: a `Ledger`, or records that were only counted.
    Speed is measured once for each shape of model and kept in the cache. Raises UserError for an unknown column, where
    nothing that could be timed is kept, and where it has to be measured while another run works in the folder.
    """
    for name in asked:
        check_known("column", name, COLUMNS)
    task = get_task(table.columns[0].task)
    found = _models(plan, ledger, task)
    told = {cell: _sizes(ledger, model, task) for cell, model in found.items()}
    notes = []
    if {"parameters", "megabytes"} & {*asked} and len(plan.tasks) > 1:
        notes.append(f"Size: of the models on {task.label}")
    if "parameters" in asked and any(
        model.made.leaves_model and not _weights(ledger, model) for model in found.values()
    ):
        notes.append("Parameters: those that are trained, where no weights are kept; of other models all")
    if "megabytes" in asked:
        notes.append("Megabytes: of the file of weights, 1 MB being a million bytes")
    metrics = [metric for name in dict.fromkeys(asked) for metric in COLUMNS[name]]
    if SPEEDS[0] in metrics:
        for cell, speeds in _speeds(plan, ledger, found, task).items():
            told[cell] = {**told[cell], **speeds}
        notes.append(_how(task))
    return reports.with_columns(table, metrics, told, notes)


def _models(plan: Plan, ledger: Ledger, task: Task) -> dict[str, Finished]:
    """Cell, or reports.TEACHER -> the best run of it that is finished."""
    found = {}
    for cell, progress in zip(plan.cells, replayed(plan, ledger), strict=True):
        if cell.task == task.name and (best := best_run(progress)):
            found[cell.id] = best
    teacher = plan.teachers.get(task.name)
    record = ledger.read(teacher) if teacher else None
    if teacher and record and record["status"] == "finished":
        found[reports.TEACHER] = Finished(teacher, lambda: plan.first[teacher].run, {}, record)
    return found


def _sizes(ledger: Ledger, model: Finished, task: Task) -> dict[str, reports.Entry]:
    """What the record and the files of weights say of the model that answers the task."""
    own = model.record.get("by_task", {}).get(task.name, {})
    parameters = {**model.record, **model.record.get("metrics", {}), **own}.get("parameters")
    # The file of a run on several tasks has the heads of the others, too.
    others = tuple(f"heads.{name}." for name in model.made.data_of if name != task.name)
    found = [_held(file, others) for file in _weights(ledger, model)]
    # A record has those that are trained alone, and frozen vectors are as large.
    parameters = sum(numbers for numbers, _ in found) or parameters
    size = sum(size for _, size in found) / 1e6
    missing = reports.Entry("unrecorded", reason=NOT_KEPT if model.made.leaves_model else "")
    return {
        "parameters": reports.Entry("complete", parameters) if parameters else reports.Entry("unrecorded"),
        **({"megabytes": reports.Entry("complete", size)} if size else dict.fromkeys(("megabytes", *SPEEDS), missing)),
    }


def _weights(ledger: Ledger, model: Finished) -> list[Path]:
    return sorted((ledger.folder(model.run) / "weights").glob("*.safetensors")) if model.made.leaves_model else []


def _held(file: Path, without: tuple[str, ...]) -> tuple[int, int]:
    """(how many numbers a safetensors file holds, its bytes), but for names that begin so; no numbers if damaged."""
    from safetensors import SafetensorError, safe_open

    size = file.stat().st_size
    with suppress(SafetensorError, OSError), safe_open(file, "np") as tensors:
        names = list(tensors.keys())
        size -= sum(tensors.get_tensor(name).nbytes for name in names if name.startswith(without))
        shapes = (tensors.get_slice(name).get_shape() for name in names if not name.startswith(without))
        return sum(map(math.prod, shapes)), size
    return 0, size


# ---------------------------------------------------------------- speed


def _speeds(
    plan: Plan, ledger: Ledger, found: Mapping[str, Finished], task: Task
) -> dict[str, dict[str, reports.Entry]]:
    """Cell -> metric -> what was measured, of the models whose weights are kept."""
    timed: dict[str, dict[str, reports.Entry]] = {}
    kept = {cell: model for cell, model in found.items() if _weights(ledger, model)}
    if not kept:
        raise UserError(
            f"nothing of {plan.study} can be timed: no weights of finished runs on {task.name} are kept "
            "(harness run --keep best keeps them; harness export CELL makes those of a cell again)"
        )
    shapes = {cell: _shape(plan, ledger, model, task) for cell, model in kept.items()}
    folder = ledger.out / "cache" / "speed"
    known = {shape: read_sealed(folder / f"{shape}.json") for shape in dict.fromkeys(shapes.values())}
    with ExitStack() as held:
        if missing := sum(not speeds for speeds in known.values()):
            held.enter_context(ledger.lock())  # nothing else works here meanwhile, which would slow it
            say(f"measuring how fast {counted(missing, 'kind')} of model encode here, some 15 seconds each")
        for cell, model in kept.items():
            shape = shapes[cell]
            if not known[shape]:
                try:
                    known[shape] = _measured(plan, ledger, model, task)
                except UserError as error:
                    timed[cell] = dict.fromkeys(SPEEDS, reports.Entry("unrecorded", reason=sentence(str(error))))
                    continue
                write_sealed(folder / f"{shape}.json", known[shape])
            timed[cell] = {name: reports.Entry("complete", *known[shape][name]) for name in SPEEDS}
    return timed


def _shape(plan: Plan, ledger: Ledger, model: Finished, task: Task) -> str:
    """A hash of all that a model's speed depends on: its shape, the texts, the machine. Weights do not count."""
    folder = ledger.folder(model.run) / "weights"
    part: Any = model.made.part(task.name) if isinstance(model.made, JointRun) else model.made
    config, tokenizer = folder / "config.json", folder / "tokenizer.json"
    return digest(
        {
            "model": checksum(config) if config.is_file() else model.run,
            "student": part.student_name,
            "settings": part.settings.of(part.student_name) if part.student_name else {},
            "pair_encoding": part.pair_encoding,
            "tokenizer": checksum(tokenizer) if tokenizer.is_file() else [plan.source_of(part)[0], plan.label],
            "max_length": part.settings["max_length"],
            "data": dict(part.data_of),
            "machine": processor(),
            "measured": SPEEDS,
            "torch": version("torch"),
        }
    )[:16]


def _measured(plan: Plan, ledger: Ledger, model: Finished, task: Task) -> dict[str, tuple[float, float]]:
    """Raises UserError for weights and data that are not as they were."""
    from harness.data import loading
    from harness.exporting.opened import of_run
    from harness.exporting.timed import sentences_per_second

    if trouble := ledger.trouble_with_weights(model.run):
        raise UserError(f"the weights of run {model.run} {trouble}")
    for path in plan.plugins:
        registry.load_file(path)
    student = of_run(model.made, task, workspace_of(plan, ledger.out, model.run, model.made))
    return sentences_per_second(student, loading.load(task, plan.source).dev[0], ROUNDS)


def _how(task: Task) -> str:
    """A sentence on what was measured."""
    what = "pairs of sentences" if task.pair else "texts"
    return (
        f"Speed: {what} of {task.label}'s dev split a second, in batches of 64, by one thread of this processor "
        f"({processor()}): the median of {ROUNDS} rounds ± their standard deviation. From text the "
        "tokenizer counts, whose own speed stands beside it, and its share of the time. Models of one shape are "
        "measured once"
    )
