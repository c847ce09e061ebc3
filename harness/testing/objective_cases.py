"""Small random models, outputs and batches for testing objectives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.contracts import IGNORED, Batch, Encoding, LayerMap, ModelInfo, Outputs, Signal, Task, Want
from harness.modeling.bases import Objective
from harness.registry import OBJECTIVES

torch.set_num_threads(1)  # of models this small several only wait, on a busy machine for long

CLASSES = Task("classes", "Classes", "accuracy", ("accuracy",), labels=("a", "b", "c"))
SCORES = Task("scores", "Scores", "pearson", ("pearson",))
PAIRS = Task("pairs", "Pairs", "accuracy", ("accuracy",), labels=("a", "b", "c"), pair=True)
RANKED = Task("ranked", "Ranked", "accuracy", ("accuracy",), labels=("a", "b"), ranking=True)

STUDENT = ModelInfo(
    "student", layers=2, width=8, heads=2, vocabulary=11, labels=3, emits=frozenset(Signal), tokenizer="words"
)
TEACHER = replace(STUDENT, name="teacher", layers=4)
LAYERS = LayerMap(((1, 2), (2, 4)))
LENGTHS = (5, 2, 4, 1, 5, 3)

TOKEN_DIMENSIONS = {"embeddings": (1,), "hidden_states": (1,), "attention_scores": (2, 3)}
TOKEN_DIMENSIONS |= dict.fromkeys(("queries", "keys", "values"), (2,))


def make(
    name: str, student: ModelInfo = STUDENT, teacher: ModelInfo = TEACHER, layers: LayerMap = LAYERS, **settings: Any
) -> Objective:
    """The objective with its defaults, or with `settings` in their place."""
    kind = OBJECTIVES.get(name)
    defaults = {setting: hyperparameter.default for setting, hyperparameter in kind.hyperparameters.items()}
    return kind(student, teacher, layers, **defaults | settings)


def make_batch(labels: Tensor | None = None, lengths: tuple[int, ...] = LENGTHS) -> Batch:
    """A joint batch whose example i has lengths[i] real tokens; labels 0, 1, 2, 0, ... unless given."""
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    encoding = Encoding({"input_ids": mask * 3, "attention_mask": mask})
    labels = torch.arange(len(lengths)) % 3 if labels is None else labels
    return Batch(torch.arange(len(lengths)), labels, (encoding,))


def make_ranked_batch() -> Batch:
    """Candidates of three questions: two right and a wrong one, one of each, and a wrong one alone."""
    batch = make_batch(torch.arange(len(LENGTHS)) % 2)
    return replace(batch, groups=torch.tensor([4, 4, 4, 1, 1, 7]))


def make_pair_batch() -> Batch:
    """Pairs whose sentences are read apart: the second has the lengths of the first in reverse."""
    batch = make_batch()
    return replace(batch, encodings=(*batch.encodings, *make_batch(lengths=LENGTHS[::-1]).encodings))


def one_of(batch: Batch, example: int) -> Batch:
    """The batch of this example alone, still as long."""
    kept = slice(example, example + 1)
    encodings = tuple(Encoding({key: tensor[kept] for key, tensor in encoding.items()}) for encoding in batch.encodings)
    targets, groups = (None if part is None else part[kept] for part in (batch.targets, batch.groups))
    return replace(
        batch, ids=batch.ids[kept], labels=batch.labels[kept], encodings=encodings, targets=targets, groups=groups
    )


def make_masked_batch() -> Batch:
    """Masked text, as the batch of a corpus is: every other token of each example is to be predicted."""
    batch = make_batch(torch.zeros(len(LENGTHS)))
    position = torch.arange(max(LENGTHS))
    tokens = (torch.arange(len(LENGTHS))[:, None] * 3 + position) % STUDENT.vocabulary
    return replace(batch, targets=torch.where(batch.mask & (position % 2 == 0), tokens, IGNORED))


def make_outputs(
    model: ModelInfo,
    want: Want,
    batch: Batch,
    seed: int,
    dtype: torch.dtype = torch.float32,
    requires_grad: bool = False,
) -> Outputs:
    """Exactly the signals of `want`, normally distributed; padded positions hold noise too.

    mlm_logits are those at the positions that the batch asks for; of a batch of pairs read apart, each pair has two
    sentence vectors.
    """
    generator = torch.Generator().manual_seed(seed)
    size, length = batch.mask.shape
    predicted = 0 if batch.targets is None else int((batch.targets != IGNORED).sum())
    shapes = {
        "logits": (size, model.labels),
        "sentence": (size, 2, model.width) if len(batch.encodings) == 2 else (size, model.width),
        "mlm_logits": (predicted, model.vocabulary),
        "hidden_states": (size, length, model.width),
        "attention_scores": (size, model.heads, length, length),
        "embeddings": (size, length, model.embedding_width or model.width),
    }
    shapes |= dict.fromkeys(("queries", "keys", "values"), (size, model.heads, length, model.width // model.heads))

    def one(signal: str) -> Tensor:
        # drawn in float64, so that both precisions see the same numbers
        drawn = torch.randn(shapes[signal], generator=generator, dtype=torch.float64)
        return drawn.to(dtype).requires_grad_(requires_grad)

    made = Outputs()
    for signal, layer in want.parts():
        if layer < 0:
            setattr(made, signal, one(signal))
        else:
            getattr(made, signal)[layer] = one(signal)
    return made


def tensors(outputs: Outputs) -> dict[tuple[str, int], Tensor]:
    """Every tensor in `outputs` by (signal, layer); layer -1 where there are no layers."""
    found: dict[tuple[str, int], Tensor] = {}
    for signal, value in vars(outputs).items():
        if isinstance(value, dict):
            found |= {(signal, layer): tensor for layer, tensor in value.items()}
        elif value is not None:
            found[signal, -1] = value
    return found


def padded(outputs: Outputs, extra: int, noise: float) -> Outputs:
    """`outputs` with `extra` positions of large random numbers after the last of every token dimension."""
    grown = Outputs()
    for (signal, layer), tensor in tensors(outputs).items():
        for dimension in TOKEN_DIMENSIONS.get(signal, ()):
            shape = list(tensor.shape)
            shape[dimension] = extra
            tensor = torch.cat([tensor, noise * torch.randn(shape, dtype=tensor.dtype)], dimension)
        if layer < 0:
            setattr(grown, signal, tensor)
        else:
            getattr(grown, signal)[layer] = tensor
    return grown


def padded_batch(batch: Batch, extra: int) -> Batch:
    """`batch` with `extra` padded positions more."""
    longer = tuple(
        Encoding({key: torch.nn.functional.pad(value, (0, extra)) for key, value in encoding.items()})
        for encoding in batch.encodings
    )
    targets = batch.targets
    if targets is not None:
        targets = torch.nn.functional.pad(targets, (0, extra), value=IGNORED)
    return replace(batch, encodings=longer, targets=targets)
