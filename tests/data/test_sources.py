import csv
import gzip
import os
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from huggingface_hub.errors import HTTPError
from hypothesis import given
from hypothesis import strategies as st

from harness.data import loading
from harness.data.task_sources import glue
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.registry import SOURCES

GLUE = Path(os.environ.get("GLUE_DIR", Path(__file__).parents[2].parent / "shared" / "glue"))
needs_glue = pytest.mark.skipif(not GLUE.is_dir(), reason="no GLUE: set GLUE_DIR to a folder in its official layout")

HEADERS = {
    "cola": None,
    "sst2": "sentence\tlabel",
    "mrpc": "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
    "stsb": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
    "qqp": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
    "mnli": "index\tpromptID\tsentence1\tsentence2\tlabel1\tgold_label",
    "qnli": "index\tquestion\tsentence\tlabel",
    "rte": "index\tsentence1\tsentence2\tlabel",
    "wnli": "index\tsentence1\tsentence2\tlabel",
}
ROWS = {
    "cola": ["gj04\t1\t\tIt works .", "gj04\t0\t*\tWorks it ."],
    "sst2": ["it works\t1", "it fails\t0"],
    "mrpc": ['1\t7\t8\tHe said " no\tHe " said no', "0\t7\t8\tA\tB"],
    "stsb": ["0\tg\tf\ty\to\tn\tn\tA\tB\t5.000", "1\tg\tf\ty\to\tn\tn\tC\tD\t0.25"],
    "qqp": ["1\t2\t3\tWhy ?\tHow ?\t0", "4\t5\t6\tWho ?\tWho ?\t1"],
    "mnli": ["0\tp\tA\tB\tneutral\tneutral", "1\tp\tC\tD\tneutral\tcontradiction"],
    "qnli": ["0\tQ ?\tS .\tentailment", "1\tQ ?\tS .\tnot_entailment"],
    "rte": ["0\tA\tB\tnot_entailment", "1\tC\tD\tentailment"],
    "wnli": ["0\tA\tB\t0", "1\tC\tD\t1"],
}
LABELS = {
    "cola": [1, 0], "sst2": [1, 0], "mrpc": [1, 0], "stsb": [5.0, 0.25], "qqp": [0, 1], "mnli": [1, 2],
    "qnli": [0, 1], "rte": [1, 0], "wnli": [0, 1],
}  # fmt: skip


def write(root, name, lines=None, header=True, raw=None):
    """The task's folder under root: train with `lines` or the bytes `raw`, dev with each line twice."""
    task = get_task(name)
    folder = root / task.folder
    folder.mkdir(exist_ok=True)
    above, lines = [HEADERS[name]] * (header and HEADERS[name] is not None), ROWS[name] if lines is None else lines
    for split in ("train", *task.dev_splits):
        text = "\n".join(above + lines * (1 if split == "train" else 2))
        (folder / f"{split}.tsv").write_bytes((text + "\n").encode())
    if raw is not None:
        (folder / "train.tsv").write_bytes(raw)
    return task


@pytest.mark.parametrize("name", HEADERS)
def test_every_task_in_the_official_layout(tmp_path, name):
    data = loading.load(write(tmp_path, name), str(tmp_path))
    assert [split.name for split in (data.train, *data.dev)] == ["train", *data.task.dev_splits]
    for split in (data.train, *data.dev):
        assert split.labels.tolist() == LABELS[name] * (1 if split.name == "train" else 2)
        assert split.labels.dtype == (np.float32 if name == "stsb" else np.int64)
        assert (split.text_b is not None) == data.task.pair
    fields = ROWS[name][0].split("\t")
    assert data.train.text_a[0] in fields and (not data.task.pair or data.train.text_b[0] in fields)


def test_bytes_that_other_readers_trip_over(tmp_path):
    """A byte-order mark, unbalanced quotes, Windows line ends, and characters that str.splitlines splits at."""
    odd = '" a\u2028b\x85c\x0bd " \u00e9'
    raw = "\ufeffsentence\tlabel\r\n" + f"{odd}\t1\r\n" + '"b\t0'
    data = loading.load(write(tmp_path, "sst2", raw=raw.encode()), str(tmp_path))
    assert data.train.text_a == [odd, '"b']
    assert data.train.labels.tolist() == [1, 0]


TEXT = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"])).filter(str.strip)


@given(st.lists(TEXT, min_size=1))
def test_any_text_survives(tmp_path_factory, texts):
    root = tmp_path_factory.mktemp("glue")
    task = write(root, "cola", [f"x\t{n % 2}\t\t{text}" for n, text in enumerate(texts)])
    assert loading.load(task, str(root)).train.text_a == texts


