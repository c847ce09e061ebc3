"""Optuna's database: a live view of the ledger, for the Optuna dashboard. Deleting it loses nothing."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import UserError
from harness.ledger import Ledger, Stamp
from harness.planning.planned import Cell
from harness.runs.told import Record
from harness.search.progress import Finished, Progress, by_search, curve
from harness.search.proposals import frozen

if TYPE_CHECKING:
    import optuna

RETRY = 10.0  # seconds after which a write that failed is tried again; sooner if there is more to write
PATIENCE = 20.0  # seconds without any progress after which the end of the command waits no longer
LOCKED = 5.0  # seconds that SQLite waits for another process
ANSWER = 10  # seconds within which PostgreSQL must have taken a connection
MAKERS = 5  # times that a driver tries to make the tables while others make them

# Study, run as JSON, its score or None if it failed: a failed run that is made again is a trial again.
Told = tuple[str, str, float | None]
# Of all studies at once: to ask for one after the other takes minutes where there are thousands.
TOLD = (
    "SELECT studies.study_name, trial_user_attributes.value_json, trial_values.value FROM trial_user_attributes "
    "JOIN trials ON trials.trial_id = trial_user_attributes.trial_id "
    "JOIN studies ON studies.study_id = trials.study_id "
    "LEFT JOIN trial_values ON trial_values.trial_id = trials.trial_id WHERE trial_user_attributes.key = 'run'"
)


@dataclass(frozen=True)
class Database:
    """Where the view is kept. shown: the same without its password; file: of SQLite."""

    url: str
    shown: str
    file: Path | None = None
    password: str = ""


def database(storage: str | None, out: Path) -> Database:
    """The database that --storage names, or optuna.db in the folder `out`. Connects to nothing.

    Raises UserError if `storage` is no URL, or of a kind of database or driver that is not there.
    """
    if storage is None:
        return Database("", str(out / "optuna.db"), out / "optuna.db")
    import sqlalchemy
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    like = "write it as postgresql://user@host/database"
    try:
        url = sqlalchemy.make_url(storage)
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername="postgresql+psycopg")
        engine = sqlalchemy.create_engine(url)
    except NoSuchModuleError as error:
        raise UserError(f"--storage: there is no kind of database called {url.drivername!r}; {like}") from error
    except ImportError as error:
        ours = url.drivername == "postgresql+psycopg"
        install = 'pip install "distill-harness[postgresql]"' if ours else "install it, or name another driver"
        raise UserError(f"--storage: {url.drivername} needs the module {error.name}; {install}") from error
    except (ArgumentError, ValueError, TypeError) as error:  # not repeated here: it may hold a password
        raise UserError(f"--storage takes the URL of a database, which this is not: {like}") from error
    if engine.dialect.is_async:
        raise UserError(f"--storage cannot use the asynchronous driver of {url.drivername}; {like}")
    if engine.dialect.name == "postgresql" and engine.dialect.driver in ("psycopg", "psycopg2"):
        url = url.update_query_dict({"connect_timeout": str(ANSWER), **url.query})
    return Database(
        url.render_as_string(hide_password=False),
        url.set(query={}).render_as_string(),
        Path(url.database) if engine.dialect.name == "sqlite" and url.database else None,
        str(url.password or url.query.get("password", "")),
    )


class View:
    """Tells Optuna's database of finished trials, in a thread of its own: nobody waits for it before `close`.

    What could not be written is tried again while the command runs, and by the next one. A trial that the database has
    already is not written again; a study there that tells what the ledger does not say any more is written anew.
    """

    def __init__(self, study: str, out: Path, where: Database):
        self.study, self.out, self.where = study, out, where
        self._waiting: dict[str, tuple[Cell, Sequence[Finished]]] = {}  # search -> its cell and its trials
        self._changed = self._closing = False
        self._condition = threading.Condition()  # of the three above
        self._told: set[Told] = set()  # this and the next belong to the thread
        self._storage: optuna.storages.RDBStorage | None = None
        self._studies: dict[str, optuna.Study] = {}
        self._steps, self._trouble, self._damaged = 0, "", False
        self._thread = threading.Thread(target=self._work, name="optuna", daemon=True)
        self._thread.start()

    def cell(self, cell: Cell, found: Progress) -> None:
        """Take note of the trials that a cell has. Returns at once."""
        name = f"{self.study}/{cell.row}/{cell.student}/{cell.init}/{cell.task}/{cell.id}"
        searches = by_search(cell, found) if cell.space else {}
        with self._condition:
            for seed, trials in searches.items():
                self._waiting[f"{name}/seed {seed}" if cell.searched_by_seed else name] = cell, trials
                self._changed = True
                self._condition.notify()

    def close(self) -> str:
        """Wait for what is still to be written, as long as it goes on. Returns "" or why the database lacks something.

        A thread that hangs is left behind; it ends with the process.
        """
        with self._condition:
            self._closing = True
            self._condition.notify()
        before = -1
        while self._thread.is_alive() and before != self._steps:
            before = self._steps
            self._thread.join(PATIENCE)
        if not self._waiting:
            return ""
        why = self._trouble or "it does not answer"
        then = ": delete it, and the next start makes it anew" if self._damaged else ", and the next start tries again"
        return f"Optuna's database {self.where.shown} could not be brought up to date ({why}); no result is lost{then}"

    def _work(self) -> None:
        if self.where.file is not None:
            self._told = _known(self.where.file)
        closing = False
        while not closing:
            with self._condition:
                self._condition.wait_for(
                    lambda: self._changed or self._closing, timeout=RETRY if self._waiting else None
                )
                closing, self._changed = self._closing, False
                waiting = dict(self._waiting)
            try:
                for name, (cell, trials) in waiting.items():
                    self._tell(name, cell, trials)
                    with self._condition:
                        if self._waiting[name][1] is trials:
                            del self._waiting[name]
            except Exception as error:  # whatever a database or its driver raises, runs go on
                self._trouble = _why(error, self.where.password)
                self._damaged = self.where.file is not None and _is_damage(error)
                self._disconnect()
        self._disconnect()

    def _tell(self, name: str, cell: Cell, trials: Sequence[Finished]) -> None:
        keys = [(name, json.dumps(trial.run), trial.score) for trial in trials]
        if self._storage is None and not self._told.issuperset(keys):
            self._connect()
        if self._told.issuperset(keys):
            return
        study = self._study(name)
        found = study.get_trials(deepcopy=False)  # another driver may have told some since; only those are read
        ledger = Ledger(self.out)  # not the driver's, which is not meant for two threads
        if _outdated(found, trials, ledger):
            study, found = self._anew(name), []
        for known in found:
            self._told.add((name, json.dumps(known.user_attrs.get("run")), known.value))
        for key, trial in zip(keys, trials, strict=True):
            if key not in self._told:
                record = ledger.read(trial.run) or trial.record
                study.add_trial(_in_optunas_terms(cell, trial, record, ledger.stamp(trial.run)))
                self._told.add(key)
                self._steps += 1

    def _study(self, name: str) -> optuna.Study:
        import optuna

        if name not in self._studies:  # another driver may be making the same one
            self._studies[name] = optuna.create_study(
                study_name=name, storage=self._storage, direction="maximize", load_if_exists=True
            )
        return self._studies[name]

    def _anew(self, name: str) -> optuna.Study:
        """The study without its trials, which cannot be changed."""
        import optuna

        optuna.delete_study(study_name=name, storage=self._studies.pop(name)._storage)
        self._told = {key for key in self._told if key[0] != name}
        return self._study(name)

    def _connect(self) -> None:
        import optuna
        import sqlalchemy

        self._answered()  # loading them takes a while
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        url = self.where.url or sqlalchemy.URL.create("sqlite", database=str(self.where.file)).render_as_string()
        arguments: dict[str, Any] = {"pool_pre_ping": True}  # a server may have been started anew between two trials
        if self.where.file is not None:
            arguments["connect_args"] = {"timeout": LOCKED}
        # Whatever it answers is progress: the first connection makes some twenty tables before there is an engine.
        answer = (sqlalchemy.Engine, "after_cursor_execute", self._answered)
        sqlalchemy.event.listen(*answer)
        try:
            self._storage = tables(url, arguments)
        finally:
            sqlalchemy.event.remove(*answer)
        sqlalchemy.event.listen(self._storage.engine, *answer[1:])
        with self._storage.engine.connect() as connection:
            rows = connection.execute(sqlalchemy.text(TOLD))
            self._told = {(name, run, score) for name, run, score in rows}
        self._steps += 1

    def _answered(self, *what: Any) -> None:
        self._steps += 1

    def _disconnect(self) -> None:
        """Forget all that was read, so that the next attempt sees the database as it is."""
        storage, self._storage = self._storage, None
        self._told, self._studies = set(), {}
        if storage is not None:
            storage.engine.dispose()


def tables(url: str, arguments: dict[str, Any]) -> optuna.storages.RDBStorage:
    """Optuna's tables at this URL, made where they are missing.

    Of two drivers that make them at the same moment one is told that they exist: it finds them when it tries again.
    """
    import optuna
    from sqlalchemy.exc import DatabaseError, IntegrityError, ProgrammingError

    attempts = 0
    while True:
        try:
            return optuna.storages.RDBStorage(url, engine_kwargs=arguments)
        except DatabaseError as error:
            attempts += 1
            lost = isinstance(error, (IntegrityError, ProgrammingError)) or "already exists" in str(error)
            if not lost or attempts == MAKERS:
                raise


def _outdated(known: Sequence[optuna.trial.FrozenTrial], trials: Sequence[Finished], ledger: Ledger) -> bool:
    """True if the database lacks one of the trials and has another score of a run here, or a run here that is none.

    So it is where a run was made anew, and what was proposed after it is another. Where more trials were asked for
    before, it lacks none; what failed before stays told; and runs of another ledger are for its driver to tell.
    """
    ours = {(trial.run, trial.score) for trial in trials}
    told = {(trial.user_attrs.get("run"), trial.value) for trial in known}
    return not told >= ours and any(score is not None and run and ledger.stamp(run) for run, score in told - ours)


def _known(file: Path) -> set[Told]:
    """What a SQLite file holds, read without loading Optuna; nothing where that cannot be told so."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=0)) as connection:
            return set(connection.execute(TOLD))
    except sqlite3.Error:
        return set()


