"""The embedded teacher: its words, the weights it is shipped with, and the way from pre-training to a task."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch.nn.functional import cross_entropy
from transformers import BertForMaskedLM

from harness.contracts import IGNORED, Want
from harness.data import corpora
from harness.data.embedded import TRANSITIVE, TWINS, corpus, generate, truth, vocabulary
from harness.data.masking import MaskedText
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.evaluation.metrics import predictions_of, score
from harness.modeling.signals import emit
from harness.planning.plan import resolve
from harness.planning.request import Request
from harness.registry import TEACHERS
from harness.teachers import embedded_weights
from harness.teachers.embedded import EmbeddedTeacher
from tests.conftest import Harness
from tests.small_models import SCORE, THREE, TWO

TEACHER, ANEW = EmbeddedTeacher(), EmbeddedTeacher("train")


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


def test_the_embedded_corpus_is_text_that_it_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What students distil from its answers on this corpus is evidence only then."""
    monkeypatch.setattr(corpora, "SENTENCES", 500)
    tokenizer = TEACHER.tokenizer()
    text = MaskedText(corpora.tokenised("embedded", corpora.content("embedded"), tokenizer, 32, tmp_path), tokenizer)
    batch = text.batch(torch.arange(500), torch.device("cpu"))
    with torch.no_grad():
        scores = TEACHER.masked_language_model().eval()(**batch.encodings[0]).logits.flatten(0, 1)
    assert batch.targets is not None
    assert cross_entropy(scores, batch.targets.flatten(), ignore_index=IGNORED).item() < 0.7


