"""`harness distil-corpus` by one process and by several: equal losses and weights, every piece read once, refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file

from harness.commands.distil_corpus import _check_shares
from harness.errors import UserError
from harness.runs import CorpusDistillationRun
from harness.training import processes
from tests.conftest import Harness, environment
from tests.launching import launched, together
from tests.results import done, records, refused, written
from tests.training.builders import a_run

BATCH, MICRO = 16, 5
SETTINGS = (
    "max_length=16", "epochs=1", "train_examples=32", "teacher.epochs=1", "general.max_length=16", "general.epochs=2",
    "general.learning_rate=0.003", f"general.batch_size={BATCH}", f"general.micro_batch={MICRO}",
)  # fmt: skip

PLUGIN = '''
import json
import os
import subprocess
import sys

import torch.nn.functional as F

from harness.contracts import IGNORED, Profile, Row, Signal, Study
from harness.registry import objective, study

MATRIX = {"student.matrix_size": 4, "student.vector_size": 16, "student.embedding_dropout": 0.1}


def cross_entropy(student, batch):
    return F.cross_entropy(student.mlm_logits, batch.targets[batch.targets != IGNORED])


@objective("noting", needs={Signal.MLM_LOGITS})
def noting(student, teacher, batch):
    """Masked-language-model loss; writes down which pieces this process trained on."""
    if student.mlm_logits.requires_grad and "NOTES" in os.environ:
        with open(os.path.join(os.environ["NOTES"], os.environ.get("RANK", "0")), "a") as file:
            file.write(json.dumps([batch.epoch, batch.ids.tolist()]) + "\\n")
    return cross_entropy(student, batch)


@objective("breaks", needs={Signal.MLM_LOGITS})
def breaks(student, teacher, batch):
    """Becomes infinite in the second epoch, in the one micro-batch that has the piece with the id 7."""
    infinite = bool(batch.epoch == 1 and (batch.ids == 7).any())
    return cross_entropy(student, batch) * (float("inf") if infinite else 1.0)


study(
    Study(
        name="shared_out",
        title="Shared out",
        question="Does it matter who computes a micro-batch?",
        procedure="general",
        rows=(
            Row("att_mse", "att_mse", "Attention"),
            Row("mlm_kd", "mlm_kd", "Masked words"),
            Row("noting", "noting", "Noting"),
            Row("matrix", "mlm_kd", "Matrices", student="bidirectional_hybrid", settings=MATRIX),
            Row("breaks", "breaks", "Breaks"),
        ),
        students=("transformer",),
        profiles={
            "quick": Profile("embedded", ("sst2",), ("random",), 1, 1, settings={"transformer.layers": 2}),
        },
    )
)
'''
ROWS = ("att_mse", "noting", "matrix")


@pytest.fixture(scope="module")
def words(glue: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[object]]:
    """words(out, *rows): of a study of the plugin, on a corpus of 120 short sentences, one a line."""
    folder = tmp_path_factory.mktemp("given")
    (folder / "mine.py").write_text(PLUGIN)
    lines = (glue / "SST-2" / "train.tsv").read_text().splitlines()[1:]
    (folder / "corpus.txt").write_text("".join(line.split("\t")[0] + "\n" for line in lines))
    places = ("--data", glue, "--corpus", folder / "corpus.txt", "--plugin", folder / "mine.py")

    def of(out: Path, *rows: str, settings: tuple[str, ...] = SETTINGS, teacher: Path = checkpoint) -> list[object]:
        chosen = ("--objectives", *rows) if rows else ()
        return ["--study", "shared_out", *places, "--teacher", teacher, "--out", out, *chosen, "--set", *settings]

    return of


Words = Callable[..., list[object]]


@pytest.fixture(scope="module")
def alone(call: Harness, words: Words, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one process, with its notes."""
    out = tmp_path_factory.mktemp("alone")
    os.environ["NOTES"] = str(out / "notes")
    (out / "notes").mkdir()
    try:
        done(call("pretrain", *words(out / "out", *ROWS)))
    finally:
        del os.environ["NOTES"]
    return out


