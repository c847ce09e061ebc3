"""One model from Python: what is trained on, and what comes of it."""

from __future__ import annotations

import json
from pathlib import Path

import datasets
import numpy as np
import pandas
import pytest

import harness
from harness.notebook.data import written
from tests.conftest import BAD, GOOD, SUBJECTS

ROWS = [{"text": "a fine film", "label": "good"}, {"text": "dull", "label": "bad"}]


def test_one_cell_is_made_of_a_known_task(tmp_path: Path) -> None:
    settings = {"epochs": 1, "train_examples": 32, "transformer.layers": 1, "max_length": 32}
    made = harness.distil("embedded", "sentiment", objective="att_kl", set=settings, out=tmp_path / "out")
    runs = made.to_pandas()
    assert len(runs) == 1 and runs[["objective", "task", "init", "seed"]].iloc[0].tolist() == [
        "att_kl",
        "sentiment",
        "every",
        0,
    ]
    assert made.best().row == "att_kl"
    with pytest.raises(harness.UserError, match="unknown argument 'objectve': did you mean objectives?"):
        harness.distil("embedded", "sentiment", objectve="att_kl", out=tmp_path / "out")
    with pytest.raises(harness.UserError, match="multi_task has no default row, so objective must name one: .*mkd"):
        harness.distil("embedded", "sentiment", study="multi_task", out=tmp_path / "out")


@pytest.mark.parametrize(
    "train",
    [
        ROWS,
        [("a fine film", "good"), ("dull", "bad")],
        pandas.DataFrame(ROWS, index=[5, 9]),
        datasets.Dataset.from_list(ROWS).cast_column("label", datasets.ClassLabel(names=["good", "bad"])),
        datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)}),
    ],
    ids=["dictionaries", "tuples", "pandas", "classes", "splits"],
)  # fmt: skip
def test_data_in_memory_become_one_file_by_content(tmp_path: Path, train: object) -> None:
    name, _, folder = written(train, tmp_path / "out").partition("=")
    lines = (Path(folder) / "train.jsonl").read_text().splitlines()
    assert name == "data" and [json.loads(line) for line in lines] == ROWS
    assert written(ROWS, tmp_path / "out") == f"data={folder}"


def test_what_has_no_class_in_a_data_set_gets_none(tmp_path: Path) -> None:
    """The hub writes -1 for a label that is not known: no index of a class, such as the last one's."""
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["bad", "good"]))
    train = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [0, 1, -1]}, features=features)
    folder = written(train, tmp_path / "out").partition("=")[2]
    lines = (Path(folder) / "train.jsonl").read_text().splitlines()
    assert [json.loads(line)["label"] for line in lines] == ["bad", "good", None]


def test_a_frame_of_ones_own_is_trained_on(tmp_path: Path, checkpoint: Path) -> None:
    rows = [(f"the {noun} was {word} .", kind) for kind, words in {"good": GOOD, "bad": BAD}.items()
            for word in words for noun in SUBJECTS for _ in range(3)]  # fmt: skip
    train = pandas.DataFrame(
        [(f"{text} {n}", label) for n, (text, label) in enumerate(rows)], columns=["text", "label"]
    )
    settings = {"epochs": 1, "teacher.epochs": 1, "max_length": 16, "transformer.layers": 1}
    made = harness.distil(checkpoint, train, objective="att_kl", set=settings, out=tmp_path / "out")
    assert made.to_pandas()[["task", "metric"]].to_numpy().tolist() == [["data", "accuracy"]]
    assert harness.load_results(tmp_path / "out").table == made.table


def test_pairs_and_names_and_paths() -> None:
    assert written("sst2", Path("none")) == "sst2"
    assert written("reviews=a.csv", Path("none")) == "reviews=a.csv"
    assert written(Path("a.csv"), Path("none")) == "data=a.csv" and not Path("none").exists()


def test_pairs_have_the_columns_of_pairs(tmp_path: Path) -> None:
    folder = written([("one", "two", 0.5)], tmp_path / "out").partition("=")[2]
    assert json.loads((Path(folder) / "train.jsonl").read_text()) == {
        "sentence1": "one",
        "sentence2": "two",
        "label": 0.5,
    }


def test_a_frame_keeps_its_numbers(tmp_path: Path) -> None:
    scores = [0.123456789012, 2e-12]
    folder = written(pandas.DataFrame({"text": ["a", "b"], "label": scores}), tmp_path / "out").partition("=")[2]
    assert [json.loads(line)["label"] for line in (Path(folder) / "train.jsonl").read_text().splitlines()] == scores


def test_labels_may_be_numbers_of_numpy(tmp_path: Path) -> None:
    folder = written(zip(["a", "b"], np.array([0, 1]), strict=True), tmp_path / "out").partition("=")[2]
    assert [json.loads(line)["label"] for line in (Path(folder) / "train.jsonl").read_text().splitlines()] == [0, 1]


class OtherFrame(list[object]):
    """Of another library: what it gives one by one are its columns."""

    columns = ("text", "label")

    def to_dict(self) -> dict[str, object]:
        return dict(zip(self.columns, self, strict=True))


@pytest.mark.parametrize(
    ("train", "said"),
    [
        (OtherFrame([{"a", "b"}, {"good", "bad"}]), "example 1 is"),
        ([("a", b"1")], "holds b'1', a bytes, where text or a number is wanted"),
        (pandas.DataFrame([("a", "b", 1)], columns=["text", "text", "label"]), "two columns 'text'"),
        ([], "no examples in train"),
        (["text"], "example 1 is .* not 'text'"),
        (7, "not 7"),
        ([("a", 1), 3], "example 2"),
    ],
)
def test_what_is_no_data_is_refused(tmp_path: Path, train: object, said: str) -> None:
    with pytest.raises(harness.UserError, match=said):
        written(train, tmp_path / "out")
    assert not (tmp_path / "out").exists()
