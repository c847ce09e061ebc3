"""The teacher made from nothing: its words, its models, and the way from pre-training to a task."""

from pathlib import Path

import pytest
import torch
from transformers import BertForMaskedLM

from harness.contracts import Want
from harness.data.embedded import corpus, vocabulary
from harness.errors import UserError
from harness.modeling.signals import emit
from harness.registry import TEACHERS
from teachers.embedded import EmbeddedTeacher
from tests.modeling.small_models import SCORE, THREE, TWO

TEACHER = EmbeddedTeacher()


def encoding(*texts: str) -> dict[str, torch.Tensor]:
    return dict(TEACHER.tokenizer()(list(texts), padding=True, return_tensors="pt"))


def test_info() -> None:
    info = TEACHERS.get("embedded")().info(THREE)
    assert (info.layers, info.width, info.heads, info.labels) == (4, 64, 4, 3)
    assert info.vocabulary == 5 + len(vocabulary())


def test_every_word_of_the_grammar_is_one_token() -> None:
    tokenizer = TEACHER.tokenizer()
    for text in corpus(200):
        ids = tokenizer(*text)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert len(ids) == sum(len(part.split()) + 1 for part in text) + 1 <= tokenizer.model_max_length
    assert tokenizer("The DOG sleeps.")["input_ids"] == tokenizer("the dog sleeps .")["input_ids"]
    assert tokenizer("xylophone")["input_ids"][1] == tokenizer.unk_token_id


def test_pairs_have_two_segments() -> None:
    found = TEACHER.tokenizer()("the dog", "a cat .")
    assert found["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1, 1]
    tokens = TEACHER.tokenizer().convert_ids_to_tokens(found["input_ids"])
    assert tokens[0] == "[CLS]" and tokens[3] == tokens[-1] == "[SEP]"


def test_the_tokenizer_survives_saving(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    TEACHER.tokenizer().save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    pair = ("the dog sleeps .", "no cats ran .")
    assert dict(again(*pair)) == dict(TEACHER.tokenizer()(*pair))


def test_from_pretraining_to_a_task(tmp_path: Path) -> None:
    """The pre-trained encoder goes under a fresh head; the fine-tuned classifier comes back whole."""
    torch.manual_seed(0)
    pretrained = TEACHER.masked_language_model()
    assert isinstance(pretrained, BertForMaskedLM)
    pretrained.save_pretrained(tmp_path / "pretrained")
    texts = encoding("the dog sleeps .", "no cats ran in the garden .")
    expected = emit(pretrained.eval(), texts, Want(sentence=True)).sentence
    torch.manual_seed(1)
    classifier = TEACHER.model(THREE, tmp_path / "pretrained").eval()
    found = emit(classifier, texts, Want(logits=True, sentence=True))
    assert torch.equal(found.sentence, expected) and found.logits.shape == (2, 3)
    classifier.save_pretrained(tmp_path / "tuned")
    again = TEACHER.model(THREE, tmp_path / "tuned").eval()
    assert torch.equal(emit(again, texts, Want(logits=True)).logits, found.logits)


@pytest.mark.parametrize(("task", "outputs"), [(TWO, 2), (THREE, 3), (SCORE, 1)])
def test_random_weights(task, outputs: int) -> None:
    model = TEACHER.model(task, None)
    assert emit(model, encoding("the dog sleeps ."), Want(logits=True)).logits.shape == (1, outputs)
    assert not TEACHER.answers(task)


def test_what_it_is_made_of_decides_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    first = TEACHER.content()
    assert first == EmbeddedTeacher().content()
    monkeypatch.setattr("teachers.embedded.vocabulary", lambda: [*vocabulary(), "zebra"])
    assert TEACHER.content() != first
    monkeypatch.undo()
    monkeypatch.setitem(TEACHER.pretraining(), "steps", 1)
    assert TEACHER.content() != first


def test_pretraining_and_recipe_name_known_settings() -> None:
    from harness.training.settings import TRAINING

    for name, value in TEACHER.recipe(TWO).items():
        assert TRAINING[name].check(name, value) == value
    assert TEACHER.pretraining()["corpus"] == "grammar" and 0 < TEACHER.pretraining()["mask_probability"] < 1


def test_it_takes_no_argument() -> None:
    with pytest.raises(UserError, match="takes no argument"):
        EmbeddedTeacher("large")
