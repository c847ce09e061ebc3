"""What a user's data can be wrong in: each mistake gets one sentence with the file and, where it has one, the line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.data import own
from harness.errors import UserError

GOOD = "text,label\nfine,yes\npoor,no\nlovely,yes\ndull,no\n"


def written(folder: Path, **files: str | bytes) -> Path:
    """The folder with these files; "train_csv" is train.csv."""
    for name, content in files.items():
        path = folder / ".".join(name.rsplit("_", 1))
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def reads(place: object, *settings: str) -> own.Known:
    names, declared, rest = own.told_apart([f"mine={place}"], [f"mine.{word}" for word in settings])
    assert (names, rest) == (["mine"], [])
    return own.know(declared.values())["mine"]


def rows(*labels: object, text: str = "some words {}") -> str:
    return "".join(json.dumps({"text": text.format(n), "label": label}) + "\n" for n, label in enumerate(labels))


def parquet(folder: Path, keep: float = 1.0) -> Path:
    import datasets

    path = folder / "data.parquet"
    datasets.Dataset.from_dict({"text": [f"text {n}" for n in range(60)], "label": [0, 1] * 30}).to_parquet(str(path))
    path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])
    return path


def saved(folder: Path) -> Path:
    import datasets

    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["bad", "good"]))
    texts = {"text": [f"text {n}" for n in range(6)], "label": [0, 1, 0, 1, -1, 0]}
    datasets.Dataset.from_dict(texts, features=features).save_to_disk(str(folder / "saved"))
    return folder / "saved"


def csv(content: str | bytes) -> Callable[[Path], Path]:
    return file("a.csv", content)


def file(name: str, content: str | bytes) -> Callable[[Path], Path]:
    return lambda place: written(place, **{name.replace(".", "_"): content}) / name


def folder(**files: str) -> Callable[[Path], Path]:
    return lambda place: written(place, **files)


Case = tuple[Any, ...]  # what writes the data, given a folder, and tells their place; what is said; settings
HOSTILE: dict[str, Case] = {
    "nothing there": (lambda f: f / "tain.csv", r"tain\.csv does not exist$"),
    "a name beside it": (
        lambda f: written(f, train_csv=GOOD) / "tran.csv",
        r"does not exist: did you mean train\.csv\?",
    ),
    "an empty folder": (lambda f: f, "has no data files: it is empty"),
    "an unknown kind of file": (file("a.docx", "x"), r"a\.docx: data are read from \.csv,"),
    "an empty file": (csv(""), r"a\.csv is empty"),
    "a header alone": (csv("text,label\n"), r"a\.csv has no examples in train"),
    "no UTF-8": (csv(b"text,label\nfine,yes\n\xff\xfe,no\n"), r"a\.csv, line 3: not UTF-8"),
    "no column of text": (
        csv("body,label\nfine,yes\n"),
        r"no text column, such as text, sentence, .*: it has body, label; use --set mine\.text=COLUMN",
    ),
    "columns apart by what is no comma": (
        csv("text;label\nfine;yes\n"),
        r"no text column, .* it has text;label; use --set mine\.delimiter=semicolon$",
    ),
    "columns in capitals": (
        csv("Text,Label\nfine,yes\n"),
        r"no text column, .* it has Text, Label; use --set mine\.text=Text mine\.label=Label$",
    ),
    "no names of columns": (
        csv("fine,yes\nbad,no\n"),
        r"use --set mine\.text=COLUMN, or mine\.columns=text,label if the first line is already an example$",
    ),
    "a split without the column of labels": (
        folder(train_csv="text,label\nfine,yes\nbad,no\n", dev_csv="text\nfine\n"),
        r"dev\.csv, line 2: there is no column label, which other rows have: valid names: text$",
    ),
    "no column of labels": (csv("text,class\nfine,yes\n"), r"no label column.* mine\.label=COLUMN"),
    "a doubled column": (csv("text,label,text\na,b,c\n"), r"a\.csv, line 1: .* 'text' 2 times"),
    "two columns of text": (csv("text,sentence,label\na,b,c\n"), "columns text and sentence: choose .* mine.text="),
    "two columns of labels": (csv("text,label,score\na,b,1\n"), "label and score; choose with --set mine.label="),
    "a misspelt column": (csv(GOOD), r"no column 'txt': did you mean text\?", "text=txt"),
    "the text as its label": (csv(GOOD), "label and the text of task mine are the same column: text", "label=text"),
    "a ragged line": (csv(GOOD + "oh, well,no\n"), r"line 6: 3 columns split by commas, but .* 2"),
    "half a line": (csv(GOOD + "and the"), r"a\.csv, line 6: 1 column split by"),
    "a quote that does not end": (
        csv('text,label\nfine,yes\n"poor,no\nso,no\n'),
        r"line 3: a quoted field is never closed",
    ),
    "semicolons": (csv("text;label\nfine, so;yes\n"), r"line 2: 2 columns split by commas, but"),
    "an unknown delimiter": (csv(GOOD), "'colon' is not one of comma, tab, semicolon, bar", "delimiter=colon"),
    "a tsv without its header": (
        file("a.tsv", "1\t0.5\tfine\n2\t0.7\tgood\n"),
        "no text column, .* it has 1, 0.5, fine",
    ),
    "too few names of columns": (
        file("a.tsv", "1\t0.5\tfine\n"),
        "line 1: 3 columns split by tabs, but the setting columns has 2",
        "columns=id,score",
    ),
    "columns of a file with a header": (
        csv("text,label\nfine,yes\nbad,no\n"),
        r"a\.csv, line 1: text, label is a header, not an example: leave out mine\.columns",
        "columns=sentence,verdict", "label=verdict",
    ),
    "columns of a file that names them": (
        file("a.jsonl", rows("a", "b")),
        "names its own columns",
        "columns=text,label",
    ),
    "a NUL": (csv("text,label\nfine,yes\npo\0or,no\n"), r"a\.csv, line 3: .*NUL"),
    "an empty text": (csv(GOOD + "  ,no\n"), r"a\.csv, line 6: text is empty"),
    "no label": (csv(GOOD + "fine,\n"), r"a\.csv, line 6: there is no label"),
    "broken JSON": (file("a.jsonl", rows("a", "b") + '{"text": "half'), r"a\.jsonl, line 3: not JSON"),
    "JSON that is no object": (file("a.jsonl", rows("a", "b") + '["c"]'), r"line 3: an example must be an object"),
    "a doubled key": (file("a.jsonl", '{"text": "a", "text": "b", "label": 1}'), r"line 1: .*'text' appears 2"),
    "a text that is none": (
        file("a.jsonl", rows("a", "b") + '{"text": 5, "label": "a"}'),
        r"line 3: text is not text but 5",
    ),
    "a text that lacks": (
        file("a.jsonl", rows("a", "b") + '{"txt": "c", "label": "a"}'),
        r"line 3: there is no column text, which other rows have: did you mean txt\?",
    ),
    "several labels of one": (file("a.jsonl", rows("a", ["a", "b"])), r"line 2: a label is a class or a number, not"),
    "JSON that holds no list": (file("a.json", '{"text": "a"}'), r"a\.json must be or contain one list of objects"),
    "mixed labels": (
        file("a.jsonl", rows(0.5, 1.5, "n/a", 2)),
        r"line 3: label 'n/a' is not a number, but 3 of 4 are; with mine\.kind=classes",
    ),
    "a number among names": (csv("text,label\na,x\nb,NaN\nc,y\n"), "line 3: label 'NaN' is a number, but 2 of 3 "),
    "a score without end": (csv("text,score\na,1.5\nb,inf\n"), "line 3: .*not finite"),
    "scores with decimal commas": (
        file("a.tsv", "text\tlabel\n" + "so\t0,5\nla\t-1,5\n" * 4),
        r"line 2: label '0,5' has a decimal comma: write scores with a point; with mine\.kind=classes",
    ),
    "a score that is none": (csv(GOOD), r"line 2: label 'yes' is not a number$", "kind=score"),
    "one class": (csv("text,label\na,x\nb,x\n"), "of train have the same label, x"),
    "a label outside the classes": (csv(GOOD + "so so,maybe\n"), "line 6: label 'maybe' is not", "classes=no,yes"),
    "the text taken for the label": (
        file("a.jsonl", rows(*(f"remark {n}" for n in range(80)))),
        "80 classes in 80 examples: is it the label",
    ),
    "a class in dev alone": (
        folder(train_csv=GOOD, dev_csv=GOOD + "so so,maybe\n"),
        r"dev\.csv, line 6: .*is only in dev",
    ),
    "a class of which train has none": (
        folder(train_csv=GOOD, dev_csv="text,label\nso so,maybe\n"),
        r"dev\.csv, line 2: class maybe is only in dev",
        "classes=no,yes,maybe",
    ),
    "one class in dev": (folder(train_csv=GOOD, dev_csv="text,label\nso,no\noh,no\n"), "of dev have the same"),
    "a test split used as train": (folder(train_csv=GOOD, test_csv=GOOD), "test and train hold the same examples"),
    "train named as dev": (
        folder(train_csv=GOOD, dev_csv=GOOD),
        "reported on its own training examples, train",
        "dev=train",
    ),
    "no train": (folder(test_csv=GOOD), "has no split train"),
    "two dev splits": (
        folder(train_csv=GOOD, dev_csv=GOOD, validation_csv=GOOD),
        "both validation and dev: choose one with --set mine.dev=",
    ),
    "a split in two files": (folder(train_csv=GOOD, train_tsv=GOOD), r"train twice: train\.csv and train\.tsv"),
    "an unknown split": (folder(train_csv=GOOD), "has no split 'eval'", "dev=eval"),
    "too few to hold some out": (csv("text,label\na,x\nb,y\n"), "2 examples are too few to hold any out"),
    "the same texts again": (csv("text,label\n" + "a,x\nb,y\n" * 50), "100 examples with 2 different texts are"),
    "groups without an end": (
        csv("id,text,label\n1_1,a,x\n12,b,y\n"),
        r"line 3: id '12' does not contain '_'",
        "group=id",
        "group_until=_",
    ),
    "one group": (csv("id,text,label\n1,a,x\n1,b,y\n"), "id is the same in all", "group=id"),
    "a share that is none": (csv(GOOD), "held_out must be a fraction of train between 0 and 1", "held_out=2"),
    "half a parquet file": (lambda f: parquet(f, 0.5), r"data\.parquet cannot be read"),
    "no label in a data set": (saved, "saved, train, row 5: there is no label in column label"),
    "a damaged data set": (
        lambda f: [path.unlink() for path in saved(f).glob("*.arrow")] and f / "saved",
        "saved cannot be read",
    ),
    "an unknown setting": (csv(GOOD), "'mine.labels' .*did you mean", "labels=text"),
    "an unknown metric": (csv(GOOD), "unknown metric 'acuracy' .*did you mean accuracy", "metric=acuracy"),
    "a metric of scores": (csv(GOOD), "has 2 classes, to which metric pears", "metric=pearson"),
    "a metric to make small": (csv(GOOD), "metric mse is best when lowest", "metric=mse"),
    "YAML that is none": (lambda f: written(f, a_csv=GOOD, mine_yaml="text: [\n") / "a.csv", r"mine\.yaml is not YAML"),
    "YAML of something else": (
        lambda f: written(f, a_csv=GOOD, mine_yaml="txt: text\n") / "a.csv",
        "unknown setting 'txt'",
    ),
    "YAML without a path": (file("mine.yaml", "text: text\n"), "does not say where the data are; add a line path:"),
    "a hub name that is empty": (lambda f: "hub:", "names no data set"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_it_gets_one_sentence(tmp_path: Path, case: str) -> None:
    write, message, *settings = HOSTILE[case]
    with pytest.raises(UserError) as refused:
        reads(write(tmp_path), *settings)
    told = str(refused.value)
    assert re.search(message, told) and "\n" not in told and not told.endswith("."), told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sst2=a.csv"], "task sst2 already exists"),
        (["my-data=a.csv"], "'my-data' may hold only letters"),
        (["teacher=a.csv"], "'teacher' is reserved for settings, as in teacher.epochs: give"),
        (["average=a.csv"], "'average' is reserved for the mean over tasks: give your data another name"),
        (["mine="], "names no data"),
    ],
)
def test_a_name_that_cannot_be(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        own.told_apart(words, [])


def test_what_is_odd_but_no_mistake(tmp_path: Path) -> None:
    """A byte-order mark, Windows line ends, blank lines, quoted commas and line breaks, NA, quotes between tabs."""
    odd = '\ufefftext,label\r\n"a, b\r\nc",yes\r\n\r\nNA,no\r\nnull,no\r\nd,yes\r\n'
    known = reads(written(tmp_path, a_csv=odd.encode()) / "a.csv", "held_out=0.3")
    found = known.source.read
    assert {texts[0] for _, texts, _ in (*found.train, *found.dev)} == {"a, b\nc", "NA", "null", "d"}
    assert {where.rpartition(" ")[2] for where, _, _ in (*found.train, *found.dev)} == {"2", "5", "6", "7"}
    quotes = 'text\tlabel\n"so" he said\tx\n"\ty\nmore\tx\nless\ty\n'
    known = reads(written(tmp_path, b_tsv=quotes) / "b.tsv")
    texts = [texts[0] for _, texts, _ in (*known.source.read.train, *known.source.read.dev)]
    assert sorted(texts) == ['"', '"so" he said', "less", "more"]
