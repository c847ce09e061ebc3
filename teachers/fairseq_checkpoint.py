"""Reads a folder with a fairseq RoBERTa checkpoint as data: nothing in it runs, and fairseq is not needed.

The checkpoint is what fairseq's trainer writes: `model` with the weights, and the arguments either as `args`, an
argparse.Namespace (until 0.9), or as `cfg`, a dictionary or omegaconf's DictConfig whose part `model` has them.
"""

from __future__ import annotations

import argparse
import collections
import pickle
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch
from torch import Tensor
from transformers import RobertaConfig

from harness.contracts import Task
from harness.errors import UserError, alike
from harness.modeling.gpt2_bpe import dictionary
from harness.teachers.fairseq_weights import ENCODER, HEADS, MASKED_HEAD, expected_shapes, head_shapes, renamed
from harness.teachers.loading import for_task
from harness.teachers.weight_files import check_unpacked

CHECKPOINTS = ("model.pt", "checkpoint_best.pt", "checkpoint.pt", "checkpoint_last.pt")
DICTIONARY = "dict.txt"
LABELS = "label/dict.txt"
BPE = ("encoder.json", "vocab.bpe")

PAD = 1  # in every dictionary of fairseq
VERSION = "version"  # a buffer of fairseq's encoder that says how old its names are

# What transformers' RoBERTa does not leave open. fairseq writes down what was not the default of its time.
FIXED: Mapping[str, Any] = {
    "activation_fn": "gelu",
    "pooler_activation_fn": "tanh",
    "encoder_normalize_before": False,
    "layernorm_embedding": True,
    "no_scale_embedding": True,
    "encoder_learned_pos": True,
    "no_token_positional_embeddings": False,
    "adaptive_input": False,
    "quant_noise_pq": 0,
    "encoder_layers_to_keep": None,
}
DEFAULTS: Mapping[str, Any] = {
    "encoder_layers": 12,
    "encoder_embed_dim": 768,
    "encoder_ffn_embed_dim": 3072,
    "encoder_attention_heads": 12,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "activation_dropout": 0.0,
    "pooler_dropout": 0.0,
    "untie_weights_roberta": False,
}


