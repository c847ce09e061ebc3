"""A table as matrices: objectives by students and initialisations, of the same entries as its lines."""

import csv
import io
from dataclasses import replace

import pytest

from harness.contracts import GainRow, Published, Row
from harness.reports import FORMATS, fragment, render, with_published
from harness.rows import BASELINES
from tests.reports.synthetic import ROWS, STUDY, cell, mixed, run, table
from tests.reports.test_latex import compiled, pdflatex

MATRIX = replace(STUDY, layout="matrix")
GAIN = GainRow("gain", "Gain of Att-KL", ("att_kl", "vanilla_kd"))
STUDENTS = ("transformer", "bilstm", "bidirectional_hybrid")
SCORES = (  # the examples that each student's seeds answer rightly, row by row; None where it cannot exist
    ((60, 62), (70, 71), (90, 90)),
    ((84, 86), (80,), None),
    ((86, 86), None, None),
    ((70, 74), None, (40, 44)),
)
NARROW = (
    r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}Before.\input{table}After.\end{document}"
)


def several(students=STUDENTS, layout="matrix"):
    """Students that each start as their family does, pairs that are refused alike, a gain and a reference."""
    made = []
    for task, more in (("sst2", 0), ("rte", 1)):
        for row, of_students in zip(ROWS, SCORES, strict=True):
            for i, student in enumerate(students):
                right = of_students[i % 3]
                why = f"{row.objective.partition('+')[0]} needs attention_scores, which the student {student} has not"
                given = {"refused": "" if right else why, "student": student, "cell": f"{row.name}-{student}-{task}"}
                init = "every" if student == "transformer" else "random"
                made.append(cell(row, task, [k + more for k in right or ()], init, **given))
        made.append(cell(BASELINES[0], task, (50,), "", student="", wanted_seeds=1, cell=f"majority-{task}"))
    study = replace(STUDY, rows=(*ROWS, GAIN), students=students, published=None, layout=layout)
    return table(made, study)


FIRST = """\
## A toy study (toy): SST-2 (accuracy)

Which row is best? Profile quick. Dev scores × 100; mean ± sample standard deviation over n = 2 seeds. \
Columns: students. Teacher (embedded): 95.0; Majority class or mean score†: 50.0.

|                 |   transformer (every) | bilstm (random) | bidirectional_hybrid (random) |
| --------------- | --------------------: | --------------: | ----------------------------: |
| Vanilla KD‡     |            61.0 ± 1.4 |  **70.5 ± 0.7** |               **90.0 ± 0.0**★ |
| Hid-Seq         | <ins>85.0 ± 1.4</ins> |      80.0 (1/2) |                 –<sup>1</sup> |
| Att-KL          |        **86.0 ± 0.0** |   –<sup>1</sup> |                 –<sup>1</sup> |
| Att-KL + Val-KL |           72.0 ± 2.8★ |   –<sup>1</sup> |                    42.0 ± 2.8 |
| *Improvement*   |                       |                 |                               |
| Gain of Att-KL  |           +25.0 ± 1.4 |   –<sup>1</sup> |                 –<sup>1</sup> |

- What marks and numbers mean, and how all was made: under the last of these matrices, Average.
"""
LAST = """\
## toy: Average

Dev scores × 100; mean ± sample standard deviation over n = 2 seeds. \
Columns: students. Teacher (embedded): 92.5; Majority class or mean score†: 50.0.

|                 |   transformer (every) | bilstm (random) | bidirectional_hybrid (random) |
| --------------- | --------------------: | --------------: | ----------------------------: |
| Vanilla KD‡     |            61.5 ± 1.4 |  **71.0 ± 0.7** |               **90.5 ± 0.0**★ |
| Hid-Seq         | <ins>85.5 ± 1.4</ins> |                 |                 –<sup>1</sup> |
| Att-KL          |        **86.5 ± 0.0** |   –<sup>1</sup> |                 –<sup>1</sup> |
| Att-KL + Val-KL |           72.5 ± 2.8★ |   –<sup>1</sup> |                    42.5 ± 2.8 |
| *Improvement*   |                       |                 |                               |
| Gain of Att-KL  |           +25.0 ± 1.4 |   –<sup>1</sup> |                 –<sup>1</sup> |

- ★ best of its row
- † a reference, no student: the commonest class of the training examples, or their mean score, for all
- ‡ half the epochs of the others
- <sup>1</sup> the objective needs attention_scores, which the student has not
- Hyperparameters"""


