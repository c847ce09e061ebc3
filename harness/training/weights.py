"""Weights kept in a folder beside a run's record: there whole, or not at all."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from safetensors import SafetensorError
from transformers import PreTrainedModel

from harness.ledger import cannot_write, sync_folder


def save(model: PreTrainedModel, folder: Path) -> None:
    """Write the model as a folder. Raises UserError if the disk is full or the place cannot be written."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    try:
        model.save_pretrained(temporary)
    except SafetensorError as error:  # says nothing but the system's own text
        shutil.rmtree(temporary, ignore_errors=True)
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise cannot_write(folder, OSError(int(number[1]), str(error))) from error
    for path in temporary.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    if folder.exists():  # left by a run that was killed before its record was written: the same weights
        shutil.rmtree(folder)
    os.replace(temporary, folder)
    sync_folder(folder.parent)
