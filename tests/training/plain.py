"""What plain loops share: the draws and updates of a run, written from docs/training.md, and the run beside them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor, nn

from harness.data import embedded
from tests.launching import forked
from tests.results import done

EPOCHS, BATCH, RATE, DECAY, CLIP, WARMUP, EXAMPLES, LAYERS = 2, 8, 2e-3, 0.1, 0.5, 0.2, 42, 2
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
IDS = {word: i for i, word in enumerate((*SPECIAL, *embedded.vocabulary()))}


def seed_of(*parts: object) -> int:
    return int.from_bytes(sha256(json.dumps(parts, separators=(",", ":")).encode()).digest()[:8], "big") // 2


def permutation(size: int, *seed: object) -> list[int]:
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed_of(*seed))).tolist()


def split(data: str, size: int) -> tuple[list[int], list[int]]:
    """(what is trained on, what is held out)."""
    order = permutation(size, "split", data)
    left = sorted(order[size // 10 :])
    return [left[i] for i in sorted(permutation(len(left), "split", data)[:EXAMPLES])], sorted(order[: size // 10])


def batches(lengths: list[int], order: int, epoch: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed_of("batches", order, epoch))
    examples = torch.randperm(len(lengths), generator=generator).tolist()
    found = []
    for pool in (examples[i : i + 50 * BATCH] for i in range(0, len(examples), 50 * BATCH)):
        pool.sort(key=lengths.__getitem__)
        found += [pool[i : i + BATCH] for i in range(0, len(pool), BATCH)]
    return [found[i] for i in torch.randperm(len(found), generator=generator).tolist()]


def read(text: str) -> list[int]:
    return [IDS["[CLS]"], *(IDS[word] for word in text.lower().split()), IDS["[SEP]"]]


class Updates:
    """Those of a stage: AdamW at a rate that falls linearly after the warm-up. total: how many there are."""

    def __init__(self, parameters: list[nn.Parameter], total: int):
        groups = [{"params": [p for p in parameters if p.ndim > 1], "weight_decay": DECAY}]
        groups += [{"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0}]
        self.optimiser, self.parameters = torch.optim.AdamW(groups), parameters
        self.step, self.total, self.warmup = 0, total, int(WARMUP * total)

    def __call__(self, loss: Tensor) -> float:
        """What has no gradient rests. Returns the loss."""
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, CLIP)
        falling = (self.total - self.step) / (self.total - self.warmup)
        for group in self.optimiser.param_groups:
            group["lr"] = RATE * (self.step / self.warmup if self.step < self.warmup else falling)
        self.optimiser.step()
        self.step += 1
        return float(loss.detach())


def ran(folder: Path, study: str, *words: str) -> Path:
    """The results of a study with the settings of the plain loops. words: more of the command, settings last."""
    settings = {
        "epochs": EPOCHS, "batch_size": BATCH, "learning_rate": RATE, "weight_decay": DECAY, "gradient_clip": CLIP,
        "warmup_ratio": WARMUP, "train_examples": EXAMPLES, "schedule": "linear",
    }  # fmt: skip
    kinds = ("", "multi_task.", "teacher.") if study == "multi_task" else ("",)
    every = [f"{kind}{name}={value}" for kind in kinds for name, value in settings.items()]
    done(forked(
        "run", "--study", study, "--trials", "1", "--seeds", "1", "--out", folder / "out", *words, *every,
        f"student.layers={LAYERS}", folder=folder / "said",
    ))  # fmt: skip
    return folder / "out"