def test_columns_are_found_by_name(tmp_path):
    task = write(tmp_path, "rte", raw=b"label\tsentence2\tsentence1\nentailment\tB\tA\n")
    train = loading.load(task, str(tmp_path)).train
    assert (train.text_a, train.text_b, train.labels.tolist()) == (["A"], ["B"], [0])


def test_scores_as_21_classes(tmp_path):
    scores = [0.0, 1.0, 1.09, 1.11, 2.5, 3.5, 4.95, 5.0]
    write(tmp_path, "stsb", [f"0\tg\tf\ty\to\tn\tn\tA\tB\t{score}" for score in scores])
    labels = loading.load(get_task("stsb_classes"), str(tmp_path)).train.labels
    # steps of 0.2 from 1: 0 is clipped, 2.5 and 3.5 lie halfway and go to the even number of steps, 2.4 and 3.6
    assert labels.tolist() == [0, 0, 0, 1, 7, 13, 20, 20]
    assert labels.dtype == np.int64


def test_scores_may_be_written_as_numbers_are(tmp_path):
    scores = ["5", "5.000", "0", ".5", "4.", "+3", "2e0", "-0.0", " 1 "]
    write(tmp_path, "stsb", [f"0\tg\tf\ty\to\tn\tn\tA\tB\t{score}" for score in scores])
    assert loading.load(get_task("stsb"), str(tmp_path)).train.labels.tolist() == [5, 5, 0, 0.5, 4, 3, 2, 0, 1]


def test_broken_lines_of_qqp_are_dropped_as_by_its_published_readers(tmp_path):
    lines = ["1\t2\t3\tWhy ?\tHow", " is it ?\t0", *ROWS["qqp"]]
    assert loading.load(write(tmp_path, "qqp", lines), str(tmp_path)).train.text_a == ["Why ?", "Who ?"]


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("rte", b"", r"RTE/train\.tsv is empty$"),
        ("rte", b"index\tsentence1\tsentence2\tlabel\n", r"train\.tsv has a header but no examples"),
        (
            "rte",
            b"index\tsentence1\tsentence_2\tlabel\n0\tA\tB\t0\n",
            r"line 1: .* no column 'sentence2': did you mean",
        ),
        (
            "rte",
            b"index\tsentence1\tsentence2\tlabel\n0\tA\tB\tentailment\n1\tA\n",
            r"line 3: 2 tab-separated columns .* 4",
        ),
        ("rte", b"index\tsentence1\tsentence2\tlabel\n\n0\tA\tB\tentailment\n", r"line 2: 1 tab-separated columns"),
        ("rte", b"index\tsentence1\tsentence2\tlabel\n0\tA\tB\tmaybe\n", r"line 2: label 'maybe' is not one of entail"),
        ("sst2", b"sentence\tlabel\nit works\t1\nit fails\t-1\n", r"line 3: label '-1' is not one of 0, 1"),
        ("cola", b"gj04\t1\t\tIt works\ngj04\t2\t\tIt works\n", r"line 2: label '2'"),
        ("stsb", b"sentence1\tsentence2\tscore\nA\tB\tfive\n", r"line 2: score 'five' is not a number"),
        ("stsb", b"sentence1\tsentence2\tscore\nA\tB\tnan\n", r"line 2: score 'nan' is not a number"),
        ("stsb", b"sentence1\tsentence2\tscore\nA\tB\t5.01\n", r"line 2: score '5.01' is not between 0 and 5"),
        ("stsb", b"sentence1\tsentence2\tscore\nA\tB\t-7\n", r"line 2: score '-7' is not between 0 and 5"),
        ("stsb", b"sentence1\tsentence2\tscore\nA\tB\t1_0\n", r"line 2: score '1_0' is not a number"),
        ("stsb", "sentence1\tsentence2\tscore\nA\tB\t\u0664\n".encode(), r"line 2: score '\u0664' is not a number"),
        ("sst2", b"sentence\tlabel\nfine\t1\nso\tso\t1\n", r"line 3: 3 tab-separated columns, but .* have 2"),
        ("cola", b"gj04\t1\t\tIt works\tagain\n", r"line 1: 5 tab-separated columns, but .* have 4"),
        ("rte", b"label\tsentence1\tlabel\tsentence2\n", r"line 1: the header names the column 'label' 2 times"),
        ("sst2", b"sentence\tlabel\nfine\t1\nbr\xffoken\t1\n", r"line 3: not UTF-8 text"),
        ("sst2", b"\xef\xbb\xbfsentence\tlabel\nbr\xffoken\t1\n", r"line 2: not UTF-8 text"),
        ("sst2", "sentence\tlabel\nfine\t1\n".encode("utf-16"), r"train\.tsv is UTF-16 or UTF-32, not UTF-8 text"),
        ("sst2", "sentence\tlabel\nfine\t1\n".encode("utf-16-le"), r"train\.tsv is UTF-16 or not text"),
        ("sst2", gzip.compress(b"sentence\tlabel\nfine\t1\n", mtime=0), r"train\.tsv is gzip-compressed"),
        ("sst2", b"sentence\tlabel\nfine\t1\n \t1\n", r": example 2 of train of task sst2 has no text"),
        ("sst2", b"sentence\tlabel\nfine\t1\ngood\t1\n", r"all training examples of task sst2 have the same label"),
        ("rte", b"sentence1\tsentence2\tlabel\nA\t\tentailment\nB\t \tentailment\n", r": no .* has a second text"),
    ],
)
def test_bad_files_are_named_with_their_line(tmp_path, name, raw, message):
    with pytest.raises(UserError, match=message):
        loading.load(write(tmp_path, name, raw=raw), str(tmp_path))


