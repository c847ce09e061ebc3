"""A bi-attentive LSTM (liu2020, section 4.1.2), which follows McCann et al. (2017), section 5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from harness.contracts import Batch, Hyperparameter, Outputs, Signal, Want, onto
from harness.errors import UserError
from harness.modeling.bases import StudentConfig
from harness.registry import student
from harness.students import words


@student(
    "biattentive_lstm",
    emits={Signal.LOGITS, Signal.SENTENCE, Signal.EMBEDDINGS},
    pair_encodings=("biattention",),
    hyperparameters=words.SETTINGS
    | {
        "vocabulary": replace(words.VOCABULARY, default="teacher"),
        # The thesis does not tell it.
        "projection_units": Hyperparameter(300, low=1, says="of the ReLU layer between words and LSTM"),
        "hidden_units": Hyperparameter(256, low=1, says="of each direction of every LSTM"),
        "head_units": Hyperparameter(512, low=1, says="of the ReLU layer before the answers"),
    },
    head_settings=("head_units",),
    file_inits=("vectors",),
)
class BiattentiveLSTM(words.WordStudent):
    """A bidirectional LSTM that reads each of two sequences in the light of the other, and a single one in its own.

    One projection and one encoder serve both sequences, but each has an integrator (equation 4.9) and a self-attentive
    pooling (4.10) of its own: two integrators are what McCann et al. have, and what gives the published 10.2 M
    parameters; one for both gives 6.5 M. `sentence` is [x_pool; y_pool] of a single sequence (4.12), of which the text
    also lists a minimum that the equation has not.
    """

    not_of_pairs = {**words.WordStudent.not_of_pairs, "sentence": "it reads each sentence of a pair by the other"}

    def __init__(self, config: StudentConfig):
        super().__init__(config)
        projected, hidden, units = (self.own[n] for n in ("projection_units", "hidden_units", "head_units"))
        self.projection = nn.Sequential(nn.Linear(self.embedding.width, projected), nn.ReLU())
        self.encoder = nn.LSTM(projected, hidden, batch_first=True, bidirectional=True)
        self.integrators = nn.ModuleList(
            nn.LSTM(6 * hidden, hidden, batch_first=True, bidirectional=True) for _ in range(2)
        )
        self.attentions = nn.ModuleList(nn.Linear(2 * hidden, 1) for _ in range(2))  # v1 and d1, v2 and d2
        if config.outputs:
            self.head = nn.Sequential(nn.Linear(12 * hidden, units), nn.ReLU(), nn.Linear(units, config.outputs))
        self.post_init()

    @classmethod
    def sentence_width(cls, own: Mapping[str, Any], teacher: int) -> int:
        return 12 * int(own["hidden_units"])

    @classmethod
    def operations(cls, own: Mapping[str, Any]) -> int:
        width = words.CHANNELS[own["channels"]] * own["embedding_size"]
        projected, hidden = own["projection_units"], own["hidden_units"]
        encoder, integrator = (words.lstm_operations(wide, hidden) for wide in (projected, 6 * hidden))
        return int(width * projected) + encoder + integrator

    def forward(self, batch: Batch, want: Want) -> Outputs:
        count = len(batch.encodings)
        if count != 1 + self.config.pairs:
            raise UserError(f"a {self.name} built for {1 + self.config.pairs} sequences was given {count}")
        if want.sentence and count == 2:
            raise UserError(f"{self.name} reads each sentence of a pair with the other: neither has its own vector")
        outputs = Outputs()
        with torch.autocast(batch.mask.device.type, enabled=False):  # an LSTM in bfloat16 is slow, or there is none
            read = [self.embedding(encoding) for encoding in batch.encodings]
            if want.embeddings:
                outputs.embeddings = self.at_tokens(batch, read[0][0])
            pooled = self._pooled([self._encoded(*words_read) for words_read in read])
            if want.sentence:
                outputs.sentence = pooled
            if want.logits:
                outputs.logits = self.head(pooled)
        return outputs

    def _encoded(self, vectors: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(X, lengths): states (B, n, 2h), equations 4.5 and 4.6, and (B,) on the CPU."""
        return words.run(self.encoder, self.projection(vectors), lengths)[0], lengths

    def _pooled(self, sequences: list[tuple[Tensor, Tensor]]) -> Tensor:
        """[x_pool; y_pool], (B, 12h), of one sequence or two."""
        (x, x_lengths), (y, y_lengths) = sequences[0], sequences[-1]
        x_mask, y_mask = _mask(x, x_lengths), _mask(y, y_lengths)
        affinity = x @ y.transpose(1, 2)  # (B, n, m)
        x_context = _context(affinity, x, x_mask)  # (B, m, 2h)
        y_context = _context(affinity.transpose(1, 2), y, y_mask)  # (B, n, 2h)
        parts = [(x, y_context, x_lengths, x_mask), (y, x_context, y_lengths, y_mask)]
        pools: list[Tensor] = []
        for integrator, attention, (own, other, lengths, mask) in zip(
            self.integrators, self.attentions, parts, strict=True
        ):
            both = torch.cat([own, own - other, own * other], 2)  # (B, L, 6h)
            states, _ = words.run(cast(nn.LSTM, integrator), both, lengths)  # equation 4.9, (B, L, 2h)
            weights = attention(states).masked_fill(~mask, -torch.inf).softmax(1)  # 4.10, (B, L, 1)
            pools += [
                states.masked_fill(~mask, -torch.inf).amax(1),
                states.sum(1) / mask.sum(1),  # past the end states are zero
                (weights * states).sum(1),  # 4.11
            ]
        return torch.cat(pools, 1)


def _mask(states: Tensor, lengths: Tensor) -> Tensor:
    """(B, L, 1) bool, True at tokens."""
    places = torch.arange(states.size(1), device=states.device)
    return (places < onto(lengths, states.device).unsqueeze(1)).unsqueeze(2)


def _context(affinity: Tensor, states: Tensor, mask: Tensor) -> Tensor:
    """The states (B, n, d) as each of m tokens attends to them: (B, m, d), equations 4.7 and 4.8.

    affinity: (B, n, m), whose columns are normalised over the n tokens, padding left out.
    """
    return affinity.masked_fill(~mask, -torch.inf).softmax(1).transpose(1, 2) @ states
