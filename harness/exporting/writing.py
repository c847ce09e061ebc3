"""A student as a folder in Hugging Face's format, of transformers' own kind where one answers the same."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from harness.contracts import Task
from harness.data.own import KNOWN
from harness.errors import UserError
from harness.exporting import card, onnx_graph
from harness.exporting.card import About
from harness.exporting.opened import FORMAT, TOLD, Opened, load, model_in, quiet
from harness.files import checksums, trouble_with
from harness.modeling.bases import Emitter, Student
from harness.runs import Run, RunId
from harness.training.weights import save_reader, whole_folder

CARD = "README.md"
CLOSE = 1e-5  # within which two ways to compute the same logits agree, as a share of the largest


def write(opened: Opened, folder: Path, about: About, onnx: bool = False) -> str:
    """Write a new folder, whole or not at all. Returns a sentence on its form, or "" where transformers opens it.

    onnx: with a graph beside the weights. Raises UserError where the folder cannot be written, or nothing can open it.
    """
    quiet()
    if isinstance(opened.model, Emitter):
        raise UserError(
            f"{type(opened.model).__name__} is a teacher whose answers no model of transformers computes by itself, so "
            "it cannot be exported; its students can, and of a fairseq checkpoint harness convert makes a folder"
        )
    with whole_folder(folder, new=True) as temporary:
        data = _learnt_from(opened.task, about)
        plain = _write_plain(opened, temporary, data)
        model = plain or opened.model
        if plain is None:
            _tell_labels(opened.model, opened.task, data)
            opened.model.save_pretrained(temporary)
        inputs = _write_tokenizer(opened, model, temporary)
        if onnx:
            onnx_graph.write(replace(opened, model=model), temporary / onnx_graph.NAME)
        vouched = checksums(temporary)
        told = {
            "format": FORMAT,
            "student": "" if plain is not None else opened.model.name,
            "task": {
                name: getattr(opened.task, name) for name in ("name", "label", "labels", "pair", "bins", "ranking")
            },
            "pair_encoding": opened.pair_encoding,
            "max_length": opened.max_length,
            "columns": list(opened.columns),
            "table": dict(opened.table),
            "inputs": inputs,
            "files": vouched,
            "made": about.made,
            **({} if plain is not None else {"answers": opened.answers()}),
        }
        (temporary / TOLD).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        _check_says_the_same(opened, temporary)
        size = sum(file.stat().st_size for file in temporary.glob("*.safetensors"))
        readme = card.text(about, opened, type(model).__name__, plain is not None, size)
        (temporary / CARD).write_text(readme, encoding="utf-8")
    if plain is not None:
        return ""
    return (
        f"transformers has no model that computes what {opened.model.name} does, so harness.load opens the folder, and "
        "transformers alone does not"
    )


def holds(folder: Path, run: RunId, name: str, onnx: bool) -> bool:
    """Whether the folder is what `write` wrote of this run, whole, with a card that says so."""
    try:
        told = json.loads((folder / TOLD).read_bytes())
        card_names_it = f'"{name}"' in (folder / CARD).read_text(encoding="utf-8")
        same = told["made"]["run"] == run and onnx == (onnx_graph.NAME in told["files"])
        return same and card_names_it and not trouble_with(folder, told["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _learnt_from(task: Task, about: About) -> str:
    """The content of a user's own scores, whose scale nothing else tells; "" of others."""
    made = about.made.get("specification") if task.name in KNOWN and not task.labels else None
    return Run.read(made).data_of.get(task.name, "") if made else ""


def _write_plain(opened: Opened, folder: Path, data: str) -> PreTrainedModel | None:
    """Write transformers' own classifier, and open it again; None where there is none, or it says otherwise."""
    student = opened.model
    own = student.plain() if isinstance(student, Student) else student
    if own is None:
        return None
    _tell_labels(own, opened.task, data)
    own.save_pretrained(folder)
    plain = model_in(folder, "")
    batch = opened.probe()
    with torch.inference_mode():
        theirs, ours = replace(opened, model=plain.eval()).of_batch(batch), opened.of_batch(batch)
    if theirs.shape == ours.shape and _agree(theirs, ours):
        return plain
    for file in folder.iterdir():
        file.unlink()
    return None


def _agree(theirs: torch.Tensor, ours: torch.Tensor) -> bool:
    """Whether two ways to compute logits, (N, C) each, give the same; not where some are no numbers."""
    return bool((theirs - ours).abs().max() <= CLOSE * ours.abs().max().clamp(min=1))


def _tell_labels(model: PreTrainedModel, task: Task, data: str) -> None:
    """Let the configuration say what the logits are, of which task and data, and nothing of this machine."""
    config: Any = model.config
    names = task.labels if len(task.labels) == task.outputs else tuple(map(str, task.bins)) or ("score",)
    config.id2label = dict(enumerate(names))
    config.label2id = {name: number for number, name in enumerate(names)}
    config.problem_type = "single_label_classification" if task.outputs > 1 else "regression"
    config.finetuning_task = task.name  # so that --teacher knows which task it answers
    if data or hasattr(config, "finetuning_data"):
        config.finetuning_data = data
    for one in (config, getattr(config, "source", None)):
        if isinstance(one, dict):
            one.pop("_name_or_path", None)
        elif one is not None:
            one._name_or_path = ""


def _write_tokenizer(opened: Opened, model: PreTrainedModel, folder: Path) -> list[str]:
    """Write the tokenizer. Returns what it gives the model."""
    tokenizer = copy.deepcopy(opened.tokenizer)
    tokenizer.model_max_length = opened.max_length  # longer texts were never read
    if not isinstance(model, Student) and getattr(model.config, "type_vocab_size", 2) < 2:  # see `signals.own_inputs`
        tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name != "token_type_ids"]
    save_reader(tokenizer, folder)
    return list(tokenizer.model_input_names)


def _check_says_the_same(opened: Opened, folder: Path) -> None:
    """Raise UserError where the folder does not answer texts as the model does that was written into it."""
    texts: list[Any] = opened.tokenizer.batch_decode([part["input_ids"] for part in opened.probe().encodings][0])
    texts = [(text, texts[-1]) for text in texts] if opened.task.pair else texts
    ours, theirs = opened.logits(texts), load(folder).logits(texts)
    if not _agree(theirs, ours):
        raise UserError(
            f"no folder is written: what it holds answers texts otherwise than {type(opened.model).__name__} does, by "
            f"up to {(theirs - ours).abs().max():.1g} in its logits"
        )
