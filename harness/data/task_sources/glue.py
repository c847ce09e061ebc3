"""GLUE's nine tasks (Wang et al. 2018), STS-B as classes, QNLI as ranking: from the official folder and the hub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.contracts import Task
from harness.data.places import entries, kind_at
from harness.data.sources import Example, Split, TaskSource, content_of, lines, task_source
from harness.errors import UserError, alike, near

ENTAILMENT = ("entailment", "not_entailment")
PARAPHRASE = ("accuracy_f1_mean", ("accuracy", "f1", "accuracy_f1_mean"))
SIMILARITY = ("pearson_spearman_mean", ("pearson", "spearman", "pearson_spearman_mean"))
ACCEPTABILITY = ("matthews", ("matthews", "accuracy"))
ACCURACY = ("accuracy", ("accuracy",))
BINARY = ("0", "1")
# Scores rounded to steps of 0.2 and clipped to 1..5: 21 classes, as in Raffel et al. (2020), appendix, for T5.
FIFTHS = tuple(k / 5 for k in range(5, 26))

GLUE = (
    Task("cola", "CoLA", *ACCEPTABILITY, BINARY, folder="CoLA", examples=8551),
    Task("sst2", "SST-2", *ACCURACY, BINARY, folder="SST-2", examples=67349),
    Task("mrpc", "MRPC", *PARAPHRASE, BINARY, pair=True, folder="MRPC", examples=3668),
    Task("stsb", "STS-B", *SIMILARITY, pair=True, folder="STS-B", range=(0.0, 5.0), examples=5749),
    Task("stsb_classes", "STS-B", *SIMILARITY, (), True, "STS-B", FIFTHS, range=(0.0, 5.0), examples=5749),
    Task("qqp", "QQP", *PARAPHRASE, BINARY, pair=True, folder="QQP", examples=363846),
    Task(
        "mnli",
        "MNLI",
        *ACCURACY,
        labels=("entailment", "neutral", "contradiction"),
        pair=True,
        folder="MNLI",
        dev_splits=("dev_matched", "dev_mismatched"),
        examples=392702,
    ),
    Task("qnli", "QNLI", *ACCURACY, ENTAILMENT, pair=True, folder="QNLI", examples=104743),
    # Relevance ranking, as in Liu et al. (2019), MT-DNN, section 3, for liu2020, section 4.1.1.
    Task("qnli_ranking", "QNLI", *ACCURACY, ENTAILMENT, pair=True, folder="QNLI", ranking=True, examples=104743),
    Task("rte", "RTE", *ACCURACY, ENTAILMENT, pair=True, folder="RTE", examples=2490),
    Task("wnli", "WNLI", *ACCURACY, BINARY, pair=True, folder="WNLI", examples=635),
)

HUB = "nyu-mll/glue"
# What a model of MNLI answers too: pairs by linguistic phenomenon (Wang et al. 2018, section 3.2).
DIAGNOSTIC, DIAGNOSED, HUB_DIAGNOSTIC = "diagnostic", "MNLI", ("ax", "test")

# The columns of the official files (nyu-mll.github.io), (text, [second text,] label). CoLA has no header.
_SENTENCES = ("sentence1", "sentence2")
COLUMNS: dict[str, tuple[str, ...]] = {
    "SST-2": ("sentence", "label"),
    "MRPC": ("#1 String", "#2 String", "Quality"),
    "STS-B": (*_SENTENCES, "score"),
    "QQP": ("question1", "question2", "is_duplicate"),
    "MNLI": (*_SENTENCES, "gold_label"),
    "QNLI": ("question", "sentence", "label"),
    "RTE": (*_SENTENCES, "label"),
    "WNLI": (*_SENTENCES, "label"),
}
COLA_POSITIONS, COLA_WIDTH = (3, 1), 4  # source, label, author's mark, sentence
# Some questions of the official QQP files contain line breaks and tabs; every published reader drops those rows.
BROKEN_LINES = ("QQP",)
LONGEST = 18  # digits of a test example's number
TEST_INDEX = {"QQP": "id"}  # of test files, which all have a header; "index" in the others
HUB_TEXTS = {"MNLI": ("premise", "hypothesis"), "MRPC": _SENTENCES}  # where its columns have other names


class Glue(TaskSource):
    """One of the ways to GLUE's data."""

    title, tested = "GLUE", True
    hint = "give GLUE's folder with --data DIR (or --data hub)"

    def elsewhere(self, task: Task, where: str) -> str:
        return f"task {task.name} is not in {where}: {self.hint}"

    def splits(self, task: Task) -> list[Split]:
        """Raises UserError too for examples without a text, train with one label alone, and a dev that is its copy.

        One text of a pair may be empty: so QQP was published.
        """
        found = super().splits(task)
        examples = [[*zip(split.text_a, split.text_b or split.text_a, split.labels.tolist(), strict=True)]
                    for split in found]  # fmt: skip
        for split, there in zip(found, examples, strict=True):
            of = f"{split.name} of task {task.name}"
            for number, (first, second, _) in enumerate(there, 1):
                if not first.strip() and not second.strip():
                    raise UserError(f"{self.data}: example {number} of {of} has no text")
            for which, texts in (("first", split.text_a), ("second", split.text_b or ["-"])):
                if not any(map(str.strip, texts)):
                    raise UserError(f"{self.data}: no example of {of} has a {which} text")
            if len(there) == len(examples[0]) and split is not found[0] and Counter(there) == Counter(examples[0]):
                raise UserError(f"{self.data}: {of} holds the same examples as train")
        labels = {label for *_, label in examples[0]}
        if len(labels) < 2 <= len(examples[0]):
            raise UserError(f"{self.data}: all training examples of task {task.name} have the same label")
        return found


