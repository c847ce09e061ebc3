"""General distillation through the command line: what is trained, shared, recorded and kept, and what is refused."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from harness.contracts import IGNORED
from harness.data import corpora
from harness.data.encoding import hold_out
from harness.data.masking import MaskedText
from harness.files import read_sealed
from harness.planning.planned import Cell, Plan
from harness.runs import BaseTeacher, StudentRun
from tests.conftest import VOCABULARY, Harness
from tests.results import done, records, refused, written

STUDY = ("run", "--study", "general_vs_task_specific", "--tasks", "sst2", "--seeds", "1", "--trials", "1")
SIZES = ("student.matrix_size=4", "student.vector_size=16")
TASK = ("epochs=1", "train_examples=64", "max_length=16", "teacher.epochs=1")
CORPUS = ("general.pieces=80", "general.max_length=16")
TOKENS = 10  # of every sentence: eight words between [CLS] and [SEP]

Process = subprocess.CompletedProcess[str]
Run = Callable[..., Process]


@pytest.fixture(scope="module")
def corpus(glue: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sentences of SST-2's training part, one a line."""
    lines = (glue / "SST-2" / "train.tsv").read_text().splitlines()[1:]
    path = tmp_path_factory.mktemp("corpus") / "sentences.txt"
    path.write_text("\n".join(line.split("\t")[0] for line in lines) + "\n")
    return path


@pytest.fixture(scope="module")
def run(call: Harness, glue: Path, checkpoint: Path, corpus: Path) -> Run:
    """run(out, *words, settings=..., corpus=..., teacher=...): the small study, in one worker."""

    def runs(
        out: Path,
        *words: object,
        settings: tuple[str, ...] = (*SIZES, *TASK, *CORPUS),
        corpus: Path | None = corpus,
        teacher: Path = checkpoint,
    ) -> Process:
        text = ("--corpus", corpus) if corpus else ()
        common = ("--data", glue, "--teacher", teacher, "--out", out, "--workers", "1", *text)
        return call(*STUDY, *common, *words, "--set", *settings)

    return runs


def only(out: Path, kind: str) -> tuple[str, dict[str, Any]]:
    ((run, record),) = records(out, kind).items()
    return run, record


def cells(out: Path) -> dict[str, Cell]:
    path = max(out.glob("*/*/**/plan.json"), key=lambda path: path.stat().st_mtime_ns)  # of the last request
    return {cell.row: cell for cell in Plan.from_json(json.loads(path.read_text())).cells}


TRANSFORMERS = """
from harness.contracts import Profile, Row, Study
from harness.registry import study

OBJECTIVES = ("mlm_kd", "hid_seq", "att_kl", "mlm_kd+0.1*hid_seq", "vanilla_kd", "hid_cls_contrast")
PROFILE = Profile("embedded", ("sst2",), ("every",), trials=1, seeds=1, settings={"transformer.layers": 2})

study(
    Study(
        name="transformers_on_a_corpus",
        title="Generally distilled transformers",
        question="Does a transformer distil on unlabelled text?",
        procedure="general",
        rows=tuple(Row(name, name, name) for name in OBJECTIVES),
        students=("transformer",),
        profiles={"quick": PROFILE},
    )
)
"""


