"""What is said of a user's own data: where examples are, and whatever cannot be told from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import UserError
from harness.files import JSON

Rows = Iterable[JSON]  # column -> value
Place = str | Callable[[], str | Mapping[str, Rows]]
Metric = Callable[[Any, Any], float]  # of (N,) predictions and labels

# What is said of data, as `--set NAME.SETTING=VALUE`, in NAME.yaml and by `@task`; several names are joined by commas.
SETTINGS = {
    "text": "the column of the text, or of the first of a pair (default: text, sentence, sentence1 or premise)",
    "text2": "the column of the second text (default: sentence2 or hypothesis)",
    "label": "the column of the class or score (default: label, labels or score); none: there is none to train on",
    "columns": "the names of the columns of a file without a header",
    "delimiter": "what stands between the columns: comma, tab, semicolon or bar (default: by the file's name)",
    "kind": "classes or score (default: a score where labels have fractions, or more than 50 whole numbers)",
    "classes": "the names of the classes in order (default: those of train, sorted)",
    "metric": "by what epochs and settings are chosen (harness list metrics; in @task a function, too)",
    "train": "the file or split that is trained on (default: train)",
    "dev": "the file or split that is reported (default: validation or dev; test where there is neither)",
    "held_out": "the part of train that is reported where there is no other split",
    "split_seed": "another draw of that part",
    "group": "a column: examples that are alike in it are never parted",
    "group_until": "only what stands before this counts in the column of the group, as in 12_3 by _",
    "title": "its heading in tables (default: its name)",
}
# What a task cannot be called: the first begin the names of settings, as in teacher.epochs.
TAKEN = ("teacher", "general", "student", "multi_task", "untuned", "average")
DEFAULTS = {"held_out": "0.2", "split_seed": "0"}


@dataclass(frozen=True)
class Declaration:
    """A task of the user's own. place: a path, hub:DATASET[:CONFIG], or a function of a plugin that gives one or rows.

    folder: where relative paths begin, "" for the current folder. settings: as `SETTINGS`, all as text. metric: the
    function of a plugin that is its metric, if it has one.
    """

    name: str
    place: Place
    settings: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    doc: str = ""
    metric: Metric | None = None

    @property
    def where(self) -> str:
        """What sentences call its place."""
        return self.place if isinstance(self.place, str) else f"task {self.name}"

    def said(self, setting: str) -> str:
        """What a setting says, or its default, which is mostly ""."""
        return self.settings.get(setting) or DEFAULTS.get(setting, "")

    def given(self, settings: Mapping[str, str]) -> Declaration:
        """With these settings too, which go before its own."""
        return dataclasses.replace(self, settings={**self.settings, **settings})


def check_name(task: str) -> None:
    """Raise UserError for what no task can be called."""
    if not task.isidentifier():
        raise UserError(f"task name {task!r} may hold only letters, digits and underscores, and no digit first")
    if task in TAKEN:
        where = "for the mean over tasks" if task == "average" else f"for settings, as in {task}.epochs"
        raise UserError(f"task name {task!r} is reserved {where}: give your data another name")
