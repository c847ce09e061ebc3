"""The command `new`: a plugin file of each kind, or a distribution, which runs as it is, ready to be filled in."""

from __future__ import annotations

import os
import re
import shlex
import sys
from argparse import Namespace
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from importlib.resources import files
from keyword import iskeyword
from pathlib import Path

from harness import registry
from harness.commands import declared
from harness.commands.telling import tell
from harness.errors import UserError
from harness.files import atomic_write, beside, cannot_write, remove_abandoned
from harness.plugin_code import ROOT

LONGEST = 100  # of a name, and of its file
DISTRIBUTION = "plugin"  # of an objective


@dataclass(frozen=True)
class Template:
    """plural: the kind as `harness list` has it, and its registry.

    run: what follows `harness run --plugin FILE`; tested: whether `python -m harness.testing` tries it; todo: at first.
    """

    plural: str
    run: str
    tested: bool = False
    todo: str = "It works as it is; fill it in"

    @property
    def text(self) -> str:
        """What the folder of its kind has: NAME stands for the name, CLASS for a class called after it."""
        return (files(registry.ALL[self.plural].folder) / "template.txt").read_text(encoding="utf-8")


TEMPLATES = {
    "objective": Template(
        "objectives", "--study objectives_vs_init --objectives vanilla_kd_equal_epochs NAME", tested=True
    ),
    "student": Template(
        "students",
        "--study objectives_vs_init --students NAME --inits random --objectives vanilla_kd_equal_epochs cosine",
        tested=True,
    ),
    "teacher": Template("teachers", "--study objectives_vs_init --profile small --teacher NAME --tasks sst2",
                        todo="Name its model"),  # fmt: skip
    "task": Template(
        "tasks", "--study objectives_vs_init --tasks NAME --objectives vanilla_kd_equal_epochs hid_cls", tested=True
    ),
    "study": Template("studies", "--study NAME"),
    "procedure": Template("procedures", "--study NAME"),
}


# What a distribution has beside the objective's module: NAME is the module, DASHED the distribution.
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


def new(options: Namespace) -> int:
    """Write a plugin file, or the folder of a distribution, into the current one. Raises UserError if it is there."""
    whole = options.kind == DISTRIBUTION
    kind, name = "objective" if whole else options.kind, options.name
    path = Path(name if whole else f"{name}.py")
    template, what = TEMPLATES[kind], f"{'an' if options.kind[0] in 'aeiou' else 'a'} {options.kind}"
    if not name.isidentifier():
        raise UserError(f"{name!r} cannot name {what}: use letters, digits and underscores, with no digit first")
    if iskeyword(name):
        raise UserError(f"{name!r} cannot name {what}: it is a keyword of Python")
    if len(name) > LONGEST:
        raise UserError(f"{name!r} is too long to name a file: the name of {what} has at most {LONGEST} letters")
    remove_abandoned(path)  # also of one that was killed once its file had its name
    if path.exists() or path.is_symlink():
        raise UserError(f"{path} exists already; choose another name or remove it")
    if _installed(name):
        raise UserError(
            f"{name!r} cannot name {what}: its file would hide the installed module {name} from what lies beside it"
        )
    kinds = {template.plural} | ({"studies"} if "study(" in template.text else set())
    for plural in sorted(kinds):
        if name in {line.name for line in declared.lines(plural)}:
            found = registry.ALL[plural]
            raise UserError(f"{found.kind} {name!r} exists already, in {found.origin(name)}")
    if whole:
        _write_distribution(path, name, template.text)
        tell(f"{path} written: a distribution with one objective, which pip installs. Fill in {path / name}.py, then:")
        tell(f"  pip install --editable '{path}[test]' && pytest {path}")
        tell(f"  harness run {_filled(template.run, name)}")
        return 0
    atomic_write(path, _filled(template.text, name).encode(), new=True)
    tell(f"{path} written. {template.todo}, then:")
    if template.tested:
        tell(f"  python -m harness.testing {shlex.quote(str(path))}    (with pytest installed; a minute or two)")
    tell(f"  harness run --plugin {shlex.quote(str(path))} {_filled(template.run, name)}")
    if (ROOT / "pyproject.toml").is_file():  # a checkout
        folder = Path(str(files(registry.ALL[template.plural].folder))).relative_to(ROOT)
        tell(f"or move it into {folder}/ of the checkout, where no --plugin is needed.")
    return 0


def _installed(name: str) -> bool:
    """Whether a module of this name is part of Python, or of a distribution."""
    pythons = {*sys.stdlib_module_names, "test"}  # which that leaves out, though it comes with Python
    return name in pythons or name in packages_distributions()


def _filled(text: str, name: str) -> str:
    camel = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    called = f"{camel}Plugin" if camel.isidentifier() else f"Plugin{camel}"
    words = {"CLASS": called, "NAME": name, "DASHED": name.replace("_", "-")}
    return re.sub("|".join(words), lambda word: words[word[0]], text)  # at once: a name may hold one of these words


def _write_distribution(folder: Path, name: str, objective: str) -> None:
    """Into a new folder, whole or not at all. objective: the text of its module, to be filled in as the others."""
    texts = {"pyproject.toml": PYPROJECT, "README.md": README, "tests/test_conformance.py": TESTS}
    try:
        with beside(folder) as made:
            for file, text in {**texts, f"{name}.py": objective}.items():
                path = made / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(_filled(text, name), encoding="utf-8")
            os.rename(made, folder)
    except OSError as error:
        raise cannot_write(folder, error) from error
