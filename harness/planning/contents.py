"""What a plan's inputs are, by content: teacher, data, corpus and files. Read once each."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from harness.answers import Faulty, ask, parts_of
from harness.contracts import Task
from harness.data import own
from harness.data.tasks import get_task
from harness.errors import UserError, alike, listed
from harness.files import checksum
from harness.modeling import glove
from harness.planning.reading import sample
from harness.registry import TEACHERS


class Contents:
    """Hashes of everything a plan reads.

    With `lenient`, what the hub cannot give is "unknown", and `notices` says why; what is here has to be sound.
    """

    def __init__(self, source: str, corpus: str, lenient: bool):
        self.source, self.corpus_source, self.lenient = source, corpus, lenient
        self.notices: list[str] = []
        self.shared: list[str] = []  # sentences on examples that are trained on, but may be meant for other splits
        self.files: dict[str, str] = {}  # content -> path of a file that a setting or an initialisation names
        self.samples: dict[str, list[tuple[str, ...]]] = {}  # of a task's training texts
        self.found: dict[str, Any] = {}  # what was read so far: "corpus", "task NAME", "teacher NAME:ARGUMENT"
        self.places: set[Path] = set()  # all that was read, as far as `told`
        self.told = True  # otherwise something was read of which only asking it again says whether it has changed

    def teacher(self, plugin: Any) -> str:
        """A hash of a teacher's base weights."""
        self.note(parts_of(plugin))
        here = bool(plugin.argument) and Path(plugin.argument).expanduser().exists()
        content = partial(ask, TEACHERS, plugin.name, "content", str, plugin.content)
        return self._once(f"teacher {plugin.name}:{plugin.argument}", lambda: self._read_or(here, content))

    def data(self, task: Task) -> str:
        return self._read(task)[0]

    def examples(self, task: Task) -> int:
        """Number of training examples, 0 where they cannot be read."""
        return self._read(task)[1]

    def corpus(self) -> str:
        """A hash of the corpus. Raises UserError if the plan needs one and none is given."""
        from harness.data import corpora

        if not self.corpus_source:
            raise UserError(
                "distilling on unlabelled text needs a corpus: --corpus FILE, FOLDER, embedded, pydoc or hub:NAME"
            )

        here = not self.corpus_source.startswith("hub:")

        def read() -> str:
            if self.corpus_source not in corpora.NAMED and here:
                deque(corpora.documents(self.corpus_source), 0)  # its mistakes are told before anything is trained
            return corpora.content(self.corpus_source)

        corpora.check_name(self.corpus_source)  # of a plan, too, that may do without the hub
        self.note(([] if self.corpus_source in corpora.NAMED else [Path(self.corpus_source)]) if here else None)
        return self._once("corpus", lambda: self._read_or(here, read))

    def note(self, parts: Sequence[Path] | None) -> None:
        """Take note of files and folders that are read; None of what cannot be told."""
        self.told = self.told and parts is not None
        self.places.update(path.absolute() for path in parts or ())

    def by_content(self, value: str, asked: bool = True) -> str:
        """ "kind:FILE" as "kind:" and a hash of the file, which `files` finds again.

        Raises UserError if the file is missing. In a lenient plan one that nobody asked for, but the profile names, is
        noticed only.
        """
        kind, _, name = value.partition(":")
        try:
            path = glove.file_of(name)
            if not path.is_file():
                raise UserError(f"{value}: file {name} does not exist{alike(path)}")
        except UserError as error:
            if asked or not self.lenient:
                raise
            self.notices += [str(error)] if str(error) not in self.notices else []
            return f"{kind}:unknown"
        content = checksum(path)[:16]
        self.files[content] = str(path.resolve())
        self.note([path])
        return f"{kind}:{content}"

    def check_vectors(self, value: str, tasks: Iterable[str]) -> None:
        """Raise UserError where the file of "kind:FILE", also by its content, is one of word vectors and broken.

        A run would find out when its teacher is trained already. All is read but the numbers of words that no sample of
        these tasks' texts holds. GloVe, known by its checksum, is whole.
        """
        from harness.modeling import word_vectors  # loads torch, which early refusals must not wait for
        from harness.modeling.word_tokenizer import WORD

        name = value.partition(":")[2]
        path, names = Path(self.files.get(name, name)), sorted(tasks)
        if self.files.get(glove.MADE[glove.FILE][:16]) == str(path):
            return

        def read() -> None:
            for task in names:
                self.data(get_task(task))
            texts = (text for task in names for parts in self.samples.get(task, ()) for text in parts)
            word_vectors.read(path, sorted({word for text in texts for word in re.findall(WORD, text.lower())}))

        try:
            word_vectors.width_of(path)
        except UserError:  # of another form: whoever reads it judges it
            return
        self._once(f"vectors {path} of {names}", read)

    def _read(self, task: Task) -> tuple[str, int]:
        from harness.data import loading

        def read() -> tuple[str, int]:
            source = loading.source_of(task, self.source)
            self.note([] if source.fixed else source.parts(task) or None)
            if source.remote and self.notices:  # it did not answer once: every question costs half a minute
                return "unknown", 0
            content = self._read_or(not source.remote, lambda: loading.content(task, self.source))
            if content == "unknown":
                return content, 0
            data = loading.load(task, self.source)
            self.samples[task.name] = sample(data.train)
            self.shared += _mixed(task.name) if task.name in own.KNOWN else data.told_of_shared()  # its own tell it
            return content, len(data.train.text_a)

        return self._once(f"task {task.name}", read)

    def _once(self, name: str, read: Callable[[], Any]) -> Any:
        if name not in self.found:
            self.found[name] = read()
        return self.found[name]

    def _read_or(self, here: bool, read: Callable[[], str]) -> str:
        """What `read` finds, or "unknown" where a lenient plan may do without. here: it is on this machine."""
        try:
            return read()
        except UserError as error:
            if here or not self.lenient or isinstance(error, Faulty):
                raise
            self.notices.append(str(error))
            return "unknown"


def _mixed(name: str) -> list[str]:
    """A sentence on a column of a user's data that names several splits, for their rows are all trained on."""
    from harness.data.own_examples import DEV, TEST, TRAIN

    source, splits = own.KNOWN[name].source, {*TRAIN, *DEV, *TEST}
    found: dict[str, set[str]] | None = None  # column -> its values, as long as all are splits
    with suppress(UserError):  # of rows that a plugin gives once, and that have been read
        for _, row in source.rows(source.read.train_name):
            given = {column: str(row.get(column)) for column in (row if found is None else found)}
            found = {c: {*(found or {}).get(c, ()), value} for c, value in given.items() if value.lower() in splits}
            if not found:
                break
    return [
        f"the column {column} of {source.data} is not read, so its rows of {listed(sorted(values))} are mixed: "
        "to keep these splits, write each into a file of its own in one folder (train.csv)"
        for column, values in (found or {}).items()
        if len(values) > 1 and column != source.read.label
    ][:1]
