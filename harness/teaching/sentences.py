"""What a teacher says of the sentences of a corpus; its sentence vectors are stored, once for all students."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from harness.contracts import Batch, Outputs, Want
from harness.data.encoding import evaluation_batches
from harness.runs import CorpusRun
from harness.runs.settings import Settings
from harness.teaching.cache import TeacherCache
from harness.teaching.masked import CorpusTeacher, weights_of
from harness.training.workspace import Workspace

BATCH = 64  # sentences a teacher call when its vectors are stored
STRETCH = 1000 * BATCH  # sentences whose vectors are written near each other


class SentenceTeacher(CorpusTeacher):
    """Called with (batch, want) of sentences, which it finds by their ids and reads with its own tokenizer.

    A sentence vector takes 4 D bytes on disk.
    """

    def __init__(self, run: CorpusRun, workspace: Workspace, data: Any, device: torch.device):
        """data: the sentences asked for, sorted, as the teacher reads them (general.Part)."""
        super().__init__(run, workspace, device)
        self.text, self.data = data.text, data
        self._stored: TeacherCache | None = None

    def __call__(self, batch: Batch, want: Want) -> Outputs:
        parts = [part for part in want.parts() if part[0] != "sentence"]
        self.how |= {name: "computed" for name, _ in parts}
        outputs = self._compute(self.text.batch(batch.ids, self.device), Want.of_parts(parts)) if parts else Outputs()
        if want.sentence:
            self.how["sentence"] = "stored"
            stored = self._vectors()
            outputs.sentence = stored.read(("sentence", -1), stored.rows(batch.ids.numpy()), 0, self.device)
        return outputs

    @torch.no_grad()  # not inference mode: the losses save these tensors for backward
    def _compute(self, batch: Batch, want: Want) -> Outputs:
        return self.encoder()(batch, want)

    def _vectors(self) -> TeacherCache:
        """Of all of `data`; computed by the first process that asks, while others wait."""
        if self._stored is None:
            name = [weights_of(self.run.teacher, self.workspace), self.text.corpus.key]
            self._stored = TeacherCache(self.workspace.cache / "sentences", name, self.data, self.workspace.once)
            self._stored.fill([("sentence", -1)], self._compute, self._batches(), self.device)
        return self._stored

    def _batches(self) -> Iterator[Tensor]:
        """Rows of like sentences, a stretch of them at a time."""
        for rows in torch.arange(len(self.data)).split(STRETCH):
            yield from (rows[places] for places in evaluation_batches(self.data.lengths[rows], BATCH))


def part_of(size: int, settings: Settings) -> int:
    """How many of `size` pieces the settings `pieces` and `fraction` leave to train on."""
    size = min(size, settings["pieces"] or size)
    return math.ceil(settings["fraction"] * size)
