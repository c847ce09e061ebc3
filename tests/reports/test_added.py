"""Columns on request, and the figure of scores against them."""

import json
from dataclasses import replace

import pytest

from harness.reports import FIGURES, TEACHER, Entry, render, with_columns
from harness.reports.figures.drawing import svg
from harness.reports.figures.pareto import undominated
from tests.reports.synthetic import ROWS, STUDY, cell, run, table
from tests.reports.test_figures import texts

pareto = FIGURES["pareto"].drawn
METRICS = ("parameters", "sentences_per_second_from_text")


def sized(sizes=(3_000_000, 2_000_000), **more):
    """A table of two rows on two tasks, with the sizes and speeds of both rows and of the teacher."""
    cells = [cell(ROWS[i], task, (60 + 10 * i, 62 + 10 * i)) for i in (0, 1) for task in ("sst2", "rte")]
    found = {
        f"{row.name}-every-{task}": {
            "parameters": Entry("complete", size if task == "sst2" else 1),
            "sentences_per_second_from_text": Entry("complete", 1e9 / size, 12.0),
        }
        for row, size in zip(ROWS, sizes, strict=False)
        for task in ("sst2", "rte")
    }
    found[TEACHER] = {"parameters": Entry("complete", 110_000_000)}
    return with_columns(table(cells), METRICS, {**found, **more}, ("How it was measured",))


def test_columns_on_request_stand_last_once_a_line_and_never_compete():
    text = render(sized(), "markdown")
    lines = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}
    assert lines[""].rstrip(" |").endswith("Speed (sentences per second from text)") and "Average" in lines[""]
    values = [part.strip() for part in lines["Hid-Seq"].strip("| ").split("|")]
    assert values[-2:] == ["2,000,000", "500 ± 12"] and values[3].startswith("**71.0")
    assert lines["Teacher: embedded"].split("|")[-3].strip() == "110,000,000"
    assert text.endswith("- How it was measured.\n")


def test_the_size_of_an_unfinished_row_says_nothing_of_how_many_seeds_there_are():
    size = {f"{row.name}-every-sst2": {"parameters": Entry("complete", 5)} for row in ROWS}
    begun = cell(ROWS[1], "sst2", (70,))
    assert "no cell is finished yet" in render(with_columns(table([begun]), METRICS[:1], size, ()), "markdown")
    text = render(with_columns(table([cell(ROWS[0], "sst2", (60, 62)), begun]), METRICS[:1], size, ()), "markdown")
    assert "over n = 2 seeds" in text and "61.0 ± 1.4**" in text


def test_a_matrix_of_columns_on_request_does_not_say_that_seeds_are_its_spread():
    made = [cell(row, "sst2", (80, 82), student=name, cell=row.name + name) for row in ROWS[:2] for name in "ab"]
    speed = {f"{row.name}{name}": {METRICS[1]: Entry("complete", 500.0, 12.0)} for row in ROWS[:2] for name in "ab"}
    study = replace(STUDY, students=("a", "b"), layout="matrix", published=None)
    text = render(with_columns(table(made, study), METRICS[1:], speed, ("How",)), "markdown")
    scores, _, timed = text.partition("Speed (sentences per second from text)\n\n")
    assert "over n = 2 seeds" in scores and timed.startswith("Columns: students") and "500 ± 12" in timed


def test_columns_on_request_are_in_json_and_csv_with_their_values():
    entries = json.loads(render(sized(), "json"))["entries"]
    found = [e for e in entries if e["row"] == "Hid-Seq" and e["task"] in ("size", "speed")]
    assert [(e["metric"], e["value"], e["std"], e["best"]) for e in found] == [
        ("parameters", 2_000_000, None, False), ("sentences_per_second_from_text", 500.0, 12.0, False),
    ]  # fmt: skip
    assert "Hid-Seq,hid_seq,speed,sentences_per_second_from_text,500.0,12.0" in render(sized(), "csv")


