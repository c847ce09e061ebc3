"""What a worker does with a run specification: pre-train a teacher, fine-tune it, or train a student.

A job gets the specification (what the run is), and a place (where things are: folders, data source, teacher argument,
plugins), which never enters the run's identity. It returns the record and the per-example dev predictions.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from torch import Tensor, nn
from transformers import PreTrainedModel

from harness import registry
from harness.contracts import Batch, LayerMap, Outputs, Signal, Task, Want
from harness.data import sources
from harness.data.encoding import Encoded, encode, hold_out, subset_index, tokenizer_fingerprint
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.evaluation.metrics import predictions_of, score
from harness.ledger import derive_seed, sync_folder
from harness.modeling import combine, signals
from harness.modeling.bases import StudentConfig
from harness.training.code_versions import code_versions
from harness.training.loop import Clock, Stage, Tell, predict, train
from harness.training.place import Place
from harness.training.teacher_cache import TeacherCache

PREDICTION = "vanilla_kd"
TEACHER_BATCH = 32
Predictions = dict[str, np.ndarray]


def perform(specification: Mapping[str, Any], place: Place, tell: Tell) -> tuple[dict[str, Any], Predictions | None]:
    """Do one run. Returns (record, predictions: ids, predictions and labels of the dev split, (N,) each, or None).

    Raises UserError where data or teacher cannot be read, TrainingFailure where the loss is not finite.
    """
    for path in place.plugins:
        registry.load_file(path)
    settings = specification["settings"]
    torch.set_num_threads(settings.get("threads", 1))
    clock, began = Clock(), time.perf_counter()
    _reset_peak_memory()
    job = {"pretraining": _pretraining, "teacher": _teacher, "student": _student}[specification["kind"]]
    record, predictions = job(specification, place, clock, tell)
    record |= {
        "status": "finished", "specification": dict(specification), "seconds": time.perf_counter() - began,
        "model_seconds": clock.seconds, "peak_memory_mib": _peak_memory(), "device": str(device_of().type),
        "versions": _versions(), "code": code_versions(specification),
    }
    return record, predictions


@functools.lru_cache(maxsize=1)
def device_of() -> torch.device:
    """The device that accelerate gives this process."""
    device: torch.device = PartialState().device
    return device


class Encoder(nn.Module):
    """A Hugging Face model that answers to (batch, want). `exact`: every signal has the same bits whatever is asked."""

    def __init__(self, model: PreTrainedModel, exact: bool = False):
        super().__init__()
        signals.prepare(model)
        self.model = model
        self.exact = exact

    def forward(self, batch: Batch, want: Want) -> Outputs:
        return signals.emit(self.model, batch.encodings[0], want, exact=self.exact)


# ---------------------------------------------------------------- data


@dataclass(frozen=True)
class Examples:
    """Encoded splits of one task: train, what epochs are selected on, and the dev splits that are reported."""

    train: Encoded
    selection: Encoded
    dev: tuple[Encoded, ...]


@functools.lru_cache(maxsize=4)
def _loaded(task: str, source: str, content: str) -> sources.TaskData:
    data = sources.load(get_task(task), source)
    if data.content != content:
        raise UserError(f"the data of {task} in {source} changed since the study was planned; give the same command again")
    return data


@functools.lru_cache(maxsize=8)
def _encoded(task: str, source: str, content: str, teacher: str, argument: str, pair_encoding: str, max_length: int
             ) -> tuple[Encoded, ...]:
    """(train, *dev) as the teacher's tokenizer reads them."""
    data, tokenizer = _loaded(task, source, content), _source(teacher, argument).tokenizer()
    return tuple(encode(split, tokenizer, pair_encoding, max_length) for split in (data.train, *data.dev))


