"""Figures are the same bytes each time and hold what the table holds."""

from dataclasses import replace

import pytest

from reports.figures import curves, heatmap
from tests.reports.synthetic import ROWS, STUDY, cell, mixed, run, table


@pytest.mark.parametrize("figure", [heatmap, curves])
def test_the_same_table_gives_the_same_svg(figure):
    first, second = figure(table(mixed())), figure(table(list(reversed(mixed()))))
    assert first == second and first.startswith(b"<?xml") and b"<dc:date>" not in first


def texts(svg):
    """The comment that matplotlib writes before each text it draws as outlines."""
    return {line.strip()[5:-4] for line in svg.decode().splitlines() if line.strip().startswith("<!-- ")}


def test_the_heatmap_is_annotated_and_shows_every_student():
    other = [replace(c, student="bilstm") for c in mixed()]
    drawn = texts(heatmap(table(mixed() + other)))
    assert {"83.5 ± 0.7", "56.0 ± 1.4", "–", "every", "random", "Att-KL + Val-KL", "transformer", "bilstm"} <= drawn


def test_the_curves_show_a_panel_per_task_and_a_line_per_row():
    drawn = texts(curves(table(mixed())))
    assert {"SST-2", "RTE", "Vanilla KD", "Hid-Seq", "Att-KL", "Att-KL + Val-KL"} <= drawn
    assert "Selection metric × 100 (transformer, init every)" in drawn


def test_a_single_task_stands_for_the_average_and_rows_that_fix_both_axes_have_no_heatmap():
    one = cell(ROWS[0], "sst2", (60, 62))
    assert {"61.0 ± 1.4", "SST-2 × 100"} <= texts(heatmap(table([one])))
    fixed = replace(ROWS[0], student="cbow", init="random")
    made = table([replace(one, row=fixed, student="cbow", init="random")], replace(STUDY, rows=(fixed,)))
    assert heatmap(made) is None and "Selection metric × 100" in texts(curves(made))


def test_nothing_to_draw_gives_no_figure():
    silent = replace(cell(ROWS[0], "sst2", (60,)), seeds=(run(60, curve=[]),))
    assert heatmap(table([])) is None and curves(table([])) is None
    assert curves(table([silent])) is None and heatmap(table([silent])) is None  # 1 of 2 seeds: no average


def test_labels_are_never_read_as_mathematics_nor_dropped():
    row = replace(ROWS[0], name="odd", label="_a$b^c$ $")
    for figure in (heatmap, curves):
        assert "_a$b^c$ $" in {text.strip() for text in texts(figure(table([cell(row, "sst2", (60, 60))])))}
