import hashlib
import json
from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, BertJapaneseTokenizer, CTRLTokenizer, PreTrainedTokenizerFast

from harness.data import stored
from harness.data.encoding import (
    batches_of_groups,
    encode,
    evaluation_batches,
    hold_out,
    subset_index,
    tokenizer_fingerprint,
    training_batches,
)
from harness.data.sources import Split

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "d", "e", "f")
CLS, SEP, A, B, C, D = (WORDS.index(word) for word in ("[CLS]", "[SEP]", "a", "b", "c", "d"))


def tokenizer_of(words=WORDS, unknown="[UNK]"):
    backend = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token=unknown))
    backend.pre_tokenizer = Whitespace()
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token=unknown, cls_token="[CLS]", sep_token="[SEP]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


PAIRS = Split("train", ["a b c", "a", "a b"], ["d", "d e f", "c"], np.array([1, 0, 1]))
SINGLES = Split("dev", ["a b c", "a", "a b c", "b"], None, np.array([0.5, 1.0, 2.0, 3.0], np.float32))


@pytest.mark.parametrize("data", [PAIRS, SINGLES])
def test_padding_is_on_the_right_whatever_the_tokenizer_says(data):
    """The first columns are kept when batches are cut, and the first token is taken for the whole."""
    left, right = tokenizer_of(), tokenizer_of()
    left.padding_side = "left"
    for pair_encoding in ("joint", "diffcat"):
        ours, expected = encode(data, left, pair_encoding, 32), encode(data, right, pair_encoding, 32)
        for sequence, other in zip(ours.sequences, expected.sequences, strict=True):
            assert all(torch.equal(tensor, other[name]) for name, tensor in sequence.items())
            assert (sequence["input_ids"][:, 0] == CLS).all()


def test_joint_pair_is_one_sequence_cut_to_the_longest_of_the_batch():
    data = encode(PAIRS, tokenizer_of(), "joint", 32)
    batch = data.batch(torch.tensor([2, 0]))
    assert batch.ids.tolist() == [2, 0] and batch.labels.tolist() == [1, 1]
    (encoding,) = batch.encodings
    assert encoding["input_ids"].tolist() == [[CLS, A, B, SEP, C, SEP, 0], [CLS, A, B, C, SEP, D, SEP]]
    assert encoding["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1, 1]]
    assert encoding["attention_mask"].tolist() == [[1] * 6 + [0], [1] * 7]
    assert {tensor.dtype for tensor in (*encoding.values(), batch.ids, batch.labels)} == {torch.int64}
    assert data.lengths.tolist() == [7, 7, 6]


@pytest.mark.parametrize("pair_encoding", ["diffcat", "compare"])
def test_pairs_encoded_apart_are_two_sequences_each_with_its_own_width(pair_encoding):
    data = encode(PAIRS, tokenizer_of(), pair_encoding, 32)
    first, second = data.batch(torch.tensor([0, 2])).encodings
    assert first["input_ids"].tolist() == [[CLS, A, B, C, SEP], [CLS, A, B, SEP, 0]]
    assert second["input_ids"].tolist() == [[CLS, D, SEP], [CLS, C, SEP]]
    assert data.lengths.tolist() == [8, 8, 7]


def test_single_sentences_regression_and_length_limit():
    data = encode(SINGLES, tokenizer_of(), "joint", 4)
    batch = data.batch(torch.tensor([0, 1]))
    assert batch.encodings[0]["input_ids"].tolist() == [[CLS, A, B, SEP], [CLS, A, SEP, 0]]
    assert batch.labels.tolist() == [0.5, 1.0] and batch.labels.dtype == torch.float32


def test_subset_keeps_ids_and_keys():
    data = encode(SINGLES, tokenizer_of(), "joint", 8)
    part = data.subset(torch.tensor([3, 1]))
    assert part.ids.tolist() == [3, 1] and part.labels.tolist() == [3.0, 1.0] and len(part) == 2
    assert part.keys.tolist() == data.keys[[3, 1]].tolist()
    batch, same = part.batch(torch.tensor([0])), data.batch(torch.tensor([3]))
    assert batch.ids.tolist() == same.ids.tolist()
    assert torch.equal(batch.encodings[0]["input_ids"], same.encodings[0]["input_ids"])


def test_keys_are_of_the_texts():
    data = encode(SINGLES, tokenizer_of(), "joint", 8)
    assert data.keys[0] == data.keys[2] and len(set(data.keys.tolist())) == 3
    assert data.keys.dtype == np.uint64
    # fixed, because stored teacher outputs are found by them
    assert int(data.keys[1]) == int.from_bytes(hashlib.blake2b(b"a", digest_size=8).digest(), "little")
    split = encode(Split("s", ["a b", "a"], ["c", "b c"], np.array([0, 1])), tokenizer_of(), "joint", 8)
    assert split.keys[0] != split.keys[1]


def test_fingerprint_survives_use_and_saving_and_tells_tokenizers_apart(tmp_path):
    tokenizer = tokenizer_of()
    known = tokenizer_fingerprint(tokenizer)
    tokenizer(["a b", "a"], padding=True, truncation=True, max_length=3)
    assert tokenizer_fingerprint(tokenizer) == known
    tokenizer.save_pretrained(tmp_path)
    assert tokenizer_fingerprint(AutoTokenizer.from_pretrained(tmp_path)) == known
    swapped = (*WORDS[:4], "b", "a", *WORDS[6:])
    assert tokenizer_fingerprint(tokenizer_of(swapped)) != known
    assert tokenizer_fingerprint(tokenizer_of(unknown="f")) != known


@pytest.mark.parametrize("changed", [{"truncation_side": "left"}, {"model_input_names": ["input_ids"]}])
def test_fingerprint_tells_which_end_is_cut_and_what_else_is_given(tmp_path, changed):
    tokenizer_of().save_pretrained(tmp_path)
    told = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**told, **changed}))
    other = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer_fingerprint(other) != tokenizer_fingerprint(tokenizer_of())
    other.save_pretrained(tmp_path / "again")
    assert tokenizer_fingerprint(AutoTokenizer.from_pretrained(tmp_path / "again")) == tokenizer_fingerprint(other)


