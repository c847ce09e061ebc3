"""The augmentations that a setting can name, and their texts in the cache."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import code_versions
from harness.data.augmentation import SameTag, augment
from harness.data.sources import Split
from harness.errors import UserError
from harness.jobs import augmented as module
from harness.jobs.augmented import augmented, check
from harness.runs import BaseTeacher, StudentRun, TeacherName
from harness.training.workspace import _fingerprint
from tests.training.builders import a_run, workspace_of

SPLIT = Split("train", ["the dog saw a cat .", "a bird sang"], ["it ran .", "she left"], np.array([0, 1]))


@pytest.mark.parametrize(
    "value", ["none", "masking", "masking+pos", "masked_language_model", "word_vectors:a", "masked_language_model:a"]
)
def test_what_can_be_named(value: str) -> None:
    check(value)


@pytest.mark.parametrize("value", ["mask", "masking:glove.txt", "masking+", "pos", "word_vectors", "word_vectors:", ""])
def test_refusals(value: str) -> None:
    with pytest.raises(UserError) as error:
        check(value)
    assert str(error.value) == (
        "augmentation must be none, masking, masking+pos, masked_language_model, word_vectors:FILE or "
        f"masked_language_model:FILE with a file of word vectors, not {value!r}"
    )


@pytest.mark.parametrize("value", ["masking", "masking+pos"])
def test_texts_are_made_once(tmp_path: Path, value: str, monkeypatch: Any) -> None:
    workspace = workspace_of(tmp_path)

    def ask(copies: int) -> Split:
        settings = {"augmentation": value, "augmentation_copies": copies, "augmentation_probability": 0.3}
        return augmented(SPLIT, a_run(StudentRun, settings=settings), workspace, source=None)  # type: ignore[arg-type]

    wanted = augment(SPLIT, SameTag(SPLIT) if value == "masking+pos" else None, 4, 0.3, 0, masking=True)
    found = ask(4)
    assert (found.text_a, found.text_b) == (wanted.text_a, wanted.text_b) and len(found.text_a) > 4
    assert found.labels.tolist() == wanted.labels.tolist() and found.labels.dtype == SPLIT.labels.dtype
    assert len(ask(1).text_a) < len(found.text_a)
    for path in tmp_path.glob("cache/augmented/*/index.json"):
        path.write_bytes(path.read_bytes().replace(b"bird", b"bard"))
        assert ask(4).text_a == found.text_a and len(ask(1).text_a) < len(found.text_a)
    monkeypatch.delattr(module, "augment")
    assert ask(4).text_a == found.text_a


def test_texts_are_those_of_the_masked_language_models_weights(tmp_path: Path, monkeypatch: Any) -> None:
    """A run that was made again may have left others, as on another kind of machine."""
    workspace = replace(workspace_of(tmp_path), teacher=TeacherName("embedded"))
    weights = workspace.runs / "head" / "weights" / "model.safetensors"
    weights.parent.mkdir(parents=True)

    class Said:
        def candidates(self, words: list[str]) -> list[list[str]]:
            return [[weights.read_text()] for _ in words]

    def ask(word: str) -> list[str]:
        weights.write_text(word)
        run = a_run(StudentRun, settings={"augmentation": "masked_language_model"}, masked_teacher="head")
        return augmented(SPLIT, run, workspace, source=None).text_a  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_replacer", lambda *given: Said())
    for word in ("first", "other", "first"):
        assert {found for text in ask(word)[2:] for found in ("first", "other") if found in text} == {word}


def test_texts_of_an_ensemble_are_those_of_its_members_code(tmp_path: Path, monkeypatch: Any) -> None:
    """The first member replaces words, and the code of what the teacher is called says nothing of it."""
    who = BaseTeacher(name="ensemble", content="of weights alone")
    run = a_run(StudentRun, settings={"augmentation": "masked_language_model"}, masked_teacher=who)
    workspace = replace(workspace_of(tmp_path), teacher=TeacherName("ensemble", "embedded+embedded"))

    class Said:
        def candidates(self, words: list[str]) -> list[list[str]]:
            return [[code] for _ in words]

    monkeypatch.setattr(module, "_replacer", lambda *given: Said())
    monkeypatch.setattr(code_versions, "_version", lambda file: code)
    for code in ("first", "other", "first"):
        _fingerprint.cache_clear()  # as another process
        texts = augmented(SPLIT, run, workspace, source=None).text_a[2:]  # type: ignore[arg-type]
        assert {found for text in texts for found in ("first", "other") if found in text} == {code}
    _fingerprint.cache_clear()


def test_texts_without_scores(tmp_path: Path) -> None:
    """What is not there is NaN, which equals nothing: a copy is dropped as it is where there are scores."""
    settings = {"augmentation": "masking", "augmentation_copies": 9, "augmentation_probability": 0.3}

    def made(score: float) -> Split:
        split = Split("train", SPLIT.text_a, None, np.full(2, score, np.float32))
        return augmented(split, a_run(StudentRun, settings=settings), workspace_of(tmp_path), source=None)  # type: ignore[arg-type]

    found, scored = made(np.nan), made(0.5)
    assert found.text_a == scored.text_a and len(set(found.text_a)) == len(found.text_a)
    assert np.isnan(found.labels).all() and found.labels.dtype == np.float32
