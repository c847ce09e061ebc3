"""Matrix-embedding students that start from a file of vectors or matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from harness.errors import UserError
from harness.modeling.bases import StudentConfig
from harness.registry import STUDENTS
from harness.testing.small_models import WORDS, checkpoint
from tests.students.test_matrix import build, sizes


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
