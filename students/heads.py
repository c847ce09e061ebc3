"""What answers a task from a sentence vector or from per-token states (galke2022, section III-A and appendix A).

Their parameter counts are those of tables XII and XIII. Dropout before a head is the student's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from torch import Tensor, nn

from harness.errors import UserError
from harness.students import words

HEADS = ("linear", "mlp", "cnn", "bilstm")
HIDDEN = 1000  # of the MLP


def check(kind: str, widths: Sequence[int]) -> None:
    """Raise UserError if a head cannot be put on a vector made of parts of these widths."""
    side = isqrt(widths[0])
    if kind == "cnn" and (side < 3 or any(width != side * side for width in widths)):
        raise UserError(
            "a cnn head reads every part of the sentence vector as a square matrix of one size, at least 3 x 3, but "
            f"the parts are {' and '.join(map(str, widths))} wide"
        )


def build(kind: str, widths: Sequence[int], outputs: int) -> nn.Module:
    """The head `kind` on a vector whose parts, put one after another, have these widths.

    linear, mlp and cnn map (B, d) to (B, outputs), where d is the sum of the widths; bilstm maps states (B, L, d) and
    a mask (B, L) to (B, outputs). Raises UserError where `check` does.
    """
    check(kind, widths)
    width = sum(widths)
    if kind == "linear":
        return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, outputs))
    if kind == "mlp":
        return nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, outputs))
    if kind == "cnn":
        return _cnn(len(widths), isqrt(widths[0]), outputs)
    return BiLSTM(width, outputs)


def _cnn(channels: int, side: int, outputs: int) -> nn.Module:
    """Each part is a channel: one matrix of side x side."""
    kernels = channels + 2
    left = ((4 * side - 3) - 3) // 2 + 1  # the side after the second convolution ...
    left = (left - 3) // 2 + 1  # ... and the third
    return nn.Sequential(
        nn.Unflatten(1, (channels, side, side)),
        nn.ConvTranspose2d(channels, channels, 4, stride=4),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 4),
        nn.Conv2d(channels, kernels, 3, stride=2),
        nn.Conv2d(kernels, kernels, 3, stride=2),
        nn.BatchNorm2d(kernels),
        nn.Flatten(),
        nn.Dropout(0.4),
        nn.Linear(kernels * left * left, outputs),
    )


class BiLSTM(nn.Module):
    """A bidirectional LSTM as wide as its input, the last states of both directions, and two layers."""

    def __init__(self, width: int, outputs: int):
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.output = nn.Sequential(nn.ReLU(), nn.Linear(2 * width, width), nn.Dropout(0.5), nn.Linear(width, outputs))

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        """states: (B, L, d); lengths: (B,) on the host, the tokens of each, after which nothing is read."""
        lengths = lengths.clamp(min=1)  # a text may hold no token
        return self.output(words.run(self.lstm, states, lengths)[1])  # (B, 2d) -> (B, outputs)
