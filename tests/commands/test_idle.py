"""A harness run with nothing to do: it prints the same table without making it, and misses no change."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import code_versions
from harness.commands import kept_table
from harness.commands import report as reporting
from harness.commands import run as commands
from harness.contracts import Published
from harness.errors import UserError
from harness.evaluation import server_scores
from harness.executors import choosing
from harness.ledger import Ledger
from harness.planning import filed
from harness.registry import STUDIES
from tests.conftest import Harness, environment

pytestmark = pytest.mark.usefixtures("no_figures")

FOLDER = Path("objectives_vs_init/quick")


@pytest.fixture(scope="module")
def asked(glue: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The words of a command whose teacher and data are its own."""
    home = tmp_path_factory.mktemp("asked")
    shutil.copytree(checkpoint, home / "teacher")
    shutil.copytree(glue, home / "glue")
    return (
        "run", "--study", "objectives_vs_init", "--tasks", "sst2", "--objectives", "vanilla_kd", "--inits", "every",
        "--teacher", str(home / "teacher"), "--data", str(home / "glue"), "--trials", "1", "--seeds", "2",
        "--set", "train_examples=16", "epochs=1", "teacher.epochs=1", "max_length=8",
    )  # fmt: skip


@pytest.fixture(scope="module")
def first(asked: tuple[str, ...], call: Harness, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder of results, and what was printed of it."""
    out = tmp_path_factory.mktemp("first") / "out"
    done = call(*asked, "--out", out)
    assert done.returncode == 0 and "3 runs trained" in done.stdout, done.stderr
    return out, done.stdout


@pytest.fixture
def out(first: tuple[Path, str], tmp_path: Path) -> Path:
    return Path(shutil.copytree(first[0], tmp_path / "out"))


class Asked(Exception):
    """A run would be trained."""


@pytest.fixture
def again(asked: tuple[str, ...], call: Harness, out: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """again(*words) gives the command once more: (what it prints, how often it made the table); Asked if it trains."""
    made: list[Any] = []
    table_of = commands.table_of

    class Refusing:
        def prepare(self) -> None:
            pass

        def submit(self, run: str, *_: Any) -> None:
            raise Asked(run)

        def close(self) -> None: ...

    monkeypatch.setattr(choosing, "executor", lambda options: lambda out: Refusing())
    monkeypatch.setattr(commands, "table_of", lambda *given: made.append(given) or table_of(*given))

    def give(*words: str) -> tuple[str, int]:
        before = len(made)
        done = call(*asked, "--out", out, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout, len(made) - before

    return give


def said(printed: str) -> str:
    """The table alone."""
    return printed.partition("runs trained")[0].rpartition("\n")[0]


def table(out: Path, name: str) -> Path:
    (found,) = (out / FOLDER).rglob(name)
    return found


def test_nothing_heavy_is_loaded(
    asked: tuple[str, ...], first: tuple[Path, str], out: Path, forked: Harness
) -> None:
    code = (
        "import sys; from harness.cli import main; main(sys.argv[1:]); "
        "print({'torch', 'transformers', 'pandas', 'matplotlib', 'optuna', 'sklearn'} & set(sys.modules))"
    )
    # A process that has other plugins than ours, as this one may, leaves no table to take.
    assert forked(*asked, "--out", out).returncode == 0
    words = (sys.executable, "-c", code, *asked, "--out", str(out))
    found = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True)
    assert found.stdout.endswith("set()\n") and "\n0 runs trained" in found.stdout, found.stderr
    assert said(found.stdout) == said(first[1])


def test_the_same_is_printed_and_written(again: Callable[..., Any], first: tuple[Path, str], out: Path) -> None:
    files = {path: path.read_bytes() for path in (out / FOLDER).rglob("table.*")}
    assert again()[1] == 1, "a copy of a folder has other files"
    printed, made = again()
    assert made == 0 and said(printed) == said(first[1])
    assert len(files) == 5 and {path: path.read_bytes() for path in files} == files


def _flip(path: Path) -> None:
    """Another byte in the middle; its size and time stay."""
    status, raw = path.stat(), bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [_flip, Path.unlink])
@pytest.mark.parametrize("name", ["record.json", "predictions.safetensors"])
@pytest.mark.parametrize("teacher", [True, False])
def test_a_run_that_is_damaged_or_gone_is_made_again(
    teacher: bool, name: str, change: Callable[[Path], object], again: Callable[..., Any], out: Path
) -> None:
    run = next(run for run in Ledger(out).runs() if _is_teacher(out, run) == teacher)
    change(out / "ledger" / run / name)
    with pytest.raises(Asked):
        again()


def test_weights_that_nothing_missing_starts_from_are_not(again: Callable[..., Any], out: Path) -> None:
    (teacher,) = (run for run in Ledger(out).runs() if _is_teacher(out, run))
    shutil.rmtree(out / "ledger" / teacher / "weights")
    assert "\n0 runs trained" in again()[0]


def _is_teacher(out: Path, run: str) -> bool:
    return not (Ledger(out).read(run) or {})["started_from"]


@pytest.mark.parametrize(
    ("name", "change"),
    [("table.tex", Path.unlink), *((f"table.{form}", _flip) for form in ("html", "tex", "md", "csv", "json"))],
)
def test_a_file_that_was_edited_or_removed_is_written_again(
    name: str, change: Callable[[Path], object], again: Callable[..., Any], out: Path
) -> None:
    path = table(out, name)
    whole = path.read_bytes()
    change(path)
    assert again()[1] == 1 and path.read_bytes() == whole
    assert again()[1] == 0


def test_whatever_else_a_table_rests_on(again: Callable[..., Any], out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert again()[1] == 1 and again("--layout", "matrix")[1] == 1
    server_scores.keep(Ledger(out), {"run": {"sst2": {"accuracy": 90.0}}})
    assert again()[1] == 1 and again()[1] == 0
    monkeypatch.setattr(code_versions, "_distributions", lambda: ["matplotlib-0.dist-info"])
    assert again()[1] == 1 and again()[1] == 0
    shutil.rmtree(out / "cache")
    assert again()[1] == 1 and again()[1] == 0
    before = again()[0]
    assert again("--columns", "parameters")[1] == 1
    assert again()[0] == before, "columns of one request are not another's"


def test_other_trials_are_another_table(out: Path) -> None:
    """The order in which settings are declared decides which are tried, and so is part of what a table rests on."""
    plan, ledger = filed.read(table(out, "plan.json"), out), Ledger(out)
    (cell,) = plan.cells
    grid: dict[str, list[float | int | str]] = {"learning_rate": [1e-3, 5e-4], "batch_size": [16, 32]}
    spaces = grid, dict([*grid.items()][::-1])
    orders = [replace(plan, cells=[replace(cell, space=space)]) for space in spaces]
    kept_table.KeptTable("run", orders[0], ledger, "code").keep({"text": "first"})
    assert [kept_table.KeptTable("run", order, ledger, "code").said() for order in orders] == [{"text": "first"}, {}]


def test_what_its_study_declares_and_a_printed_table_of_ones_own(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin may take either from a file that its text does not name."""
    plan, ledger, printed = filed.read(table(out, "plan.json"), out), Ledger(out), tmp_path / "printed.csv"
    declared = STUDIES.get(plan.study)

    def changed(text: str, title: str) -> bool:
        """Whether the table is made anew, as it is not when it is asked for once more."""
        printed.write_text(text)
        study = replace(declared, title=title, published=Published((str(printed),), "A paper"))
        monkeypatch.setitem(STUDIES._found, plan.study, (study, STUDIES.origin(plan.study)))
        made, again = (kept_table.KeptTable("run", plan, ledger, "code") for _ in range(2))
        anew = not made.said()
        made.keep({"text": text})
        return anew and bool(again.said())

    assert changed("81.2", "One") and changed("44.4", "One") and changed("44.4", "Other")
    assert not changed("44.4", "Other")


def test_other_settings_are_trained(again: Callable[..., Any]) -> None:
    with pytest.raises(Asked):
        again("--set", "learning_rate=0.003")


@pytest.mark.parametrize("name", ["teacher/model.safetensors", "glue/SST-2/train.tsv"])
def test_another_teacher_or_other_data_are_trained(
    name: str, asked: tuple[str, ...], again: Callable[..., Any]
) -> None:
    path = Path(asked[asked.index("--data") + 1]).parent / name
    whole = path.read_bytes()
    try:
        if name.endswith("tsv"):
            path.write_bytes(whole + b"a good one\t1\n")
        else:
            path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(Asked):
            again()
    finally:
        path.write_bytes(whole)


# ---------------------------------------------------------------- harness report


@pytest.fixture
def report(call: Harness, out: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """report(*words) asks for the table: (what it prints, what it says, how often it made the table)."""
    made: list[Any] = []
    table_of = reporting.table_of
    monkeypatch.setattr(reporting, "table_of", lambda *given: made.append(given) or table_of(*given))

    def ask(*words: object) -> tuple[str, str, int]:
        before = len(made)
        done = call("report", "--study", "objectives_vs_init", "--out", out, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr, len(made) - before

    return ask


def test_nor_one_that_harness_run_printed(again: Callable[..., Any], report: Callable[..., Any]) -> None:
    printed, made = again()
    text, told, anew = report()
    assert (made, told, anew) == (1, "", 0) and text in printed and "Vanilla KD" in text
    again("--layout", "matrix")
    assert report("--layout", "matrix")[2] == 0 and report("--against", "vanilla_kd")[2] == 1


@pytest.mark.parametrize("form", ["terminal", "latex", "json", "methods"])
def test_a_report_that_was_printed_is_not_made_again(form: str, report: Callable[..., Any]) -> None:
    first, _, made = report("--format", form)
    assert made == 1 and report("--format", form) == (first, "", 0)
    assert report("--format", "csv")[2] == 1 and report("--format", form) == (first, "", 0)


@pytest.mark.parametrize("words", [("--against", "vanilla_kd"), ("--layout", "matrix"), ("--compare", "published")])
def test_each_request_is_its_own(words: tuple[str, ...], report: Callable[..., Any]) -> None:
    plain = report()[0]
    assert report(*words)[2] == 1 and report(*words)[2] == 0
    assert report() == (plain, "", 0)


def test_a_report_follows_the_ledger(report: Callable[..., Any], out: Path) -> None:
    assert [report()[2], report()[2]] == [1, 0]
    student = next(run for run in Ledger(out).runs() if not _is_teacher(out, run))
    _flip(out / "ledger" / student / "record.json")
    for _ in range(2):
        _, told, made = report()
        assert made == 1 and f"the record of run {student} is damaged" in told, "what is damaged is told each time"
    (out / "ledger" / student / "record.json").unlink()
    assert [report()[2], report()[2]] == [1, 0]
    server_scores.keep(Ledger(out), {"run": {"sst2": {"accuracy": 90.0}}})
    assert [report()[2], report()[2]] == [1, 0]


def test_a_folder_that_may_only_be_read_is_reported(
    report: Callable[..., Any], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UserError("it cannot be written")

    monkeypatch.setattr(kept_table, "write_sealed", refuse)
    assert report()[0] == report()[0] != ""
