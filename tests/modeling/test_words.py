"""The word-level tokenizer: what is a word, which words are known, and what stands for the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from harness.data.encoding import tokenizer_fingerprint
from harness.errors import UserError
from harness.modeling.word_tokenizer import WORD, word_level

TEXTS = ("The dog saw a cat.", "the CAT ran", "The the")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't stop!", ["don't", "stop", "!"]),
        ("'tis the dogs' café’s", ["'tis", "the", "dogs", "'", "café’s"]),
        ("A--b  c_d 3.5\t$x", ["a", "-", "-", "b", "c_d", "3", ".", "5", "$", "x"]),
        ("rock'n'roll", ["rock'n'roll"]),
        ("Ünïcode ÉTÉ 中文", ["ünïcode", "été", "中文"]),
        (" \n ", []),
        ("", []),
    ],
)
def test_what_is_a_word(text: str, words: list[str]) -> None:
    assert word_level([text, "x"], 0).tokenize(text) == words


def test_the_commonest_words_are_known_and_ties_go_by_the_word() -> None:
    """the 4, cat 2, then ".", a, dog, ran, saw once each."""
    order = ["[PAD]", "[UNK]", "the", "cat", ".", "a", "dog", "ran", "saw"]
    for size in (0, 1, 3, 7, 100):
        tokenizer = word_level(TEXTS, size)
        known = order[: 2 + size] if size else order
        assert tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))) == known
    assert word_level(TEXTS, 2)("The dog, the CAT")["input_ids"] == [2, 1, 1, 2, 3]


def test_nothing_is_added_and_an_empty_text_has_no_tokens() -> None:
    read = word_level(TEXTS, 0)(["the cat", ""], padding=True)
    assert read["input_ids"] == [[2, 3], [0, 0]] and read["attention_mask"] == [[1, 1], [0, 0]]
    assert set(read) == {"input_ids", "attention_mask"}
    assert word_level(TEXTS, 0)("the cat ran", truncation=True, max_length=2)["input_ids"] == [2, 3]


def test_a_masked_word_is_an_unknown_one() -> None:
    tokenizer = word_level([*TEXTS, "[unk] [UNK]s"], 0)
    assert (tokenizer.mask_token, tokenizer.unk_token, tokenizer.pad_token) == ("[UNK]", "[UNK]", "[PAD]")
    assert (tokenizer.mask_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id) == (1, 1, 0)
    assert tokenizer("the [UNK] ran")["input_ids"] == tokenizer("the xyzzy ran")["input_ids"]
    assert tokenizer.tokenize("[unk] a") == ["[", "unk", "]", "a"]


def test_masks_in_the_texts_are_no_words() -> None:
    assert word_level(["the [UNK] ran", "[UNK]"], 0).get_vocab() == {"[PAD]": 0, "[UNK]": 1, "ran": 2, "the": 3}


@pytest.mark.parametrize("texts", [[], [""], [" \t", "\n"], ["[UNK]"]])
def test_no_word_at_all(texts: list[str]) -> None:
    with pytest.raises(UserError, match="none of them contains a word"):
        word_level(texts, 10)


def test_it_goes_through_a_folder(tmp_path: Path) -> None:
    tokenizer = word_level(TEXTS, 4)
    tokenizer.save_pretrained(tmp_path)
    for again in (type(tokenizer).from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)):
        assert tokenizer_fingerprint(again) == tokenizer_fingerprint(tokenizer)
        assert again.get_vocab() == tokenizer.get_vocab() and again.mask_token == "[UNK]"
        for text in (*TEXTS, "Don't [UNK] it", "", "the [MASK]"):
            assert dict(again(text)) == dict(tokenizer(text))
        assert list(again(["a"])) == ["input_ids", "attention_mask"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("aB'’ .-é!\n", min_size=1, max_size=12), min_size=1, max_size=5))
def test_every_word_of_the_texts_is_known_whatever_their_order(texts: list[str]) -> None:
    words = [re.findall(WORD, text.lower()) for text in texts]
    if not any(words):
        return
    tokenizer = word_level(texts, 0)
    assert [tokenizer.tokenize(text) for text in texts] == words
    assert not any(1 in ids for ids in tokenizer(texts)["input_ids"])
    assert set(tokenizer.get_vocab()) == {"[PAD]", "[UNK]", *(word for found in words for word in found)}
    assert tokenizer_fingerprint(word_level(texts[::-1], 0)) == tokenizer_fingerprint(tokenizer)
