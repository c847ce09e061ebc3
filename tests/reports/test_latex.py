"""What LaTeX makes of a table: escapes, macros, and papers that pdflatex compiles."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from harness.contracts import Profile, Row
from harness.reports import render, with_published
from harness.reports.formats.latex import escape
from tests.conftest import ROOT
from tests.reports.synthetic import ROWS, STUDY, TASKS, cell, mixed, table
from tests.reports.test_writers import hostile, sized

pdflatex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not on the PATH")


def compiled(folder, name, fails=False):
    """What pdflatex says of a file that it can compile, or cannot."""
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert (done.returncode != 0) is fails, done.stdout.decode(errors="replace")[-2000:]
    return done.stdout


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
    assert r"\HarnessValue{ResultToyTransformerEveryAttKlSstTwo}{86.0 $\pm$ 0.0}" in text
    assert r"\HarnessValue{ResultToyTeacherAverage}{92.5}" in text
    names = re.findall(r"\\HarnessValue\{(\w+)\}", text)
    assert len(names) == len(set(names)) == 3 + 16 + 3 and all(name.isalpha() for name in names)
    assert r"\textbf{86.0 $\pm$ 0.0}" in text and r"\underline{85.0 $\pm$ 1.4}" in text


def test_macros_of_names_with_the_same_letters_stay_apart():
    twins = [cell(Row(name, name, name), "sst2", (k, k)) for name, k in (("a_b", 60), ("a+b", 70))]
    text = render(table(twins), "latex")
    assert text.count("{ResultToyTransformerEveryABSstTwo}") == text.count("EveryABSstTwoX}") == 1


def test_macros_of_names_in_other_letters_are_named_by_what_they_are():
    """So that the same name means the same row, whichever rows the table has."""
    greek = [cell(Row(name, name, name), "sst2", (k, k)) for name, k in (("loss_α", 60), ("loss_β", 70))]
    alone, both = (render(table(cells), "latex") for cells in (greek[1:], greek))
    value = r"\HarnessValue{ResultToyTransformerEveryLossBetaSstTwo}{70.0 $\pm$ 0.0}"
    assert value in alone and value in both


def test_macros_name_the_metric_where_a_task_shows_several():
    text = render(sized(), "latex")
    assert r"\HarnessValue{ResultToyCbowSstTwoSpeedRatio}{6.30$\times$ $\pm$ 0.28}" in text
    assert r"\HarnessValue{ResultToyCbowRte}{47,861,634}" in text


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
    above = below = r"\input{first}\input{other}\def\HarnessName{Second}\input{seeds}\def\HarnessName{}"
    value = r"\ResultToyTeacherAverage, \ResultOtherTeacherAverage, \ResultToyTeacherAverageSecond"
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
def test_to_use_a_number_that_two_tables_give_differently_is_an_error_unless_one_is_named(tmp_path):
    """As of two folders of results, or by other flags: which of them the text means cannot be guessed."""
    made = table(mixed())
    other = table(mixed(), teacher_scores={"sst2": [{"accuracy": 0.5}], "rte": [{"accuracy": 0.6}]})
    for name, each in {"first": made, "other": other}.items():
        (tmp_path / f"{name}.tex").write_text(render(each, "latex"), encoding="utf-8")

    def paper(between, used):
        (tmp_path / "paper.tex").write_text(
            rf"\documentclass{{article}}\usepackage{{booktabs,graphicx}}\input{{first}}{between}\input{{other}}"
            rf"\begin{{document}}{used}\ifx\ResultToyTeacherAverage\ResultToyTeacherAverageWeak\else"
            r"\typeout{apart}\fi\input{other}\def\HarnessName{}\input{first}\end{document}",
            encoding="utf-8",
        )

    paper("", r"\ResultToyTransformerEveryAttKlSstTwo")  # of which both say the same
    compiled(tmp_path, "paper")
    for used in (r"%s", r"\section{%s}", r"\edef\x{%s}\x"):
        paper("", used % r"\ResultToyTeacherSstTwo")
        assert b"Two tables give \\ResultToyTeacherSstTwo" in compiled(tmp_path, "paper", fails=True)
    paper(r"\def\HarnessName{Weak}", r"\ResultToyTeacherSstTwo")
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
