"""What is made in bulk and stays is not searched for cycles: not while it is made, and of one command never."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from harness import collecting
from tests.conftest import environment

MANY = 5000


@pytest.mark.parametrize("alone", [True, False])
def test_what_one_command_makes_is_frozen(alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of other processes, as of a notebook, nothing is: what is garbage there later must go."""
    monkeypatch.setattr(collecting, "_lasting", alone)
    before = gc.get_freeze_count()
    with collecting.uncollected():
        kept = [[number] for number in range(MANY)]
        assert not gc.isenabled()
    assert gc.isenabled() and (gc.get_freeze_count() - before >= len(kept)) == alone


def test_the_command_line_is_one_command_and_a_call_of_it_is_none() -> None:
    """As tests and notebooks call it, in a process that goes on."""
    for given, told in (("", "True"), ("['list', 'studies']", "False")):
        code = f"from harness import cli, collecting; cli.main({given}); print(collecting._lasting)"
        words = [sys.executable, "-c", code, "list", "studies"]
        said = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True).stdout
        assert said.splitlines()[-1] == told
