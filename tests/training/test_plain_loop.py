"""A recorded run beside a plain loop over the batches that it saw, written from docs/training.md alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import layer_norm, linear

from tests.conftest import Harness

SEEN = '''
import torch
from torch import nn
from harness.contracts import LayerMap, ModelInfo, Outputs, Signal
from harness.modeling.bases import Student
from harness.registry import objective, student

BATCHES = []


@objective("seen_mse", needs={{Signal.LOGITS}}, stage="prediction")
def seen_mse(student, teacher, batch):
    BATCHES.append((batch.encodings[0]["input_ids"], batch.mask, teacher.logits))
    torch.save(BATCHES, {seen!r})
    return (student.logits - teacher.logits).pow(2).mean()


@student("seen_words", emits={{Signal.LOGITS}})
class SeenWords(Student):
    """A sum of words, a norm and a linear layer, whose first weights are always the same."""

    def __init__(self, config):
        super().__init__(config)
        self.words = nn.Embedding(config.source["vocab_size"], 8, sparse=True)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, config.outputs)
        self.post_init()

    @classmethod
    def describe(cls, settings, teacher, task):
        return ModelInfo(
            name=cls.name, layers=1, width=8, heads=0, vocabulary=teacher.vocabulary, labels=task.outputs,
            emits=cls.emits, tokenizer=teacher.tokenizer,
        )

    @classmethod
    def canonical_init(cls, init):
        return "random"

    @classmethod
    def layer_map(cls, init, student, teacher):
        return LayerMap(((1, teacher.layers),))

    def initialise(self, init, teacher, tokenizer):
        draw = torch.Generator().manual_seed(0)
        for parameter in self.parameters():
            parameter.data.copy_(torch.randn(parameter.shape, generator=draw))
        torch.save(self.state_dict(), {first!r})
        return {{}}

    def forward(self, batch, want):
        words = self.words(batch.encodings[0]["input_ids"]) * batch.mask.unsqueeze(-1)
        return Outputs(logits=self.head(self.norm(words.sum(1))) if want.logits else None)
'''
EPOCHS, RATE, DECAY, CLIP, WARMUP, EXAMPLES, BATCH = 3, 0.05, 0.1, 0.5, 0.15, 100, 16


def logits(weights: dict[str, Tensor], ids: Tensor, mask: Tensor) -> Tensor:
    summed = (weights["words.weight"][ids] * mask.unsqueeze(-1)).sum(1)
    normed = layer_norm(summed, (8,), weights["norm.weight"], weights["norm.bias"])
    return linear(normed, weights["head.weight"], weights["head.bias"])


def plain(weights: dict[str, Tensor], batches: list[tuple[Tensor, Tensor, Tensor]]) -> list[dict[str, Tensor]]:
    """The weights after each epoch."""
    weights = {name: w.double() for name, w in weights.items()}  # nothing is rounded here
    moments = {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in weights.items()}
    warmup, ended = int(WARMUP * len(batches)), []
    for step, (ids, mask, taught) in enumerate(batches):
        leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
        loss = (logits(leaves, ids, mask) - taught).pow(2).mean()
        found = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
        scale = min(1.0, CLIP / (float(sum(g.pow(2).sum() for g in found.values())) ** 0.5 + 1e-6))
        rate = RATE * (step / warmup if step < warmup else (len(batches) - step) / (len(batches) - warmup))
        for name, gradient in found.items():
            rows = ids.unique() if name == "words.weight" else torch.arange(len(weights[name]))
            first, second = moments[name]
            part = scale * gradient[rows]
            first[rows] = 0.9 * first[rows] + 0.1 * part
            second[rows] = 0.999 * second[rows] + 0.001 * part**2
            if name == "head.weight":
                weights[name] = weights[name] * (1 - rate * DECAY)
            # the table's epsilon is not corrected for the first steps
            corrected = (1 - 0.999 ** (step + 1)) ** 0.5
            size = second[rows].sqrt() / corrected + 1e-8 / (corrected if name == "words.weight" else 1.0)
            weights[name][rows] -= rate * first[rows] / (1 - 0.9 ** (step + 1)) / size
        if (step + 1) % (len(batches) // EPOCHS) == 0:
            ended.append({name: w.clone() for name, w in weights.items()})
    return ended


def test_a_run_is_what_a_plain_loop_makes_of_its_batches(tmp_path: Path, call: Harness, as_before: None) -> None:
    seen, first, plugin = tmp_path / "seen.pt", tmp_path / "first.pt", tmp_path / "seen.py"
    plugin.write_text(SEEN.format(seen=str(seen), first=str(first)))
    done = call(
        "run", "--study", "objectives_vs_init", "--plugin", plugin, "--students", "seen_words", "--inits", "random",
        "--objectives", "seen_mse", "--tasks", "acceptability", "--trials", 1, "--seeds", 1, "--keep", "all",
        "--workers", 1, "--out", tmp_path / "results", "--set", f"epochs={EPOCHS}", f"learning_rate={RATE}",
        f"weight_decay={DECAY}", f"gradient_clip={CLIP}", f"warmup_ratio={WARMUP}", f"train_examples={EXAMPLES}",
        f"batch_size={BATCH}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    batches = torch.load(seen)
    assert sorted(len(ids) for ids, *_ in batches) == [EXAMPLES % BATCH] * EPOCHS + [BATCH] * (len(batches) - EPOCHS)
    ended = plain(torch.load(first), batches)
    (record,) = (
        found | {"at": path.parent}
        for path in tmp_path.glob("results/ledger/*/record.json")
        if (found := json.loads(path.read_text())["record"])["specification"]["kind"] == "student"
    )
    scores = [point["selection"] for point in record["curve"]]
    assert record["best"]["epoch"] == 1 + scores.index(max(scores))
    kept = load_file(record["at"] / "weights" / "model.safetensors")
    for name, weight in ended[record["best"]["epoch"] - 1].items():
        assert kept[name].numpy() == pytest.approx(weight.numpy(), abs=1e-4), name
