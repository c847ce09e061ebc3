"""Weights kept in a folder beside a run's record, which holds their checksums: there whole, or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from harness.contracts import Batch, Want
from harness.files import beside, cannot_write, none_left_empty, sync_file, sync_folder
from harness.training.failures import TrainingFailure


def save(
    model: PreTrainedModel, folder: Path, reader: PreTrainedTokenizerBase | None = None, durable: bool = True
) -> None:
    """Write the model as a folder, with the tokenizer it reads with where that is its own. durable: see `whole_folder`.

    Raises UserError if the disk is full or the place cannot be written.
    """
    with whole_folder(folder, durable) as temporary:
        model.save_pretrained(temporary)
        _unversion(temporary / "config.json")
        if reader is not None:
            save_reader(reader, temporary)


def _unversion(config: Path) -> None:
    """Leave out which version of transformers wrote it: the same weights are the same folder under any."""
    told = json.loads(config.read_text(encoding="utf-8"))
    told.pop("transformers_version", None)
    config.write_text(f"{json.dumps(told, indent=2, sort_keys=True)}\n", encoding="utf-8")


@torch.inference_mode()
def check_opens(model: nn.Module, opened: nn.Module, batch: Batch, who: str, must: str) -> None:
    """Raise TrainingFailure for a model that answers a batch otherwise once it is opened from its folder.

    who, must: how sentences call it, and what they say that it must do.
    """
    want = Want(logits=batch.targets is None, mlm_logits=batch.targets is not None)
    ours, theirs = (getattr(each.eval()(batch, want), want.parts()[0][0]).float() for each in (model, opened))
    if ours.shape != theirs.shape or not torch.allclose(ours, theirs, rtol=1e-3, atol=1e-4, equal_nan=True):
        raise TrainingFailure(f"{who} gives other outputs once its weights are saved and loaded again: {must}")


def save_reader(reader: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a tokenizer without what its last call set, so that one vocabulary is one file."""
    if backend := getattr(reader, "backend_tokenizer", None):
        backend.no_truncation()
        backend.no_padding()
    reader.save_pretrained(folder)


@contextmanager
def whole_folder(folder: Path, durable: bool = True, new: bool = False) -> Iterator[Path]:
    """A folder to write into that takes its name once all of it is written. Raises UserError as `save` does.

    Whoever may read the folder may read its files.

    durable: it is so even if the machine loses its power. Otherwise its checksums tell, and it can be made again.
    new: what somebody else has meanwhile put in its place is no older one of ours: UserError is raised, and it stays.
    """
    try:
        with none_left_empty(folder.parent), beside(folder) as temporary:
            temporary.mkdir(parents=True)
            yield temporary
            mode = temporary.stat().st_mode & 0o666  # safetensors lets nobody but the owner read what it writes
            for path in filter(Path.is_file, temporary.rglob("*")):
                if path.stat().st_mode & 0o666 != mode:
                    path.chmod(mode)
                if durable:
                    sync_file(path)
            if folder.exists() and not new:  # of a run that was killed before its record was written, or is made anew
                shutil.rmtree(folder)
            os.replace(temporary, folder)
            if durable:
                sync_folder(folder.parent)
    except Exception as error:  # the libraries' own errors say nothing but the system's text
        number = re.search(r"os error (\d+)", str(error))
        if isinstance(error, OSError):
            raise cannot_write(folder, error) from error
        if number is None:
            raise
        raise cannot_write(folder, OSError(int(number[1]), str(error))) from error
