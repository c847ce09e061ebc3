"""python -m harness.testing FILE... [options of pytest]: the conformance tests, over the plugins of these files."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.executors import environment
from harness.registry import OBJECTIVES, STUDENTS, TASKS, Registry
from harness.testing import FILES, chosen

TESTS: dict[str, tuple[Registry[Any], ...]] = {
    "test_objectives.py": (OBJECTIVES,),
    "test_students.py": (STUDENTS,),
    "test_pairs.py": (OBJECTIVES, STUDENTS),
    "test_tasks.py": (TASKS,),
}


def main(arguments: list[str]) -> int:
    """The status of pytest; 2 for bad input."""
    environment.prepare()  # as in every process that trains: on a busy machine several threads take many times as long
    files = [word for word in arguments if word.endswith(".py")]
    try:
        if not files:
            raise UserError("python -m harness.testing takes plugin files, and options of pytest")
        if find_spec("pytest") is None:
            raise UserError('the conformance tests need pytest: pip install "distill-harness[test]"')
        os.environ[FILES] = os.pathsep.join(files)
        found = [str(Path(__file__).with_name(name)) for name, kinds in TESTS.items() if any(map(chosen, kinds))]
    except UserError as error:
        print(f"harness: {error}", file=sys.stderr)
        return 2
    import pytest

    # Not by the settings of the folder that it is called in.
    own = ["-c", os.devnull, "--rootdir", str(Path(__file__).parent), "-p", "no:cacheprovider", "-q"]
    own += ["--tb=short", "--maxfail=3"]  # one mistake fails a hundred of them; what is given here counts instead
    return int(pytest.main([*own, *found, *(word for word in arguments if word not in files)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
