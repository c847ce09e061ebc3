"""How the lines of published CSVs are read, and which entry of ours each stands beside."""

import csv
import json
import math
import re
from dataclasses import replace
from importlib.resources import files

import pytest

from harness.contracts import Published, Row, RunResult
from harness.registry import STUDIES
from harness.reports import render, with_published
from tests.reports.synthetic import STUDY, TASKS, cell, compared, table

PRINTED = """\
row,embedding,init,head,task,metric,value,std,split,note
MLP,cbow,random,mlp,SST-2,acc,80.0,,dev,
MLP,cbow,random,mlp,MNLI-m,acc,60.0,,dev,
MLP,cbow,random,mlp,MNLI-mm,acc,59.0,,dev,
MLP,cbow,random,mlp,MRPC,acc_f1_mean,75.0,,dev,
MLP,cbow,pretrained,mlp,SST-2,acc,82.0,,dev,
CNN,cbow,pretrained,cnn,SST-2,acc,70.0,,dev,
CNN,cmow,random,cnn,SST-2,acc,84.0,,dev,odd
ELMo,,,,SST-2,acc,91.5,,dev,
ELMo,,,,RTE,acc,,,dev,not reported (printed as a dash)
Tiny,,,,SST-2,acc,92.6,,test,a rumour
Nothing,,,,QNLI,acc,50.0,,dev,
"""
AGAIN = """\
row,embedding,init,head,task,metric,value,std,split,note
ELMo,,,,SST-2,acc,90.0,,dev,
MLP,cbow,pretrained,mlp,SST-2,acc,82.0,,dev,
"""


@pytest.fixture
def printed(tmp_path, monkeypatch):
    """A folder of published tables in place of the installed one; tasks with labels as papers print them."""
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "a.csv").write_text(PRINTED, encoding="utf-8")
    (tmp_path / "published" / "b.csv").write_text(AGAIN, encoding="utf-8")
    monkeypatch.setattr("harness.reports.papers.printed.files", lambda package: tmp_path)
    monkeypatch.setitem(TASKS, "mnli", replace(TASKS["sst2"], name="mnli", label="MNLI"))
    monkeypatch.setitem(TASKS, "mrpc", replace(TASKS["sst2"], name="mrpc", label="MRPC"))
    return tmp_path / "published"


def declared(rows, files=("a.csv",), **changes):
    published = Published(files, "A paper", axes={"embedding": "student", "init": "init"})
    return replace(STUDY, rows=rows, students=("cbow", "cmow"), published=replace(published, **changes))


def numbers(made):
    """{(student, init, row): printed numbers} of our lines."""
    compared = [line for block in made.blocks for line in block.lines]
    return {(x.line.student, x.line.init, x.label): tuple(p.printed for p in x.pairs) for x in compared}


def test_axes_of_the_csv_equal_those_of_the_block_or_of_the_row(printed):
    mlp = Row("mlp", "vanilla_kd", "MLP", published="MLP")
    cnn = Row("cnn", "vanilla_kd", "CNN", published={"head": "cnn"}, student="cmow", init="random")
    cells = [cell(mlp, "sst2", (60, 60), i, student=s) for s in ("cbow", "cmow") for i in ("random", "pretrained:5e")]
    study = declared((mlp, cnn))
    made = compared([*cells, cell(cnn, "sst2", (60, 60), "random", student="cmow")], study)
    assert numbers(made) == {  # no line prints an MLP on CMOW
        ("cmow", "random", "CNN"): ("84.0",),
        ("cbow", "random", "MLP"): ("80.0",),
        ("cbow", "pretrained:5e", "MLP"): ("82.0",),
    }
    assert made.notes[0] == "odd"


def test_each_metric_of_a_task_finds_its_own_number(printed):
    row = Row("mlp", "vanilla_kd", "MLP", published="MLP", student="cbow", init="random")
    metrics = {"mnli": ("accuracy", "mismatched_accuracy"), "mrpc": ("accuracy_f1_mean", "accuracy")}
    study = replace(declared((row,)), metrics=metrics)
    made = compared([cell(row, task, (60, 60), "random", student="cbow") for task in ("mnli", "mrpc")], study)
    assert [(c.name, c.metric) for c in made.columns] == [
        ("MNLI accuracy", "accuracy"),
        ("MNLI mismatched accuracy", "mismatched_accuracy"),
        ("MRPC accuracy f1 mean", "accuracy_f1_mean"),
    ]
    assert numbers(made) == {("cbow", "random", "MLP"): ("60.0", "59.0", "75.0")}
    assert "No published column: MRPC accuracy." in made.remarks


