"""The page on which objective trains which student."""

from __future__ import annotations

import re

from harness import registry
from tests.conftest import ROOT
from tests.test_documentation import extension

FILE = ROOT / "docs" / "objectives_and_students.md"


def test_the_page_is_current() -> None:
    assert extension("pairs").page(["embedded"]) + "\n" == FILE.read_text(encoding="utf-8"), "make pages"


def test_those_that_compare_token_by_token_say_so() -> None:
    """Each is refused where teacher and student split text differently; a second tokenizer is seldom at hand."""
    known = filter(registry.OBJECTIVES.ships, registry.OBJECTIVES.names())
    assert {name for name in known if registry.OBJECTIVES.get(name).token_level} == {
        "att_kl", "att_mse", "embedding_mse", "fsp", "hid_cosine", "hid_seq", "minilm", "minilmv2", "nst", "val_kl",
    }  # fmt: skip


def test_every_pair_is_told_and_every_reason_said_once() -> None:
    text = FILE.read_text(encoding="utf-8")
    header, *rows = re.findall(r"^\| (?!\*)(.*) \|$", text, re.M)
    students = [name for name in registry.STUDENTS.names() if registry.STUDENTS.ships(name)]
    assert header.split(" | ")[1:] == students or header.strip(" |").split(" | ") == students
    shipped = {name for name in registry.OBJECTIVES.names() if registry.OBJECTIVES.ships(name)}
    assert {row.split()[0] for row in rows} == shipped
    notes = dict(re.findall(r"^(\d+)\. (.*)$", text, re.M))
    used = {number for row in rows for part in re.findall(r"\[([\d, ]+)\]", row) for number in part.split(", ")}
    assert used == set(notes) and len(set(notes.values())) == len(notes)
    assert not [note for note in notes.values() if re.search(r"_task_|BERT-base|task the|the the", note)]
