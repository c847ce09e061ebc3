"""The index of the ledger: looking is faster with it, and never different."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import code_versions, plugin_code
from harness.code_versions import own_code
from harness.files import atomic_write, digest, sealed, unsealed
from harness.ledger import Ledger
from harness.planning.filed import keep
from harness.planning.planned import Cell, First, searches_of
from harness.runs import PretrainingRun
from harness.search import index as indexing
from harness.search import progress as replaying
from harness.search import proposals
from harness.search.driver import Driver
from harness.search.index import NAME, Index
from harness.search.progress import Proposed, progress
from tests.at_once import AtOnce, Silent
from tests.conftest import ROOT, Harness, environment
from tests.search.builders import BASE, cell, plan, student_run

STUDY = "objectives_vs_init"
DEFAULTS = {"learning_rate": 5e-5, "warmup_ratio": 0.1, "pruner": "none", "protocol": "held_out"}
GRID = {"warmup_ratio": [0.1, 0.2], "learning_rate": [1e-3, 5e-4]}
RANGE = {"learning_rate": {"low": 1e-5, "high": 1e-2, "log": True, "whole": False}}


FIRST = PretrainingRun(teacher=BASE, settings={}, seed=0)
TEACHER = FIRST.identity(DEFAULTS)


def of(objective: str, init: str, task: str, space: dict[str, Any], pruner: str = "none") -> Cell:
    metric = {"acceptability": "matthews", "entailment": "accuracy"}[task]
    settings = {**DEFAULTS, "pruner": pruner}
    run = student_run(
        task=task, teacher=TEACHER, init=init, objective=objective, procedure="two_stage", metric=metric,
        settings=settings,
    )  # fmt: skip
    name = digest([run.identity(DEFAULTS), space])[:16]
    return cell(run, name, stages=2, space=space, after=[TEACHER], trials=4, seeds=2)


CELLS = [
    of(objective, init, task, RANGE if init == "last" and task == "entailment" else GRID, pruner)
    for (objective, pruner), init, task in itertools.product(
        (("vanilla_kd", "none"), ("att_kl", "none"), ("hid_seq", "median"), ("cosine", "median")),
        ("every", "first", "last"),
        ("acceptability", "entailment"),
    )
]
PLAN = plan(
    CELLS, defaults=DEFAULTS, first={TEACHER: First(FIRST)},
    teachers={"acceptability": TEACHER, "entailment": TEACHER},
)  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 121 records of the plan, and an index of them."""
    out = tmp_path_factory.mktemp("finished") / "out"
    ledger = Ledger(out, create=True)
    keep(out, PLAN)
    assert Driver(PLAN, ledger, AtOnce(), Silent()).run() == 121
    (out / "ledger" / "begun").mkdir()
    replayed(Index(ledger)).save()
    return out


