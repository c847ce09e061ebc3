"""A single-layer bidirectional LSTM, siamese on pairs (liu2020, section 3.1.2; wu2020, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from harness.contracts import Batch, Hyperparameter, Outputs, Signal, Want
from harness.errors import UserError
from harness.modeling.bases import StudentConfig
from harness.registry import student
from harness.students import pairs, words


@student(
    "bilstm",
    emits={Signal.LOGITS, Signal.SENTENCE, Signal.EMBEDDINGS},
    pair_encodings=("compare",),
    hyperparameters=words.SETTINGS
    | {
        "hidden_units": Hyperparameter(150, low=1),  # of each direction
        "projection": Hyperparameter("none", choices=("none", "teacher_width")),
        "head_units": Hyperparameter(200, low=1),
    },
    head_settings=("head_units",),
    file_inits=("vectors",),
)
class BiLSTM(words.WordStudent):
    """A bidirectional LSTM whose last states are the sentence vector (liu2020, equations 3.1 and 3.2).

    With projection teacher_width, a linear layer without bias and tanh make it as wide as the teacher's (wu2020,
    section 3.1). Of a pair, `sentence` is the two vectors, (B, 2, D).
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

    def forward(self, batch: Batch, want: Want) -> Outputs:
        outputs = Outputs()
        with torch.autocast(batch.mask.device.type, enabled=False):  # an LSTM in bfloat16 is slow, or there is none
            read = [self.embedding(encoding) for encoding in batch.encodings]
            if want.embeddings:
                outputs.embeddings = self.embeddings(batch, read[0][0])
            sentences = [self.projection(words.run(self.lstm, vectors, lengths)[1]) for vectors, lengths in read]
            if want.sentence:
                outputs.sentence = sentences[0] if len(sentences) == 1 else torch.stack(sentences, 1)  # (B, 2, D)
            if want.logits:
                outputs.logits = self.head(pairs.combine(self.pair_encoding, sentences))
        return outputs
