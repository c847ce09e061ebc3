"""Word vectors: three formats, exact numbers, and what is wrong with a file told by its line."""

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import UserError
from harness.modeling import word_vectors

WORDS = {"dog": [1.0, 0.5, -2.0], "cat": [0.9, 0.5, -2.5], "naïve": [0.0, -0.25, 3.0]}
FORMATS = ("glove.txt", "word2vec.txt", "word2vec.bin", "gensim.bin")


def write(folder: Path, name: str, words: dict[str, list[float]]) -> Path:
    width = len(next(iter(words.values())))
    header = f"{len(words)} {width}\n".encode()
    lines = [f"{word} {' '.join(map(repr, row))}" for word, row in words.items()]
    end = {"word2vec.bin": b"\n", "gensim.bin": b""}.get(name, b"")
    packed = [word.encode() + b" " + struct.pack(f"<{width}f", *row) + end for word, row in words.items()]
    path = folder / name
    path.write_bytes(
        {
            "glove.txt": "\n".join(lines).encode() + b"\n",
            "word2vec.txt": header + " \n".join(lines).encode() + b" \r\n",
        }.get(name, header + b"".join(packed))
    )
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_rows_come_in_the_order_asked_for(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, WORDS)
    rows, found = word_vectors.read(path, ["naïve", "##dog", "Dog", "dog", "dog"], 3)
    assert found.tolist() == [True, False, False, True, True] and rows.dtype == torch.float32
    assert rows.tolist() == [WORDS["naïve"], [0] * 3, [0] * 3, WORDS["dog"], WORDS["dog"]]
    assert word_vectors.width_of(path) == 3


letters = st.text(st.characters(categories=["Ll", "Lo", "P"]), min_size=1, max_size=6)
floats = st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(data=st.data(), width=st.integers(1, 5), name=st.sampled_from(FORMATS))
def test_what_is_written_is_read(tmp_path: Path, data: st.DataObject, width: int, name: str) -> None:
    words = data.draw(st.dictionaries(letters, st.lists(floats, min_size=width, max_size=width), min_size=1))
    asked = data.draw(st.lists(st.one_of(letters, st.sampled_from(sorted(words)))))
    rows, found = word_vectors.read(write(tmp_path, name, words), asked)
    wanted = np.array([words.get(word, [0.0] * width) for word in asked], np.float32).reshape(-1, width)
    assert np.array_equal(rows.numpy(), wanted)
    assert found.tolist() == [word in words for word in asked]


def test_a_word_of_glove_may_hold_spaces(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("the 1 2\n. . . 3 4\nat name@domain.com 5 6\n\u00a0 7 8\n", encoding="utf-8")
    rows, found = word_vectors.read(path, [". . .", "at name@domain.com", "\u00a0"])
    assert found.all() and rows.tolist() == [[3, 4], [5, 6], [7, 8]]


def test_only_what_is_asked_for_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("the 1 x\ndog 1 2\n")
    assert word_vectors.read(path, ["dog"])[0].tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "is empty"),
        ("a.txt", b"\ndog 1 2\n", "line 1: an empty line"),
        ("a.txt", b"dog\n", "line 1: a word and its numbers"),
        ("a.txt", b"dog 1 2\ncat 1\n", "line 2: a word and 2 numbers are expected, not 2 columns"),
        ("a.txt", b"dog 1 2\ncat 1 2 3\n", "line 2: a word and 2 numbers are expected, not 4 columns"),
        ("a.txt", b"dog 1 2\ncat  1 2\n", "line 2: a word and 2 numbers are expected, not 4 columns"),
        ("a.txt", b"dog 1 2\n\ncat 1 2\n", "line 2: a word and 2 numbers are expected, not 1 columns"),
        ("a.txt", b"the 1 2\ndog 1 1.2.3\n", "line 2: '1.2.3' is not a number"),
        ("a.txt", b"dog 1 nan\n", "line 1: a number is infinite or not a number"),
        ("a.txt", b"the 1 2\ndog 1 2\ncat 1 2\ndog 1 2\n", "line 4: 'dog' is already in line 2"),
        ("a.txt", b"the 1 2\ncaf\xe9 1 2\n", "line 2: not UTF-8"),
        ("a.txt", b"3 2\ndog 1 2\ncat 1 2\n", "its first line says 3 vectors, but it holds 2"),
        ("a.txt", b"1 2\ndog 1 2\ncat 1 2\n", "its first line says 1 vectors, but it holds 2"),
        ("a.txt", b"2 2\n", "its first line says 2 vectors, but it holds 0"),
        ("a.txt", b"0 2\n", "line 1: 0 vectors"),
        ("a.txt", b"2 3\ndog 1 2\ncat 1 2\n", "line 2: a word and 3 numbers"),
        ("a.txt", b"x" * (1 << 21), "line 1: a word and its numbers"),
        ("a.bin", b"", "is empty"),
        ("a.bin", b"dog 1 2\n", "line 1: a binary file of word vectors begins with a line"),
        ("a.bin", b"2 1\ndog \0\0\0\0cat \0\0", "vector 2: the file ends inside it"),
        ("a.bin", b"2 1\ndog \0\0\0\0cat", "vector 2: the file ends inside it"),
        ("a.bin", b"2 1\ndog \0\0\0\0", "its first line says 2 vectors, but it holds 1"),
        ("a.bin", b"1 1\ndog \0\0\xc0\x7f", "vector 1: a number is infinite or not a number"),
        ("a.bin", b"2 1\ndog \0\0\0\0dog \0\0\0\0", "vector 2: 'dog' is already in vector 1"),
        ("a.bin", b"1 1\ncaf\xe9 \0\0\0\0", "vector 1: not UTF-8"),
    ],
)
def test_a_broken_file_is_one_sentence(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        word_vectors.read(path, ["dog"])
    assert message in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)


def test_no_such_file_and_another_width(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        word_vectors.width_of(tmp_path / "none.txt")
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        word_vectors.read(tmp_path, ["dog"])
    with pytest.raises(UserError, match="holds vectors of 3 numbers where 400 are needed"):
        word_vectors.read(write(tmp_path, "glove.txt", WORDS), ["dog"], 400)


def test_nearest_by_hand(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "glove.txt",
        {
            "dog": [1.0, 0.0],
            "Dog": [1.0, 0.01],  # the same word
            "dogs2": [1.0, 0.0],  # not of letters alone
            "puppy": [3.0, 0.3],
            "cat": [1.0, 1.0],
            "nothing": [0.0, 0.0],
            "car": [-1.0, 0.0],
            "wolf": [1.0, 0.0],  # beyond the candidates
        },
    )
    found = word_vectors.nearest(path, ["dog", "absent", "nothing", "wolf"], 3, candidates=7)
    assert found == {"dog": ["puppy", "cat", "car"], "nothing": [], "wolf": ["dog", "Dog", "puppy"]}
    assert word_vectors.nearest(path, ["dog"], 50, candidates=7)["dog"] == ["puppy", "cat", "car"]
    assert word_vectors.nearest(path, [], 3) == {}


def test_nearest_in_blocks_is_nearest_at_once(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = random.standard_normal((700, 8))
    names = ["".join(chr(97 + int(digit)) for digit in f"{i:03d}") for i in range(len(rows))]
    path = write(tmp_path, "glove.txt", {n: r.tolist() for n, r in zip(names, rows, strict=True)})
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = unit @ unit.T - 2 * np.eye(len(rows))
    wanted = {name: [names[j] for j in np.argsort(-cosines[i])[:4]] for i, name in enumerate(names)}
    assert word_vectors.nearest(path, names, 4) == wanted