class Checkpoint:
    """A fairseq folder: the first of `CHECKPOINTS` that is there, its dictionaries and BPE files.

    Constructing reads the arguments, the weights' names and shapes and the dictionary. Raises UserError for a folder
    or file that is missing or broken, one that holds more than data, another architecture, and weights that are missing
    or do not fit the arguments or the dictionary.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.file = _file_in(folder)
        raw = _read(self.file, shapes_only=True)
        self.recorded = _settings(raw, self.file)
        self.settings = _architecture(self.recorded, self.file)
        found = renamed(_weights(raw, self.file))
        self.symbols = (*dictionary(folder / DICTIONARY), "<mask>")
        self.shapes = {name: tuple(tensor.shape) for name, tensor in found.items()}
        self.masked = any(name.startswith(MASKED_HEAD) for name in self.shapes)
        self._check_shapes()

    @property
    def files(self) -> list[Path]:
        """Everything that the teacher is made of."""
        labels = self.folder / LABELS
        return [
            self.file,
            *(self.folder / name for name in (DICTIONARY, *BPE)),
            *([labels] if labels.is_file() else []),
        ]

    @property
    def config(self) -> RobertaConfig:
        """The configuration of transformers' RoBERTa of the same architecture."""
        of = self.settings
        return RobertaConfig(
            architectures=["RobertaForMaskedLM" if self.masked else "RobertaModel"],
            vocab_size=len(self.symbols),
            hidden_size=of["encoder_embed_dim"],
            num_hidden_layers=of["encoder_layers"],
            num_attention_heads=of["encoder_attention_heads"],
            intermediate_size=of["encoder_ffn_embed_dim"],
            hidden_act="gelu",
            hidden_dropout_prob=of["dropout"],
            attention_probs_dropout_prob=of["attention_dropout"],
            classifier_dropout=of["pooler_dropout"],
            max_position_embeddings=self.positions + PAD + 1,
            type_vocab_size=1,
            layer_norm_eps=1e-5,
            bos_token_id=0,
            pad_token_id=PAD,
            eos_token_id=2,
            tie_word_embeddings=not of["untie_weights_roberta"],
        )

    def config_for(self, task: Task) -> RobertaConfig:
        """The same of a sequence classifier, with the task on record, so that it is known to answer it."""
        config = for_task(self.config, task)
        config.architectures = ["RobertaForSequenceClassification"]
        return config

    @property
    def positions(self) -> int:
        """The number of tokens that the model can read at once; fairseq leaves the rows up to padding's id unused."""
        return self.shapes[f"{ENCODER}embed_positions.weight"][0] - PAD - 1

    def weights(self) -> dict[str, Tensor]:
        """The weights in float32 under the names that the file has, classification heads included."""
        raw = _weights(_read(self.file), self.file)
        return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in raw.items()}

    def head(self, task: Task) -> str:
        """The name of the classification head that answers this very task, or "".

        It is called like the task, or the checkpoint records that it was trained on the task's folder ("RTE-bin"); it
        has as many outputs, and the label dictionary names the task's classes. A head of another form than RoBERTa's
        own (of another inner width, or spectrally normalised) answers nothing.
        """
        if task.corpus or (task.classification and self._label_order(task) is None):
            return ""
        width, fitting = self.settings["encoder_embed_dim"], []
        for name in sorted({name.split(".")[1] for name in self.shapes if name.startswith(HEADS)}):
            prefix = f"{HEADS}{name}."
            form = {key[len(prefix) :]: shape for key, shape in self.shapes.items() if key.startswith(prefix)}
            if form == head_shapes(width, task.outputs):
                fitting.append(name)
        for name in fitting:
            if _plain(name) == _plain(task.name):
                return name
        trained = re.sub(r"-bin$", "", Path(str(self.recorded.get("data") or "").split(":")[0]).name)
        if trained and _plain(trained) in (_plain(task.name), _plain(task.folder)):
            recorded = self.recorded.get("classification_head_name")
            return recorded if recorded in fitting else fitting[0] if len(fitting) == 1 else ""
        return ""

    def head_weights(self, task: Task, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The head that answers the task, as `dense.weight` and so on: its outputs in the order of the task's labels.

        fairseq trains STS-B on scores divided by 5, the harness on the scores themselves: the last layer, which is
        linear, is multiplied by 5.
        """
        prefix = f"{HEADS}{self.head(task)}."
        found = {name[len(prefix) :]: tensor for name, tensor in weights.items() if name.startswith(prefix)}
        order = self._label_order(task)
        for name in ("out_proj.weight", "out_proj.bias"):
            if order is not None:
                found[name] = found[name][order]
            elif task.folder == "STS-B":
                found[name] = found[name] * 5
        return found

    @cached_property
    def labels(self) -> list[str]:
        """The class names in fairseq's order; none without a label dictionary."""
        if not (self.folder / LABELS).is_file():
            return []
        symbols = dictionary(self.folder / LABELS)[4:]  # after <s> <pad> </s> <unk>
        return [symbol for symbol in symbols if not re.fullmatch(r"madeupword\d+", symbol)]

    def _label_order(self, task: Task) -> list[int] | None:
        """For each of the task's labels the output it has in fairseq; None where the labels are not the task's."""
        if not task.labels or task.ranking or sorted(self.labels) != sorted(task.labels):
            return None
        return [self.labels.index(label) for label in task.labels]

    def _check_shapes(self) -> None:
        if not any(name.startswith(ENCODER) for name in self.shapes):
            kind = self.recorded.get("arch") or self.recorded.get("_name") or "another architecture"
            raise UserError(f"{self.file} holds {kind}, not a RoBERTa: teacher fairseq reads RoBERTa checkpoints only")
        expected = expected_shapes(self.settings, len(self.symbols), self.masked)
        rows, vocabulary = f"{ENCODER}embed_positions.weight", f"{ENCODER}embed_tokens.weight"
        found = {name: shape for name, shape in self.shapes.items() if not name.startswith(HEADS)}
        found.pop(ENCODER + VERSION, None)
        missing, extra = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise UserError(f"{self.file} lacks the weights {', '.join(missing[:3])}{more}")
        if extra:
            raise UserError(f"{self.file} holds the weight {extra[0]}, for which RoBERTa has no place")
        if len(found[vocabulary]) == 2 and found[vocabulary][0] != len(self.symbols):
            raise UserError(
                f"{self.folder / DICTIONARY} gives {len(self.symbols)} symbols with <mask>, but the checkpoint has "
                f"{found[vocabulary][0]} word embeddings: they do not belong together"
            )
        for name, shape in expected.items():
            here = found[name]
            if len(here) != len(shape) or here[name == rows :] != shape[name == rows :]:
                raise UserError(f"weight {name} in {self.file} has shape {here}, but its arguments ask for {shape}")
        if self.positions < 1:
            raise UserError(f"{self.file} has {found[rows][0]} rows of positions, too few for a single token")


def _plain(name: str) -> str:
    """A name without what is spelled differently: "SST-2" and "sst_2" are both "sst2"."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


# ---------------------------------------------------------------- reading


class _Node:
    """Stands in for the classes of omegaconf, none of which is made: keeps what was stored, and does nothing."""


_OMEGACONF = (
    *("dictconfig.DictConfig", "listconfig.ListConfig", "base.ContainerMetadata", "base.Metadata"),
    *(f"nodes.{kind}Node" for kind in ("Any", "String", "Integer", "Float", "Boolean")),
)
_HARMLESS: list[Any] = [
    (argparse.Namespace, "argparse.Namespace"),
    (collections.defaultdict, "collections.defaultdict"),
    (_Node, "typing.Any"),
    *((kind, f"builtins.{kind.__name__}") for kind in (dict, list, int, float, str, bool)),
    *((_Node, f"omegaconf.{name}") for name in _OMEGACONF),
]


def _file_in(folder: Path) -> Path:
    """The checkpoint in a folder. Raises UserError if the folder or one of its files is missing."""
    if not folder.is_dir():
        raise UserError(f"teacher folder {folder} does not exist or is not a folder{alike(folder, folders=True)}")
    found = [folder / name for name in CHECKPOINTS if (folder / name).is_file()]
    if not found:
        raise UserError(f"teacher folder {folder} has no checkpoint: none of {', '.join(CHECKPOINTS)} is there")
    for name in (DICTIONARY, *BPE):
        if not (folder / name).is_file():
            raise UserError(
                f"teacher folder {folder} has no {name}; a fairseq RoBERTa needs {', '.join((DICTIONARY, *BPE))}"
            )
    return found[0]


def _read(file: Path, shapes_only: bool = False) -> dict[str, Any]:
    """What the checkpoint holds, tensors on the CPU; with shapes_only no weight need be read.

    Raises UserError for a file that is not whole, or names anything but data: it is then not opened.
    """
    try:
        with torch.serialization.safe_globals(_HARMLESS):
            zipped = is_zipfile(file)
            if zipped:
                check_unpacked(file)
            named = torch.serialization.get_unsafe_globals_in_checkpoint(str(file)) if zipped else []
            if named:
                raise _unsafe(file, named[0])
            # Only zipped files can be mapped into memory; of one as torch wrote it before 2020 all must be read.
            place = "meta" if shapes_only and not zipped else "cpu"
            raw = torch.load(file, map_location=place, weights_only=True, mmap=zipped)
    except UserError:
        raise
    except Exception as error:  # a broken pickle raises anything
        named_in = re.search(r"GLOBAL ([\w.]+)", str(error)) if isinstance(error, pickle.UnpicklingError) else None
        if named_in:
            raise _unsafe(file, named_in[1]) from error
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{file} is not a complete fairseq checkpoint: {line}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("model"), dict):
        raise UserError(f"{file} is not a fairseq checkpoint: it has no weights under 'model'")
    return raw


def _unsafe(file: Path, name: str) -> UserError:
    return UserError(f"{file} holds more than data ({name}), which could run code, so it is not opened")


def _weights(raw: Mapping[str, Any], file: Path) -> dict[str, Tensor]:
    weights: dict[Any, Any] = raw["model"]
    for name, tensor in weights.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise UserError(f"{file} is not a fairseq checkpoint: its weight {name!r} is not a tensor")
    return dict(weights)


def _settings(raw: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """The arguments that the checkpoint records, those of the model before those of the task."""
    recorded = raw.get("cfg") if raw.get("cfg") is not None else raw.get("args")
    settings = _as_data(recorded)
    if isinstance(settings, dict) and raw.get("cfg") is not None:
        parts = [settings.get(part) for part in ("task", "criterion", "model")]
        settings = {name: value for part in parts if isinstance(part, dict) for name, value in part.items()}
    if not isinstance(settings, dict) or not settings:
        raise UserError(f"{file} is not a fairseq checkpoint: it records no arguments, neither as args nor as cfg")
    return settings


def _as_data(value: Any) -> Any:
    """Namespaces and omegaconf's nodes as dictionaries, lists and plain values."""
    if isinstance(value, _Node):
        stored = vars(value)
        return _as_data(stored["_content"] if "_content" in stored else stored.get("_val"))
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, dict):
        return {name: _as_data(part) for name, part in value.items()}
    return [_as_data(part) for part in value] if isinstance(value, list) else value


def _architecture(recorded: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """The settings that shape the model. Raises UserError for those that transformers' RoBERTa cannot have."""
    for name, value in FIXED.items():
        given = recorded.get(name)
        if given is not None and given != value and (given or value):
            raise UserError(
                f"{file} was trained with {name} {given!r}; teacher fairseq reads only RoBERTas with {value!r}"
            )
    found = {name: recorded.get(name, value) for name, value in DEFAULTS.items()}
    for name, value in found.items():
        whole = isinstance(DEFAULTS[name], int)
        if not isinstance(value, int if whole else (int, float)) or value < 0:
            raise UserError(f"{file} records {name} {value!r}, which is not a valid number for it")
    if 0 in (found["encoder_layers"], found["encoder_attention_heads"]):
        raise UserError(f"{file} records a model without layers or attention heads")
    if found["encoder_embed_dim"] % found["encoder_attention_heads"]:
        raise UserError(
            f"{file} records {found['encoder_attention_heads']} attention heads, which do not divide the width "
            f"{found['encoder_embed_dim']}"
        )
    return found
