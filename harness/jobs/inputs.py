"""What a run rests on, checked at the moment of use: the weights of other runs, the teacher, the files it names.

Data and corpora are checked where they are read (`examples`, `corpus`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.errors import UserError
from harness.files import canonical, content_of, digest, trouble_with, unsealed
from harness.runs import BaseTeacher, Run
from harness.runs.told import Record
from harness.training.workspace import Workspace, teacher_source


def files_of(run: Run, files: Mapping[str, str]) -> list[str]:
    """The contents, of those in `files`, that a run names."""
    text = canonical(run.specification())
    return [content for content in files if content in text]


def check(run: Run, workspace: Workspace) -> dict[str, str]:
    """Compare what the run rests on with what it was planned with. Returns run -> hash of the weights it reads.

    Raises UserError for the first thing that is not what it was.
    """
    found = {before: _checked_weights(before, workspace) for before in run.depends_on}
    who = _base_teacher(run, workspace)
    if who and teacher_source(workspace.teacher).content() != who.content:
        raise UserError(
            f"teacher {workspace.teacher} changed since the study was planned: its "
            "files changed, or the hub has a newer version; give the command again"
        )
    for content in files_of(run, workspace.files):
        if content_of(Path(workspace.files[content]))[:16] != content:
            raise UserError(f"{workspace.files[content]} changed since the study was planned; give the command again")
    return found


def _checked_weights(run: str, workspace: Workspace) -> str:
    recorded = record_of(run, workspace).get("weights")
    if trouble := trouble_with(workspace.runs / run / "weights", recorded):
        raise UserError(f"the weights of run {run}, which others start from, {trouble}; give the command again")
    return digest(recorded)[:16]


def _base_teacher(run: Run, workspace: Workspace) -> BaseTeacher | None:
    """The base weights that the run's teacher is made of."""
    who = run.learns_from
    while isinstance(who, str):  # a run, made of the teacher or of another run
        who = Run.read(record_of(who, workspace)["specification"]).learns_from
    return who


def record_of(run: str, workspace: Workspace) -> Record:
    """The record of a run that others start from. Raises UserError if it is missing or damaged."""
    try:
        return unsealed((workspace.runs / run / "record.json").read_bytes())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"the record of run {run}, which this one starts from, is missing or damaged") from error