def test_the_tokenizer_survives_saving(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    TEACHER.tokenizer().save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    pair = ("the dog sleeps .", "no cats ran .")
    assert dict(again(*pair)) == dict(TEACHER.tokenizer()(*pair))


def test_from_pretraining_to_a_task(tmp_path: Path) -> None:
    """The pre-trained encoder goes under a fresh head; the fine-tuned classifier comes back whole."""
    torch.manual_seed(0)
    pretrained = ANEW.masked_language_model()
    assert isinstance(pretrained, BertForMaskedLM)
    pretrained.save_pretrained(tmp_path / "pretrained")
    texts = encoding("the dog sleeps .", "no cats ran in the garden .")
    expected = emit(pretrained.eval(), texts, Want(sentence=True)).sentence
    torch.manual_seed(1)
    classifier = ANEW.model(THREE, tmp_path / "pretrained").eval()
    found = emit(classifier, texts, Want(logits=True, sentence=True))
    assert torch.equal(found.sentence, expected) and found.logits.shape == (2, 3)
    classifier.save_pretrained(tmp_path / "tuned")
    again = ANEW.model(THREE, tmp_path / "tuned").eval()
    assert torch.equal(emit(again, texts, Want(logits=True)).logits, found.logits)


@pytest.mark.parametrize(("task", "outputs"), [(TWO, 2), (THREE, 3), (SCORE, 1)])
def test_random_weights(task, outputs: int) -> None:
    model = ANEW.model(task, None)
    assert emit(model, encoding("the dog sleeps ."), Want(logits=True)).logits.shape == (1, outputs)
    assert not ANEW.answers(task)


def test_what_it_is_made_of_decides_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ANEW.content()
    assert first == EmbeddedTeacher("train").content()
    monkeypatch.setattr("harness.teachers.embedded.vocabulary", lambda: [*vocabulary(), "zebra"])
    assert ANEW.content() != first
    monkeypatch.undo()
    monkeypatch.setitem(ANEW.pretraining(), "steps", 1)
    assert ANEW.content() != first


def test_pretraining_and_recipe_name_known_settings() -> None:
    from harness.runs.settings import TRAINING

    for name, value in ANEW.recipe(TWO).items():
        assert TRAINING[name].check(name, value) == value
    assert ANEW.pretraining()["corpus"] == "grammar" and 0 < ANEW.pretraining()["mask_probability"] < 1


def test_it_takes_no_other_argument() -> None:
    with pytest.raises(UserError, match="embedded:large does not exist; use embedded or embedded:train"):
        EmbeddedTeacher("large")


# ---------------------------------------------------------------- the weights it is shipped with


def logits_of(name: str) -> np.ndarray:
    """(N, C) of the dev examples."""
    model = TEACHER.model(get_task(name), None).eval()
    firsts, seconds, _ = zip(*generate(name, 0)[1], strict=True)
    read = TEACHER.tokenizer()(list(firsts), list(seconds) if seconds[0] else None, padding=True, return_tensors="pt")
    with torch.inference_mode():
        return emit(model, dict(read), Want(logits=True)).logits.double().numpy()


@pytest.mark.parametrize("name", TWINS)
def test_it_answers_as_well_as_can_be(name: str) -> None:
    """Its score is a perfect reader's, and below what would be certain."""
    task = get_task(name)
    labels = np.array([label for *_, label in generate(name, 0)[1]])
    known = np.array(truth(name, 0)[1])
    assert TEACHER.answers(task) and TEACHER.pretraining() is None
    reached = score(task, predictions_of(task, logits_of(name)), labels)[task.metric]
    possible = score(task, known if name == "similarity" else known.round().astype(int), labels)[task.metric]
    assert possible - 0.03 <= reached <= possible + 0.01


def of_dev(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the teacher's probability of class 1, the true one, the label) of each dev example, (N,) each."""
    logits = logits_of(name)
    labels = np.array([label for *_, label in generate(name, 0)[1]])
    return np.exp(logits[:, 1]) / np.exp(logits).sum(1), np.array(truth(name, 0)[1]), labels


@pytest.mark.parametrize("name", ["acceptability", "sentiment", "paraphrase", "entailment"])
def test_it_is_as_sure_as_it_is_right(name: str) -> None:
    found, _, labels = of_dev(name)
    assert np.maximum(found, 1 - found).mean() == pytest.approx((found.round() == labels).mean(), abs=0.05)


@pytest.mark.parametrize("name", ["acceptability", "sentiment", "entailment"])
def test_its_doubts_are_those_of_the_labels(name: str) -> None:
    """Its probabilities are nearer to those that labels were drawn with than labels are, or one doubt for all."""
    found, known, labels = of_dev(name)
    doubt, true_doubt = np.minimum(found, 1 - found), np.minimum(known, 1 - known).round(6)
    for other in (np.abs(labels - known), np.abs(true_doubt.mean() - true_doubt)):
        assert np.abs(found - known).mean() < 0.75 * other.mean()
    clear, *_, vague = (doubt[true_doubt == level].mean() for level in np.unique(true_doubt))
    assert vague > 5 * clear


def test_it_predicts_masked_words() -> None:
    """The verb of a paraphrase, from the sentence before it."""
    tokenizer, model = TEACHER.tokenizer(), TEACHER.masked_language_model().eval()
    firsts, seconds, _ = zip(*generate("paraphrase", 0, 100)[1], strict=True)
    read = tokenizer(list(firsts), list(seconds), padding=True, return_tensors="pt")
    verbs = torch.tensor(tokenizer.convert_tokens_to_ids(list(TRANSITIVE)))
    masked = torch.isin(read["input_ids"], verbs) & (read["token_type_ids"] == 1)
    expected = read["input_ids"][masked]
    read["input_ids"] = read["input_ids"].masked_fill(masked, tokenizer.mask_token_id)
    with torch.inference_mode():
        found = model(**read).logits[masked].argmax(-1)
    assert len(found) == 100 and (found == expected).float().mean() > 0.9
    encoder = model.base_model.state_dict()
    untuned = TEACHER.untuned(get_task("entailment")).base_model.state_dict()
    assert all(torch.equal(untuned[name], weight) for name, weight in encoder.items())


def test_it_was_made_of_this_grammar_by_this_recipe() -> None:
    """Whoever changes one makes the weights anew: make embedded-teacher."""
    with safe_open(embedded_weights.FILE, "pt") as file:
        assert file.metadata()["made_of"] == ANEW.content()
    assert TEACHER.content() == embedded_weights.SHA256 and embedded_weights.FILE.stat().st_size < 1.5e6


@pytest.mark.parametrize("fault", ["damaged", "missing"])
def test_weights_that_are_not_those_released(
    fault: str, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "embedded.safetensors"
    if fault == "damaged":
        content = bytearray(embedded_weights.FILE.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    monkeypatch.setattr(embedded_weights, "FILE", file)
    process = call("run", "--study", "objectives_vs_init", "--out", tmp_path / "out")
    assert process.returncode == 2 and not (tmp_path / "out" / "ledger").exists()
    (told,) = process.stderr.splitlines()
    assert str(file) in told and "--teacher embedded:train" in told


def test_what_is_planned() -> None:
    """Shipped weights are only scored; those made anew are pre-trained once and fine-tuned for every task."""
    kinds = {}
    for name in ("embedded", "embedded:train"):
        plan = resolve(Request("objectives_vs_init", teacher=name))
        specifications = [made.run.specification() for made in plan.first.values()]
        kinds[name] = sorted((s["kind"], "evaluate_only" in s, "pretrained" in s["teacher"]) for s in specifications)
        assert plan.label == name
    assert kinds["embedded"] == [("teacher", True, False)] * 2
    assert kinds["embedded:train"] == [("pretraining", False, False), *[("teacher", False, True)] * 2]
