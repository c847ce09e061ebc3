"""Words as vectors: channels, files of vectors, padding, and what the students over them have in common."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.contracts import Encoding, ModelInfo, Signal, Task
from harness.errors import UserError
from harness.modeling.bases import StudentConfig
from harness.modeling.word_tokenizer import word_level
from harness.registry import STUDENTS
from harness.students.words import RANGE, WordEmbedding
from tests.small_models import THREE, TWO

NAMES = ("bilstm", "biattentive_lstm")
TEACHER = ModelInfo("t", 4, 32, 4, 30, 3, frozenset(Signal), "fingerprint")
CORPUS = Task("text", "Text", "perplexity", ("perplexity",), corpus=True)
TOKENIZER = word_level(["dog cat ran the"], 0)  # [PAD] [UNK] cat dog ran the
SMALL = {"embedding_size": 3, "hidden_units": 2, "head_units": 2}
NO_MODEL: Any = None  # a start from a file takes nothing from the teacher


def embedding(channels: str = "trained", words: int = 6, padding: int = 0, size: int = 3) -> WordEmbedding:
    torch.manual_seed(0)
    return WordEmbedding(words, padding, size, channels)


def vectors(path: Path, binary: bool = False) -> Path:
    """dog, [PAD] and a word that the tokenizer lacks, each of 3 numbers."""
    rows = {"dog": (1.0, 2.0, 3.0), "[PAD]": (7.0, 7.0, 7.0), "xyzzy": (0.0, 0.0, 1.0)}
    if binary:
        body = b"".join(word.encode() + b" " + struct.pack("<3f", *row) + b"\n" for word, row in rows.items())
        (path / "vectors.bin").write_bytes(b"3 3\n" + body)
        return path / "vectors.bin"
    (path / "vectors.txt").write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows.items()))
    return path / "vectors.txt"


def test_a_random_start() -> None:
    table = embedding(words=200, padding=5, size=50).trained.weight.detach()
    assert not table[5].any() and (table.abs() <= RANGE).all()
    assert abs(float(table.var()) - RANGE**2 / 3) < 0.001
    assert embedding().width == 3 and embedding("frozen_and_trained").width == 6


def test_two_channels_start_alike_and_one_is_frozen() -> None:
    words = embedding("frozen_and_trained")
    assert words.frozen is not None and torch.equal(words.frozen, words.trained.weight)
    assert [name for name, p in words.named_parameters() if p.requires_grad] == ["trained.weight"]
    assert set(words.state_dict()) == {"trained.weight", "frozen"} and set(embedding().state_dict()) == {
        "trained.weight"
    }
    found, _ = words(read([[2, 3], [4]]))
    assert torch.equal(found[..., :3], found[..., 3:])
    found.sum().backward()
    gradient = words.trained.weight.grad
    assert gradient is not None and gradient.is_sparse
    assert gradient.to_dense().sum(1).tolist() == [0, 0, 3, 3, 3, 0]


def read(rows: list[list[int]], padding: int = 0, filler: int = 1) -> Encoding:
    """The rows as a tokenizer pads them, with `padding` positions more; what stands past a row's end is `filler`."""
    longest = max(map(len, rows)) + padding
    ids = torch.tensor([row + [filler] * (longest - len(row)) for row in rows]).view(len(rows), longest)
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows]).view(len(rows), longest)
    return Encoding({"input_ids": ids.long(), "attention_mask": mask.long()})


@pytest.mark.parametrize("padding", [0, 3])
def test_padding_is_cut_off_and_an_empty_text_is_one_padding_token(padding: int) -> None:
    words = embedding()
    found, lengths = words(read([[3, 4], [], [5]], padding))
    assert found.shape == (3, 2, 3) and lengths.tolist() == [2, 1, 1]
    table = words.trained.weight
    assert torch.equal(found[0], table[3:5]) and not found[1].any() and torch.equal(found[2, 0], table[5])
    nothing, lengths = words(read([[], []], padding))
    assert nothing.shape == (2, 1, 3) and not nothing.any() and lengths.tolist() == [1, 1]


@pytest.mark.parametrize("channels", ["trained", "frozen_and_trained"])
@pytest.mark.parametrize("binary", [False, True])
def test_vectors_from_a_file(channels: str, binary: bool, tmp_path: Path) -> None:
    words = embedding(channels, words=8)
    expected = words.trained.weight.detach().clone()
    expected[3] = torch.tensor([1.0, 2.0, 3.0])  # dog; padding stays zero, the rest random
    assert words.load(vectors(tmp_path, binary), TOKENIZER) == {
        "coverage": 1 / 8,
        "vectors_found": 1,
        "filled": "vectors",
    }
    for channel in [words.trained.weight, *([] if words.frozen is None else [words.frozen])]:
        assert torch.equal(channel, expected)


def test_vectors_of_another_width(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="vectors of 3 numbers where 4"):
        embedding(size=4).load(vectors(tmp_path), TOKENIZER)


