"""The pages of documentation: their links lead somewhere, and the commands they show are commands."""

from __future__ import annotations

import importlib.util
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import registry
from harness.cli import parser
from harness.contracts import Row
from tests.reports.synthetic import STUDY, cell, table

ROOT = Path(__file__).parent.parent
DOCS = sorted(page for page in (ROOT / "docs").rglob("*.md") if "catalogue" not in page.parts)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```(?!text)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?<![\w./-])harness (?=[a-z])")
ARRAY = re.compile(r"^(\w+)=\((.*)\)$", re.MULTILINE)  # of a shell script, used as "${name[@]}"


def commands(page: Path) -> list[list[str]]:
    """The words after `harness` of every line in the page's fenced blocks that calls it."""
    found = []
    for block in FENCED.findall(page.read_text(encoding="utf-8")):
        block = block.replace("\\\n", " ").replace('"$SLURM_CPUS_PER_TASK"', "1")
        for name, words in ARRAY.findall(block):
            block = block.replace(f'"${{{name}[@]}}"', words)
        for line in block.splitlines():
            if not line.startswith("#") and (call := COMMAND.search(line)):
                words = shlex.split(line[call.end() :], comments=True)
                found.append(words[: words.index(">")] if ">" in words else words[:-1] if words[-1] == "&" else words)
    return found


def is_name(word: str) -> bool:
    """False for a placeholder such as NAME."""
    return not word.isupper()


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages that are written before each build."""
    folder = tmp_path_factory.mktemp("docs") / "catalogue"
    extension("catalogue").write(folder)
    return folder


def extension(name: str) -> Any:
    """A file of Python among the pages."""
    place = next((ROOT / "docs").rglob(f"{name}.py"))
    spec = importlib.util.spec_from_file_location(f"docs_{name}", place)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place.parent)  # as docs/conf.py does: one may import another
        spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path, catalogue: Path) -> None:
    links = [link.partition("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    there = [(page.parent / link).resolve() for link in links]
    there = [catalogue / str(each).partition("/docs/catalogue/")[2] if "/docs/catalogue/" in str(each) else each
             for each in there]  # fmt: skip
    assert not [each for each in there if not each.exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_can_be_given(page: Path) -> None:
    for words in commands(page):
        options = parser().parse_args(words)  # raises UserError for a flag or a choice that does not exist
        study = getattr(options, "study", None)
        if study and is_name(study) and Path(f"{study}.py") not in map(Path, getattr(options, "plugin", ())):
            assert study in registry.STUDIES.names()


def test_commands_are_found() -> None:
    assert ["list", "students"] in commands(ROOT / "docs" / "students.md")
    assert len([page for page in PAGES if commands(page)]) > 25


def test_every_file_that_contributing_names_is_there() -> None:
    named = re.findall(
        r"`((?:harness|objectives|students|teachers|studies|reports|tests)/[\w./]+)`",
        (ROOT / "CONTRIBUTING.md").read_text(),
    )
    assert len(named) > 40 and not [name for name in named if not (ROOT / name).exists()]


# ---------------------------------------------------------------- the catalogue


@pytest.mark.parametrize("kind", ["objectives", "students", "teachers", "tasks", "studies"])
def test_everything_that_is_registered_has_a_page(kind: str, catalogue: Path) -> None:
    names = [name for name in registry.ALL[kind].names() if registry.ALL[kind].ships(name)]
    overview = (catalogue / f"{kind}.md").read_text(encoding="utf-8")
    for name in names:
        text = (catalogue / kind / f"{name}.md").read_text(encoding="utf-8")
        assert text.startswith(f"# {name}\n") and len(text) > 150 and f"({kind}/{name}.md)" in overview
        for setting in getattr(registry.ALL[kind].get(name), "hyperparameters", ()):
            assert f".{setting}` | `" in text


def test_an_objective_has_formula_source_signals_and_students(catalogue: Path) -> None:
    without = {"labels_only"}  # no work's: the task's own loss
    for name in filter(registry.OBJECTIVES.ships, registry.OBJECTIVES.names()):  # other tests load some of their own
        text = (catalogue / "objectives" / f"{name}.md").read_text(encoding="utf-8")
        formula = text.split("$$")[1]
        assert formula.count("\\") > 3 and "\n| signals | `" in text
        assert "## Who can be trained" in text and ("## From\n\n* " in text or name in without)


