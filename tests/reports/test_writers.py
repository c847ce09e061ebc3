"""Every format from the same table: exact text, escaping, and what a reader's tools make of it."""

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape

import pytest

from harness.contracts import Profile, Row, RunResult
from harness.errors import UserError, plain
from harness.reports import FORMATS, render, with_published
from harness.reports.formats.latex import escape
from tests.conftest import ROOT
from tests.reports.synthetic import ROWS, STUDY, TASKS, cell, mixed, table

GOLDEN = """\
## A toy study (toy)

Which row is best? Profile quick. Dev scores × 100; mean ± sample standard deviation over n = 2 seeds.

|                            |        SST-2 (accuracy) |        RTE (accuracy) |               Average |
| -------------------------- | ----------------------: | --------------------: | --------------------: |
| Teacher: embedded          |                    95.0 |                  90.0 |                  92.5 |
| *transformer, init every*  |                         |                       |                       |
| Vanilla KD†                |              60.0 ± 0.0 |            52.0 ± 2.8 |            56.0 ± 1.4 |
| Hid-Seq                    |   <ins>85.0 ± 1.4</ins> |            70.0 (1/2) |                       |
| Att-KL                     |          **86.0 ± 0.0** |        **81.0 ± 1.4** |        **83.5 ± 0.7** |
| Att-KL + Val-KL            |   <ins>72.0 ± 2.8</ins> | <ins>80.5 ± 0.7</ins> | <ins>76.3 ± 1.1</ins> |
| *transformer, init random* |                         |                       |                       |
| Vanilla KD†                |              99.0 (1/2) |                   0/2 |                       |
| Hid-Seq                    |                  failed |    60.0 (1/2, failed) |                       |
| Att-KL                     |           –<sup>1</sup> |         –<sup>1</sup> |                       |
| Att-KL + Val-KL            | 70.0 ± 0.0 (1/3 trials) |         –<sup>2</sup> |                       |

- † half the epochs of the others
- <sup>1</sup> teacher and student split text differently
- <sup>2</sup> no labels
- Hyperparameters and epochs selected on a part held out of the training data (protocol held_out).
- Search budget of every cell: 1 trial, 2 seeds.
- Training of every cell: 2 + 2 epochs, batch 32.
- Bold: best of its column. Underlined: it may be the best too. The truly best is bold or underlined in 95% of such \
tables (simultaneous comparisons with the best, over seeds and dev examples).
- The least difference between two rows named beforehand that would be found with 80% power, in points: SST-2 14.0 \
(2 seeds, 100 examples); RTE 16.4 (2 seeds, 100 examples); Average 10.7.
- Unfinished cells, shown with their progress: 5.
- Failed cells (harness show prints the traceback): hid_seq-random-sst2, hid_seq-random-rte.
- 3 cells were made with an older att_kl.
"""

HOSTILE = r"""[*a_b* & 50% #1 $x^2$ {z} ~ \end{document} <script>alert("1")</script> --flag | `c` é ‖ 漢 ± † ×]"""
pdflatex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on the PATH")


def hostile():
    row = Row("hostile", "hostile", HOSTILE, mark=HOSTILE, published="Att-KL")
    study = replace(STUDY, title=HOSTILE, question=HOSTILE)
    made = table(
        [cell(row, "sst2", (80, 82)), cell(row, "rte", (), refused=HOSTILE)],
        study,
        teacher=HOSTILE,
        recipe=HOSTILE,
        notes=(HOSTILE,),
    )
    return with_published(made, study)


def compiled(folder, name, fails=False):
    """What pdflatex says of a file that it can compile, or cannot."""
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert (done.returncode != 0) is fails, done.stdout.decode(errors="replace")[-2000:]
    return done.stdout


def test_markdown_is_this_text():
    assert render(table(mixed(), older_code=("3 cells were made with an older att_kl",)), "markdown") == GOLDEN


def test_the_protocol_is_named():
    assert "selected on dev itself, as published" in render(table(mixed(), protocol="published"), "markdown")


