"""Distillation on several tasks together: the joint runs of a study, and what they wait for (liu2020, chapter 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness import combine, pairing
from harness.contracts import TableRow, Task, Want
from harness.hyperparameters import Hyperparameters
from harness.planning.choices import Choice, Choices
from harness.planning.prerequisites import Prerequisites
from harness.planning.request import ResolvedRequest
from harness.runs import MULTI_TASK, ONE_STAGE, JointStudentRun, JointTeacherRun, RunId
from harness.runs.settings import Settings


@dataclass
class JointRuns:
    """Plans joint runs. wants: the teacher signals asked for, by task, to which theirs are added."""

    asked: ResolvedRequest
    prerequisites: Prerequisites
    choices: Choices
    tasks: Mapping[str, Task]
    wants: dict[str, Want]

    def run(self, choice: Choice, objective: str, settings: Settings) -> tuple[JointStudentRun | None, str]:
        """(a joint run of the choice's student without its seed, why there can be none)."""
        tasks, refused = self._tasks(choice.row)
        if refused:
            return None, refused
        base, by_content = choice.init, choice.by_content
        if choice.kind == MULTI_TASK:
            _, base, by_content = self.choices.spelled(choice.student, choice.init.partition(":")[2] or "random")
            if refused := self.choices.refused_start(choice, base):
                return None, refused
        objective = combine.canonical(objective)
        wants: dict[str, Want] = {}
        for name, task in tasks.items():
            described, teacher = choice.describe(task), self.asked.info(task)
            if refused := pairing.refusal(objective, ONE_STAGE, described, teacher, task):
                return None, f"{refused} (task {name} of the joint training)"
            layers = choice.student.layer_map(base, described, teacher)  # of what can be paired
            built = choice.student.built_like(base, layers)
            if refused := pairing.refusal_of_layers(objective, layers, built, teacher):
                return None, f"{refused} (task {name} of the joint training)"
            wants[name] = combine.wants(combine.parse(objective), described, teacher, layers)[1]
        self.wants |= {name: self.wants.get(name, Want()) | want for name, want in wants.items()}
        made, after = self.prerequisites.joint_teacher_run(tasks, {"train_fraction": settings["train_fraction"]})
        return JointStudentRun(
            tasks=made.tasks,
            teacher=self.prerequisites.add(replace(made, seed=0), after),
            student=choice.student.name,
            init=by_content,
            objective=objective,
            procedure=ONE_STAGE,
            metrics=made.metrics,
            settings=settings,
            pair_encoding=choice.only_encoding,
        ), ""

    def teacher(self, row: TableRow, own: Hyperparameters) -> tuple[JointTeacherRun | None, list[RunId], str]:
        """(the run that refines the teacher, without its seed, what it waits for, why there can be none)."""
        tasks, refused = self._tasks(row)
        if refused:
            return None, [], refused
        return *self.prerequisites.joint_teacher_run(tasks, own), ""

    def _tasks(self, row: TableRow) -> tuple[dict[str, Task], str]:
        """(the tasks that the row's joint run trains on, why there are too few)."""
        named = row.training_tasks
        tasks = {name: task for name, task in self.tasks.items() if not named or name in named}
        if tasks and (named or len(tasks) > 1):
            return tasks, self.asked.teachers_named.refused(list(tasks.values()))
        what = f"only {', '.join(tasks)}" if tasks else f"none of {', '.join(named)}"
        return {}, f"multi_task trains one model on several tasks, but {what} is selected; name more with --tasks"
