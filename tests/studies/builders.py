"""Plans of studies."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from harness.planning.contents import Contents
from harness.planning.plan import resolve
from harness.planning.planned import Plan
from harness.planning.request import Request
from harness.teachers import huggingface


def planned(study: str, *settings: str, profile: str = "paper", **asked: Any) -> Plan:
    """A study in a profile. Data, teachers and corpora need not be at hand: what they are is then unknown.

    As it is declared, it is planned once in a process: see `declared`.
    """
    if not settings and not asked:
        return declared(study, profile)
    return resolve(Request(study, profile, overrides=settings, **asked), lenient=True)


def declared(study: str, profile: str, files: bool = True) -> Plan:
    """A study in a profile as it is declared. GLUE, teachers and corpora of elsewhere count by their names.

    files: those of word vectors are read, as far as they are here; otherwise they count by their names, too.
    """
    plan, named = _declared(study, profile, True)
    return plan if files or not named else _declared(study, profile, False)[0]


@functools.cache
def _declared(study: str, profile: str, read: bool) -> tuple[Plan, list[str]]:
    """(the plan, the files that it names)"""
    named: list[str] = []
    by_content = Contents.by_content

    def of_file(self: Contents, value: str, asked: bool = True) -> str:
        named.append(value)
        return by_content(self, value, asked) if read else value

    with pytest.MonkeyPatch.context() as patch:
        _by_name(patch)
        patch.setattr(Contents, "by_content", of_file)
        return resolve(Request(study, profile), lenient=True), named


def _by_name(patch: pytest.MonkeyPatch) -> None:
    teacher, read, corpus = Contents.teacher, Contents._read, Contents.corpus

    def unreachable(*_: Any, **__: Any) -> str:
        raise OSError("not asked")

    patch.setattr(huggingface, "snapshot_download", unreachable)
    patch.setattr(Contents, "teacher", lambda self, p: teacher(self, p) if p.name == "embedded" else _name_of(p))
    patch.setattr(Contents, "_read", lambda self, t: read(self, t) if not t.folder else (t.name, 0))
    patch.setattr(
        Contents, "corpus", lambda self: corpus(self) if self.corpus_source == "embedded" else self.corpus_source
    )


def _name_of(teacher: Any) -> str:
    return f"{teacher.name}:{'' if Path(teacher.argument).is_dir() else teacher.argument}"
