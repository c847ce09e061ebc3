"""What a teacher says of masked text: computed batch by batch, or its k likeliest tokens stored for all students."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from harness.contracts import IGNORED, Batch, Outputs, Want
from harness.data.encoding import evaluation_batches
from harness.data.tasks import CORPUS
from harness.files import atomic_file, checksum, digest, read_sealed, write_sealed
from harness.runs import CorpusRun, Teacher, as_json, base_weights
from harness.training.loop import precision
from harness.training.place import Once, Place, alone, teacher_source
from harness.training.teacher_outputs import Encoder, weights_hash

FILES = ("tokens.i32", "logs.f32")
BATCH = 64  # pieces a teacher call when its targets are stored


def load_masked_teacher(who: Teacher | None, place: Place) -> PreTrainedModel:
    """A teacher as a masked language model: as a run left it, or its base weights."""
    return teacher_source(place.teacher, place.argument).masked_language_model(_folder(who, place))


def _folder(who: Teacher | None, place: Place) -> Path | None:
    run = who and base_weights(who)
    return place.runs / run / "weights" if run else None


def weights_of(who: Teacher, place: Place) -> str:
    """A hash of a teacher's weights: of a run's, or the content of base weights."""
    folder = _folder(who, place)
    return weights_hash(folder) if folder else str(as_json(who)["content"])


class CorpusTeacher:
    """A teacher of unlabelled text. how says of each signal that was asked: stored or computed."""

    def __init__(self, run: CorpusRun, place: Place, device: torch.device):
        self.run, self.place, self.device = run, place, device
        self.how: dict[str, str] = {}
        self._encoder: Encoder | None = None

    def encoder(self) -> Encoder:
        """The teacher's model, loaded when it is first needed."""
        if self._encoder is None:
            model = load_masked_teacher(self.run.teacher, self.place).requires_grad_(False)
            self._encoder = Encoder(model).to(self.device).eval()
        return self._encoder

    def model(self) -> PreTrainedModel:
        return self.encoder().model


class MaskedTeacher(CorpusTeacher):
    """Called with (batch, want) of pieces of the corpus."""

    def __init__(self, run: CorpusRun, place: Place, data: Any, device: torch.device):
        """data: the pieces that are trained on (general.Part)."""
        super().__init__(run, place, device)
        self.data = data
        self.vocabulary = teacher_source(place.teacher, place.argument).info(CORPUS).vocabulary
        self.divergence: float | None = None  # of what is stored for the last epoch, see StoredTargets
        self._stored: dict[int, StoredTargets] = {}  # by epoch

    def __call__(self, batch: Batch, want: Want) -> Outputs:
        number = self.run.settings["stored_top_k"]
        parts = [p for p in want.parts() if not (number and p[0] == "mlm_logits")]
        self.how |= {name: "computed" for name, _ in parts}
        outputs = self._compute(batch, Want.of_parts(parts)) if parts else Outputs()
        if number and want.mlm_logits:
            self.how["mlm_logits"] = f"stored, the {number} likeliest"
            outputs.mlm_logits = self._targets(batch.epoch, number).logits(batch.ids.cpu().numpy()).to(self.device)
        return outputs

    @torch.no_grad()  # not inference mode: the losses save these tensors for backward
    def _compute(self, batch: Batch, want: Want) -> Outputs:
        with precision(self.run.settings, self.device):
            outputs: Outputs = self.encoder()(batch, want)
        return outputs

    def _targets(self, epoch: int, number: int) -> StoredTargets:
        if epoch not in self._stored:
            name = weights_of(self.run.teacher, self.place)
            settings = self.run.settings
            index = hashlib.sha256(self.data.index.numpy().tobytes()).hexdigest()
            key = digest(
                [
                    name,
                    self.run.corpus,
                    settings["max_length"],
                    settings["mask_probability"],
                    index,
                    number,
                    *([] if settings["precision"] == "float32" else [settings["precision"]]),
                    *(["packed"] if settings["pack"] else []),
                ]
            )
            path = self.place.cache / "masked" / key[:16] / f"epoch-{epoch}"
            stored = StoredTargets(path, self.vocabulary, self.place.once)
            self.divergence = stored.fill(
                self.data, epoch, number, lambda b: self._compute(b, Want(mlm_logits=True)).mlm_logits, self.device
            )
            self._stored = {epoch: stored}
        return self._stored[epoch]


