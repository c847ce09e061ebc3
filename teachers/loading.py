"""Checkpoints of transformers: what they are, and their models, loaded as data alone."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.initialization import no_init_weights
from transformers.utils import logging

from harness.contracts import ModelInfo, Signal, Task
from harness.errors import UserError
from harness.modeling.bases import in_own_memory, sha256_of
from harness.modeling.signals import check_encoder
from harness.teachers import generative
from harness.teachers.weight_files import PICKLED, check_weights, line

EMITS = frozenset(Signal)
WHOLE = "tokenizer.json"  # beside which the library reads no other vocabulary
SENTENCEPIECE = ("spm.model", "sentencepiece.model", "tokenizer.model")
VOCABULARIES = (WHOLE, "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model", *SENTENCEPIECE)
DESCRIPTION = (  # patterns of files
    *VOCABULARIES,
    "tokenizer.[0-9]*.json",  # from some version of the library on, where tokenizer_config.json names it
    "bpe.codes",
    "config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
)
Config = TypeVar("Config", bound=PreTrainedConfig)
BIG_TASKS = ("mnli", "qnli", "qnli_ranking", "qqp", "sst2")


# ---------------------------------------------------------------- what a checkpoint is


def read_config(folder: Path) -> PreTrainedConfig:
    """The configuration of a checkpoint. Raises UserError if it is missing, unreadable or not an encoder's."""
    if not (folder / "config.json").is_file():
        raise UserError(f"teacher folder {folder} has no config.json")
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the library raises anything from KeyError to its own
        raise UserError(f"{folder / 'config.json'} cannot be read: {line(error)}") from error
    if not generative.form(config):
        check_encoder(config)
    needed = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
    missing = [name for name in needed if not hasattr(config, name)]
    if missing:
        raise UserError(f"teacher {folder} is a {config.model_type}, not a text encoder: it has no {missing[0]}")
    return config


def read_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint. Raises UserError if it is missing, unreadable or larger than the vocabulary."""
    if not any((folder / name).is_file() for name in VOCABULARIES):  # the library would make an empty one
        raise UserError(
            f"teacher folder {folder} has no tokenizer: none of {', '.join(VOCABULARIES)} is there; "
            "write it with save_pretrained of the tokenizer that it was trained with"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the library raises anything from KeyError to its own
        piece = next((name for name in (WHOLE, *SENTENCEPIECE) if (folder / name).is_file()), WHOLE)
        if piece != WHOLE and find_spec("sentencepiece") is None:  # of which the library says nothing
            needs = "needs two packages: pip install sentencepiece protobuf"
            raise UserError(f"to read the tokenizer in {folder} from its {piece} {needs}") from error
        raise UserError(f"the tokenizer in {folder} cannot be read: {line(error)}") from error
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # which the library makes of files of another kind
        raise UserError(f"the tokenizer in {folder} has no vocabulary: its files are of another kind of tokenizer")
    config = read_config(folder)
    size = config.vocab_size
    if len(tokenizer) > size:
        raise UserError(f"the tokenizer in {folder} has {len(tokenizer)} tokens, but the model knows only {size}")
    found = generative.completed(tokenizer, config) if generative.form(config) else tokenizer
    found.padding_side = "right"  # the first token stands for all
    return found


def describe(name: str, config: PreTrainedConfig, tokenizer: str, task: Task) -> ModelInfo:
    return ModelInfo(
        name=name,
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        heads=config.num_attention_heads,
        vocabulary=config.vocab_size,
        labels=task.outputs,
        emits=EMITS,
        tokenizer=tokenizer,
    )


def recipe_of(config: PreTrainedConfig, task: Task) -> dict[str, Any]:
    """Fine-tuning settings as the models' authors recommend them for GLUE: Liu et al. 2019 (RoBERTa), table 10;
    Devlin et al. 2019 (BERT), appendix A.3: 2 of its 2 to 4 epochs for the large tasks, 3 for the others, and the
    highest of its rates for models narrower than its own."""
    if task.corpus:  # a masked-language-model head on an encoder that has none: BERT's own rate, one pass
        return {"learning_rate": 1e-4, "batch_size": 32, "epochs": 1, "warmup_ratio": 0.06, "weight_decay": 0.01}
    if "roberta" in config.model_type:
        size = 32 if task.name in BIG_TASKS else 16
        return {"learning_rate": 2e-5, "batch_size": size, "epochs": 10, "warmup_ratio": 0.06, "weight_decay": 0.1}
    rate = 5e-5 if config.hidden_size <= 512 else 3e-5
    epochs = 2 if task.name in BIG_TASKS else 3
    return {"learning_rate": rate, "batch_size": 32, "epochs": epochs, "warmup_ratio": 0.1, "weight_decay": 0.01}


def content_of(folder: Path) -> str:
    """A hash of a checkpoint's weights, configuration and tokenizer files, whatever else is in the folder."""
    unread = {*SENTENCEPIECE, "bpe.codes"} if (folder / WHOLE).is_file() else set()
    described = (file for pattern in DESCRIPTION for file in folder.glob(pattern) if file.name not in unread)
    files = sorted({*filter(Path.is_file, described), *check_weights(folder)}, key=lambda file: file.name)
    return hashlib.sha256("".join(f"{file.name} {sha256_of(file)}\n" for file in files).encode()).hexdigest()


