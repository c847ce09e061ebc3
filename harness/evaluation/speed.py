"""How fast models encode (Galke et al. 2022, section V-E): random sequences, no gradients, several models in one run.

Seconds differ between machines and, on a shared one, between minutes; a ratio of calls made one after another hardly
does. So models are timed in turns, and compared within each round.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from harness.contracts import Batch, Encoding, Want
from harness.modeling.bases import Student

BATCHES = 8  # of different sequences, taken in turn, so that no cache holds the rows of just one
TURN_SECONDS = 0.5  # a model faster than this is called several times per turn


def encode(model: PreTrainedModel, ids: Tensor, pairs: bool = False) -> Tensor:
    """What the model makes of token ids (B, L), every token counting: a student's sentence vectors (B, D), of another
    model the encoder's last states (B, L, D). Neither runs the layers that answer a task.

    pairs: the two halves of a row are the sentences of a pair. A student that reads them apart then gives its answers,
    for only there do they come together; any other model reads the row as one sequence.
    """
    with torch.no_grad():
        if isinstance(model, Student) and pairs and _apart(model):
            return model(as_batch(*ids.chunk(2, 1)), Want(logits=True)).logits
        if isinstance(model, Student):
            return model(as_batch(ids), Want(sentence=True)).sentence
        states: Tensor = model.base_model(input_ids=ids).last_hidden_state
        return states


def as_read(student: Student, ids: Tensor) -> Batch:
    """Token ids (B, L) as the student reads the examples of its task: whole, or as pairs of their two halves."""
    apart = student.config.pairs and _apart(student)
    return as_batch(*ids.chunk(2, 1)) if apart else as_batch(ids)


def _apart(model: Student) -> bool:
    return model.config.settings.get("pair_encoding", model.pair_encodings[0]) != "joint"


def as_batch(*ids: Tensor) -> Batch:
    """Token ids (B, L), one tensor for single sentences and two for pairs, as a batch without padding."""
    encodings = tuple(
        Encoding({"input_ids": part, "attention_mask": torch.ones_like(part)}, torch.full((len(part),), part.size(1)))
        for part in ids
    )
    return Batch(torch.arange(len(ids[0])), torch.zeros_like(ids[0][:, 0]), encodings)


def random_batches(vocabulary: int, batch: int, length: int, device: torch.device) -> list[Tensor]:
    """BATCHES tensors (batch, length) of token ids drawn evenly from the vocabulary, the same ones every time."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(vocabulary, (batch, length), generator=generator).to(device) for _ in range(BATCHES)]


def over(work: Callable[[Tensor], object], batches: Sequence[Tensor]) -> Callable[[], None]:
    """A call that does `work` on the next of `batches`, round and round."""
    following = itertools.cycle(batches)

    def call() -> None:
        work(next(following))

    return call


def compare(models: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds per call of every model in each round, after a warm-up of each.

    A round gives every model one turn and starts with another one than the round before. A turn is one call, or as
    many as fill TURN_SECONDS.
    """
    calls = {name: _calls_per_turn(call) for name, call in models.items()}
    names = list(models)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(_seconds(models[name], calls[name]))
    return seconds


def _calls_per_turn(call: Callable[[], object]) -> int:
    if _seconds(call, 1) > TURN_SECONDS:
        return 1
    # The first call also pays for what is set up once; a call is taken to last 0.1 ms at least.
    return max(1, int(TURN_SECONDS / max(_seconds(call, 1), 1e-4)))


def _seconds(call: Callable[[], object], calls: int) -> float:
    """Seconds per call, the accelerator's work finished before and after."""
    # A single thread's own processor time leaves out what other work on a shared machine took in between.
    alone = torch.get_num_threads() == 1 and not torch.cuda.is_available()
    clock = time.process_time if alone else time.perf_counter
    _finish()
    began = clock()
    for _ in range(calls):
        call()
    _finish()
    return (clock() - began) / calls


def _finish() -> None:
    """Wait until the accelerator has done what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def ratio(seconds: Sequence[float], reference: Sequence[float]) -> float:
    """How many times as fast as the reference: the median over rounds of reference / own seconds."""
    return statistics.median(r / s for r, s in zip(reference, seconds, strict=True))


def measure(
    model: PreTrainedModel,
    reference: PreTrainedModel,
    vocabulary: int,
    batch: int,
    length: int,
    rounds: int,
    pairs: bool = False,
) -> dict[str, float]:
    """The model's encoding speed beside the reference's, both on the model's device and left in evaluation mode.

    vocabulary is the number of token ids that both know. length: tokens of a sentence, of which a pair has two.
    """
    batches = random_batches(vocabulary, batch, length * (2 if pairs else 1), model.device)
    both = {"model": model.eval(), "reference": reference.eval()}
    calls = {name: over(partial(encode, one, pairs=pairs), batches) for name, one in both.items()}
    seconds = compare(calls, rounds)
    return {
        "sentences_per_second": batch / statistics.median(seconds["model"]),
        "speed_ratio": ratio(seconds["model"], seconds["reference"]),
    }
