"""Several teachers of a task together: their weights side by side, and how the mean of their probabilities does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from harness.contracts import AGREEMENT
from harness.data.tasks import as_asked, get_task
from harness.jobs.examples import examples_of
from harness.jobs.scoring import evaluate
from harness.runs import JoinedTeachersRun
from harness.runs.told import Performed
from harness.teaching.outputs import ensemble
from harness.training import machine
from harness.training.weights import whole_folder
from harness.training.work import Work
from harness.training.workspace import teacher_readers, teacher_source


def join(run: JoinedTeachersRun, work: Work) -> Performed:
    """Keep the weights of each member's run in a folder of its number, and score them together."""
    task, workspace = as_asked(get_task(run.task), run.settings), work.workspace
    with whole_folder(workspace.run / "weights") as folder:
        for number, member in enumerate(run.members):
            (folder / str(number)).mkdir()
            for file in sorted((workspace.runs / member / "weights").iterdir()):
                _take(file, folder / str(number) / file.name)
    readers = teacher_readers(workspace)
    examples = examples_of(run, workspace, readers)
    source = teacher_source(workspace.teacher)
    model = ensemble(source, task, workspace.run / "weights").to(machine.device()).eval()
    scores, predictions = evaluate(model, task, run, work, examples, readers)
    if not task.labelled:
        scores["metrics"][AGREEMENT] = 1.0  # with itself
    return scores | {"curve": [], "best": {}, "selection": scores["metrics"][run.metric]}, predictions


def _take(file: Path, place: Path) -> None:
    """The same file under a second name, or a copy of it where there can be none."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)
