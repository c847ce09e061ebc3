"""The command `export`: the best run of a cell as a Hugging Face folder, and onto the hub."""

from __future__ import annotations

import os
import statistics
from argparse import Namespace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import registry
from harness.commands.exchange import on_hub, version_of
from harness.commands.taken import Taken, opened, taken
from harness.commands.telling import say, tell
from harness.errors import UserError, counted, first_line
from harness.files import check_new_folder
from harness.planning.recipe import as_known
from harness.reports import mean_std
from harness.reports.tables.quantities import written
from harness.runs import Run
from harness.runs.told import Record
from harness.search.kept import best_run
from harness.search.progress import Progress
from harness.search.results import scores_of, taught_by

if TYPE_CHECKING:
    from harness.exporting.card import About


def export(options: Namespace) -> int:
    """Do the `work`, print how the folder is opened, and push it where that is asked. Raises UserError as `work`."""
    form, told = work(options)
    if form:
        say(form)
    tell(told)
    if options.push:
        _push(Path(options.to).expanduser().resolve(), options.push)
    return 0


def work(options: Namespace) -> tuple[str, str]:
    """Write the folder, whole or not at all; one to push that is there already stays.

    Returns what is to be said of its form, "" of transformers' own, and how it is opened. Raises UserError
    for a cell that is not there or not finished, and for a folder that is taken or cannot be written.
    """
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # read by torch as it is loaded: a tracer tells its doubts
    folder = Path(options.to).expanduser().resolve()
    if options.push:
        _check_name(options.push)
    else:
        check_new_folder(folder, options.to)
    one = taken(Path(options.out), options.what)
    from harness.exporting import onnx_graph, writing

    if options.onnx:
        onnx_graph.check_installed()
    # Of a push that failed or was killed the folder is there, perhaps with its licence filled in since.
    if options.push and writing.holds(folder, one.run, options.push, options.onnx):
        return "", f"run {one.run} was in {options.to} already, which stays as it is"
    check_new_folder(folder, options.to)
    with opened(one) as (student, record):
        about = _about(one, record, options.push or folder.name)
        form = writing.write(student, folder, about, options.onnx)
    if form:
        return form, f'run {one.run} is now in {options.to}: harness.load("{options.to}") opens it'
    return "", (
        f"run {one.run} is now in {options.to}: AutoModelForSequenceClassification.from_pretrained opens it, and "
        f"so do harness.load and --teacher {options.to}"
    )


