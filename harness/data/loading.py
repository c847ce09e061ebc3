"""A task's examples, from where `--data` says: which source is meant, and what it gives."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.contracts import Task
from harness.data.own import KNOWN
from harness.data.sources import Split, TaskSource, made
from harness.errors import UserError
from harness.registry import SOURCES


@dataclass(frozen=True)
class NumberedSplit:
    """A test split, whose labels GLUE's server keeps. split: its labels are all 0; index: (N,) the official numbers."""

    split: Split
    index: list[int]


@dataclass(frozen=True)
class TaskData:
    """The labelled splits of a task; dev in the order of task.dev_splits. content: see `content`."""

    task: Task
    train: Split
    dev: tuple[Split, ...]
    content: str

    def told_of_shared(self) -> list[str]:
        """Sentences on each dev split with examples that are trained on, whatever their labels, and on repeated ones.

        Which examples are held out was drawn by their places alone, and released numbers rest on that.
        """
        trained = Counter(self.train.texts)
        counts = ((split.name, sum(texts in trained for texts in split.texts), len(split.text_a)) for split in self.dev)
        told = [
            f"{shared:,} of the {number:,} {name} examples of {self.task.name} {'is' if shared == 1 else 'are'} among "
            "its training examples, too"
            for name, shared, number in counts
            if shared
        ]
        if repeated := sum(times for times in trained.values() if times > 1):
            alike = "where epochs and settings are chosen on some of them, others like these may be trained on"
            of = f"of the {len(self.train.text_a):,} training examples of {self.task.name}"
            told.append(f"{repeated:,} {of} have a text that another of them has: {alike}")
        return told


def load(task: Task, data: str) -> TaskData:
    """Read a task. Raises UserError, naming file and line, for whatever is missing or not as it should be."""
    source = source_of(task, data)
    train, *dev = source.splits(task)
    return TaskData(task, train, tuple(dev), _content(source, task))


def content(task: Task, data: str) -> str:
    """SHA-256, hexadecimal, of the train and dev data themselves: equal data anywhere, equal content."""
    return _content(source_of(task, data), task)


def _content(source: TaskSource, task: Task) -> str:
    found = source.content(task)
    if not isinstance(found, str) or not found:  # other data would be the same runs
        raise UserError(f"{SOURCES.called(source.name)}: content returned {found!r}, but must return a hash as text")
    return found


def load_test(task: Task, data: str) -> tuple[tuple[NumberedSplit, ...], str]:
    """(the test splits, in the order of its source's `tests`; SHA-256, hexadecimal, of what they hold).

    Raises UserError for a task that GLUE's server does not know, for a number that stands twice, and as `load` does.
    """
    source, found = source_of(task, data), []
    if not source.tested:
        raise UserError(f"task {task.name} of {source.title} has no test split: GLUE's server does not know it")
    for name in source.tests(task):
        examples, known = list(source.examples(task, name)), dict[int, str]()
        for where, _, number in examples:
            if (index := int(str(number))) in known:
                raise UserError(f"{where}: number {index} is already that of {known[index]}: give each its own")
            known[index] = where
        split = made(task, name, [texts for _, texts, _ in examples], [0] * len(examples))
        found.append(NumberedSplit(split, list(known)))
    whole = repr([(test.split.name, test.split.text_a, test.split.text_b, test.index) for test in found])
    return tuple(found), hashlib.sha256(whole.encode()).hexdigest()


def source_of(task: Task, data: str) -> TaskSource:
    """The source that has the task where `--data` says. Raises UserError where none has, or several have."""
    if task.name in KNOWN:
        return KNOWN[task.name].source
    known = [SOURCES.get(name) for name in SOURCES.names()]
    titles = {source.name: source.title for source in known if source.given == "name"}
    having = [source(data) for source in known if task in source.tasks]
    if not having:
        raise UserError(f"task {task.name} has no examples to train on")
    meant = {"path": data not in titles, "": True}
    found = [source for source in having if meant.get(source.given, source.name == data) and source.holds(task)]
    if not found:
        raise UserError(having[0].elsewhere(task, titles.get(data, data)))
    if len(found) > 1:
        raise UserError(f"task {task.name} is in both {found[0].name} and {found[1].name}: rename it in one of them")
    return found[0]


def sources_of(task: Task) -> list[type[TaskSource]]:
    """The sources that have the task, each where `--data` names it."""
    if task.name in KNOWN:
        return [type(KNOWN[task.name].source)]
    return [source for source in map(SOURCES.get, SOURCES.names()) if task in source.tasks]


def named_sources() -> dict[str, type[TaskSource]]:
    """What `--data` takes that is no path."""
    return {name: SOURCES.get(name) for name in SOURCES.names() if SOURCES.get(name).given == "name"}


def default(tasks: Sequence[Task]) -> str:
    """What `--data` is where nobody says: of the sources that it names the first with most of the tasks."""
    named = named_sources()
    return max(named, key=lambda name: sum(task in named[name].tasks for task in tasks))