def _examples(specification: Mapping[str, Any], place: Place) -> Examples:
    settings, content = specification["settings"], specification["data"]
    train, *dev = _encoded(specification["task"], place.source, content, place.teacher, place.argument,
                           specification.get("pair_encoding", "joint"), settings["max_length"])
    index, held_out = hold_out(len(train), content)
    if settings["protocol"] == "published":
        index, selection = torch.arange(len(train)), dev[0]
    else:
        selection = train.subset(held_out)
    if settings["train_examples"] and specification["kind"] == "student":
        index = subset_index(index, settings["train_examples"], content)
    chosen = train.subset(index)
    chosen.ids = torch.arange(len(chosen))  # what Objective.prepare and the training batches agree on
    return Examples(chosen, selection, tuple(dev))


@functools.lru_cache(maxsize=2)
def _source(teacher: str, argument: str) -> Any:
    return registry.TEACHERS.get(teacher)(argument)


# ---------------------------------------------------------------- jobs


def _pretraining(specification: Mapping[str, Any], place: Place, clock: Clock, tell: Tell
                 ) -> tuple[dict[str, Any], None]:
    from harness.training.pretraining import pretrain

    torch.manual_seed(derive_seed("weights", specification["seed"]))
    source = _source(place.teacher, place.argument)
    model, record = pretrain(source, specification["settings"], specification["seed"], device_of(), clock, tell)
    _save(model, place.run / "weights")
    return record, None


def _teacher(specification: Mapping[str, Any], place: Place, clock: Clock, tell: Tell
             ) -> tuple[dict[str, Any], Predictions]:
    task, settings, device = get_task(specification["task"]), specification["settings"], device_of()
    examples = _examples(specification, place)
    pretrained = specification["teacher"].get("pretrained")
    torch.manual_seed(derive_seed("weights", specification["seed"]))
    model = _source(place.teacher, place.argument).model(task, place.runs / pretrained / "weights" if pretrained else None)
    encoder = Encoder(model).to(device)
    record: dict[str, Any] = {"curve": []}
    if not specification.get("evaluate_only"):
        info = _source(place.teacher, place.argument).info(task)
        objective = combine.Sum(combine.parse("labels_only"), info, info, LayerMap(()), {})
        stage = Stage("fine_tuning", objective, (Want(logits=True), Want()), settings["epochs"], selects=True)
        history = train(encoder, [stage], examples.train, lambda batch, want: Outputs(), settings, specification["seed"],
                        device, _selector(task, specification, examples, device, clock), place.run / "checkpoint.pt", clock,
                        lambda scores: False, tell)
        record |= {"curve": history.curve, "best": history.best}
    scores, predictions = _evaluate(encoder, task, examples, device, clock)
    _save(model, place.run / "weights")
    return record | scores | {"selection": scores["metrics"][specification["metric"]]}, predictions


def _student(specification: Mapping[str, Any], place: Place, clock: Clock, tell: Tell
             ) -> tuple[dict[str, Any], Predictions]:
    task, settings, device = get_task(specification["task"]), specification["settings"], device_of()
    examples = _examples(specification, place)
    teacher = TeacherOutputs(specification, place, examples.train, device)
    plugin = registry.STUDENTS.get(specification["student"])
    info = _source(place.teacher, place.argument).info(task)
    own = {name: settings[f"{plugin.name}.{name}"] for name in plugin.hyperparameters}
    described = plugin.describe(own, info, task)
    layers = plugin.layer_map(specification["init"], described, info)
    torch.manual_seed(derive_seed("weights", specification["seed"]))
    student: Any = plugin(StudentConfig(student=plugin.name, settings=own, source=teacher.config(), outputs=task.outputs))
    student.initialise(specification["init"], teacher.model())
    student.to(device)

    def stage(name: str, expression: str, epochs: int, selects: bool) -> Stage:
        objective = combine.Sum(combine.parse(expression), described, info, layers, settings)
        objective.prepare(examples.train.labels, len(examples.train))
        return Stage(name, objective, objective.wants(), epochs, selects)

    epochs, expression = settings["epochs"], specification["objective"]
    stages = [stage("prediction", expression, epochs, True)]
    if specification["procedure"] == "two_stage" and combine.stage(combine.parse(expression)) == "intermediate":
        stages = [stage("intermediate", expression, epochs, False), stage("prediction", PREDICTION, epochs, True)]
    history = train(student, stages, examples.train, teacher, settings, specification["seed"], device,
                    _selector(task, specification, examples, device, clock), place.run / "checkpoint.pt", clock,
                    _pruner(settings["pruner"], specification.get("before", [])), tell)
    scores, predictions = _evaluate(student, task, examples, device, clock)
    parameters = sum(p.numel() for p in student.parameters())
    embedded = sum(p.numel() for m in student.modules() if isinstance(m, nn.Embedding) for p in m.parameters())
    return scores | {
        "curve": history.curve, "best": history.best, "selection": history.best["selection"], "pruned": history.pruned,
        "parameters": parameters, "parameters_without_embeddings": parameters - embedded, "teacher_cache": teacher.how,
    }, predictions


