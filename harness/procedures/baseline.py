"""The rows of `--baselines`: what the training examples tell without any model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from harness.contracts import Hyperparameter, Task
from harness.data.tasks import as_asked
from harness.procedures.base import Procedure, procedure
from harness.runs import BaselineRun
from harness.runs.settings import TRAINING

if TYPE_CHECKING:
    from harness.planning.cells import Cells
    from harness.planning.choices import Choice


@procedure("baseline")
class Baseline(Procedure):
    """By no model: the commonest class, or a regression on tf-idf, of the examples that students learn from."""

    settings: ClassVar[Mapping[str, Hyperparameter]] = {
        name: TRAINING[name] for name in ("protocol", "train_fraction", "train_examples", "train_sample", "labels")
    }
    trains: ClassVar[bool] = False

    def declared(self, student: Any, objective: str, general: str) -> dict[str, Hyperparameter]:
        return dict(self.settings)

    def cell(self, choice: Choice, task: Task, cells: Cells) -> None:
        run = BaselineRun(
            task=task.name,
            data=cells.asked.contents.data(task),
            metric=cells.asked.metric(task),
            baseline=choice.row.baseline,
            settings=choice.settings,
        )
        task = as_asked(task, choice.settings)
        refused = "" if task.labelled else "a baseline learns from labels, and is to do without"
        drawn = {} if choice.settings["train_sample"] == "each_seed" else {"seeds": 1}  # nothing else is random
        if cells.add(choice, task, run, refused, trials=1, **drawn):  # nothing is searched
            cells.use(choice, task, set())
