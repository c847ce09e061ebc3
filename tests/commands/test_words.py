"""What the command line knows without importing what it is about."""

from __future__ import annotations

import argparse
import subprocess
import sys

from harness import reports
from harness.cli import parser, work_of
from harness.commands import columns, declared, new, words
from harness.contracts import AGREEMENT
from harness.data import metric_names
from harness.reports.tables import quantities
from harness.search import tracking


def test_words_are_those_of_their_files() -> None:
    assert (tuple(columns.COLUMNS), tuple(tracking._OPENED)) == (words.COLUMNS, words.TRACKERS)
    assert words.LAYOUTS == reports.LAYOUTS and tuple(reports.ADDITIONS) == words.ADDITIONS
    assert tuple(reports.FIGURES) == words.FIGURES and (*reports.WIDTHS, "both") == words.WIDTHS
    assert {*metric_names.QUANTITIES} == {*quantities.WHOLE, *quantities.MEASURED, AGREEMENT}
    assert ((*new.TEMPLATES, new.DISTRIBUTION), tuple(declared.KINDS)) == (words.NEW, words.KINDS)


def test_every_command_is_found() -> None:
    (commands,) = (each for each in parser()._actions if isinstance(each, argparse._SubParsersAction))
    assert all(callable(work_of(name)) for name in commands.choices) and len(commands.choices) > 15


def test_help_imports_no_more_than_it_says() -> None:
    code = "import sys; from harness.cli import parser; parser().format_help(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    found = {name for name in loaded if name.startswith("harness.")}
    assert found == {
        "harness.cli",
        "harness.collecting",
        "harness.commands",
        "harness.commands.flags",
        "harness.commands.words",
        "harness.errors",
    }