@pytest.fixture(scope="module")
def transformers(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """The words that choose a study of our own, whose profile names no corpus."""
    plugin = tmp_path_factory.mktemp("plugin") / "mine.py"
    plugin.write_text(TRANSFORMERS)
    return ("--plugin", plugin, "--study", "transformers_on_a_corpus")


@pytest.fixture(scope="module")
def study(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the whole small study."""
    out = tmp_path_factory.mktemp("study") / "out"
    assert "5 runs trained" in done(run(out)).stdout
    return out


# ---------------------------------------------------------------- the study


def test_every_row_is_complete_and_one_distillation_serves_two(study: Path) -> None:
    kinds = [record["specification"]["kind"] for record in records(study).values()]
    assert sorted(kinds) == ["general", "student", "student", "student", "teacher"]
    assert all(record["status"] == "finished" for record in records(study).values())
    general, teacher = only(study, "general")[0], only(study, "teacher")[0]
    rows: dict[str, Any] = {row: cell.run for row, cell in cells(study).items()}
    named = f"pretrained:{general}"
    inits = {"general": named, "task_specific": "random", "task_specific_pretrained": named}
    assert {row: run.init for row, run in rows.items()} == inits
    assert [rows[row].teacher for row in ("task_specific", "task_specific_pretrained")] == [teacher, teacher]
    started = {record["initialisation"].get("pretrained") for record in records(study, "student").values()}
    assert started == {general, None}


def test_after_general_distillation_the_teacher_is_gone(study: Path) -> None:
    cell = cells(study)["general"]
    assert isinstance(cell.run, StudentRun) and isinstance(cell.run.teacher, BaseTeacher)  # nothing is read of it
    assert cell.after == [only(study, "general")[0]] and cell.run.objective == "labels_only"
    (record,) = (r for r in records(study, "student").values() if r["specification"]["objective"] == "labels_only")
    assert record["specification"]["teacher"] == {"name": "huggingface", "content": cell.run.teacher.content}
    assert record["teacher_signals"] == {}


def test_what_a_general_distillation_records(study: Path, checkpoint: Path, corpus: Path, tmp_path: Path) -> None:
    run, record = only(study, "general")
    assert (record["pieces"], record["tokens"]) == (80, 80 * TOKENS)
    assert record["tokens_per_second"] > 0 and record["parameters"] > 0
    assert record["teacher_signals"] == {"mlm_logits": "computed"} and record["stored_top_k_divergence"] is None
    assert record["steps"] == -(-80 // 32) and record["processes"] == 1
    told = [(entry["stage"], entry["epoch"], entry["step"], entry["selection"]) for entry in record["curve"]]
    assert told == [("general", 1, step, None) for step in (1, 2, 3)]
    assert (study / "ledger" / run / "weights" / "model.safetensors").is_file()
    assert not (study / "ledger" / run / "checkpoint.pt").exists()
    expected = held_out_cross_entropy(checkpoint, corpus, tmp_path)
    assert record["metrics"]["teacher_masked_cross_entropy"] == pytest.approx(expected, rel=1e-5)
    assert 0 < record["metrics"]["masked_cross_entropy"] < 10


def held_out_cross_entropy(checkpoint: Path, corpus: Path, folder: Path) -> float:
    """That of the teacher on the 2% of the corpus held out, piece by piece."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    content = corpora.content(str(corpus))
    text = MaskedText(corpora.tokenised(str(corpus), content, tokenizer, 16, folder), tokenizer)
    _, held_out = hold_out(len(text), content, 0.02)
    assert len(held_out) == 2
    model = AutoModelForMaskedLM.from_pretrained(checkpoint).eval()
    losses = []
    for piece in held_out:
        batch = text.batch(piece[None])
        assert batch.targets is not None
        with torch.no_grad():
            logits = model(**batch.encodings[0]).logits.double().log_softmax(-1)
        losses += [-logits[0, i, t].item() for i, t in enumerate(batch.targets[0].tolist()) if t != IGNORED]
    return sum(losses) / len(losses)


def test_the_loss_falls(run: Run, tmp_path: Path) -> None:
    out, more = tmp_path / "out", ("general.epochs=3", "general.batch_size=8", "general.learning_rate=0.01")
    done(run(out, "--objectives", "general", settings=(*SIZES, *TASK, *CORPUS, *more)))
    _, record = only(out, "general")
    losses = [entry["loss"] for entry in record["curve"]]
    assert len(losses) == 30 and max(sum(losses[10:20]), sum(losses[20:])) < sum(losses[:10])
    # A random teacher knows nothing of the text, so what the student knows is from the words that were masked.
    assert record["metrics"]["masked_cross_entropy"] < 0.9 * math.log(len(VOCABULARY))
    assert record["metrics"]["masked_cross_entropy"] < record["metrics"]["teacher_masked_cross_entropy"]


# ---------------------------------------------------------------- starting from a run by its name


def test_a_named_run_is_started_from(study: Path, run: Run) -> None:
    general, _ = only(study, "general")
    settings = (*SIZES, *TASK)
    process = run(study, "--inits", f"pretrained:{general}", settings=settings, corpus=None)
    assert "0 runs trained" in done(process).stdout  # it is the same cell as that of `pretrained`
    assert list(cells(study)) == ["task_specific_pretrained"]
    done(run(study))  # the plan of the other tests


@pytest.mark.parametrize("size", ["student.matrix_size=5", "student.vector_size=8"])
def test_a_run_of_other_sizes_is_refused(size: str, study: Path, run: Run) -> None:
    general, _ = only(study, "general")
    before = written(study)
    settings = (*(s for s in SIZES if s.partition("=")[0] != size.partition("=")[0]), size, *TASK)
    process = run(study, "--inits", f"pretrained:{general}", settings=settings, corpus=None)
    told = [line for line in process.stderr.splitlines() if line.startswith("harness: ")]
    assert process.returncode == 2 and len(told) == 1
    assert general in told[0] and "is needed" in told[0]
    assert written(study) == before
    done(run(study))


@pytest.mark.parametrize("name", ["0123456789abcdef", "", ".."])
def test_an_unknown_run_is_refused(name: str, run: Run, tmp_path: Path) -> None:
    settings = (*SIZES, *TASK)
    process = run(tmp_path / "out", "--inits", f"pretrained:{name}", settings=settings, corpus=None)
    refused(process, "no finished run", name)
    assert not written(tmp_path / "out")


def test_a_run_of_another_kind_is_refused(study: Path, run: Run) -> None:
    teacher, _ = only(study, "teacher")
    before = written(study)
    process = run(study, "--inits", f"pretrained:{teacher}", settings=(*SIZES, *TASK), corpus=None)
    assert process.returncode == 2 and teacher in process.stderr.splitlines()[-1]
    assert written(study) == before
    done(run(study))


# ---------------------------------------------------------------- bad input


def test_a_bad_corpus_is_refused_before_anything_is_trained(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"the dog was great .\nthe d\xffg was dull .\n")
    refused(run(tmp_path / "out", corpus=path), path.name, "line 2", "UTF-8")
    assert not written(tmp_path / "out")


def test_a_corpus_that_nothing_reads_is_refused(run: Run, tmp_path: Path) -> None:
    process = run(tmp_path / "out", "--objectives", "task_specific", settings=(*SIZES, *TASK))
    refused(process, "--corpus has no effect")
    process = run(tmp_path / "out", "--objectives", "task_specific", corpus=None)
    refused(process, "general.", "has no effect")


def test_a_study_without_a_corpus_says_how_to_give_one(
    run: Run, transformers: tuple[object, ...], tmp_path: Path
) -> None:
    refused(run(tmp_path / "out", *transformers, settings=TASK, corpus=None), "needs a corpus", "--corpus")
    assert not written(tmp_path / "out")


# ---------------------------------------------------------------- other teachers and students


def test_a_teacher_without_a_head_gets_one_first(run: Run, headless: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done(run(out, "--objectives", "general", teacher=headless))
    teacher, made = only(out, "masked_teacher")
    _, general = only(out, "general")
    assert general["specification"]["teacher"] == teacher
    assert made["pieces"] == general["pieces"] == 80 and len(made["curve"]) >= 1
    assert (out / "ledger" / teacher / "weights" / "model.safetensors").is_file()
    # Both are of the same weights on the same held-out pieces.
    expected = made["metrics"]["masked_cross_entropy"]
    assert general["metrics"]["teacher_masked_cross_entropy"] == pytest.approx(expected, rel=1e-5)
    before = written(out)
    assert "0 runs trained" in done(run(out, "--objectives", "general", teacher=headless)).stdout
    assert written(out) == before


def test_a_transformer_distils_generally_by_any_objective_without_logits(
    run: Run, transformers: tuple[object, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    settings = (*TASK, *CORPUS, "general.learning_rate=0.001", "general.epochs=2")
    done(run(out, *transformers, settings=settings))
    refusals = {row: cell.refused for row, cell in cells(out).items()}
    assert [row for row, reason in refusals.items() if reason] == ["vanilla_kd", "hid_cls_contrast"]
    assert "logits" in refusals["vanilla_kd"] and "labels" in refusals["hid_cls_contrast"]
    general = {r["specification"]["objective"]: r for r in records(out, "general").values()}
    signals = {objective: record["teacher_signals"] for objective, record in general.items()}
    assert signals == {
        "mlm_kd": {"mlm_logits": "computed"},
        "hid_seq": {"hidden_states": "computed"},
        "att_kl": {"attention_scores": "computed"},
        "0.1*hid_seq+mlm_kd": {"hidden_states": "computed", "mlm_logits": "computed"},
    }
    for record in general.values():
        losses = [entry["loss"] for entry in record["curve"]]
        half = len(losses) // 2
        assert sum(losses[half:]) < sum(losses[:half]) and record["specification"]["init"] == "every"
    students = records(out, "student").values()
    assert len(students) == 4 and all(r["initialisation"].keys() == {"pretrained"} for r in students)


# ---------------------------------------------------------------- stored targets


def general_with(run: Run, out: Path, *more: str) -> dict[str, Any]:
    """The one record of the corpus distillation with these settings."""
    known = set(records(out, "general"))
    done(run(out, "--objectives", "general", settings=(*SIZES, *TASK, *CORPUS, *more)))
    (new,) = (record for run_, record in records(out, "general").items() if run_ not in known)
    return new


def test_stored_targets(run: Run, tmp_path: Path) -> None:
    out, two = tmp_path / "out", ("general.epochs=2", "general.learning_rate=0.01")
    computed = general_with(run, out, *two)
    whole = general_with(run, out, *two, f"general.stored_top_k={len(VOCABULARY)}")
    assert whole["teacher_signals"] == {"mlm_logits": f"stored, the {len(VOCABULARY)} likeliest"}
    for ours, theirs in zip(whole["curve"], computed["curve"], strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
    assert whole["stored_top_k_divergence"] == pytest.approx(0, abs=1e-6)
    few, more = (general_with(run, out, *two, f"general.stored_top_k={k}") for k in (2, 8))
    assert few["stored_top_k_divergence"] > more["stored_top_k_divergence"] > 1e-6
    stored = [read_sealed(path)["k"] for path in out.glob("cache/*/masked/*/index.json")]
    assert sorted(stored) == sorted(2 * [2, 8, len(VOCABULARY)])  # of two epochs

    def times() -> dict[Path, int]:  # a lock's changes when it is taken
        return {path: path.stat().st_mtime_ns for path in out.glob("cache/*/masked/*/[!.]*")}

    before = times()
    other = general_with(run, out, *two, "general.stored_top_k=8", "student.embedding_dropout=0.1")
    assert times() == before  # filled once for both
    assert other["stored_top_k_divergence"] == more["stored_top_k_divergence"]
    general_with(run, out, *two, "general.stored_top_k=8", "general.precision=bfloat16")  # the teacher's is another
    assert len(list(out.glob("cache/*/masked/*"))) == len(stored) + 2
