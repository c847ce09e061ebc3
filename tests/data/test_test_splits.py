"""The official test splits: their columns and numbers, and what is said where they are not as they should be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness.data import loading
from harness.data.tasks import get_task
from harness.errors import UserError

GLUE = Path(os.environ.get("GLUE_DIR", Path(__file__).parents[2].parent / "shared" / "glue"))
needs_glue = pytest.mark.skipif(not GLUE.is_dir(), reason="no GLUE: set GLUE_DIR to a folder in its official layout")

FILES = {
    "cola": ("index\tsentence", ["0\tIt works .", "1\tWorks it ."]),
    "sst2": ("index\tsentence", ["0\tit works", "1\tit fails"]),
    "mrpc": ("\ufeffindex\t#1 ID\t#2 ID\t#1 String\t#2 String", ['0\t7\t8\tHe said " no\tNo', "1\t7\t8\tA\tB"]),
    "stsb": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2",
        ["0\tg\tf\ty\to\tn\tn\tA\tB", "1\tg\tf\ty\to\tn\tn\tC\tD"],
    ),
    "qqp": ("id\tquestion1\tquestion2", ["0\tWhy ?\tHow ?", "1\tWho ?\tWho ?"]),
    "mnli": ("index\tpromptID\tsentence1_parse\tsentence1\tsentence2", ["0\tp\t( A\tA\tB", "1\tp\t( C\tC\tD"]),
    "qnli": ("index\tquestion\tsentence", ["0\tQ ?\tS .", "1\tQ ?\tT ."]),
    "rte": ("index\tsentence1\tsentence2", ["0\tA\tB", "5\tC\tD"]),
    "wnli": ("index\tsentence1\tsentence2", ["0\tA\tB", "1\tC\tD"]),
}


def write(root: Path, name: str, lines: list[str] | None = None, header: str | None = None) -> None:
    """Every test file of the task, with these lines in place of its own."""
    first, rows = FILES[name]
    folder = root / get_task(name).folder
    folder.mkdir(exist_ok=True)
    text = "\n".join([first if header is None else header, *(rows if lines is None else lines)]) + "\n"
    for split in get_task(name).dev_splits:
        (folder / f"{split.replace('dev', 'test')}.tsv").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_every_task_in_the_official_layout(tmp_path: Path, name: str) -> None:
    write(tmp_path, name)
    task = get_task(name)
    found, content = loading.load_test(task, str(tmp_path))
    assert [test.split.name for test in found] == (["test_matched", "test_mismatched"] if name == "mnli" else ["test"])
    fields = [line.split("\t") for line in FILES[name][1]]
    for test in found:
        assert test.index == [int(field[0]) for field in fields]
        assert test.split.labels.tolist() == [0, 0]
        assert test.split.text_a == [field[-2 if task.pair else -1] for field in fields]
        assert test.split.text_b == ([field[-1] for field in fields] if task.pair else None)
    assert len(content) == 64


def test_the_diagnostic_pairs_are_mnlis_alone(tmp_path: Path) -> None:
    write(tmp_path, "mnli")
    write(tmp_path, "rte")
    before = loading.load_test(get_task("mnli"), str(tmp_path))
    (tmp_path / "diagnostic").mkdir()
    (tmp_path / "diagnostic" / "diagnostic.tsv").write_text("index\tsentence1\tsentence2\n0\tA\tB\n7\tB\tA\n")
    found, content = loading.load_test(get_task("mnli"), str(tmp_path))
    assert repr(found[:2]) == repr(before[0]) and content != before[1]
    assert (found[2].split.name, found[2].index) == ("diagnostic", [0, 7])
    assert (found[2].split.text_a, found[2].split.text_b) == (["A", "B"], ["B", "A"])
    assert loading.source_of(get_task("mnli"), str(tmp_path)).parts(get_task("mnli"))[1] == tmp_path / "diagnostic"
    assert len(loading.load_test(get_task("rte"), str(tmp_path))[0]) == 1


def test_content_follows_texts_and_numbers(tmp_path: Path) -> None:
    def content(name: str, lines: list[str]) -> str:
        write(tmp_path, name, lines)
        return loading.load_test(get_task(name), str(tmp_path))[1]

    known = content("rte", ["0\tA\tB", "5\tC\tD"])
    others = [content("rte", lines) for lines in (["0\tA\tB"], ["0\tA\tB", "6\tC\tD"], ["0\tA\tB", "5\tC\tE"])]
    assert len({known, *others}) == 4
    assert content("rte", ["0\tA\tB", "5\tC\tD"]) == known


@pytest.mark.parametrize(
    ("name", "lines", "header", "said"),
    [
        ("rte", ["0\tA\tB", "1\tA"], None, r"RTE/test\.tsv, line 3: 2 tab-separated columns .* 3"),
        ("rte", ["one\tA\tB"], None, r"RTE/test\.tsv, line 2: index 'one' is not a whole number"),
        ("rte", ["9" * 5000 + "\tA\tB"], None, "is not a whole number of at most 18 digits"),
        ("qqp", ["-1\tA\tB"], None, r"line 2: id '-1' is not a whole number"),
        ("qqp", ["0\tA", "B\tC"], None, r"line 2: 2 tab-separated columns"),  # a row without a prediction fails there
        ("rte", ["0\tA\tB", "1\tC\tD", "1\tE\tF"], None, r"line 4: number 1 is already that of .*, line 3: give"),
        ("sst2", [], None, "a header but no examples"),
        ("sst2", None, "sentence\tlabel", r"line 1: the header has no column 'index'"),
    ],
)
def test_bad_files_are_named_with_their_line(
    tmp_path: Path, name: str, lines: list[str] | None, header: str | None, said: str
) -> None:
    write(tmp_path, name, lines, header)
    with pytest.raises(UserError, match=said):
        loading.load_test(get_task(name), str(tmp_path))


def test_what_has_no_test_split_is_said(tmp_path: Path) -> None:
    write(tmp_path, "mnli")
    (tmp_path / "MNLI" / "test_mismatched.tsv").unlink()
    with pytest.raises(UserError, match=r"task mnli needs .*MNLI/test_mismatched\.tsv, which does not exist"):
        loading.load_test(get_task("mnli"), str(tmp_path))
    with pytest.raises(UserError, match="paraphrase of the embedded suite has no test split"):
        loading.load_test(get_task("paraphrase"), "embedded")
    with pytest.raises(UserError, match="not in the embedded suite"):
        loading.load_test(get_task("rte"), "embedded")


def test_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    rows = {"premise": ["A", "C"], "hypothesis": ["B", "D"], "label": [-1, -1], "idx": [3, 4]}

    def load_dataset(path: str, name: str) -> Any:
        assert path == "nyu-mll/glue"
        parts = {"mnli": ("test_matched", "test_mismatched"), "ax": ("test",)}[name]
        return datasets.DatasetDict({part: datasets.Dataset.from_dict(rows) for part in parts})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    found, _ = loading.load_test(get_task("mnli"), "hub")
    assert [test.split.name for test in found] == ["test_matched", "test_mismatched", "diagnostic"]
    assert [(test.split.text_a, test.split.text_b, test.index) for test in found] == [
        (["A", "C"], ["B", "D"], [3, 4])
    ] * 3


@needs_glue
@pytest.mark.parametrize(
    ("name", "size"),
    [("cola", 1063), ("sst2", 1821), ("mrpc", 1725), ("stsb", 1379), ("qnli", 5463), ("rte", 3000), ("wnli", 146)],
)
def test_real_files(name: str, size: int) -> None:
    task = get_task(name)
    if not (GLUE / task.folder / "test.tsv").is_file():
        pytest.skip(f"this GLUE folder has no test split of {task.folder}")
    (test,), _ = loading.load_test(task, str(GLUE))
    assert test.index == list(range(size))
    assert all(text.strip() for text in [*test.split.text_a, *(test.split.text_b or [])])
