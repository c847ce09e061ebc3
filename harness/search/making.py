"""The runs that others start from: pre-training, teachers and general distillation, each made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.contracts import Profile, Task
from harness.data.tasks import CORPUS
from harness.errors import UserError
from harness.ledger import identity
from harness.search import settings as merging
from harness.search.contents import Contents
from harness.training.settings import GENERAL_TRAINING, TRAINING

Specification = dict[str, Any]
SHARED = ("max_length", "protocol", "threads", "precision")  # what a teacher takes from the settings of its students


class Making:
    """Specifications of what must exist before a cell can run.

    `first` maps a run to its specification and the runs that it waits for in turn; used are the overrides that
    reached one of them.
    """

    def __init__(
        self,
        teacher: Any,
        profile: Profile,
        overrides: Mapping[str, str],
        contents: Contents,
        defaults: Mapping[str, Any],
    ):
        self.teacher, self.profile, self.overrides = teacher, profile, overrides
        self.contents, self.defaults = contents, defaults
        self.first: dict[str, dict[str, Any]] = {}
        self.used: set[str] = set()

    def of_task(self, task: Task, metric: str) -> str:
        """The run that fine-tunes the teacher for a task, or only scores it where its weights answer the task."""
        who, after = self.who()
        answers = self._ask(lambda: self.teacher.answers(task), otherwise=False)
        settings: dict[str, Any] = {name: h.default for name, h in TRAINING.items()}
        shared = {**self.profile.settings, **self.profile.task_settings.get(task.name, {}), **self.overrides}
        given = {name: shared[name] for name in SHARED if shared.get(name) is not None}
        given |= dict(self.teacher.recipe(task))
        given |= self._own(answers)
        settings |= {key: merging.check(key, value, TRAINING) for key, value in given.items()}
        specification = {
            "kind": "teacher",
            "task": task.name,
            "teacher": who,
            "metric": metric,
            "data": self.contents.data(task),
            "settings": settings,
            "seed": 0,
        }
        if answers:
            specification["evaluate_only"] = True
        return self._add(specification, after)

    def masked(self) -> tuple[Any, list[str]]:
        """The teacher as a masked language model, as specifications name it, and the runs that make it.

        Where its weights hold no head for that, it is first trained on the corpus.
        """
        who, after = self.who()
        if self._ask(self.teacher.predicts_masked, otherwise=True):
            return who, after
        given = self.general_settings(without=("epochs", "batch_size", "learning_rate", "stored_top_k"))
        given |= dict(self.teacher.recipe(CORPUS))
        settings = {name: given.get(name, h.default) for name, h in GENERAL_TRAINING.items()}
        specification = {
            "kind": "masked_teacher",
            "teacher": who,
            "corpus": self.contents.corpus(),
            "objective": "mlm",
            "settings": settings | {"stored_top_k": 0, "learning_rate": given["learning_rate"]},
            "seed": 0,
        }
        run = self._add(specification, after)
        return run, [run]

    def general(self, student: Any, init: str, objective: str, own: Mapping[str, Any]) -> str:
        """The run that distils the teacher into a student on the corpus; own: settings of student and objective."""
        teacher, after = self.masked()
        settings = self.general_settings()
        vocabulary = self.teacher.info(CORPUS).vocabulary
        if settings["stored_top_k"] > vocabulary:
            raise UserError(
                f"general.stored_top_k must be at most {vocabulary}, the teacher's vocabulary, "
                f"not {settings['stored_top_k']}"
            )
        specification = {
            "kind": "general",
            "corpus": self.contents.corpus(),
            "teacher": teacher,
            "student": student.name,
            "init": init,
            "objective": objective,
            "settings": {**settings, **own},
            "seed": 0,
        }
        return self._add(specification, after)

    def general_settings(self, without: Sequence[str] = ()) -> dict[str, Any]:
        """The settings of general distillation but some, those of "general.NAME" in profile and overrides."""
        prefix = "general."
        settings = {name: h.default for name, h in GENERAL_TRAINING.items()}
        for layer in (self.profile.settings, self.overrides):
            given = {key[len(prefix) :]: value for key, value in layer.items() if key.startswith(prefix)}
            settings |= {key: merging.check(key, value, GENERAL_TRAINING) for key, value in given.items()}
        kept = {name: value for name, value in settings.items() if name not in without}
        self.used |= {f"{prefix}{name}" for name in kept} & set(self.overrides)
        return kept

    def who(self) -> tuple[dict[str, Any], list[str]]:
        """The teacher's base weights, as specifications name them, and the run that pre-trains them if there is one."""
        who: dict[str, Any] = {"name": self.teacher.name, "content": self.contents.teacher(self.teacher)}
        pretraining = self.teacher.pretraining()
        if pretraining is None:
            return who, []
        run = self._add({"kind": "pretraining", "teacher": who, "settings": dict(pretraining), "seed": 0}, [])
        return {**who, "pretrained": run}, [run]

    def _ask(self, question: Callable[[], bool], otherwise: bool) -> bool:
        """The teacher's answer; `otherwise` in a lenient plan where it cannot be read."""
        try:
            return question()
        except UserError:
            if not self.contents.lenient:
                raise
            return otherwise

    def _own(self, answers: bool) -> dict[str, Any]:
        """The overrides that name the teacher; they have no effect on one that is not fine-tuned."""
        found = {key: value for key, value in self.overrides.items() if key.startswith("teacher.") and not answers}
        self.used |= set(found)
        return {key.removeprefix("teacher."): value for key, value in found.items()}

    def _add(self, specification: Specification, after: list[str]) -> str:
        run = identity(specification, self.defaults)
        self.first[run] = {"specification": specification, "after": after}
        return run
