"""What a teacher says of the sentences of a corpus; its sentence vectors are stored, once for all students."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.contracts import Batch, Outputs, Want
from harness.data.encoding import evaluation_batches
from harness.data.sentences import SentenceText
from harness.files import atomic_file, checksum, digest, read_sealed, write_sealed
from harness.runs import CorpusRun
from harness.training.masked_teacher import CorpusTeacher, weights_of
from harness.training.place import Place
from harness.training.settings import Settings

BATCH = 64  # sentences a teacher call when its vectors are stored


class SentenceTeacher(CorpusTeacher):
    """Called with (batch, want) of sentences, which it finds by their ids and reads with its own tokenizer.

    A sentence vector takes 4 D bytes on disk.
    """

    def __init__(self, run: CorpusRun, place: Place, text: SentenceText, rows: Tensor, device: torch.device):
        """text: the corpus as the teacher reads it; rows: (N,) int64 ids of the sentences asked for, sorted."""
        super().__init__(run, place, device)
        self.text, self.rows = text, rows.numpy()
        self._vectors: np.ndarray | None = None

    def __call__(self, batch: Batch, want: Want) -> Outputs:
        parts = [part for part in want.parts() if part[0] != "sentence"]
        self.how |= {name: "computed" for name, _ in parts}
        ids = batch.ids.cpu()
        outputs = self._compute(ids, Want.of_parts(parts)) if parts else Outputs()
        if want.sentence:
            self.how["sentence"] = "stored"
            vectors = self._stored()
            places = np.searchsorted(self.rows, ids.numpy())
            outputs.sentence = torch.from_numpy(vectors[places]).to(self.device)
        return outputs

    @torch.no_grad()  # not inference mode: the losses save these tensors for backward
    def _compute(self, ids: Tensor, want: Want) -> Outputs:
        return self.encoder()(self.text.batch(ids, self.device), want)

    def _stored(self) -> np.ndarray:
        """(N, D) float32, of `rows`; computed by the first process that asks, while others wait."""
        if self._vectors is None:
            asked = hashlib.sha256(self.rows.tobytes()).hexdigest()
            teacher = weights_of(self.run.teacher, self.place)
            key = digest([teacher, self.text.corpus.key, asked])
            folder = self.place.cache / "sentences" / key[:16]
            file, index = folder / "vectors.f32", folder / "index.json"
            with self.place.once(folder):
                known = read_sealed(index) if file.exists() else {}
                if not known or checksum(file) != known["sha256"]:
                    with atomic_file(file) as written:
                        width = self._write(written)
                    known = {"sha256": checksum(file), "width": width}
                    write_sealed(index, known)
            self._vectors = np.memmap(file, np.float32, "r", shape=(len(self.rows), known["width"]))
        return self._vectors

    def _write(self, file: Any) -> int:
        """Write the vectors in the order of `rows`, a stretch of like sentences at a time; returns their width."""
        stretch, width = 1000 * BATCH, 0
        for start in range(0, len(self.rows), stretch):
            ids = torch.from_numpy(self.rows[start : start + stretch])
            vectors: Tensor | None = None
            for places in evaluation_batches(self.text.lengths[ids], BATCH):
                found = self._compute(ids[places], Want(sentence=True)).sentence.float().cpu()  # (B, D)
                if vectors is None:
                    vectors = torch.empty(len(ids), found.size(1))
                vectors[places] = found
            if vectors is not None:
                width = vectors.size(1)
                file.write(vectors.numpy().tobytes())
        return width


def rows_of(*parts: Tensor) -> Tensor:
    """The ids of several sets of sentences, sorted."""
    return torch.cat(parts).sort().values


def part_of(size: int, settings: Settings) -> int:
    """How many of `size` pieces the settings `pieces` and `fraction` leave to train on."""
    size = min(size, settings["pieces"] or size)
    return math.ceil(settings["fraction"] * size)