def test_missing_folders_and_splits(tmp_path):
    task = get_task("rte")
    with pytest.raises(UserError, match=r"data folder .*nowhere does not exist"):
        loading.load(task, str(tmp_path / "nowhere"))
    (tmp_path / "RTE1").mkdir()
    with pytest.raises(UserError, match=r"no folder RTE for task rte: did you mean RTE1\?"):
        loading.load(task, str(tmp_path))
    write(tmp_path, "rte")
    (tmp_path / "RTE" / "dev.tsv").unlink()
    for read in (loading.load, loading.content):
        with pytest.raises(UserError, match=r"task rte needs .*RTE/dev\.tsv, which does not exist"):
            read(task, str(tmp_path))


def test_a_copy_of_train_is_no_dev(tmp_path):
    """In whichever order; an example that both have, and a pair with one empty text, as in QQP, are no mistake."""
    task, folder = write(tmp_path, "rte", ["0\tA\tB\tentailment", "1\tC\t\tnot_entailment"]), tmp_path / "RTE"
    assert loading.load(task, str(tmp_path)).train.text_b == ["B", ""]
    header, *rows = (folder / "train.tsv").read_text().splitlines()
    (folder / "dev.tsv").write_text("\n".join([header, *reversed(rows)]))
    with pytest.raises(UserError, match="dev of task rte holds the same examples as train"):
        loading.load(task, str(tmp_path))


@pytest.mark.parametrize(
    ("name", "source", "message"), [("cola", "embedded", "--data DIR"), ("similarity", "hub", "leave out --data")]
)
def test_a_task_is_refused_where_it_does_not_exist(name, source, message):
    for read in (loading.load, loading.content):
        with pytest.raises(UserError, match=message):
            read(get_task(name), source)


