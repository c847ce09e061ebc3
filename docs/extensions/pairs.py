"""Which student each objective can train, and why not, as a page: nothing is trained, and no weight is read.

python docs/extensions/pairs.py [TEACHER ...] > docs/objectives_and_students.md    (make pages)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from harness import pairing, registry
from harness.commands import declared
from harness.contracts import ModelInfo, Signal, Task
from harness.data.tasks import CORPUS
from harness.errors import UserError

_CLASSES = Task("_task_", "", "accuracy", ("accuracy",), labels=("a", "b"))
# A letter in the page -> what it stands for, and such a task.
KINDS = {
    "S": ("single sentences with classes", _CLASSES),
    "P": ("pairs with classes", replace(_CLASSES, pair=True)),
    "V": ("pairs with values, such as similarities", Task("_task_", "", "pearson", ("pearson",), pair=True)),
    "R": ("candidates that are ranked", replace(_CLASSES, pair=True, ranking=True)),
    "C": ("a corpus, whose text has no labels", replace(CORPUS, name=_CLASSES.name)),
}
BERT = ModelInfo("BERT-base", 12, 768, 12, 30522, 2, frozenset(Signal), tokenizer="wordpieces")
HEAD = """# Which objective trains which student

The table says on which kinds of data an objective can train a student. Each letter stands for one kind:

{kinds}

A number in brackets refers to a note below the table that says why other kinds are refused. Beside an objective the
note holds for all students, in a cell for one. Students have their default settings here; some reasons, such as a
width, do not apply with others. `make pages` writes this page. For the cells of a study, its plan says the same:

```sh
harness plan --study objectives_vs_students
```
"""
Reasons = dict[str, dict[str, dict[str, str]]]  # objective -> student -> letter -> why not, or ""


def page(teachers: Sequence[str]) -> str:
    """The page in Markdown: of a teacher of BERT-base's shape, and in what these are otherwise."""
    told = HEAD.format(kinds="\n".join(f"* {letter}: {what}" for letter, (what, _) in KINDS.items()))
    first = reasons_of(bert)
    parts = [told, f"## {_shape(BERT.name, BERT)}", "", *_table(first)]
    for name in teachers:
        teacher = registry.TEACHERS.get(name)()
        other = reasons_of(teacher.info)
        parts += ["", f"## {_shape(f'Teacher {name}', teacher.info(_CLASSES))}", ""]
        pairs = [(objective, student) for objective, students in other.items() for student in students]
        changed = [
            f"* {objective}, {student}: {letters(other[objective][student])} where it was {letters(was)}"
            for objective, student in pairs
            if letters(was := first[objective][student]) != letters(other[objective][student])
        ]
        parts += changed or ["The same objectives train the same students."]
    return "\n".join(parts)


def _shape(title: str, info: ModelInfo) -> str:
    return f"{title}: {info.layers} layers of width {info.width}, {info.heads} heads"


def bert(task: Task) -> ModelInfo:
    return replace(BERT, labels=task.outputs)


def reasons_of(teacher: Callable[[Task], ModelInfo]) -> Reasons:
    known = registry.STUDENTS
    students = {name: known.get(name) for name in known.names() if known.ships(name)}
    return {
        objective: {
            name: {letter: _reason(objective, student, teacher(task), task) for letter, (_, task) in KINDS.items()}
            for name, student in students.items()
        }
        for objective in registry.OBJECTIVES.names()
        if registry.OBJECTIVES.ships(objective)
    }


def _table(reasons: Reasons) -> list[str]:
    """Objectives, family by family, by students; then the notes."""
    students = list(next(iter(reasons.values())))
    lines = [f"| | {' | '.join(students)} |", "|---" * (len(students) + 1) + "|"]
    notes: list[str] = []
    listed = [line for line in declared.lines("objectives") if line.name in reasons]
    for family, members in groupby(listed, key=lambda line: line.family):
        lines.append(f"| *{family}* |{' |' * len(students)}")
        for name in (line.name for line in members):
            found = reasons[name]
            alike = {letter for letter in KINDS if len({found[student][letter] for student in students}) == 1}
            whole = _noted([found[students[0]][letter] for letter in KINDS if letter in alike], notes)
            cells = [
                letters(found[student])
                + _noted([reason for letter, reason in found[student].items() if letter not in alike], notes)
                for student in students
            ]
            lines.append(f"| {name}{whole} | {' | '.join(cells)} |")
    return [*lines, "", *(f"{number}. {note}" for number, note in enumerate(notes, 1))]


def letters(reasons: dict[str, str]) -> str:
    """What the student is trained on."""
    return "".join(letter for letter, reason in reasons.items() if not reason) or "–"


def _noted(reasons: Sequence[str], notes: list[str]) -> str:
    """The numbers of these reasons among the notes, which they join."""
    told = list(filter(None, reasons))
    notes += dict.fromkeys(reason for reason in told if reason not in notes)
    return f" {sorted({notes.index(reason) + 1 for reason in told})}" if told else ""


def _reason(objective: str, student: Any, teacher: ModelInfo, task: Task) -> str:
    """Why not, of whatever objective and student it is said."""
    settings = {name: h.default for name, h in student.hyperparameters.items()}
    try:
        described = student.describe(settings, teacher, task)
        reason = pairing.refusal(objective, "" if task.corpus else "two_stage", described, teacher, task)
    except UserError as error:
        reason = str(error)
    for name, who in ((student.name, "student"), (teacher.name, "teacher"), (task.name, "task")):
        reason = re.sub(rf"(?:\b(?:the )?(?:student|teacher|task) )?(?<!\w){re.escape(name)}\b", f"the {who}", reason)
    reason = re.sub(rf"\b{objective}\b", "it", reason).replace("--set the student.", "--set student.")
    return reason[:1].upper() + reason[1:]


if __name__ == "__main__":
    sys.stdout.write(page(sys.argv[1:]) + "\n")
