"""Which examples a run trains on, whose words it knows, and how student and teacher read the same augmented texts."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from harness.data import loading
from harness.data.encoding import Encoded, encode
from harness.data.sources import Split
from harness.data.tasks import get_task
from harness.files import digest
from harness.jobs.examples import Examples, examples_of, reader_of, texts_of
from harness.runs import CheckpointRun, JointRun, JointStudentRun, JointTeacherRun, Run, StudentRun, TaskRun, TeacherRun
from harness.runs.settings import Settings
from harness.training.workspace import Workspace, teacher_tokenizer
from tests.training.builders import a_run, settings, workspace_of

TRAINED, HELD_OUT = 108, 12  # of 120 sentences
KINDS = (StudentRun, TeacherRun, JointStudentRun, JointTeacherRun, CheckpointRun)


@pytest.fixture(scope="module")
def source(glue: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small GLUE folder, each sentence of SST-2's training part with a word that no other has."""
    folder = Path(shutil.copytree(glue, tmp_path_factory.mktemp("examples") / "glue"))
    train = folder / "SST-2" / "train.tsv"
    first, *lines = train.read_text().splitlines()
    train.write_text("\n".join([first, *(f"word{n} {line}" for n, line in enumerate(lines))]) + "\n")
    return folder


@pytest.fixture(scope="module")
def workspace(source: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    runs = tmp_path_factory.mktemp("runs")
    return workspace_of(runs, checkpoint, source=str(source))


def content(task: str, workspace: Workspace) -> str:
    return loading.load(get_task(task), workspace.source).content


def asked(workspace: Workspace, task: str = "sst2", kind: type[Run] = StudentRun, **changes: Any) -> Any:
    """A run of a kind; of several tasks what it is on this one."""
    data, given = content(task, workspace), settings(max_length=24, **changes)
    if not issubclass(kind, JointRun):
        return a_run(kind, task=task, data=data, settings=given)
    return a_run(kind, tasks={task: data}, metrics={task: "accuracy"}, settings=given).part(task)


def of_a_bilstm(workspace: Workspace, task: str = "sst2", **changes: Any) -> StudentRun:
    """A run of a student with words of its own."""
    return replace(asked(workspace, task, **changes), student="bilstm", pair_encoding="compare")


def read(run: TaskRun, workspace: Workspace) -> Examples:
    return examples_of(run, workspace, teacher_tokenizer(workspace))


def lines(encoded: Encoded, workspace: Workspace) -> list[int]:
    """Which sentences of SST-2's training part these are."""
    whole = encode(loading.load(get_task("sst2"), workspace.source).train, teacher_tokenizer(workspace), "joint", 24)
    found = {key: n for n, key in enumerate(whole.keys.tolist())}
    assert len(found) == TRAINED + HELD_OUT
    return [found[key] for key in encoded.keys.tolist()]


# ---------------------------------------------------------------- train_fraction


@hypothesis_settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shares=st.tuples(st.floats(0.001, 1.0), st.floats(0.001, 1.0)).map(sorted),
    kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
)
def test_a_smaller_share_is_part_of_a_larger_one(
    shares: list[float], kinds: tuple[type[Run], type[Run]], workspace: Workspace
) -> None:
    small, large = (
        read(asked(workspace, kind=kind, train_fraction=share), workspace)
        for kind, share in zip(kinds, shares, strict=True)
    )
    few, more = lines(small.train, workspace), lines(large.train, workspace)
    assert [len(few), len(more)] == [math.ceil(share * TRAINED) for share in shares]
    assert set(few) <= set(more) and len(set(few)) == len(few)
    # what epochs are chosen on is the same of every share, and nothing of it is trained on
    chosen = lines(small.selection, workspace)
    assert chosen == lines(large.selection, workspace) and len(chosen) == HELD_OUT and not set(chosen) & set(more)
    assert small.train.ids.tolist() == small.imitated.ids.tolist() == list(range(len(few)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_trains_on_the_same_share(kind: type[Run], workspace: Workspace) -> None:
    whole = lines(read(asked(workspace), workspace).train, workspace)
    half = lines(read(asked(workspace, train_fraction=0.5), workspace).train, workspace)
    assert lines(read(asked(workspace, kind=kind, train_fraction=0.5), workspace).train, workspace) == half
    assert len(half) == TRAINED // 2 and half != whole[: TRAINED // 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("share", "examples", "count"), [(0.5, 10, 5), (0.25, 10, 3), (1.0, 10, 10), (0.5, 9_999, 0)])
def test_a_share_is_of_the_examples_that_there_are(
    kind: type[Run], share: float, examples: int, count: int, workspace: Workspace
) -> None:
    """So rows of different shares differ where --set train_examples cuts all of them."""
    made = read(asked(workspace, kind=kind, train_fraction=share, train_examples=examples), workspace)
    limited = lines(read(asked(workspace, kind=kind, train_examples=examples), workspace).train, workspace)
    found = lines(made.train, workspace)
    assert len(found) == (count or TRAINED // 2) and set(found) <= set(limited)


@pytest.mark.parametrize("kind", KINDS)
def test_each_seed_may_have_examples_of_its_own(kind: type[Run], workspace: Workspace) -> None:
    """The same for whoever is trained with that seed, and what is held out is held out from all."""

    def drawn(seed: int, kind: type[Run] = kind, **changes: Any) -> Examples:
        run = asked(workspace, kind=kind, train_sample="each_seed", **{"train_examples": 30, **changes})
        return read(replace(run, seed=seed), workspace)

    one, own = asked(workspace, kind=kind, train_examples=30), [lines(drawn(seed).train, workspace) for seed in (0, 1)]
    same, held_out = (lines(part, workspace) for part in (read(one, workspace).train, drawn(1).selection))
    assert [len(set(found)) for found in (*own, same)] == [30] * 3
    assert own[0] != own[1] and same not in own and not {*own[0], *own[1]} & {*held_out}
    assert held_out == lines(read(one, workspace).selection, workspace)
    assert own[1] == lines(drawn(1, StudentRun).train, workspace)
    assert {*lines(drawn(1, train_fraction=0.5).train, workspace)} < {*own[1]}  # a smaller draw is part of a larger one
    assert replace(one, seed=1).identity({"train_sample": "one"}) == one_seed_more(one).identity({})


def one_seed_more(run: TaskRun) -> TaskRun:
    """The run with seed 1, as it was told before there were samples."""
    told = {name: value for name, value in run.settings.items() if name != "train_sample"}
    return replace(run, seed=1, settings=Settings(told))


def test_such_a_share_is_another_run_than_in_version_0_1(workspace: Workspace) -> None:
    made = asked(workspace, train_fraction=0.5, train_examples=10)
    before = digest(made.specification())[:16]  # no setting has its default's value where there are none
    assert made.identity({}) != before
    one = asked(workspace, train_examples=10)
    assert one.identity({}) == digest(one.specification())[:16]


def test_where_dev_chooses_nothing_is_held_out(workspace: Workspace) -> None:
    found = read(asked(workspace, protocol="published", train_fraction=0.25), workspace)
    assert len(found.train) == (TRAINED + HELD_OUT) / 4 and found.selection is found.dev[0]
    whole = read(asked(workspace, protocol="published"), workspace)
    assert len(whole.train) == TRAINED + HELD_OUT and set(found.train.keys) < set(whole.train.keys)


# ---------------------------------------------------------------- a student's own words


@pytest.mark.parametrize(
    "changes", [{}, {"train_fraction": 0.3}, {"train_examples": 20}, {"protocol": "published", "train_fraction": 0.3}]
)
def test_its_words_are_those_it_is_trained_on(changes: dict[str, Any], workspace: Workspace) -> None:
    trained_on = lines(read(asked(workspace, **changes), workspace).train, workspace)
    texts = loading.load(get_task("sst2"), workspace.source).train.text_a
    reader = reader_of(of_a_bilstm(workspace, **changes), workspace)
    assert set(reader.get_vocab()) == {"[PAD]", "[UNK]"} | {w for n in trained_on for w in texts[n].split()}
    assert trained_on and len(trained_on) < len(texts)


def test_what_is_held_out_has_unknown_words(workspace: Workspace) -> None:
    run = of_a_bilstm(workspace)
    reader = reader_of(run, workspace)
    found = examples_of(run, workspace, reader)
    # the first word of each sentence is its own
    assert not (found.train.sequences[0]["input_ids"][:, 0] == reader.unk_token_id).any()
    assert (found.selection.sequences[0]["input_ids"][:, 0] == reader.unk_token_id).all()


def test_a_student_of_several_tasks_knows_the_words_of_both_sentences_of_each(workspace: Workspace) -> None:
    tasks = {task: content(task, workspace) for task in ("sst2", "rte")}
    together = a_run(JointStudentRun, tasks=tasks, student="bilstm", settings=settings(train_fraction=0.1))
    known = reader_of(together, workspace).get_vocab()
    alone = {
        task: set(reader_of(of_a_bilstm(workspace, task, train_fraction=0.1), workspace).get_vocab()) for task in tasks
    }
    assert set(known) == alone["sst2"] | alone["rte"] and alone["sst2"] - alone["rte"]
    rows = read(asked(workspace, "rte", train_fraction=0.1), workspace).train
    whole = loading.load(get_task("rte"), workspace.source).train
    encoded = encode(whole, teacher_tokenizer(workspace), "joint", 24)
    second = {w for n, key in enumerate(encoded.keys) if key in rows.keys for w in (whole.text_b or [])[n].split()}
    assert second and second <= alone["rte"]
    listed = replace(together, tasks=dict(reversed(tasks.items())))
    assert reader_of(listed, workspace).get_vocab() == known


@pytest.mark.parametrize("augmentation", ["masking", "masking+pos"])
def test_augmented_texts_add_no_words(augmentation: str, workspace: Workspace) -> None:
    plain = reader_of(of_a_bilstm(workspace), workspace)
    more = reader_of(of_a_bilstm(workspace, augmentation=augmentation), workspace)
    assert more.get_vocab() == plain.get_vocab()


# ---------------------------------------------------------------- student and teacher read the same augmented texts


def tokens(ids: Any, mask: Any, reader: PreTrainedTokenizerBase) -> list[str]:
    return list(reader.convert_ids_to_tokens(ids[mask.bool()].tolist()))


@pytest.mark.parametrize("task", ["mrpc", "sst2"])
@pytest.mark.parametrize("augmentation", ["masking", "masking+pos"])
def test_both_sides_correspond_row_by_row(task: str, augmentation: str, workspace: Workspace, glue: Path) -> None:
    """Of the words that both know; the student reads pairs apart, the teacher together."""
    known = replace(workspace, source=str(glue))
    how = {"augmentation": augmentation, "augmentation_copies": 3, "augmentation_probability": 0.3}
    run = of_a_bilstm(known, task, **how)
    reader, theirs = reader_of(run, known), teacher_tokenizer(known)
    found = examples_of(run, known, reader)
    plain = examples_of(of_a_bilstm(known, task), known, reader)
    size = len(found.train)
    assert 2 * TRAINED < size <= 4 * TRAINED and len(found.imitated) == size
    assert np.array_equal(found.train.keys, found.imitated.keys)
    assert found.train.labels.equal(found.imitated.labels)
    assert found.train.ids.tolist() == found.imitated.ids.tolist() == list(range(size))
    assert len(found.train.sequences) == (2 if task == "mrpc" else 1) and len(found.imitated.sequences) == 1
    masked = 0
    for row in range(size):
        ours = [tokens(s["input_ids"][row], s["attention_mask"][row], reader) for s in found.train.sequences]
        joint = found.imitated.sequences[0]
        words = tokens(joint["input_ids"][row], joint["attention_mask"][row], theirs)
        masked += words.count("[MASK]")
        assert words[0] == "[CLS]" and "[UNK]" not in words
        own = " ".join(words[1:]).replace("[MASK]", "[UNK]")  # its mask is its unknown word
        assert own == "".join(f"{' '.join(side)} [SEP] " for side in ours).strip()
    assert masked > 0.1 * size
    # neither what chooses epochs nor what is reported is augmented
    for augmented, other in zip((found.selection, *found.dev), (plain.selection, *plain.dev), strict=True):
        assert np.array_equal(augmented.keys, other.keys)


def test_a_masked_word_is_each_tokenizers_own() -> None:
    vocabulary = {"<pad>": 0, "<unk>": 1, "<mask>": 2, "the": 3, "was": 4}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    other = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", mask_token="<mask>"
    )
    split = Split("train", ["the [MASK] was", "[MASK]"], ["[MASK] [MASK]", "was"], np.array([0, 1]))
    encoded = encode(split, other, "compare", 8)
    assert [s["input_ids"].tolist() for s in encoded.sequences] == [[[3, 2, 4], [2, 0, 0]], [[2, 2], [4, 0]]]
    without = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>")
    assert encode(split, without, "compare", 8).sequences[1]["input_ids"].tolist() == [[1, 1], [4, 0]]
    assert np.array_equal(encode(split, without, "joint", 8).keys, encoded.keys)


def test_copies_that_have_dev_and_held_out_texts_are_counted(workspace: Workspace, monkeypatch: Any) -> None:
    _, held_out, (dev, *_) = texts_of(asked(workspace), workspace)
    more = [dev.text_a[0], dev.text_a[1], dev.text_a[0], held_out.text_a[0], "a text of neither"]

    def with_more(split: Split, *_: object) -> Split:
        return Split(split.name, [*split.text_a, *more], None, np.append(split.labels, [0] * len(more)))

    monkeypatch.setattr("harness.jobs.examples.augmented", with_more)
    run = asked(workspace, augmentation="masking+pos")
    dev_texts = sum(text in more for text in dev.text_a)  # some of which it has twice
    assert examples_of(run, workspace, teacher_tokenizer(workspace)).recreated == {"dev": dev_texts, "held_out": 1}
    assert 2 <= dev_texts < len(dev.text_a)
    more[:] = [texts_of(run, workspace)[0].text_a[0]]  # a text that is trained on anyway
    assert examples_of(run, workspace, teacher_tokenizer(workspace)).recreated == {"dev": 0, "held_out": 0}