def test_each_task_and_the_average_is_a_matrix_and_all_share_their_notes():
    first, middle, last = render(several(), "markdown").split("\n\n## toy: ")
    assert first + "\n" == FIRST
    assert f"## toy: {last}".startswith(LAST) and "Bold: best of its column" in last
    assert middle.startswith("RTE (accuracy)") and middle.count("\n- ") == 1


def test_a_reason_that_names_a_setting_of_the_student_can_be_typed_as_it_stands():
    made = [cell(ROWS[0], "sst2", (80, 82), student="transformer"), cell(ROWS[0], "sst2", (80, 82), student="bilstm")]
    why = "hid_seq needs hidden_states: --set {}.vocabulary=teacher"
    made += [cell(ROWS[1], "sst2", (), refused=why.format(n), student=n) for n in ("transformer", "bilstm")]
    text = render(table(made, replace(MATRIX, students=("transformer", "bilstm"))), "markdown")
    assert "<sup>1</sup> the objective needs hidden_states: --set student.vocabulary=teacher\n" in text


def test_a_csv_has_numbers_where_there_are_any_and_says_which_are_best():
    rows = list(csv.DictReader(io.StringIO(render(several(), "csv"))))
    assert [row["row"] for row in rows[:7]] == [
        *("teacher", "Majority class or mean score"),
        *(row.label for row in (*ROWS, GAIN)),
    ]
    assert (rows[0]["own"], rows[1]["own"], rows[6]["metric"]) == ("95.0", "50.0", "delta_accuracy")
    assert {row["teacher"] for row in rows} == {"embedded"}
    told = {name: rows[2][name] for name in ("task", "metric", "transformer every", "transformer every std", "best")}
    assert told == {
        **{"task": "sst2", "metric": "accuracy", "transformer every": "61.0", "transformer every std": "1.414214"},
        "best": "bilstm random; bidirectional_hybrid random",
    }
    assert (rows[2]["best_of_row"], rows[3]["tied"]) == ("bidirectional_hybrid random", "transformer every")
    assert (rows[3]["bilstm random"], rows[3]["bilstm random std"]) == ("80.0 (1/2)", "")
    assert rows[4]["bilstm random"] == "–"
    why = "att_kl needs attention_scores, which the student {} has not"
    assert rows[4]["reasons"] == "; ".join(f"{name} random: {why.format(name)}" for name in STUDENTS[1:])


def test_the_header_of_a_csv_is_no_formula_either():
    made = [cell(row, "sst2", (80, 82), student=name) for row in ROWS[:2] for name in ("=1+1", "b")]
    header = render(table(made, replace(MATRIX, students=("=1+1", "b"))), "csv").partition("\n")[0]
    assert ",'=1+1 every," in header


def test_initialisations_are_the_columns_of_one_student():
    made = render(table(mixed(), MATRIX), "markdown")
    assert "Columns: initialisations of transformer." in made
    assert "|                 |                 every |                  random |" in made
    lines = {line.split("|")[1].strip(): line for line in made.splitlines() if line.startswith("| ")}
    assert "★" not in lines["Vanilla KD†"]  # nothing beside it is finished
    assert [line for line in made.splitlines() if "99.0 (1/2)" in line and "*99.0" not in line]  # unfinished, not bold


def test_what_collapsed_is_best_neither_of_its_column_nor_of_its_row():
    same = run(50)
    ids, answers, labels = same.record["predictions"]()
    same = replace(same, record={"predictions": lambda: (ids, answers * 0, labels)}, metrics={"accuracy": 0.99})
    collapsed = cell(ROWS[0], "sst2", (), "random", seeds=(same, same), trials=(same,))
    cells = [cell(ROWS[0], "sst2", (60, 60)), collapsed, cell(ROWS[1], "sst2", (50, 50), "random")]
    text = render(table(cells, MATRIX), "markdown")
    assert "**60.0 ± 0.0** | 99.0 ± 0.0<sup>1</sup> |" in text and "**50.0 ± 0.0** |" in text


