"""Where many objects are made that stay, such as modules and records."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_lasting = False


def of_one_command() -> None:
    """Say that this process is one command: what it makes `uncollected` stays until its end, and is never searched."""
    global _lasting
    _lasting = True


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the search for unreachable cycles, which would pass over all that was made so far again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if _lasting:
            gc.freeze()  # before it is enabled, which would search all of it at once
        if enabled:
            gc.enable()
