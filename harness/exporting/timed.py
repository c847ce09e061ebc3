"""How fast an opened student encodes: from token ids, from text, and the tokenizer by itself."""

from __future__ import annotations

import statistics
from functools import partial

import torch

from harness.data.encoding import Encoded, encode, evaluation_batches
from harness.data.sources import Split
from harness.evaluation import speed
from harness.exporting.opened import BATCH, Opened
from harness.threads import one_thread

TEXTS = 512  # at most, the first of dev


def sentences_per_second(student: Opened, split: Split, rounds: int) -> dict[str, tuple[float, float]]:
    """Metric -> (median over rounds, their sample standard deviation) on the first TEXTS of a split; of pairs, pairs.

    By one thread on the processor, in batches of BATCH sorted by length. From text the tokenizer's time counts too:
    tokenizer_share is how much of both it is, in percent.
    """
    second = None if split.text_b is None else split.text_b[:TEXTS]
    part = Split(split.name, split.text_a[:TEXTS], second, split.labels[:TEXTS])

    def read() -> Encoded:
        return encode(part, student.tokenizer, student.pair_encoding, student.max_length)

    def answer(data: Encoded) -> None:
        for index in evaluation_batches(data.lengths, BATCH):
            student.of_batch(data.batch(index))

    with one_thread(), torch.inference_mode():
        seconds = speed.compare(
            {
                "sentences_per_second_from_ids": partial(answer, read()),
                "sentences_per_second_from_text": lambda: answer(read()),
                "sentences_tokenized_per_second": read,
            },
            rounds,
        )
    found = {name: [len(part.text_a) / one for one in turns] for name, turns in seconds.items()}
    both = zip(seconds["sentences_tokenized_per_second"], seconds["sentences_per_second_from_ids"], strict=True)
    found["tokenizer_share"] = [100 * reading / (reading + answering) for reading, answering in both]
    return {name: (statistics.median(turns), statistics.stdev(turns)) for name, turns in found.items()}
