"""Training examples for each seed: where that has an effect, and what plan and table say of the draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.planning.plan import resolve
from harness.planning.planned import Plan
from harness.planning.request import Request
from harness.search.results import drawn_by_seed, samples
from tests.conftest import SMALL_STUDY, Harness
from tests.results import table_folder

pytestmark = pytest.mark.usefixtures("no_figures")

EACH = "train_sample=each_seed"
SAID = "train_examples: one draw of them for all seeds"


def planned(*overrides: str, **asked: Any) -> Plan:
    one = {"objectives": ["hid_seq"], "inits": ["every"], "tasks": ["entailment"], "seeds": 3, "trials": 1}
    return resolve(Request("objectives_vs_init", overrides=overrides, **{**one, **asked}))


def test_the_draws_are_counted_and_the_cells_are_others_only_with_draws_of_their_own() -> None:
    assert (samples(planned()), samples(planned(EACH)), samples(planned("train_examples=0"))) == (1, 3, 0)
    assert planned("train_sample=one").cells == planned().cells
    assert planned(EACH).cells[0].id != planned().cells[0].id
    assert planned(EACH).teachers == planned().teachers


def test_more_examples_than_there_are_are_no_draw_and_a_fraction_is_one() -> None:
    assert samples(planned("train_examples=100000")) == 0
    size = planned().examples["entailment"]
    left = size - size // 10  # the others are held out
    assert [samples(planned(f"train_examples={count}")) for count in (left - 1, left, size)] == [1, 0, 0]
    published = (f"train_examples={left}", "protocol=published")
    assert (samples(planned(*published)), samples(planned(f"train_examples={size}", published[1]))) == (1, 0)
    part = ("train_examples=0", "train_fraction=0.5")
    assert (samples(planned(*part)), samples(planned(*part, EACH))) == (1, 3)
    assert planned(*part, EACH).cells[0].id != planned(*part).cells[0].id
    assert drawn_by_seed(planned(*part, EACH)) == ("entailment",)
    assert drawn_by_seed(planned(*part)) == drawn_by_seed(planned(*part, EACH, seeds=1)) == ()


def test_of_a_task_that_is_no_larger_than_the_part_nothing_is_drawn() -> None:
    made = planned(EACH, tasks=["entailment", "sentiment"])
    made.examples["sentiment"] = made.cells[0].run.settings["train_examples"]
    assert samples(made) == 3 and drawn_by_seed(made) == ("entailment",)


@pytest.mark.parametrize(
    ("overrides", "asked", "said"),
    [
        ((EACH, "train_examples=0"), {}, "'train_sample' has no effect"),
        ((EACH,), {"profile": "small"}, "'train_sample' has no effect"),
        (("train_sample=each",), {}, "train_sample is one of one, each_seed, not 'each'"),
        (("teacher.train_sample=each_seed",), {}, "unknown setting 'teacher.train_sample'"),
        ((), {"search": ("train_sample=one,each_seed",), "trials": 2}, "train_sample is the same in every trial"),
    ],
)
def test_where_nothing_is_drawn_it_is_refused(overrides: tuple[str, ...], asked: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        planned(*overrides, **asked)


def test_the_whole_way_with_references(call: Harness, glue: Path, checkpoint: Path, tmp_path: Path) -> None:
    words = (*SMALL_STUDY, "--data", glue, "--objectives", "labels_only", "--inits", "random", "--trials", "1")
    words = (*words, "--teacher", checkpoint, "--baselines", "--out", tmp_path / "out", "--seeds", "2")
    words = (*words, "--set", "epochs=1")
    shared = call("plan", *words)
    assert SAID in shared.stdout and SAID not in call("plan", *words, EACH).stdout
    made = call("run", *words, EACH)
    assert made.returncode == 0, made.stderr
    lines = (table_folder(tmp_path / "out") / "table.md").read_text().splitlines()
    assert any("over n = 2 seeds, each with its own training examples, one teacher." in line for line in lines)
    assert [" ± " in line for line in lines if line.startswith("| tf-idf")] == [True]