def test_a_number_that_two_files_repeat_is_one_number(printed):
    row = Row("mlp", "vanilla_kd", "MLP", published="MLP", student="cbow", init="pretrained")
    study = declared((row,), ("a.csv", "b.csv"))
    made = compared([cell(row, "sst2", (60, 60), "pretrained:5e", student="cbow")], study)
    assert numbers(made) == {("cbow", "pretrained", "MLP"): ("82.0",)}


def test_published_lines_that_no_row_answers_stand_below_in_their_order(printed):
    row = Row("mlp", "vanilla_kd", "MLP", published="MLP", student="cbow", init="random")
    cells = [cell(row, task, (60, 60), "random", student="cbow") for task in ("sst2", "rte")]
    study = declared((row,), ("a.csv", "b.csv"))
    made = compared(cells, study)
    assert [(x.label, [p.printed for p in x.pairs]) for x in made.others] == [
        ("MLP (pretrained)", ["82.0", ""]),  # printed by both files
        ("CNN (cbow, pretrained)", ["70.0", ""]),
        ("CNN (cmow, random)", ["84.0", ""]),
        ("ELMo", ["91.5", ""]),
        ("ELMo", ["90.0", ""]),  # the second file's number
        ("Tiny", ["92.6", ""]),
    ]
    assert made.notes == ("odd", "a rumour; scored on the official test set, ours on dev")
    assert "Printed too, where this table has no column: MNLI-m acc; MNLI-mm acc; MRPC acc_f1_mean; QNLI acc." in (
        made.remarks
    )
    text = render(with_published(table(cells, study), study), "markdown")
    assert ["ELMo", "published", "91.5", "–"] in [
        [x.strip() for x in line.strip("|").split("|")] for line in text.splitlines()
    ]


def test_a_table_of_test_scores_says_so_once(printed):
    (printed / "a.csv").write_text(PRINTED.replace(",dev,", ",test,"), encoding="utf-8")
    row = Row("mlp", "vanilla_kd", "MLP", published="MLP", student="cbow", init="random")
    made = compared([cell(row, "sst2", (60, 60), "random", student="cbow")], declared((row,)))
    assert "The published scores are of the official test set, ours of dev." in made.remarks
    assert not any("test set" in note for note in made.notes)


def test_submitted_cells_are_compared_test_with_test(printed):
    (printed / "a.csv").write_text(PRINTED.replace(",dev,", ",test,"), encoding="utf-8")
    row = Row("mlp", "vanilla_kd", "MLP", published="MLP", student="cbow")
    study = declared((row,))
    cells = [cell(row, "sst2", (60, 62), init, student="cbow") for init in ("random", "pretrained")]
    alone = table(cells, study)
    made = with_published(replace(alone, submitted={cells[0].cell: {"accuracy": 0.777}}), study)
    (tested,), (dev,) = (block.lines[0].pairs for block in made.comparison.blocks)
    assert (tested.ours.value, tested.ours.std, tested.difference) == (0.777, None, pytest.approx(77.7 - 80.0))
    assert dev.difference == pytest.approx(61 - 82.0)
    assert made.comparison.notes[tested.note - 1].endswith(
        "ours is of the official test set too, as its server scored it"
    )
    assert not dev.note and any(
        "ours too where a note says so, otherwise of dev." in r for r in made.comparison.remarks
    )
    assert made.blocks == alone.blocks, "our own table stays one of dev"
    assert [e["test"] for e in json.loads(render(made, "json"))["entries"] if e["published"]] == [77.7, None]
    (printed / "a.csv").write_text(PRINTED, encoding="utf-8")
    of_dev = with_published(replace(alone, submitted={cells[0].cell: {"accuracy": 0.777}}), study).comparison
    assert of_dev.blocks[0].lines[0].pairs[0].difference == pytest.approx(61 - 80.0), "dev is compared with dev"


def test_scores_of_test_and_dev_are_not_put_into_one_order(printed):
    (printed / "a.csv").write_text(PRINTED.replace(",dev,", ",test,"), encoding="utf-8")
    rows = [Row(name.lower(), "vanilla_kd", name, published=name, student="cbow") for name in ("MLP", "CNN")]
    study = declared(tuple(rows))
    cells = [cell(row, "sst2", (60 + i, 60 + i), "pretrained", student="cbow") for i, row in enumerate(rows)]
    both = {c.cell: {"accuracy": 0.7 + i / 10} for i, c in enumerate(cells)}
    for submitted, ordered in (({}, 2), ({cells[0].cell: {"accuracy": 0.99}}, 1), (both, 2)):
        made = with_published(replace(table(cells, study), submitted=submitted), study).comparison
        assert [block.agreement[0].n for block in made.blocks] == [ordered]


