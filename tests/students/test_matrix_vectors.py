"""Matrix-embedding students that start from a file of vectors or matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from harness.contracts import ModelInfo, Signal, Want
from harness.errors import UserError
from harness.modeling import static_vectors
from harness.modeling.bases import StudentConfig
from harness.modeling.static_vectors import INIT, Vocabulary
from harness.registry import STUDENTS
from harness.training.optimisation import Optimisation
from tests.small_models import WORDS, checkpoint
from tests.students.test_matrix import batch, build, sizes
from tests.training.builders import settings


class TestVectorsFromAFile:
    @pytest.fixture
    def tokenizer(self, tmp_path: Path) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(checkpoint(tmp_path / "teacher", "bert"))

    def start(self, name: str, width: int, tokenizer: Any, tmp_path: Path, **settings: Any) -> tuple[Any, ...]:
        """(student, its tables before, what is recorded). The file holds [PAD], dog, cat and a word that is none."""
        rows = {
            word: torch.arange(width) + 100.0 * place for place, word in enumerate(("[PAD]", "dog", "cat", "xyzzy"))
        }
        file = tmp_path / "vectors.txt"
        file.write_text("".join(f"{word} {' '.join(map(str, row.tolist()))}\n" for word, row in rows.items()))
        torch.manual_seed(0)
        source = {"vocab_size": 20, "pad_token_id": 0}
        student = STUDENTS.get(name)(StudentConfig(name, sizes(name) | settings, source, 2))
        before = [table.weight.detach().clone() for table in student.embedding.tables()]
        teacher: Any = None
        return student, before, student.initialise(f"vectors:{file}", teacher, tokenizer)

    @pytest.mark.parametrize(
        ("name", "width", "filled", "called"),
        [
            ("cbow", 9, [slice(0, 9)], "whole words"),
            ("cmow", 9, [slice(0, 9)], "whole words"),
            ("hybrid", 5, [slice(0, 5), None], "vectors"),
            ("hybrid", 9, [None, slice(0, 9)], "matrices"),
            ("hybrid", 14, [slice(0, 5), slice(5, 14)], "whole words"),
            ("bidirectional_hybrid", 9, [None, slice(0, 9), slice(0, 9)], "matrices"),
            ("bidirectional_hybrid", 23, [slice(0, 5), slice(5, 14), slice(14, 23)], "whole words"),
        ],
    )
    def test_what_is_filled(
        self, name: str, width: int, filled: list[slice | None], called: str, tokenizer: Any, tmp_path: Path
    ) -> None:
        vector = {"vector_size": 5} if name not in ("cbow", "cmow") else {}
        student, before, recorded = self.start(name, width, tokenizer, tmp_path, **vector)
        assert recorded == {"coverage": 2 / 20, "vectors_found": 2, "filled": called}
        for table, old, columns in zip(student.embedding.tables(), before, filled, strict=True):
            for place, word in ((1, "dog"), (2, "cat")):
                if columns is not None:
                    old[WORDS.index(word)] = (torch.arange(width) + 100.0 * place)[columns]
            assert torch.equal(table.weight, old)

    def test_equal_widths_are_vectors(self, tokenizer: Any, tmp_path: Path) -> None:
        student, before, _ = self.start("hybrid", 9, tokenizer, tmp_path)
        vectors, matrices = student.embedding.tables()
        assert vectors.weight[WORDS.index("cat")].tolist() == (torch.arange(9) + 200.0).tolist()
        assert torch.equal(matrices.weight, before[1])

    def test_a_width_of_no_part(self, tokenizer: Any, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"rows of 7 numbers.* 9 \+ 9 \+ 9 = 27"):
            self.start("bidirectional_hybrid", 7, tokenizer, tmp_path)

    def test_random_leaves_everything(self, tokenizer: Any) -> None:
        student = build("hybrid")
        before = {name: tensor.clone() for name, tensor in student.state_dict().items()}
        teacher: Any = None
        assert student.initialise("random", teacher, tokenizer) == {}
        assert all(torch.equal(before[name], tensor) for name, tensor in student.state_dict().items())


TEACHER = ModelInfo("teacher", 4, 8, 4, 30, 2, frozenset(Signal), "fingerprint")


class TestStaticVectors:
    """Of a teacher of width 8 that reads entries 5 to 14 of a vocabulary of 30."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        torch.manual_seed(1)
        vocabulary = Vocabulary([*range(5, 15)], [0, 2, 3, 4], [2], [3], ranked=True)
        static_vectors.write(tmp_path / "vectors.safetensors", vocabulary, torch.randn(10, 8))
        return tmp_path / "vectors.safetensors"

    def fresh(self, name: str, **settings: Any) -> Any:
        torch.manual_seed(0)
        own = sizes(name) | {"vector_size": 5, "embedding_dropout": 0.0} | settings
        return STUDENTS.get(name)(StudentConfig(name, own, {"vocab_size": 30, "pad_token_id": 0}, 2))

    def start(self, name: str, file: Path, **settings: Any) -> Any:
        student, teacher = self.fresh(name, **settings), None
        recorded = student.initialise(f"static:{file}", teacher, teacher)
        assert recorded.pop("variance") == pytest.approx(static_vectors.read(file, 5, 30)[2])
        assert recorded == {"coverage": 13 / 30, "vectors_found": 13, "filled": "vectors"}  # padding's stays
        return student

    @pytest.mark.parametrize("name", ["cbow", "hybrid", "bidirectional_hybrid"])
    def test_the_vectors_are_the_teachers_and_nothing_else(self, name: str, file: Path) -> None:
        student, expected = self.start(name, file), self.fresh(name).state_dict()
        given = [0, *range(2, 15)]
        expected["embedding.vectors.weight"][given] = static_vectors.read(file, 5, 30)[0][given]
        assert all(torch.equal(value, expected[key]) for key, value in student.state_dict().items())

    @pytest.mark.parametrize(("vectors", "stays"), [("frozen", True), ("trained", False)])
    @pytest.mark.parametrize("name", ["cbow", "hybrid"])
    def test_what_is_frozen_stays_to_the_bit_and_the_rest_learns(
        self, name: str, vectors: str, stays: bool, file: Path, tmp_path: Path
    ) -> None:
        student = self.start(name, file, vectors=vectors)
        before = {key: value.clone() for key, value in student.state_dict().items()}
        update = Optimisation(student, nn.Identity(), settings(learning_rate=0.01, warmup_ratio=0.0), 3)
        for _ in range(3):
            update.step(student(batch(), Want(logits=True)).logits.square().sum())
        after = student.state_dict()
        moved = {key for key in before if not torch.equal(before[key], after[key])}
        assert ("embedding.vectors.weight" not in moved) is stays
        assert {key.partition(".")[0] for key in moved} >= {"head"} | ({"embedding"} if name == "hybrid" else set())
        student.save_pretrained(tmp_path / "saved")
        opened = type(student).from_pretrained(tmp_path / "saved")
        assert torch.equal(opened.embedding.vectors.weight, after["embedding.vectors.weight"])

    def test_what_cannot_be_is_refused_with_a_sentence(self, tmp_path: Path) -> None:
        cbow, hybrid, cmow = (STUDENTS.get(name) for name in ("cbow", "hybrid", "cmow"))
        assert cbow.canonical_init(f" {INIT} ") == hybrid.canonical_init(INIT) == INIT
        for wrong in ("static", "static:", "static:student"):
            with pytest.raises(UserError, match=INIT):
                cbow.canonical_init(wrong)
        with pytest.raises(UserError, match="valid names: random, vectors:FILE"):
            cmow.canonical_init(INIT)
        frozen = {"vectors": "frozen", "vector_size": 8}
        assert "needs vectors to freeze" in cbow.refuse_init("random", frozen)
        assert cbow.refuse_init(INIT, frozen) == cbow.refuse_init("random", {}) == ""
        (tmp_path / "rows.txt").write_text("dog " + " ".join("1" * 9) + "\n")
        small = {"vectors": "frozen", "matrix_size": 3}
        assert "needs vectors to freeze" in hybrid.refuse_init(f"vectors:{tmp_path}/rows.txt", small)  # matrices alone
        assert hybrid.refuse_init(f"vectors:{tmp_path}/rows.txt", small | {"vector_size": 9}) == ""
        assert (
            cbow.refuse_teacher(INIT, {"vector_size": 8}, TEACHER) == cbow.refuse_teacher("random", {}, TEACHER) == ""
        )
        assert "at most 8: give the student vectors of 8" in cbow.refuse_teacher(INIT, {"vector_size": 9}, TEACHER)
