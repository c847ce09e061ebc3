"""What a command said, and what it left in its folder."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from harness.reports.formats.page import MEASURED

TABLES = tuple(f"table.{form}" for form in ("md", "tex", "csv", "json", "html"))


def done(process: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """The command ended as it should."""
    assert process.returncode == 0, process.stdout + process.stderr
    return process


def refused(process: subprocess.CompletedProcess[str], *words: str, status: int = 2) -> None:
    """The command ended with this status and a single line that holds every one of `words`."""
    assert process.returncode == status, process.stdout + process.stderr
    lines = [line for line in process.stderr.splitlines() if line.strip()]
    assert len(lines) == 1 and "Traceback" not in process.stderr, process.stderr
    for word in words:
        assert word in lines[0], lines[0]


def records(out: Path, kind: str = "") -> dict[str, dict[str, Any]]:
    """Run -> record of all runs of a kind, or of any, in order of their identities."""
    read = {p.parent.name: json.loads(p.read_bytes())["record"] for p in sorted(out.glob("ledger/*/record.json"))}
    return {run: record for run, record in read.items() if kind in ("", record["specification"]["kind"])}


def written(out: Path) -> dict[str, int]:
    """Run -> when its record was written."""
    return {p.parent.name: p.stat().st_mtime_ns for p in out.glob("ledger/*/record.json")}


def without_times(found: Any) -> Any:
    """A record, or a part of one, without what no two runs have in common."""
    if not isinstance(found, dict):
        return found
    times = ("seconds", "model_seconds", "peak_memory_mib", "made_on")
    left = {name: value for name, value in found.items() if name not in times and not name.endswith("_per_second")}
    return {name: without_times(value) for name, value in left.items()}


def same_runs(ours: Path, theirs: Path) -> None:
    """Both folders hold the same runs with the same records, but for how long they took."""
    one, other = ({run: without_times(record) for run, record in records(out).items()} for out in (ours, theirs))
    assert one.keys() == other.keys()
    for run, record in one.items():
        assert record == other[run], run


def table_folder(out: Path, study: str = "*") -> Path:
    """The folder of the last request of these results, or of this study among them, and of its table."""
    return max(out.glob(f"{study}/*/**/plan.json"), key=lambda path: path.stat().st_mtime_ns).parent


def same_tables(ours: Path, theirs: Path) -> None:
    for name in TABLES:
        one, other = (unmeasured((table_folder(out) / name).read_text(encoding="utf-8")) for out in (ours, theirs))
        assert one == other, name


def unmeasured(page: str) -> str:
    """A page without its part on seconds and memory, which no two folders have in common."""
    begin, end = map(re.escape, MEASURED)
    return re.sub(f"{begin}.*?{end}", "", page, flags=re.DOTALL)
