"""Plans of studies."""

from __future__ import annotations

from typing import Any

from harness.planning.plan import resolve
from harness.planning.planned import Plan
from harness.planning.request import Request


def planned(study: str, *settings: str, profile: str = "paper", **asked: Any) -> Plan:
    """A study in a profile. Data, teachers and corpora need not be at hand: what they are is then unknown."""
    return resolve(Request(study, profile, overrides=settings, **asked), lenient=True)
