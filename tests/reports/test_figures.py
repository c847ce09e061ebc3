"""Figures are the same bytes each time and hold what the table holds."""

import re
from dataclasses import replace
from html import unescape
from itertools import combinations, pairwise

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from harness.contracts import Row, TeacherRow
from harness.errors import UserError
from harness.reports import FIGURES, WIDTHS, render
from harness.reports.figures import drawing
from harness.reports.figures.drawing import INK, PALETTE, style, svg
from tests.reports.synthetic import ROWS, STUDY, cell, mixed, run, table

heatmap, lines, curves, masked_words = (FIGURES[name].drawn for name in ("heatmap", "points", "curves", "masked_words"))


@pytest.mark.parametrize("figure", [heatmap, curves])
def test_the_same_table_gives_the_same_svg(figure):
    first, second = (svg(figure(table(cells))) for cells in (mixed(), list(reversed(mixed()))))
    assert first == second and first.startswith(b"<?xml") and b"<dc:date>" not in first


def test_svg_is_drawn_once_and_as_savefig_draws_it(tmp_path):
    """Images within, as a scale of colours, are as fine when it is written again."""
    drawn, same = (masked_words(table([masked([0.0, 0.5])])) for _ in range(2))
    with rc_context({"svg.hashsalt": "distill-harness", "svg.fonttype": "path"}):
        same.savefig(tmp_path / "saved.svg", metadata={"Date": None, "Creator": None})
    once, again = svg(drawn), svg(drawn)
    assert once == (tmp_path / "saved.svg").read_bytes()
    images, others = (re.findall(r'base64,[^"]*', text.decode()) for text in (once, again))
    assert images == others != []


def texts(figure):
    """The comment that matplotlib writes before each text it draws as outlines."""
    return {line.strip()[5:-4] for line in svg(figure).decode().splitlines() if line.strip().startswith("<!-- ")}


def test_the_heatmap_is_annotated_and_shows_every_student():
    other = [replace(c, student="bilstm") for c in mixed()]
    drawn = texts(heatmap(table(mixed() + other)))
    assert {"83.5 ± 0.7", "56.0 ± 1.4", "–", "every", "random", "Att-KL + Val-KL", "transformer", "bilstm"} <= drawn


def test_long_names_of_students_with_one_initialisation_do_not_overlap():
    names = ("transformer:layers=3", "biattentive_lstm", "averaged_transformer:layers=3", "bidirectional_hybrid")
    once = [c for c in mixed() if c.init == "every"]
    figure = heatmap(table([replace(c, student=name) for name in names for c in once]))
    figure.draw_without_rendering()
    titles = sorted((p.title.get_window_extent() for p in figure.axes if p.get_title()), key=lambda box: box.x0)
    assert len(titles) == len(names) and all(left.x1 < right.x0 for left, right in pairwise(titles))


def test_the_curves_show_a_panel_per_row_and_a_line_per_task():
    drawn = texts(curves(table(mixed())))
    assert {"SST-2", "RTE", "Vanilla KD", "Hid-Seq", "Att-KL", "Att-KL + Val-KL"} <= drawn
    assert {"selection score × 100", "loss, first epoch = 1", "Learning curves (transformer, init every)"} <= drawn


def test_the_curves_rows_hold_scores_losses_and_the_terms_of_sums():
    terms = {"att_kl": {"value": 0.75, "share": 0.5}, "hid_seq": {"value": 0.25, "share": 0.5}}
    points = [
        {"stage": "intermediate", "epoch": 1, "loss": 1.0, "selection": None, "terms": terms},
        {"stage": "prediction", "epoch": 1, "loss": 0.5, "selection": 0.7, "terms": {"vanilla_kd": {"value": 0.5}}},
    ]
    made = replace(cell(ROWS[0], "sst2", ()), seeds=(run(60, 0, curve=points), run(60, 1, curve=points[:1])))
    found = [
        tuple(row[k] for k in ("epoch", "stage", "quantity", "value"))
        for row in FIGURES["curves"].rows(table([made]))[0]
    ]
    assert found == [
        (1, "intermediate", "att_kl", 0.75),
        (1, "intermediate", "hid_seq", 0.25),
        (1, "intermediate", "loss", 1.0),
        (2, "prediction", "loss", 0.5),
        (2, "prediction", "score", 70.0),
    ]


