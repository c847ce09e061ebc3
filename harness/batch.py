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

    lengths: (B,) int64 on the host, the tokens of each sequence, which are its first ones where they are known: whoever
    makes a batch on the host gives them. Otherwise they are counted, and on an accelerator waited for.
    """

    def __init__(self, tensors: Mapping[str, Tensor], known_lengths: Tensor | None = None):
        super().__init__(tensors)
        self.known_lengths = known_lengths

    @property
    def lengths(self) -> Tensor:
        return self["attention_mask"].sum(1).cpu() if self.known_lengths is None else self.known_lengths

    @property
    def unpadded(self) -> bool:
        """Whether the host knows that no sequence is padded; False where it would have to look."""
        known = self.known_lengths
        return known is not None and int(known.min()) == self["attention_mask"].shape[1]


@dataclass
class Batch:
    """Examples as one model reads them. Everything is on the device but what says that it is on the host.

    ids: (B,) stable example ids, unique within the split, on the host. labels: (B,) int64 classes or float32 scores.
    encodings: one for single sentences and joint pairs, two for pairs encoded apart. targets: (B, L) int64, of masked
    text the token that stood at each position to predict and -100 elsewhere; None for a labelled task. epoch: the pass
    over the data, 0-based; masks differ from one to the next. task: where a model is trained on several tasks, the one
    whose examples these are. groups: (B,) int64 of a task that ranks: examples with one number are the candidates of
    one question, all of which are here; otherwise None. known_positions: targets and the positions to predict in them,
    where the host knew these; they are not used for other targets.
    """

    ids: Tensor
    labels: Tensor
    encodings: tuple[Encoding, ...]
    targets: Tensor | None = None
    epoch: int = 0
    task: str = ""
    groups: Tensor | None = None
    known_positions: tuple[Tensor, Tensor] | None = None

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
        if self.known_positions is not None and self.known_positions[0] is self.targets:
            return self.known_positions[1]
        return positions(self.targets != IGNORED)

    def real(self, states: Tensor) -> Tensor:
        """(B, L, ...) -> (T, ...): what belongs to the real tokens of the first sequence, row by row."""
        self._check(states, 2)
        states = states.flatten(0, 1)
        # To choose all by their places would sort these for the gradient.
        return self._copy(states) if self.encodings[0].unpadded else states[self._tokens]

    def real_pairs(self, scores: Tensor) -> Tensor:
        """(B, L, L) -> (P,): what belongs to two real tokens of the first sequence, row by row."""
        self._check(scores, 3)
        scores = scores.flatten()
        return self._copy(scores) if self.encodings[0].unpadded else scores[self._pairs]

    def _check(self, tensor: Tensor, dimensions: int) -> None:
        size, length = self.mask.shape
        expected = (size, length, length)[:dimensions]
        if tensor.shape[:dimensions] != expected:
            shape = tuple(tensor.shape)
            raise IndexError(f"{size} texts of {length} tokens need a shape beginning with {expected}, not {shape}")

    @staticmethod
    def _copy(tensor: Tensor) -> Tensor:
        """As indexing gives one, which may be written to."""
        import torch

        return tensor.clone(memory_format=torch.contiguous_format)

    @cached_property
    def _tokens(self) -> Tensor:
        """(T,) int64, the places of the real tokens in the mask, read row by row."""
        return onto(positions(self._inside), self._device)

    @cached_property
    def _pairs(self) -> Tensor:
        """(P,) int64, the places of two real tokens in (B, L, L), read row by row."""
        return onto(positions(self._inside[:, :, None] & self._inside[:, None, :]), self._device)

    @cached_property
    def _inside(self) -> Tensor:
        """The mask, on the host where it knows the lengths."""
        import torch

        lengths = self.encodings[0].known_lengths
        return self.mask if lengths is None else torch.arange(self.mask.size(1)) < lengths[:, None]

    @property
    def _device(self) -> Any:
        return self.encodings[0]["attention_mask"].device


def positions(mask: Tensor) -> Tensor:
    """Of any shape, bool -> (N,) int64: where it is true, read row by row. On an accelerator the host waits for it."""
    return mask.flatten().nonzero().squeeze(1)


def onto(tensor: Tensor, device: Any) -> Tensor:
    """The tensor on the device (a `torch.device`; None is the host), copied to a GPU from pinned memory: no wait.

    Of other accelerators the host waits: Apple's would read memory that is used for something else by then.
    """
    if device is None or device == tensor.device:
        return tensor
    if device.type not in ("cuda", "meta"):  # meta, which has no values, copies nothing
        return tensor.to(device)
    pinned = tensor.pin_memory() if device.type == "cuda" and tensor.device.type == "cpu" else tensor
    return pinned.to(device, non_blocking=True)
