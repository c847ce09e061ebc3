"""A plan that was worked out before: to look whether all that it rests on is as it was takes less than loading torch.

It rests on the request, on our code and that of plugins, on which distributions are installed, and on what teachers,
data, corpora and files of vectors hold, which is read again: nothing is believed for its time or its size. What cannot
be looked at so, such as a hub, is asked anew each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from harness.code_versions import here
from harness.data import own
from harness.errors import UserError
from harness.files import checksum, checksums, digest, read_sealed, write_sealed
from harness.planning.planned import Plan
from harness.planning.request import Request

ROOM = "plans"  # in the cache


class Remembered:
    """What is known of a request in a cache: to be made before anything is read for it, so that no change is missed."""

    def __init__(self, request: Request, cache: Path | None):
        code = here(request.plugins)
        self._file: Path | None = None
        if cache is None or code is None:
            return
        _, declared, _ = own.told_apart(request.tasks, request.overrides)
        asked = digest([asdict(request), os.getcwd()])
        data = request.data or ""  # what lies there decides who reads it
        self._file = cache / ROOM / f"{asked[:16]}.json"
        self._key = digest([
            asked,
            code,
            [[name, str(one.place), dict(one.settings), one.folder] for name, one in declared.items()],
            sorted(os.listdir(data)) if os.path.isdir(data) and os.access(data, os.R_OK) else "",
        ])  # fmt: skip

    def plan(self) -> Plan | None:
        """The plan, or None where it was not kept or may be another now. Raises UserError as loading plugins does."""
        stored = read_sealed(self._file) if self._file else {}
        if stored.get("key") != getattr(self, "_key", "") or _held(map(Path, stored["places"])) != stored["places"]:
            return None
        plan = Plan.from_json(stored["plan"])
        own.KNOWN.clear()
        own.recall(plan.declared)
        return plan

    def keep(self, plan: Plan, places: Iterable[Path]) -> None:
        """Write down a plan that rests on these files and folders beside the request. Raises UserError."""
        if self._file and (held := _held(places)) is not None:
            write_sealed(self._file, {"key": self._key, "places": held, "plan": plan.to_json()})


def _held(places: Iterable[Path]) -> dict[str, object] | None:
    """Checksums of what each of these files or folders holds; None where one cannot be read."""
    try:
        return {str(place): checksums(place) if place.is_dir() else checksum(place) for place in sorted(places)}
    except (OSError, UserError):
        return None
