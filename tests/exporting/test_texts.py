"""What `harness predict` reads: the files that training reads, in the same way, and a text for each answer."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from harness.exporting.opened import TOLD, load
from harness.exporting.writing import write
from harness.testing.student_cases import PAIR, SINGLE, Case
from tests.conftest import Harness
from tests.exporting.builders import ABOUT, opened
from tests.results import done, refused

TEXTS = ("word1 word2", '"word3', 'word4" word5', "word6, word7", '"word8 word9" word1')
PAIRS = tuple(zip(TEXTS, reversed(TEXTS), strict=True))
LINES = "".join(f"{text}\n" for text in TEXTS)
NUMBERED = "".join(f"{text}\t{number}\n" for number, text in enumerate(TEXTS))
QUOTED = "".join('"{}";{}\n'.format(text.replace('"', '""'), number) for number, text in enumerate(TEXTS))
SEMICOLON = {"delimiter": "semicolon"}
HEADLESS = {"columns": "body, verdict"}
Ask = Callable[..., None]


def beside(texts: Sequence[Any], said: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a student says of texts or pairs, with these, as `harness predict` writes it."""
    pairs = [(text,) if isinstance(text, str) else text for text in texts]
    return [
        dict(zip(("text",) if len(pair) == 1 else ("sentence1", "sentence2"), pair, strict=True)) | found
        for pair, found in zip(pairs, said, strict=True)
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """A student on single texts, and one on pairs: by whether it takes pairs."""
    found = {pair: tmp_path_factory.mktemp("students") / "student" for pair in (False, True)}
    for pair, folder in found.items():
        write(opened(Case("cbow", PAIR if pair else SINGLE)), folder, ABOUT)
    return found


@pytest.fixture
def trained(folders: dict[bool, Path]) -> Callable[..., Path]:
    """trained(pair, columns, table): a student as of data that were read so."""

    def made(pair: bool, columns: Sequence[str] = (), table: Mapping[str, str] | None = None) -> Path:
        told = json.loads((folders[pair] / TOLD).read_text())
        (folders[pair] / TOLD).write_text(json.dumps({**told, "columns": list(columns), "table": table or {}}))
        return folders[pair]

    return made


@pytest.fixture
def ask(trained: Callable[..., Path], call: Harness, tmp_path: Path) -> Ask:
    """ask(file, content, texts, columns, table): the student answers exactly these texts of the file."""

    def answered(file: str, content: str, texts: Sequence[Any], *data: Any) -> None:
        folder, path = trained(not isinstance(texts[0], str), *data), tmp_path / file
        path.write_text(content, encoding="utf-8", newline="")
        found = done(call("predict", folder, "--input", path)).stdout.splitlines()
        assert [json.loads(line) for line in found] == beside(texts, load(folder).predict(texts))

    return answered


@pytest.mark.parametrize("file", ["in.tsv", "in.tab", "in.txt", "IN.TSV"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_fields_between_tabs_stand_as_they_are(file: str, end: str, ask: Ask) -> None:
    ask(file, f"text\tlabel\n{NUMBERED}".replace("\n", end), TEXTS)
    ask(file, f"Review\tstars\n{NUMBERED}".replace("\n", end), TEXTS, ["Review"])
    pairs = "".join(f"{first}\t{second}\t1{end}" for first, second in PAIRS)
    ask(file, f"premise\thypothesis\tlabel{end}{pairs}", PAIRS)


def test_a_txt_file_without_columns_is_lines(ask: Ask) -> None:
    ask("in.txt", f"{LINES}\nword1\tword2\n", (*TEXTS, "", "word1\tword2"))
    ask("in.txt", f"{LINES}\nword1\n", (*TEXTS, "", "word1"), ["body"], SEMICOLON | HEADLESS)
    ask("in.txt", f"text\n{LINES}", TEXTS)
    ask("in.txt", "".join(f"{first}\t{second}\n" for first, second in PAIRS), PAIRS)


def test_a_json_file_is_a_list_or_lines(ask: Ask) -> None:
    rows = [{"text": text, "tags": ["a"]} for text in TEXTS]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    for content in (json.dumps(rows), json.dumps(rows, indent=1), json.dumps({"data": rows}), lines, f"\n{lines}"):
        ask("in.json", content, TEXTS)
    ask("in.ndjson", lines, TEXTS, [], SEMICOLON)


def test_a_parquet_file_is_read_by_its_columns(trained: Callable[..., Path], call: Harness, tmp_path: Path) -> None:
    Dataset.from_dict({"id": [1, 2, 3, 4, 5], "sentence": list(TEXTS)}).to_parquet(tmp_path / "in.parquet")
    found = done(call("predict", trained(False), "--input", tmp_path / "in.parquet")).stdout.splitlines()
    assert [json.loads(line) for line in found] == beside(TEXTS, load(trained(False)).predict(TEXTS))


@pytest.mark.parametrize("file", ["in.csv", "in.jsonl", "in.parquet"])
def test_columns_are_copied(file: str, trained: Callable[..., Path], call: Harness, tmp_path: Path) -> None:
    rows = Dataset.from_dict({"id": ["7", "a,b", "7"], "text": list(TEXTS[:3]), "label": ["0", "1", "0"]})
    {"csv": rows.to_csv, "jsonl": rows.to_json, "parquet": rows.to_parquet}[file.partition(".")[2]](tmp_path / file)
    given = ("predict", trained(False), "--input", tmp_path / file)
    plain = [json.loads(line) for line in done(call(*given)).stdout.splitlines()]
    copied = [json.loads(line) for line in done(call(*given, "--copy", "id", "id")).stdout.splitlines()]
    assert copied == [{"id": one} | line for one, line in zip(rows["id"], plain, strict=True)]
    done(call(*given, "--copy", "id", "--output", tmp_path / "out.csv"))
    with open(tmp_path / "out.csv", newline="") as written:
        table = list(csv.DictReader(written))
    assert [line["id"] for line in table] == list(rows["id"]) and list(table[0])[:3] == ["id", "text", "label"]
    assert [line["label"] for line in table] == [line["label"] for line in plain]
    refused(call(*given, "--copy", "label"), "--copy label: what is written has a column of this name already")
    refused(call(*given, "--copy", "ids"), "there is no column ids, which --copy names: did you mean id?")


def test_no_columns_are_copied_of_lines(trained: Callable[..., Path], call: Harness, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(LINES)
    given = ("predict", trained(False), "--input", tmp_path / "in.txt", "--copy", "id")
    refused(call(*given), "--copy names columns, but", "in.txt has a text on each line and none")


@pytest.mark.parametrize("file", ["in.csv", "in.txt", "in.tsv"])
def test_texts_are_read_by_the_settings_of_the_data(file: str, ask: Ask) -> None:
    ask(file, f"Review;label\n{QUOTED}", TEXTS, ["Review"], SEMICOLON)
    ask(file, QUOTED, TEXTS, ["body"], SEMICOLON | HEADLESS)
    ask(file, NUMBERED, TEXTS, ["body"], HEADLESS | {"delimiter": "tab"})
    ask(file, "1;word1;word2\n2;word3;\n", [("word1", "word2"), ("word3", "")], ["a", "b"],
        SEMICOLON | {"columns": "id,a,b"})  # fmt: skip


def test_a_header_goes_before_what_was_said_of_the_data(ask: Ask) -> None:
    headed = SEMICOLON | HEADLESS
    ask("in.csv", f"verdict;body\n1;{TEXTS[0]}\n", TEXTS[:1], ["body"], headed)
    ask("in.csv", "id,body,verdict\n1,word1,2\n", ["word1"], ["body"], headed)
    ask("in.csv", "text\nword1\n", ["word1"], ["body"], headed)
    ask("in.tsv", f"text\tlabel\n{NUMBERED}", TEXTS, ["body"], SEMICOLON)


@pytest.mark.parametrize(
    ("file", "content", "data", "words"),
    [
        ("in.csv", "word1 text;text\n", (["body"], SEMICOLON | HEADLESS), "line 1 may be a header or an example: let"),
        ("in.csv", "a;b;c\n", (["body"], SEMICOLON | HEADLESS), "3 columns split by semicolons, but the setting"),
        ("in.csv", "text;label\nword1;2\n", (), "there is no column text or sentence, which predict reads"),
        ("in.txt", "word1\tword2\n", (), "rename one; texts with tabs, one a line, are read by --input -"),
        ("in.json", '[{"text": "a"}, {"text": 3}]', (), "example 2: a text is a string, not 3"),
        ("in.json", '[{"text": "a\\ud800"}]', (), "example 1: text contains half a character"),
        ("in.json", '{"a": "b"}\n', (), "line 1: there is no column text or sentence"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(
    file: str, content: str, data: Any, words: str, trained: Callable[..., Path], call: Harness, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(content)
    given = ("--input", tmp_path / file, "--output", tmp_path / "new" / "folder" / "out.csv")
    refused(call("predict", trained(False, *data), *given), words)
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_read_or_written_is_told_as_what_it_is(
    trained: Callable[..., Path], call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").write_text("word1\n")
    with open(tmp_path / "other", "wb") as unreadable, open(unreadable.fileno(), "rb", closefd=False) as stdin:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stdin))
        given = ("predict", trained(False), "--output", tmp_path / "out.csv", "--input", "-")
        refused(call(*given), "--input - cannot be read: Bad file descriptor")
    monkeypatch.setattr("harness.exporting.opened.load", None)  # it is refused before a student is opened, or made
    given = ("predict", tmp_path, "--output", tmp_path / "in" / "out.csv", "--input", tmp_path / "in")
    refused(call(*given), "in is a file, not a folder")
    said = "nowhere is neither a folder that harness export wrote nor the id of a cell or run"
    refused(call("predict", "nowhere", "--input", tmp_path / "in"), said)
    (tmp_path / "student").mkdir()
    refused(call("predict", tmp_path / "sutdent", "--input", tmp_path / "in"), "did you mean student?")
    given = ("predict", tmp_path / "student", "--output", tmp_path / "out.csv", "--input", tmp_path / "studnet")
    refused(call(*given), "No such file or directory: did you mean student?")


def test_how_its_data_were_read_goes_with_a_student(tmp_path: Path) -> None:
    before = replace(opened(Case("cbow", SINGLE)), columns=("body",), table=SEMICOLON | HEADLESS)
    write(before, tmp_path / "student", ABOUT)
    assert load(tmp_path / "student").table == before.table
    told = json.loads((tmp_path / "student" / TOLD).read_text())
    del told["table"]  # as earlier versions wrote it
    (tmp_path / "student" / TOLD).write_text(json.dumps(told))
    assert load(tmp_path / "student").table == {}
