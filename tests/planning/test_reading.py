"""What is told of texts that a teacher's tokenizer cuts, or does not know."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.answers import Faulty
from harness.contracts import Task
from harness.data.sources import Split
from harness.errors import UserError
from harness.modeling.word_tokenizer import word_level
from harness.planning.plan import resolve
from harness.planning.reading import SAMPLE, sample, unseen
from harness.planning.request import Request
from tests.conftest import Harness
from tests.teachers import generative_models

TASK = Task(name="mine", label="Mine", metric="accuracy", metrics=("accuracy",), labels=("x", "y"))


class Teacher:
    """Knows the words a, b and c."""

    name, members = "embedded", ()

    def tokenizer(self) -> object:
        return word_level(["a b c"], 0)


class Bytes(Teacher):
    """Ends each text by what stands for the unknown, as GPT-2's tokenizer calls it."""

    def tokenizer(self) -> object:
        found = word_level(["a b c"], 0)
        found.eos_token = found.unk_token
        return found


class Nobody(Teacher):
    def tokenizer(self) -> object:
        return None


class Away(Teacher):
    def tokenizer(self) -> object:
        raise UserError("not here")


class Both(Teacher):
    members = (Teacher(), Teacher())


def test_shares_are_of_texts_and_of_tokens() -> None:
    texts = [("a b",), ("a b c",), ("a b c a",), ("d",)]  # 2, 3, 4 and 1 tokens, 1 of 10 unknown
    cut = "about 25% of the texts of mine have more tokens than max_length 3, as teacher embedded reads them, and are"
    unknown = "about 10% of the tokens of mine are unknown to the tokenizer of teacher embedded: another may know them"
    unknown += ", as --teacher minilm (harness list teachers)"
    assert unseen(TASK, texts, Teacher(), 3) == [f"{cut} cut: the median has 2, the longest of a sample 4", unknown]
    assert unseen(TASK, texts, Teacher(), 4) == [unknown]
    assert unseen(TASK, texts[:3], Teacher(), 4) == unseen(TASK, texts, Away(), 1) == []
    assert unseen(TASK, texts, Both(), 4) == [unknown] and unseen(TASK, texts, Bytes(), 4) == []
    with pytest.raises(Faulty, match="tokenizer returned None, but must return a PreTrainedTokenizerBase"):
        unseen(TASK, texts, Nobody(), 4)


class Maskless(Teacher):
    """As GPT-2, without a token for a masked word."""

    def tokenizer(self) -> object:
        found = word_level(["a b c"], 0)
        found.mask_token = None
        return found


class Mixed(Teacher):
    name, members = "ensemble", (Teacher(), Maskless())


def test_a_tokenizer_without_a_mask_token_is_told_where_words_are_masked() -> None:
    texts = [("a b",), ("a b c",)]
    told = "the masked words of mine are read as the letters [MASK] by {}, for want of a mask token: encoders such as "
    assert unseen(TASK, texts, Maskless(), 4, masked=True) == [told.format("teacher embedded") + "BERT have one"]
    (mixed,) = unseen(TASK, texts, Mixed(), 4, masked=True)
    assert mixed.startswith(told.format("1 of the 2 members of teacher ensemble"))
    assert unseen(TASK, texts, Teacher(), 4, masked=True) == unseen(TASK, texts, Maskless(), 4) == []


@pytest.mark.parametrize(("way", "told"), [("masking", 1), ("masking+pos", 1), ("none", 0)])
def test_a_plan_tells_a_decoder_without_a_mask_token(tmp_path: Path, glue: Path, way: str, told: int) -> None:
    decoder = generative_models.checkpoint(tmp_path / "my_decoder", "gpt2")
    asked = {"data": str(glue), "tasks": ["sst2"], "objectives": ["logits"], "teacher": str(decoder)}
    plan = resolve(Request("augmentation", profile="small", overrides=(f"augmentation={way}",), **asked))
    assert sum("by teacher my_decoder, for want of a mask token" in sentence for sentence in plan.unseen) == told


def test_pairs_are_read_as_one() -> None:
    (told,) = unseen(replace(TASK, pair=True), [("a b", "c")], Teacher(), 2)
    assert told.startswith("about 100% of the pairs of mine") and "the median has 3" in told


@pytest.mark.parametrize("size", [1, SAMPLE, SAMPLE + 1, 2 * SAMPLE + 1])
def test_a_sample_is_spread_over_all_texts(size: int) -> None:
    texts = [str(number) for number in range(size)]
    found = sample(Split("train", texts, None, np.zeros(size, np.int64)))
    assert len(found) <= SAMPLE and found[0] == ("0",) and size - int(found[-1][0]) <= max(1, -(-size // SAMPLE))


def test_a_plan_tells_it_and_so_does_the_table(call: Harness, tmp_path: Path) -> None:
    rows = [f"{'the dog was great ' * 20}{number},{number % 2}" for number in range(40)]
    (tmp_path / "long.csv").write_text("\n".join(["text,label", *rows]))
    assert resolve(Request("objectives_vs_init", tasks=["sentiment"])).unseen == []
    words = ("--study", "objectives_vs_init", "--tasks", f"long={tmp_path / 'long.csv'}", "--objectives", "labels_only",
             "--inits", "random", "--seeds", 1, "--trials", 1, "--set", "epochs=1", "teacher.epochs=1")  # fmt: skip
    told = "bout 100% of the texts of long have more tokens than max_length 32"
    assert f"note: a{told}" in call("plan", *words).stdout
    done = call("run", *words, "--out", tmp_path / "out")
    assert done.returncode == 0 and f"harness: a{told}" in done.stderr and f"A{told}" in done.stdout
    assert f"A{told}" in call("report", "--study", "objectives_vs_init", "--out", tmp_path / "out").stdout