# ---------------------------------------------------------------- loading


def load_classifier(folder: Path, task: Task, fresh_head: bool) -> PreTrainedModel:
    """The sequence classifier in `folder`, or its encoder under a new head drawn from torch's random state.

    The configuration records the task, so that the model, once saved, is known to answer it.
    Raises UserError if weights are missing or do not fit.
    """
    config = read_config(folder)
    if generative.form(config) == generative.ENCODER:
        return _load_encoder(folder, config, task, fresh_head)
    if not fresh_head:
        _check_outputs(config, task, folder)
        model, missing = _load(AutoModelForSequenceClassification, folder)
        _check_whole(missing, folder)
        return _emitting(model)
    try:
        model = AutoModelForSequenceClassification.from_config(
            for_task(config, task), dtype=torch.float32, trust_remote_code=False
        )
    except ValueError as error:
        raise UserError(f"teacher {folder} is a {config.model_type}, for which there is no classifier") from error
    encoder, missing = _load(AutoModel, folder)
    loaded = {name: tensor for name, tensor in encoder.state_dict().items() if name not in missing}
    model.base_model.load_state_dict(loaded, strict=False)
    return _emitting(model)


def _emitting(model: PreTrainedModel) -> PreTrainedModel:
    """The model as signals are taken from it: a decoder tells its own."""
    return generative.Decoder(model) if generative.form(model.config) == generative.DECODER else model


def _load_encoder(folder: Path, config: PreTrainedConfig, task: Task, fresh_head: bool) -> PreTrainedModel:
    """The encoder of an encoder-decoder, whose decoder may be missing, under its head or a fresh one."""
    if not fresh_head:
        _check_outputs(config, task, folder)
        return generative.saved_encoder(config, folder)
    return generative.encoder_of(_whole_model(folder), for_task(config, task), task.outputs)


def load_headless(folder: Path) -> PreTrainedModel:
    """The decoder, or the encoder of the encoder-decoder, in `folder` without any head."""
    if generative.form(config := read_config(folder)) == generative.ENCODER:
        return generative.encoder_of(_whole_model(folder), config, 0)
    return _emitting(_load(AutoModel, folder)[0])


def _whole_model(folder: Path) -> PreTrainedModel:
    """An encoder-decoder, of which no decoder's weight is looked at."""
    model, found = _from_pretrained(AutoModel, folder)
    _check_whole({name for name in found["missing_keys"] if not name.startswith("decoder.")}, folder)
    return model


def load_tuned(folder: Path, task: Task) -> PreTrainedModel:
    """The classifier that a run of ours fine-tuned; or, where a run left an encoder alone, that under a new head.

    Otherwise as `load_classifier`.
    """
    config = read_config(folder)
    if generative.form(config) == generative.ENCODER:
        return _load_encoder(folder, config, task, fresh_head=False)
    if type(config) in AutoModelForSequenceClassification._model_mapping:
        if (whole := _named_alike(AutoModelForSequenceClassification, config, folder)) is not None:
            _check_outputs(whole.config, task, folder)
            return _emitting(whole)
        with torch.random.fork_rng(devices=[]):  # a head that is missing is drawn below
            model, missing = _load(AutoModelForSequenceClassification, folder)
        if not _head(model) <= missing:
            _check_whole(missing, folder)
            _check_outputs(model.config, task, folder)
            return _emitting(model)
    return load_classifier(folder, task, fresh_head=True)