def test_what_is_not_known_is_a_dash_with_its_reason_once():
    gone = {"parameters": Entry("complete", 5), METRICS[1]: Entry("unrecorded", reason="no weights are kept")}
    made = sized(**{"vanilla_kd-every-sst2": gone, "hid_seq-every-sst2": gone})
    text = render(made, "terminal")
    assert text.count("no weights are kept") == 1 and text.count("–¹") == 2


def test_the_pareto_figure_has_a_panel_a_column_and_names_its_points():
    drawn = texts(pareto(sized()))
    assert {"Vanilla KD", "Hid-Seq", "transformer", "Teacher", "parameters", "sentences a second, from text"} <= drawn
    assert {"Average × 100", "Bars: ±, as in the table; joined: no other student is better in both"} <= drawn
    assert svg(pareto(sized())) == svg(pareto(sized())) and b"<svg" in svg(pareto(sized()))
    assert "Scores against size and speed" in render(sized(), "html")


def test_without_columns_or_complete_scores_there_is_no_pareto_figure():
    assert pareto(table([cell(ROWS[0], "sst2", (60, 61))])) is None
    assert "Scores against size and speed" not in render(table([cell(ROWS[0], "sst2", (60, 61))]), "html")
    unfinished = with_columns(table([cell(ROWS[0], "sst2", (60,))]), METRICS[:1], {}, ())
    assert pareto(unfinished) is None


@pytest.mark.parametrize(("more", "expected"), [(False, "abd"), (True, "cd")])
def test_what_no_other_surpasses_both_ways_is_joined(more, expected):
    places = {"a": (1, 50), "b": (2, 60), "c": (9, 60), "d": (4, 70), "e": (4, 55)}
    found = [{"model": name, "x": x, "score": score} for name, (x, score) in places.items()]
    assert [point["model"] for point in undominated(found, more)] == [*expected]


def test_many_points_are_named_only_where_they_are_joined():
    rows = [(ROWS[i], init) for init in ("every", "random", "last", "first") for i in range(4)]
    cells = [cell(row, "sst2", (50 + n, 51 + n), init) for n, (row, init) in enumerate(rows)]
    found = {c.cell: {"parameters": Entry("complete", 1000 + n)} for n, c in enumerate(cells)}
    drawn = texts(pareto(with_columns(table(cells), METRICS[:1], found, ())))
    assert "Vanilla KD (every)" in drawn
    dominated = {c.cell: {"parameters": Entry("complete", 1000 - n)} for n, c in enumerate(cells)}
    drawn = texts(pareto(with_columns(table(cells), METRICS[:1], dominated, ())))
    assert "Vanilla KD (every)" not in drawn and "Att-KL + Val-KL (first)" in drawn


def test_collapsed_students_are_never_joined():
    alike = [run(50, seed) for seed in (0, 1)]
    for one in alike:
        ids, answers, labels = one.record["predictions"]()
        one.record["predictions"] = lambda ids=ids, answers=answers, labels=labels: (ids, 0 * answers, labels)
    cells = [cell(ROWS[0], "sst2", (60, 61)), cell(ROWS[1], "sst2", (50, 50), seeds=tuple(alike))]
    found = {c.cell: {"parameters": Entry("complete", 10 - n)} for n, c in enumerate(cells)}
    made = with_columns(table(cells), METRICS[:1], found, ())
    (panel,) = pareto(made).axes
    joined = [line for line in panel.lines if line.get_color() == "grey"]
    assert [list(line.get_xdata()) for line in joined] == [[10]]


def test_controls_are_drawn_and_never_joined_nor_surpass_a_student():
    control = replace(ROWS[1], reference=True)
    cells = [cell(ROWS[0], "sst2", (60, 61)), cell(control, "sst2", (80, 82))]
    found = {c.cell: {"parameters": Entry("complete", 10 - n)} for n, c in enumerate(cells)}
    study = replace(STUDY, rows=(ROWS[0], control))
    rows, _ = FIGURES["pareto"].rows(with_columns(table(cells, study), METRICS[:1], found, ()))
    assert {x["model"]: x["joined"] for x in rows if x["student"]} == {"Vanilla KD": True, "Hid-Seq": False}
