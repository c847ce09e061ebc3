"""A teacher refined on several tasks, distilled into one student, which is trained on each: beside plain loops.

The loops are written from liu2020, chapter 4, and docs/training.md, in double precision; they take over first weights,
batches and which examples are held out. Scores are scikit-learn's and SciPy's, of labels as they stand in the files.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import pearsonr
from sklearn.metrics import accuracy_score
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy, linear
from transformers import BertConfig, BertForMaskedLM, BertModel, BertTokenizerFast

from harness.contracts import Batch, Outputs
from harness.data import loading
from harness.data.encoding import hold_out
from harness.data.tasks import get_task
from harness.runs import JointStudentRun, JointTeacherRun, Run, StudentRun
from harness.training.optimisation import Optimisation
from harness.training.sums import Sum
from harness.training.work import Work
from harness.training.workspace import Workspace
from tests.conftest import VOCABULARY
from tests.training.builders import a_run, ignore, settings, workspace_of

METRICS = {"sst2": "accuracy", "stsb": "pearson"}
SCORES: dict[str, Callable[[Any, Any], float]] = {
    "accuracy": accuracy_score,
    "pearson": lambda labels, found: pearsonr(labels, found).statistic,
}
FILES = {"sst2": ("SST-2", (0,), 1), "stsb": ("STS-B", (7, 8), 9)}  # texts, label
EPOCHS, RATE, DECAY, CLIP, WARMUP, LENGTH = 2, 0.003, 0.05, 0.5, 0.2, 20
SETTINGS = {
    "epochs": EPOCHS, "learning_rate": RATE, "weight_decay": DECAY, "gradient_clip": CLIP, "warmup_ratio": WARMUP,
    "max_length": LENGTH, "train_examples": 60,
}  # fmt: skip
MASKED = {"augmentation": "masking", "augmentation_copies": 1, "augmentation_probability": 0.2}
Weights = dict[str, Tensor]


@dataclass
class Seen:
    """What a run began with, and the batches, teacher's logits and losses of its updates."""

    first: Weights = field(default_factory=dict)
    steps: list[tuple[Batch, Tensor | None, float]] = field(default_factory=list)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    found, begin, loss_of = Seen(), Optimisation.__init__, Sum.forward

    def init(self: Optimisation, model: Any, *arguments: Any) -> None:
        found.first = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
        found.steps = []
        begin(self, model, *arguments)

    def forward(self: Sum, student: Outputs, teacher: Outputs, batch: Batch) -> Any:
        loss, parts = loss_of(self, student, teacher, batch)
        found.steps.append((batch, teacher.logits, float(loss.detach())))
        return loss, parts

    monkeypatch.setattr(Optimisation, "__init__", init)
    monkeypatch.setattr(Sum, "forward", forward)
    return found