def test_content_follows_the_data_and_nothing_else(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    for root in (first, second):
        root.mkdir()
        task = write(root, "mnli")
        (root / "MNLI" / "test_matched.tsv").write_text(str(root))
    known = loading.content(task, str(first))
    assert known == loading.content(task, str(second)) == loading.load(task, str(first)).content
    for split in ("train", "dev_matched", "dev_mismatched"):
        path = second / "MNLI" / f"{split}.tsv"
        whole = path.read_bytes()
        path.write_bytes(whole + b"2\tp\tA\tB\tneutral\tneutral\n")
        assert loading.content(task, str(second)) != known
        path.write_bytes(whole)


def test_embedded_tasks():
    for name in ("acceptability", "similarity"):
        data = loading.load(get_task(name), "embedded")
        assert (len(data.train.text_a), len(data.dev[0].text_a)) == (4000, 1000)
        assert data.train.labels.dtype == (np.int64 if name == "acceptability" else np.float32)
        assert (data.train.text_b is None) == (name == "acceptability")
        assert data.content == loading.content(get_task(name), "embedded")
    assert len({loading.content(task, "embedded") for task in SOURCES.get("embedded").tasks}) == 5


# ---------------------------------------------------------------- the hub


def hub_of(monkeypatch, rows, *dev):
    """Let the hub's loader answer from a local data set with the hub's columns and splits; dev has all rows twice."""
    import datasets

    asked = []

    def load_dataset(path, name):
        asked.append((path, name))
        twice = {column: values * 2 for column, values in rows.items()}
        found = {"train": rows} | dict.fromkeys(dev or ("validation",), twice)
        return datasets.DatasetDict({split: datasets.Dataset.from_dict(columns) for split, columns in found.items()})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


def test_hub_with_two_dev_splits(monkeypatch):
    rows = {"premise": ["A", "C"], "hypothesis": ["B", "D"], "label": [0, 2], "idx": [0, 1]}
    asked = hub_of(monkeypatch, rows, "validation_matched", "validation_mismatched")
    data = loading.load(get_task("mnli"), "hub")
    assert set(asked) == {("nyu-mll/glue", "mnli")}
    assert [split.name for split in data.dev] == ["dev_matched", "dev_mismatched"]
    for split, times in ((data.train, 1), (data.dev[0], 2), (data.dev[1], 2)):
        assert (split.text_a, split.text_b) == (["A", "C"] * times, ["B", "D"] * times)
        assert split.labels.tolist() == [0, 2] * times
    known = data.content
    rows["label"] = [0, 1]
    assert loading.content(get_task("mnli"), "hub") != known


def test_hub_scores_and_classes(monkeypatch):
    rows = {"sentence1": ["A", "C"], "sentence2": ["B", "D"], "label": [1.2, 5.0]}
    asked = hub_of(monkeypatch, rows)
    assert loading.load(get_task("stsb"), "hub").train.labels.tolist() == [np.float32(1.2), 5.0]
    assert loading.load(get_task("stsb_classes"), "hub").dev[0].labels.tolist() == [1, 20] * 2
    assert set(asked) == {("nyu-mll/glue", "stsb")}


def test_hub_has_one_data_set_for_both_forms_of_a_task(monkeypatch):
    rows = {"question": ["A"], "sentence": ["B"], "label": [1]}
    asked = hub_of(monkeypatch, rows)
    assert [loading.load(get_task(name), "hub").train.labels.tolist() for name in ("qnli", "qnli_ranking")] == [[1]] * 2
    assert set(asked) == {("nyu-mll/glue", "qnli")}


@pytest.mark.parametrize("name", ["cola", "sst2", "mrpc", "qqp", "qnli", "rte", "wnli"])
def test_hub_columns(monkeypatch, name):
    columns = {
        "qqp": ("question1", "question2"),
        "qnli": ("question", "sentence"),
        "cola": ("sentence",),
        "sst2": ("sentence",),
    }
    texts = columns.get(name, ("sentence1", "sentence2"))
    rows = {column: [column] for column in texts} | {"label": [1]}
    hub_of(monkeypatch, rows)
    train = loading.load(get_task(name), "hub").train
    assert (train.text_a[0], *(train.text_b or [])) == texts


def test_hub_refuses_unlabelled_examples(monkeypatch):
    rows = {"sentence": ["A"], "label": [-1]}
    hub_of(monkeypatch, rows)
    with pytest.raises(UserError, match="unlabelled examples in train"):
        loading.load(get_task("cola"), "hub")


def test_hub_out_of_reach(monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="task rte cannot be read from the hub .*--data DIR"):
        loading.load(get_task("rte"), "hub")


def test_a_connection_to_the_hub_that_breaks(monkeypatch):
    monkeypatch.setattr("datasets.load_dataset", Mock(side_effect=HTTPError("the server hung up")))
    with pytest.raises(UserError, match="task rte cannot be read from the hub .*the server hung up; .*--data DIR"):
        loading.load(get_task("rte"), "hub")


# ---------------------------------------------------------------- real GLUE


@needs_glue
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("cola", (8551, 1043)),
        ("sst2", (67349, 872)),
        ("mrpc", (3667, 408)),
        ("stsb", (5749, 1500)),
        ("rte", (2490, 277)),
        ("wnli", (635, 71)),
    ],
)
def test_reader_agrees_with_datasets_on_real_glue(tmp_path, name, sizes):
    import datasets

    task = get_task(name)
    if not (GLUE / task.folder).is_dir():
        pytest.skip(f"this GLUE folder has no {task.folder}")
    data = loading.load(task, str(GLUE))
    assert (len(data.train.text_a), len(data.dev[0].text_a)) == sizes
    columns = ("sentence", "label") if name == "cola" else glue.COLUMNS[task.folder]
    options = {"header": None, "names": ["source", "label", "mark", "sentence"]} if name == "cola" else {}
    for split, file in ((data.train, "train.tsv"), (data.dev[0], "dev.tsv")):
        other = datasets.load_dataset(
            "csv", data_files=str(GLUE / task.folder / file), delimiter="\t", quoting=csv.QUOTE_NONE,
            keep_default_na=False, encoding="utf-8-sig", split="train", cache_dir=str(tmp_path), **options,
        )  # fmt: skip
        assert list(other[columns[0]]) == split.text_a
        assert split.text_b is None or list(other[columns[1]]) == split.text_b
        labels = list(other[columns[-1]])
        if name == "stsb":
            assert np.array_equal(np.array(labels, np.float32), split.labels)
        else:
            assert [str(label) for label in labels] == [task.labels[i] for i in split.labels]


@needs_glue
def test_empty_split_of_real_glue():
    path = GLUE / "QNLI" / "train.tsv"
    if path.exists() and path.stat().st_size:
        pytest.skip("this GLUE folder has QNLI's training split")
    with pytest.raises(UserError, match=r"QNLI/train\.tsv"):
        loading.load(get_task("qnli"), str(GLUE))
