"""Entropy when a word is masked, and which sentences are shown."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from harness.data import loading
from harness.data.tasks import get_task
from harness.evaluation.masked_words import chosen, masked_word_entropy, refusal
from harness.jobs.scoring import further
from harness.teaching.outputs import Encoder
from harness.training.work import Work
from harness.training.workspace import teacher_source, teacher_tokenizer
from tests.search.builders import student_run
from tests.training.builders import workspace_of


def sentiment(texts: Sequence[str]) -> Tensor:
    """Probability 0.9 of class 1 where "good" is still there, one half otherwise."""
    sure = torch.tensor([[math.log(0.1), math.log(0.9)]])
    return torch.cat([sure + 3.0 if "good" in text.split() else torch.zeros(1, 2) for text in texts])


def test_golden_values() -> None:
    sure = -(0.1 * math.log(0.1) + 0.9 * math.log(0.9))
    found = masked_word_entropy(sentiment, [["a", "good", "film"], ["bad"]])
    assert [entry["words"] for entry in found] == [["a", "good", "film"], ["bad"]]
    assert found[0]["entropy"] == pytest.approx([sure, math.log(2), sure])
    assert found[1]["entropy"] == pytest.approx([math.log(2)])


def test_each_word_is_masked_once_in_its_place() -> None:
    asked: list[str] = []

    def logits_of(texts: Sequence[str]) -> Tensor:
        asked.extend(texts)
        return torch.zeros(len(texts), 3)

    masked_word_entropy(logits_of, [["a", "b", "a"], ["c"]])
    assert asked == ["[MASK] b a", "a [MASK] a", "a b [MASK]", "[MASK]"]
    assert masked_word_entropy(logits_of, []) == [] and len(asked) == 4


@given(st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=5))
def test_entropy_is_between_none_and_that_of_a_guess(logits: list[float]) -> None:
    found = masked_word_entropy(lambda texts: torch.tensor([logits] * len(texts)), [["one", "two"]])
    assert all(-1e-9 <= value <= math.log(len(logits)) + 1e-9 for value in found[0]["entropy"])


def test_sentences_are_chosen_by_what_they_are() -> None:
    texts = [" ".join(["word"] * length) + f" {n}" for n in range(40) for length in (3, 4, 8, 11, 12)]
    found = chosen(texts)
    assert len(found) == 6 and all(5 <= len(words) <= 12 for words in found)
    shuffled = list(texts)
    random.Random(1).shuffle(shuffled)
    assert chosen(shuffled) == found == chosen([*texts, *texts])
    assert found != [text.split() for text in texts if 5 <= len(text.split()) <= 12][:6], "not the first ones"
    assert chosen(texts, 2) == found[:2]
    assert {len(words) for words in chosen(texts, len(texts))} == {5, 9, 12} and chosen(["too short"]) == []


def test_tasks_without_single_sentences_in_classes_are_refused() -> None:
    assert refusal(get_task("sst2")) == refusal(get_task("sentiment")) == ""
    for name in ("mrpc", "stsb"):
        assert f"task {name}" in refusal(get_task(name))


def test_what_a_run_records(glue: Path, checkpoint: Path, tmp_path: Path) -> None:
    """The entropies of a real model on dev sentences, one of them against the plain library."""
    workspace = workspace_of(tmp_path, checkpoint, source=str(glue))
    task, reader = get_task("sst2"), teacher_tokenizer(workspace)
    torch.manual_seed(0)
    model = teacher_source(workspace.teacher).model(task, None)
    run = student_run(analysis="masked_word_entropy")
    work = Work(workspace, print)
    record, predictions = further(Encoder(model), task, run, work, reader)
    shown = record["masked_word_entropy"]
    assert predictions == {} and len(shown) == 6
    assert [entry["words"] for entry in shown] == chosen(loading.load(task, str(glue)).dev[0].text_a)
    words = shown[0]["words"]
    with torch.no_grad():
        logits = model.eval()(**reader(" ".join([words[0], "[MASK]", *words[2:]]), return_tensors="pt")).logits
    p = logits.softmax(-1)[0].tolist()
    assert shown[0]["entropy"][1] == pytest.approx(-sum(x * math.log(x) for x in p), rel=1e-5)
    assert further(Encoder(model), task, student_run(), work, reader) == ({}, {})