@task_source("glue_folder", tasks=GLUE)
class GlueFolder(Glue):
    """GLUE in its official layout, a folder of TSV files for each task (FOLDER/MRPC/train.tsv)."""

    given = "path"

    def holds(self, task: Task) -> bool:
        return kind_at(Path(self.data) / task.folder) == "folder" or kind_at(self.binary(task)) != "folder"

    def binary(self, task: Task) -> Path:
        """Where fairseq's layout has the task."""
        return Path(self.data) / f"{task.folder}-bin"

    def examples(self, task: Task, split: str) -> Iterator[Example]:
        test, number = split in self.tests(task), TEST_INDEX.get(task.folder, "index")
        columns = (number, *_texts(task)) if test else COLUMNS.get(task.folder, ())
        for where, cells in _cells(self._path(task, split), columns, task.folder in BROKEN_LINES and not test):
            if test and not (cells[0].isdecimal() and len(cells[0]) <= LONGEST):
                raise UserError(f"{where}: {number} {cells[0]!r} is not a whole number of at most {LONGEST} digits")
            yield (where, cells[1:], cells[0]) if test else (where, cells[:-1], cells[-1])

    def content(self, task: Task) -> str:
        return content_of(self._path(task, split) for split in ("train", *task.dev_splits))

    def tests(self, task: Task) -> Sequence[str]:
        return [*super().tests(task), *(folder.name for folder in self.diagnostic(task))]

    def parts(self, task: Task) -> Sequence[Path]:
        return [Path(self.data) / task.folder, *self.diagnostic(task)]

    def diagnostic(self, task: Task) -> Sequence[Path]:
        """The folder of the diagnostic pairs, where the task answers them and they are there."""
        folder = Path(self.data) / DIAGNOSTIC
        return [folder] if task.folder == DIAGNOSED and kind_at(folder / f"{DIAGNOSTIC}.tsv") == "file" else []

    def _path(self, task: Task, split: str) -> Path:
        """The split's file. Raises UserError naming the first part of the path that is missing."""
        root = Path(self.data)
        folder = root / (DIAGNOSTIC if split == DIAGNOSTIC else task.folder)
        path = folder / f"{split}.tsv"
        if kind_at(root) != "folder":
            wrong = "is a file" if kind_at(root) else f"does not exist{alike(root, folders=True)}"
            raise UserError(f"data folder {root} {wrong}")
        if kind_at(folder) != "folder":
            folders = [entry.name for entry in entries(root) if entry.is_dir()]
            raise UserError(
                f"data folder {root} has no folder {task.folder} for task {task.name}: {near(task.folder, folders)}"
            )
        if kind_at(path) != "file":
            wrong = "is a folder" if kind_at(path) else "does not exist"
            raise UserError(f"task {task.name} needs {path}, which {wrong}")
        return path


@task_source("hub", tasks=GLUE)
class GlueHub(Glue):
    """GLUE as the Hugging Face hub keeps it (nyu-mll/glue)."""

    title, given, remote, dataset = "hub", "name", True, HUB

    def tests(self, task: Task) -> Sequence[str]:
        return [*super().tests(task), *[DIAGNOSTIC] * (task.folder == DIAGNOSED)]

    def examples(self, task: Task, split: str) -> Iterator[Example]:
        """Class indices there are in the order of task.labels."""
        import datasets

        config, part = task.folder.replace("-", "").lower(), split.replace("dev", "validation")
        if split == DIAGNOSTIC:
            config, part = HUB_DIAGNOSTIC
        try:
            found = datasets.load_dataset(HUB, config)[part]
        except Exception as error:  # the clients that it asks through have no common base
            raise UserError(
                f"task {task.name} cannot be read from the hub ({HUB}): {error}; give a folder with --data DIR"
            ) from error
        test = split in self.tests(task)
        columns = *HUB_TEXTS.get(task.folder, _texts(task)), "idx" if test else "label"
        for *texts, label in zip(*(found[column] for column in columns), strict=True):
            named = bool(task.labels) and not test
            if named and label not in range(len(task.labels)):
                raise UserError(f"task {task.name} on the hub ({HUB}) has unlabelled examples in {split}")
            yield f"{HUB}, {split}", texts, task.labels[label] if named else label


def _texts(task: Task) -> tuple[str, ...]:
    """The columns of the official files that hold the texts."""
    return COLUMNS.get(task.folder, ("sentence", "label"))[:-1]


def _cells(path: Path, columns: Sequence[str], dropping: bool = False) -> Iterator[tuple[str, list[str]]]:
    """("FILE, line N", what it holds in these columns) for every line; without columns, those of a CoLA file.

    dropping: lines that are too short are left out.
    """
    found, needed, most = lines(path), list(COLA_POSITIONS), COLA_WIDTH
    if columns:
        header = found.pop(0).split("\t")
        for column in columns:
            if column not in header:
                raise UserError(f"{path}, line 1: the header has no column {column!r}: {near(column, header)}")
            if header.count(column) > 1:
                raise UserError(f"{path}, line 1: the header names the column {column!r} {header.count(column)} times")
        needed, most = [header.index(column) for column in columns], len(header)
    if not found:
        raise UserError(f"{path} has a header but no examples")
    width = max(needed) + 1
    for number, line in enumerate(found, 2 if columns else 1):
        fields, where = line.split("\t"), f"{path}, line {number}"
        if len(fields) > most and path.parent.name not in BROKEN_LINES:
            raise UserError(f"{where}: {len(fields)} tab-separated columns, but lines of this file have {most}")
        if len(fields) >= width:
            yield where, [fields[position] for position in needed]
        elif not dropping:
            raise UserError(f"{where}: {len(fields)} tab-separated columns where at least {width} are needed")
