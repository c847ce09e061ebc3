"""A data source that a plugin brings: what docs/plugins/task.md says of one, done word by word."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import registry
from harness.data.embedded import generate
from harness.planning.plan import resolve
from harness.planning.request import Request
from tests.conftest import ROOT, Harness
from tests.results import done, refused, table_folder

SECTION = (ROOT / "docs/plugins/task.md").read_text(encoding="utf-8").partition("## A source of data\n")[2]
PLUGIN = re.findall(r"^```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)[0]
LIST, RUN = (line.split()[1:] for line in re.findall(r"^(harness .*)$", SECTION, re.MULTILINE))
QUICK = ("--inits", "random", "--trials", "1", "--seeds", "1", "--set", "epochs=1", "teacher.epochs=2")
Rows = list[tuple[str, str]]


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """forget() makes the registries as if no plugin had been loaded in the test."""
    for found in registry.ALL.values():
        found.names()
    known, loaded = {kind: dict(found._found) for kind, found in registry.ALL.items()}, set(registry._loaded)
    path = list(sys.path)

    def forgotten() -> None:
        for kind, found in registry.ALL.items():
            found._found = dict(known[kind])
        registry._loaded.clear()
        registry._loaded.update(loaded)
        sys.path[:] = path

    yield forgotten
    forgotten()


@pytest.fixture
def reviews(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the plugin of the section and its data, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews.py").write_text(PLUGIN)
    for split, examples in zip(("train", "dev"), generate("sentiment", 200, 50), strict=True):
        write(tmp_path, split, [(text, "good" if label else "bad") for text, _, label in examples])
    return tmp_path


def write(folder: Path, split: str, rows: Rows, header: tuple[str, ...] = ("text", "label")) -> None:
    with open(folder / f"reviews_{split}.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def planned(plugin: Path) -> Any:
    request = Request("objectives_vs_init", tasks=["reviews"], objectives=["vanilla_kd"], plugins=[str(plugin)])
    return resolve(request, lenient=True)


def test_the_section_is_followed_from_the_list_to_the_table(
    reviews: Path, call: Harness, forget: Callable[[], None]
) -> None:
    assert re.search(r"^reviews +Film reviews: single texts", call(*LIST).stdout, re.MULTILINE)
    sources = call("list", "sources", "--plugin", "reviews.py").stdout
    assert re.search(r"^reviews +Film reviews from two CSVs beside this file\.$", sources, re.MULTILINE)
    done(call(*RUN, *QUICK))
    plan = json.loads((table_folder(reviews / "results") / "plan.json").read_text())
    told = [first["specification"] for first in plan["first"].values()]
    told += [cell["specification"] for cell in plan["cells"]]
    assert {told["task"] for told in told} == {"reviews"} and len({told["data"] for told in told}) == 1
    assert all(told["plugins"].keys() == {"task reviews"} for told in told)
    forget()  # as in another process, which only the plan tells of the plugin
    again = call("report", "--study", "objectives_vs_init")
    assert again.returncode == 0 and "Film reviews" in again.stdout, again.stderr


def test_a_run_is_named_by_the_data_and_the_code_that_reads_it(
    reviews: Path, tmp_path_factory: pytest.TempPathFactory, forget: Callable[[], None]
) -> None:
    def identities(source: str, label: str = "") -> set[str]:
        forget()
        folder = tmp_path_factory.mktemp("reviews")
        (folder / "reviews.py").write_text(source)
        for split in ("train", "dev"):
            (folder / f"reviews_{split}.csv").write_bytes((reviews / f"reviews_{split}.csv").read_bytes())
        with open(folder / "reviews_train.csv", "a", encoding="utf-8") as file:
            file.write(label)
        return set(planned(folder / "reviews.py").first)

    known = identities(PLUGIN)
    assert known == identities(f"# a comment\n{PLUGIN}")
    assert known.isdisjoint(identities(PLUGIN, "fine,good\n"))
    assert known.isdisjoint(identities(PLUGIN.replace('"text")]', '"text").lower()]')))


def test_its_tasks_stand_beside_others(reviews: Path, call: Harness) -> None:
    both = [word for one in RUN[1:] for word in (("sentiment", one) if one == "reviews" else (one,))]
    process = call("plan", *both, *QUICK)
    assert process.returncode == 0 and "tasks sentiment, reviews" in process.stdout, process.stderr


ODD = {
    "no examples": ("return None", "Reviews of task reviews: examples of train are None, but must be"),
    "no place": ("return [('a fine film', 'good')]", r"examples of train: \('a fine .* must be a tuple of a place"),
    "no list": ("return [('x', 'a fine film', 'good')]", r"examples of train: \('x', 'a .* must be a tuple"),
    "one label": ("return FOUND[:1]", "'reviews' in .*: task reviews: all examples of train have the same label, good"),
    "an empty text": ("return [*FOUND, ('z', [' '], 'good')]", "z: a text is empty"),
    "few groups": (
        "return FOUND\n\n    def groups(self, task):\n        import numpy\n        return numpy.arange(3)",
        r"groups returned an array of int64 of shape \(3,\), but must return an int64 array of shape \(2,\), one",
    ),
    "no array": ("return FOUND\n\n    def groups(self, task):\n        return [0, 1]", r"groups returned \[0, 1\], "),
    "no hash": ("return FOUND\n\n    def content(self, task):\n        pass", r"'reviews' in .* content returned None"),
}


@pytest.mark.parametrize("case", ODD)
def test_a_source_that_answers_amiss(reviews: Path, call: Harness, case: str) -> None:
    said, message = ODD[case]
    found = 'FOUND = [("x", ["a fine film"], "good"), ("y", ["a weak film"], "bad")]'
    text = f"{PLUGIN.partition('        path =')[0]}        {said}\n"
    (reviews / "reviews.py").write_text(text.replace("REVIEWS = Task", f"{found}\nREVIEWS = Task"))
    ended = call("plan", *RUN[1:], *QUICK)
    assert ended.returncode == 2 and re.search(message, ended.stderr), ended.stderr


def test_a_source_without_a_call_of_super(reviews: Path, call: Harness) -> None:
    own = "    def __init__(self, data):\n        self.where = data\n\n    def ex"
    (reviews / "reviews.py").write_text(PLUGIN.replace("    def ex", own, 1))
    done(call("plan", *RUN[1:], *QUICK))


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a label": (lambda f: write(f, "train", [("a", "good"), ("b", "so-so")]), r"train\.csv, line 3: label 'so-so' is"),
    "no text": (lambda f: write(f, "dev", [("a", "good")], ("txt", "label")), r"dev\.csv, line 2: .* be one text, not"),
    "no label": (lambda f: write(f, "dev", [("a", "good")], ("text", "class")), r"dev\.csv, line 2: label None is not"),
    "no file": (lambda f: (f / "reviews_dev.csv").unlink(), r"reviews_dev\.csv cannot be read: No such file"),
    "no examples": (lambda f: write(f, "dev", []), "task reviews has no examples in dev"),
    "no UTF-8": (
        lambda f: (f / "reviews_dev.csv").write_bytes(b"text,label\n\xff,bad\n"),
        r"dev\.csv, line 2: not UTF",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_named_with_its_line(reviews: Path, call: Harness, case: str) -> None:
    harm, message = BAD[case]
    harm(reviews)
    refused = call("plan", *RUN[1:], *QUICK)
    assert refused.returncode == 2 and re.search(message, refused.stderr), refused.stderr


WRONG: dict[str, tuple[tuple[str, str], str]] = {
    "a taken name": (
        ('Task("reviews"', 'Task("sst2"'),
        r"task 'sst2' is defined twice: in .*glue\.py and in .*reviews",
    ),
    "no name": (('Task("reviews"', 'Task("my-reviews"'), "task name 'my-reviews' may hold only letters"),
    "one label": (('("bad", "good")', '("good",)'), "task reviews must have several labels"),
    "no metric": (('"accuracy", ("accuracy",)', '"f2", ("f2",)'), "metrics of task reviews are f2, .*; there are acc"),
    "no examples": (("def examples", "def example"), "task source 'reviews' must be a subclass of TaskSource with ex"),
    "another way": (
        ("    def ex", "    given = 'file'\n\n    def ex"),
        "'reviews': given must be 'name', 'path' or '', not",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_source_is_refused(reviews: Path, call: Harness, case: str) -> None:
    (old, new), message = WRONG[case]
    (reviews / "reviews.py").write_text(PLUGIN.replace(old, new))
    refused = call("plan", *RUN[1:], *QUICK)
    assert refused.returncode == 2 and re.search(message, refused.stderr), refused.stderr


def test_where_its_data_are_nobody_need_say(reviews: Path, call: Harness) -> None:
    refused(call("plan", *RUN[1:], *QUICK, "--data", "somewhere"), "--data has no effect")


def test_one_that_takes_a_path_or_its_name(reviews: Path, call: Harness, forget: Callable[[], None]) -> None:
    for given, data in (("path", str(reviews)), ("name", "reviews")):
        forget()
        (reviews / "reviews.py").write_text(PLUGIN.replace("    def ex", f'    given = "{given}"\n\n    def ex'))
        assert call("plan", *RUN[1:], *QUICK, "--data", data).returncode == 0
        refused = call("plan", *RUN[1:], *QUICK, "--data", "hub")
        assert refused.returncode == 2 and "not in hub: give its own with --data" in refused.stderr, refused.stderr