def test_a_pipe_gets_plain_text_with_signs_for_bold_and_underline():
    text = render(table(mixed()), "terminal")
    assert "\x1b" not in text and "_85.0 ± 1.4_" in text and "*86.0 ± 0.0*" in text and "–¹" in text


def test_a_terminal_gets_bold_and_underline(monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    text = render(table(mixed()), "terminal")
    assert "\x1b[1m86.0 ± 0.0" in text and "\x1b[4m85.0 ± 1.4" in text and "*86.0" not in text


def test_columns_that_do_not_fit_a_terminal_follow_below(monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for columns, tables in (("100", 1), ("60", 2), ("55", 3)):
        monkeypatch.setenv("COLUMNS", columns)
        text = render(table(mixed()), "terminal")
        assert text.count("init every") == tables
        assert text.index("SST-2") < text.index("RTE") < text.index("Average")


OBEYED = "\x1b[2Jclear\x00\x9b31m\u202eback\u2066\r\nend"
SHOWN = r"\x1b[2Jclear\x00\x9b31m\u202eback\u2066\r\nend"


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_control_characters_are_shown_and_not_obeyed(form, live, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: live, raising=False)
    monkeypatch.setenv("COLUMNS", "400")
    row = Row("rings", "rings", OBEYED, mark=OBEYED, published="Att-KL")
    study = replace(STUDY, title=OBEYED, question=OBEYED)
    cells = [cell(row, "sst2", (80, 82)), cell(row, "rte", (), refused=OBEYED)]
    text = render(with_published(table(cells, study, teacher=OBEYED, recipe=OBEYED), study), form)
    ours = re.sub("\x1b\\[[0-9;]*m", "", text) if live and form == "terminal" else text
    assert not [c for c in ours if c != "\n" and not c.isprintable()]
    if form == "json":
        assert json.loads(text)["question"] == OBEYED  # the same, in JSON's own escapes
    elif form in ("terminal", "csv", "html"):
        assert SHOWN in text
    else:
        assert "clear" in text and "back" in text


def test_no_cell_of_a_csv_is_a_formula():
    texts = ['=HYPERLINK("http://evil","x")', "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1"]
    rows = [Row(f"row{i}", text, text, mark=text) for i, text in enumerate(texts)]
    made = table([cell(row, "sst2", (80 + i, 82)) for i, row in enumerate(rows)])
    lines = list(csv.DictReader(io.StringIO(render(made, "csv"))))
    assert not [value for line in lines for value in line.values() if value.startswith(("=", "+", "@", "\t", "\r"))]
    found = [(line["row"], line["objective"], line["mark"]) for line in lines if line["row"].startswith("'")]
    assert sorted({text for line in found for text in line}) == sorted(f"'{plain(text)}" for text in texts)
    improved = csv.DictReader(io.StringIO(render(with_published(table(mixed()), STUDY), "csv")))
    differences = [line["difference"] for line in improved if line["difference"]]
    assert "-2.4" in differences and all(float(value) is not None for value in differences)


def test_json_has_one_order_of_keys():
    made = cell(ROWS[0], "sst2", (80, 82))
    runs = [replace(run, metrics={"z": 1.0, **run.metrics}, hyperparameters={"b": 1, "a": 2}) for run in made.seeds]
    turned = [
        replace(run, **{name: dict(reversed(getattr(run, name).items())) for name in ("metrics", "hyperparameters")})
        for run in runs
    ]
    one, other = (render(table([replace(made, seeds=tuple(seeds))]), "json") for seeds in (runs, turned))
    assert one == other and '"hyperparameters": {\n            "a": 2' in one


def test_csv_has_one_line_per_entry_with_the_published_number_beside():
    lines = list(csv.DictReader(io.StringIO(render(with_published(table(mixed()), STUDY), "csv"))))
    assert len(lines) == 3 * (1 + 8) and {line["teacher"] for line in lines} == {"embedded"}
    (one,) = [x for x in lines if (x["row"], x["init"], x["task"]) == ("Hid-Seq", "every", "sst2")]
    assert {k: one[k] for k in ("value", "std", "n", "wanted", "status", "tied", "published", "difference")} == {
        "value": "85.0", "std": "1.414214", "n": "2", "wanted": "2", "status": "complete", "tied": "True",
        "published": "87.4", "difference": "-2.4",
    }  # fmt: skip
    (none,) = [x for x in lines if (x["row"], x["init"], x["task"]) == ("Att-KL", "random", "rte")]
    assert (none["value"], none["status"], none["reason"]) == (
        "",
        "impossible",
        "teacher and student split text differently",
    )


def test_json_holds_each_run():
    content = json.loads(render(with_published(table(mixed()), STUDY), "json"))
    (one,) = [e for e in content["entries"] if (e["row"], e["init"], e["task"]) == ("Hid-Seq", "every", "sst2")]
    assert [(r["seed"], r["metrics"]["accuracy"], r["hyperparameters"]) for r in one["runs"]] == [
        (0, 84.0, {"learning_rate": 5e-4}),
        (1, 86.0, {"learning_rate": 5e-4}),
    ]
    assert content["comparison"]["agreement"][0]["rows"] == 4


def test_an_unknown_format_names_the_known_ones():
    with pytest.raises(UserError, match="did you mean latex"):
        render(table([]), "latx")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a_b % & # $ { }", r"a\_b \% \& \# \$ \{ \}"),
        ("~ ^ \\", r"\textasciitilde{} \textasciicircum{} \textbackslash{}"),
        ("< >", r"\textless{} \textgreater{}"),
        ("± – † ×", r"$\pm$ -- \dag{} $\times$"),
        ("--flag ---", "-{}-flag -{}-{}-"),
        ("é 漢 ﬁ", "é U+6F22 fi"),
        ("[1] *", "{[}1{]} {*}"),
        ("λ Ω µ →", r"$\lambda$ $\Omega$ $\mu$ $\to$"),
        ("1½ x² 10⁻³ h₁", r"1\,1/2 x\textsuperscript{2} 10\textsuperscript{$-$}\textsuperscript{3} h\textsubscript{1}"),
        ("a\nb\x00", "a bU+0000"),
    ],
)
def test_latex_escapes(text, expected):
    assert escape(text) == expected