COUNTS = """\
row,embedding,head,tasks,scope,parameters,note
Linear,cbow,linear,"CoLA, SST-2",total,"1,000",
only,cbow,linear,"CoLA, SST-2",classifier,100,
Linear,cbow,linear,RTE,total,1100,digit groups misplaced in print
only,cbow,linear,RTE,classifier,,no value is printed
MLP,cbow,mlp,"CoLA, SST-2",total,2000,from a smaller head
only,cbow,mlp,"CoLA, SST-2",classifier,200,
CNN,cbow,cnn,"CoLA, SST-2",total,3000,
only,cbow,cnn,"CoLA, SST-2",classifier,300,
CNN,cbow,cnn,RTE,total,3100,
only,cbow,cnn,RTE,classifier,310,
BiLSTM,cbow,bilstm,"CoLA, SST-2",total,4000,
only,cbow,bilstm,"CoLA, SST-2",classifier,400,
BiLSTM,cbow,bilstm,RTE,total,4100,
only,cbow,bilstm,RTE,classifier,410,
"""
COUNTED = """\
Published: A paper. 9 of 13 published numbers are equal; the others are named below, each with its reason.

| | | SST-2 (parameters) | SST-2 (classifier parameters) | RTE (parameters) | RTE (classifier parameters) |
| Linear | ours | 1,000 | 100 | 1,100 | 150 |
| | published | 1,000 | 100 | 1,100<sup>1</sup> | –<sup>2</sup> |
| | difference | 0 | 0 | 0 | |
| MLP | ours | 2,345 | 201 | | |
| | published | 2,000<sup>3</sup> | 200 | – | – |
| | difference | +345 | +1 | | |
| CNN | ours | 3,000 | 1,300 | 3,100 | 1,310 |
| | published | 3,000 | 300 | 3,100 | 310 |
| | difference | 0 | +1,000 | 0 | +1,000 |
| BiLSTM | both | 4,000 | 400 | 4,100 | 410 |

- <sup>1</sup> digit groups misplaced in print
- <sup>2</sup> no value is printed
- <sup>3</sup> from a smaller head
- Difference: ours minus published, where our cell is finished.
- Both: our number and the published one are the same throughout the row.
- Not equal: SST-2 parameters: MLP. Reason: from a smaller head.
- Not equal: SST-2 classifier parameters: MLP. Reason: none is known.
- Not equal: classifier parameters: CNN. Reason: 1,000 more than the text tells.
- Another note.
"""


def test_counts_are_compared_exactly_and_every_other_one_is_named_with_its_reason(printed):
    (printed / "c.csv").write_text(COUNTS, encoding="utf-8")
    shown = ("parameters", "classifier_parameters")
    rows = tuple(
        Row(h, "labels_only", label, {"head": h}, student="cbow", init="random")
        for h, label in (("linear", "Linear"), ("mlp", "MLP"), ("cnn", "CNN"), ("bilstm", "BiLSTM"))
    )
    published = Published(
        ("c.csv",),
        "A paper",
        axes={"embedding": "student"},
        reasons=(({"head": "cnn"}, "1,000 more than the text tells"),),
        notes=("Another note.",),
    )
    metrics = {"sst2": shown, "rte": shown}
    study = replace(STUDY, rows=rows, students=(), procedure="count", published=published, metrics=metrics)
    cells = []
    for i, task, found in (
        (0, "sst2", (1000, 100)),
        (0, "rte", (1100, 150)),
        (1, "sst2", (2345, 201)),
        (2, "sst2", (3000, 1300)),
        (2, "rte", (3100, 1310)),
        (3, "sst2", (4000, 400)),
        (3, "rte", (4100, 410)),
    ):
        run = RunResult(f"{i}{task}", 0, {}, dict(zip(shown, found, strict=True)), 0.0, {})
        cells.append(cell(rows[i], task, (), "random", student="cbow", seeds=(run,), trials=(run,), wanted_seeds=1))
    text = render(with_published(table(cells, study, protocol=""), study), "markdown")
    lines = text[text.index("Published: ") :].splitlines()
    squeezed = [re.sub(" +", " ", line) for line in lines if not line.startswith("| -")]
    assert "\n".join(squeezed) + "\n" == COUNTED


@pytest.mark.parametrize("name", STUDIES.names())
def test_every_study_finds_its_rows_in_its_published_tables(name):
    study = STUDIES.get(name)
    if study.published:
        made = with_published(table([], replace(study, profiles={"quick": STUDY.profile("quick")})), study)
        assert made.comparison.source == study.published.source


def test_every_published_table_is_installed_and_reads_as_numbers():
    folder = files("harness.reports.papers") / "published"
    tables = sorted(p.name for p in folder.iterdir() if p.name.endswith(".csv"))
    assert len(tables) == 28
    for name in tables:
        lines = list(csv.DictReader((folder / name).read_text(encoding="utf-8").splitlines()))
        assert lines and all(None not in line and None not in line.values() for line in lines), name
        if "std" in lines[0]:
            assert all(math.isfinite(float(line[c])) for line in lines for c in ("value", "std") if line[c]), name
