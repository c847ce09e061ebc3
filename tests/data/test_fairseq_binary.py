"""GLUE from fairseq's binary folders: exactly what the official layout of the same rows gives."""

from __future__ import annotations

import logging
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from harness.contracts import Task
from harness.data import loading
from harness.data.task_sources import glue
from harness.data.tasks import get_task
from harness.errors import UserError
from tests.launching import forked
from tests.modeling.test_gpt2_bpe import fairseq_bpe, write_pieces

Row = tuple[str, str, str]  # text, second text, label as official files print it

ODD = (
    'He said " no',
    "naïve “café” — 東京 \U0001f600",
    "two  spaces ,\u00a0three   \u2028more",
    " blanks at both ends ",
    "it's 'll ( $ 3.14 )",
    "<s> & </s> \\ #",
)
SCORES = ("5.000", "3.800", "0.0", "4.700", "4.667", "0.417")
TASKS = ("cola", "sst2", "mrpc", "stsb", "stsb_classes", "qqp", "mnli", "qnli", "qnli_ranking", "rte", "wnli")


def rows_of(task: Task, split: str) -> list[Row]:
    """Six rows, other ones in each split; more in train."""
    turn = len(split) % len(ODD)
    texts = ODD[turn:] + ODD[:turn] + (("one more", "the dog") if split == "train" else ())
    labels = task.labels or SCORES
    seconds = [f"{split} {text}" for text in reversed(texts)]
    return [
        (text, second, labels[(i + turn) % len(labels)])
        for i, (text, second) in enumerate(zip(texts, seconds, strict=True))
    ]


def splits_of(task: Task) -> tuple[str, ...]:
    return ("train", *task.dev_splits, *(split.replace("dev", "test") for split in task.dev_splits))


def write_official(root: Path, task: Task) -> None:
    folder = root / task.folder
    folder.mkdir(parents=True)
    for split in splits_of(task):
        test = split.startswith("test")
        columns = glue.COLUMNS.get(task.folder, ())
        if test:
            columns = (glue.TEST_INDEX.get(task.folder, "index"), *(columns or ("sentence", "label"))[:-1])
        lines = ["\t".join(columns)] if columns else []
        for i, (first, second, label) in enumerate(rows_of(task, split)):
            texts = [first, second] if task.pair else [first]
            cells = [str(i), *texts] if test else [*texts, label] if columns else ["source", label, "", first]
            lines.append("\t".join(cells))
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def binarise(folder: Path, texts: dict[str, list[str]], form: str = "mmap", of: str = "", end: bool = True) -> None:
    """What fairseq-preprocess --only-source does with one file of symbols for each split; the dictionary is train's.

    of: the splits, separated by blanks, that the dictionary is made of instead. end: each line ends with </s>.
    """
    binarizer = pytest.importorskip("fairseq.binarizer")
    from fairseq.data import Dictionary

    folder.mkdir(parents=True)
    symbols = Dictionary()
    for split in of.split() or ["train"]:
        for line in texts[split]:
            symbols.encode_line(line)
    symbols.finalize(padding_factor=8)
    symbols.save(str(folder / "dict.txt"))
    for split, lines in texts.items():
        plain = folder / f"{split}.plain"
        plain.write_text("\n".join(lines) + "\n")
        binarizer.FileBinarizer.multiprocess_dataset(
            str(plain),
            form,
            binarizer.VocabularyDatasetBinarizer(symbols, append_eos=end),
            str(folder / split),
            vocab_size=len(symbols),
            num_workers=1,
        )
        plain.unlink()


def write_binary(root: Path, task: Task, form: str = "mmap", of: str = "all") -> Path:
    """The task's folder as preprocess_GLUE_tasks.sh writes it; encoder.json stands in `root`."""
    root.mkdir(exist_ok=True)
    write_pieces(root)
    folder, bpe = root / f"{task.folder}-bin", fairseq_bpe(root)
    names = ["train", *(f"valid{i or ''}" for i in range(len(task.dev_splits)))]
    names += [f"test{i or ''}" for i in range(len(task.dev_splits))]
    rows = {name: rows_of(task, split) for name, split in zip(names, splits_of(task), strict=True)}
    for position, part in enumerate(("input0", "input1")[: 1 + task.pair]):
        texts = {name: [bpe.encode(row[position]) for row in found] for name, found in rows.items()}
        binarise(folder / part, texts, form, " ".join(names) if of == "all" else of)
    labels = {name: [row[2] for row in found] for name, found in rows.items() if not name.startswith("test")}
    if task.labels:
        binarise(folder / "label", labels, form)
        return folder
    (folder / "label").mkdir()
    for name, found in labels.items():
        fifths = "".join(f"{float(score) / 5:.6g}\n" for score in found)  # as awk prints them
        (folder / "label" / f"{name}.label").write_text(fifths)
    return folder


