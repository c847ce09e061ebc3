"""Optuna's database: a live view of the ledger that no run waits for, and that loses nothing when it dies."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.ledger import Ledger
from harness.planning.planned import Cell
from harness.search import database as module
from harness.search.database import View, database
from harness.search.display import Display
from harness.search.progress import Finished, Progress
from tests.conftest import SMALL_STUDY, Harness
from tests.launching import forked
from tests.postgres import Server, postgres
from tests.results import table_folder
from tests.search.builders import cell, student_run

ROW = ("--objectives", "vanilla_kd", "--inits", "random", "--trials", "2", "--seeds", "2")  # one cell, three runs
SENTENCE = "could not be brought up to date"
SPACE = {"learning_rate": {"low": 1e-5, "high": 1e-1, "log": True, "whole": False}, "schedule": ["linear", "cosine"]}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres() as running:
        yield running


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY", 0.2)
    monkeypatch.setattr(module, "LOCKED", 0.1)
    monkeypatch.setattr(module, "PATIENCE", 10.0)


def trials(url: str) -> dict[str, list[Any]]:
    """Study -> its trials, as Optuna reads them."""
    import optuna

    storage = optuna.storages.RDBStorage(url)
    names = optuna.get_all_study_names(storage)
    found = {name: optuna.load_study(study_name=name, storage=storage).trials for name in names}
    storage.engine.dispose()
    return found


def runs(url: str) -> list[str]:
    """The run of every trial, in order."""
    return sorted(trial.user_attrs["run"] for told in trials(url).values() for trial in told)


# ---------------------------------------------------------------- the view by itself


def of(name: str) -> Cell:
    return cell(name=name, row="row", student="s", init="random", task="mrpc", space=SPACE)


def finished(ledger: Ledger, run: str, **more: Any) -> Finished:
    """A run with its record in the ledger; the record in hand is only a part of it."""
    part = {"status": "finished", "selection": 0.75, "seconds": 90.0, **more}
    curve = [{"selection": None}, {"selection": 0.5}, {"selection": 0.75}]
    ledger.write(run, {**part, "metrics": {"f1": 0.5}, "curve": curve}, None)
    return Finished(run, student_run, {"learning_rate": 1e-3, "schedule": "cosine"}, part)


def tell(out: Path, url: str | None, *told: tuple[str, list[Finished]]) -> str:
    view = View("study", out, database(url, out))
    for name, found in told:
        view.cell(of(name), Progress(trials=found))
    return view.close()


def test_a_trial_is_told_once_with_its_state_curve_and_metrics(tmp_path: Path) -> None:
    ledger, url = Ledger(tmp_path, create=True), f"sqlite:///{tmp_path}/optuna.db"
    good, pruned = finished(ledger, "good"), finished(ledger, "pruned", pruned=True)
    failed = finished(ledger, "failed", status="failed")
    for _ in range(2):
        assert tell(tmp_path, None, ("c", [good, pruned, failed])) == ""
    several = finished(ledger, "several", by_task={"mrpc": {"metrics": {"f1": 0.25}}, "rte": {}})
    again = finished(ledger, "failed")  # made again: another trial
    assert tell(tmp_path, None, ("c", [good, pruned, again, several]), ("d", [good])) == ""
    told = trials(url)
    assert list(told) == ["study/row/s/random/mrpc/c", "study/row/s/random/mrpc/d"]
    first = told["study/row/s/random/mrpc/c"]
    assert [(t.user_attrs["run"], t.state.name) for t in first] == [
        ("good", "COMPLETE"), ("pruned", "PRUNED"), ("failed", "FAIL"), ("failed", "COMPLETE"), ("several", "COMPLETE"),
    ]  # fmt: skip
    assert first[0].params == {"learning_rate": 1e-3, "schedule": "cosine"} and first[0].value == 0.75
    assert first[0].intermediate_values == {0: 0.5, 1: 0.75} and first[0].user_attrs["metrics"] == {"f1": 0.5}
    assert first[4].user_attrs["metrics"] == {"f1": 0.25}
    ended = datetime.fromtimestamp(ledger.stamp("good")[0] / 1e9)
    assert first[0].datetime_complete == ended and first[0].duration == timedelta(seconds=90)


def test_a_trial_ended_when_its_record_says_so(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, create=True)
    found = finished(ledger, "good", made_on={"ended": "2026-11-28T07:55:44+00:00"})
    assert tell(tmp_path, None, ("c", [found])) == ""
    (trial,) = trials(f"sqlite:///{tmp_path}/optuna.db")["study/row/s/random/mrpc/c"]
    assert trial.datetime_complete.timestamp() == datetime(2026, 11, 28, 7, 55, 44, tzinfo=timezone.utc).timestamp()
    assert trial.duration == timedelta(seconds=90)


def test_what_the_database_told_of_a_run_that_was_made_anew_goes(tmp_path: Path) -> None:
    """And what was proposed from that score: the study is written anew. One of fewer trials asked for stays whole."""
    ledger, name, url = Ledger(tmp_path, create=True), "study/row/s/random/mrpc/c", f"sqlite:///{tmp_path}/optuna.db"
    first, second, third = (finished(ledger, run) for run in ("first", "second", "third"))
    assert tell(tmp_path, None, ("c", [first, second, third])) == ""
    (anew, *_), written = trials(url)[name], (tmp_path / "optuna.db").read_bytes()
    assert tell(tmp_path, None, ("c", [first])) == "" and (tmp_path / "optuna.db").read_bytes() == written
    other, proposed = finished(ledger, "first", selection=0.25), finished(ledger, "proposed")
    assert tell(tmp_path, None, ("c", [other])) == ""
    assert [(t.user_attrs["run"], t.value) for t in trials(url)[name]] == [("first", 0.25)]
    assert tell(tmp_path, None, ("c", [other, proposed])) == ""
    assert [t.user_attrs["run"] for t in trials(url)[name]] == ["first", "proposed"] and anew.value == 0.75


def test_what_was_proposed_after_a_failure_goes_once_that_has_a_score(tmp_path: Path) -> None:
    ledger, name = Ledger(tmp_path, create=True), "study/row/s/random/mrpc/c"
    failed, later = finished(ledger, "failed", status="failed"), finished(ledger, "later")
    assert tell(tmp_path, None, ("c", [failed, later])) == ""
    scored, proposed = finished(ledger, "failed"), finished(ledger, "proposed")
    assert tell(tmp_path, None, ("c", [scored, proposed])) == ""
    assert [t.user_attrs["run"] for t in trials(f"sqlite:///{tmp_path}/optuna.db")[name]] == ["failed", "proposed"]


def test_two_drivers_on_two_ledgers_share_one_database(tmp_path: Path, server: Server) -> None:
    url, views, expected = database_of(server, "shared"), [], []
    for who in "ab":
        ledger = Ledger(tmp_path / who, create=True)
        views.append(View("study", tmp_path / who, database(url, tmp_path)))
        for name in ("c", "d", who):  # the same studies, made at the same time
            found = [finished(ledger, f"{who}{name}{number}") for number in range(3)]
            expected += [trial.run for trial in found]
            views[-1].cell(of(name), Progress(trials=found))
    assert [view.close() for view in views] == ["", ""]
    assert runs(driven(url)) == sorted(expected)


def test_tables_that_two_drivers_make_at_the_same_moment_are_there_for_both(server: Server) -> None:
    import sqlalchemy

    url, met, here = driven(database_of(server, "moment")), threading.Barrier(2, timeout=20), threading.local()

    def waits(connection: Any, cursor: Any, statement: str, *more: Any) -> None:
        if statement.lstrip().startswith("CREATE") and not hasattr(here, "turn"):
            here.turn = met.wait()  # both have found that there is none

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", waits)
    try:
        with ThreadPoolExecutor(2) as drivers:
            made = list(drivers.map(lambda _: module.tables(url, {}), range(2)))
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", waits)
    assert [storage.get_all_studies() for storage in made] == [[], []] and met.n_waiting == 0
    for storage in made:
        storage.engine.dispose()


def test_a_server_that_comes_back_is_brought_up_to_date_at_once(tmp_path: Path, server: Server) -> None:
    url, ledger = database_of(server, "back"), Ledger(tmp_path, create=True)
    found = [finished(ledger, f"run{number}") for number in range(3)]
    view = View("study", tmp_path, database(url, tmp_path))
    view.cell(of("c"), Progress(trials=found[:1]))
    wait_until(lambda: count(url) == 1)
    server.stop()
    view.cell(of("c"), Progress(trials=found[:2]))
    time.sleep(0.5)
    server.start()
    wait_until(lambda: count(url) == 2)  # without another change of the cell
    server.stop()
    server.start()
    view.cell(of("c"), Progress(trials=found))  # all its connections are broken
    assert view.close() == "" and runs(driven(url)) == ["run0", "run1", "run2"]


def hanging(out: str, url: str) -> None:
    """Tell a server that never answers of a trial; print the seconds that this took, and what is said in the end."""
    import optuna  # noqa: F401 - beforehand: what takes long here is the server
    import psycopg  # noqa: F401
    import sqlalchemy  # noqa: F401

    module.PATIENCE, module.ANSWER = 1.0, 1000
    trial = finished(Ledger(Path(out), create=True), "run")
    began = time.monotonic()
    sentence = tell(Path(out), url, ("c", [trial]))
    print(time.monotonic() - began, sentence)


def test_a_database_that_never_answers_is_left_behind(tmp_path: Path) -> None:
    """In a process of its own, which ends although a thread of it still waits."""
    with closing(socket.create_server(("127.0.0.1", 0))) as deaf:
        url = f"postgresql://me:secret@127.0.0.1:{deaf.getsockname()[1]}/none"
        process = forked(tmp_path / "out", url, folder=tmp_path / "said", work=hanging, seconds=30)
    seconds, _, sentence = process.stdout.partition(" ")
    assert process.returncode == 0 and process.stderr == "" and float(seconds) < 5
    assert SENTENCE in sentence and "it does not answer" in sentence and "secret" not in sentence


@pytest.mark.parametrize("damage", ["cut", "garbage", "another version"])
def test_a_damaged_file_is_to_be_deleted(damage: str, tmp_path: Path) -> None:
    ledger, file = Ledger(tmp_path, create=True), tmp_path / "optuna.db"
    trial = finished(ledger, "run")
    assert tell(tmp_path, None, ("c", [trial])) == ""
    whole = file.read_bytes()
    if damage == "another version":
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript("UPDATE alembic_version SET version_num = 'v0.9.0.a'")
    else:
        file.write_bytes(whole[: len(whole) // 2] if damage == "cut" else b"x" * 5000)
    for _ in range(2):  # a retry ends nothing
        sentence = tell(tmp_path, None, ("c", [trial]), ("d", [trial]))
        assert SENTENCE in sentence and "no result is lost: delete it, and the next start makes it anew" in sentence
    file.unlink()
    assert tell(tmp_path, None, ("c", [trial]), ("d", [trial])) == "" and len(trials(f"sqlite:///{file}")) == 2


def test_a_database_that_is_slow_to_be_made_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import optuna  # noqa: F401 - beforehand: what is slow here is the database
    import sqlalchemy

    trial = finished(Ledger(tmp_path, create=True), "run")
    monkeypatch.setattr(module, "PATIENCE", 1.0)

    def slow(*what: Any) -> None:
        time.sleep(0.03)

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", slow)
    began = time.monotonic()
    try:
        assert tell(tmp_path, None, ("c", [trial])) == ""
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", slow)
    assert time.monotonic() - began > 2.0  # longer than anyone waits for nothing


@pytest.mark.parametrize(
    ("storage", "says"),
    [
        ("optuna.db", "takes the URL of a database"),
        ("", "takes the URL of a database"),
        ("postgresql://me:secret@host:port/name", "takes the URL of a database"),
        ("cassandra://me:secret@host/name", "no kind of database called 'cassandra'"),
        ("sqlite+nothing:///optuna.db", "no kind of database called 'sqlite\\+nothing'"),
        ("postgresql+psycopg_async://me:secret@host/name", "asynchronous"),
        ("oracle://me:secret@host/name", "needs the module \\w+; install it"),
    ],
)
def test_a_url_that_cannot_serve_is_refused_in_one_sentence(storage: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says) as refused:
        database(storage, tmp_path)
    assert "secret" not in str(refused.value) and "\n" not in str(refused.value)


def test_passwords_are_never_shown(tmp_path: Path) -> None:
    for url in ("postgresql://me:secret@127.0.0.1:9/name", "postgresql://me@127.0.0.1:9/name?password=secret"):
        where = database(url, tmp_path)
        assert where.shown.startswith("postgresql+psycopg://me") and "secret" not in where.shown
        assert where.password == "secret"  # which is taken out of what the driver says
        sentence = tell(tmp_path, url, ("c", [finished(Ledger(tmp_path, create=True), "run")]))
        assert "refused" in sentence and SENTENCE in sentence and "secret" not in sentence
    assert module._why(ValueError("no user me:secret\nsecret"), "secret") == "ValueError: no user me:***"


# ---------------------------------------------------------------- whole studies


@pytest.fixture(scope="module")
def calm(glue: Path, checkpoint: Path, call: Harness, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study with nothing in its way."""
    out = tmp_path_factory.mktemp("calm") / "out"
    process = study(call, glue, checkpoint, out)
    assert process.returncode == 0 and SENTENCE not in process.stderr, process.stderr
    return out


