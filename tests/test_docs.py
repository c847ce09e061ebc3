"""Every block of shell and of Python on the pages and in README is executed, in its order: see CONTRIBUTING.md."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from sybil import Document, Example, Region, Sybil

import harness
from harness.cli import main
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures("no_figures")

GLUE = Path(os.environ.get("GLUE_DIR", ROOT.parent / "shared" / "glue"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("p*/*.md"))]
BLOCK = re.compile(r"^(?P<told>(?:<!-- [^\n]* -->\n)*)```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S)
TOLD = re.compile(r"^<!-- ([a-z ]+?)(?:: (.*))? -->$", re.MULTILINE)
EXECUTED = {"sh", "bash", "python"}
# Of shrunk blocks: runs of half a second.
SMALL = ["--trials", "1", "--seeds", "1", "--set", "train_examples=32", "epochs=1"]
ONE_CELL = ["run", "--study", "objectives_vs_init", "--tasks", "acceptability", "--inits", "every"]
OF_STUDIES = ("run", "plan", "report", "status", "figures")  # commands that take such words


def blocks(document: Document) -> Iterator[Region]:
    for found in BLOCK.finditer(document.text):
        if found["language"] in EXECUTED:
            told = dict(TOLD.findall(found["told"]))
            yield Region(found.start("language"), found.end(), (found["language"], found["code"], told), evaluate)


def evaluate(example: Example) -> None:
    language, code, told = example.parsed
    if "not run" in told:
        assert told["not run"], "why is it not run?"
    elif "file" in told:
        Path(told["file"]).write_text(code, encoding="utf-8")
        compile(code, told["file"], "exec")
    elif language == "python":
        exec(compile("\n" * example.line + code, example.path, "exec"), example.namespace)
    else:
        for words in commands(code):
            command(words, told)


def commands(code: str) -> Iterator[list[str]]:
    for line in code.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


def command(words: list[str], told: dict[str, str]) -> None:
    """A line of a shell block, by the command line of this process."""
    assert words[0] == "harness", f"{words[0]} is executed by nobody: say why in <!-- not run: ... -->"
    words, to = (words[1 : words.index(">")], Path(words[-1])) if ">" in words else (words[1:], None)
    if "planned" in told:
        words[0] = {"run": "plan"}.get(words[0], words[0])
        words = [str(STANDS_FOR.get(word, word)) for word in words if word not in ("--keep", "best", "--workers", "2")]
        if "--run-timeout" in words:
            words = words[: words.index("--run-timeout")]
    elif words[0] in OF_STUDIES and "shrink" in told:
        words += [*shrunk(words), *shlex.split(told["shrink"])]
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # parquet is bytes
    with redirect_stdout(said), redirect_stderr(said):
        status = main(words)
    said.flush()
    raw = said.buffer.getvalue()  # type: ignore[attr-defined]
    assert status == int(told.get("status", 0)), f"harness {shlex.join(words)}\n{raw.decode(errors='replace')}"
    if to:
        to.write_bytes(raw)


def shrunk(words: list[str]) -> list[str]:
    """SMALL, without what the words say themselves."""
    said = {word.partition("=")[0] for word in words}
    settings = [word for word in SMALL[5:] if word.partition("=")[0] not in said]
    counts = [word for name, number in (SMALL[:2], SMALL[2:4]) if name not in words for word in (name, number)]
    return [*counts, *(["--set", *settings] if settings else [])]


STANDS_FOR: dict[str, Any] = {}  # placeholder of a page -> what there is


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    """The folder that all pages share, so that what one has trained the next finds; with what planned blocks name."""
    folder = tmp_path_factory.mktemp("docs")
    for name in ("folder", "another", "one"):
        shutil.copytree(checkpoint, folder / name)
    (folder / "text.txt").write_text("the dog was great .\n\nthe cat was dull .\n" * 50)
    for name in ("reviews.csv", "FILE.csv"):
        rows = [f"the {thing} was {'great' if n % 2 else 'dull'} {n} .,{'good' if n % 2 else 'bad'}" for n in range(60)
                for thing in ("dog", "song")]  # fmt: skip
        (folder / name).write_text("\n".join(["text,label", *rows]))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        patch.chdir(folder)
        assert main([*ONE_CELL, "--objectives", "hid_cls", *SMALL]) == 0  # that every page may report of something
    STANDS_FOR.update(GLUE_FOLDER=GLUE, TEXT="text.txt", FOLDER="folder")
    STANDS_FOR["tiny:FOLDER"] = "tiny:folder"
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.usefixtures("as_before")
def test_a_page_does_what_it_says(page: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "run", small(harness.run), raising=False)
    document = Sybil(parsers=[blocks]).parse(page)
    monkeypatch.chdir(place)
    for example in document.examples():
        if "GLUE_FOLDER" in example.parsed[1] and "planned" in example.parsed[2] and not GLUE.is_dir():
            pytest.skip("needs real GLUE files: set GLUE_DIR")
        example.evaluate()


def small(run: Any) -> Any:
    """harness.run as shrunk blocks have it."""

    def asked(study: Any, **arguments: Any) -> Any:
        settings = {"train_examples": 32, "epochs": 1} | dict(arguments.pop("set", {}))
        narrow = {"tasks": "acceptability", "inits": "every", "trials": 1, "seeds": 1}
        return run(study, set=settings, **narrow, **arguments)

    return asked


def test_every_fenced_block_says_its_language() -> None:
    """One without is executed by nobody; README's two commands are those of make, which these tests are part of.

    tests/reports/test_latex.py compiles what is LaTeX.
    """
    for page in PAGES:
        for found in BLOCK.finditer(page.read_text(encoding="utf-8")):
            known = found["language"] in EXECUTED | {"text", "latex"} or found["code"].startswith("make run ")
            assert known or found["told"] == "" and found["language"] == "", (page, found["code"])


def test_every_key_of_a_record_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all runs that the pages have made so far, at least of a teacher's and a student's."""
    monkeypatch.chdir(place)
    told = set(re.findall(r"`([\w.]+)`", (ROOT / "docs" / "results_format.md").read_text(encoding="utf-8")))
    records = [json.loads(path.read_text())["record"] for path in Path("results").glob("ledger/*/record.json")]
    inner = [record.get(name, {}) for record in records for name in ("specification", "initialisation", "made_on")]
    points = [point for record in records for point in record.get("curve", ())]
    keys = {key for found in (*records, *inner, *points) for key in found}
    assert len(records) > 1 and not keys - told