def test_rows_that_fix_what_they_are_made_of_stand_in_its_column_or_in_one_of_their_own():
    fixed = Row("fixed", "hid_seq", "Fixed", student="transformer", init="random")
    other = Row("other", "hid_seq", "Other", student="bilstm", init="random")
    study = replace(MATRIX, rows=(*ROWS, fixed, other))
    cells = [cell(ROWS[0], "sst2", (60, 60), init) for init in ("every", "random")]
    cells += [cell(fixed, "sst2", (70, 70), "random"), cell(other, "sst2", (80, 80), "random", student="bilstm")]
    found = [" ".join(line.split()) for line in render(table(cells, study), "markdown").splitlines()]
    assert "| | every | random | own |" in found
    assert "| Fixed | | **70.0 ± 0.0** | |" in found and "| Other | | | **80.0 ± 0.0** |" in found
    assert "- Column own: rows that fix what they are made of themselves." in found


@pytest.mark.parametrize("form", [*FORMATS, "fragment"])
def test_a_table_without_a_second_axis_is_a_matrix_already(form):
    cells = [made for made in mixed() if made.init == "every"]
    made = table(cells, MATRIX), table(cells)
    one, other = (fragment(t) if form == "fragment" else render(t, form) for t in made)
    assert one == other


def test_published_numbers_stand_in_lines_below_and_in_a_csv_beside():
    made = with_published(table(mixed(), MATRIX), STUDY)
    below = "\n## Beside the published numbers"
    texts = (render(replace(made, layout=layout), "markdown") for layout in ("lines", "matrix"))
    one, other = (text.partition(below)[2] for text in texts)
    assert one and one == other
    found = csv.DictReader(io.StringIO(render(made, "csv")))
    (row,) = [row for row in found if (row["row"], row["task"]) == ("Hid-Seq", "sst2")]
    told = [row[f"transformer every{what}"] for what in ("", " published", " difference")]
    assert told == ["85.0", "87.4", "-2.4"]
    assert row["transformer random published"] == row["transformer every test"] == ""


def test_a_csv_has_the_test_score_that_is_compared_with_a_published_one(tmp_path):
    printed = tmp_path / "own.csv"
    printed.write_text("row,task,metric,value,split\nHid-Seq,SST-2,acc,87.4,test\n", encoding="utf-8")
    study = replace(MATRIX, published=Published((str(printed),), "Own"))
    rows = [replace(row, published=row.label if row.label == "Hid-Seq" else "") for row in study.rows]
    study = replace(study, rows=tuple(rows))
    cells = [replace(c, row=next(row for row in rows if row.name == c.row.name)) for c in mixed()]
    made = replace(table(cells, study), submitted={"hid_seq-every-sst2": {"accuracy": 0.86}})
    made = with_published(made, study)
    found = csv.DictReader(io.StringIO(render(made, "csv")))
    (row,) = [row for row in found if (row["row"], row["task"]) == ("Hid-Seq", "sst2")]
    assert [row[f"transformer every{what}"] for what in ("", " test", " difference")] == ["85.0", "86.0", "-1.4"]


def test_json_has_the_same_entries_in_either_layout():
    assert render(several(), "json") == render(several(layout="lines"), "json")


def test_html_scrolls_below_names_that_stay():
    page, lines = render(several(), "html"), render(several(layout="lines"), "html")
    assert page.count('<div class="scroll matrix"') == 3 and "position: sticky" in page
    assert "bidirectional_<br>hybrid<small>random</small>" in page and "85.0 ± 1.4</u>" in page
    assert "scroll matrix" not in lines
    assert "position: sticky" in fragment(several()) and "sticky" not in fragment(several(layout="lines"))


def test_a_terminal_folds_long_names_and_marks_the_best_of_a_row():
    text = render(several(), "terminal")
    assert "bidirectional_\n" in text and "*90.0 ± 0.0*★" in text and "–¹" in text
    assert text.count("In this plain text") == 1


MANY = ("transformer", "averaged_transformer", *(f"bidirectional_hybrid_{i}" for i in range(7)))


def test_a_wide_matrix_is_split_in_latex():
    text = render(several(MANY), "latex")
    assert text.count(r"\begin{\HarnessFloat}") == 3 and text.count(r"\begin{tabular}") == 6
    assert text.count("\nVanilla KD") == 6
    assert render(several(), "latex").count(r"\begin{tabular}") == 3


@pdflatex
def test_a_wide_matrix_fits_the_text_of_a_paper_as_it_is(tmp_path):
    text = render(several(MANY), "latex")
    assert text.count(r"\resizebox") == 6
    (tmp_path / "table.tex").write_text(text.replace(r"\resizebox", r"\toowide"), encoding="utf-8")  # an error, if used
    (tmp_path / "paper.tex").write_text(NARROW, encoding="utf-8")
    assert not any(b"Overfull" in compiled(tmp_path, name) for name in ("paper", "table"))