def study(call: Harness, glue: Path, checkpoint: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return call("run", *SMALL_STUDY, *ROW, "--data", glue, "--teacher", checkpoint, "--out", out, *more)


def searched(out: Path) -> list[str]:
    """The runs of the finished study's trials."""
    return sorted(run for run, seed in students(out).items() if seed == 0)


def students(out: Path) -> dict[str, int]:
    """The seed of each run of the study but the teacher's."""
    ledger = Ledger(out)
    found = {run: (ledger.read(run) or {})["specification"] for run in ledger.runs()}
    return {run: what["seed"] for run, what in found.items() if what["kind"] == "student"}


def unfinished(calm: Path, tmp_path: Path) -> Path:
    """The same study with its teacher alone."""
    out = Path(shutil.copytree(calm, tmp_path / "out"))
    for run in students(calm):
        shutil.rmtree(out / "ledger" / run)
    shutil.rmtree(out / "objectives_vs_init")
    (out / "optuna.db").unlink()
    return out


def test_a_server_that_dies_halfway_loses_nothing(
    calm: Path, glue: Path, checkpoint: Path, call: Harness, server: Server, tmp_path: Path, monkeypatch: Any
) -> None:
    url, ended = database_of(server, "halfway"), Display.ended

    def dies(display: Display, *news: Any) -> None:
        ended(display, *news)
        if display.done == 2:
            wait_until(lambda: count(url) == 1)  # the first trial is there while the study runs
            server.stop()

    out = unfinished(calm, tmp_path)
    monkeypatch.setattr(Display, "ended", dies)
    process = study(call, glue, checkpoint, out, "--storage", url)
    monkeypatch.undo()
    assert process.returncode == 0 and "3 runs trained" in process.stdout
    assert process.stderr.count(SENTENCE) == 1 and "Traceback" not in process.stderr
    assert (table_folder(out) / "table.md").read_bytes() == (table_folder(calm) / "table.md").read_bytes()
    assert not (out / "optuna.db").exists()
    server.start()
    process = study(call, glue, checkpoint, out, "--storage", url)
    assert process.returncode == 0 and "0 runs trained" in process.stdout and SENTENCE not in process.stderr
    assert runs(driven(url)) == searched(calm)


def test_a_locked_file_stops_nothing_and_is_rebuilt_afterwards(
    calm: Path, glue: Path, checkpoint: Path, call: Harness, tmp_path: Path
) -> None:
    out = unfinished(calm, tmp_path)
    with closing(sqlite3.connect(out / "optuna.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        process = study(call, glue, checkpoint, out)
    assert process.returncode == 0 and "3 runs trained" in process.stdout
    assert process.stderr.count(SENTENCE) == 1 and "locked" in process.stderr
    process = study(call, glue, checkpoint, out)
    assert "0 runs trained" in process.stdout and SENTENCE not in process.stderr
    assert runs(f"sqlite:///{out}/optuna.db") == searched(calm)


def test_a_missing_driver_is_named_before_anything_is_trained(
    glue: Path, checkpoint: Path, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    process = study(call, glue, checkpoint, tmp_path / "out", "--storage", "postgresql://me:secret@127.0.0.1:9/name")
    assert process.returncode == 2 and 'pip install "distill-harness[postgresql]"' in process.stderr
    assert "secret" not in process.stderr and not (tmp_path / "out" / "ledger").exists()


# ---------------------------------------------------------------- the server


def database_of(server: Server, name: str) -> str:
    """The URL of a new database."""
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.url.rpartition("/")[0] + f"/{name}"


def driven(url: str) -> str:
    return url.replace("postgresql:", "postgresql+psycopg:")


def count(url: str) -> int:
    """How many trials a database holds, however far it has come."""
    import psycopg

    try:
        with psycopg.connect(url) as connection:
            found: Any = connection.execute("SELECT count(*) FROM trials").fetchone()
            return int(found[0])
    except (psycopg.errors.UndefinedTable, psycopg.OperationalError):
        return 0


def wait_until(true: Any) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, "it did not happen within 20 s"
        time.sleep(0.05)