@pytest.mark.parametrize("losses", [(0.0, 0.0), (-1.0, -2.0), (2.0, -1.0)])
def test_curves_of_losses_that_are_not_above_zero_are_drawn_without_them(losses):
    points = [{"stage": "prediction", "epoch": n, "loss": x, "selection": 0.7} for n, x in enumerate(losses, 1)]
    figure = curves(table([replace(cell(ROWS[0], "sst2", ()), seeds=(run(60, 0, curve=points),))]))
    figure.draw_without_rendering()
    drawn = [y for panel in figure.axes for line in panel.lines for y in line.get_ydata()]
    assert 70.0 in drawn and all(y > 0 for y in drawn)


def test_a_single_task_stands_for_the_average_and_rows_that_fix_both_axes_have_no_heatmap():
    one = cell(ROWS[0], "sst2", (60, 62))
    assert {"61.0 ± 1.4", "SST-2, accuracy", "× 100"} <= texts(heatmap(table([one])))  # two lines beside one row
    three = [replace(one, row=row, cell=row.name) for row in ROWS[:3]]
    assert "SST-2, accuracy × 100" in texts(heatmap(table(three)))
    fixed = replace(ROWS[0], student="cbow", init="random")
    made = table([replace(one, row=fixed, student="cbow", init="random")], replace(STUDY, rows=(fixed,)))
    assert heatmap(made) is None and "Learning curves (SST-2)" in texts(curves(made))


def test_nothing_to_draw_gives_no_figure():
    silent = replace(cell(ROWS[0], "sst2", (60,)), seeds=(run(60, curve=[]),))
    assert heatmap(table([])) is None and curves(table([])) is None
    assert curves(table([silent])) is None and heatmap(table([silent])) is None  # 1 of 2 seeds: no average


def test_labels_are_never_read_as_mathematics_nor_dropped():
    row = replace(ROWS[0], name="odd", label="_a$b^c$ $")
    for figure in (heatmap, curves):
        assert "_a$b^c$ $" in {text.strip() for text in texts(figure(table([cell(row, "sst2", (60, 60))])))}


def pointed(xs=(20, 30, 100), **changes):
    """Rows of two lines at these points, and a cell of each."""
    rows = [
        Row(f"{label}_{x}", "", f"{label} {x}", student="bilstm", init="random", point=(label, x))
        for label in ("Plain", "Distilled")
        for x in xs
    ]
    cells = [cell(row, "sst2", (60 + i, 62 + i), "random", student="bilstm") for i, row in enumerate(rows)]
    return cells, replace(STUDY, rows=tuple(rows), figure="training data, %", **changes)


def test_lines_join_the_points_of_a_label_in_a_panel_per_task():
    cells, study = pointed()
    made = table([*cells, *(replace(c, task="rte") for c in cells)], study)
    drawn = texts(lines(made))
    assert {"Plain", "Distilled", "SST-2", "RTE", "20", "30", "100", "training data, %", "accuracy × 100"} <= drawn
    assert "Mean over seeds; bars: sample standard deviation" in drawn
    again = table(list(reversed([*cells, *(replace(c, task="rte") for c in cells)])), study)
    assert svg(lines(made)) == svg(lines(again))


def test_points_far_apart_stand_on_a_logarithmic_axis_with_a_place_for_zero():
    near, far, zero = (texts(lines(table(*pointed(xs)))) for xs in ((5, 7, 40), (5, 7, 41), (0, 1, 2, 4, 100)))
    assert {"5", "40"} <= near and "7" not in near  # a factor of 8: its number would touch that of 5
    assert {"5", "7", "41"} <= far and {"0", "1", "2", "4", "100"} <= zero


def test_points_are_told_as_the_table_tells_them():
    rows = (Row("a", "vanilla_kd", "A", point=("A", 1)),)
    made = table([cell(rows[0], "sst2", (57, 58, 59))], replace(STUDY, rows=rows))
    (told,) = FIGURES["points"].rows(made)[0]
    assert 100 * made.blocks[0].lines[0].entries[0].value != 58, "the last bits of the sum"
    assert (told["score"], told["std"]) == (58.0, 1.0)


def test_only_finished_points_are_drawn():
    cells, study = pointed()
    assert lines(table([replace(c, seeds=c.seeds[:1]) for c in cells], study)) is None
    drawn = texts(lines(table([replace(c, seeds=()) if c.row.point[0] == "Plain" else c for c in cells], study)))
    assert "Distilled" in drawn and "Plain" not in drawn


