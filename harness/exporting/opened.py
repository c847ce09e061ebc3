"""A student to be asked: `harness.load(FOLDER).predict(texts)`, from a folder of `harness export` or from a run."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    logging,
)

from harness import registry
from harness.contracts import Batch, Encoding, Task, Want
from harness.data.encoding import encode, evaluation_batches
from harness.data.own import KNOWN
from harness.data.sources import Split
from harness.errors import UserError, check_path
from harness.evaluation.metrics import predictions_of
from harness.files import JSON, trouble_with
from harness.folders import cannot_read
from harness.jobs.examples import encoding_of
from harness.modeling.bases import Student, StudentConfig, in_own_memory
from harness.modeling.signals import own_inputs
from harness.runs import JointRun, Run, TaskRun
from harness.training.joint_model import load_joint, load_joint_teacher
from harness.training.loop import not_numbers
from harness.training.workspace import Workspace, teacher_source, teacher_tokenizer

TOLD = "harness_student.json"  # beside the weights: what they answer, and how they read
FORMAT = 1
PARTS = {"format": int, "student": str, "task": dict, "pair_encoding": str, "max_length": int, "files": dict}  # of that
LATER = {"columns": list, "table": dict, "answers": list}  # which earlier versions did not write
BATCH = 64  # texts that a model reads at once
Text = str | Sequence[str]  # of a task on pairs both sentences
Prediction = dict[str, Any]  # {"label": ..., "probabilities": {label: ...}} or {"score": ...}


@dataclass
class Opened:
    """A model with all that it needs to answer texts. max_length: tokens that are read of each.

    columns: those of the user's own data that its texts were read from, none where nobody named them. table: how lines
    of columns were read there, the settings `columns` and `delimiter` where they were given. model: transformers' own
    classifier, or a `Student`, which is called otherwise (see `logits`).
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    task: Task
    pair_encoding: str
    max_length: int
    columns: tuple[str, ...] = ()
    table: Mapping[str, str] = field(default_factory=dict)

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes by name, in the order of the logits; none of a score."""
        return self.task.labels

    def predict(self, texts: Sequence[Text], batch_size: int = BATCH) -> list[Prediction]:
        """What the model says of each text, or of each pair of sentences, in their order.

        {"label": the class, "probabilities": {class: its probability}}, or {"score": number}. Raises UserError for what
        is no list of texts.
        """
        found = self.logits(texts, batch_size)
        values = predictions_of(self.task, found.numpy()) if len(found) else np.empty(0)
        if not self.labels:
            return [{"score": float(value)} for value in values]
        shares = torch.cat([found, -found], 1).sigmoid() if self.task.ranking else found.softmax(1)
        return [
            {"label": self.labels[int(value)], "probabilities": dict(zip(self.labels, of_one.tolist(), strict=True))}
            for value, of_one in zip(values, shares, strict=True)
        ]

    @torch.inference_mode()
    def logits(self, texts: Sequence[Text], batch_size: int = BATCH) -> Tensor:
        """(N, C) float32 on the CPU. Raises UserError as `predict`."""
        first, second = self._read(texts)
        if not first:
            return torch.empty(0, self.task.outputs)
        split = Split("given", first, second, np.zeros(len(first), np.int64))
        data = encode(split, self.tokenizer, self.pair_encoding, self.max_length)
        self.model.eval()
        parts, order = [], evaluation_batches(data.lengths, batch_size)
        for index in order:
            try:
                parts.append(self.of_batch(data.batch(index, self.model.device)).float().cpu())
            except FloatingPointError as error:  # see `students.products`
                raise UserError(str(error)) from error
        found = torch.empty(len(first), parts[0].shape[-1])
        found[torch.cat(order)] = torch.cat(parts)
        if wrong := not_numbers(found):
            raise UserError(f"the model's logits of {wrong} of {len(found)} texts are not finite numbers")
        return found

    def of_batch(self, batch: Batch) -> Tensor:
        """The logits (B, C) of what is encoded already."""
        if isinstance(self.model, Student):
            return self.model(batch, Want(logits=True)).logits
        return cast(Tensor, self.model(**own_inputs(self.model, batch.encodings[0])).logits)

    def probe(self, rows: int = 3, length: int = 8) -> Batch:
        """A batch of random tokens, each row one shorter than the one before."""
        words, draw = len(self.tokenizer), torch.Generator().manual_seed(0)
        mask = (torch.arange(length) < (length - torch.arange(rows)).clamp(min=1).unsqueeze(1)).long()  # (B, L)
        encodings = []
        for _ in range(1 if not self.task.pair or self.pair_encoding == "joint" else 2):
            ids = torch.randint(words, (rows, length), generator=draw)
            ids = ids.masked_fill(mask == 0, self.tokenizer.pad_token_id or 0)
            encodings.append({"input_ids": ids, "attention_mask": mask})
            if "token_type_ids" in self.tokenizer.model_input_names:
                second = self.task.pair and self.pair_encoding == "joint"  # its latter half is the second sentence
                encodings[-1]["token_type_ids"] = (torch.arange(length) >= length // 2).long() * mask * second
        return Batch(torch.arange(rows), torch.zeros(rows), tuple(map(Encoding, encodings)))

    @torch.inference_mode()
    def answers(self) -> list[list[float]]:
        """The logits of `probe`, by which it is known again; none where they are no numbers."""
        try:
            found = self.of_batch(self.probe()).float()
        except FloatingPointError:
            return []
        return found.tolist() if found.isfinite().all() else []

    def _read(self, texts: Sequence[Text]) -> tuple[list[str], list[str] | None]:
        wanted = "a pair of sentences" if self.task.pair else "a text"
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise UserError(f"predict takes a list: each of it {wanted}")
        rows = [tuple(row) if isinstance(row, (list, tuple)) else (row,) for row in texts]
        for number, row in enumerate(rows, 1):
            if len(row) != 1 + self.task.pair or not all(isinstance(text, str) for text in row):
                raise UserError(f"example {number} is not {wanted}, which {self.task.name} is asked of")
        return [row[0] for row in rows], [row[1] for row in rows] if self.task.pair else None


# ---------------------------------------------------------------- from a run


def of_run(run: Run, task: Task, workspace: Workspace) -> Opened:
    """What a run that leaves a model left in workspace.run, as it answers a task.

    Raises UserError for weights that do not fit.
    """
    part = run.part(task.name) if isinstance(run, JointRun) else cast(TaskRun, run)
    folder, source = workspace.run / "weights", teacher_source(workspace.teacher)
    quiet()
    model: PreTrainedModel
    if not part.student_name:
        model = load_joint_teacher(source, task, folder) if isinstance(run, JointRun) else source.model(task, folder)
    elif isinstance(run, JointRun):
        model = _joint_student(part.student_name, task, folder)
    else:
        model = registry.STUDENTS.get(part.student_name).from_pretrained(folder)
    own = (folder / "tokenizer.json").is_file()  # otherwise it reads as its teacher does
    reader = PreTrainedTokenizerFast.from_pretrained(folder) if own else teacher_tokenizer(workspace)
    said = KNOWN[task.name].declaration.settings if task.name in KNOWN else {}
    columns = tuple(said[name] for name in ("text", "text2") if name in said)
    table = {name: said[name] for name in ("columns", "delimiter") if name in said}
    return Opened(model.eval(), reader, task, encoding_of(part), part.settings["max_length"], columns, table)


def _joint_student(name: str, task: Task, folder: Path) -> Student:
    config = StudentConfig.from_pretrained(folder)
    config.outputs, config.pairs = task.outputs, task.pair
    with torch.random.fork_rng(devices=[]):  # its random weights are all replaced
        student: Student = registry.STUDENTS.get(name)(config)
    load_joint(student, task.name, folder)
    in_own_memory(student)
    return student


# ---------------------------------------------------------------- from a folder


def load(folder: str | Path, plugins: Sequence[str | Path] = ()) -> Opened:
    """Open what `harness export` wrote. plugins: the files of a student that is not the harness's own.

    Raises UserError for a folder that is none, or is damaged.
    """
    check_path(folder=folder)
    folder = Path(folder).expanduser()
    told = _told(folder)
    if trouble := trouble_with(folder, told["files"]):
        raise UserError(f"the exported student in {folder} is damaged: its files {trouble}; export it again")
    for path in plugins:
        registry.load_file(path)
    quiet()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model = model_in(folder, told["student"])
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError, pickle.UnpicklingError) as error:
        raise UserError(f"the exported student in {folder} cannot be loaded: {error}") from error
    task = _task(told["task"], folder)
    joint = task.pair and told["pair_encoding"] == "joint"
    if "inputs" not in told and told["student"] and joint and _tells_sentences_apart(model):
        why = "does not say which sentence of a pair a token is of"
        raise UserError(f"{folder} was written by a version of harness export that {why}; export the student again")
    columns, table = tuple(told.get("columns", ())), told.get("table", {})  # which earlier versions did not write
    opened = Opened(model.eval(), tokenizer, task, told["pair_encoding"], told["max_length"], columns, table)
    if (then := told.get("answers")) and not _close(then, opened.answers()):  # earlier versions did not write them
        raise UserError(
            f"the student in {folder} answers differently from when it was exported: the code of {told['student']} has "
            "changed; open it with the code that it was exported with, or export it again"
        )
    return opened


def _close(then: list[list[float]], now: list[list[float]]) -> bool:
    """Whether logits are the same but for what another machine or library changes."""
    ours, theirs = torch.tensor(then), torch.tensor(now)
    return ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-2, atol=1e-2)


def _told(folder: Path) -> JSON:
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: harness export writes one")
    try:
        told = json.loads((folder / TOLD).read_bytes())
    except FileNotFoundError as error:
        raise UserError(f"{folder} has no {TOLD}: harness export did not write it") from error
    except OSError as error:
        raise cannot_read(folder / TOLD, error) from error
    except (ValueError, RecursionError) as error:
        raise _damaged(folder) from error
    if not isinstance(told, dict) or not PARTS.keys() <= told.keys():
        raise _damaged(folder)
    if told["format"] != FORMAT:
        raise UserError(f"{folder} was written by another version of harness export; export the student again")
    if not all(isinstance(told.get(name, kind()), kind) for name, kind in (PARTS | LATER).items()):
        raise _damaged(folder)
    return told


def _damaged(folder: Path) -> UserError:
    return UserError(f"{folder / TOLD} is damaged; export the student again")


def _task(told: JSON, folder: Path) -> Task:
    """Raises UserError for what describes no task."""
    fields: dict[str, Any] = {name: tuple(part) if isinstance(part, list) else part for name, part in told.items()}
    try:
        task = Task(metric="", metrics=(), **fields)
    except TypeError as error:
        raise _damaged(folder) from error
    if not all(isinstance(part, tuple) for part in (task.labels, task.bins)) or type(task.pair) is not bool:
        raise _damaged(folder)
    return task


def model_in(folder: Path, student: str) -> PreTrainedModel:
    """student: the plugin that the weights belong to, "" of transformers' own model."""
    if student and student not in registry.STUDENTS.names():
        raise UserError(
            f"the student in {folder} is {student!r}, from a plugin that is not loaded: install its distribution, or "
            "give its file, to harness predict by --plugin and to harness.load as plugins=[FILE]"
        )
    if student:
        return cast(PreTrainedModel, registry.STUDENTS.get(student).from_pretrained(folder))
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False
    )
    in_own_memory(model)
    return cast(PreTrainedModel, model)


def _tells_sentences_apart(student: PreTrainedModel) -> bool:
    """Whether a student is around an encoder that reads token_type_ids, see `signals.own_inputs`."""
    return any(getattr(getattr(part, "config", None), "type_vocab_size", 0) >= 2 for part in student.children())


def quiet() -> None:
    """Silence transformers' bars and reports: what they tell is checked here."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
