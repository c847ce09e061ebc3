"""The rules of evidence, on cells whose numbers are known."""

import math
import random
import subprocess
import sys
from dataclasses import replace

import pytest

from harness.contracts import Row, RunResult
from reports import FORMATS, render, with_published
from reports.layout import entry_text
from tests.reports.synthetic import ROWS, STUDY, cell, mixed, run, table

VANILLA, HID, ATT, VAL = ROWS


def entries(made, init="every"):
    """{row name: its entries} of one initialisation."""
    (block,) = [b for b in made.blocks if b.init == init]
    return {line.row.name: line.entries for line in block.lines}


def test_average_takes_its_spread_from_the_averages_of_the_seeds():
    average = entries(table([cell(ATT, "sst2", (80, 90)), cell(ATT, "rte", (70, 60))]))["att_kl"][-1]
    assert (average.value, average.std, average.n) == pytest.approx((0.75, 0.0, 2))  # 75 and 75, whatever the tasks do


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": (run(99),)},
        {"seeds": ()},
        {"seeds": (), "failures": {"x": "NaN"}},
        {"refused": "no"},
        {"wanted_trials": 2},
    ],
)
def test_only_a_complete_cell_is_best_or_averaged(changes):
    made = entries(
        table(
            [
                cell(ATT, "sst2", (99, 99), **changes),
                cell(ATT, "rte", (80, 80)),
                cell(VAL, "sst2", (50, 50)),
                cell(VAL, "rte", (50, 50)),
            ]
        )
    )
    assert not made["att_kl"][0].best and made["att_kl"][-1].status == "absent"
    assert made["att_kl+val_kl"][0].best and made["att_kl+val_kl"][-1].best
    assert made["att_kl"][1].best


def test_a_failed_trial_is_told_where_the_seeds_are_complete():
    made = table([cell(ATT, "sst2", (80, 80), wanted_trials=2, failures={"x": "NaN"})])
    assert made.reasons == ("1 of this cell's runs failed; the value is that of the others",)
    assert entries(made)["att_kl"][0].best and entries(made)["att_kl"][0].note == 1


def test_best_is_over_all_initialisations_and_equal_values_are_all_best():
    made = table(
        [
            cell(ATT, "sst2", (90, 80)),
            cell(VAL, "sst2", (85, 85)),
            cell(ATT, "sst2", (85, 85), "random"),
            cell(VAL, "sst2", (60, 60), "random"),
        ]
    )
    assert [e["att_kl"][0].best for e in (entries(made), entries(made, "random"))] == [True, True]
    assert entries(made)["att_kl+val_kl"][0].best and not entries(made, "random")["att_kl+val_kl"][0].best


def test_ties_need_predictions_of_the_same_examples_that_give_the_recorded_value():
    best, tied = cell(ATT, "sst2", (86, 86)), cell(HID, "sst2", (84, 86))
    assert entries(table([best, tied]))["hid_seq"][0].tied
    without = {"predictions": None}
    wrong = {"predictions": run(50).record["predictions"]}
    for record in (without, {"predictions": lambda: None}, wrong):
        made = table([best, replace(tied, seeds=(run(84, 0, **record), run(86, 1, **record)))])
        assert not entries(made)["hid_seq"][0].tied and made.untested == ("SST-2", "Average")


def test_a_correlation_of_constant_predictions_is_undefined_not_a_number():
    nothing = RunResult("r", 0, {}, {"accuracy": math.nan}, 0.0, {})
    made = table([cell(ATT, "sst2", (80, 80)), cell(VAL, "sst2", (), seeds=(nothing, nothing))])
    entry = entries(made)["att_kl+val_kl"][0]
    assert (entry.status, entry.value, entry_text(entry)) == ("undefined", None, "undefined")
    assert "NaN" not in render(made, "json")


def test_one_seed_prints_no_spread_and_unequal_seeds_print_their_own_n():
    single = {"wanted_seeds": 1}
    assert "| **80.0** |" in " ".join(render(table([cell(ATT, "sst2", (80,), **single)]), "markdown").split())
    made = render(table([cell(ATT, "sst2", (80,), **single), cell(VAL, "sst2", (60, 62))]), "markdown")
    assert "80.0 (n=1)" in made and "61.0 ± 1.4 (n=2)" in made and "n in each cell" in made


def test_rows_of_a_plugin_follow_the_study_by_name_and_the_teacher_leads():
    extra = [Row(name, name, name) for name in ("zebra", "ape")]
    made = table([cell(r, "sst2", (60, 60)) for r in (*extra, ATT, VANILLA)])
    assert list(entries(made)) == ["vanilla_kd", "att_kl", "ape", "zebra"]
    first = [line for line in render(made, "markdown").splitlines() if line.startswith("| ")][2]
    assert first.startswith("| Teacher: embedded")


def test_an_unfinished_teacher_has_no_average():
    made = table([cell(ATT, "sst2", (60, 60)), cell(ATT, "rte", (60, 60))], teacher_scores={"sst2": (0.9, 1)})
    assert [entry_text(e) for e in made.teacher] == ["90.0", "0/1", ""]


@pytest.mark.parametrize("format", [f for f in FORMATS if f != "terminal"])
def test_the_order_of_the_cells_changes_no_byte(format):
    cells = mixed()
    expected = render(with_published(table(cells), STUDY), format)
    random.Random(0).shuffle(cells)
    assert render(with_published(table(cells), STUDY), format) == expected


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_without_any_cell_is_written_and_says_so(format):
    text = render(with_published(table([]), STUDY), format)
    assert "toy" in text and (format == "csv" or "no cell is finished yet" in text or format == "json")


def test_two_cells_in_one_place_are_refused():
    with pytest.raises(ValueError, match="share student"):
        table([cell(ATT, "sst2", (60, 60)), cell(ATT, "sst2", (61, 61))])


def test_importing_reports_loads_no_heavy_library():
    code = "import reports, sys; print({'torch', 'numpy', 'pandas', 'scipy', 'matplotlib', 'rich'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