def test_without_points_there_is_no_line_figure():
    assert lines(table(mixed())) is None
    free = replace(ROWS[0], point=("Plain", 1.0))
    made = table([cell(free, "sst2", (60, 62))], replace(STUDY, rows=(free,), figure="size"))
    assert heatmap(made) is not None
    assert "Scores along the rows' points" in unescape(render(made, "html"))


def test_a_label_in_several_blocks_is_told_apart_by_them():
    free = replace(ROWS[0], point=("Plain", 1.0))
    made = table([cell(free, "sst2", (60, 62), init) for init in ("every", "random")], replace(STUDY, rows=(free,)))
    assert {"Plain (transformer, init every)", "Plain (transformer, init random)"} <= texts(lines(made))


def test_curves_show_the_rows_that_fix_both_axes_beside_the_first_block():
    fixed = TeacherRow("hid_seq", "Hid-Seq")
    cells = [cell(fixed, "sst2", (90, 90), "", student=""), cell(ROWS[0], "sst2", (60, 60))]
    drawn = texts(curves(table(cells, replace(STUDY, rows=(fixed, ROWS[0])))))
    assert {"Hid-Seq", "Vanilla KD", "Learning curves (transformer, init every, SST-2)"} <= drawn


def masked(*entropies, words=("not", "good")):
    """A cell of as many seeds, each with these entropies of one sentence."""
    found = [[{"words": list(words), "entropy": e}] for e in entropies]
    seeds = tuple(run(60, s, masked_word_entropy=e) for s, e in enumerate(found))
    return replace(cell(ROWS[0], "sst2", ()), seeds=seeds)


def test_masked_words_are_shown_by_row_and_word_in_the_order_of_the_table():
    other = replace(masked([0.1, 0.2]), row=ROWS[2])
    drawn = texts(masked_words(table([other, masked([0.1, 0.5])])))
    assert {"(A) Vanilla KD", "(B) Att-KL", "not", "good", "entropy in nats"} <= drawn


def test_masked_words_take_the_mean_over_seeds_on_one_scale_from_white():
    made = (table([masked([0.0, 0.5])]), table([masked([0.0, 0.25], [0.0, 0.75])]))
    one, two = (svg(masked_words(each)) for each in made)
    assert one == two and b"#ffffff" in one  # zero is white
    assert one != svg(masked_words(table([masked([0.0, 0.3])])))  # another scale


def test_a_row_without_a_sentence_is_hatched_and_without_any_there_is_no_figure():
    cells = [masked([0.1, 0.2]), replace(masked([0.1], words=("bad",)), row=ROWS[2])]
    assert b"<pattern" in svg(masked_words(table(cells))) and b"<pattern" not in svg(masked_words(table(cells[:1])))
    assert masked_words(table(mixed())) is None
    assert "when a word is masked" in render(table(cells), "html")


@pytest.mark.parametrize("width", WIDTHS.values())
@pytest.mark.parametrize("name", ["heatmap", "curves"])
def test_on_paper_a_figure_is_as_wide_as_its_columns_and_its_text_can_be_read(name, width):
    figure = FIGURES[name].drawn(table(mixed()), width)
    shown = [text for text in figure.findobj(Text) if text.get_text()]
    assert figure.get_figwidth() == width and len(shown) > 5
    assert all(6 <= text.get_fontsize() <= 8 for text in shown)
    outer = figure.get_tightbbox()
    assert outer.x0 >= 0 and outer.x1 <= width  # inches


@pytest.mark.parametrize("name", ["heatmap", "curves", "points"])
def test_ticks_that_are_made_as_it_is_written_have_the_colour_of_the_page(name):
    figure = FIGURES[name].drawn(table(*pointed()) if name == "points" else table(mixed()), colour=INK)
    figure.draw_without_rendering()  # in a style of black text, as whoever has it may
    ticks = [tick for panel in figure.axes for axis in (panel.xaxis, panel.yaxis) for tick in axis.get_major_ticks()]
    assert ticks and {tick.label1.get_color() for tick in ticks} == {INK}
    assert {tick.tick1line.get_markeredgecolor() for tick in ticks} == {INK}