class StoredTargets:
    """The k likeliest tokens at every masked position of one epoch, with their log-probabilities.

    A position takes 8 k bytes (k int32 tokens, k float32 log-probabilities) where its whole distribution takes 4 V.
    The rest of the probability is spread evenly over the other tokens when it is read. What that loses is
    KL(p || read), in nats, whose mean over all positions is stored with them.
    """

    def __init__(self, folder: Path, vocabulary: int, once: Once = alone):
        self.folder, self.vocabulary, self._once = folder, vocabulary, once
        self._open: tuple[np.ndarray, np.ndarray, dict[int, tuple[int, int]]] | None = None

    def fill(self, data: Any, epoch: int, number: int, compute: Any, device: torch.device) -> float:
        """Store every piece of `data` unless it is there whole; returns the mean divergence.

        The first process computes, others wait.
        """
        with self._once(self.folder):
            if (known := self._whole()) is not None:
                return known
            divergence = 0.0
            pieces: list[int] = []
            counts: list[int] = []
            with atomic_file(self.folder / "tokens.i32") as tokens, atomic_file(self.folder / "logs.f32") as logs:
                for index in evaluation_batches(data.lengths, BATCH):
                    batch = data.batch(index, device, epoch)
                    whole = compute(batch).float().log_softmax(-1)  # (P, V)
                    likeliest = whole.topk(number)  # (P, k)
                    even = _spread(likeliest.values, likeliest.indices, self.vocabulary)
                    divergence += float(F.kl_div(even, whole, log_target=True, reduction="sum"))
                    tokens.write(likeliest.indices.to(torch.int32).cpu().numpy().tobytes())
                    logs.write(likeliest.values.cpu().numpy().tobytes())
                    pieces += batch.ids.tolist()
                    counts += (batch.targets != IGNORED).sum(1).tolist()
            divergence /= sum(counts)
            files = {name: checksum(self.folder / name) for name in FILES}
            index_of = {"k": number, "pieces": pieces, "counts": counts, "divergence": divergence, "files": files}
            write_sealed(self.folder / "index.json", index_of)
            return divergence

    def _whole(self) -> float | None:
        """The mean divergence, if the index is there and vouches for both files; otherwise they are made again."""
        index = read_sealed(self.folder / "index.json")
        try:
            whole = index and all(checksum(self.folder / name) == index["files"][name] for name in FILES)
        except FileNotFoundError:
            return None
        return float(index["divergence"]) if whole else None

    def logits(self, pieces: np.ndarray) -> Tensor:
        """(P, V) log-probabilities at the masked positions of these pieces, row by row."""
        tokens, logs, places = self._arrays()
        rows = np.concatenate([np.arange(*places[int(piece)]) for piece in pieces])
        return _spread(torch.from_numpy(logs[rows]), torch.from_numpy(tokens[rows]), self.vocabulary)

    def _arrays(self) -> tuple[np.ndarray, np.ndarray, dict[int, tuple[int, int]]]:
        if self._open is None:
            index = read_sealed(self.folder / "index.json")
            ends = np.cumsum(index["counts"])
            places = {
                piece: (int(end) - n, int(end))
                for piece, end, n in zip(index["pieces"], ends, index["counts"], strict=True)
            }
            shape = (int(ends[-1]), index["k"])
            tokens = np.memmap(self.folder / "tokens.i32", np.int32, "r", shape=shape)
            logs = np.memmap(self.folder / "logs.f32", np.float32, "r", shape=shape)
            self._open = (tokens, logs, places)
        return self._open


def _spread(logs: Tensor, tokens: Tensor, vocabulary: int) -> Tensor:
    """(P, V) log-probabilities of which (P, k) are known, the rest of the probability even over the other tokens."""
    rest = (1 - logs.exp().sum(-1, keepdim=True)).clamp(min=1e-9)  # (P, 1)
    even = (rest / max(vocabulary - logs.shape[-1], 1)).log()
    return even.expand(-1, vocabulary).contiguous().scatter_(1, tokens.long(), logs)
