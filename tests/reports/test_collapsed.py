"""Cells that answer every example alike."""

from dataclasses import replace

import numpy as np
import pytest

from harness.reports import FORMATS, render
from tests.reports.synthetic import ROWS, cell, entries, run, table

ATT, VAL = ROWS[2:]


def constant(seed, answer=0):
    """A run that gives every example the same answer; half of them are right."""
    made = run(50, seed)
    order, predictions, labels = made.record["predictions"]()
    return replace(made, record={"predictions": lambda: (order, np.full_like(predictions, answer), labels)})


@pytest.mark.parametrize("collapsed", [1, 2])
def test_a_collapsed_cell_is_told_in_every_format_and_never_best(collapsed):
    seeds = (constant(0), constant(1) if collapsed == 2 else run(50, 1))
    low = (run(49, 0), run(49, 1))  # below it, and best nevertheless
    runs = [(ATT, "sst2", seeds), (VAL, "sst2", low), (ATT, "rte", low), (VAL, "rte", low)]
    made = table([cell(row, task, (), seeds=found, trials=found[:1]) for row, task, found in runs])
    found = entries(made)
    assert [(e.best, e.tied, e.collapsed) for e in found["att_kl"]] == [
        (False, False, collapsed),
        (True, False, 0),
        (False, False, collapsed),  # the average that rests on it
    ]
    assert [e.best for e in found["att_kl+val_kl"]] == [True, True, True]
    which = "" if collapsed == 2 else "in 1 of 2 runs "
    sentence = f"collapsed, so never best: {which}every dev example gets the same answer"
    overall = "collapsed on 1 of 2 tasks, so never best"
    assert made.reasons == (sentence, overall) and [e.note for e in found["att_kl"]] == [1, 0, 2]
    for form in FORMATS:
        assert sentence in render(made, form) and overall in render(made, form), form


def test_the_one_class_that_there_is_is_no_collapse():
    of_one_class = constant(0)
    order, predictions, _ = of_one_class.record["predictions"]()
    right = replace(of_one_class, record={"predictions": lambda: (order, predictions, predictions)})
    made = entries(table([cell(ATT, "sst2", (), seeds=(right, right), trials=(right,))]))
    assert made["att_kl"][0].best and not made["att_kl"][0].note
