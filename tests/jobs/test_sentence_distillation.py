"""Distillation on the sentences of a corpus: what is learnt and recorded, and the teacher's vectors on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, PreTrainedTokenizerBase

from harness.contracts import Batch, Want
from harness.data import corpora, loading
from harness.data.encoding import hold_out
from harness.data.tasks import get_task
from harness.files import sealed
from harness.jobs.corpus import corpus_distillation
from harness.jobs.examples import examples_of, reader_of
from harness.jobs.perform import perform
from harness.modeling.bases import StudentConfig
from harness.registry import STUDENTS, TEACHERS
from harness.runs import CorpusDistillationRun, StudentRun
from harness.runs.settings import GENERAL_TRAINING
from harness.teaching.sentences import SentenceTeacher, part_of
from harness.training.work import Work
from harness.training.workspace import Workspace, teacher_tokenizer
from tests.conftest import BAD, GOOD, SUBJECTS
from tests.training.builders import BASE, a_run, ignore, settings, workspace_of

SENTENCES = [
    f"the {one} and the {other} was {'not ' * (n % 3)}{word} ."
    for n, (one, other, word) in enumerate((a, b, w) for a in SUBJECTS for b in SUBJECTS for w in GOOD[:2] + BAD[:2])
]  # 144 of 8 to 10 words
HELD = 2  # 2% of them
Found = dict[str, Any]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "sentences.txt"
    path.write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
    return path


@pytest.fixture(scope="module")
def workspace(corpus: Path, checkpoint: Path, glue: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return workspace_of(tmp_path_factory.mktemp("runs"), checkpoint, source=str(glue), corpus=str(corpus))


@pytest.fixture
def empty(workspace: Workspace, tmp_path: Path) -> Workspace:
    """A place where nothing was run yet."""
    return replace(workspace, runs=tmp_path, cache=tmp_path / "cache")


def asked(workspace: Workspace, vocabulary: str = "words", **changes: Any) -> CorpusDistillationRun:
    sizes = {"hidden_units": 16, "embedding_size": 16, "head_units": 8, "projection": "teacher_width"}
    own = {f"bilstm.{name}": value for name, value in (sizes | {"vocabulary": vocabulary}).items()}
    common = {name: h.default for name, h in GENERAL_TRAINING.items()} | {
        "text": "sentences", "max_length": 16, "batch_size": 16, "learning_rate": 0.01, "epochs": 3,
    }  # fmt: skip
    teacher = replace(BASE, content=TEACHERS.get("huggingface")(workspace.teacher.argument).content())
    return a_run(
        CorpusDistillationRun, corpus=corpora.content(workspace.corpus), teacher=teacher, student="bilstm",
        objective="cosine", settings=common | own | changes,
    )  # fmt: skip


def run(asked_for: CorpusDistillationRun, workspace: Workspace, name: str) -> Found:
    folder = workspace.runs / name
    folder.mkdir(exist_ok=True)
    record, predictions = corpus_distillation(asked_for, Work(replace(workspace, run=folder), ignore))
    assert predictions is None
    (folder / "record.json").write_text("{}")
    return record


@pytest.fixture(scope="module")
def own_words(workspace: Workspace) -> Found:
    return run(asked(workspace), workspace, "words")


@pytest.fixture(scope="module")
def same_tokens(workspace: Workspace) -> Found:
    return run(asked(workspace, "teacher"), workspace, "tokens")


def held_out(workspace: Workspace) -> list[str]:
    index = hold_out(len(SENTENCES), corpora.content(workspace.corpus), 0.02)[1]
    assert len(index) == HELD
    return [SENTENCES[i] for i in index.tolist()]


def saved(workspace: Workspace, name: str) -> tuple[Any, PreTrainedTokenizerBase]:
    """The student as it was kept, and what it reads with."""
    folder = workspace.runs / name / "weights"
    config = StudentConfig.from_pretrained(folder)
    student = STUDENTS.get("bilstm")(config)
    student.load_state_dict(load_file(folder / "model.safetensors"))
    return student.double().eval(), reader_of(a_run(StudentRun, student="bilstm", init=f"pretrained:{name}"), workspace)


def vector(student: Any, reader: PreTrainedTokenizerBase, sentence: str) -> np.ndarray:
    ids = torch.tensor([reader(sentence)["input_ids"]])
    batch = Batch(torch.zeros(1), torch.zeros(1), ({"input_ids": ids, "attention_mask": torch.ones_like(ids)},))
    with torch.no_grad():
        found: np.ndarray = student(batch, Want(sentence=True)).sentence[0].numpy()
    return found


def vectors(workspace: Workspace, sentences: list[str]) -> list[np.ndarray]:
    """The first token's state in the teacher's last layer, of each sentence read alone."""
    model, reader = AutoModel.from_pretrained(workspace.teacher.argument).eval(), teacher_tokenizer(workspace)
    with torch.no_grad():
        read = [model(torch.tensor([reader(sentence)["input_ids"]])) for sentence in sentences]
    return [found.last_hidden_state[0, 0].double().numpy() for found in read]


# ---------------------------------------------------------------- what is learnt


@pytest.mark.parametrize("kind", ["own_words", "same_tokens"])
def test_the_loss_is_that_of_the_held_out_sentences(
    kind: str, workspace: Workspace, request: pytest.FixtureRequest
) -> None:
    record = request.getfixturevalue(kind)
    student, reader = saved(workspace, "words" if kind == "own_words" else "tokens")
    sentences = held_out(workspace)
    losses = []
    for sentence, theirs in zip(sentences, vectors(workspace, sentences), strict=True):
        ours = vector(student, reader, sentence)
        cosine = float(ours @ theirs / np.sqrt((ours @ ours) * (theirs @ theirs)))
        losses.append(0.5 * (1 - cosine))
    assert record["metrics"] == {"distillation_loss": pytest.approx(np.mean(losses), rel=1e-3, abs=1e-6)}
    assert 0 < record["metrics"]["distillation_loss"] < 0.1  # of opposite vectors it is 1, of unrelated ones 0.5


@pytest.mark.parametrize("kind", ["own_words", "same_tokens"])
def test_students_of_either_vocabulary_learn(kind: str, request: pytest.FixtureRequest) -> None:
    record = request.getfixturevalue(kind)
    losses = [entry["loss"] for entry in record["curve"]]
    first, second, third = (sum(losses[start : start + 9]) for start in (0, 9, 18))
    assert len(losses) == 27 and third < second < first
    assert (record["pieces"], record["teacher_signals"]) == (len(SENTENCES) - HELD, {"sentence": "stored"})


def test_each_keeps_what_it_reads_with(own_words: Found, same_tokens: Found, workspace: Workspace) -> None:
    """A vocabulary of its own is that of the sentences it was trained on."""
    words, tokens = (saved(workspace, name)[1] for name in ("words", "tokens"))
    assert tokens is teacher_tokenizer(workspace) and words is not tokens
    trained = set(SENTENCES) - set(held_out(workspace))
    expected = {word for sentence in trained for word in sentence.split()}
    assert set(words.get_vocab()) == {"[PAD]", "[UNK]"} | expected
    assert own_words["tokens"] == sum(len(sentence.split()) for sentence in trained)  # nothing is put around them
    assert same_tokens["tokens"] == own_words["tokens"] + 2 * len(trained)  # [CLS] and [SEP]


@pytest.mark.parametrize("fraction", [0.5, 0.25])
def test_a_fraction_of_the_sentences(fraction: float, workspace: Workspace) -> None:
    record = run(asked(workspace, fraction=fraction, epochs=1), workspace, f"fraction-{fraction}")
    assert record["pieces"] == (len(SENTENCES) - HELD) * fraction or record["pieces"] == 36  # 35.5 rounded up
    few = run(asked(workspace, fraction=fraction, epochs=1, pieces=40), workspace, f"few-{fraction}")
    assert few["pieces"] == 40 * fraction


def test_how_many_sentences_settings_leave() -> None:
    asked_for = [(0, 1.0), (0, 0.5), (0, 0.0001), (10, 1.0), (10, 0.25), (1000, 0.5)]
    found = [part_of(101, {"pieces": pieces, "fraction": fraction}) for pieces, fraction in asked_for]
    assert found == [101, 51, 1, 10, 3, 51]


# ---------------------------------------------------------------- the teacher's vectors on disk


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[int]]]:
    """The sentences of every call of the teacher, by their ids."""
    made: list[list[int]] = []
    compute = SentenceTeacher._compute

    def counted(self: SentenceTeacher, batch: Batch, want: Want) -> Any:
        made.append(batch.ids.tolist())
        return compute(self, batch, want)

    monkeypatch.setattr(SentenceTeacher, "_compute", counted)
    yield made


def stored(workspace: Workspace) -> Path:
    (file,) = (workspace.cache / "sentences").glob("*/sentence.f32")
    return file


def test_vectors_are_computed_once_and_made_again_where_they_are_damaged(
    calls: list[list[int]], empty: Workspace
) -> None:
    workspace = empty
    first = run(asked(workspace, epochs=2), workspace, "first")
    assert sorted(sum(calls, [])) == list(range(len(SENTENCES)))  # each once, of two epochs
    width = 32
    file = stored(workspace)
    found = np.fromfile(file, np.float32).reshape(-1, width)
    for row, expected in enumerate(vectors(workspace, SENTENCES)):
        np.testing.assert_allclose(found[row], expected, atol=1e-5)
    before, content = file.stat().st_mtime_ns, file.read_bytes()
    calls.clear()
    run(asked(workspace, "teacher", epochs=1, learning_rate=0.001), workspace, "second")
    assert not calls and stored(workspace).stat().st_mtime_ns == before
    file.write_bytes(content[:100] + bytes(4) + content[104:])
    again = run(asked(workspace, epochs=2), workspace, "damaged")
    assert sorted(sum(calls, [])) == list(range(len(SENTENCES))) and file.read_bytes() == content
    assert again["metrics"] == first["metrics"] and again["curve"] == first["curve"]


def test_a_share_has_vectors_of_its_own_sentences_alone(calls: list[list[int]], empty: Workspace) -> None:
    workspace = empty
    run(asked(workspace, fraction=0.5, epochs=1), workspace, "half")
    asked_of = sum(calls, [])
    held = set(hold_out(len(SENTENCES), corpora.content(workspace.corpus), 0.02)[1].tolist())
    assert len(set(asked_of)) == len(asked_of) == 71 + HELD and held < set(asked_of)
    assert stored(workspace).stat().st_size == 4 * 32 * len(asked_of)


def test_what_is_asked_beside_the_vector_is_computed(calls: list[list[int]], empty: Workspace) -> None:
    """A transformer that reads as the teacher does may learn more than the sentence vector."""
    alone = asked(empty, epochs=1, **{"transformer.layers": 2})
    both = replace(alone, student="transformer", init="every", objective="cosine+hid_seq")
    record = run(both, empty, "both")
    assert record["teacher_signals"] == {"hidden_states": "computed", "sentence": "stored"}
    assert len(calls) > len(record["curve"]) and record["metrics"]["distillation_loss"] > 0


# ---------------------------------------------------------------- what starts from it


def fine_tuned(workspace: Workspace, init: str, **changes: Any) -> StudentRun:
    own = {n: v for n, v in asked(workspace).settings.items() if n.startswith("bilstm.")}
    common = settings(max_length=16, epochs=1, train_examples=32, learning_rate=0.003)
    return a_run(
        StudentRun, task="rte", data=loading.load(get_task("rte"), workspace.source).content,
        teacher=asked(workspace).teacher, student="bilstm", init=init, objective="labels_only",
        settings=common | own | changes, pair_encoding="compare",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["words", "tokens"])
def test_a_fine_tuned_student_reads_as_the_one_it_starts_from(
    name: str, own_words: Found, same_tokens: Found, workspace: Workspace
) -> None:
    vocabulary = {"words": "words", "tokens": "teacher"}[name]
    tuned = fine_tuned(workspace, f"pretrained:{name}", **{"bilstm.vocabulary": vocabulary})
    reader, kept = reader_of(tuned, workspace), saved(workspace, name)[1]
    assert reader.get_vocab() == kept.get_vocab()
    text = "the Dog and the unheard-of cat was not great ."
    assert reader(text)["input_ids"] == kept(text)["input_ids"]
    if name == "words":  # from nothing its words are those of the task
        task = reader_of(fine_tuned(workspace, "random"), workspace)
        assert "unheard" not in reader.get_vocab() and task.get_vocab() != reader.get_vocab()
        new = {"funny", "weak"}  # of the task, and in no sentence of the corpus
        assert set(task.get_vocab()) - set(reader.get_vocab()) == new
        read = examples_of(tuned, workspace, reader).train.sequences[0]["input_ids"]
        assert reader.unk_token_id in read and read.max() == len(reader) - 1
    recorded = {"status": "finished", "specification": asked(workspace).specification()}
    (workspace.runs / name / "record.json").write_bytes(sealed(recorded))
    folder = workspace.runs / f"tuned-{name}"
    folder.mkdir()
    record, predictions = perform(tuned.specification(), replace(workspace, run=folder), ignore)
    assert record["initialisation"] == {"pretrained": name} and record["examples"] == 32
    assert predictions is not None and len(predictions["ids"]) == 40
