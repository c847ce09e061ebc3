"""What models read: batches of examples, and what the host knows of them without waiting for the device.

Free of torch until a batch is asked, as `harness.contracts`, of which this is a part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

IGNORED = -100  # the target of a position where nothing is predicted


class Encoding(dict[str, "Tensor"]):
    """Sequences as one model reads them: input_ids, attention_mask and, where the tokenizer gives them,
    token_type_ids, all (B, L).

    lengths: (B,) int64 on the host, the tokens of each sequence, which are then its first ones. Who makes a batch on
    the host tells them; otherwise they are counted, and on an accelerator waited for.
    """

    def __init__(self, tensors: Mapping[str, Tensor], lengths: Tensor | None = None):
        super().__init__(tensors)
        self.told = lengths

    @property
    def lengths(self) -> Tensor:
        return self["attention_mask"].sum(1).cpu() if self.told is None else self.told


@dataclass
class Batch:
    """Examples as one model reads them. Everything is on the device but what says that it is on the host.

    ids: (B,) stable example ids, unique within the split, on the host. labels: (B,) int64 classes or float32 scores.
    encodings: one for single sentences and joint pairs, two for pairs encoded apart. targets: (B, L) int64, of masked
    text the token that stood at each position to predict and -100 elsewhere; None for a labelled task. epoch: the pass
    over the data, 0-based; masks differ from one to the next. task: where a model is trained on several tasks, the one
    whose examples these are. groups: (B,) int64 of a task that ranks: examples with one number are the candidates of
    one question, all of which are here; otherwise None. chosen: targets and the positions to predict in them, where the
    host knew these; of other targets than its own it says nothing.
    """

    ids: Tensor
    labels: Tensor
    encodings: tuple[Encoding, ...]
    targets: Tensor | None = None
    epoch: int = 0
    task: str = ""
    groups: Tensor | None = None
    chosen: tuple[Tensor, Tensor] | None = None

    def __post_init__(self) -> None:
        self.encodings = tuple(e if isinstance(e, Encoding) else Encoding(e) for e in self.encodings)

    @property
    def mask(self) -> Tensor:
        """(B, L) bool, True at real tokens, of the first (for joint encoding the only) sequence."""
        return self.encodings[0]["attention_mask"].bool()

    @property
    def predicted(self) -> Tensor | None:
        """(P,) int64, the positions to predict in `targets`, read row by row; None where there are no targets."""
        if self.targets is None:
            return None
        if self.chosen is not None and self.chosen[0] is self.targets:
            return self.chosen[1]
        return positions(self.targets != IGNORED)

    def real(self, states: Tensor) -> Tensor:
        """(B, L, ...) -> (T, ...): what belongs to the real tokens of the first sequence, row by row."""
        return states.flatten(0, 1)[self._tokens]

    def real_pairs(self, scores: Tensor) -> Tensor:
        """(B, L, L) -> (P,): what belongs to two real tokens of the first sequence, row by row."""
        return scores.flatten()[self._pairs]

    @cached_property
    def _tokens(self) -> Tensor:
        """(T,) int64, the places of the real tokens in the mask, read row by row."""
        return positions(self._inside).to(self._device, non_blocking=True)

    @cached_property
    def _pairs(self) -> Tensor:
        """(P,) int64, the places of two real tokens in (B, L, L), read row by row."""
        return positions(self._inside[:, :, None] & self._inside[:, None, :]).to(self._device, non_blocking=True)

    @cached_property
    def _inside(self) -> Tensor:
        """The mask, on the host where it knows the lengths."""
        import torch

        told, length = self.encodings[0].told, self.mask.size(1)
        return self.mask if told is None else torch.arange(length) < told[:, None]

    @property
    def _device(self) -> Any:
        return self.encodings[0]["attention_mask"].device


def positions(mask: Tensor) -> Tensor:
    """Of any shape, bool -> (N,) int64: where it is true, read row by row. On an accelerator the host waits for it."""
    return mask.flatten().nonzero().squeeze(1)
