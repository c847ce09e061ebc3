"""Importing fairseq, which is an extra of its own and changes the logging of whoever imports it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import UserError

INSTALL = 'pip install "distill-harness[fairseq]", then pip install --no-deps ve-fairseq==0.12.3 (Python 3.11 or 3.12)'


@contextmanager
def importing(what: str, instead: str = "") -> Iterator[None]:
    """For the imports of fairseq alone. Raises UserError, saying that `what` needs it, where it cannot be imported.

    instead: what can be done without it.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    root.addHandler(logging.NullHandler())  # basicConfig does nothing where there is a handler
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    try:
        yield
    except ImportError as error:
        raise UserError(f"{what} needs fairseq, which cannot be imported ({error}): {INSTALL}{instead}") from error
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
