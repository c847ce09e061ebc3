"""A teacher refined on two tasks and its student once more, from the seed to their answers, as docs/training.md says.

Every text is read alone, in double precision, as in test_plain_run.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import matthews_corrcoef
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, BertForSequenceClassification

from harness.data import embedded
from tests.conftest import ROOT
from tests.results import records
from tests.training.plain import EPOCHS, LAYERS, Updates, batches, permutation, ran, read, seed_of, split

TOGETHER = {"acceptability": 2, "similarity": 1}  # answers of each
Example = tuple[str, "str | None", float]


def tokens(example: Example) -> dict[str, Tensor]:
    one, two, _ = example
    ids, types = read(one), [0] * (len(one.split()) + 2)
    if two is not None:
        ids, types = ids + read(two)[1:], types + [1] * (len(two.split()) + 1)
    return {"input_ids": torch.tensor([ids]), "token_type_ids": torch.tensor([types])}


class Headed(nn.Module):
    """BERT under a linear layer on its pooled state, or under a ReLU layer on the average of its layers' first."""

    def __init__(self, model: BertForSequenceClassification, averages: bool, answers: int):
        super().__init__()
        self.bert, self.averages = model.bert, averages
        self.head: nn.Module = model.classifier
        if averages:
            self.head = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, answers))
            self.bert.pooler = None

    def forward(self, **batch: Tensor) -> Tensor:
        said = self.bert(**batch, output_hidden_states=True)
        layers = torch.stack([states[:, 0] for states in said.hidden_states[1:]])
        answer: Tensor = self.head(layers.mean(0) if self.averages else said.pooler_output)
        return answer

    @torch.no_grad()
    def answers(self, examples: list[Example]) -> Tensor:
        """(N, C), of examples of one length at once."""
        found, read_as = [torch.empty(0)] * len(examples), [tokens(example) for example in examples]
        sizes = [one["input_ids"].shape[1] for one in read_as]
        for size in set(sizes):
            places = [place for place, of in enumerate(sizes) if of == size]
            batch = {name: torch.cat([read_as[place][name] for place in places]) for name in read_as[0]}
            for place, answer in zip(places, self(**batch), strict=True):
                found[place] = answer
        return torch.stack(found)


def begun(folder: Path, whole: Mapping[str, Tensor], layers: int, seed: int) -> dict[str, Headed]:
    """Of each task a model, all around the encoder of the first. whole: its weights; the teacher has all its layers."""
    torch.manual_seed(seed_of("weights", seed))
    config, found = AutoConfig.from_pretrained(folder, num_hidden_layers=layers), dict[str, Headed]()
    for task, count in TOGETHER.items():
        config.num_labels = count
        found[task] = Headed(BertForSequenceClassification(config), layers == LAYERS, count).double()
    shared = found["acceptability"].bert
    shared.load_state_dict({n: whole.get(n, own) for n, own in shared.state_dict().items()})
    for model in found.values():
        model.bert = shared
    return found


@dataclass
class Together:
    """The examples of each task: those that are trained on, held out, and dev's."""

    run: Mapping[str, Any]
    train: dict[str, list[Example]] = field(default_factory=dict)
    held: dict[str, list[Example]] = field(default_factory=dict)
    dev: dict[str, list[Example]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for task, data in self.run["tasks"].items():
            examples, self.dev[task] = embedded.generate(task)
            trained_on, held = split(data, len(examples))
            self.train[task], self.held[task] = [examples[i] for i in trained_on], [examples[i] for i in held]

    def batches(self, epoch: int) -> list[tuple[str, list[int]]]:
        order, found = seed_of("order", self.run["seed"], 0), list[tuple[str, list[int]]]()
        for task, examples in sorted(self.train.items()):
            lengths = [tokens(example)["input_ids"].shape[1] for example in examples]
            found += [(task, batch) for batch in batches(lengths, seed_of("task", order, task), epoch)]
        return [found[i] for i in permutation(len(found), "merged", order, epoch)]

    def score(self, models: Mapping[str, Headed]) -> float:
        scores = []
        for task, examples in self.held.items():
            said, labels = models[task].answers(examples), [label for *_, label in examples]
            ranked = [measure(said[:, 0], labels).statistic for measure in (pearsonr, spearmanr)]
            scores.append(np.mean(ranked) if task == "similarity" else matthews_corrcoef(labels, said.argmax(1)))
        return float(np.mean(scores))

    def check(self, models: Mapping[str, Headed], said: Mapping[str, Tensor], record: Any, told: Any) -> None:
        """A record is what plain updates make of the models. said: what they imitate; they learn labels without."""
        updates = Updates(list(nn.ModuleDict(models).parameters()), EPOCHS * len(self.batches(0)))
        losses, scores, answers = [], [], []
        for epoch in range(EPOCHS):
            found = []
            for task, batch in self.batches(epoch):
                logits = torch.cat([models[task](**tokens(self.train[task][i])) for i in batch])
                labels = torch.tensor([self.train[task][i][2] for i in batch])
                right = said[task][batch] if said else labels[:, None]
                classes = not said and TOGETHER[task] > 1
                loss = cross_entropy(logits, labels.long()) if classes else (logits - right).square().mean()
                found.append(updates(loss))
            losses.append(np.mean(found))
            scores.append(self.score(models))
            answers.append({task: models[task].answers(examples) for task, examples in self.dev.items()})
        assert [point["loss"] for point in record["curve"]] == pytest.approx(losses, rel=1e-3)
        assert [point["selection"] for point in record["curve"]] == pytest.approx(scores, abs=0.02)
        best = answers[record["best"]["epoch"] - 1]
        probabilities, numbers = told["acceptability/probabilities"], told["similarity/predictions"]
        assert probabilities.numpy() == pytest.approx(best["acceptability"].softmax(1).numpy(), abs=2e-3)
        assert numbers.numpy() == pytest.approx(best["similarity"][:, 0].numpy(), abs=1e-2)


def test_tasks_are_trained_together_as_the_page_says(tmp_path: Path) -> None:
    """liu2020, Algorithm 1: the refined teacher, then its student."""
    out = ran(
        tmp_path, "multi_task", "--tasks", *TOGETHER, "--objectives", "mkd_transformer", "--keep", "all", "--set",
        "student.head_units=16",
    )  # fmt: skip
    kinds = [records(out, kind).popitem()[1] for kind in ("multi_task_teacher", "multi_task")]
    folders = [out / "ledger" / record["run"] for record in kinds]
    shipped = load_file(ROOT / "teachers" / "embedded.safetensors")
    refined = load_file(folders[0] / "weights" / "model.safetensors")
    weights = {name.removeprefix("pretrained.bert."): weight.float() for name, weight in shipped.items()}
    said: dict[str, Tensor] = {}
    for record, folder, layers in zip(kinds, folders, (4, LAYERS), strict=True):
        data = Together(record["specification"])
        models = begun(folders[0] / "weights", weights, layers, record["specification"]["seed"])
        data.check(models, said, record, load_file(folder / "predictions.safetensors"))
        weights = {name.removeprefix("bert."): weight for name, weight in refined.items()}
        teachers = begun(folders[0] / "weights", weights, 4, 0)
        for task, teacher in teachers.items():
            teacher.head.load_state_dict({n: refined[f"heads.{task}.classifier.{n}"] for n in ("weight", "bias")})
            said[task] = teacher.answers(data.train[task])
