"""Wrong parts of splits, texts, labels, settings and functions of plugins: one sentence each, as in its sibling."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import registry
from harness.data import own, sources
from harness.data.declaration import Declaration
from harness.data.task_sources import own_files
from harness.errors import UserError
from tests.data.test_hostile_data import GOOD, reads, rows, written
from tests.data.test_new_source import forget as forget

MORE = "text,label\nso,no\noh,yes\n"
HALF = json.dumps({"text": "fine", "label": "a", "id": 1}) + "\n"


@pytest.fixture(autouse=True)
def forgotten(forget: Callable[[], None]) -> Iterator[None]:
    yield
    own.KNOWN.clear()


def refusal(place: object, *settings: str) -> str:
    with pytest.raises(UserError) as refused:
        reads(place, *settings)
    told = str(refused.value)
    assert "\n" not in told and not told.endswith("."), told
    return told


# ---------------------------------------------------------------- a split in parts


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("train-00000-of-00003", "train-00002-of-00003"), r"all of train: train-00001-of-00003\.csv is missing$"),
        (("train-00000-of-00002",), r"train-00001-of-00002\.csv is missing"),
        (("train-00001-of-00003", "train-00002-of-00003"), r"train-00000-of-00003\.csv is missing"),
        (("train-0-of-9", "train-8-of-9"), r"train-1-of-9\.csv, .*train-5-of-9\.csv and 2 more are missing"),
        (("train-0", "train-3"), r"train-1\.csv, train-2\.csv are missing"),
        (("train-1", "train-3"), r"train-2\.csv is missing"),
        (("train-0-of-2", "train-1-of-3"), r"train in two forms, train-0-of-2\.csv and train-1-of-3\.csv; keep only"),
        (("train-0-of-1", "train"), r"train in two forms, train-0-of-1\.csv and train\.csv; keep only"),
        (("train-0-of-2", "train-1"), "train in two forms"),
        (("train-0-of-2", "train-00-of-2", "train-1-of-2"), r"part of train twice: train-0-of-2\.csv and train-00-of-"),
        (("train-0-of-2", "train-1-of-2", "train-2-of-2"), "part 2 of train, but its file names count 2 parts$"),
    ],
)
def test_parts_that_are_no_whole(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    told = refusal(written(tmp_path, **{f"{name}_csv": GOOD for name in names}))
    assert re.search(message, told), told


@pytest.mark.parametrize(
    "names",
    [
        ("train-00000-of-00001",),
        ("train-00000-of-00001-0123456789abcdef",),
        ("train-1-of-2", "train-2-of-2"),
        ("train-1", "train-2"),
        ("train-2019", "train-2021"),
        ("train-00001-of-00002", "train-00000-of-00002", "test-00000-of-00002"),
    ],
)
def test_parts_that_are_whole(tmp_path: Path, names: tuple[str, ...]) -> None:
    """However they are counted; those of a split that is not read do not matter. One of them may be named."""
    folder = written(tmp_path, **{f"{name}_csv": f"{GOOD}{name},no\n" for name in names}, dev_csv=MORE)
    trained = 5 * sum(name.startswith("train") for name in names)
    assert f"; {trained} to train on, 2 reported (dev)" in reads(folder).told
    assert "; 5 to train on" in reads(folder, f"train={names[0]}.csv").told


# ---------------------------------------------------------------- texts, labels, classes


@pytest.mark.parametrize("name", ["text", "label", "id"])
def test_half_a_character(tmp_path: Path, name: str) -> None:
    """ "\\ud800" in JSON, which is no text: in a text, a label or a group."""
    spoilt = json.dumps({"text": "good", "label": "b", "id": 2, name: "x\ud800"})
    place = written(tmp_path, a_jsonl=f"{HALF}{spoilt}\n{HALF}") / "a.jsonl"
    assert refusal(place, "group=id").endswith(f"a.jsonl, line 2: {name} contains half a character, such as \\ud800 "
                                               "without its other half")  # fmt: skip


def test_half_a_character_of_any_source() -> None:
    task = sources.Task("other", "Other", "accuracy", ("accuracy",), ("a", "b"))
    with pytest.raises(UserError, match="here, 1: a text contains half a character"):
        sources._split(task, "train", [("here, 1", ["x\udc00"], "a")])


def test_a_class_without_an_example(tmp_path: Path) -> None:
    """It is told: a list of classes may be longer than what data hold. Examples in dev alone are refused."""
    folder = written(tmp_path, train_csv=GOOD, dev_csv=MORE)
    assert "3 classes (no, yes, maybe), but no example of maybe; " in reads(folder, "classes=no,yes,maybe").told
    assert "no example" not in reads(folder).told
    for said in ("no,yes,", "no,no,yes", "no"):
        assert f"must name several classes, all different, not '{said}'" in refusal(folder, f"classes={said}")


def test_a_class_that_is_there_once_is_told(tmp_path: Path) -> None:
    """It is a slip of the pen more often than a class."""
    labels = ["yes", "no"] * 8
    assert "single" not in reads(written(tmp_path, a_jsonl=rows(*labels)) / "a.jsonl").told
    for slips, said in ((["yess"], "yess"), (["yess", "noo"], "noo, yess")):
        told = reads(written(tmp_path, b_jsonl=rows(*labels, *slips)) / "b.jsonl").told
        assert f", with a single example of {said}; " in told, told


def test_classes_are_in_one_order_whatever_that_of_the_rows(tmp_path: Path) -> None:
    orders = [["nan", 2, 10, "b"], [10, "b", "nan", 2]]
    found = [reads(written(tmp_path, a_jsonl=rows(*order * 4)) / "a.jsonl", "kind=classes") for order in orders]
    assert [one.task.labels for one in found] == [("2", "10", "b", "nan")] * 2


@pytest.mark.parametrize("said", ["kind=classes", "classes=0,1,nan"])
def test_what_is_not_a_number_is_no_class(tmp_path: Path, said: str) -> None:
    """So pandas and NumPy write a label that is missing; the word "nan" is a name like others."""
    place = written(tmp_path, a_jsonl=rows(*[0, 1, float("nan")] * 4)) / "a.jsonl"
    assert refusal(place, said).endswith("line 3: there is no label in column label")


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("1e308", "line 3: score '1e[+]308' is too large to be learnt"),
        ("-1e20", "score '-1e[+]20' is too large"),
        ("1e999", "line 3: label 'inf' is not finite"),
        ("NaN", "line 3: there is no label in column label"),
        ("9" * 400, "label '9+[.]{3} is not finite"),
    ],
)
def test_a_score_that_spoils_all(tmp_path: Path, score: str, message: str) -> None:
    text = rows(0.5, 1.5, "SCORE", *(n / 3 for n in range(20))).replace('"SCORE"', score)
    place = written(tmp_path, a_jsonl=text) / "a.jsonl"
    with pytest.raises(UserError, match=message):
        known = reads(place)
        known.source.content(known.task)  # as every plan asks


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD.encode("utf-16"), "is UTF-16 or UTF-32, not UTF-8 text"),
        (GOOD.encode("utf-16-le"), "is UTF-16 or not text at all, not UTF-8 text"),
        (b"\x1f\x8b\x08\x00", "is gzip-compressed, not UTF-8 text"),
        (b"PK\x03\x04", "is a zip archive or an Office document, not"),
        (GOOD.replace("\n", "\r").encode(), "line 1: a carriage return inside a line"),
    ],
)
def test_a_file_of_another_kind(tmp_path: Path, content: bytes, message: str) -> None:
    assert message in refusal(written(tmp_path, a_csv=content) / "a.csv")


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize("said", ["abc", "-1", "1.5", "nan", "²"])
def test_a_draw_that_is_no_number(tmp_path: Path, said: str) -> None:
    place = written(tmp_path, a_csv=GOOD) / "a.csv"
    assert refusal(place, f"split_seed={said}") == f"mine.split_seed must be a whole number, 0 or more, not {said!r}"


@pytest.mark.parametrize("said", ["nan", "inf", "0", "1", "2", "-0.2", "some"])
def test_a_part_that_is_none(tmp_path: Path, said: str) -> None:
    place = written(tmp_path, a_csv=GOOD) / "a.csv"
    told = refusal(place, f"held_out={said}")
    assert told == f"mine.held_out must be a fraction of train between 0 and 1, not '{said}'"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (("title= ",), "title of mine must be text on one line, not ' '"),
        (("title=a\nb",), r"title of mine must be text on one line, not 'a\nb'"),
        (("title=\udce9",), "title of mine must be text on one line, not"),
        (("text=a\0b",), r"text of mine must be text, not 'a\x00b'"),
        (("text=text", "text2=text"), "both texts of task mine are the same column: text"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, said: tuple[str, ...], message: str) -> None:
    assert message in refusal(written(tmp_path, a_csv=GOOD) / "a.csv", *said)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title:\n", "mine.yaml, line 1: title must be followed by text, a number or a list of them"),
        ("kind: classes\ntitle: {a: b}\n", "line 2: title must be followed by text"),
        ("classes: []\n", "line 1: classes must be followed by"),
        ("title: &a [*a]\n", "line 1: title must be followed by"),
        ("title: a\ntitle: b\n", "line 2: title appears twice"),
        ("classes: [no, 'yes,maybe']\n", "'yes,maybe' contains a comma, which separates names"),
        ("split_seed: x\n", "mine.split_seed must be a whole number, 0 or more, not 'x'"),
        ("[" * 5000, "is not YAML"),
        ("a: b\n---\nc: d\n", "is not YAML"),
    ],
)
def test_yaml_that_says_nothing(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(written(tmp_path, a_csv=GOOD, mine_yaml=text) / "a.csv")


def test_yaml_is_taken_as_it_is_written(tmp_path: Path) -> None:
    """Its "no" is no truth value, and 01 no number."""
    place = written(tmp_path, a_csv=GOOD, mine_yaml="classes: [yes, no]\ntitle: 01\n") / "a.csv"
    known = reads(place)
    assert (known.task.labels, known.task.label) == (("yes", "no"), "01")
    header = written(tmp_path, b_csv=GOOD.partition("\n")[2]) / "b.csv"
    assert reads(header, "columns=text, label").task.labels == ("yes", "no")


# ---------------------------------------------------------------- the function of a plugin

PLUGIN = '''
from harness.data.own import task


def broken():
    yield {"text": "a", "label": "b"}
    raise ValueError("gone\\nfor good")


@task("mine")
def mine(%s):
    %s
'''
FUNCTION = r"the function of task mine in .*plugin\.py"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("pass", f"^{FUNCTION} must give a path, hub:DATASET or a mapping from split names to rows, not None$"),
        ("return [{'text': 'a'}]", "must give a path, .* not .{'text': 'a'}.$"),
        ("return {0: []}", "must give a path, .* not {0: ..}$"),
        ("return {'train': 5}", f"^task mine, train: {FUNCTION} gives 5, but must give rows$"),
        ("return {'train': 'abc'}", "gives 'abc', but must give rows$"),
        ("return {'train': {'text': ['a']}}", "gives {'text': ..a'.}, but must give rows$"),
        ("return {'train': [{'text': 'a', 'label': 'b'}, None]}", "^task mine, train 2: .* gives None, but a row must"),
        ("return {'train': [{1: 'a'}]}", "train 1: .* gives {1: 'a'}, but a row must be a mapping from column"),
        ("return {'train': []}", "has no examples in train"),
        ("raise KeyError('x')", f"^{FUNCTION}, line 12, failed: KeyError: 'x'$"),
        ("assert False", f"^{FUNCTION}, line 12, failed: AssertionError$"),
        ("return {'train': broken()}", f"^{FUNCTION}, line 7, failed: ValueError: gone for good$"),
        ("return 'gone.csv'", "data of task mine: gone.csv does not exist"),
    ],
)
def test_a_function_that_gives_something_else(tmp_path: Path, given: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        own.know([_declared(tmp_path, given)])
    assert "\n" not in str(refused.value)


def test_a_function_that_asks_for_something(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"^{FUNCTION}, failed: TypeError: mine.. missing 1 required"):
        own.know([_declared(tmp_path, "pass", "x")])


def test_a_function_may_give_a_path_of_pathlib(tmp_path: Path) -> None:
    written(tmp_path, a_csv=GOOD)
    found = own.know([_declared(tmp_path, "from pathlib import Path; return Path('a.csv')")])
    assert isinstance(found["mine"].source, own_files.OwnFiles)


def _declared(folder: Path, given: str, arguments: str = "") -> Declaration:
    path = folder / "plugin.py"
    path.write_text(PLUGIN % (arguments, given))
    registry.load_file(path)
    found: object = registry.TASKS.get("mine")
    assert isinstance(found, Declaration)
    return found
