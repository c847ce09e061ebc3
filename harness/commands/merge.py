"""The commands `merge` and `pack`: results of several folders as one, and a folder of results for somebody else."""

from __future__ import annotations

import os
import shlex
import shutil
from argparse import Namespace
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness import code_versions, plugin_code
from harness.commands.recorded import title_of
from harness.commands.telling import say, tell
from harness.errors import UserError, counted
from harness.evaluation import server_scores
from harness.files import (
    atomic_file,
    atomic_write,
    beside,
    cannot_write,
    check_name,
    check_writable,
    digest,
    remove,
    remove_abandoned,
    size_of,
    sync_file,
    sync_folder,
)
from harness.folders import ARCHIVES, LOCK, MARKER, OTHERS, holds_results
from harness.ledger import LOG, Ledger
from harness.planning import filed, naming
from harness.runs import RunId
from harness.runs.told import Record, metrics_of

NUMBERS = ("status", "metrics", "by_task", "selection", "predictions_sha256", "weights")  # what two of one run share
OF_TASK = ("metrics", "selection")  # of what `by_task` tells, whose rest is measured, or counted by newer code alone


def merge(options: Namespace) -> int:
    """Bring every run and plan of some folders into another. Returns 1 where something was left out."""
    into = Path(options.into)
    for name in options.folders:
        if Path(name).resolve() == into.resolve():
            raise UserError(f"{name} is the folder that --into names: give only the others")
        if into.resolve().is_relative_to(Path(name).resolve()):
            raise UserError(f"--into {into} lies in {name}, which stays as it is: give another")
        if not holds_results(Path(name)):
            raise UserError(f"there are no results in {name}")
    sources = [Ledger(Path(name)) for name in options.folders]
    check_writable(into, "--into")
    target = Ledger(into, create=True)
    left_out = 0
    with target.lock():
        for source in sources:
            # Not asked of a folder that nobody ever locked, for that would leave a lock's file there.
            begun = any((source.out / name).exists() for name in (LOCK, MARKER)) and source.is_worked_in()
            union = Union(target)
            union.add(source)
            left_out += union.left_out
            tell(f"{source.out}: {union.summary()}")
            if begun:
                say(f"{source.out} is still worked in: merge it again for the runs that end from now on")
    tell(f"harness report --study NAME --out {shlex.quote(str(into))} prints a table of all")
    return 1 if left_out else 0