def test_latex_gives_each_value_a_macro_of_letters():
    text = render(table(mixed()), "latex")
    assert r"\HarnessValue{ResultToyQuickTransformerEveryAttKlSstTwo}{86.0 $\pm$ 0.0}" in text
    assert r"\HarnessValue{ResultToyQuickTeacherAverage}{92.5}" in text
    names = re.findall(r"\\HarnessValue\{(\w+)\}", text)
    assert len(names) == len(set(names)) == 3 + 16 + 3 and all(name.isalpha() for name in names)
    assert r"\textbf{86.0 $\pm$ 0.0}" in text and r"\underline{85.0 $\pm$ 1.4}" in text


def test_macros_of_names_with_the_same_letters_stay_apart():
    twins = [cell(Row(name, name, name), "sst2", (k, k)) for name, k in (("a_b", 60), ("a+b", 70))]
    text = render(table(twins), "latex")
    assert text.count("{ResultToyQuickTransformerEveryABSstTwo}") == text.count("EveryABSstTwoX}") == 1


def test_macros_of_names_in_other_letters_are_named_by_what_they_are():
    """So that the same name means the same row, whichever rows the table has."""
    greek = [cell(Row(name, name, name), "sst2", (k, k)) for name, k in (("loss_α", 60), ("loss_β", 70))]
    alone, both = (render(table(cells), "latex") for cells in (greek[1:], greek))
    value = r"\HarnessValue{ResultToyQuickTransformerEveryLossBetaSstTwo}{70.0 $\pm$ 0.0}"
    assert value in alone and value in both


