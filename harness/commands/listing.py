"""The command `list`: every name of one kind, with what it is."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from argparse import Namespace

from harness.commands import declared
from harness.commands.telling import tell
from harness.errors import check_known

WIDEST = 28  # of a column of names; longer ones have a line of their own


def list_names(options: Namespace) -> int:
    """Print every name of one kind, wrapped at the width of a terminal; elsewhere each on a line.

    Families have a heading there, and a column here.
    """
    check_known("kind", options.kind, declared.KINDS)
    lines = declared.lines(options.kind, options.plugin)
    column = min(max((len(line.name) for line in lines), default=0), WIDEST) + 2
    wrapped = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = max(shutil.get_terminal_size().columns, column + 30) if wrapped else sys.maxsize
    families = max((len(line.family) + 2 for line in lines if line.family), default=0)
    for number, (name, text, family, about) in enumerate(lines):
        if wrapped and family and (not number or lines[number - 1].family != family):
            heading = textwrap.wrap(f"{family.upper()}: {about}" if about else family.upper(), width)
            tell("\n" * (number > 0) + "\n".join(heading))
        begin = f"{name:<{column}}" if len(name) + 2 <= column else f"{name}\n{' ' * column}"
        begin += "" if wrapped else f"{family:<{families}}"
        told = textwrap.wrap(text, width - column, break_on_hyphens=False, break_long_words=False) or [""]
        tell((begin + f"\n{' ' * column}".join(told)).rstrip())
    return 0