@dataclass
class Plain:
    """BERT with a linear layer on its pooled state, or with two on the average of its layers' first states."""

    folder: Path
    layers: int
    averages: bool = False

    def __post_init__(self) -> None:
        config = BertConfig.from_pretrained(self.folder, num_hidden_layers=self.layers)
        self.bert = BertModel(config, add_pooling_layer=not self.averages).double()

    def __call__(self, weights: Weights, task: str, encoding: Any) -> Tensor:
        start, head = ("model.bert.", "head") if self.averages else ("bert.", "classifier")
        shared = {name.removeprefix(start): weight for name, weight in weights.items() if name.startswith(start)}
        said = functional_call(self.bert, shared, kwargs={**encoding, "output_hidden_states": True})
        own = {name.removeprefix(f"heads.{task}."): weight for name, weight in weights.items()}
        if not self.averages:
            return linear(said.pooler_output, own[f"{head}.weight"], own[f"{head}.bias"])
        average = sum(states[:, 0] for states in said.hidden_states[1:]) / self.layers
        hidden = linear(average, own[f"{head}.0.weight"], own[f"{head}.0.bias"]).relu()
        return linear(hidden, own[f"{head}.2.weight"], own[f"{head}.2.bias"])

    def trained(self, seen: Seen, imitates: bool) -> list[Weights]:
        """The weights after each epoch; each update's loss is the one that the run had."""
        weights = {name: weight.double() for name, weight in seen.first.items()}
        state = {name: (0, torch.zeros_like(w), torch.zeros_like(w)) for name, w in weights.items()}
        total, ended = len(seen.steps), []
        for step, (batch, taught, had) in enumerate(seen.steps):
            leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
            logits = self(leaves, batch.task, batch.encodings[0])
            if imitates:
                loss = (logits - taught).pow(2).mean()
            elif batch.labels.is_floating_point():
                loss = (logits[:, 0] - batch.labels).pow(2).mean()
            else:
                loss = cross_entropy(logits, batch.labels)
            assert float(loss.detach()) == pytest.approx(had, rel=1e-4, abs=1e-7)
            gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
            found = {name: g for name, g in zip(leaves, gradients, strict=True) if g is not None}
            scale = min(1.0, CLIP / (float(sum(g.pow(2).sum() for g in found.values())) ** 0.5 + 1e-6))
            warmup = int(WARMUP * total)
            rate = RATE * (step / warmup if step < warmup else (total - step) / (total - warmup))
            for name, gradient in found.items():  # the heads of the other tasks rest
                count, one, two = state[name]
                clipped = scale * gradient
                count, one, two = count + 1, 0.9 * one + 0.1 * clipped, 0.999 * two + 0.001 * clipped**2
                state[name] = count, one, two
                kept = weights[name] * (1 - rate * DECAY * (gradient.ndim > 1))
                weights[name] = kept - rate * one / (1 - 0.9**count) / ((two / (1 - 0.999**count)).sqrt() + 1e-8)
            if (step + 1) % (total // EPOCHS) == 0:
                ended.append(dict(weights))
        return ended


@dataclass
class Data:
    """The files of the tasks, and the tokenizer."""

    folder: Path
    tokenizer: Any

    def rows(self, task: str, part: str) -> tuple[list[list[str]], np.ndarray]:
        name, texts, label = FILES[task]
        rows = [line.split("\t") for line in (self.folder / name / f"{part}.tsv").read_text().splitlines()[1:]]
        labels = np.array([float(row[label]) for row in rows])
        return [[row[text] for text in texts] for row in rows], labels

    def said(self, model: Plain, weights: Weights, task: str, part: str) -> tuple[Tensor, np.ndarray]:
        """(logits, labels) of the held-out examples or of dev."""
        rows, labels = self.rows(task, "train" if part == "held" else part)
        if part == "held":
            index = hold_out(len(rows), loading.load(get_task(task), str(self.folder)).content)[1].tolist()
            rows, labels = [rows[i] for i in index], labels[index]
        texts = [list(side) for side in zip(*rows, strict=True)]
        encoding = self.tokenizer(*texts, truncation=True, max_length=LENGTH, padding=True, return_tensors="pt")
        with torch.no_grad():
            return model(weights, task, encoding), labels

    def check(self, record: Any, found: Any, model: Plain, ended: list[Weights], tasks: list[str]) -> Weights:
        """Selection, predictions and scores are those of the plain weights, the best of which are returned."""
        means = []
        for weights in ended:
            said = [(task, *self.said(model, weights, task, "held")) for task in tasks]
            means.append(np.mean([score(task, answer(task, logits), labels) for task, logits, labels in said]))
        assert [point["selection"] for point in record["curve"]] == pytest.approx(means, abs=1e-3)
        best = ended[int(np.argmax(means))]
        assert record["best"]["epoch"] == 1 + int(np.argmax(means))
        for task in tasks:
            name = f"{task}/" if len(tasks) > 1 else ""
            scores = record["by_task"][task]["metrics"] if len(tasks) > 1 else record["metrics"]
            logits, labels = self.said(model, best, task, "dev")
            assert found[f"{name}predictions"] == pytest.approx(answer(task, logits), abs=1e-4)
            if f"{name}probabilities" in found:
                assert found[f"{name}probabilities"] == pytest.approx(logits.softmax(1).numpy(), abs=1e-5)
            assert scores[METRICS[task]] == pytest.approx(score(task, found[f"{name}predictions"], labels), abs=1e-6)
        return best


def answer(task: str, logits: Tensor) -> np.ndarray:
    found = logits[:, 0] if task == "stsb" else logits.argmax(1)
    return found.numpy()


def score(task: str, found: np.ndarray, labels: np.ndarray) -> float:
    return SCORES[METRICS[task]](labels, found)


@pytest.fixture
def data(glue: Path, checkpoint: Path, tmp_path: Path) -> Data:
    folder = shutil.copytree(glue, tmp_path / "glue")
    for part in ("train", "dev"):
        rows = [line.split("\t") for line in (folder / "MRPC" / f"{part}.tsv").read_text().splitlines()[1:]]
        made = [[*"1234567", "sentence1", "sentence2", "score"]]
        for n, (same, _, _, one, whole) in enumerate(rows):
            two = " ".join(whole.split()[: 3 + n % 6])  # so that examples are not read in the order of the file
            alike = len(set(one.split()) & set(two.split()))
            made.append([*"1234567", one, two, str(3 * int(same) + alike / 4)])
        (folder / "STS-B").mkdir(exist_ok=True)
        (folder / "STS-B" / f"{part}.tsv").write_text("".join("\t".join(row) + "\n" for row in made))
    return Data(folder, BertTokenizerFast.from_pretrained(checkpoint))


@pytest.fixture
def base(checkpoint: Path, tmp_path: Path) -> Path:
    """Small random weights for the words of `checkpoint`, without dropout."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(
        vocab_size=len(VOCABULARY), max_position_embeddings=LENGTH, initializer_range=0.1, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, **sizes,
    )  # fmt: skip
    folder = tmp_path / "base"
    BertForMaskedLM(config).save_pretrained(folder)
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(checkpoint / name, folder)
    return folder


def performed(run: Run, workspace: Workspace, name: str) -> Any:
    folder = workspace.runs / name
    folder.mkdir()
    done = run.perform(Work(replace(workspace, run=folder), ignore))
    (folder / "record.json").write_text("{}")
    return done


def test_the_chain_is_what_plain_loops_make_of_its_batches(data: Data, base: Path, seen: Seen, tmp_path: Path) -> None:
    workspace = workspace_of(tmp_path, base, source=str(data.folder))
    content = {task: loading.load(get_task(task), str(data.folder)).content for task in METRICS}
    shared: dict[str, Any] = {"tasks": content, "metrics": METRICS}
    tasks = list(METRICS)

    refining = a_run(JointTeacherRun, **shared, settings=settings(**SETTINGS))
    done, teacher = performed(refining, workspace, "teacher"), Plain(base, 3)
    given = load_file(base / "model.safetensors")
    assert all(torch.equal(w, given[n]) for n, w in seen.first.items() if n in given)
    refined = data.check(*done, teacher, teacher.trained(seen, imitates=False), tasks)

    own = settings(**SETTINGS, **MASKED, **{"averaged_transformer.layers": 2, "averaged_transformer.head_units": 8})
    learning: dict[str, Any] = {"student": "averaged_transformer", "objective": "logit_mse", "init": "first"}
    run = a_run(JointStudentRun, **shared, **learning, teacher="teacher", settings=own)
    done, student = performed(run, workspace, "student"), Plain(base, 2, averages=True)
    kept = load_file(workspace.runs / "teacher" / "weights" / "model.safetensors")
    copied = {n: n.removeprefix("model.") for n in seen.first if n.startswith("model.")}
    assert copied and all(torch.equal(seen.first[ours], kept[theirs]) for ours, theirs in copied.items())
    for batch, taught, _ in seen.steps:  # of augmented texts too
        with torch.no_grad():
            assert torch.allclose(teacher(refined, batch.task, batch.encodings[0]), taught.double(), atol=1e-4)  # type: ignore[union-attr]
    data.check(*done, student, student.trained(seen, imitates=True), tasks)

    kept = load_file(workspace.runs / "student" / "weights" / "model.safetensors")
    for task in tasks:
        learning |= {"objective": "labels_only", "init": "pretrained:student", "task": task, "data": content[task]}
        run = a_run(StudentRun, **learning, metric=METRICS[task], settings=own | {"augmentation": "none"})
        done = performed(run, workspace, task)
        for name, weight in seen.first.items():
            assert torch.equal(weight, kept[f"heads.{task}.{name}" if name.startswith("head.") else name]), name
        data.check(*done, student, student.trained(seen, imitates=False), [task])