def sized():
    """A study of quantities: two metrics of one task and one of another, for rows that fix their student."""
    rows = tuple(Row(s, "labels_only", s.upper(), student=s, init="random") for s in ("cbow", "cmow"))
    metrics = {"sst2": ("parameters", "sentences_per_second", "speed_ratio"), "rte": "parameters"}
    study = replace(STUDY, rows=rows, students=(), procedure="speed", metrics=metrics, question="How large?")
    cells = []
    for i, row in enumerate(rows):
        for task in ("sst2", "rte"):
            shown = {"parameters": 47861634 + i, "sentences_per_second": 12345.6, "speed_ratio": 6.5}
            slower = {**shown, "sentences_per_second": 12000.0, "speed_ratio": 6.1}
            runs = tuple(RunResult(f"r{s}", s, {}, m, 0.0, {}) for s, m in enumerate((shown, slower)))
            cells.append(replace(cell(row, task, (), "random"), student=row.student, seeds=runs, trials=runs[:1]))
    return table(cells, study, protocol="", teacher_scores={})


QUANTITIES = """\
## A toy study (toy)

How large? Profile quick. Mean ± sample standard deviation over n = 2 seeds.

|      | SST-2 (parameters) | SST-2 (sentences per second) | SST-2 (speed ratio) | RTE (parameters) |
| ---- | -----------------: | ---------------------------: | ------------------: | ---------------: |
| CBOW |         47,861,634 |                 12,200 ± 200 |        6.30× ± 0.28 |       47,861,634 |
| CMOW |         47,861,635 |                 12,200 ± 200 |        6.30× ± 0.28 |       47,861,635 |

"""


def test_quantities_are_no_scores_and_nothing_is_said_of_training():
    assert render(sized(), "markdown") == QUANTITIES


def test_csv_and_json_hold_quantities_as_they_are():
    first = next(csv.DictReader(io.StringIO(render(sized(), "csv"))))
    assert (first["student"], first["init"], first["metric"], first["value"]) == (
        "cbow",
        "random",
        "parameters",
        "47861634.0",
    )
    (run, _) = json.loads(render(sized(), "json"))["entries"][0]["runs"]
    assert run["metrics"] == {"parameters": 47861634, "sentences_per_second": 12345.6, "speed_ratio": 6.5}


def test_macros_name_the_metric_where_a_task_shows_several():
    text = render(sized(), "latex")
    assert r"\HarnessValue{ResultToyQuickCbowSstTwoSpeedRatio}{6.30$\times$ $\pm$ 0.28}" in text
    assert r"\HarnessValue{ResultToyQuickCbowRte}{47,861,634}" in text


@pdflatex
@pytest.mark.parametrize(
    "made", [lambda: table(mixed()), hostile, lambda: table([]), sized], ids=["mixed", "odd", "empty", "quantities"]
)
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside a paper"])
def test_latex_compiles(made, inside, tmp_path):
    (tmp_path / "table.tex").write_text(render(made(), "latex"), encoding="utf-8")
    (tmp_path / "paper.tex").write_text(
        "\\documentclass[twocolumn]{article}\\usepackage{booktabs,graphicx}\\begin{document}Before.\\input{table}After.\n"
        "\\end{document}",
        encoding="utf-8",
    )
    name = "paper" if inside else "table"
    compiled(tmp_path, name)
    assert (tmp_path / f"{name}.pdf").stat().st_size > 1000


@pdflatex
def test_two_tables_stand_in_one_paper_whose_text_may_begin_with_their_numbers(tmp_path):
    made = table(mixed())
    numbers = {"first": made, "other": replace(made, study="other"), "seeds": replace(made, kind="seeds=2")}
    for name, each in numbers.items():
        (tmp_path / f"{name}.tex").write_text(render(each, "latex"), encoding="utf-8")
    above, below = ("".join(rf"\input{{{name}}}" for name in numbers) for _ in range(2))
    value = r"\ResultToyQuickTeacherAverage, \ResultOtherQuickTeacherAverage, \ResultToyQuickSeedsTwoTeacherAverage"
    (tmp_path / "paper.tex").write_text(
        rf"\documentclass{{article}}\usepackage{{booktabs,graphicx}}{above}\begin{{document}}{value}{below}"
        "\n\\end{document}",
        encoding="utf-8",
    )
    compiled(tmp_path, "paper")


