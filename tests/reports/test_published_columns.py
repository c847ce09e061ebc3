"""Where a published table keeps its numbers: columns of their own, tasks by another name, lines told apart."""

from dataclasses import replace

import pytest

from harness.contracts import Published, Row, RunResult
from harness.errors import UserError
from harness.reports import render, with_published
from tests.reports.synthetic import STUDY, TASKS, cell, table

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")  # of a mean of nothing
FIXED = {"student": "bilstm", "init": "random"}


def measured(row, task="sst2", **metrics):
    """A cell of one run with these metrics."""
    made = RunResult(f"{row.name}{task}", 0, {}, metrics, 0.0, {})
    return cell(row, task, (), row.init, student=row.student, seeds=(made,), trials=(made,), wanted_seeds=1)


def compared(cells, rows, published, **changes):
    study = replace(STUDY, rows=tuple(rows), students=(), published=published, **changes)
    return with_published(table(cells, study), study)


def printed(made):
    """{row: its printed numbers} of our lines."""
    lines = [line for block in made.comparison.blocks for line in block.lines]
    return {line.label: [pair.printed for pair in line.pairs] for line in lines}


@pytest.fixture(autouse=True)
def labels(monkeypatch):
    for name, label in (
        ("mnli", "MNLI"),
        ("qqp", "QQP"),
        ("speed", "Encoding"),
        ("speed_pairs", "Encoding of pairs"),
    ):
        monkeypatch.setitem(TASKS, name, replace(TASKS["sst2"], name=name, label=label))


SIZE = Published(("liu2020_table3_2_size_speed.csv",), "Liu, Table 3.2")
SHOWN = ("seconds", "time_factor", "millions_without_embeddings")


def test_each_metric_reads_its_own_column_and_each_task_its_own_name():
    rows = [Row("student", "", "Ours", "Distilled BiLSTM", **FIXED)]
    sizes = {"seconds": 2.5, "millions_without_embeddings": 0.98123, "speed_ratio": 1.5}
    cells = [measured(rows[0], task, **sizes) for task in ("speed", "speed_pairs")]
    made = compared(
        cells, rows, SIZE, relative_to="student", procedure="speed", metrics={"speed": SHOWN, "speed_pairs": SHOWN}
    )
    assert printed(made) == {"Ours": ["2.44", "1", "0.96", "31.14", "1", "1.59"]}
    text = " ".join(render(made, "markdown").split())
    assert "| published | 2.44 s | 1× | 0.96 M | 31.14 s | 1× | 1.59 M |" in text
    assert "| difference | | +0× | +0.021 M |" in text  # seconds of two machines are not subtracted
    assert "Seconds and sentences a second are of different machines: shown, and not subtracted." in text
    assert [line.label for line in made.comparison.others] == ["BERT_LARGE", "ELMo"]


def test_a_table_without_tasks_reads_its_columns_too():
    published = Published(("liu2020_table4_4_inference_time.csv",), "Liu, Table 4.4")
    rows = [Row("mkd", "", "Ours", "MKD-LSTM", **FIXED)]
    cells = [measured(rows[0], "speed_pairs", millions_without_embeddings=10.234)]
    made = compared(cells, rows, published, procedure="speed", metrics={"speed_pairs": "millions_without_embeddings"})
    assert made.comparison.blocks[0].lines[0].pairs[0].difference == pytest.approx(0.034)
    assert "+0.0 M" in render(made, "markdown")


def test_a_metric_may_be_printed_under_a_task_of_its_own():
    published = Published(("wu2020_table4_distillation_data_size.csv",), "Wu et al., Table 4")
    rows = [Row(f"m{i}", "", f"{i} million", f"{i}M", **FIXED) for i in (0, 1)]
    scores = {"accuracy": 0.9, "distillation_loss": 0.03}
    cells = [measured(row, task, **scores) for row in rows for task in ("sst2", "mnli")]
    made = compared(cells, rows, published, metrics={"sst2": ("accuracy", "distillation_loss")})
    assert printed(made) == {"0 million": ["84.5", "", "70.23"], "1 million": ["88.9", "0.0288", "72.01"]}
    (pairs,) = [line.pairs for line in made.comparison.blocks[0].lines if line.label == "1 million"]
    assert pairs[1].difference == pytest.approx(0.0012) and pairs[1].note == 0


