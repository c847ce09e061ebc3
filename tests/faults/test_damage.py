"""Whatever a number rests on is checked before it is used: what is damaged or lost is made again, and said so."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import registry
from harness.errors import UserError
from harness.files import checksums, content_of
from harness.jobs import inputs
from harness.ledger import Ledger
from harness.runs import BaseTeacher, TeacherName
from harness.training.workspace import Workspace
from tests.conftest import SMALL_STUDY, Harness
from tests.results import done, records, same_runs, same_tables
from tests.search.builders import student_run

STUDY = (
    "--study", "objectives_vs_init", "--tasks", "sst2", "--objectives", "hid_seq", "--inits", "every", "--trials", "1",
    "--seeds", "2", *SMALL_STUDY[SMALL_STUDY.index("--set") :],
)  # fmt: skip


@pytest.fixture(scope="module")
def run(glue: Path, checkpoint: Path, call: Harness) -> Callable[[Path], Any]:
    def again(out: Path, command: str = "run") -> Any:
        return done(call(command, *STUDY, "--data", glue, "--teacher", checkpoint, "--out", out))

    return again


@pytest.fixture(scope="module")
def finished(run: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("damage") / "out"
    run(out)
    return out


@pytest.fixture
def out(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "out"))


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_lost_weights_and_predictions_are_made_again(
    how: str, finished: Path, out: Path, run: Callable[..., Any]
) -> None:
    """A teacher's weights, and the predictions of the second student: the first is not trained again."""
    (teacher,) = records(out, "teacher")
    student = next(run for run, record in records(out, "student").items() if record["specification"]["seed"] == 1)
    damage = flip if how == "damaged" else Path.unlink
    damage(out / "ledger" / teacher / "weights" / "model.safetensors")
    damage(out / "ledger" / student / "predictions.safetensors")
    assert "2 runs, 1 missing" in run(out, "plan").stdout
    process = run(out)
    assert f"the weights of run {teacher} are {how} (model.safetensors): the run is made again" in process.stderr
    assert f"the predictions of run {student} are {how}" in process.stderr and "2 runs trained" in process.stdout
    same_runs(out, finished)
    same_tables(out, finished)
    assert "0 runs trained" in run(out).stdout


def test_weights_that_no_run_is_to_start_from_are_not_made_again(
    finished: Path, out: Path, run: Callable[..., Any]
) -> None:
    """As in results that were packed: their records are whole, and a further row needs its own runs alone."""
    (teacher,) = records(out, "teacher")
    shutil.rmtree(out / "ledger" / teacher / "weights")
    process = run(out)
    assert "0 runs trained" in process.stdout and "made again" not in process.stderr
    same_runs(out, finished)
    same_tables(out, finished)


def test_stored_signals_are_checked_by_the_run_that_uses_them(
    finished: Path, out: Path, run: Callable[..., Any]
) -> None:
    """What no run of this study reads is left as it is."""
    signals = sorted((out / "cache").rglob("hidden_states.*.f32"))
    student = min(records(out, "student"))
    shutil.rmtree(out / "ledger" / student)
    beside = signals[0].with_name("sentence.f32")
    beside.write_bytes(b"of a study that is not run here")
    for file in signals:
        flip(file)
    assert "1 run trained" in run(out).stdout
    same_runs(out, finished)
    same_tables(out, finished)
    assert signals and beside.read_bytes() == b"of a study that is not run here"
    for file in signals:
        assert file.read_bytes() == (finished / file.relative_to(out)).read_bytes()


def test_cells_that_started_from_other_weights_are_told(out: Path, call: Harness) -> None:
    """As where the weights were lost and made again on another machine."""
    ledger, (teacher, record) = Ledger(out), *records(out, "teacher").items()
    flip(out / "ledger" / teacher / "weights" / "model.safetensors")
    predictions = ledger.predictions(teacher)
    ledger.write(teacher, {**record, "weights": checksums(out / "ledger" / teacher / "weights")}, predictions)
    process = call("report", "--study", "objectives_vs_init", "--out", out, "--format", "markdown")
    assert f"1 cell started from other weights of run {teacher} than are here" in process.stdout


def test_runs_of_several_devices_and_versions_in_one_table_are_told(out: Path, call: Harness) -> None:
    ledger, (run, record) = Ledger(out), min(records(out, "student").items())
    report = ("report", "--out", out, "--format", "markdown")
    assert "Not all runs" not in call(*report).stdout
    versions = {**record["versions"], "transformers": "4.0.0"}
    ledger.write(run, {**record, "device": "cuda", "versions": versions}, ledger.predictions(run))
    now, told = record["versions"]["transformers"], call(*report).stdout
    assert (
        "Not all runs were made by the same: device cpu (1 run) and cuda (1 run); "
        f"transformers 4.0.0 (1 run) and {now} (1 run)." in told
    )
    assert told.count("cuda") == 1, "said once, of all runs"


# ---------------------------------------------------------------- at the moment of use


def workspace(out: Path, checkpoint: Path, **files: str) -> Workspace:
    return Workspace(
        run=out / "ledger" / "here", runs=out / "ledger", cache=out / "cache", source="", corpus="", files=files,
        teacher=TeacherName("huggingface", str(checkpoint)), plugins=(), outputs={},
    )  # fmt: skip


def content(checkpoint: Path) -> str:
    return str(registry.TEACHERS.get("huggingface")(str(checkpoint)).content())


def test_a_run_finds_out_that_what_it_starts_from_changed(out: Path, checkpoint: Path) -> None:
    (teacher,) = records(out, "teacher")
    learner, base = student_run(teacher=teacher), BaseTeacher(name="huggingface", content=content(checkpoint))
    started = student_run(teacher=base, init=f"pretrained:{teacher}")
    for run in (learner, started, student_run(teacher=base, masked_teacher=teacher)):
        assert run.depends_on == (teacher,)
        assert set(inputs.check(run, workspace(out, checkpoint))) == {teacher}
    flip(out / "ledger" / teacher / "weights" / "model.safetensors")
    with pytest.raises(UserError, match=f"the weights of run {teacher}, which others start from, are damaged"):
        inputs.check(learner, workspace(out, checkpoint))
    (out / "ledger" / teacher / "record.json").unlink()
    with pytest.raises(UserError, match=f"the record of run {teacher}, which this one starts from, is missing"):
        inputs.check(learner, workspace(out, checkpoint))


def test_a_run_finds_out_that_the_teacher_or_a_file_changed(out: Path, checkpoint: Path, tmp_path: Path) -> None:
    """Also where the specification names the teacher by a run only."""
    (teacher,) = records(out, "teacher")
    folder = Path(shutil.copytree(checkpoint, tmp_path / "teacher"))
    base = BaseTeacher(name="huggingface", content=content(folder))
    inputs.check(student_run(teacher=base), workspace(out, folder))
    flip(folder / "model.safetensors")
    for who in (base, teacher):
        with pytest.raises(UserError, match="changed since the study was planned"):
            inputs.check(student_run(teacher=who), workspace(out, folder))
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("a 0.1 0.2\n")
    file = content_of(vectors)[:16]
    where = workspace(out, checkpoint, **{file: str(vectors)})
    inputs.check(student_run(teacher=base, init=f"vectors:{file}"), where)
    vectors.write_text("a 0.1 0.3\n")
    with pytest.raises(UserError, match=r"vectors\.txt changed since the study was planned"):
        inputs.check(student_run(teacher=base, init=f"vectors:{file}"), where)
    inputs.check(student_run(teacher=base, init="random"), where)  # it reads no file
