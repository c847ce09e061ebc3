"""The command `list`: every name of one kind, with what it is."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from argparse import Namespace

from harness.commands import declared
from harness.commands.view import tell
from harness.errors import unknown

WIDEST = 28  # of a column of names; longer ones have a line of their own


def list_names(options: Namespace) -> int:
    """Print every name of one kind, wrapped at the width of a terminal; elsewhere each on a line."""
    if options.kind not in declared.KINDS:
        raise unknown("kind", options.kind, declared.KINDS)
    lines = declared.lines(options.kind, options.plugin)
    column = min(max((len(name) for name, _ in lines), default=0), WIDEST) + 2
    wrapped = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = max(shutil.get_terminal_size().columns, column + 30) if wrapped else sys.maxsize
    for name, text in lines:
        begin = f"{name:<{column}}" if len(name) + 2 <= column else f"{name}\n{' ' * column}"
        told = textwrap.wrap(text, width - column, break_on_hyphens=False, break_long_words=False) or [""]
        tell((begin + f"\n{' ' * column}".join(told)).rstrip())
    return 0