@pdflatex
def test_the_paper_of_the_page_on_papers_compiles(tmp_path):
    """It names a macro and a label as a table of that study has them."""
    page = (ROOT / "docs" / "in_a_paper.md").read_text(encoding="utf-8")
    (paper,) = re.findall(r"^```latex\n(.*?)^```$", page, re.M | re.S)
    made = replace(table(mixed()), study="objectives_vs_init")
    (tmp_path / "table.tex").write_text(render(made, "latex"), encoding="utf-8")
    (tmp_path / "paper.tex").write_text(paper.replace("KlAcceptability", "KlSstTwo"), encoding="utf-8")
    compiled(tmp_path, "table")
    (tmp_path / "figures").mkdir()
    (tmp_path / "table.pdf").rename(tmp_path / "figures" / "heatmap_one_column.pdf")  # any picture
    compiled(tmp_path, "paper")
    said = compiled(tmp_path, "paper")
    assert b"undefined" not in said and b"Overfull" not in said


@pdflatex
def test_a_number_that_two_tables_give_differently_is_an_error_unless_one_is_named(tmp_path):
    """As of two folders of results: which of them the text means cannot be guessed."""
    made = table(mixed())
    other = table(mixed(), teacher_scores={"sst2": [{"accuracy": 0.5}], "rte": [{"accuracy": 0.6}]})
    for name, each in {"first": made, "other": other}.items():
        (tmp_path / f"{name}.tex").write_text(render(each, "latex"), encoding="utf-8")

    def paper(between):
        (tmp_path / "paper.tex").write_text(
            rf"\documentclass{{article}}\usepackage{{booktabs,graphicx}}\input{{first}}{between}\input{{other}}"
            r"\begin{document}\ifx\ResultToyQuickTeacherAverage\ResultToyQuickTeacherAverageWeak\else"
            r"\typeout{apart}\fi\input{other}\def\HarnessName{}\input{first}\end{document}",
            encoding="utf-8",
        )

    paper("")
    said = compiled(tmp_path, "paper", fails=True)
    assert b"Two tables give \\ResultToyQuickTeacherSstTwo" in said
    paper(r"\def\HarnessName{Weak}")
    assert b"apart" in compiled(tmp_path, "paper")
    assert (tmp_path / "paper.aux").read_text().count("newlabel{tab:toy-quickWeak}") == 1


@pdflatex
def test_a_wide_latex_table_is_made_to_fit(tmp_path, monkeypatch):
    names = [f"t{i:02}" for i in range(16)]
    for name in names:
        monkeypatch.setitem(TASKS, name, replace(TASKS["sst2"], name=name, label=f"Long name {name}"))
    study = replace(STUDY, profiles={"quick": Profile("embedded", tuple(names), ("every",), 1, 2)})
    made = table([cell(row, name, (60, 62)) for row in ROWS for name in names], study)
    (tmp_path / "table.tex").write_text(render(made, "latex"), encoding="utf-8")
    assert b"Overfull" not in compiled(tmp_path, "table")


@pdflatex
def test_a_long_latex_table_goes_on_to_the_next_page(tmp_path):
    rows = [Row(f"row{i:03}", "x", f"Row {i}") for i in range(120)]
    text = render(table([cell(row, "sst2", (60, 60)) for row in rows]), "latex")
    assert text.count(r"\begin{tabular}") == 4 and text.count("continued.") == 3
    assert re.findall(r"Row \d+", text) == [f"Row {i}" for i in range(120)]


PAPERS = {
    "one column": r"\documentclass{article}\usepackage[textwidth=5.5in,textheight=9in]{geometry}",
    "two columns": r"\documentclass[11pt,a4paper,twocolumn]{article}\usepackage[margin=2.5cm]{geometry}",
}


