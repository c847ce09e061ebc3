"""What is left of a folder of results that something damaged: a sentence, or records that are made again."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import UserError
from harness.executors import choosing
from harness.files import read_sealed, sealed, write_sealed
from harness.ledger import Ledger
from harness.planning import filed
from harness.runs.messages import Finished, Message
from harness.search.index import NAME
from tests.conftest import ROOT, Harness
from tests.results import table_folder

STUDY = ("--study", "objectives_vs_init")
ROWS = ("--objectives", "vanilla_kd", "labels_only", "--inits", "every", "--tasks", "entailment")
WORDS = (*STUDY, *ROWS, "--trials", "1", "--seeds", "2")
LOOKS = ("report", "status", "plan", "show")


class Instant:
    """An executor whose runs end at once, always with the same numbers."""

    def __init__(self) -> None:
        self.queue: list[tuple[str, Any]] = []

    def prepare(self) -> None:
        pass

    def submit(self, run: str, specification: Mapping[str, Any], workspace: Any) -> None:
        with suppress(OSError):
            (workspace.run / "weights").mkdir(parents=True, exist_ok=True)
        self.queue.append((run, specification))

    def next(self) -> Message:
        run, specification = self.queue.pop(0)
        right, labels = int(run, 16) % 20, np.arange(20) % 2
        record = {
            "status": "finished", "specification": specification, "metrics": {"zeal": 0.5, "accuracy": right / 20},
            "selection": right / 20, "best": {"epoch": 1}, "seconds": 1.0,
        }  # fmt: skip
        answers = np.where(np.arange(20) < right, labels, 1 - labels)
        return Finished(run, record, {"ids": np.arange(20), "predictions": answers, "labels": labels})

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def instant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "LocalExecutor", lambda *asked: Instant())


@pytest.fixture(scope="module")
def whole(call: Harness) -> Iterator[Path]:
    """A finished study, outside pytest's folders, which only their owner may enter."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(choosing, "LocalExecutor", lambda *asked: Instant())
        os.chmod(folder, 0o755)
        out = Path(folder) / "out"
        process = call("run", *WORDS, "--out", out)
        assert process.returncode == 0 and "5 runs trained" in process.stdout, process.stderr
        yield out


@pytest.fixture
def out(whole: Path) -> Iterator[Path]:
    """A copy to damage."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(shutil.copytree(whole, Path(folder) / "out"))


def student(out: Path) -> Path:
    """The folder of one of the students' runs."""
    runs = Ledger(out)
    return runs.folder(next(run for run in runs.runs() if (runs.read(run) or {})["specification"]["kind"] == "student"))


def looks(call: Harness, out: Path, run: str) -> Iterator[tuple[str, Any]]:
    for command in LOOKS:
        words = {"plan": WORDS, "show": (run,)}.get(command, STUDY)
        yield command, call(command, *words, "--out", out)


def one_sentence(process: Any) -> None:
    assert process.returncode == 2 and process.stderr.splitlines()[-1].startswith("harness: "), process.stderr
    assert "table" not in process.stdout


# ---------------------------------------------------------------- what is made again


def in_place_of(path: Path, make: Callable[[Path], Any]) -> None:
    path.unlink()
    make(path)


def without(path: Path, *names: str) -> None:
    record = read_sealed(path)
    path.write_bytes(sealed({name: value for name, value in record.items() if name not in names}))


def edited(path: Path) -> None:
    told = json.loads(path.read_text())
    told["cells"].pop()
    path.write_text(json.dumps(told))


HEALED: dict[str, Callable[[Path], Any]] = {
    "record a directory": lambda run: in_place_of(run / "record.json", Path.mkdir),
    "record of nothing": lambda run: (run / "record.json").write_bytes(sealed({})),
    "record without metrics": lambda run: without(run / "record.json", "metrics"),
    "plan a directory": lambda run: in_place_of(table_folder(run.parents[1]) / "plan.json", Path.mkdir),
    "plan a list": lambda run: (table_folder(run.parents[1]) / "plan.json").write_text("[]"),
    "plan edited": lambda run: edited(table_folder(run.parents[1]) / "plan.json"),
    "plan too deep": lambda run: (table_folder(run.parents[1]) / "plan.json").write_text("[" * 100_000),
    "index a directory": lambda run: in_place_of(run.parents[1] / NAME, Path.mkdir),
    "index without searches": lambda run: without(run.parents[1] / NAME, "searches"),
    "index of lists": lambda run: write_sealed(
        run.parents[1] / NAME, read_sealed(run.parents[1] / NAME) | {"runs": [], "searches": []}
    ),
}


