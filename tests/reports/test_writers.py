"""Every format from the same table: exact text, escaping, and what a reader's tools make of it."""

import csv
import io
import json
import re
from dataclasses import replace
from html import unescape

import pytest

from harness.contracts import Row, RunResult
from harness.errors import UserError, plain
from harness.reports import FORMATS, render, with_published
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
