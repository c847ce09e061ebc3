"""Runs once more, from the seed to what they answer, written from docs/training.md and the pages of the objectives.

Every text is read alone, so there is no padding to be masked; in double precision, so nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.metrics import matthews_corrcoef
from torch import Tensor, nn
from transformers import AutoConfig, BertForSequenceClassification

from harness.data import embedded
from tests.results import records
from tests.training.plain import (
    BATCH,
    EPOCHS,
    EXAMPLES,
    LAYERS,
    Updates,
    batches,
    permutation,
    ran,
    read,
    seed_of,
    split,
)

OBJECTIVES = ("vanilla_kd", "hid_cls", "hid_seq", "att_mse", "att_kl", "val_kl", "cosine")
TEMPERATURE, SOFT = 3.0, 0.7


@dataclass
class Signals:
    """What a model says of one text of n tokens: logits (C,), states (n, D), scores (H, n, n), values (H, n, d)."""

    logits: Tensor
    states: list[Tensor]
    scores: list[Tensor]
    values: list[Tensor]


class Reader:
    """A BERT that reads one text at a time."""

    def __init__(self, model: BertForSequenceClassification):
        self.model, self.found = model.double().train(), dict[Any, Tensor]()
        self.layers = model.config.num_hidden_layers
        for layer in range(self.layers):
            for name in ("query", "key", "value"):
                part = getattr(model.bert.encoder.layer[layer].attention.self, name)
                part.register_forward_hook(lambda *told, at=(name, layer): self.found.__setitem__(at, told[2][0]))

    def __call__(self, text: str) -> Signals:
        said = self.model(input_ids=torch.tensor([read(text)]), output_hidden_states=True)
        heads = {at: rows.unflatten(-1, (4, -1)).transpose(0, 1) for at, rows in self.found.items()}  # (H, n, d)
        queries, keys, values = ([heads[name, i] for i in range(self.layers)] for name in ("query", "key", "value"))
        scores = [q @ k.mT / math.sqrt(q.shape[-1]) for q, k in zip(queries, keys, strict=True)]
        return Signals(said.logits[0], [states[0] for states in said.hidden_states], scores, values)


def divergence(theirs: Tensor, ours: Tensor) -> Tensor:
    """Sum over rows of KL(softmax theirs || softmax ours), mean over heads."""
    p, q = theirs.softmax(-1), ours.softmax(-1)
    return (p * (p / q).log()).sum((1, 2)).mean()


def relation(values: Tensor) -> Tensor:
    return values @ values.mT / math.sqrt(values.shape[-1])


@dataclass
class Loss:
    """An objective of a batch. pairs: 1-based layers; maps: W_h of each."""

    name: str
    pairs: list[tuple[int, int]]
    maps: list[nn.Parameter] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.name.startswith("hid_"):
            self.maps = [nn.Parameter(torch.eye(64, dtype=torch.double)) for _ in self.pairs]

    def __call__(self, ours: list[Signals], theirs: list[Signals], labels: list[int]) -> Tensor:
        both, tokens = list(zip(ours, theirs, strict=True)), sum(len(one.states[0]) for one in ours)
        if self.name == "vanilla_kd":
            softened = [[one.logits / TEMPERATURE for one in pair] for pair in both]
            soft = [s.log_softmax(0) @ t.softmax(0) for s, t in softened]
            hard = [s.logits.log_softmax(0)[label] for s, label in zip(ours, labels, strict=True)]
            return -(SOFT * TEMPERATURE**2 * sum(soft) + (1 - SOFT) * sum(hard)) / len(both)  # type: ignore[return-value]
        if self.name == "cosine":
            vectors = [(s.states[-1][0], t.states[-1][0]) for s, t in both]
            return sum((1 - s @ t / (s.norm() * t.norm())) / 2 for s, t in vectors) / len(both)  # type: ignore[return-value]
        of_texts = [self._of(at, s, t) for at in range(len(self.pairs)) for s, t in both]
        pairs_of_tokens = sum(len(one.states[0]) ** 2 for one in ours)
        return torch.stack(of_texts).sum() / {"hid_cls": len(both), "att_mse": pairs_of_tokens}.get(self.name, tokens)

    def _of(self, at: int, s: Signals, t: Signals) -> Tensor:
        """What a text adds to the sum of a pair of layers."""
        own, other = self.pairs[at]
        if self.name == "hid_cls":
            return (s.states[own][0] @ self.maps[at].T - t.states[other][0]).square().mean()
        if self.name == "hid_seq":
            return (s.states[own] @ self.maps[at].T - t.states[other]).square().mean(1).sum()
        if self.name == "att_mse":
            return (s.scores[own - 1] - t.scores[other - 1]).square().mean(0).sum()
        if self.name == "att_kl":
            return divergence(t.scores[other - 1], s.scores[own - 1])
        return divergence(relation(t.values[other - 1]), relation(s.values[own - 1]))


def started(teacher: Reader, folder: Path, seed: int) -> Reader:
    """A student of every second layer of the teacher."""
    torch.manual_seed(seed_of("weights", seed))
    config = AutoConfig.from_pretrained(folder, num_hidden_layers=LAYERS, attn_implementation="eager")
    model, whole = BertForSequenceClassification(config).double(), teacher.model.bert
    model.bert.embeddings.load_state_dict(whole.embeddings.state_dict())
    for layer in range(LAYERS):
        model.bert.encoder.layer[layer].load_state_dict(whole.encoder.layer[2 * layer + 1].state_dict())
    return Reader(model)


def trained(student: Reader, said: list[Signals], texts: list[str], labels: list[int], loss: Loss, order: int) -> Any:
    """Yields the mean loss after each epoch of a stage."""
    updates = Updates([*student.model.parameters(), *loss.maps], EPOCHS * math.ceil(len(texts) / BATCH))
    lengths = [len(text.split()) for text in texts]
    for epoch in range(EPOCHS):
        losses = []
        for batch in batches(lengths, order, epoch):
            found = loss([student(texts[i]) for i in batch], [said[i] for i in batch], [labels[i] for i in batch])
            losses.append(updates(found))
        yield float(np.mean(losses))


@torch.no_grad()
def answers(student: Reader, texts: list[str]) -> Tensor:
    """(N, C), of texts of one length at once."""
    found, rows = torch.empty(len(texts), 2, dtype=torch.double), [read(text) for text in texts]
    for length in {len(row) for row in rows}:
        places = [place for place, row in enumerate(rows) if len(row) == length]
        found[places] = student.model(input_ids=torch.tensor([rows[place] for place in places])).logits
    return found


def of_one_task(folder: Path, objectives: Sequence[str], *settings: str) -> Path:
    return ran(
        folder, "objectives_vs_init", "--tasks", "acceptability", "--inits", "every", "--objectives", *objectives,
        "--set", f"vanilla_kd.temperature={TEMPERATURE}", f"vanilla_kd.soft_weight={SOFT}", *settings,
    )  # fmt: skip


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_one_task(tmp_path_factory.mktemp("plain"), OBJECTIVES)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_run_is_what_its_pages_say(objective: str, out: Path) -> None:
    found = {one["specification"]["objective"]: one for one in records(out, "student").values()}
    record, run = found[objective], found[objective]["specification"]
    train, dev = embedded.generate("acceptability")
    index, held = split(run["data"], len(train))
    texts, labels = [train[i][0] for i in index], [int(train[i][2]) for i in index]
    folder = out / "ledger" / run["teacher"] / "weights"
    teacher = Reader(BertForSequenceClassification.from_pretrained(folder, attn_implementation="eager"))
    student = started(teacher, folder, run["seed"])
    with torch.no_grad():
        said = [teacher(text) for text in texts]
    pairs = [(1, 2), (2, 4)]
    stages = [Loss(name, pairs) for name in dict.fromkeys((objective, "vanilla_kd"))]
    losses, scores, weights = [], [], []
    for number, loss in enumerate(stages):
        for mean in trained(student, said, texts, labels, loss, seed_of("order", run["seed"], number)):
            losses.append(mean)
            if loss is stages[-1]:
                chosen_on = answers(student, [train[i][0] for i in held]).argmax(1)
                scores.append(matthews_corrcoef([int(train[i][2]) for i in held], chosen_on))
                weights.append({name: weight.clone() for name, weight in student.model.state_dict().items()})
    assert [point["loss"] for point in record["curve"]] == pytest.approx(losses, rel=1e-3)
    assert [p["selection"] for p in record["curve"] if p["selection"] is not None] == pytest.approx(scores, abs=0.02)
    student.model.load_state_dict(weights[record["best"]["epoch"] - 1])
    told = load_file(out / "ledger" / record["run"] / "predictions.safetensors")["probabilities"]
    assert told.numpy() == pytest.approx(answers(student, [text for text, *_ in dev]).softmax(1).numpy(), abs=2e-3)


def test_folds_choose_the_epoch_of_a_training_on_all(tmp_path: Path) -> None:
    out = of_one_task(tmp_path, ["vanilla_kd"], "protocol=nested")
    ((name, record),) = records(out, "student").items()
    run, (train, dev) = record["specification"], embedded.generate("acceptability")
    index = sorted(permutation(len(train), "split", run["data"])[:EXAMPLES])
    texts, labels = [train[i][0] for i in index], [int(train[i][2]) for i in index]
    folder = out / "ledger" / run["teacher"] / "weights"
    teacher = Reader(BertForSequenceClassification.from_pretrained(folder, attn_implementation="eager"))
    with torch.no_grad():
        said = [teacher(text) for text in texts]
    by_class = sorted(permutation(EXAMPLES, "split", run["data"]), key=labels.__getitem__)

    def fitted(on: list[int]) -> Iterator[tuple[float, Reader]]:
        student, order = started(teacher, folder, run["seed"]), seed_of("order", run["seed"], 0)
        of = [said[i] for i in on], [texts[i] for i in on], [labels[i] for i in on]
        for mean in trained(student, *of, Loss("vanilla_kd", []), order):
            yield mean, student

    scores = []
    for held in (sorted(by_class[fold::5]) for fold in range(5)):
        right = [labels[i] for i in held]
        chosen_on = [texts[i] for i in held]
        left = [i for i in range(EXAMPLES) if i not in held]
        scores.append([matthews_corrcoef(right, answers(model, chosen_on).argmax(1)) for _, model in fitted(left)])
    assert record["folds"] == [pytest.approx(curve, abs=1e-6) for curve in scores]
    best = int(np.argmax(np.mean(scores, 0)))
    assert record["best"]["epoch"] == best + 1 == len(record["curve"])
    for point, (mean, model) in zip(record["curve"], fitted(list(range(EXAMPLES))), strict=False):
        assert point["loss"] == pytest.approx(mean, rel=1e-3)
        said_of_dev = answers(model, [text for text, *_ in dev]).softmax(1)
    told = load_file(out / "ledger" / name / "predictions.safetensors")["probabilities"]
    assert told.numpy() == pytest.approx(said_of_dev.numpy(), abs=2e-3)