class TeacherOutputs:
    """What the teacher says of a training batch: read from the cache, or computed when a signal is too wide for it."""

    def __init__(self, specification: Mapping[str, Any], place: Place, train: Encoded, device: torch.device):
        self.folder = place.runs / specification["teacher"] / "weights"
        self.task, self.place, self.train, self.device = get_task(specification["task"]), place, train, device
        settings = specification["settings"]
        self.gib = settings["cache_gib"]
        self.cache = _cache(place.cache, specification["teacher"], _weights_hash(self.folder), place.teacher, place.argument,
                            settings["max_length"], train.keys.tobytes(), train)
        self.rows = self.cache.rows(train.keys)
        self.how: dict[str, str] = {}
        union = Want.of_parts(place.outputs.get(specification["task"], ()))
        self.cache.fill([p for p in union.parts() if self._stored(p)], self._compute, TEACHER_BATCH, device)

    def model(self) -> PreTrainedModel:
        """The teacher's model, loaded once a process."""
        return _teacher_model(self.place.teacher, self.place.argument, self.task.name, self.folder, self.device).model

    def config(self) -> dict[str, Any]:
        """The teacher's Hugging Face configuration."""
        return dict(self.model().config.to_dict())

    def _stored(self, part: tuple[str, int]) -> bool:
        info = _source(self.place.teacher, self.place.argument).info(self.task)
        per_token = {Signal.HIDDEN_STATES: (info.width,), Signal.VALUES: (info.width,), Signal.MLM_LOGITS: (info.vocabulary,),
                     Signal.ATTENTION_SCORES: (info.heads,)}.get(Signal(part[0]), (1,))
        return self.cache.fits(part, per_token, self.gib)

    @torch.no_grad()  # not inference mode: the losses save these tensors for backward
    def _compute(self, batch: Batch, want: Want) -> Outputs:
        teacher = _teacher_model(self.place.teacher, self.place.argument, self.task.name, self.folder, self.device)
        return teacher(batch, want)

    def __call__(self, batch: Batch, want: Want) -> Outputs:
        stored = [p for p in want.parts() if self._stored(p)]
        computed = [p for p in want.parts() if p not in stored]
        self.how |= {p[0]: "stored" for p in stored} | {p[0]: "computed" for p in computed}
        outputs = self._compute(batch, Want.of_parts(computed)) if computed else Outputs()
        rows = self.rows[batch.ids.cpu().numpy()]
        length = batch.encodings[0]["attention_mask"].shape[1]
        for name, layer in stored:
            signal = self.cache.read((name, layer), rows, length).to(self.device)
            if layer < 0:
                setattr(outputs, name, signal)
            else:
                getattr(outputs, name)[layer] = signal
        return outputs


