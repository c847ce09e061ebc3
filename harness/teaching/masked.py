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

from harness.contracts import IGNORED, Batch, Outputs, Want, onto
from harness.data.encoding import evaluation_batches
from harness.data.store import Store
from harness.data.tasks import CORPUS
from harness.files import atomic_file, checksums
from harness.runs import CorpusRun, Teacher, as_json, base_weights
from harness.teaching.outputs import Encoder
from harness.training.loop import precision
from harness.training.workspace import Workspace, teacher_source

FILES = {"tokens.i32": np.int32, "logs.f32": np.float32}
BATCH = 64  # pieces a teacher call when its targets are stored


def load_masked_teacher(who: Teacher | None, workspace: Workspace) -> PreTrainedModel:
    """A teacher as a masked language model: as a run left it, or its base weights."""
    return teacher_source(workspace.teacher).masked_language_model(_folder(who, workspace))


def _folder(who: Teacher | None, workspace: Workspace) -> Path | None:
    run = who and base_weights(who)
    return workspace.runs / run / "weights" if run else None


def weights_of(who: Teacher, workspace: Workspace) -> Any:
    """What tells apart a teacher's weights: the checksums of a run's, the content of base weights."""
    folder = _folder(who, workspace)
    return checksums(folder) if folder else as_json(who)["content"]


class CorpusTeacher:
    """A teacher of unlabelled text. how says of each signal that was asked: stored or computed."""

    def __init__(self, run: CorpusRun, workspace: Workspace, device: torch.device):
        self.run, self.workspace, self.device = run, workspace, device
        self.how: dict[str, str] = {}
        self._encoder: Encoder | None = None

    def encoder(self) -> Encoder:
        """The teacher's model, loaded when it is first needed."""
        if self._encoder is None:
            model = load_masked_teacher(self.run.teacher, self.workspace).requires_grad_(False)
            self._encoder = Encoder(model).to(self.device).eval()
        return self._encoder

    def model(self) -> PreTrainedModel:
        return self.encoder().model


class MaskedTeacher(CorpusTeacher):
    """Called with (batch, want) of pieces of the corpus."""

    def __init__(self, run: CorpusRun, workspace: Workspace, data: Any, device: torch.device):
        """data: the pieces that are trained on (general.Part)."""
        super().__init__(run, workspace, device)
        self.data = data
        self.vocabulary = teacher_source(workspace.teacher).info(CORPUS).vocabulary
        self.divergence: float | None = None  # of what is stored for the last epoch, see StoredTargets
        self._stored: dict[int, StoredTargets] = {}  # by epoch

    def __call__(self, batch: Batch, want: Want) -> Outputs:
        number = self.run.settings["stored_top_k"]
        parts = [p for p in want.parts() if not (number and p[0] == "mlm_logits")]
        self.how |= {name: "computed" for name, _ in parts}
        outputs = self._compute(batch, Want.of_parts(parts)) if parts else Outputs()
        if number and want.mlm_logits:
            self.how["mlm_logits"] = f"stored, the {number} likeliest"
            outputs.mlm_logits = onto(self._targets(batch.epoch, number).logits(batch.ids.numpy()), self.device)
        return outputs

    @torch.no_grad()  # not inference mode: the losses save these tensors for backward
    def _compute(self, batch: Batch, want: Want) -> Outputs:
        with precision(self.run.settings, self.device):
            outputs: Outputs = self.encoder()(batch, want)
        return outputs

    def _targets(self, epoch: int, number: int) -> StoredTargets:
        if epoch not in self._stored:
            name = weights_of(self.run.teacher, self.workspace)
            settings = self.run.settings
            index = hashlib.sha256(self.data.index.numpy().tobytes()).hexdigest()
            asked = [settings[part] for part in ("max_length", "mask_probability", "precision", "pack")]
            key = [name, self.run.corpus, *asked, index, number, epoch]
            stored = StoredTargets(self.workspace.store("masked", key), self.vocabulary)
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

    def __init__(self, store: Store, vocabulary: int):
        self.store, self.vocabulary = store, vocabulary

    def fill(self, data: Any, epoch: int, number: int, compute: Any, device: torch.device) -> float:
        """Store every piece of `data` unless it is there whole; returns the mean divergence."""
        with self.store.held(*FILES) as whole:
            if not whole:
                self._write(data, epoch, number, compute, device)
        told = self.store.told
        ends = np.cumsum(told["counts"]).tolist()
        self._places = {p: (end - n, end) for p, end, n in zip(told["pieces"], ends, told["counts"], strict=True)}
        paths, shape = ((self.store.folder / name, kind) for name, kind in FILES.items()), (ends[-1], told["k"])
        self._tokens, self._logs = (np.memmap(path, kind, "r", shape=shape) for path, kind in paths)
        return float(told["divergence"])

    def _write(self, data: Any, epoch: int, number: int, compute: Any, device: torch.device) -> None:
        divergence = 0.0
        pieces: list[int] = []
        counts: list[int] = []
        paths = [self.store.folder / name for name in FILES]
        with atomic_file(paths[0]) as tokens, atomic_file(paths[1]) as logs:
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
        self.store.vouch(*FILES, k=number, pieces=pieces, counts=counts, divergence=divergence / sum(counts))

    def logits(self, pieces: np.ndarray) -> Tensor:
        """(P, V) log-probabilities at the masked positions of these pieces, row by row."""
        rows = np.concatenate([np.arange(*self._places[int(piece)]) for piece in pieces])
        return _spread(torch.from_numpy(self._logs[rows]), torch.from_numpy(self._tokens[rows]), self.vocabulary)


def _spread(logs: Tensor, tokens: Tensor, vocabulary: int) -> Tensor:
    """(P, V) log-probabilities of which (P, k) are known, the rest of the probability even over the other tokens."""
    rest = (1 - logs.exp().sum(-1, keepdim=True)).clamp(min=1e-9)  # (P, 1)
    even = (rest / max(vocabulary - logs.shape[-1], 1)).log()
    return even.expand(-1, vocabulary).contiguous().scatter_(1, tokens.long(), logs)
