"""The weight files of a Hugging Face checkpoint: which there are, and whether they are sound."""

from __future__ import annotations

import json
import pickle
import re
import warnings
from pathlib import Path
from zipfile import BadZipFile, ZipFile, is_zipfile

import torch
from safetensors import SafetensorError, safe_open

from harness.errors import UserError

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
PICKLED = "pytorch_model.bin"


def check_weights(folder: Path) -> list[Path]:
    """The weight files of a checkpoint: safetensors, or else pytorch_model.bin, which many older ones have alone.

    Reads headers and lengths only. A pytorch_model.bin is a pickle: it is taken if it holds tensors alone, and refused,
    unopened, if it names anything else, for that can run any code. Raises UserError if there are no weights or one
    file is broken.
    """
    whole, index = (folder / name for name in WEIGHTS)
    if (pickled := folder / PICKLED).is_file() and not whole.is_file() and not index.is_file():
        _check_pickle(pickled)
        return [pickled]
    if whole.is_file():
        files = [whole]
    elif index.is_file():
        try:
            parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            files = [folder / name for name in sorted(set(parts))]
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise UserError(f"{index} is not an index of weight files: {line(error)}") from error
    elif pickles := sorted(p.name for p in folder.iterdir() if p.suffix in (".bin", ".pt", ".pth", ".pkl", ".ckpt")):
        raise UserError(
            f"teacher folder {folder} holds only {pickles[0]}, a pickle; weights must be safetensors or {PICKLED}"
        )
    else:
        where = f": it is a cache of the hub, whose model is in {inner}" if (inner := _in_cache(folder)) else ""
        if (folder / "adapter_config.json").is_file():
            where = ": it holds adapters; merge them into their model, as by merge_and_unload(), and save that"
        raise UserError(f"teacher folder {folder} has no weights: model.safetensors is missing{where}")
    for file in files:
        try:
            with safe_open(file, framework="pt"):
                pass
        except (SafetensorError, OSError) as error:
            raise UserError(f"{file} is not a complete safetensors file: {line(error)}") from error
    return files


def _in_cache(folder: Path) -> Path | None:
    """The newest revision of a model in a cache of the hub, where its folder there was given instead."""
    found = [path.parent for path in folder.glob("snapshots/*/config.json")]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def check_unpacked(file: Path) -> None:
    """Raise UserError for a zip file that says it unpacks to more than it is: weights are not compressed."""
    try:
        with ZipFile(file) as found:
            size = sum(part.file_size for part in found.infolist())
    except (OSError, BadZipFile) as error:
        raise UserError(f"{file} is not a complete file of weights: {line(error)}") from error
    if size > file.stat().st_size:
        raise UserError(f"{file} unpacks to {size:,} bytes, more than its own size, so it is not opened")


def _check_pickle(file: Path) -> None:
    if is_zipfile(file):
        check_unpacked(file)
    try:
        named = torch.serialization.get_unsafe_globals_in_checkpoint(str(file)) if is_zipfile(file) else []
        if not is_zipfile(file):  # as torch wrote them before 2020: their names cannot be listed, but data can be read
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of pickles that torch does not write
                torch.load(file, map_location="meta", weights_only=True)
    except Exception as error:  # a broken pickle raises anything
        found = re.search(r"GLOBAL ([\w.]+)", str(error))  # torch's own text says how to run the code after all
        foreign = isinstance(error, (pickle.UnpicklingError, LookupError))
        why = "torch does not write such files" if foreign else line(error)
        if not found:
            raise UserError(f"{file} is not a complete file of weights: {why}; save them as safetensors") from error
        named = [found[1]]
    if named:
        raise UserError(f"{file} holds more than weights ({named[0]}), which could run code, so it is not opened")


def line(error: Exception) -> str:
    """The error's first line, which is what fits in a sentence."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