@pytest.mark.parametrize("name", NAMES)
class TestStudents:
    def test_the_vocabulary(self, name: str) -> None:
        plugin, texts = STUDENTS.get(name), ["dog cat ran the", "the dog", "the"]
        own, teachers = ({"vocabulary": choice, "vocabulary_size": 2} for choice in ("words", "teacher"))
        tokenizer = plugin.tokenizer(own, TOKENIZER, texts)
        assert tokenizer.get_vocab() == {"[PAD]": 0, "[UNK]": 1, "the": 2, "dog": 3}
        assert plugin.tokenizer(teachers, TOKENIZER, texts) is TOKENIZER
        described = plugin.describe(own, TEACHER, TWO)
        assert (described.vocabulary, described.tokenizer) == (0, "words")
        described = plugin.describe(teachers, TEACHER, TWO)
        assert (described.vocabulary, described.tokenizer) == (30, "fingerprint")

    def test_the_size_and_padding_of_the_table(self, name: str) -> None:
        plugin, source = STUDENTS.get(name), {"vocab_size": 30, "pad_token_id": 1, "hidden_size": 8}
        for vocabulary, rows, padding in ((0, 30, 1), (7, 7, 0)):
            student = plugin(StudentConfig(name, SMALL, source, 2, vocabulary=vocabulary))
            words: Any = student.embedding
            table = words.trained
            assert (table.num_embeddings, table.padding_idx, words.padding) == (rows, padding, padding)
            assert not table.weight[padding].any() and table.sparse
        with pytest.raises(UserError, match="pad_token_id"):
            plugin(StudentConfig(name, SMALL, {"vocab_size": 30}, 2))

    def test_pairs_and_single_sentences(self, name: str) -> None:
        plugin = STUDENTS.get(name)
        own = {"bilstm": "compare", "biattentive_lstm": "biattention"}[name]
        assert plugin.pair_encodings == (own,) and "pair_encoding" not in plugin.hyperparameters
        assert [plugin.describe(SMALL, TEACHER, t).pair_encoding for t in (TWO, THREE, CORPUS)] == [
            "joint",
            own,
            "joint",
        ]

    def test_starts(self, name: str, tmp_path: Path) -> None:
        plugin, file = STUDENTS.get(name), vectors(tmp_path)
        assert plugin.canonical_init(f" vectors:{file} ") == f"vectors:{file}" and plugin.file_inits == {"vectors"}
        for wrong in ("vectors:", "every", "vectors"):
            with pytest.raises(UserError, match="vectors:FILE"):
                plugin.canonical_init(wrong)
        assert plugin.layer_map("random", plugin.describe(SMALL, TEACHER, TWO), TEACHER).pairs == ((1, 4),)
        both = SMALL | {"channels": "frozen_and_trained"}
        assert plugin.refuse_init("random", SMALL) == plugin.refuse_init(f"vectors:{file}", both) == ""
        assert plugin.refuse_init(f"vectors:{file}", both | {"vocabulary": "teacher"}) == ""
        assert "frozen channel needs word vectors" in plugin.refuse_init("random", both)
        assert f"vectors of 3 numbers, but {name}.embedding_size is 300" in plugin.refuse_init(f"vectors:{file}", {})
        with pytest.raises(UserError, match="does not exist"):
            plugin.refuse_init(f"vectors:{tmp_path}/none.txt", SMALL)

    def test_a_start_from_a_file(self, name: str, tmp_path: Path) -> None:
        settings, file = SMALL | {"channels": "frozen_and_trained"}, vectors(tmp_path)
        student = STUDENTS.get(name)(StudentConfig(name, settings, {"hidden_size": 8}, 2, vocabulary=6))
        recorded = student.initialise(f"vectors:{file}", NO_MODEL, TOKENIZER)
        assert recorded == {"coverage": 1 / 6, "vectors_found": 1, "filled": "vectors"}
        words: Any = student.embedding
        assert words.frozen[3].tolist() == words.trained.weight[3].tolist() == [1.0, 2.0, 3.0]
        before = {key: tensor.clone() for key, tensor in student.state_dict().items()}
        assert student.initialise("random", NO_MODEL, TOKENIZER) == {}
        assert all(torch.equal(tensor, before[key]) for key, tensor in student.state_dict().items())

    @pytest.mark.parametrize(
        "wrong", [{"channels": "three"}, {"vocabulary": "own"}, {"hidden_units": 0}, {"head_units": "many"}]
    )
    def test_wrong_settings(self, name: str, wrong: dict[str, Any]) -> None:
        plugin, (setting,) = STUDENTS.get(name), wrong
        with pytest.raises(UserError, match=f"{name}.{setting}"):
            plugin.describe(SMALL | wrong, TEACHER, TWO)
        with pytest.raises(UserError, match=f"{name}.{setting}"):
            plugin(StudentConfig(name, SMALL | wrong, {"vocab_size": 9, "pad_token_id": 0}, 2))