@pytest.fixture(scope="module")
def shared(words: Words, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two processes that `accelerate launch` started, which gives them to torchrun."""
    out = tmp_path_factory.mktemp("shared")
    (out / "notes").mkdir()
    process = done(launched("pretrain", *words(out / "out", *ROWS), folder=out / "said", NOTES=str(out / "notes")))
    assert len([line for line in process.stderr.splitlines() if " ready in " in line]) == len(ROWS)
    return out


def general(out: Path) -> dict[tuple[str, str], tuple[Path, dict[str, Any]]]:
    """(student, objective) -> folder and record of each corpus distillation."""
    return {
        (record["specification"]["student"], record["specification"]["objective"]): (out / "ledger" / run, record)
        for run, record in records(out, "general").items()
    }


def equal(ours: tuple[Path, dict[str, Any]], theirs: tuple[Path, dict[str, Any]]) -> None:
    """Curves, held-out metrics and weights, to 1e-5."""
    (folder, record), (other, expected) = ours, theirs
    assert folder.name == other.name and record["steps"] == expected["steps"]
    assert [p["step"] for p in record["curve"]] == [p["step"] for p in expected["curve"]]
    losses = [[point["loss"] for point in one["curve"]] for one in (record, expected)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert losses[0][-1] < losses[0][0]
    assert record["metrics"] == pytest.approx(expected["metrics"], abs=1e-5)
    one, another = (load_file(f / "weights" / "model.safetensors") for f in (folder, other))
    assert one.keys() == another.keys()
    for name, weight in one.items():
        torch.testing.assert_close(weight, another[name], rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- several processes


@pytest.mark.parametrize(
    "which", [("transformer", "att_mse"), ("transformer", "noting"), ("bidirectional_hybrid", "mlm_kd")]
)
def test_two_processes_give_what_one_does(which: tuple[str, str], alone: Path, shared: Path) -> None:
    ours, theirs = general(shared / "out")[which], general(alone / "out")[which]
    assert (ours[1]["processes"], theirs[1]["processes"]) == (2, 1)
    equal(ours, theirs)
    assert not list((shared / "out").glob("ledger/*/checkpoint.pt"))


def notes(folder: Path, rank: int) -> list[tuple[int, tuple[int, ...]]]:
    """(epoch, pieces) of each micro-batch of a process, in order."""
    lines = (folder / "notes" / str(rank)).read_text().splitlines()
    return [(epoch, tuple(pieces)) for epoch, pieces in map(json.loads, lines)]


def updates(noted: list[tuple[int, tuple[int, ...]]]) -> Iterator[list[tuple[int, tuple[int, ...]]]]:
    """The micro-batches of each update of one process: a batch is full, or the last of its epoch."""
    update: list[tuple[int, tuple[int, ...]]] = []
    for part in noted:
        if update and (part[0] != update[0][0] or sum(len(pieces) for _, pieces in update) == BATCH):
            yield update
            update = []
        update.append(part)
    yield update


def test_every_piece_is_read_once_by_one_process(alone: Path, shared: Path) -> None:
    """And in every update the same pieces as in one process, in the same micro-batches, turn by turn."""
    one, two = notes(alone, 0), [notes(shared, rank) for rank in range(2)]
    (_, record) = general(alone / "out")["transformer", "noting"]
    for noted in (one, two[0] + two[1]):
        for epoch in range(2):
            read = [piece for e, pieces in noted if e == epoch for piece in pieces]
            assert len(read) == len(set(read)) == record["pieces"]
    together = list(updates(one))
    assert len(together) == record["steps"] and {len(update) for update in together} == {2, 4}
    for rank in range(2):
        assert two[rank] == [part for update in together for part in update[rank::2]]


def test_the_head_of_a_teacher_without_one_is_shared_out_too(
    call: Harness, words: Words, headless: Path, tmp_path: Path
) -> None:
    def of(out: str) -> list[object]:
        return ["pretrain", *words(tmp_path / out, "mlm_kd", teacher=headless)]

    assert call(*of("one")).returncode == 0
    statuses, said = together(*of("two"), folder=tmp_path / "said")
    assert statuses == [0, 0], said
    one, two = (
        {record["specification"]["kind"]: record for record in records(tmp_path / out).values()}
        for out in ("one", "two")
    )
    assert one.keys() == two.keys() == {"masked_teacher", "general"}
    for kind, record in two.items():
        assert record["processes"] == 2
        assert record["metrics"] == pytest.approx(one[kind]["metrics"], abs=1e-5)


# ---------------------------------------------------------------- and then


def test_a_run_goes_on_from_what_is_there(alone: Path, call: Harness, words: Words) -> None:
    def made() -> dict[str, int]:
        return {run: written(alone / "out")[run] for run in records(alone / "out", "general")}

    before = made()
    process = done(call("run", *words(alone / "out", "att_mse"), "--workers", "1"))
    # the student, and the teacher that stands above the table
    assert "2 runs trained" in process.stdout and "corpus distillation" not in process.stderr
    assert made() == before
    again = call("pretrain", *words(alone / "out", *ROWS))
    assert again.returncode == 0 and made() == before and "ready" not in again.stderr


def test_a_loss_that_is_not_finite_fails_its_run_alone(words: Words, tmp_path: Path) -> None:
    """One process meets it; all of them leave that run, record it as failed and go on to the next."""
    out = tmp_path / "out"
    statuses, said = together("pretrain", *words(out, "breaks", "mlm_kd"), folder=tmp_path / "said")
    assert statuses == [1, 1], said
    assert said.count("FAILED") == 1 and "Traceback" not in said
    found = {objective: record for (_, objective), (_, record) in general(out).items()}
    assert found["breaks"]["status"] == "failed" and "in term breaks" in found["breaks"]["error"]
    assert "Traceback" in found["breaks"]["traceback"]
    assert found["mlm_kd"]["status"] == "finished" and len(found["mlm_kd"]["curve"]) == found["mlm_kd"]["steps"]


# ---------------------------------------------------------------- refusals

REFUSALS: dict[str, tuple[str, tuple[str, ...]]] = {
    "too few micro-batches": (
        "general.pieces=100", ("2 processes", "general.micro_batch=N, N from 1 to 8, here and to harness run"),
    ),
    "a folder in use": ("", ("another harness run", "give another folder")),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_is_one_sentence_told_once(case: str, words: Words, tmp_path: Path) -> None:
    setting, expected = REFUSALS[case]
    out = tmp_path / "out"
    given = words(out, settings=(*SETTINGS[:-1], setting) if setting else SETTINGS)  # without micro-batches
    held = FileLock(out / ".lock")
    if case == "a folder in use":
        out.mkdir()
        held.acquire()
    try:
        statuses, said = together("pretrain", *given, folder=tmp_path / "said", seconds=60)
    finally:
        held.release()
    status = 3 if case == "a folder in use" else 2
    assert statuses[0] == status and statuses[1] in (status, None), said  # the launcher ends those that still wait
    lines = [line for line in said.splitlines() if line.strip()]
    assert len(lines) == 1 and lines[0].startswith("harness: "), said
    for word in expected:
        assert word in lines[0]
    assert not list(out.glob("ledger/*"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("objectives_vs_init",), ("objectives_vs_init", "nothing to pre-train")),
        (("general_vs_task_specific", "--set", "general.micro_bach=4"), ("general.micro_bach", "general.micro_batch")),
    ],
)
def test_what_is_wrong_with_the_request_needs_no_second_process(
    words: tuple[str, ...], said: tuple[str, ...], call: Harness, tmp_path: Path
) -> None:
    refused(call("pretrain", "--study", *words, "--out", tmp_path / "out"), *said)
    assert not list(tmp_path.glob("out/ledger/*"))


def test_more_processes_than_a_batch_has_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "number", lambda: 2)
    with pytest.raises(UserError, match=r"^2 processes .*: start fewer processes, or make general.batch_size larger$"):
        _check_shares(a_run(CorpusDistillationRun, settings={"batch_size": 1, "micro_batch": 0}))


def test_a_launch_of_harness_run_is_refused(call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused(
        call("run", "--study", "task_agnostic_objectives", "--out", tmp_path / "out"),
        "give harness distil-corpus to torchrun",
    )
    assert not (tmp_path / "out").exists()


RANK = """
import time
from harness.commands.distil_corpus import end_with_launcher
end_with_launcher()
print("begun", flush=True)
time.sleep(60)
"""
LAUNCHER = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]]).wait()"


def test_a_process_ends_with_its_launcher() -> None:
    """Which a kill leaves no time to end it; the same command would find its folder in use."""
    command = [sys.executable, "-c", LAUNCHER, RANK]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None and launcher.stdout.readline() == "begun\n"
        launcher.kill()
        assert launcher.stdout.read() == ""  # until the last that could write to it is gone
