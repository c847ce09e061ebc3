"""A plugin as it is imported: what goes wrong is one sentence, and what it does to others is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from harness import old_names
from harness.errors import UserError, in_file


@contextmanager
def importing(what: str) -> Iterator[None]:
    """Turn whatever goes wrong while importing a plugin into one sentence about it, and tell of old names.

    What it prints goes to standard error: standard output may be a table. What it sets for all of torch is refused,
    for runs of others, which are known by their own code alone, would compute with it as well.
    """
    if old_names.FINDER not in sys.meta_path:
        sys.meta_path.insert(0, old_names.FINDER)
    before = _set_for_all()
    try:
        with redirect_stdout(sys.stderr):
            yield
        for setting, value in _set_for_all().items():
            if value != before[setting]:
                rule = "with which all runs would compute: say it where it is used"
                raise UserError(f"{what} sets {setting} to {value} as it is imported, {rule}")
        if told := old_names.sentence(what):
            print(f"harness: {told}", file=sys.stderr)
    except (UserError, KeyboardInterrupt):  # the second is Ctrl-C
        raise
    except SyntaxError as error:
        where = f" on line {error.lineno}" if error.lineno else ""
        raise UserError(f"{what} has a syntax error{where}: {error.msg}") from error
    except SystemExit as error:  # which would end the command as if all were done
        raise UserError(f"{what} cannot be loaded: it calls sys.exit({error.code!r}) as it is imported") from error
    except BaseException as error:
        relative = isinstance(error, ImportError) and "relative import" in str(error)
        rule = "; it is of no package, and imports what lies beside it by its name alone" if relative else ""
        said = f"{type(error).__name__}: {error}{rule}"
        raise UserError(f"{what} cannot be loaded: {said}{in_file(error, what)}") from error


def _set_for_all() -> dict[str, object]:
    """What torch makes tensors by and computes with, in words; as it comes where nobody has loaded it yet."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_default_device"):
        return {"torch's default dtype": "torch.float32", "torch's default device": "cpu", "torch's gradients": True}
    return {
        "torch's default dtype": str(torch.get_default_dtype()),
        "torch's default device": str(torch.get_default_device()),
        "torch's gradients": torch.is_grad_enabled(),
    }
