"""What an installation is: one import name, beside which a user's own packages may be called anything."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import EMPTY_STUDY, ROOT, Harness, environment

OURS = ("objectives", "students", "teachers", "studies", "reports")
OLD = """
import reports
from objectives.prediction import VanillaKD
from harness.objectives import prediction
from harness.registry import objective

assert VanillaKD is prediction.VanillaKD


@objective("outside", needs=VanillaKD.needs, stage="prediction")
class Outside(VanillaKD):
    def __init__(self, student, teacher, layers):
        super().__init__(student, teacher, layers, **{n: h.default for n, h in VanillaKD.hyperparameters.items()})
"""
MINE = """
import reports
import studies
from harness import reports as ours, studies as theirs

assert reports.MINE and studies.MINE
for package in (ours, theirs):
    assert package.__file__.startswith({site!r}), package.__file__
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a wheel is installed into."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT]
    subprocess.run([*pip, *map(str, build)], check=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:  # as pip unpacks it, without the seconds of compiling
        tops = {name.split("/")[0] for name in file.namelist()}
        assert {top for top in tops if not top.endswith(".dist-info")} == {"harness"}
        file.extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of somebody who has packages of these names."""
    for name in OURS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True\n")
    return tmp_path


def call(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    given = {**environment(), "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, timeout=300)


def test_a_study_runs_beside_packages_of_the_same_names(installed: Path, own: Path) -> None:
    """Whose plugin means its own by them, and ours by `harness.`, in the process of each run, too."""
    (own / "outside.py").write_text(MINE.format(site=str(installed / "harness")) + EMPTY_STUDY.format(name="mine"))
    done = call(
        installed, own, "harness", "run", "--study", "objectives_vs_init", "--tasks", "sentiment", "--objectives",
        "vanilla_kd", "--inits", "every", "--seeds", "1", "--plugin", "outside.py", "--set", "epochs=1",
        "train_examples=64",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Vanilla KD" in done.stdout and "is `harness." not in done.stdout + done.stderr


def test_what_new_files_are_made_of_comes_with_it(installed: Path) -> None:
    ours = {path.relative_to(ROOT) for room in ("harness", *OURS) for path in (ROOT / room).rglob("template.txt")}
    comes = {path.relative_to(installed / "harness") for path in installed.rglob("template.txt")}
    assert len(ours) == 6 and comes == {Path(*path.parts[path.parts[0] == "harness" :]) for path in ours}


def test_the_conformance_tests_come_with_it(installed: Path, own: Path) -> None:
    (own / "outside.py").write_text(
        OLD.replace("import reports\n", "").replace("from objectives", "from harness.objectives")
    )
    done = call(installed, own, "harness.testing", "outside.py", "-k", "finite_scalar")
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


def test_a_plugin_that_says_the_old_names_works_and_is_told(installed: Path, tmp_path: Path, forked: Harness) -> None:
    (tmp_path / "outside.py").write_text(OLD)
    words = "list", "objectives", "--plugin", "outside.py"
    for done in (call(installed, tmp_path, "harness", *words), forked(*words, cwd=tmp_path)):  # and of the checkout
        assert done.returncode == 0 and "outside" in done.stdout, done.stderr
        assert done.stderr.count("\n") == 1 and "`objectives`, which is `harness.objectives` now" in done.stderr