@pytest.fixture(scope="module")
def told(whole: Path, call: Harness) -> str:
    """What status says of the folder before it is damaged."""
    return str(call("status", *STUDY, "--out", whole).stdout)


@pytest.mark.parametrize("fault", HEALED)
def test_damage_that_the_next_run_mends(fault: str, out: Path, whole: Path, told: str, call: Harness) -> None:
    run = student(out)
    HEALED[fault](run)
    for command, process in looks(call, out, run.name):
        if fault.startswith("plan") and command in ("report", "status"):
            one_sentence(process)
        else:
            assert process.returncode == 0, process.stderr
        if fault.startswith("record") and command != "plan":
            assert f"the record of run {run.name}" in process.stdout + process.stderr
            assert "interrupted" not in process.stdout
    process = call("run", *WORDS, "--out", out)
    made = 1 if fault.startswith("record") else 0
    assert process.returncode == 0 and f"{made} run{'s' * (made != 1)} trained" in process.stdout, process.stderr
    assert call("status", *STUDY, "--out", out).stdout == told.replace(str(whole), str(out))
    for name in ("table.md", "table.json"):
        assert (table_folder(out) / name).read_bytes() == (table_folder(whole) / name).read_bytes()


RECORDS: dict[str, Callable[[Path], Any]] = {  # which a ledger takes for damaged: how commands answer is seen above
    "a loop": lambda path: in_place_of(path, lambda path: path.symlink_to(path)),
    "too deep": lambda path: path.write_text("[" * 100_000),
    "of nothing": lambda path: path.write_bytes(sealed({})),
    "a list": lambda path: path.write_bytes(sealed([])),  # type: ignore[arg-type]
    "without selection": lambda path: without(path, "selection"),
    "of another status": lambda path: path.write_bytes(sealed({"status": "lost"})),
}


@pytest.mark.parametrize("fault", RECORDS)
def test_a_record_that_says_too_little_is_damaged(fault: str, out: Path) -> None:
    run, ledger = student(out), Ledger(out)
    RECORDS[fault](run / "record.json")
    assert ledger.read(run.name) is None and f"the record of run {run.name}" in ledger.damaged[run.name]


@pytest.mark.parametrize("text", ["[]", '{"format": 3}'])
def test_a_plan_that_is_none_is_refused(text: str, out: Path) -> None:
    plan = table_folder(out) / "plan.json"
    plan.write_text(text)
    with pytest.raises(UserError, match="plan.json"):
        filed.read(plan, out)


READERS = {
    "runs": ("report", "--format", "jsonl"),
    "another format": ("report", "--format", "every_eval_ever", "--to", "given"),
    "methods": ("report", "--format", "methods"),
    "figures": ("figures", "heatmap", "--to", "given"),
}


@pytest.mark.parametrize("reader", READERS)
def test_whoever_leaves_a_damaged_record_out_says_so(
    reader: str, out: Path, call: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(out.parent)
    run = student(out)
    (run / "record.json").write_text("{")
    command, *words = READERS[reader]
    process = call(command, *STUDY, "--out", out, *words)
    assert process.returncode == 0 and f"the record of run {run.name} is damaged" in process.stderr, process.stderr


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to(path)], ids=["directory", "loop"])
def test_predictions_that_cannot_be_read_are_made_again(make: Callable[[Path], Any], out: Path, call: Harness) -> None:
    run = student(out)
    in_place_of(run / "predictions.safetensors", make)
    process = call("report", *STUDY, "--out", out)
    assert process.returncode == 0 and f"the predictions of run {run.name} are not to be read" in process.stderr
    process = call("run", *WORDS, "--out", out)
    assert process.returncode == 0 and "1 run trained" in process.stdout
    assert "not to be read" not in call("report", *STUDY, "--out", out).stderr


# ---------------------------------------------------------------- what somebody has to put right


def a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("precious")


def a_loop(path: Path) -> None:
    shutil.rmtree(path)
    path.symlink_to(path)


