"""What `harness new plugin NAME` writes: a distribution of an objective that pip installs, with its tests."""

from __future__ import annotations

import os
import re
from pathlib import Path

from harness.files import beside, cannot_write

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "DASHED"
version = "0.1.0"
description = "An objective for distill-harness."
readme = "README.md"
requires-python = ">=3.10"
dependencies = ["distill-harness"]

[project.optional-dependencies]
test = ["distill-harness[test]"]

# What `harness` loads wherever this is installed. A package with several modules names the one that imports the others,
# NAME.plugins, and leaves __init__.py empty: what that imports is taken for a part of all that imports from NAME.
[project.entry-points."harness.plugins"]
NAME = "NAME"

[tool.setuptools]
py-modules = ["NAME"]

[tool.pytest.ini_options]
testpaths = ["tests"]
"""
TESTS = """\
\"\"\"The conformance tests of the harness, over what NAME.py registers; tests of its own formula go beside them.\"\"\"

import os

import NAME

os.environ["HARNESS_TEST_PLUGINS"] = NAME.__file__  # read when the next lines are imported

from harness.testing.test_objectives import *  # noqa: E402, F403
from harness.testing.test_pairs import *  # noqa: E402, F403

# Of a student: harness.testing.test_students; of a task: harness.testing.test_tasks.
"""
README = """\
# DASHED

An objective for [distill-harness](https://pypi.org/project/distill-harness/).

    pip install --editable '.[test]'
    pytest                            # the conformance tests
    harness run --study objectives_vs_init --objectives vanilla_kd_equal_epochs NAME
"""


def write(folder: Path, name: str, objective: str) -> None:
    """Write a distribution of the module `name`, whose text is `objective`, into a new folder, whole or not at all.

    Raises UserError where it cannot be written.
    """
    texts = {"pyproject.toml": PYPROJECT, "README.md": README, "tests/test_conformance.py": TESTS}
    words = {"NAME": name, "DASHED": name.replace("_", "-")}
    texts = {file: re.sub("|".join(words), lambda word: words[word[0]], text) for file, text in texts.items()}
    try:
        with beside(folder) as made:
            for file, text in {**texts, f"{name}.py": objective}.items():
                path = made / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            os.rename(made, folder)
    except OSError as error:
        raise cannot_write(folder, error) from error