@functools.lru_cache(maxsize=4)
def _teacher_model(teacher: str, argument: str, task: str, folder: Path, device: torch.device) -> Encoder:
    model = _source(teacher, argument).model(get_task(task), folder)
    return Encoder(model.requires_grad_(False), exact=True).to(device).eval()


_CACHES: dict[Any, TeacherCache] = {}


def _cache(folder: Path, run: str, weights: str, teacher: str, argument: str, max_length: int, keys: bytes, train: Encoded
           ) -> TeacherCache:
    """One TeacherCache a process and set of examples, so that files are verified and opened once."""
    key = (folder, weights, max_length, keys)
    if key not in _CACHES:
        fingerprint = tokenizer_fingerprint(_source(teacher, argument).tokenizer())
        _CACHES[key] = TeacherCache(folder, weights, fingerprint, max_length, train)
    return _CACHES[key]


# ---------------------------------------------------------------- scores


def _selector(task: Task, specification: Mapping[str, Any], examples: Examples, device: torch.device, clock: Clock
              ) -> Callable[[nn.Module], float]:
    def select(model: nn.Module) -> float:
        logits = predict(model, examples.selection, TEACHER_BATCH * 2, device, clock)
        return _scores(task, logits, examples.selection)[specification["metric"]]

    return select


def _scores(task: Task, logits: Tensor, data: Encoded) -> dict[str, float]:
    return score(task, predictions_of(task, logits.numpy()), data.labels.numpy())


def _evaluate(model: nn.Module, task: Task, examples: Examples, device: torch.device, clock: Clock
              ) -> tuple[dict[str, Any], Predictions]:
    """Metrics on every dev split, the speed of encoding the first, and its predictions."""
    metrics: dict[str, float] = {}
    for name, data in reversed(list(zip(task.dev_splits, examples.dev, strict=True))):
        own = Clock()
        logits = predict(model, data, TEACHER_BATCH * 2, device, own)
        clock.seconds += own.seconds
        prefix = "" if name == task.dev_splits[0] else name.removeprefix("dev_") + "_"
        metrics |= {prefix + metric: value for metric, value in _scores(task, logits, data).items()}
    first = examples.dev[0]
    predictions = {"ids": first.ids.numpy(), "predictions": np.asarray(predictions_of(task, logits.numpy())),
                   "labels": first.labels.numpy()}
    return {"metrics": metrics, "examples_per_second": len(first) / own.seconds}, predictions


def _pruner(name: str, before: Sequence[Sequence[float]]) -> Callable[[list[float]], bool]:
    """Optuna's median pruner over the selection curves of the cell's earlier trials, which the specification carries."""
    if name == "none" or not before:
        return lambda scores: False
    import optuna

    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner(n_startup_trials=1))
    for curve in before:
        study.add_trial(optuna.trial.create_trial(value=max(curve), intermediate_values=dict(enumerate(curve))))
    trial = study.ask()

    def should_prune(scores: list[float]) -> bool:
        trial.report(scores[-1], len(scores) - 1)
        return trial.should_prune()

    return should_prune


# ---------------------------------------------------------------- what a run leaves


def _save(model: PreTrainedModel, folder: Path) -> None:
    """Write weights as a folder that is there whole or not at all."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    model.save_pretrained(temporary)
    for path in temporary.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    if folder.exists():  # left by a run that was killed before its record was written: the same weights
        import shutil

        shutil.rmtree(folder)
    os.replace(temporary, folder)
    sync_folder(folder.parent)


@functools.lru_cache(maxsize=16)
def _weights_hash(folder: Path) -> str:
    """SHA-256 of the weight files in a folder."""
    import hashlib

    checksum = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        checksum.update(path.read_bytes())
    return checksum.hexdigest()


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("torch", "transformers", "numpy")} | {"python": sys.version.split()[0]}


def _reset_peak_memory() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return  # not Linux: the peak is then that of the worker's whole life


def _peak_memory() -> float:
    """Largest resident memory of this process in MiB since the last reset; of the accelerator where there is one."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024