def _check_name(name: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise UserError(f"--push {name} is not a name on the hub, such as USER/NAME: {error}") from error


def _push(folder: Path, name: str) -> None:
    """Upload the folder, and say where it is. Raises UserError where the hub cannot be reached or refuses."""
    from huggingface_hub import HfApi

    # That of the client which it asks through. Its other errors are OSErrors.
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    from harness.exporting.card import LICENCE
    from harness.exporting.writing import CARD

    try:
        api = HfApi()
        api.create_repo(name, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="Export of distill-harness")
    except (OSError, HTTPError) as error:
        raise UserError(
            f"{folder} is written, but could not be uploaded to {name}: {first_line(error)}; "
            "the same command tries it again"
        ) from error
    unsaid = LICENCE in (folder / CARD).read_text(encoding="utf-8")
    tell(f"and on the hub: https://huggingface.co/{name}{' (its licence is still to be filled in)' * unsaid}")


# ---------------------------------------------------------------- what the card tells


def _about(one: Taken, record: Record, name: str) -> About:
    """What is told of a run; record: of the weights that are written. No path of this machine is."""
    from harness.exporting.card import ANSWERS, About

    plan, made, cell = one.plan, one.made, one.cell
    row = next((row for row in plan.rows if cell and row.name == cell.row), None)
    part: Any = record.get("by_task", {}).get(one.task.name, record)
    who, base = plan.source_of(made)
    of_hub = who == registry.HUB and not _is_here(base)
    teacher = Path(plan.label).name if os.path.exists(plan.label) else plan.label
    learnt, starts = _learnt(one, record)
    dataset, configuration = on_hub(plan, one.task)
    device = record["device"]
    by = f" with {counted(made.settings['threads'], 'thread')}" if device == "cpu" else ""
    speed = (
        f"{part['examples_per_second']:,.0f} examples of dev a second, from token ids in batches of 64, on {device}{by}"
    )
    # Its own values of what is searched: other trials and, with a search for each seed, other seeds have others.
    told = ("epochs", "batch_size", "learning_rate", "max_length", "precision", "protocol")
    own = {name: made.settings[name] for name in (*told, *(cell.space if cell else ()))}
    return About(
        name=name,
        row=cell.row if cell else "teacher",
        objective=row.label if row else made.title,
        student=cell.student if cell and cell.student else teacher,
        init=cell.init if cell else "",
        teacher=teacher,
        base=base if of_hub and (learnt == ANSWERS or starts) else "",
        data=_data(one),
        table=_table(one, learnt == ANSWERS),
        metrics=part["metrics"],
        recipe=as_known(plan, own) | {"seed": made.seed},
        speed=speed,
        version=version_of(record) or version("distill-harness"),
        made={
            "run": one.run,
            "cell": cell.id if cell else None,
            "study": plan.study,
            "profile": plan.profile,
            "metrics": part["metrics"],
            "specification": made.specification(),
            "versions": record["versions"],
        },
        learnt=learnt,
        starts=starts,
        dataset=dataset,
        configuration=configuration,
        split="" if one.task.name in plan.declared else "validation",
    )


def _learnt(one: Taken, record: Record) -> tuple[str, str]:
    """From what a run learnt, and of whose weights it starts, as `About` has both."""
    from harness.exporting.card import ANSWERS, LABELS

    made, told, taught = one.made, record, False
    while made.student_name:
        asked: Any = told.get("teacher_signals", {"": "unknown"})  # of several tasks by task
        taught = taught or any(asked.values()) or not made.data_of  # of no task's data: distilled on a corpus
        if made.starts_from is None:
            break
        if (before := one.ledger.read(made.starts_from)) is None:
            return ANSWERS, ""
        made, told = Run.read(before["specification"]), before
    learnt = ANSWERS if taught else "" if getattr(made, "evaluate_only", False) else LABELS
    return learnt, _starts(made, _model(one))


def _starts(made: Run, model: str) -> str:
    from harness.modeling import static_vectors  # loads torch

    init = getattr(made, "init", "")
    if not made.student_name:
        return f"its weights come from {model}"
    if init == static_vectors.INIT:
        return f"its word vectors are made by {model}"
    if init == "random:embeddings":
        return f"its embeddings start from {model}"
    return "" if init == "random" or ":" in init else f"its layers start from {model}"


def _model(one: Taken) -> str:
    """The teacher or checkpoint that a run is of, as people call it."""
    who = one.plan.source_of(one.made)
    return Path(who.argument).name if _is_here(who.argument) else str(who)


def _is_here(place: str) -> bool:
    return os.path.exists(os.path.expanduser(place))


def _data(one: Taken) -> str:
    """The task, and where its examples are from: of the user's own the name of the file, and what is dev there."""
    told = one.plan.declared.get(one.task.name)
    place = told["place"] if told else one.plan.source
    name = place if place.startswith("hub:") else Path(place).name
    found = f"{one.task.label} ({name})" if name else one.task.label
    return found + (told["told"].removeprefix(f"task {one.task.name}") if told else "")


def _table(one: Taken, taught: bool) -> str:
    """The sentence on the row of the table that the run is from."""
    if one.cell is None or one.found is None:
        return "It is a teacher, not a row of a table."
    metric = one.cell.metric
    values = [100 * seed.record["metrics"][metric] for seed in one.found.seeds if seed.score is not None]
    if not values:
        return f"It is a trial of the row {one.cell.row} of the study {one.plan.study}, whose search is not over."
    score = written(metric, *mean_std(values))
    teacher = (taught_by(one.plan, one.made) if taught else "") or one.plan.teachers.get(one.task.name, "")
    scores = scores_of(one.plan, one.ledger, teacher, one.task.name) if teacher else []
    found = [of_run[metric] for of_run in scores if metric in of_run]
    whose = "its" if taught else "the study's"
    theirs = f"; {whose} teacher has {written(metric, 100 * statistics.fmean(found))}" if found else ""
    return (
        f"In the table of the study {one.plan.study} (profile {one.plan.profile}) the row {one.cell.row} has "
        f"{metric} {score} on {one.task.label}, over {counted(len(values), 'seed')}{theirs}. {_place(one, one.found)}"
    )


def _place(one: Taken, found: Progress) -> str:
    """The sentence on what the run is among those behind the number of its row."""
    best = best_run(found)
    if best is not None and best.run == one.run:
        return "Of the seeds this is the one that did best on the examples that choose epochs and settings."
    if any(seed.run == one.run for seed in found.seeds):
        return f"Of the seeds this is seed {one.made.seed}, and not the one that did best on the examples that choose."
    return "That is without this run, a trial of a search that chose another setting."
