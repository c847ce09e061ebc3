"""What is asked for below a table: several at once, in every format, by one rule."""

from __future__ import annotations

import csv
import io
import json

import pytest

from harness.cli import main
from harness.errors import UserError
from harness.reports import ADDITIONS, FORMATS, render, with_additions
from tests.reports.drawn import searched

ROWS = ("vanilla_kd", "hid_seq")
TITLES = {"tuning": "Tuning curves: SST-2", "sensitivity": "Sensitivity to settings"}


def of_trials():
    return searched({(row, "sst2"): [(0.1 * i, 0.1 * i) for i in range(4)] for row in ROWS})


@pytest.mark.parametrize("format", [each for each in FORMATS if each not in ("csv", "json")])
def test_they_stand_below_the_table_in_the_order_they_are_asked_for(format):
    alone = of_trials()
    text = render(with_additions(alone, ["sensitivity", "tuning", "sensitivity"]), format)
    assert text.index("A toy study") < text.index(TITLES["sensitivity"]) < text.index(TITLES["tuning"])
    assert not any(title in render(alone, "markdown") for title in TITLES.values())


def test_json_holds_the_table_and_each_with_its_notes():
    alone = of_trials()
    found = json.loads(render(with_additions(alone, ["tuning", "sensitivity"]), "json"))
    for name in ("tuning", "sensitivity"):
        told = found.pop(name)
        assert told["notes"] and {row["row"] for row in told["rows"]} == {"Vanilla KD", "Hid-Seq"}
    assert found == json.loads(render(alone, "json"))


def test_csv_holds_the_rows_of_one_and_says_how_to_get_several():
    made = with_additions(of_trials(), ["tuning"])
    lines = list(csv.DictReader(io.StringIO(render(made, "csv"))))
    assert len(lines) == len(ROWS) * 4 == len(json.loads(render(made, "json"))["tuning"]["rows"])
    with pytest.raises(UserError, match="each of --with tuning, --with sensitivity by itself, or for --format json"):
        render(with_additions(of_trials(), ["tuning", "sensitivity"]), "csv")


@pytest.mark.parametrize("name", ADDITIONS)
@pytest.mark.parametrize("format", ["markdown", "csv", "json"])
def test_one_that_has_nothing_to_tell_says_why(name, format):
    with pytest.raises(UserError, match="task|trial|setting"):
        render(with_additions(searched({("hid_seq", "sst2"): [(0.1, 0.1)]}), [name]), format)


def test_an_unknown_one_is_named_with_those_there_are():
    with pytest.raises(UserError, match="'tunings'.*tuning"):
        with_additions(of_trials(), ["tunings"])


def test_they_go_with_the_formats_of_a_table(capsys):
    assert main(["report", "--study", "objectives_vs_init", "--with", "tuning", "--format", "methods"]) == 2
    assert "--with has no effect on --format methods" in capsys.readouterr().err