def _named_alike(kind: Any, config: PreTrainedConfig, folder: Path) -> PreTrainedModel | None:
    """The model of a file that names exactly the weights of its architecture, so that transformers has none to rename.

    None for any other. Five times as fast as `from_pretrained`, which tells in short runs.
    """
    with no_init_weights():
        model = kind.from_config(config, dtype=torch.float32, trust_remote_code=False)
    own = {name: tensor.shape for name, tensor in model.state_dict().items()}
    try:
        found = load_file(folder / "model.safetensors")
    except (OSError, SafetensorError):
        return None
    if own != {name: tensor.shape for name, tensor in found.items()}:
        return None
    model.load_state_dict(found)
    return cast(PreTrainedModel, model.eval())


def for_task(config: Config, task: Task) -> Config:
    """The configuration, changed to that of a classifier for the task."""
    config.num_labels = task.outputs
    if len(task.labels) == task.outputs:  # not where one score stands for both
        config.id2label = dict(enumerate(task.labels))
        config.label2id = {label: i for i, label in enumerate(task.labels)}
    config.finetuning_task = task.name
    return config


def load_masked(folder: Path) -> PreTrainedModel:
    """The masked language model in `folder`; its head is fresh where the weights hold none."""
    return _load(AutoModelForMaskedLM, folder)[0]


def holds_head(kind: Any, folder: Path) -> bool:
    """True if the weights in `folder` hold every weight of the head of this kind of model (an Auto class).

    Their names say so, not the configuration: many an encoder still names the architecture that it was cut out of. No
    weight is read, and none is drawn.
    """
    config = read_config(folder)
    if generative.form(config) == generative.ENCODER:  # its head is of our own kind
        return kind is AutoModelForSequenceClassification and generative.SCORE in _names(folder)
    if type(config) not in kind._model_mapping:  # such a model has no such head
        return False
    model, found = _from_pretrained(kind, folder, device_map="meta")
    return _head(model).isdisjoint(found["missing_keys"])


def _names(folder: Path) -> set[str]:
    """The names of the weights in the safetensors files of `folder`."""
    names: set[str] = set()
    for file in check_weights(folder):
        if file.name != PICKLED:
            with safe_open(file, framework="pt") as found:
                names |= set(found.keys())
    return names


def _head(model: PreTrainedModel) -> set[str]:
    """The names of the weights that are the head's, not those that it shares with the encoder, as most do a layer."""
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    return {name for name, _ in model.named_parameters() if not (prefix and name.startswith(prefix))}


def _load(kind: Any, folder: Path) -> tuple[PreTrainedModel, set[str]]:
    """(model, names of weights left random): none but the pooler's and the head's may be. Raises UserError."""
    model, found = _from_pretrained(kind, folder)
    in_own_memory(model)
    missing = set(found["missing_keys"])
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    _check_whole(
        {name for name in missing if name.startswith(prefix) and not name.startswith(f"{prefix}pooler.")}, folder
    )
    return model, missing


def _check_whole(missing: Collection[str], folder: Path) -> None:
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UserError(f"the weights in {folder} lack {', '.join(sorted(missing)[:3])}{more}")


def _check_outputs(config: PreTrainedConfig, task: Task, folder: Path) -> None:
    if config.num_labels != task.outputs:
        raise UserError(
            f"the classifier in {folder} has {config.num_labels} outputs, but {task.name} needs {task.outputs}"
        )


def _from_pretrained(kind: Any, folder: Path, **more: Any) -> tuple[PreTrainedModel, dict[str, Any]]:
    """(model, what transformers tells of its weights). Raises UserError if they cannot be read or have other shapes."""
    pickled = check_weights(folder)[0].name == PICKLED
    with _quiet():
        try:
            model, found = kind.from_pretrained(
                folder,
                dtype=torch.float32,
                use_safetensors=not pickled,
                weights_only=True,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                **more,
            )
        except (OSError, ValueError, RuntimeError, pickle.UnpicklingError) as error:
            raise UserError(f"the weights in {folder} cannot be loaded: {line(error)}") from error
    if found["mismatched_keys"]:
        name, here, wanted = min(found["mismatched_keys"])
        raise UserError(f"weight {name} in {folder} has shape {tuple(here)}, but config.json asks for {tuple(wanted)}")
    return model, found


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences transformers' report of missing weights: they are checked here."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