@pytest.mark.parametrize("name", TASKS)
def test_it_is_what_the_official_layout_gives(tmp_path: Path, name: str) -> None:
    task = get_task(name)
    write_official(tmp_path / "official", task)
    write_binary(tmp_path / "binary", task, "cached" if name in ("cola", "rte") else "mmap")
    for layout in ("official", "binary"):  # fairseq leaves the diagnostic pairs as they are
        (tmp_path / layout / "diagnostic").mkdir()
        (tmp_path / layout / "diagnostic" / "diagnostic.tsv").write_text("index\tsentence1\tsentence2\n3\tA\tB\n")
    same(task, str(tmp_path / "official"), str(tmp_path / "binary"))


def same(task: Task, official: str, binary: str) -> None:
    expected, found = loading.load(task, official), loading.load(task, binary)
    assert len(expected.train.labels) == 8
    for theirs, ours in zip((expected.train, *expected.dev), (found.train, *found.dev), strict=True):
        assert (ours.name, ours.text_a, ours.text_b) == (theirs.name, theirs.text_a, theirs.text_b)
        assert ours.labels.tolist() == theirs.labels.tolist() and ours.labels.dtype == theirs.labels.dtype
    (expected_test, expected_hash), (test, test_hash) = (loading.load_test(task, s) for s in (official, binary))
    assert expected_hash == test_hash
    for numbered, mine in zip(expected_test, test, strict=True):
        assert (mine.index, mine.split.text_a) == (numbered.index, numbered.split.text_a)


def test_where_both_layouts_are_there_the_official_one_is_read(tmp_path: Path) -> None:
    task = get_task("rte")
    write_official(tmp_path, task)
    content = loading.content(task, str(tmp_path))
    (tmp_path / "RTE-bin").mkdir()
    assert loading.load(task, str(tmp_path)).content == loading.content(task, str(tmp_path)) == content


def test_encoder_json_may_stand_in_the_folder_of_the_task(tmp_path: Path) -> None:
    task = get_task("sst2")
    folder = write_binary(tmp_path, task)
    (tmp_path / "encoder.json").rename(folder / "encoder.json")
    assert loading.load(task, str(tmp_path)).train.text_a == [text for text, _, _ in rows_of(task, "train")]


def test_sequences_may_stand_without_an_end(tmp_path: Path) -> None:
    task = get_task("sst2")
    folder = write_binary(tmp_path, task)
    shutil.rmtree(folder / "input0")
    texts = [text for text, _, _ in rows_of(task, "train")]
    lines = [fairseq_bpe(tmp_path).encode(text) for text in texts]
    binarise(folder / "input0", {"train": lines, "valid": lines[:6]}, end=False)
    assert loading.load(task, str(tmp_path)).train.text_a == texts


def test_content_is_that_of_the_files_that_are_read(tmp_path: Path) -> None:
    task = get_task("mrpc")
    folder = write_binary(tmp_path / "a", task)
    content = loading.content(task, str(tmp_path / "a"))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert loading.load(task, str(tmp_path / "b")).content == content
    read = [tmp_path / "a" / "encoder.json"]
    read += [folder / part / "dict.txt" for part in ("input0", "input1", "label")]
    parts = ("input0", "input1", "label")
    read += [folder / p / f"{n}.{s}" for p in parts for n in ("train", "valid") for s in ("bin", "idx")]
    for path in read:
        whole = path.read_bytes()
        path.write_bytes(whole + b" ")
        assert loading.content(task, str(tmp_path / "a")) != content, path
        path.write_bytes(whole)
    (folder / "input0" / "test.bin").write_bytes(b"another")
    assert loading.content(task, str(tmp_path / "a")) == content


def test_a_piece_that_the_dictionary_lacked_is_a_word(tmp_path: Path) -> None:
    task = get_task("sst2")
    write_binary(tmp_path, task, of="valid")
    bpe = fairseq_bpe(tmp_path)
    known = {symbol for text, _, _ in rows_of(task, "dev") for symbol in bpe.encode(text).split()}
    assert loading.load(task, str(tmp_path)).dev[0].text_a == [text for text, _, _ in rows_of(task, "dev")]
    plain = "the dog"  # a byte a character, so that each piece is text by itself
    pieces = bpe.encode(plain).split()
    expected = "".join(bpe.decode(piece) if piece in known else "<unk>" for piece in pieces)
    assert "<unk>" in expected
    assert loading.load(task, str(tmp_path)).train.text_a[-1] == expected


def read_anew(folder: str) -> None:
    warnings.simplefilter("ignore")
    assert "fairseq" not in sys.modules
    loading.load(get_task("sst2"), folder)
    assert "fairseq" in sys.modules
    print(logging.getLogger().handlers, logging.getLogger().level)


def test_importing_fairseq_says_nothing_and_leaves_the_logging_as_it_was(tmp_path: Path) -> None:
    write_binary(tmp_path, get_task("sst2"))
    done = forked(tmp_path, folder=tmp_path / "said", work=read_anew)
    assert (done.stderr, done.stdout) == ("", f"[] {logging.WARNING}\n")


def cut(path: Path, size: int = -3) -> None:
    path.write_bytes(path.read_bytes()[:size])


def relabel(folder: Path, lines: list[str]) -> None:
    (folder / "label" / "dict.txt").write_text("\n".join(lines) + "\n")