@dataclass
class Union:
    """Brings runs into a ledger, whose folder is locked. What the target has, stays."""

    target: Ledger
    packs: bool = False  # for another machine: plugin files from elsewhere go along, other places stay as they are told
    counts: Counter[str] = field(default_factory=Counter)
    plugins: dict[Path, str] = field(default_factory=dict)  # plugin file -> how the target's plans tell it
    elsewhere: set[str] = field(default_factory=set)  # places of data, models, and the user's own packages

    @property
    def left_out(self) -> int:
        return self.counts["conflict"] + self.counts["damaged"]

    def summary(self) -> str:
        counts = self.counts
        return (
            f"{counted(counts['brought'], 'run')} brought, {counts['there']} there before, "
            f"{counts['conflict']} in conflict, {counts['damaged']} damaged, {counted(counts['plan'], 'plan')} brought"
        )

    def add(self, source: Ledger) -> None:
        """All that a folder of results has, but for its cache and what is made again of the rest."""
        for run in source.runs():
            if (record := source.whole(run)) is not None:
                self.counts[self._run(source, run, record)] += 1
            elif run in source.damaged:
                say(f"{source.damaged[run].partition(';')[0]}: it is left out")
                self.counts["damaged"] += 1
        for path in filed.paths(source.out):
            self.counts["plan"] += self._plan(source, path)
        self._server_scores(source)

    def _run(self, source: Ledger, run: RunId, record: Record) -> str:
        """Bring a run, unless it is there. Returns what became of it."""
        here = self.target.whole(run)
        if here is None or (here["status"] == "failed" and record["status"] == "finished"):
            return "brought" if self._bring(source, run, record) else "damaged"
        if record["status"] == "failed":
            return "there"
        theirs, ours = _numbers(record), _numbers(here)
        kept = bool(theirs["weights"]), bool(ours["weights"])  # not where --keep was none
        if not all(kept):
            theirs["weights"] = ours["weights"]
        if other := [name for name in NUMBERS if theirs[name] != ours[name]]:
            which = f"run {run} of {source.out} ({title_of(record)})"
            say(f"{which} has {_differences(here, record, other)}: {self.target.out} keeps its own")
            return "conflict"
        if self.target.trouble_with_weights(run):
            if kept == (True, False) and source.has_weights(run):
                self._bring(source, run, record)  # which vouches for them
            else:
                self._bring_weights(source, run)
        return "there"

    def _bring(self, source: Ledger, run: RunId, record: Record) -> bool:
        """Copy what a run left, and last the record that vouches for it."""
        self._bring_weights(source, run)
        for name in ("predictions.safetensors", LOG, "record.json"):
            _copy(source.folder(run) / name, self.target.folder(run) / name)
        self.target.forget(run)
        if self.target.whole(run) is None:  # it was being written there, or one of the disks fails
            say(f"run {run} of {source.out} changed while it was copied: it is left out, give the command again")
            return False
        self.target.remove_leftovers(run, record)
        return True

    def _bring_weights(self, source: Ledger, run: RunId) -> None:
        from harness.training.weights import whole_folder

        folder = source.folder(run) / "weights"
        if not folder.is_dir():
            return
        if trouble := source.trouble_with_weights(run):
            say(f"the weights of run {run} of {source.out} {trouble}: they are left out, and made again when needed")
            return
        try:
            with whole_folder(self.target.folder(run) / "weights") as temporary:
                for path in folder.rglob("*"):
                    _copy(path, temporary / path.relative_to(folder))
                if not source.has_weights(run):  # a driver that works there wants those of a better run
                    raise FileNotFoundError(folder)
        except UserError:
            if source.has_weights(run):
                raise
            say(f"the weights of run {run} of {source.out} went while they were copied: made again when needed")

    def _plan(self, source: Ledger, path: Path) -> bool:
        """Bring a plan, in place of a damaged one.

        Where there is another of that name it stands beside it, so that its cells are found.
        """
        to = self._place(source, path)
        raw = path.read_bytes()
        if not filed.is_whole(raw):
            say(f"plan {path} is damaged: it is left out")
            self.counts["damaged"] += 1
            return False
        content = self._moved(raw, source)
        if to.is_file() and not filed.is_whole(to.read_bytes()):
            remove(to)
        if to.is_file() and (kept := to.read_bytes()) != content:
            table = to
            to = filed.aside(to, content)
            if not to.is_file() and (more := filed.cells_in(content) - filed.cells_in(kept)):
                say(
                    f"plan {path} has {counted(len(more), 'cell')} that {table} has not, which the table is made by: "
                    f"harness show tells of the others, such as {min(more)}"
                )
        if to.is_file():
            return False
        atomic_write(to, content)
        return True

    def _place(self, source: Ledger, path: Path) -> Path:
        """Where a plan belongs, whose kind the target may spell otherwise: earlier versions did so as it was typed."""
        study, profile, kind, *rest = path.relative_to(source.out).parts
        flags = naming.kinds(source.out / study / profile).get(kind, "")
        there = naming.kinds(self.target.out / study / profile)
        same = [name for name, said in there.items() if said == flags]
        if flags and kind not in same:
            kind = same[0] if same else f"{kind}--{digest(flags)[:6]}" if kind in there else kind
        return self.target.out.joinpath(study, profile, kind, *rest)

    def _moved(self, content: bytes, source: Ledger) -> bytes:
        """A plan that tells places as the target has them. Plugin files that are to go with it are copied."""

        def change(field: str, text: str) -> str:
            place = filed.found(text, os.path.abspath(source.out))
            if field == "plugins" and Path(place) not in self.plugins:
                self.plugins[Path(place)] = self._plugin(Path(place), text, Path(os.path.abspath(source.out)))
            if field in ("plugins", "origins") and Path(place) in self.plugins:
                return self.plugins[Path(place)]
            if field not in ("plugins", "origins") and os.path.isabs(place):
                self.elsewhere.add(place)
            return text if text == place or self.packs else filed.told_from(place, self.target.out)

        return filed.moved(content, change)

    def _plugin(self, file: Path, text: str, out: Path) -> str:
        """How the target's plans tell a plugin file. What lies in the folder goes with them, and all does in a pack."""
        inside = file.is_relative_to(out)
        if not file.is_file() or not (inside or self.packs):
            return text if text == str(file) or self.packs else filed.told_from(str(file), self.target.out)
        parts = plugin_code.files(str(file), elsewhere=False)
        self.elsewhere |= set(map(str, plugin_code.modules(str(file)) - parts))
        root = out if inside else Path(os.path.commonpath([part.parent for part in parts]))
        folder = "." if inside else f"plugins/{file.stem}_{code_versions.fingerprint(str(file))}"
        for part in parts:
            if part.is_relative_to(root):
                _copy(part, self.target.out / folder / part.relative_to(root))
        return filed.told_from(os.path.abspath(self.target.out / folder / file.relative_to(root)), self.target.out)

    def _server_scores(self, source: Ledger) -> None:
        theirs, ours = server_scores.kept(source), server_scores.kept(self.target)
        if trouble := source.damaged.get(server_scores.NAME):
            say(trouble)
            self.counts["damaged"] += 1
        new: server_scores.Scores = {}
        for run, tasks in theirs.items():
            differ = False
            for task, said in tasks.items():
                here = ours.get(run, {}).get(task, {})
                differ |= any(here.get(metric, points) != points for metric, points in said.items())
                if more := {metric: points for metric, points in said.items() if metric not in here}:
                    new.setdefault(run, {})[task] = more
            if differ:
                say(f"the server's scores of run {run} are others in {source.out}: {self.target.out} keeps its own")
                self.counts["conflict"] += 1
        if new:
            server_scores.keep(self.target, new)


