"""Students with random weights that can be asked, and what is told of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from transformers import PreTrainedTokenizerBase

from harness.contracts import Task
from harness.exporting.card import ANSWERS, About
from harness.exporting.opened import Opened
from harness.modeling.word_tokenizer import word_level
from harness.testing.student_cases import VOCABULARY, Case

WORDS = [f"word{number}" for number in range(VOCABULARY - 2)]
ABOUT = About(
    name="somebody/student",
    row="a_row",
    objective="An objective | of two",
    student="transformer",
    init="every",
    teacher="a teacher",
    base="",
    data="Some data",
    table="In the table it has 90.0 ± 1.0.",
    metrics={"accuracy": 0.9, "f1": 0.8},
    recipe={"epochs": 2},
    speed="100 examples a second",
    version="0.1.0",
    made={"run": "0123456789abcdef"},
    learnt=ANSWERS,
    starts="its layers start from a teacher",
)
TEXTS = ("word1 word2 word3", "word4", "word5 unheard word6 word1 word9", "")
PAIRS = tuple(zip(TEXTS, reversed(TEXTS), strict=True))


def reader() -> PreTrainedTokenizerBase:
    """Of VOCABULARY words, padding among them."""
    found = word_level([" ".join(WORDS)], 0)
    assert len(found) == VOCABULARY
    return found


def opened(case: Case, **changes: Any) -> Opened:
    student = case.build().eval()
    task = case.task if case.task.labels else replace(case.task, range=(0, 5))
    return Opened(**{
        "model": student,
        "tokenizer": reader(),
        "task": task,
        "pair_encoding": case.describe().pair_encoding,
        "max_length": 16,
        **changes,
    })  # fmt: skip


def examples(task: Task) -> Any:
    return list(PAIRS if task.pair else TEXTS)
