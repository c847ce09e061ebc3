"""A teacher that knows no more than one answer for all, or than chance, is told below its table."""

from dataclasses import replace

import pytest

from harness.reports import render
from tests.reports.synthetic import ROWS, STUDY, cell, run, table

ATT = ROWS[2]


@pytest.mark.parametrize(("accuracy", "told"), [(0.4, True), (0.5, True), (0.51, False)])
def test_a_teacher_that_knows_no_more_than_the_commonest_class_is_told(accuracy, told):
    made = table([cell(ATT, "sst2", (60, 60))], teacher_scores={"sst2": [{"accuracy": accuracy}]})
    for form in ("markdown", "latex", "html", "terminal"):
        assert ("is no better than the commonest class for all, 50.0" in render(made, form)) == told, form


@pytest.mark.parametrize(("value", "told"), [(-0.119, "−11.9"), (0.0, "0.0"), (0.01, "")])
def test_a_teacher_that_knows_no_more_than_any_answer_is_told(value, told):
    study = replace(STUDY, metrics={"sst2": "spearman"})
    made = table([cell(ATT, "sst2", (60, 60))], study, teacher_scores={"sst2": [{"spearman": value}]})
    text = render(made, "markdown")
    said = f"On SST-2 the teacher, {told}, is no better than one answer for all, 0.0: students learn its mistakes."
    assert said in text if told else "is no better than" not in text


@pytest.mark.parametrize(("matthews", "told"), [(-0.9, "−90.0"), (0.05, "5.0"), (0.06, "")])
def test_a_teacher_that_is_no_better_than_chance_is_told_whatever_the_metric(matthews, told):
    """As one whose configuration has the classes in another order than its outputs."""
    study = replace(STUDY, metrics={"sst2": "macro_f1"})
    scores = {"sst2": [{"macro_f1": 0.02, "matthews": matthews}]}
    text = render(table([cell(ATT, "sst2", (60, 60))], study, teacher_scores=scores), "markdown")
    said = f"On SST-2 the teacher is no better than chance, with a Matthews' correlation of {told}: students learn"
    assert said in text if told else "than chance" not in text


def test_that_is_told_too_where_the_predictions_of_a_run_are_lost():
    runs = (run(60, 0, predictions=lambda: None), run(60, 1))
    made = table([cell(ATT, "sst2", (), seeds=runs, trials=runs[:1])], teacher_scores={"sst2": [{"accuracy": 0.4}]})
    assert "is no better than the commonest class for all, 50.0" in render(made, "markdown")
