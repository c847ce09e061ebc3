"""What a folder of results can do without, and runs that are to be made again."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.code_versions import of_stored
from harness.data.store import Store
from harness.ledger import Ledger
from harness.planning.space import Range
from harness.search.progress import progress
from tests.commands import results
from tests.conftest import Harness
from tests.faults.killing import killed_at
from tests.results import done
from tests.search import builders

pytestmark = pytest.mark.usefixtures("no_figures")

ENDED = 2**31 - 1  # the number of no process


@pytest.fixture
def full(tmp_path: Path) -> Ledger:
    """Results with a bit of everything that can go, and of what looks like it and must stay."""
    ledger = results.finished(tmp_path / "out")
    lost = replace(results.TEACHER, data="e" * 64)
    results.record(ledger, lost, 0.8, weights=True)  # in no plan
    ledger.folder("a" * 16).mkdir()  # interrupted
    (ledger.folder("a" * 16) / "checkpoint.pt").write_bytes(b"x" * 1000)
    ledger.folder("c" * 16).mkdir()  # before its first checkpoint
    torn = ledger.folder("b" * 16)  # damaged: somebody may want to look at it
    torn.mkdir()
    (torn / "record.json").write_bytes(b"{")
    (ledger.out / f".optuna.db.{ENDED}.tmp").write_bytes(b"x")
    cache = ledger.out / "cache"
    for code in ("0" * 12, of_stored("embedded")):
        for content in ("d" * 64, "e" * 64):
            store = Store(cache / code / "read", ["sst2", content])
            with store.held("file"):
                (store.folder / "file").write_bytes(b"x" * 500)
                store.vouch("file")
    (cache / "examined").mkdir()
    return ledger


def left(ledger: Ledger) -> dict[str, Any]:
    found = {"weights": [path.parent.name for path in ledger.out.glob("ledger/*/weights")]}
    found["cache"] = [read.parents[1].name + read.name for read in ledger.out.glob("cache/*/read/*")]
    found["runs"] = list(ledger.runs())
    return {name: sorted(each) for name, each in found.items()} | {"torn": len(list(ledger.out.glob(".*.tmp")))}


def test_what_goes_is_told_and_goes(call: Harness, full: Ledger) -> None:
    before, records = left(full), results.content(full.out)
    told = call("clean", "--out", full.out, "--dry-run")
    assert told.returncode == 0 and left(full) == before
    for part in ("other versions of the code (1 folder)", "weights of 1 run in no plan",
                 "1 interrupted run left, which would go on from there", "1 run left, of which there is no record",
                 "cache of runs in no plan (1 folder)", "1 file half written", "in all"):  # fmt: skip
        assert part in told.stdout, told.stdout
    done = call("clean", "--out", full.out, "--yes")
    assert done.returncode == 0 and "MB freed" in done.stdout, done.stderr
    now = left(full)
    assert now["weights"] == [results.TEACHER_RUN] and now["torn"] == 0
    assert len(now["cache"]) == 1 and now["cache"][0].startswith(of_stored("embedded"))
    assert now["runs"] == sorted(set(before["runs"]) - {"a" * 16, "c" * 16})
    assert (full.out / "cache" / "examined").is_dir()
    kept = results.content(full.out)
    assert kept.items() <= records.items() and not [name for name in records.keys() - kept.keys() if "record" in name]
    assert "nothing in" in call("clean", "--out", full.out).stdout
    assert "Vanilla KD" in call("report", "--study", "objectives_vs_init", "--out", full.out).stdout


def test_what_was_killed_while_it_wrote_goes_wherever_it_lies(call: Harness, full: Ledger) -> None:
    again = full.out / "cache" / f"again-{results.TEACHER_RUN}"  # an export, while it made a run again
    begun, moved = full.folder("a" * 16), full.out / "ledger" / f".{'c' * 16}.{ENDED}.tmp"
    plan = (full.out / results.PLAN).parent
    for folder in (again, begun, moved, plan, full.folder(results.TEACHER_RUN)):
        folder.mkdir(exist_ok=True)
        (folder / f".checkpoint.pt.{ENDED}.tmp").write_bytes(b"x")
    over = full.folder(results.TEACHER_RUN) / "checkpoint.pt"  # its driver was killed before it took this away
    over.write_bytes(b"x")
    live = plan / f".table.md.{os.getpid()}.tmp"  # a report that is being written meanwhile
    live.write_bytes(b"x")
    done = call("clean", "--out", full.out, "--yes")
    assert done.returncode == 0 and not over.exists(), done.stderr
    assert "what 1 export left" in done.stdout and "4 files half written" in done.stdout
    assert list(full.out.rglob(".*.tmp")) == [live] and not again.exists() and not begun.exists()


def test_it_asks_and_takes_no_for_an_answer(call: Harness, full: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    before = left(full)
    refused = call("clean", "--out", full.out)
    assert refused.returncode == 2 and "give --yes" in refused.stderr and left(full) == before
    for answer in ("n\n", "\n", ""):
        typed = io.StringIO(answer)
        typed.isatty = lambda: True  # type: ignore[method-assign]
        monkeypatch.setattr("sys.stdin", typed)
        assert call("clean", "--out", full.out).returncode == 0 and left(full) == before
    typed = io.StringIO("y\n")
    typed.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", typed)
    assert call("clean", "--out", full.out).returncode == 0 and left(full) != before


def test_nothing_goes_while_a_driver_works(call: Harness, full: Ledger) -> None:
    before = left(full)
    with full.lock():
        for words in (("clean", "--yes"), ("remove", results.TEACHER_RUN, "--yes")):
            done = call(*words, "--out", full.out)
            assert done.returncode == 3 and "another harness run is working" in done.stderr
    assert left(full) == before


def test_where_a_plan_cannot_be_read_no_weights_go(call: Harness, full: Ledger) -> None:
    (full.out / results.PLAN).write_text("{")
    done = call("clean", "--out", full.out, "--yes")
    assert done.returncode == 0 and "it cannot be told which those are" in done.stderr
    assert len(left(full)["weights"]) == 2


def test_weights_stay_that_a_planned_run_started_from(call: Harness, tmp_path: Path) -> None:
    ledger = results.finished(tmp_path / "out")
    base = results.record(ledger, replace(results.TEACHER, data="e" * 64), 0.8, weights=True)
    results.record(ledger, replace(results.student("att_kl"), seed=0), 0.5, started_from={base: "w"})
    assert "there is nothing" in call("clean", "--out", ledger.out, "--yes").stdout


def test_weights_stay_of_what_came_after_a_trial_that_was_lost(call: Harness, tmp_path: Path) -> None:
    """Its score decides what TPE tries next: until it is made anew, no proposal tells of the others."""
    space = {"learning_rate": Range(low=1e-4, high=1e-2, log=True, whole=False)}
    cell = builders.cell(results.student("vanilla_kd"), space=space, trials=3, seeds=2)
    ledger = Ledger(tmp_path / "out", create=True)
    while missing := progress(cell, {}, ledger.read).missing:
        results.record(ledger, missing[0], 0.5, weights=True)
        ledger = Ledger(ledger.out)
    results.write_plan(ledger.out, builders.plan([cell]))
    found = progress(cell, {}, ledger.read)
    (ledger.folder(found.trials[0].run) / "record.json").unlink()
    assert "of which there is no record" in done(call("clean", "--out", ledger.out, "--yes")).stdout
    left = {path.parent.name for path in ledger.out.glob("ledger/*/weights")}
    assert left == {run.run for run in (*found.trials[1:], *found.seeds[1:])}


def test_a_removed_run_is_missing_and_what_rests_on_it_is_named(call: Harness, tmp_path: Path) -> None:
    ledger = results.finished(tmp_path / "out")
    done = call("remove", results.TEACHER_RUN[:6], "--out", ledger.out, "--yes")
    assert done.returncode == 0 and "1 run removed" in done.stdout, done.stderr
    for name in ("vanilla_kd", "att_kl"):
        assert (
            f"run {results.run_of(name)} ({name} transformer every sst2, seed 0) started from {results.TEACHER_RUN}"
            in done.stdout
        )
    assert not ledger.folder(results.TEACHER_RUN).exists()
    assert "teacher runs: 0 of 1 done" in call("status", "--study", "objectives_vs_init", "--out", ledger.out).stdout


def test_a_removed_cell_loses_its_runs_alone(call: Harness, tmp_path: Path) -> None:
    ledger = results.finished(tmp_path / "out")
    cell = results.plan().cells[1]
    done = call("remove", cell.id, "--out", ledger.out, "--yes")
    assert done.returncode == 0 and f"cell {cell.id} of objectives_vs_init (att_kl" in done.stdout, done.stderr
    assert list(Ledger(ledger.out).runs()) == sorted([results.TEACHER_RUN, results.run_of("vanilla_kd")])
    again = call("remove", cell.id, "--out", ledger.out, "--yes")
    assert again.returncode == 2 and "has no run yet" in again.stderr
    unknown = call("remove", "zzz", "--out", ledger.out, "--yes")
    assert unknown.returncode == 2 and "there is no cell or run 'zzz'" in unknown.stderr


def test_a_removal_that_is_killed_is_given_again(call: Harness, tmp_path: Path) -> None:
    """Later trials are found by those before, so these go last."""
    ledger, space = Ledger(tmp_path / "out", create=True), {"temperature": [1.0, 2.0, 3.0]}
    cell = builders.cell(results.student("vanilla_kd"), "one cell", space=space, trials=3, seeds=2)
    results.write_plan(ledger.out, builders.plan([cell]))
    while missing := progress(cell, {}, ledger.read).missing:
        results.record(ledger, missing[0], 0.5)
        ledger = Ledger(ledger.out)
    words = ("remove", cell.id, "--out", ledger.out, "--yes")
    killed_at("harness.commands.clean:delete", 2, *words, folder=tmp_path / "said")
    assert len(list(ledger.runs())) == 2
    assert "2 runs removed" in done(call(*words)).stdout and not list(ledger.runs())
    assert "1 file half written" in done(call("clean", "--out", ledger.out, "--yes")).stdout
    assert not list((ledger.out / "ledger").iterdir())


def test_a_cell_of_two_plans_loses_the_runs_of_the_larger_search(call: Harness, tmp_path: Path) -> None:
    ledger, space = Ledger(tmp_path / "out", create=True), {"temperature": [1.0, 2.0, 3.0]}
    large = builders.cell(results.student("vanilla_kd"), "one cell", space=space, trials=3)
    while missing := progress(large, {}, ledger.read).missing:
        results.record(ledger, missing[0], 0.5)
        ledger = Ledger(ledger.out)
    for cell, place in ((large, "a/quick/plan.json"), (replace(large, trials=1), "b/quick/plan.json")):
        results.write_plan(ledger.out, builders.plan([cell]), Path(place))
    assert "3 runs removed" in done(call("remove", large.id, "--out", ledger.out, "--yes")).stdout


def test_a_run_that_lies_elsewhere_is_let_go(call: Harness, tmp_path: Path) -> None:
    ledger = results.finished(tmp_path / "out")
    run, elsewhere = ledger.folder(results.run_of("att_kl")), tmp_path / "elsewhere"
    run.rename(elsewhere)
    run.symlink_to(elsewhere)
    done(call("remove", run.name, "--out", ledger.out, "--yes"))
    assert not list(ledger.out.rglob(".*.tmp")) and (elsewhere / "record.json").is_file()
