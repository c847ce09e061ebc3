"""The pages of documentation: their links lead somewhere, and the commands they show are commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from harness import registry
from harness.cli import parser

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?<![\w./-])harness (?=[a-z])")
ARRAY = re.compile(r"^(\w+)=\((.*)\)$", re.MULTILINE)  # of a shell script, used as "${name[@]}"


def commands(page: Path) -> list[list[str]]:
    """The words after `harness` of every line in the page's fenced blocks that calls it."""
    found = []
    for block in FENCED.findall(page.read_text(encoding="utf-8")):
        block = block.replace("\\\n", " ")
        for name, words in ARRAY.findall(block):
            block = block.replace(f'"${{{name}[@]}}"', words)
        for line in block.splitlines():
            if not line.startswith("#") and (call := COMMAND.search(line)):
                words = shlex.split(line[call.end() :], comments=True)
                found.append(words[:-1] if words[-1] == "&" else words)
    return found


def is_name(word: str) -> bool:
    """False for a placeholder such as NAME."""
    return not word.isupper()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = [link.partition("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_can_be_given(page: Path) -> None:
    for words in commands(page):
        options = parser().parse_args(words)  # raises UserError for a flag or a choice that does not exist
        study = getattr(options, "study", None)
        if study and is_name(study) and Path(f"{study}.py") not in map(Path, getattr(options, "plugin", ())):
            assert study in registry.STUDIES.names()


def test_commands_are_found() -> None:
    assert ["list", "studies"] in commands(ROOT / "README.md")
    assert all(len(commands(page)) > 0 for page in PAGES if page.parent.name == "docs")


def test_every_file_that_contributing_names_is_there() -> None:
    named = re.findall(
        r"`((?:harness|objectives|students|teachers|studies|reports|tests)/[\w./]+)`",
        (ROOT / "CONTRIBUTING.md").read_text(),
    )
    assert len(named) > 40 and not [name for name in named if not (ROOT / name).exists()]