@pdflatex
@pytest.mark.parametrize("paper", PAPERS.values(), ids=PAPERS)
def test_what_a_page_has_no_room_for_goes_on_to_the_next(paper, tmp_path):
    """Lines of a table and notes alike: LaTeX lets a float that is too high run off the page."""
    rows = [Row(f"row{i:03}", "x", f"Row {i}") for i in range(45)]
    notes = tuple(f"note {i}: " + "what somebody who reads this table has to know of it, " * 5 for i in range(25))
    text = render(table([cell(row, "sst2", (60, 60)) for row in rows], notes=notes), "latex")
    (tmp_path / "table.tex").write_text(text, encoding="utf-8")
    (tmp_path / "paper.tex").write_text(
        rf"{paper}\usepackage{{booktabs,graphicx}}\begin{{document}}Before.\input{{table}}"
        r"\typeout{tables: \the\value{table}}\end{document}",
        encoding="utf-8",
    )
    said = compiled(tmp_path, "paper")
    assert b"Float too large" not in said and b"Overfull" not in said and b"tables: 1\n" in said
    assert "continued." in text
    assert all(f"note {i}:" in text for i in range(25))


@pdflatex
def test_a_small_table_may_stand_in_one_column(tmp_path):
    (tmp_path / "table.tex").write_text(render(table(mixed()), "latex"), encoding="utf-8")
    (tmp_path / "paper.tex").write_text(
        rf"{PAPERS['two columns']}\usepackage{{booktabs,graphicx}}\begin{{document}}\def\HarnessFloat{{table}}"
        r"\input{table}\end{document}",
        encoding="utf-8",
    )
    said = compiled(tmp_path, "paper")
    assert b"Overfull" not in said and b"(1 page," in said


@pdflatex
def test_a_row_with_a_long_name_leaves_the_numbers_legible(tmp_path):
    row = Row("long", "x", "a_name_of_an_objective_" * 6, mark="a mark")
    text = render(table([cell(row, task, (60, 60)) for task in ("sst2", "rte")]), "latex")
    assert text.count(r"\resizebox") == 1
    (tmp_path / "table.tex").write_text(text.replace(r"\resizebox", r"\toowide"), encoding="utf-8")  # an error, if used
    (tmp_path / "paper.tex").write_text(
        rf"{PAPERS['one column']}\usepackage{{booktabs,graphicx}}\begin{{document}}\input{{table}}\end{{document}}",
        encoding="utf-8",
    )
    compiled(tmp_path, "paper")


@pdflatex
def test_a_paper_may_refer_to_each_table(tmp_path):
    text = render(with_published(table(mixed()), STUDY), "latex")
    labels = re.findall(r"\\label\{(.*?)\\HarnessName\}", text)
    assert len(labels) == len(set(labels)) == 2 and labels[0] == "tab:toy-quick"
    (tmp_path / "table.tex").write_text(text, encoding="utf-8")
    (tmp_path / "paper.tex").write_text(
        r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}\input{table}"
        + ", ".join(rf"\ref{{{label}}}" for label in labels)
        + r"\end{document}",
        encoding="utf-8",
    )
    compiled(tmp_path, "paper")
    assert b"undefined" not in compiled(tmp_path, "paper")


def test_markdown_leaves_hostile_text_without_effect():
    text = render(hostile(), "markdown")
    columns = {
        len(re.findall(r"(?<!\\)\|", line)) for line in text.split("## Beside")[0].splitlines() if line.startswith("| ")
    }
    assert columns == {5} and r"\<script\>" in text and "<script>" not in text


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_label_may_hold_what_any_format_uses(monkeypatch):
    monkeypatch.setitem(TASKS, "sst2", replace(TASKS["sst2"], label=HOSTILE))
    made = table([cell(ROWS[0], "sst2", (60, 60))])
    (score,) = [x for x in csv.DictReader(io.StringIO(render(made, "csv"))) if x["row"] == "Vanilla KD"]
    assert score["value"] == "60.0"
    assert HOSTILE in unescape(render(made, "html"))