def test_a_study_says_what_it_answers(catalogue: Path) -> None:
    for name in filter(registry.STUDIES.ships, registry.STUDIES.names()):
        text = (catalogue / "studies" / f"{name}.md").read_text(encoding="utf-8")
        assert registry.STUDIES.get(name).question[:20] in text.replace("\\", "")
        assert ("## What was published" in text) == (registry.STUDIES.get(name).published is not None)


def test_the_index_of_papers_counts_the_studies_of_their_pages() -> None:
    papers, counts = ROOT / "docs" / "papers", {"five": 5, "seven": 7, "nine": 9}
    lines = [line for line in (papers / "index.md").read_text(encoding="utf-8").splitlines() if line.startswith("| [")]
    assert len(lines) == len(list(papers.glob("*.md"))) - 1
    for line in lines:
        page = (papers / LINK.findall(line)[0]).read_text(encoding="utf-8")
        studies, told = set(re.findall(r"catalogue/studies/(\w+)\.md", page)), line.split("|")[3]
        named, more = set(re.findall(r"`(\w+)`", told)), re.findall(r"and (\w+) more", told)
        assert named <= studies and len(studies) == len(named) + sum(counts[word] for word in more), line


# ---------------------------------------------------------------- the site


def test_links_of_a_site_are_checked(tmp_path: Path) -> None:
    faults = extension("links").faults
    (tmp_path / "b.html").write_text('<p id="here">text</p>')
    (tmp_path / "a.html").write_text('<a href="b.html#here"></a><a href="https://a.org/"></a><img src="data:x,y">')
    assert not list(faults(tmp_path))
    (tmp_path / "a.html").write_text(
        '<a href="c.html"></a><a href="b.html#there"></a><a href="http://example.org"></a>'
        '<script src="https://example.org/x.js"></script><link href="//example.org/x.css">'
    )
    (tmp_path / "x.css").write_text("@import url(https://example.org/font.css);")
    said = list(faults(tmp_path))
    assert [" ".join(one.split()[2:]) for one in said] == [
        "does not exist", "has no such place", "is no https address", "is fetched from elsewhere",
        "is fetched from elsewhere", "something from elsewhere",
    ]  # fmt: skip


def test_readme_has_a_part_of_a_table() -> None:
    shown = extension("shown")
    rows = tuple(Row(label, "att_kl", label, mark="two epochs") for label in ("Labels only", "Hid-Seq", "Hid-CLS"))
    cells = [cell(row, "sst2", (90, 91), init) for row in rows for init in ("every", "last")]
    cells[0] = replace(cells[0], seeds=(), trials=(), refused="it has no labels")
    part = shown.part(table(cells, replace(STUDY, rows=rows)))
    assert [line.split("|")[1].strip() for line in part.split("\n\n")[0].splitlines()[2:]] == [
        "Teacher: embedded", "*transformer, init every*", "Labels only", "Hid-CLS",
    ]  # fmt: skip
    assert part.endswith("<sup>1</sup> it has no labels") and "†" not in part and "**90.5 ± 0.7**" in part


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= cited.keys() and cited["cff-version"] == "1.2.0"
    assert f'fallback_version = "{cited["version"]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_readme_and_quickstart_show_what_the_script_writes() -> None:
    """Between the comments that it writes between; the pictures are there, for light and for dark pages, and small."""
    for page in (ROOT / "README.md", ROOT / "docs" / "quickstart.md", ROOT / "docs" / "reading_a_table.md"):
        assert "Teacher: embedded" in re.split("<!-- (?:end of what is )?shown", page.read_text(encoding="utf-8"))[1]
    for name in ("quick", "quickstart"):
        for theme in extension("shown").INKS:
            assert 10_000 < (ROOT / "docs" / "static" / f"{name}-{theme}.svg").stat().st_size < 150_000


@pytest.mark.parametrize("page", ["README.md", "docs/plugins/objective.md"])
def test_the_first_objective_that_is_shown_is_the_one_that_new_writes(page: str) -> None:
    written = (ROOT / "objectives" / "template.txt").read_text(encoding="utf-8").replace("NAME", "sentence_l1")
    assert f"```python\n{written}```" in (ROOT / page).read_text(encoding="utf-8")
