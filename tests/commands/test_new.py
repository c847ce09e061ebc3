"""What `harness new` writes: it is listed, runs as it is, and holds to what plugins of its kind must."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import registry
from harness.commands import new
from harness.commands.new import TEMPLATES
from tests.conftest import ROOT, Harness
from tests.launching import conformance, under_pytest

INSTALLED = functools.cache(new.packages_distributions)  # it reads what is told of every distribution
SMALL = ("--trials", "1", "--seeds", "1", "--workers", "1", "--set", "epochs=1", "train_examples=32")


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.usefixtures("as_before", "no_figures", "here")
def test_it_is_listed_and_runs_as_it_is(
    kind: str, call: Harness, glue: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written = call("new", kind, "first_try")
    assert written.returncode == 0, written.stderr
    assert [path.name for path in tmp_path.glob("*.py")] == ["first_try.py"]
    folder = written.stdout.splitlines()[-1].removeprefix("or move it into ").partition(" of the checkout")[0]
    assert (ROOT / folder / "template.txt").is_file(), "where its kind is read from"
    listed = call("list", TEMPLATES[kind].plural, "--plugin", "first_try.py")
    (line,) = [line for line in listed.stdout.splitlines() if line.startswith("first_try ")]
    assert len(line.split()) > 2, "with what it is"
    (words,) = [line.split()[2:] for line in written.stdout.splitlines() if line.startswith("  harness run ")]
    assert words[:2] == ["--plugin", "first_try.py"]
    if kind == "teacher":  # its model is on the hub
        words[words.index("--teacher") + 1] += f":{checkpoint}"
        words += ["--data", str(glue), "--set", "precision=float32"]
        words += ["teacher.precision=float32", "teacher.epochs=1", "--objectives", "vanilla_kd"]
    words += [] if "--inits" in words else ["--inits", "random"]
    if kind in ("objective", "student"):
        words += ["--tasks", "sentiment"]
    done = call("run", *words, *SMALL, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "trained" in done.stdout and "FAILED" not in done.stderr
    refused = call("new", kind, "first_try")
    assert refused.returncode == 2 and "exists already" in refused.stderr


@pytest.mark.parametrize("kind", [kind for kind, template in TEMPLATES.items() if template.tested])
def test_it_passes_the_conformance_tests(kind: str, forked: Harness, tmp_path: Path) -> None:
    assert "python -m harness.testing mine.py" in forked("new", kind, "mine", cwd=tmp_path).stdout
    some = ("-k", "not (one_step and (corpus or scores))")  # kinds of task that a student's own tests have too
    done = conformance("mine.py", "-x", *some, folder=tmp_path / "said", cwd=tmp_path)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout


@pytest.mark.usefixtures("as_before")
def test_a_distribution_is_installed_and_passes_its_tests(
    call: Harness, forked: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f".my_loss.{2**31 - 1}.tmp").mkdir()  # of a process that was killed
    written = forked("new", "plugin", "my_loss", cwd=tmp_path)
    assert not list(tmp_path.glob(".my_loss*"))
    assert written.returncode == 0, written.stderr
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("my_loss/**/*.*")) == [
        "my_loss/README.md", "my_loss/my_loss.py", "my_loss/pyproject.toml", "my_loss/tests/test_conformance.py"
    ]  # fmt: skip
    site, pip = tmp_path / "site", [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    given = ["--no-deps", "--no-build-isolation", "--no-index", "--target", site, tmp_path / "my_loss"]
    subprocess.run([*pip, *map(str, given)], check=True, timeout=120)
    shutil.rmtree(tmp_path / "my_loss" / "build", ignore_errors=True)
    words = ("-q", "-k", "finite_scalar or one_step and cbow", "-p", "no:cacheprovider", "-o", f"pythonpath={site}")
    done = under_pytest(*words, folder=tmp_path / "said", cwd=tmp_path / "my_loss")
    assert done.returncode == 0 and " passed" in done.stdout and "my_loss" not in done.stderr, done.stdout + done.stderr
    monkeypatch.syspath_prepend(str(site))
    assert "my_loss" in call("list", "objectives").stdout
    again = forked("new", "plugin", "my_loss", cwd=tmp_path)
    assert again.returncode == 2 and "my_loss exists already" in again.stderr


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_name_that_is_taken_is_refused(
    kind: str, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    taken = registry.ALL[TEMPLATES[kind].plural].names()[0]
    done = call("new", kind, taken)
    assert done.returncode == 2 and f"{taken!r} exists already, in {ROOT}" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("kind", "file"), [("objective", "mine.py"), ("plugin", "mine/mine.py")])
def test_of_two_at_once_the_first_to_end_has_the_name(
    kind: str, file: str, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_ends(name: str) -> bool:
        monkeypatch.setattr(new, "_installed", lambda _: False)
        assert call("new", kind, name).returncode == 0
        Path(file).write_text("filled in")
        return False

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(new, "_installed", other_ends)  # what takes long, once the name was found to be free
    done = call("new", kind, "mine")
    assert done.returncode == 2 and "cannot be written" in done.stderr
    left = tmp_path / f".{Path(file).parts[0]}.{2**31 - 1}.tmp"
    left.write_text("")  # of a process that was killed once its file had its name
    assert "exists already" in call("new", kind, "mine").stderr
    assert Path(file).read_text() == "filled in" and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("name", ["_", "_1", "student", "Task", "match", "type", "a" * 100])
def test_any_name_gives_a_file_that_is_python(
    kind: str, name: str, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new, "packages_distributions", INSTALLED)
    monkeypatch.chdir(tmp_path)
    assert call("new", kind, name).returncode == 0
    compile((tmp_path / f"{name}.py").read_text(), name, "exec")
