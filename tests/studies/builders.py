"""Plans of studies."""

from __future__ import annotations

from typing import Any

from harness.search.plan import resolve
from harness.search.planned import Plan
from harness.search.request import Request


def planned(study: str, *settings: str, profile: str = "paper", **asked: Any) -> Plan:
    """A study in a profile. Data, teachers and corpora need not be at hand: what they are is then unknown."""
    return resolve(Request(study, profile, overrides=settings, **asked), lenient=True)
