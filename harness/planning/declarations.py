"""What a study declares by names of others: settings, tasks and metrics, looked up once all plugins are known."""

from __future__ import annotations

from collections.abc import Iterable

from harness import registry
from harness.contracts import Study, Task
from harness.data import metric_names, own
from harness.data.tasks import MEASURED
from harness.errors import UserError, near
from harness.planning.merging import nearest
from harness.runs.settings import GENERAL_TRAINING, JOINT_TRAINING, TEACHER_TRAINING

# Of the runs that a cell starts from, under "OWNER.NAME".
OWNERS = {"teacher": TEACHER_TRAINING, "general": GENERAL_TRAINING, "multi_task": JOINT_TRAINING}

def check(study: Study, tasks: Iterable[Task]) -> None:
    """Raise UserError for names in the study that are nothing's, and for metrics that the tasks of a plan have not."""
    who = f"{registry.STUDIES.called(study.name)}:"
    known, every = _settings(), {*registry.TASKS.names(), *MEASURED, *own.KNOWN}
    _look(f"{who} metrics", {*study.metrics} - {""}, "task", every)
    for size, profile in study.profiles.items():
        at = f"{who} profile {size}:"
        _look(f"{at} task_settings", profile.task_settings, "task", every)
        for what in ("settings", "search"):
            _look(f"{at} {what}", getattr(profile, what), "setting", known)
        for what in ("task_settings", "row_settings"):
            for name, settings in getattr(profile, what).items():
                _look(f"{at} {what} of {name}", settings, "setting", known)
    procedure = registry.PROCEDURES.get(study.procedure)
    for task in tasks:
        chosen, *others = study.shown(task)
        further = (split.removeprefix("dev_") for split in task.dev_splits[1:])
        scores = [*task.metrics, *(f"{split}_{metric}" for split in further for metric in task.metrics)]
        if procedure.trains and procedure.tunes and chosen not in task.metrics:
            rule = "but epochs and settings are chosen by the first, one of the task's own"
            raise UserError(f"{who} metrics of {task.name} begin with {chosen!r}, {rule}: {near(chosen, task.metrics)}")
        _look(f"{who} metrics of {task.name}", [chosen, *others], "metric", [*scores, *metric_names.QUANTITIES])


def _look(who: str, given: Iterable[str], what: str, known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise UserError(f"{who} names {name!r}, which is no {what}: {nearest(name, known)}")


def _settings() -> list[str]:
    """Every name that a profile's setting may have, whatever rows and students are asked for."""
    found = {name for each in registry.PROCEDURES.names() for name in registry.PROCEDURES.get(each).settings}
    found |= {f"{owner}.{name}" for owner, settings in OWNERS.items() for name in settings}
    for student in registry.STUDENTS.names():
        names = registry.STUDENTS.get(student).hyperparameters
        found |= {f"{of}{whose}.{n}" for of in ("", "general.") for whose in ("student", student) for n in names}
    for objective in registry.OBJECTIVES.names():
        for name, h in registry.OBJECTIVES.get(objective).hyperparameters.items():
            found |= {f"{objective}.{name}", f"{objective}.{h.alias or name}"}
    return sorted(found)
