"""The one exception for a user's mistake, and the wording shared by its messages."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Bad input, told in one sentence: the thing, the rule, the nearest valid names. Exit status 2."""


def near(name: str, valid: Iterable[str], limit: int = 8) -> str:
    """'did you mean a or b?' where something is close, otherwise the valid names (the first `limit`)."""
    valid = sorted(valid)
    close = get_close_matches(name, valid, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if not valid:
        return "there are none"
    rest = f" and {len(valid) - limit} more" if len(valid) > limit else ""
    return f"valid names: {', '.join(valid[:limit])}{rest}"


def unknown(kind: str, name: str, valid: Iterable[str]) -> UserError:
    """The error for a name that is not among `valid`."""
    return UserError(f"unknown {kind} {name!r}: {near(name, valid)}")