def test_fingerprint_tells_the_rules_of_a_tokenizer_in_python(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "A")) + "\n")
    rules = {"vocab_file": str(tmp_path / "vocab.txt"), "word_tokenizer_type": "basic"}
    lower, cased = (BertJapaneseTokenizer(**rules, do_lower_case=lower) for lower in (True, False))
    assert tokenizer_fingerprint(lower) != tokenizer_fingerprint(cased)
    cased.save_pretrained(tmp_path / "saved")
    again = BertJapaneseTokenizer.from_pretrained(tmp_path / "saved")
    assert tokenizer_fingerprint(again) == tokenizer_fingerprint(cased)


def test_fingerprint_tells_which_pieces_a_tokenizer_in_python_joins_first(tmp_path):
    (tmp_path / "vocab.json").write_text(json.dumps({"<unk>": 0, "a@@": 1, "b@@": 2, "b": 3, "ab@@": 4, "bb": 5}))
    found = []
    for merges in ("a b\nb b</w>\n", "b b</w>\na b\n"):
        (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}")
        tokenizer = CTRLTokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
        tokenizer.save_pretrained(tmp_path / "saved")
        again = CTRLTokenizer.from_pretrained(tmp_path / "saved")
        assert tokenizer_fingerprint(again) == tokenizer_fingerprint(tokenizer)
        found.append((tokenizer.tokenize("abb"), tokenizer_fingerprint(tokenizer)))
    assert found[0][0] != found[1][0] and found[0][1] != found[1][1]


sizes = st.lists(st.integers(1, 40), min_size=1, max_size=400).map(torch.tensor)


@given(sizes, st.integers(1, 9), st.integers(0, 3))
def test_every_example_once_in_full_batches(lengths, batch_size, epoch):
    for batches in (training_batches(lengths, batch_size, 7, epoch), evaluation_batches(lengths, batch_size)):
        assert sorted(torch.cat(batches).tolist()) == list(range(len(lengths)))
        assert sorted(map(len, batches))[1:] == [batch_size] * (len(batches) - 1)


def test_training_batches_follow_seed_and_epoch_alone():
    lengths = torch.randint(3, 40, (500,), generator=torch.Generator().manual_seed(1))
    known = torch.cat(training_batches(lengths, 8, 3, 1)).tolist()
    torch.manual_seed(99)
    assert torch.cat(training_batches(lengths, 8, 3, 1)).tolist() == known
    assert torch.cat(training_batches(lengths, 8, 3, 2)).tolist() != known
    assert torch.cat(training_batches(lengths, 8, 4, 1)).tolist() != known


def test_batches_hold_examples_of_like_length():
    lengths = torch.randint(3, 40, (2000,), generator=torch.Generator().manual_seed(1))

    def padded(batches):
        return sum(len(batch) * int(lengths[batch].max()) for batch in batches)

    grouped, real = training_batches(lengths, 20, 0, 0), int(lengths.sum())
    assert padded(grouped) < 1.05 * real
    assert padded(torch.randperm(2000, generator=torch.Generator().manual_seed(2)).split(20)) > 1.5 * real
    assert padded(evaluation_batches(lengths, 20)) < 1.02 * real
    longest = [int(lengths[batch].max()) for batch in grouped]
    assert longest != sorted(longest)