def test_a_figure_that_a_column_has_no_room_for_says_so():
    cells = [replace(cell(ROWS[0], "sst2", (60, 60)), student=f"student_{i}") for i in range(12)]
    with pytest.raises(UserError, match="does not fit into 3.3 inches"):
        FIGURES["heatmap"].drawn(table(cells), WIDTHS["one"])


@pytest.mark.parametrize("width", WIDTHS.values())
def test_a_long_label_takes_lines_and_leaves_room_for_the_numbers_beside_it(width):
    row = replace(ROWS[0], label="a_label_that_is_longer_than_a_column_of_paper_is_wide_by_far_and_without_an_end")
    rows = (row, *ROWS[1:])
    cells = [cell(each, "sst2", (60 + i, 62 + i), init) for i, each in enumerate(rows) for init in ("every", "random")]
    made = table(cells, replace(STUDY, rows=rows))
    for name in ("heatmap", "curves"):
        figure = FIGURES[name].drawn(made, width)  # which raises where something is cut off
        figure.draw_without_rendering()
        panels = [panel for panel in figure.axes if panel.get_label() != "<colorbar>"]
        for panel in panels:
            places = [label.get_window_extent() for label in panel.get_yticklabels()]
            assert name == "curves" or all(a.y0 >= b.y1 - 1 or b.y0 >= a.y1 - 1 for a, b in combinations(places, 2))
            numbers = sorted((text.get_window_extent() for text in panel.texts), key=lambda box: (box.y0, box.x0))
            assert all(a.x1 <= b.x0 for a, b in pairwise(numbers) if abs(a.y0 - b.y0) < 1)


def test_a_name_on_the_vertical_axis_is_no_longer_than_its_panel_on_paper():
    figure = FIGURES["curves"].drawn(table(mixed()), WIDTHS["one"])
    figure.draw_without_rendering()
    named = [panel for panel in figure.axes if panel.get_ylabel()]
    assert all(p.yaxis.label.get_window_extent().height <= p.get_window_extent().height for p in named) and named


def test_the_rows_of_every_figure_are_plain_numbers_and_text():
    cells, study = pointed()
    free = table([*mixed(), replace(masked([0.1, 0.2]), init="last")])
    for made, names in ((free, ("heatmap", "curves", "masked_words")), (table(cells, study), ("points",))):
        for name in names:
            found, missing = FIGURES[name].rows(made)
            assert found and not missing and len({tuple(row) for row in found}) == 1
            assert {type(value) for row in found for value in row.values()} <= {str, int, float, bool, type(None)}
    assert FIGURES["points"].rows(free) == ([], f"it needs {FIGURES['points'].needs}")


def seen(colour, blindness):
    """CIE L*a*b* of a colour as somebody with this matrix of cones sees it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    rgb = np.clip(np.array(blindness) @ linear, 0, 1)
    xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]] @ rgb / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


# Machado, Oliveira and Fernandes (2009), severity 1.0.
DEUTERANOPIA = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
PROTANOPIA = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]


@pytest.mark.parametrize("blindness", [np.eye(3), DEUTERANOPIA, PROTANOPIA])
def test_lines_are_told_apart_without_all_cones(blindness):
    apart = [np.linalg.norm(seen(a, blindness) - seen(b, blindness)) for a, b in combinations(PALETTE, 2)]
    assert min(apart) > 12  # 2.3 is a difference that can just be noticed


def test_lines_are_told_apart_in_grey():
    looks = [style(place) for place in range(12)]
    assert len({(look["color"], look["linestyle"]) for look in looks}) == 12
    assert all(a["linestyle"] != b["linestyle"] for a, b in pairwise(looks))


def test_a_title_ends_where_its_figure_does() -> None:
    """Also that of a figure which is narrower than its words."""
    words = "Is the row above that of the number,\nas published? + supported, − contradicted, ? undecided by these"
    for width, lines in ((3.0, 5), (20.0, 2)):
        with drawing.styled() as finished:
            figure = drawing.new_figure((width, 3.0))
            figure.subplots()
            drawing.title(figure, words)
            finished(figure)
        figure.draw_without_rendering()
        told = figure._suptitle
        assert told.get_text().replace("\n", " ") == words.replace("\n", " ")
        assert told.get_text().count("\n") + 1 <= lines
        assert told.get_window_extent().x1 <= figure.bbox.x1