def _numbers(record: Record) -> Record:
    by_task = {task: [part.get(name) for name in OF_TASK] for task, part in record.get("by_task", {}).items()}
    return {name: record.get(name) for name in NUMBERS} | {"by_task": by_task}


def _differences(here: Record, there: Record, names: list[str]) -> str:
    """ "other numbers (accuracy 0.81 here, 0.8 there)"."""
    ours, theirs = (metrics_of(r) | {"selection": r.get("selection")} for r in (here, there))
    told = [f"{n} {ours[n]:.6g} here, {theirs[n]:.6g} there" for n in ours if n in theirs and ours[n] != theirs[n]]
    return f"other numbers ({'; '.join(told)})" if told else f"other {' and '.join(names)}"


def _copy(source: Path, target: Path) -> None:
    """Copy a file if there is one, whole or not at all. Others may be removing it."""
    if source.is_file():
        with suppress(FileNotFoundError), open(source, "rb") as file, atomic_file(target) as made:
            shutil.copyfileobj(file, made)


# ---------------------------------------------------------------- pack


def pack(options: Namespace) -> int:
    """Write a folder of results without what can be made again, as a folder or an archive."""
    ledger, to = Ledger(Path(options.out)), Path(options.to)
    ending = next((ending for ending in ARCHIVES if to.name.endswith(ending)), "")  # "": a folder
    if not ending and to.suffix in OTHERS:
        raise UserError(f"--to {to} must be a folder or a file that ends in {', '.join(ARCHIVES)}")
    _check_target(to, ledger.out)
    # In a folder that is only to be read no lock can be had, and what changes meanwhile is left out.
    held = ledger.lock() if os.access(ledger.out, os.W_OK) else nullcontext()
    try:
        with held, beside(to) as folder:
            union, size = _packed(ledger, to, folder, ending)
    except OSError as error:
        raise cannot_write(to, error, "--to") from error
    runs, reads = counted(union.counts["brought"], "run"), "harness report --study NAME --out FOLDER reads it"
    tell(f"{runs}, {size / 1e6:.1f} MB, in {to}; {reads}")
    _tell_what_run_needs(union)
    return 1 if union.left_out else 0


def _packed(ledger: Ledger, to: Path, folder: Path, ending: str) -> tuple[Union, int]:
    """Write all into a new folder, and give that or an archive of it the name `to`. Returns its bytes, too."""
    union = Union(Ledger(folder, create=True), packs=True)
    union.add(ledger)
    for path in filed.paths(ledger.out):
        for table in path.parent.glob("table.*"):
            _copy(table, folder / table.relative_to(ledger.out))
    size = size_of(folder)
    if ending:
        made = _archived(folder, to.name.removesuffix(ending), ARCHIVES[ending])
        sync_file(made)
        _check_target(to, ledger.out)  # another may have ended meanwhile
        os.replace(made, to)
    else:
        os.replace(folder, to)
    sync_folder(to.parent)
    return union, size


def _tell_what_run_needs(union: Union) -> None:
    """What harness run asks for beside the folder, to train more, and harness export to make weights again."""
    inside = [told.removeprefix(filed.HERE) for file, told in union.plugins.items() if file.is_file()]
    if inside:
        tell(f"with plugin files, which harness run takes as --plugin {' '.join(f'FOLDER{told}' for told in inside)}")
    for file in union.plugins:
        if not file.is_file():
            say(f"plugin file {file} is not there any more: report reads the folder without it, run and export do not")
    if left := sorted(union.elsewhere):
        tell(f"left where they are, and needed to train more: {', '.join(left)}")


def _check_target(to: Path, out: Path) -> None:
    check_name(str(to), "--to")
    remove_abandoned(to)  # also of one that was killed once its archive had its name
    if to.exists() and (to.is_file() or any(to.iterdir())):
        raise UserError(f"--to {to} exists already; give another")
    if to.resolve().is_relative_to(out.resolve()):
        raise UserError(f"--to {to} lies in the folder of results itself; give another")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(to, error, "--to") from error


def _archived(folder: Path, name: str, form: str) -> Path:
    """The folder's content as an archive of a single folder of this name, beside it under a name of its own."""
    inside = folder / ".archived" / name
    inside.mkdir(parents=True)
    for path in folder.iterdir():
        if path.name not in (".archived", LOCK, MARKER):
            os.replace(path, inside / path.name)
    return Path(shutil.make_archive(str(folder / "archive"), form, folder / ".archived", name))
