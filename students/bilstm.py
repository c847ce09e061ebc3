"""A single-layer bidirectional LSTM, siamese on pairs (liu2020, section 3.1.2; wu2020, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from harness.contracts import Batch, Hyperparameter, Outputs, Signal, Want
from harness.errors import UserError
from harness.modeling.bases import StudentConfig
from harness.registry import student
from harness.students import pairs, words


@student(
    "bilstm",
    emits={Signal.LOGITS, Signal.SENTENCE, Signal.EMBEDDINGS, Signal.HIDDEN_STATES},
    pair_encodings=("compare",),
    hyperparameters=words.SETTINGS
    | {
        "hidden_units": Hyperparameter(150, low=1, says="of each direction"),
        "projection": Hyperparameter(
            "none", choices=("none", "teacher_width"), says="of the last states, to as many numbers as the teacher has"
        ),
        "head_units": Hyperparameter(200, low=1, says="of the ReLU layer before the answers"),
    },
    head_settings=("head_units",),
    file_inits=("vectors",),
)
class BiLSTM(words.WordStudent):
    """A bidirectional LSTM whose last states are the sentence vector (liu2020, equations 3.1 and 3.2).

    With projection teacher_width, a linear layer without bias and tanh make it as wide as the teacher's (wu2020,
    section 3.1). Of a pair, `sentence` is the two vectors, (B, 2, D). Of a single text the hidden states of layer 1 are
    those of its tokens, as wide, and those of layer 0 what they would be if every token stood alone.
    """

    def __init__(self, config: StudentConfig):
        super().__init__(config)
        states, units, source = 2 * self.own["hidden_units"], self.own["head_units"], config.source
        self.lstm = nn.LSTM(self.embedding.width, states // 2, batch_first=True, bidirectional=True)
        width = self.sentence_width(self.own, source.get("hidden_size") or source.get("dim") or 0)  # dim: DistilBERT's
        if not width:
            raise UserError("bilstm.projection teacher_width needs the teacher's hidden_size, which it does not tell")
        projected = self.own["projection"] == "teacher_width"
        self.projection: nn.Module = (
            nn.Sequential(nn.Linear(states, width, bias=False), nn.Tanh()) if projected else nn.Identity()
        )
        self.pair_encoding = "compare" if config.pairs else "joint"
        if config.outputs:
            features = pairs.PARTS[self.pair_encoding] * width
            self.head = nn.Sequential(nn.Linear(features, units), nn.ReLU(), nn.Linear(units, config.outputs))
        self.post_init()

    @classmethod
    def sentence_width(cls, own: Mapping[str, Any], teacher: int) -> int:
        return teacher if own["projection"] == "teacher_width" else 2 * int(own["hidden_units"])

    @classmethod
    def operations(cls, own: Mapping[str, Any]) -> int:
        return words.lstm_operations(words.CHANNELS[own["channels"]] * own["embedding_size"], own["hidden_units"])

    def forward(self, batch: Batch, want: Want) -> Outputs:
        outputs = Outputs()
        with torch.autocast(batch.mask.device.type, enabled=False):  # an LSTM in bfloat16 is slow, or there is none
            read = [self.embedding(encoding) for encoding in batch.encodings]
            if want.embeddings:
                outputs.embeddings = self.at_tokens(batch, read[0][0])
            states = [words.run(self.lstm, *one) for one in read]
            sentences = [self.projection(last) for _, last in states]
            if want.hidden_states:
                outputs.hidden_states = self._states(batch, want, read[0][0], states[0][0])
            if want.sentence:
                outputs.sentence = sentences[0] if len(sentences) == 1 else torch.stack(sentences, 1)  # (B, 2, D)
            if want.logits:
                outputs.logits = self.head(pairs.combine(self.pair_encoding, sentences))
        return outputs

    def _states(self, batch: Batch, want: Want, vectors: Tensor, states: Tensor) -> dict[int, Tensor]:
        """Layer -> (B, L, D), zero at padding, of word vectors (B, l, W) and the states of the LSTM (B, l, 2h)."""
        found = {1: states}
        if 0 in want.hidden_states:
            each = vectors.flatten(0, 1).unsqueeze(1)  # (B * l, 1, W)
            found[0] = words.run(self.lstm, each, torch.ones(len(each), dtype=torch.long))[1].view_as(states)
        return {layer: self.at_tokens(batch, self.projection(found[layer])) for layer in sorted(want.hidden_states)}