def test_of_two_splits_the_one_that_the_row_names_is_compared():
    wanted = {"row": "No Aug. (logit)", "split": "dev"}
    rows = [Row("logit", "", "Logits", wanted, **FIXED)]
    published = Published(("liu2020_table3_3_augmentation_ablation.csv",), "Liu, Table 3.3")
    cells = [measured(rows[0], task, accuracy=0.9, f1=0.8) for task in ("sst2", "qqp")]
    made = compared(cells, rows, published, metrics={"qqp": ("f1", "accuracy")})
    assert printed(made) == {"Logits": ["87.50", "83.87", "88.26"]}
    with pytest.raises(UserError, match="several numbers for Logits on SST-2"):
        compared(cells, [replace(rows[0], published="No Aug. (logit)")], published)


def test_rows_of_one_label_are_told_apart_by_another_column():
    groups = {"Sentiment Task": "89.9", "PI Tasks": "89.3"}
    rows = [Row(g, "", g, {"row": "MKD-LSTM", "section": g}, **FIXED) for g in groups]
    published = Published(("liu2020_table4_3_training_task_ablation.csv",), "Liu, Table 4.3")
    made = compared([measured(row, accuracy=0.9) for row in rows], rows, published)
    assert printed(made) == {group: [number] for group, number in groups.items()}


def test_a_quotient_is_computed_from_the_print_and_compared():
    published = Published(
        ("galke2022_table05_speed.csv",), "Galke et al., Table V", quotients={"speed_ratio": "BERT-base"}
    )
    rows = [Row(name, "", name, name, **FIXED) for name in ("BERT-base", "TinyBERT (4 layer)")]
    found = {"sentences_per_second": 860.4, "speed_ratio": 5.0, "millions_of_parameters": 14.35}
    made = compared(
        [measured(row, "speed", **found) for row in rows],
        rows,
        published,
        procedure="speed",
        metrics={"speed": tuple(found)},
    )
    tiny = made.comparison.blocks[0].lines[1].pairs
    assert [pair.printed for pair in tiny] == ["30000", "6.52", "14"]
    assert [pair.difference for pair in tiny] == [None, pytest.approx(5 - 6.52), pytest.approx(0.35)]
    others = {x.label: [p.printed for p in x.pairs] for x in made.comparison.others}
    assert others["ELMo"] == ["1100", "0.239", "94"]
    text = render(made, "markdown")
    assert "Speed ratio: the printed numbers over that of BERT-base, computed from the print." in text
    assert " 30,000 " in text


def test_a_size_is_that_of_the_row_whatever_the_task():
    published = Published(("liu2020_table4_1_glue_test.csv",), "Liu, Table 4.1")
    rows = [Row("mkd", "", "Ours", "MKD-LSTM", **FIXED)]
    cells = [measured(rows[0], task, accuracy=0.9, millions_without_embeddings=10.16) for task in ("sst2", "rte")]
    made = compared(cells, rows, published, metrics={"": "millions_without_embeddings"})
    assert [c.name for c in made.columns] == ["SST-2", "RTE", "Average", "Size"]
    assert [e.value for e in made.blocks[0].lines[0].entries] == [0.9, 0.9, 0.9, 10.16]
    assert printed(made) == {"Ours": ["91.0", "67.3", "10.2"]}
    others = {x.label: x.pairs[-1] for x in made.comparison.others}
    assert (others["Distilled BiLSTM"].printed, others["Distilled BiLSTM"].note) == ("1.59", 0)  # its note is SST-2's
    sized = compared(cells, rows, published, metrics={"": ("millions_without_embeddings", "parameters")})
    assert [c.name for c in sized.columns[-2:]] == ["Size millions without embeddings", "Size parameters"]


def test_what_a_study_leaves_out_is_told_with_its_reason():
    published = Published(
        ("galke2022_table07_best_configurations.csv", "galke2022_table06_search_space.csv"),
        "Galke et al.",
        omitted=(({"table": "VI"}, "Table VI is no score."), ("learning_rate", "Rates are chosen.")),
    )
    rows = [Row("best", "", "Ours", {"row": "best configuration", "task": "SST-2"}, **FIXED)]
    made = compared([measured(rows[0], accuracy=0.9)], rows, published)
    assert printed(made) == {"Ours": ["86.8"]}
    assert {"Table VI is no score.", "Rates are chosen."} <= set(made.comparison.remarks)
    (lost,) = [remark for remark in made.comparison.remarks if remark.startswith("Printed too")]
    assert "CoLA mcc; MNLI-m acc" in lost and "1.0E-4" not in lost and "Learning" not in lost


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"quotients": {"speed_ratio": "ELMO"}}, "unknown row in .* 'ELMO'.* did you mean ELMo"),
        ({"omitted": (("tiem", "why"),)}, "unknown column of liu2020_table3_2_size_speed.csv 'tiem'"),
    ],
)
def test_a_wrong_declaration_is_one_sentence(changes, message):
    with pytest.raises(UserError, match=message):
        compared([], [], replace(SIZE, **changes))
