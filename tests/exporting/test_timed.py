"""How fast a student is: what is read for it, and how rates follow from seconds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch

from harness.contracts import Batch
from harness.data.sources import Split
from harness.exporting import timed
from harness.exporting.opened import Opened
from harness.testing.student_cases import PAIR, Case
from tests.exporting.builders import PAIRS, opened


def test_rates_are_of_the_first_texts_and_medians_over_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    threads, of_batch = torch.get_num_threads(), Opened.of_batch

    def answer(self: Opened, batch: Batch) -> torch.Tensor:
        asked.append(len(batch.ids))
        return of_batch(self, batch)

    def compare(turns: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
        assert rounds == 3 and torch.get_num_threads() == 1
        from_ids, from_text, tokenizer = turns
        for name in turns:
            turns[name]()
        return {from_ids: [1.0, 2.0, 4.0], from_text: [2.0, 2.0, 8.0], tokenizer: [3.0, 6.0, 4.0]}

    monkeypatch.setattr(Opened, "of_batch", answer)
    monkeypatch.setattr(timed.speed, "compare", compare)
    monkeypatch.setattr(timed, "TEXTS", 3)
    first, second = zip(*PAIRS, strict=True)
    split = Split("dev", list(first), list(second), np.zeros(len(first), np.int64))
    found = timed.sentences_per_second(opened(Case("cbow", PAIR)), split, 3)
    assert found == {
        "sentences_per_second_from_ids": (1.5, statistics.stdev([3, 1.5, 0.75])),
        "sentences_per_second_from_text": (1.5, statistics.stdev([1.5, 1.5, 0.375])),
        "sentences_tokenized_per_second": (0.75, statistics.stdev([1, 0.5, 0.75])),
        "tokenizer_share": (75.0, statistics.stdev([75, 75, 50])),
    }
    assert asked == [3, 3], "from ids and from text, the first of each, and nothing for the tokenizer alone"
    assert torch.get_num_threads() == threads
