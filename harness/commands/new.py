"""The command `new`: a plugin file of each kind, or a distribution, which runs as it is, ready to be filled in."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from importlib.resources import files
from keyword import iskeyword
from pathlib import Path

from harness import registry
from harness.commands import declared, distribution
from harness.commands.telling import tell
from harness.errors import UserError
from harness.files import atomic_write, remove_abandoned
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


def new(options: Namespace) -> int:
    """Write a plugin file, or the folder of a distribution, into the current one. Raises UserError if it is there."""
    whole = options.kind == DISTRIBUTION
    kind, name = "objective" if whole else options.kind, options.name
    path = Path(name if whole else f"{name}.py")
    template, what = TEMPLATES[kind], f"{'an' if options.kind[0] in 'aeiou' else 'a'} {options.kind}"
    if not name.isidentifier():
        raise UserError(f"{name!r} cannot name {what}: use letters, digits and underscores, not a digit first")
    if iskeyword(name):
        raise UserError(f"{name!r} cannot name {what}: it is a word of Python's own")
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
        distribution.write(path, name, _filled(template.text, name))
        tell(f"{path} written: a distribution with one objective, which pip installs. Fill in {path / name}.py, then:")
        tell(f"  pip install --editable '{path}[test]' && pytest {path}")
        tell(f"  harness run {_filled(template.run, name)}")
        return 0
    atomic_write(path, _filled(template.text, name).encode(), new=True)
    tell(f"{path} written. {template.todo}, then:")
    if template.tested:
        tell(f"  python -m harness.testing {path}    (with pytest installed; a minute or two)")
    tell(f"  harness run --plugin {path} {_filled(template.run, name)}")
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
    return text.replace("CLASS", called).replace("NAME", name)