REFUSED: dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]] = {
    "ledger a file": (lambda run: a_file(run.parent), ("run", *LOOKS)),
    "ledger a loop": (lambda run: a_loop(run.parent), ("run", *LOOKS)),
    "out a file": (lambda run: a_file(run.parents[1]), ("run", *LOOKS)),
    "out a loop": (lambda run: a_loop(run.parents[1]), ("run", *LOOKS)),
    "out foreign": (lambda run: (run.parents[1] / "harness.json").unlink(), ("run", *LOOKS)),
    "study a file": (lambda run: a_file(table_folder(run.parents[1]).parents[1]), ("run", "report", "status")),
    "run a file": (lambda run: a_file(run), ()),
    "run a loop": (lambda run: a_loop(run), ()),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_damage_that_is_told_in_a_sentence(fault: str, out: Path, call: Harness) -> None:
    damage, refused = REFUSED[fault]
    run = student(out)
    damage(run)
    for command, process in (*looks(call, out, run.name), ("run", call("run", *WORDS, "--out", out))):
        if command in refused:
            one_sentence(process)
        elif command != "run" and not (command == "show" and fault.startswith("run")):
            assert process.returncode == 0, process.stderr
        else:
            assert process.returncode in (0, 2)


# ---------------------------------------------------------------- what may not be read


@contextmanager
def nobody(out: Path) -> Iterator[None]:
    """As an ordinary user who owns the folder: the superuser may read whatever is closed."""
    if os.geteuid():
        yield
        return
    for path in (out, *out.rglob("*")):
        os.lchown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        try:
            (ROOT / "reports" / "page.html").read_bytes()
        except OSError:
            pytest.skip("an ordinary user may not read this checkout")
        yield
    finally:
        os.seteuid(0)


CLOSED: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "record": (lambda run: run / "record.json", ()),
    "predictions": (lambda run: run / "predictions.safetensors", ()),
    "plan": (lambda run: table_folder(run.parents[1]) / "plan.json", ("report", "status")),
    "index": (lambda run: run.parents[1] / NAME, ()),
    "run": (lambda run: run, ("run",)),
    "ledger": (lambda run: run.parent, ("run", *LOOKS)),
    "out": (lambda run: run.parents[1], ("run", *LOOKS)),
}


@pytest.mark.parametrize("what", CLOSED)
def test_what_may_not_be_read_is_told_or_made_again(what: str, out: Path, call: Harness) -> None:
    which, refused = CLOSED[what]
    run = student(out)
    closed = which(run)
    with nobody(out):
        os.chmod(closed, 0)
        try:
            for command, process in (*looks(call, out, run.name), ("run", call("run", *WORDS, "--out", out))):
                if command in refused:
                    one_sentence(process)
                else:
                    assert process.returncode == 0, (command, process.stderr)
        finally:
            os.chmod(closed, 0o755)


@pytest.mark.parametrize("what", ["folder", "lock"])
def test_status_does_not_take_a_folder_that_cannot_be_written_for_one_at_work(
    what: str, out: Path, call: Harness
) -> None:
    (out / ".lock").unlink()
    if what == "lock":
        (out / ".lock").mkdir()
    with nobody(out):
        os.chmod(out, 0o555)
        (student(out) / "record.json").unlink()
        process = call("status", *STUDY, "--out", out)
        os.chmod(out, 0o755)
    assert process.returncode == 0 and "begun and not finished: " in process.stdout
    assert "working here cannot be told" in process.stdout and "running" not in process.stdout


# ---------------------------------------------------------------- what other programs leave


def test_what_other_programs_leave_is_no_run(out: Path, whole: Path, call: Harness) -> None:
    run = student(out).name
    for folder in (out, out / "ledger", out / "ledger" / run, out / "objectives_vs_init", table_folder(out)):
        (folder / "lost+found").mkdir()
        (folder / ".DS_Store").write_bytes(b"\0")
        (folder / "plan.json~").write_text("{")
    (out / "other" / "study").mkdir(parents=True)
    (out / "other" / "study" / "plan.json").write_text("{")
    (out / "ledger" / f"{run}~").write_text("")
    shutil.copytree(out / "ledger" / run, out / "ledger" / f"{run} (conflict)")
    for command, process in looks(call, out, run):
        assert process.returncode == 0, process.stderr
        assert process.stdout == dict(looks(call, whole, run))[command].stdout.replace(str(whole), str(out))
    process = call("run", *WORDS, "--out", out)
    assert process.returncode == 0 and "0 runs trained" in process.stdout and not process.stderr


def test_what_a_system_leaves_in_a_new_folder_is_no_hindrance(tmp_path: Path, call: Harness) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".DS_Store").touch()
    assert call("run", *WORDS, "--out", tmp_path).returncode == 0


# ---------------------------------------------------------------- the same bytes


def test_who_trained_and_who_reads_write_the_same_table(out: Path, call: Harness) -> None:
    shutil.rmtree(student(out))
    assert "1 run trained" in call("run", *WORDS, "--out", out).stdout  # one record made here, the others read
    for form, name in (("json", "table.json"), ("csv", "table.csv"), ("markdown", "table.md"), ("latex", "table.tex")):
        said = call("report", *STUDY, "--format", form, "--out", out).stdout
        assert said.encode() == (table_folder(out) / name).read_bytes()
    metrics = json.loads((table_folder(out) / "table.json").read_text())["entries"][-1]["runs"][0]["metrics"]
    assert list(metrics) == sorted(metrics) and len(metrics) > 1