@given(st.integers(2, 3000), st.text("0123456789abcdef", min_size=1, max_size=8))
def test_hold_out_parts_the_data(size, content):
    train, held = hold_out(size, content)
    assert sorted([*train.tolist(), *held.tolist()]) == list(range(size))
    assert len(held) == max(size // 10, 1)
    assert torch.equal(hold_out(size, content)[1], held)


# ---------------------------------------------------------------- candidates that are ranked

questions = st.lists(st.integers(0, 60), min_size=2, max_size=300).map(torch.tensor)


@given(questions, st.integers(1, 9), st.integers(0, 3))
def test_candidates_of_a_question_are_one_batchs(groups, batch_size, epoch):
    lengths = torch.randint(3, 40, (len(groups),), generator=torch.Generator().manual_seed(1))
    batches = batches_of_groups(lengths, groups, batch_size, 7, epoch)
    assert sorted(torch.cat(batches).tolist()) == list(range(len(groups)))
    held = [set(groups[batch].tolist()) for batch in batches]
    assert sum(map(len, held)) == len(set(groups.tolist()))
    most = int(torch.bincount(groups).max())
    assert max(map(len, batches)) <= batch_size + most - 1
    assert most > batch_size or len(batches) == -(-len(groups) // batch_size), "schedules count on it in every epoch"
    again = batches_of_groups(lengths, groups, batch_size, 7, epoch)
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in batches]


def test_questions_of_like_length_come_together_in_another_order_each_epoch():
    draw = torch.Generator().manual_seed(1)
    groups, lengths = torch.arange(1000).repeat(2), torch.randint(3, 40, (1000,), generator=draw).repeat(2)
    batches = batches_of_groups(lengths, groups, 20, 0, 0)
    assert {len(batch) for batch in batches} == {20}
    assert sum(20 * int(lengths[batch].max()) for batch in batches) < 1.05 * int(lengths.sum())
    assert torch.cat(batches).tolist() != torch.cat(batches_of_groups(lengths, groups, 20, 0, 1)).tolist()


@given(questions, st.text("0123456789abcdef", min_size=1, max_size=8), st.integers(1, 200))
def test_no_question_is_held_out_in_part(groups, content, count):
    train, held = hold_out(len(groups), content, groups=groups)
    assert sorted([*train.tolist(), *held.tolist()]) == list(range(len(groups)))
    first = int((groups == groups[held[0]]).sum())
    assert 1 <= len(held) <= max(len(groups) // 10, first)
    if len(set(groups.tolist())) > 1:
        assert not set(groups[train].tolist()) & set(groups[held].tolist())
    few, more = (subset_index(train, n, content, groups) for n in (count, count + 20))
    assert set(few.tolist()) <= set(more.tolist()) <= set(train.tolist()) and len(few) == min(count, len(train))
    cut = [q for q in set(groups[few].tolist()) if (groups[few] == q).sum() < (groups[train] == q).sum()]
    assert len(cut) <= 1


def test_candidates_keep_their_question_in_parts_and_on_disk(tmp_path):
    split = Split("train", ["a b", "a", "a b", "c"], ["c", "b", "d", "a"], np.array([0, 1, 1, 0]))
    assert encode(split, tokenizer_of(), "joint", 8).groups is None
    data = encode(split, tokenizer_of(), "joint", 8, ranking=True)
    assert data.groups[0] == data.groups[2] and len(set(data.groups.tolist())) == 3
    stored.write(tmp_path, [data])
    (read,) = stored.read(tmp_path)
    index = torch.tensor([2, 1])
    for one in (data, read):
        assert one.subset(index).batch(torch.tensor([0])).groups.tolist() == [int(data.groups[2])]
    assert [batch.tolist() for batch in read.batches(1, 0, 0)] == [batch.tolist() for batch in data.batches(1, 0, 0)]
    assert sorted(map(len, data.batches(1, 0, 0))) == [1, 1, 2]


def test_hold_out_depends_on_the_data_and_is_limited():
    assert len(hold_out(100_000, "x")[1]) == 2000
    assert hold_out(1000, "x")[1].tolist() != hold_out(1000, "y")[1].tolist()


@given(st.integers(1, 60), st.integers(1, 60))
def test_fewer_examples_are_among_more(count, more):
    train, held = hold_out(50, "content")
    few, many = (set(subset_index(train, min(n, count + more), "content").tolist()) for n in (count, count + more))
    assert few <= many <= set(train.tolist())
    assert len(few) == min(count, len(train)) and not many & set(held.tolist())


def test_every_tensor_of_an_encoded_split_has_a_row_an_example():
    data = encode(PAIRS, tokenizer_of(), "diffcat", 16, ranking=True)
    assert {field.name for field in fields(data)} == {"ids", "labels", "keys", "sequences", "sizes", "groups"}
    rows = [data.ids, data.labels, data.keys, *data.sizes, *(t for s in data.sequences for t in s.values())]
    assert {len(row) for row in rows} == {3}
