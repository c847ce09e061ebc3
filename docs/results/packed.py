"""The packed ledgers of this folder: how they are written, opened and read."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import harness
from harness import registry, reports
from harness.files import atomic_write
from harness.ledger import Ledger
from harness.planning import filed
from harness.reports import Table
from harness.search.results import replayed

HERE = Path(__file__).parent
KEPT = ("ids", "predictions", "labels", "teacher")  # what tests ask of a run's answers
Told = dict[str, Any]  # of a YAML file


@dataclass(frozen=True)
class Results:
    """A packed ledger: its entry in pages.yaml, its table beside the published numbers, and its records."""

    told: Told
    table: Table
    records: Sequence[Mapping[str, Any]]

    @property
    def hours(self) -> float:
        return float(sum(record.get("seconds", 0.0) for record in self.records)) / 3600


def told(name: str) -> Any:
    """What a YAML file of this folder tells."""
    return yaml.safe_load((HERE / f"{name}.yaml").read_text(encoding="utf-8"))


def archive(name: str) -> Path:
    return HERE / f"{name}.tar.xz"


def pack(name: str, folder: Path, study: str) -> None:
    """Write the archive of what a folder of results, which is only read, has of a study.

    Left out are weights, probabilities, logs, and the answers of runs that do not count for the table.
    """
    source = Ledger(folder)
    paths = [path for path in filed.paths(folder) if path.relative_to(folder).parts[0] == study]
    plans = [filed.read(path, folder) for path in paths]
    wanted = {run for plan in plans for run in plan.first}
    wanted |= {one.run for plan in plans for found in replayed(plan, source) for one in found.runs}
    with tempfile.TemporaryDirectory() as temporary:
        to = Path(temporary) / name
        target = Ledger(to, create=True)
        for run in sorted(wanted):
            if record := source.read(run):
                arrays = source.predictions(run) or {}
                target.write(run, record, {key: array for key, array in arrays.items() if _kept(key)} or None)
        for path in paths:
            content = filed.moved(path.read_bytes(), lambda _, text: Path(text).name if os.path.isabs(text) else text)
            atomic_write(to / path.relative_to(source.out), content)
        counting = {row["run"] for row in harness.load_results(to).whole.runs if row["chosen"]}
        for run in {*target.runs()} - counting:
            (target.folder(run) / "predictions.safetensors").unlink(missing_ok=True)
            record = target.read(run) or {}
            target.write(run, {key: value for key, value in record.items() if key != "predictions_sha256"}, None)
        atomic_write(archive(name), _archived(to))


def _kept(key: str) -> bool:
    """Whether an array of predictions is packed; of a joint run each is told as TASK/NAME."""
    return key.rpartition("/")[2] in KEPT


def _archived(folder: Path) -> bytes:
    """The plans and records of a folder of results as .tar.xz: the same bytes for the same content."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:xz", preset=9) as made:
        for path in [folder / "harness.json", *sorted((folder / "ledger").rglob("*")), *filed.paths(folder)]:
            if path.is_file():
                entry = tarfile.TarInfo(path.relative_to(folder.parent).as_posix())
                entry.size = path.stat().st_size
                with open(path, "rb") as file:
                    made.addfile(entry, file)
    return whole.getvalue()


@contextmanager
def opened(name: str) -> Iterator[Path]:
    """The folder of results of a packed ledger, for as long as it is looked at."""
    with tempfile.TemporaryDirectory() as temporary:
        with tarfile.open(archive(name)) as made:
            made.extractall(temporary, filter="data")
        yield Path(temporary) / name


def results() -> dict[str, Results]:
    """Every packed ledger that pages.yaml tells of, by name."""
    found = {}
    for entry in told("pages"):
        with opened(entry["name"]) as folder:
            table = harness.load_results(folder).whole
            ledger = Ledger(folder)
            records = [record for run in ledger.runs() if (record := ledger.read(run))]
        study = registry.STUDIES.get(entry["study"])
        table = reports.with_published(table, study) if study.published else table
        found[entry["name"]] = Results(entry, table, records)
    return found