def other_ids(folder: Path, count: int) -> None:
    """Leave `count` symbols in the dictionary of the first texts."""
    path = folder / "input0" / "dict.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:count]))


DAMAGE: dict[str, tuple[Any, str]] = {
    "no split": (lambda f: (f / "input1" / "valid.bin").unlink(), r"input1/valid\.bin, a part .* does not exist"),
    "no index": (lambda f: (f / "input0" / "train.idx").unlink(), r"input0/train\.idx, a part .* does not exist"),
    "no dictionary": (lambda f: (f / "input1" / "dict.txt").unlink(), r"input1/dict\.txt cannot be read"),
    "no labels": (lambda f: shutil.rmtree(f / "label"), r"label/dict\.txt cannot be read"),
    "no encoder": (lambda f: (f.parent / "encoder.json").unlink(), r"RTE-bin holds GPT-2 pieces.*encoder\.json.*put"),
    "cut short": (
        lambda f: cut(f / "input0" / "train.bin"),
        r"input0/train\.bin is broken: \d+ bytes where",
    ),
    "empty": (lambda f: cut(f / "label" / "train.bin", 0), r"label/train\.bin is empty"),
    "index cut": (lambda f: cut(f / "input0" / "train.idx", -9), r"input0/train\.idx is broken"),
    "no format": (
        lambda f: (f / "input0" / "train.idx").write_bytes(b"x" * 99),
        r"train\.idx is in none of fairseq's form",
    ),
    "fewer seconds": (
        lambda f: [shutil.copy(f / "input1" / f"valid.{s}", f / "input1" / f"train.{s}") for s in ("bin", "idx")],
        r"RTE-bin must have as many .* but train has 8 in input0, 6 in input1, 8 in label",
    ),
    "fewer labels": (
        lambda f: [shutil.copy(f / "label" / f"train.{s}", f / "label" / f"valid.{s}") for s in ("bin", "idx")],
        r"valid has 6 in input0, 6 in input1, 8 in label",
    ),
    "a strange label": (
        lambda f: relabel(f, ["entailment 3", "not-entailment 3"]),
        r"label/dict\.txt: task rte has no label 'not-entailment': did you mean not_entailment",
    ),
    "a label less": (
        lambda f: relabel(f, ["entailment 3", "madeupword0000 0"]),
        r"label/dict\.txt lacks label 'not_entailment' of task rte: it has entailment",
    ),
    "an unknown label": (
        lambda f: relabel(f, ["madeupword0000 0", "madeupword0001 0", "entailment 3", "not_entailment 3"]),
        r"label/train\.bin, example 0: label 'madeupword000\d' is not one of entailment, not_entailment",
    ),
    "another dictionary": (lambda f: other_ids(f, 5), r"input0/train\.bin, example 0: id \d+ is not one of the 9 in"),
    "another encoder": (
        lambda f: (f / "input0" / "dict.txt").write_text("".join(f"{90000 + i} 1\n" for i in range(999))),
        r"input0/train\.bin, example 0: .*encoder\.json has no piece with the id '90\d\d\d'",
    ),
}


@pytest.mark.parametrize("form", ["mmap", "cached"])
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # fairseq's, of what it half opened
def test_damaged_folders(tmp_path: Path, damage: str, form: str) -> None:
    task = get_task("rte")
    folder = write_binary(tmp_path, task, form)
    harm, message = DAMAGE[damage]
    harm(folder)
    with pytest.raises(UserError, match=message):
        loading.load(task, str(tmp_path))


def test_scores_of_many_digits_come_back_as_exactly_as_they_were_written(tmp_path: Path) -> None:
    path = write_binary(tmp_path, get_task("stsb")) / "label" / "valid.label"
    path.write_text("".join(f"{score / 5:.6g}\n" for score in (19 / 9, 34 / 9, 7 / 3, 1.53333333333333, 2.3, 2.5)))
    labels = loading.load(get_task("stsb"), str(tmp_path)).dev[0].labels
    assert labels.tolist() == pytest.approx([19 / 9, 34 / 9, 7 / 3, 1.53333333333333, 2.3, 2.5], abs=2.6e-6)


@pytest.mark.parametrize(("lines", "message"), [("1\nhigh\n", r"train\.label, line 2: score 'high'"), (None, "read")])
def test_damaged_scores(tmp_path: Path, lines: str | None, message: str) -> None:
    path = write_binary(tmp_path, get_task("stsb")) / "label" / "train.label"
    path.unlink()
    if lines is not None:
        path.write_text(lines)
    with pytest.raises(UserError, match=message):
        loading.load(get_task("stsb"), str(tmp_path))


def test_without_fairseq_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = get_task("sst2")
    write_binary(tmp_path, task)
    for name in [name for name in sys.modules if name.partition(".")[0] == "fairseq"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fairseq", None)
    message = r'SST-2-bin.*fairseq.*pip install "distill-harness\[fairseq\]".*--no-deps ve-fairseq==0\.12\.3'
    for read in (loading.load, loading.content, loading.load_test):
        with pytest.raises(UserError, match=message):
            read(task, str(tmp_path))
