"""Who teaches what: one teacher for all tasks, or one for each, as `--teacher` names them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.answers import check_members
from harness.contracts import Task
from harness.errors import UserError
from harness.registry import HUB, TEACHERS, teacher_named


def by_task(words: str | Sequence[str]) -> dict[str, str]:
    """Task -> teacher, of words such as sst2=FOLDER; {} where they name one for all.

    Raises UserError for several words that are not all of that form, or for a task that is named twice.
    """
    words = [words] if isinstance(words, str) else list(words)
    found: dict[str, str] = {}
    for word in words:
        named = re.fullmatch(r"(\w+)=(.+)", word)
        if not named or Path(word).expanduser().exists():
            if len(words) == 1:
                return {}
            raise UserError(
                f"--teacher takes one teacher, or one for each task as in sst2=FOLDER mrpc=FOLDER, not {word}"
            )
        if named[1] in found:
            raise UserError(f"--teacher names two teachers for {named[1]}: name one, or join them by +")
        found[named[1]] = named[2]
    return found


class Teachers:
    """The teachers of a request, made when it is. own: by task; {} where one is for all."""

    def __init__(self, words: str | Sequence[str], tasks: Sequence[str]):
        """words: as in `by_task`. Raises UserError for a task without a teacher, or a teacher without its task."""
        named = by_task(words)
        for task in named:
            if task not in tasks:
                raise UserError(f"--teacher names one for {task}, which is not one of the tasks: {', '.join(tasks)}")
        if lacking := [task for task in tasks if named and task not in named]:
            raise UserError(f"--teacher names none for task {lacking[0]}: add {lacking[0]}=FOLDER to the others")
        self.own: Mapping[str, Any] = {task: _made(named[task]) for task in tasks if named}
        one = words if isinstance(words, str) else words[0]
        self.first: Any = next(iter(self.own.values())) if self.own else _made(one)
        self.labels = {task: _label(teacher, named[task]) for task, teacher in self.own.items()}
        self.label = ", ".join(f"{t}={label}" for t, label in self.labels.items()) or _label(self.first, one)

    def of(self, task: Task) -> Any:
        """Raises UserError for a corpus where each task has a teacher of its own."""
        if refused := self.refused([task]):
            raise UserError(refused)
        return self.own.get(task.name, self.first)

    def called(self, task: Task) -> str:
        """What tables call the teacher of a task."""
        return self.labels.get(task.name, self.label)

    def refused(self, tasks: Sequence[Task]) -> str:
        """Why there is no one teacher of these, a corpus or several tasks together, or ""."""
        if self.own and any(task.corpus for task in tasks):
            return "a corpus needs one teacher, and each task has its own here"
        if self.own and len({id(self.own[task.name]) for task in tasks}) > 1:
            return "several tasks together need one teacher, and each has its own here"
        if len(tasks) > 1 and self.first.members:
            return "several tasks together need one teacher, and an ensemble is refined on none"
        return ""

    def every(self) -> list[Any]:
        """All of them, the members of ensembles too."""
        found = list(self.own.values()) or [self.first]
        return [*found, *(member for teacher in found for member in teacher.members)]

    @property
    def data(self) -> str:
        """The `--data` that all are made for, or ""."""
        made_for = {teacher.data for teacher in self.own.values()} or {self.first.data}
        return made_for.pop() if len(made_for) == 1 else ""


def _made(word: str) -> Any:
    """The teacher of a word. Raises UserError for what is none, or an ensemble of what is none."""
    made = teacher_named(word)
    if made.members:
        check_members(made)
    return made


def _label(teacher: Any, word: str) -> str:
    """What tables call a teacher: a folder by its name, whatever machine it is on."""
    if teacher.members and len(words := teacher.argument.split("+")) == len(teacher.members):
        parts = zip(teacher.members, words, strict=True)
        return " + ".join(_label(one, part.strip()) for one, part in parts)
    folder = Path(teacher.argument).expanduser()
    word = teacher.argument if teacher.name == HUB else word
    if not (teacher.argument and folder.is_dir()):
        return word
    name = folder.resolve().name
    # The name alone would mean the plugin that is called so.
    return f"./{name}" if teacher.name == HUB and name in TEACHERS.names() else name