def _in_optunas_terms(cell: Cell, trial: Finished, record: Record, stamp: Stamp | None) -> optuna.trial.FrozenTrial:
    """With its curve as intermediate values, by epoch from 0, as pruners see it, and the time its run took."""
    own = record.get("by_task", {}).get(cell.task, record)
    told = frozen(
        cell.space,
        trial.hyperparameters,
        trial.score,
        pruned=bool(record.get("pruned")),
        user_attrs={"run": trial.run, "metrics": own.get("metrics", {})},
        intermediate_values=dict(enumerate(curve(record))),
    )
    if ended := _ended(record, stamp):
        told.datetime_complete = ended
        told.datetime_start = told.datetime_complete - timedelta(seconds=record.get("seconds", 0.0))
    return told


def _ended(record: Record, stamp: Stamp | None) -> datetime | None:
    """In local time, as Optuna has it. What records of before do not tell, the record's file does: the last copying."""
    if ended := record.get("made_on", {}).get("ended"):
        return datetime.fromisoformat(ended).astimezone().replace(tzinfo=None)
    return datetime.fromtimestamp(stamp[0] / 1e9) if stamp else None


def _first(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _is_damage(error: BaseException) -> bool:
    """True of what no retry ends: a file that SQLite cannot read, or of another version of Optuna."""
    error = _first(error)
    passing = any(word in str(error) for word in ("locked", "readonly", "unable to open", "is full"))
    return isinstance(error, (sqlite3.DatabaseError, RuntimeError)) and not passing


def _why(error: BaseException, password: str) -> str:
    """The first line of what the database's driver said, without the password."""
    error = _first(error)
    line = next(iter(str(error).splitlines()), "")
    line = f"{type(error).__name__}: {line}" if line else type(error).__name__
    return line.replace(password, "***") if password else line
