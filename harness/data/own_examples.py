"""What a user's own examples are, told by reading them: columns, classes or a score, and which split is reported."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from harness.data.declaration import Declaration
from harness.data.places import spoilt
from harness.data.sources import Example
from harness.data.tables import DELIMITERS, Columns, Row, column
from harness.errors import UserError, near
from harness.seeds import derive_seed

TRAIN = ("train", "training")
DEV = ("validation", "dev", "valid", "val")
TEST = ("test",)
SINGLE, PAIRS = ("text", "sentence"), (("sentence1", "sentence2"), ("premise", "hypothesis"))
LABEL = ("label", "labels", "score")
NAMES = {*SINGLE, *(name for pair in PAIRS for name in pair), *LABEL}
NONE = "none"  # in place of the column of the label: the teacher's answers stand for it
MOST_CLASSES = 50  # as many different whole numbers are classes; more are a score
MOST_HELD_OUT = 2000  # examples
SHOWN = 5  # classes that are printed by name
MISSING = {"nan", "none", "null", "na", "n/a", "nil", "?", "-"}  # how tools write that there is no value


class Readable(Protocol):
    """Where they come from: what is asked of an `own_source.OwnSource` here."""

    data: str
    declaration: Declaration
    settings: Mapping[str, str]

    def names(self) -> Sequence[str]: ...

    def rows(self, name: str) -> Iterable[Row]: ...

    def classes(self, label: str) -> Sequence[str]: ...


class OwnExamples:
    """The examples of a source. labels: the names of the classes, none where score; train, dev: (where, texts, label).

    groups: of train, what each is never parted by, or empty. Raises UserError for whatever is wrong with them.
    """

    texts: tuple[str, ...]  # the columns, as `_columns` finds them
    label: str
    group: str
    unlabelled: bool

    def __init__(self, source: Readable):
        self.source, self.name = source, source.declaration.name
        self.settings, self.said = source.settings, source.declaration.said
        names = list(source.names())
        self.train_name = self._named("train", TRAIN, names)
        if not self.train_name:
            raise UserError(
                f"{source.data} has no split train: {near('train', names)}; choose one with --set "
                f"{self.name}.train=SPLIT"
            )
        self.dev_name = self._named("dev", DEV, names) or self._named("", TEST, names)
        if self.dev_name == self.train_name:
            raise UserError(f"task {self.name} would be reported on its own training examples, {self.train_name}")
        if self.dev_name and {"held_out", "split_seed"} & self.settings.keys():
            raise UserError(f"task {self.name} holds nothing out of train, since it has {self.dev_name} to report")
        rows = self._rows(self.train_name)
        self._columns(rows[0][1])
        self.pair = len(self.texts) == 2
        train, self.groups = self._examples(rows), self._groups(rows)
        reported = self._rows(self.dev_name) if self.dev_name else []
        if not self.label and reported:  # dev may have labels that train has not
            self.label = next((name for name in LABEL if name in reported[0][1]), "")
        dev = self._examples(reported)
        self.score = self._is_score([*train, *dev])
        self.labels = [] if self.score else self._classes(dev if self.unlabelled else train)
        if not self.unlabelled:
            self._check(train, "train")
        if dev:
            self._check_dev(train, dev)
        else:
            train, dev = self._part(train)
        self.train, self.dev = train, dev

    def told(self) -> str:
        """What is printed of them."""
        sizes = f"{len(self.train):,} to train on, {len(self.dev):,} reported"
        named = ", ".join(self.labels[:SHOWN]) + (", ..." if len(self.labels) > SHOWN else "")
        what = f"{len(self.labels)} classes ({named})"
        there = Counter(label for _, _, label in (*self.train, *self.dev))
        if lacking := [name for name in self.labels if name not in there and not self.unlabelled]:
            what += f", but no example of {_listed(lacking)}"
        folded = [_folded(name) for name in self.labels]
        if alike := [name for name, one in zip(self.labels, folded, strict=True) if folded.count(one) > 1]:
            what += f", of which {_listed(alike)} differ in case or spelling alone"
        if once := [name for name in self.labels if there[name] == 1]:  # misspelt, more often than not
            what += f", with a single example of {_listed(once)}"
        if missing := [name for name in self.labels if name.lower() in MISSING]:
            what += f", of which {_listed(missing)} reads as if there was no label"
        if self.score:
            numbers = [float(label) for _, _, label in (*self.train, *self.dev) if label is not None]
            what = f"a score from {min(numbers):g} to {max(numbers):g}" if numbers else "a score"
        what += ", but no labels to train on" if self.unlabelled else ""
        kept = f", alike in {self.settings['group']} together" if self.groups else ""
        where = self.dev_name or f"held out of {self.train_name}{kept}"
        if self.dev_name in TEST and "dev" not in self.settings:
            where += ", for there is no dev split"
        seen = {texts for _, texts, _ in self.train}
        shared = sum(texts in seen for _, texts, _ in self.dev)
        leaks = f"; {shared:,} of them have a text that is trained on" if shared else ""
        labels = Counter(texts for texts, _ in {(texts, label) for _, texts, label in self.train})
        if torn := sum(number > 1 for number in labels.values()):
            leaks += f"; {torn:,} of the texts to train on {'has' if torn == 1 else 'have'} more than one label"
        return f"{'pairs with ' if self.pair else ''}{what}; {sizes} ({where}){leaks}"

    # ------------------------------------------------------------ splits and columns

    def _named(self, setting: str, usual: Sequence[str], names: Sequence[str]) -> str:
        if named := self.said(setting):
            if named not in names:
                raise UserError(f"{self.source.data} has no split {named!r}: {near(named, names)}")
            return named
        found = [name for name in usual if name in names]
        if len(found) > 1:
            which = setting or "dev"
            raise UserError(
                f"{self.source.data} has both {found[0]} and {found[1]}: choose one with --set "
                f"{self.name}.{which}=SPLIT"
            )
        return found[0] if found else ""

    def _rows(self, name: str) -> list[Row]:
        rows = list(self.source.rows(name))
        if not rows:
            raise UserError(f"{self.source.data} has no examples in {name}")
        where, first = rows[0]
        names = [column for column in first if column in (*NAMES, *map(self.said, ("text", "text2", "label")))]
        # A header would be an example, and the name of its label a class.
        named = [str(first[name]).strip().lower() in (name.lower(), *NAMES) for name in names]
        if "columns" in self.settings and named and all(named):
            told = _listed([str(one) for one in first.values()])
            raise UserError(f"{where}: {told} is a header, not an example: leave out {self.name}.columns")
        return rows

    def _columns(self, first: Columns) -> None:
        """Find the columns of text, label and group in what the first row has."""
        names, where = list(first), f"{self.source.data}, {self.train_name},"
        given = {key: column(self.settings[key], names, where) for key in ("text", "text2", "label", "group")
                 if key in self.settings and (key, self.settings[key]) != ("label", NONE)}  # fmt: skip
        usual = [(name,) for name in SINGLE if name in names] + [pair for pair in PAIRS if {*pair} <= {*names}]
        if "text" in given:
            self.texts = tuple(given[key] for key in ("text", "text2") if key in given)
            if len({*self.texts}) < len(self.texts):
                raise UserError(f"both texts of task {self.name} are the same column: {self.texts[0]}")
        elif "text2" in given or not usual:
            asked = ", ".join((*SINGLE, *(" with ".join(pair) for pair in PAIRS)))
            raise UserError(f"{where} has no text column, such as {asked}: it has {_listed(names)}; "
                            f"use --set {self._how_to_read(names)}")  # fmt: skip
        elif len(usual) > 1:
            raise UserError(f"{where} has the columns {' and '.join('+'.join(one) for one in usual)}: "
                            f"choose the text with --set {self.name}.text=COLUMN")  # fmt: skip
        else:
            self.texts = usual[0]
        self.group, self.label = given.get("group", ""), ""
        self.unlabelled = self.said("label") == NONE
        if self.unlabelled:
            return
        labels = [given["label"]] if "label" in given else [name for name in LABEL if name in names]
        if len(labels) != 1:
            has = f"the columns {' and '.join(labels)}" if labels else f"no label column: it has {_listed(names)}"
            raise UserError(
                f"{where} has {has}; choose with --set {self.name}.label=COLUMN, or {NONE} if there is none"
            )
        self.label = labels[0]
        if len({*self.texts, self.label}) <= len(self.texts):
            raise UserError(f"the label and the text of task {self.name} are the same column: {self.label}")

    def _how_to_read(self, names: Sequence[str]) -> str:
        """What there is to say of columns without a text, as far as their names tell."""
        apart = [word for word, mark in DELIMITERS.items() if len(names) == 1 and mark in names[0]]
        if apart:
            return f"{self.name}.delimiter={apart[0]}"
        text, label = ([name for name in names if name.lower() in usual] for usual in (SINGLE, LABEL))
        settings = [f"{self.name}.{key}={found[0]}" for key, found in (("text", text), ("label", label)) if found]
        if text:
            return " ".join(settings)
        table = f"{self.source.data}".endswith((".csv", ".tsv"))
        first = f", or {self.name}.columns=text,label if the first line is already an example" if table else ""
        return f"{self.name}.text=COLUMN{first}"

    # ------------------------------------------------------------ texts and labels

    def _examples(self, rows: Sequence[Row]) -> list[tuple[str, tuple[str, ...], Any]]:
        return [(where, tuple(self._text(where, row, name) for name in self.texts), self._label(where, row))
                for where, row in rows]  # fmt: skip

    def _text(self, where: str, row: Columns, name: str) -> str:
        text = row.get(name)
        if name not in row:
            raise UserError(f"{where}: there is no column {name}, which other rows have: {near(name, list(row))}")
        if not isinstance(text, str):
            raise UserError(f"{where}: {name} is not text but {short(text)}")
        if wrong := spoilt(text):
            raise UserError(f"{where}: {name} {wrong}")
        if not text.strip():
            raise UserError(f"{where}: {name} is empty")
        return text

    def _label(self, where: str, row: Columns) -> Any:
        """The label as text, a number as it is written; None where the data have none."""
        if not self.label:
            return None
        if self.label not in row:
            found = near(self.label, list(row))
            raise UserError(f"{where}: there is no column {self.label}, which other rows have: {found}")
        label = row[self.label]
        if label is None or (isinstance(label, str) and not label.strip()) or label != label:  # NaN
            raise UserError(f"{where}: there is no label in column {self.label}")
        if not isinstance(label, (str, bool, int, float)):
            raise UserError(f"{where}: a label is a class or a number, not {short(label)}")
        if isinstance(label, str) and (wrong := spoilt(label)):
            raise UserError(f"{where}: {self.label} {wrong}")
        return (str(label).lower() if isinstance(label, bool) else str(label)).strip()

    def _groups(self, rows: Sequence[Row]) -> list[str]:
        if not self.group:
            if "group_until" in self.settings:
                raise UserError(f"{self.name}.group_until has no effect without {self.name}.group")
            return []
        until, found = self.said("group_until"), []
        for where, row in rows:
            if row.get(self.group) in (None, ""):
                raise UserError(f"{where}: there is no {self.group}, the group that keeps examples together")
            group = str(row[self.group])
            if wrong := spoilt(group):
                raise UserError(f"{where}: {self.group} {wrong}")
            if until and until not in group:
                raise UserError(f"{where}: {self.group} {group!r} does not contain {until!r}")
            found.append(group.partition(until)[0] if until else group)
        if len(set(found)) == 1:
            raise UserError(f"{self.source.data}: {self.group} is the same in all examples, so none can be held out")
        return found

    def _is_score(self, examples: Sequence[Example]) -> bool:
        """Whether the labels are numbers to be predicted. Raises UserError where some are no numbers."""
        kind = self.said("kind")
        if kind not in ("", "classes", "score"):
            raise UserError(f"{self.name}.kind must be classes or score, not {kind!r}")
        if kind == "classes" or "classes" in self.settings or (not kind and self.source.classes(self.label)):
            if kind == "score":
                raise UserError(f"{self.name}.kind is score, but {self.name}.classes names classes")
            return False
        examples = [one for one in examples if one[2] is not None]
        numbers = [_number(str(label)) for _, _, label in examples]
        known = sum(number is not None for number in numbers)
        if not known and kind != "score":
            if examples and all(re.fullmatch(r"[-+]?\d+,\d+", str(label).strip()) for _, _, label in examples):
                where, _, label = examples[0]
                raise UserError(
                    f"{where}: {self.label} {short(label)} has a decimal comma: write scores with a point; "
                    f"with {self.name}.kind=classes all are names"
                )
            return False
        if not kind and 2 * known <= len(numbers):  # then those are odd, such as one "NaN" among names
            where, _, label = next(one for one, number in zip(examples, numbers, strict=True) if number is not None)
            raise UserError(
                f"{where}: {self.label} {short(label)} is a number, but {len(numbers) - known} of {len(numbers)} are "
                f"not; with {self.name}.kind=classes all are names"
            )
        for (where, _, label), number in zip(examples, numbers, strict=True):
            if number is None:
                rest = (
                    "" if kind else f", but {known} of {len(numbers)} are; with {self.name}.kind=classes all are names"
                )
                raise UserError(f"{where}: {self.label} {short(label)} is not a number{rest}")
            if not math.isfinite(number):
                raise UserError(f"{where}: {self.label} {short(label)} is not finite")
        whole = all(number == int(number) for number in numbers if number is not None)
        return bool(kind) or not whole or len(set(numbers)) > MOST_CLASSES

    def _classes(self, train: Sequence[Example]) -> list[str]:
        there = list(dict.fromkeys(str(label) for _, _, label in train if label is not None))
        if "classes" in self.settings:
            named = [name.strip() for name in self.settings["classes"].split(",")]
            if len(set(named)) < max(len(named), 2) or "" in named:
                said = self.settings["classes"]
                raise UserError(f"{self.name}.classes must name several classes, all different, not {said!r}")
            return named
        if declared := self.source.classes(self.label):
            return list(declared)
        if not there:
            raise UserError(
                f"{self.source.data} has no labels to tell what is asked: use {self.name}.classes=A,B or "
                f"{self.name}.kind=score"
            )
        if len(there) > MOST_CLASSES and 2 * len(there) > len(train):
            raise UserError(
                f"{self.source.data}: column {self.label} holds {len(there):,} classes in {len(train):,} examples: is "
                f"it the label? Choose another with {self.name}.label=COLUMN"
            )
        numbers = {name: number for name in there if (number := _number(name)) == number and number is not None}
        return sorted(there, key=lambda name: (name not in numbers, numbers.get(name, 0.0), name))

    def _check(self, examples: Sequence[Example], name: str) -> None:
        """Refuse labels outside the classes, and examples with one label alone."""
        for where, _, label in examples if not self.score else ():
            if label not in self.labels:
                raise UserError(f"{where}: label {short(label)} is not one of {', '.join(self.labels)}")
        first = examples[0][2]
        if all(label == first for _, _, label in examples):
            raise UserError(
                f"{self.source.data}: all examples of {name} have the same label, {first}: nothing can be learnt"
            )

    def _check_dev(self, train: Sequence[Example], dev: Sequence[Example]) -> None:
        if Counter((texts, label) for _, texts, label in train) == Counter((texts, label) for _, texts, label in dev):
            raise UserError(f"{self.source.data}: {self.dev_name} and {self.train_name} hold the same examples")
        if not self.label:
            return
        known = {*self.labels} if self.unlabelled else {label for _, _, label in train}
        for where, _, label in dev if not self.score else ():
            if label not in self.labels:
                raise UserError(f"{where}: label {short(label)} is only in {self.dev_name}; train has "
                                f"{_listed(self.labels)}")  # fmt: skip
            if label not in known:
                raise UserError(f"{where}: class {label} is only in {self.dev_name}: no training example has it")
        self._check(dev, self.dev_name)

    # ------------------------------------------------------------ a held-out part

    def _part(self, examples: list[Any]) -> tuple[list[Any], list[Any]]:
        """(those to train on, those held out), drawn by text and seed, so the order of the file does not matter.

        Equal texts and groups stay together, and no class loses its last examples.
        """
        share, seed = _number(self.said("held_out")), self.said("split_seed")
        if share is None or not 0 < share < 1:
            raise UserError(
                f"{self.name}.held_out must be a fraction of train between 0 and 1, not {self.settings['held_out']!r}"
            )
        if not (seed.isascii() and seed.isdigit()):
            raise UserError(f"{self.name}.split_seed must be a whole number, 0 or more, not {seed!r}")
        keys = self.groups or ["\x1f".join(texts) for _, texts, _ in examples]
        members: dict[str, list[int]] = {}
        for number, key in enumerate(keys):
            members.setdefault(key, []).append(number)
        left = Counter(None if self.score else label for _, _, label in examples)
        wanted = min(max(int(share * len(examples)), 1), MOST_HELD_OUT)
        held: set[int] = set()
        for key in sorted(members, key=lambda key: (derive_seed("own data", seed, key), key)):
            takes = Counter(None if self.score else examples[number][2] for number in members[key])
            fits = len(held) + len(members[key]) <= wanted
            if fits and all(left[label] > count for label, count in takes.items()):
                left -= takes
                held |= set(members[key])
        if not held:
            what = "groups" if self.groups else "different texts"
            said = f" with {len(members)} {what}" if len(members) < len(examples) else ""
            raise UserError(
                f"{self.source.data}: {len(examples)} examples{said} are too few to hold any out: give a dev split"
            )
        self.groups = [group for number, group in enumerate(self.groups) if number not in held]
        kept = [example for number, example in enumerate(examples) if number not in held]
        return kept, [examples[number] for number in sorted(held)]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _folded(name: str) -> str:
    """What is the same of names that differ in case, in how a number (1, 1.0) or an accent is written, alone."""
    number = _number(name)
    return unicodedata.normalize("NFKC", name).casefold() if number is None else str(number)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def short(value: object) -> str:
    told = repr(value)
    return told if len(told) <= 60 else f"{told[:57]}..."