@pytest.fixture
def out(finished: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may harm; files keep their times."""
    return Path(shutil.copytree(finished, tmp_path / "out"))


def replayed(index: Index) -> Index:
    """The index, having seen all cells of the plan by their whole records."""
    for one in CELLS:
        index.progress(one, DEFAULTS, index.ledger.read)
    return index


def last_of(out: Path, place: int) -> Path:
    """The record of the last trial of a cell."""
    trials = progress(CELLS[place], DEFAULTS, Ledger(out).read).trials
    return out / "ledger" / trials[-1].run / "record.json"


def rewritten(path: Path, **changes: Any) -> None:
    """Another record in the place of one, as a driver writes it."""
    atomic_write(path, sealed({**unsealed(path.read_bytes()), **changes}))


def _remove(out: Path) -> None:
    shutil.rmtree(last_of(out, 0).parent)


def _improve(out: Path) -> None:
    for place in (0, 5, 17, 23):  # grid, TPE, and both with a pruner
        rewritten(last_of(out, place), selection=0.999)


def _improve_first_trials(out: Path) -> None:
    for place in (0, 5, 17, 23):  # where Optuna or the pruner look at it, the later trials are others now
        run = progress(CELLS[place], DEFAULTS, Ledger(out).read).trials[0].run
        curve = [{"stage": "prediction", "epoch": 1, "loss": 0.5, "selection": 0.25}]
        rewritten(out / "ledger" / run / "record.json", selection=0.25, curve=curve)


def _fail(out: Path) -> None:
    rewritten(last_of(out, 5), status="failed", error="it diverged", traceback="")


def _prune(out: Path) -> None:
    """The best trial was pruned, and the index knows it."""
    best = progress(CELLS[17], DEFAULTS, Ledger(out).read).best
    assert best is not None
    rewritten(out / "ledger" / best.run / "record.json", pruned=True)
    replayed(Index(Ledger(out))).save()


def _cut(out: Path) -> None:
    path = last_of(out, 5)
    before = path.stat()
    path.write_bytes(path.read_bytes()[:-20])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _add(out: Path) -> None:
    """The index was written when half of the records were not there yet."""
    (out / NAME).unlink()
    (out / "ledger").rename(out / "whole")
    (out / "ledger").mkdir()
    for folder in sorted((out / "whole").iterdir())[::2]:
        shutil.copytree(folder, out / "ledger" / folder.name)
    replayed(Index(Ledger(out))).save()
    shutil.rmtree(out / "ledger")
    (out / "whole").rename(out / "ledger")


def _flip(out: Path) -> None:
    raw = (out / NAME).read_bytes()
    (out / NAME).write_bytes(raw.replace(b'"finished"', b'"finishes"', 1))


def _truncate(out: Path) -> None:
    (out / NAME).write_bytes((out / NAME).read_bytes()[:-100])


def _other_code(out: Path) -> None:
    stored = unsealed((out / NAME).read_bytes())
    for known in stored["searches"].values():
        known["trials"] = known["trials"][::-1]
    (out / NAME).write_bytes(sealed({**stored, "code": "of another version"}))


def _other_form(out: Path) -> None:
    (out / NAME).write_bytes(sealed({"format": 99}))


def _nothing(out: Path) -> None:
    """Leave all as it is."""


RECORDS: list[Callable[[Path], None]] = [_remove, _improve, _improve_first_trials, _fail, _prune, _cut]
INDEX: list[Callable[[Path], None]] = [_nothing, _add, _flip, _truncate, _other_code, _other_form]


def looked(call: Harness, out: Path) -> list[tuple[str, str]]:
    """What status and report print; as JSON it has every number in full, and the notes."""
    asked = (("status",), ("report", "--format", "json"))
    found = [call(*words, "--study", STUDY, "--out", out) for words in asked]
    assert all(f.returncode == 0 for f in found)
    assert "cells were made with another version of harness" in found[1].stdout
    return [tuple(text.replace(str(out), "OUT") for text in (f.stdout, f.stderr)) for f in found]


@pytest.mark.parametrize("harm", RECORDS)
def test_status_and_report_say_the_same_with_and_without_the_index(
    call: Harness, out: Path, harm: Callable[[Path], None]
) -> None:
    harm(out)
    with_index = looked(call, out)
    assert (out / NAME).exists()
    (out / NAME).unlink()
    assert looked(call, out) == with_index
    assert not (out / NAME).exists()  # who only looks writes nothing


@pytest.fixture(scope="module")
def said(call: Harness, finished: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """What is printed of the records as they are, without an index."""
    out = Path(shutil.copytree(finished, tmp_path_factory.mktemp("said") / "out"))
    (out / NAME).unlink()
    return looked(call, out)


@pytest.mark.parametrize("harm", INDEX)
def test_whatever_the_index_is_they_say_what_the_records_do(
    call: Harness, out: Path, harm: Callable[[Path], None], said: list[tuple[str, str]]
) -> None:
    harm(out)
    assert (out / NAME).exists() and looked(call, out) == said


def test_status_opens_no_record_that_the_index_vouches_for(call: Harness, out: Path) -> None:
    whole = call("status", "--study", STUDY, "--out", out).stdout
    for path in (out / "ledger").glob("*/record.json"):
        before = path.stat()
        path.write_bytes(b"x" * before.st_size)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert call("status", "--study", STUDY, "--out", out).stdout == whole
    report = call("report", "--study", STUDY, "--out", out).stderr
    assert report.count("is damaged") == 68  # the teacher's, and of each cell all that does not rest on another
    os.utime(path)
    assert "damaged" in call("status", "--study", STUDY, "--out", out).stdout


def test_status_of_a_search_by_tpe_loads_no_heavy_library(out: Path) -> None:
    code = (
        "import sys; from harness.cli import main; main(sys.argv[1:]); "
        "print({'torch', 'pandas', 'optuna', 'numpy', 'sklearn'} & set(sys.modules))"
    )
    words = (sys.executable, "-c", code, "status", "--study", STUDY, "--out", str(out))
    found = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True)
    assert found.stdout.endswith("set()\n") and "120 done" in found.stdout


def test_what_is_known_is_not_proposed_again(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proposed: list[int] = []

    def counted(*arguments: Any) -> Any:
        proposed.append(arguments[3])
        return proposals.propose(*arguments)

    last = last_of(out, 5)
    monkeypatch.setattr(replaying, "propose", counted)
    replayed(Index(Ledger(out)))
    assert proposed == []
    rewritten(last, selection=0.0)  # nothing is proposed from the last trial
    index = replayed(Index(Ledger(out)))
    assert proposed == []
    index.progress(replace(CELLS[5], trials=6), DEFAULTS, index.ledger.read)
    assert proposed == [4]


def test_the_same_code_elsewhere_is_no_other(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored, copy = Index(Ledger(out))._stored, tmp_path / "copy"
    for folder in plugin_code.our_folders():
        shutil.copytree(folder, copy / folder.relative_to(ROOT), ignore=shutil.ignore_patterns("__pycache__"))
    for module in (code_versions, plugin_code):
        monkeypatch.setattr(module, "ROOT", copy)
    own_code.cache_clear()
    assert stored["runs"] and Index(Ledger(out))._stored == stored
    (copy / "harness" / "another.py").touch()
    own_code.cache_clear()
    assert not Index(Ledger(out))._stored["runs"]
    own_code.cache_clear()


def test_a_second_writing_without_news_leaves_the_file_alone(out: Path) -> None:
    before = (out / NAME).stat().st_ino
    replayed(Index(Ledger(out))).save()
    assert (out / NAME).stat().st_ino == before  # an atomic writing makes a new file
    rewritten(last_of(out, 0), selection=0.125)
    replayed(Index(Ledger(out))).save()
    assert (out / NAME).stat().st_ino != before


def test_the_index_forgets_runs_that_are_gone(out: Path) -> None:
    gone = last_of(out, 0).parent
    shutil.rmtree(gone)
    Index(Ledger(out)).save()
    stored = unsealed((out / NAME).read_bytes())
    assert gone.name not in stored["runs"] and len(stored["runs"]) == 120
    assert len(stored["searches"]) == len(CELLS)  # the other trials of its search are there


OTHERS: list[tuple[int, dict[str, Any]]] = [
    (0, {"space": dict(reversed(GRID.items()))}),
    (0, {"space": {**GRID, "warmup_ratio": [0.1, 0.3]}}),
    (0, {"run": replace(CELLS[0].run, objective="cosine")}),
    (0, {"starts": ["one", "two"]}),
    (0, {"trials": 3}),  # of a grid of four
    (5, {"search": "another"}),  # the seed of Optuna's proposals
]


@pytest.mark.parametrize("place, other", OTHERS)
def test_another_search_is_not_answered_by_what_is_known_of_this(out: Path, place: int, other: dict[str, Any]) -> None:
    index = replayed(Index(Ledger(out)))
    changed = replace(CELLS[place], **other)
    expected = progress(changed, DEFAULTS, index.read)
    assert index.progress(changed, DEFAULTS) == expected != progress(CELLS[place], DEFAULTS, index.read)


def test_other_defaults_are_other_runs(out: Path) -> None:
    index = replayed(Index(Ledger(out)))
    defaults = {**DEFAULTS, "protocol": "published"}
    assert index.progress(CELLS[0], defaults).missing and not index.progress(CELLS[0], DEFAULTS).missing


def quick(
    search: str, space: Any, trials: int, number: int, before: Any, sampler: str, seed: int
) -> dict[str, Any] | None:
    """A proposal that depends on all scores before, as Optuna's do, at no cost."""
    return {"x": digest([search, number, before, seed])} if number < 5 else None


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=6),
    st.sampled_from(["none", "median"]),
    st.sampled_from([4, 6]),
    st.booleans(),
)
def test_what_is_known_changes_no_answer_whatever_the_records_become(
    worlds: list[int], pruner: str, trials: int, by_seed: bool
) -> None:
    one = replace(of("att_kl", "every", "entailment", GRID, pruner), trials=trials, seeds=3, searched_by_seed=by_seed)
    known = [Proposed() for _ in range(searches_of(one))]
    for world in worlds:

        def lookup(run: str, world: int = world) -> Any:
            """A record drawn from the run, whose parts change from world to world at different runs."""
            drawn = [int(digest([run, part, world // (1 + part % 2)])[:4], 16) % 5 for part in range(4)]
            if drawn[0] == 0 and world % 2:
                return None
            if drawn[1] == 0:
                return {"status": "failed", "error": "", "world": world}
            curve = [{"selection": drawn[2] / 5}, {"selection": None}]
            return {"status": "finished", "selection": drawn[3] / 5, "pruned": drawn[1] == 1, "curve": curve}

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(replaying, "propose", quick)
            assert progress(one, DEFAULTS, lookup, known) == progress(one, DEFAULTS, lookup)
        stored = json.loads(json.dumps([[k.trials, k.evidence, k.seeds] for k in known]))  # as a file keeps it
        known = [Proposed([(h, run) for h, run in tried], *rest) for tried, *rest in stored]


def test_a_driver_keeps_the_index_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    class Watching(Silent):
        def ended(self, run: Any, record: Any) -> None:
            stored = unsealed((tmp_path / "out" / NAME).read_bytes()) if (tmp_path / "out" / NAME).exists() else {}
            seen.append(len(stored.get("runs", ())))

    monkeypatch.setattr(indexing, "PERIOD", 0.0)
    monkeypatch.setattr(indexing, "SHARE", float("inf"))
    Ledger(tmp_path / "out", create=True)
    one = replace(PLAN, cells=CELLS[:1])
    assert Driver(one, Ledger(tmp_path / "out"), AtOnce(), Watching()).run() == 6
    assert seen == list(range(6))
    ledger = Ledger(tmp_path / "out")
    assert not Index(ledger).progress(CELLS[0], DEFAULTS).missing
    assert not list(ledger.known())  # no record was read for that


def test_what_takes_long_to_write_is_written_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, written = [0.0], []

    def slowly(path: Path, content: Any) -> None:
        clock[0] += 4.0
        written.append(clock[0])

    monkeypatch.setattr(indexing.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(indexing, "write_sealed", slowly)
    index = Index(Ledger(tmp_path / "out", create=True))
    for clock[0] in (30.0, 61.0, 130.0, 264.0, 266.0):
        index._stored = {**index._stored, "code": ""}  # something new
        index.keep()
    assert written == [65.0, 270.0], "four seconds are to be a fiftieth of the time"
