"""Plugins of installed distributions: found by their entry point, named where broken, and missed by results."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import UserError
from harness.exporting.opened import model_in
from harness.planning import filed
from harness.planning.naming import NAME
from harness.registry import OBJECTIVES
from tests.test_registry import GOOD
from tests.test_registry import own_registries as own_registries


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Install a distribution of one module with pip, as a plugin's user would, into this test's own environment."""

    def installed(module: str, source: str) -> Path:
        wheel, information = tmp_path / f"{module}-1.0-py3-none-any.whl", f"{module}-1.0.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{module}.py", source)
            archive.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
            archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{information}/entry_points.txt", f"[harness.plugins]\nmine = {module}\n")
            archive.writestr(f"{information}/RECORD", "")
        target = tmp_path / "environment"
        quietly = ("--quiet", "--no-index", "--no-deps", "--no-cache-dir", "--disable-pip-version-check")
        command = [sys.executable, "-m", "pip", "install", *quietly, "--target", str(target), str(wheel)]
        subprocess.run(command, check=True, timeout=120)
        monkeypatch.syspath_prepend(str(target))
        return target / f"{module}.py"

    return installed


def test_an_installed_distribution_adds_its_objective(install: Callable[[str, str], Path]) -> None:
    file = install("outside_good", GOOD.replace("NAME", "outside"))
    assert OBJECTIVES.get("outside").name == "outside", "by its name alone"
    assert "outside" in OBJECTIVES.names() and OBJECTIVES.origin("outside") == str(file)


def test_an_installed_distribution_with_a_taken_name_names_both_files(install: Callable[[str, str], Path]) -> None:
    file = install("outside_taken", GOOD.replace("NAME", "hid_seq"))
    with pytest.raises(UserError, match="'hid_seq' is defined twice") as caught:
        OBJECTIVES.names()
    assert str(file) in str(caught.value) and OBJECTIVES.origin("hid_seq") in str(caught.value)


def test_a_broken_installed_distribution_is_named(install: Callable[[str, str], Path]) -> None:
    install("outside_broken", "import nothing_of_that_name\n")
    with pytest.raises(UserError, match=r"installed plugin 'mine' \(outside_broken\) cannot be loaded: ModuleNotFound"):
        OBJECTIVES.names()


def test_results_of_a_plugin_that_is_installed_no_more_say_so(tmp_path: Path) -> None:
    folder = tmp_path / "gone" / "quick"
    folder.mkdir(parents=True)
    (folder / NAME).write_text(json.dumps({"plugins": [], "origins": {"loss": "/site-packages/gone/losses.py"}}))
    said = "is from a plugin that is not installed here, which was in /site-packages/gone: install its distribution"
    with pytest.raises(UserError, match=f"study gone {said}"):
        filed.load_study(tmp_path, "gone", ())
    with pytest.raises(UserError, match="'gone_student', from a plugin that is not loaded: install its distribution"):
        model_in(tmp_path, "gone_student")


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    ("files", "told"),
    [
        ([], "is from a plugin that is not installed here, which was in /site-packages/gone: install its distribution"),
        (["/home/me/gone.py"], "is from a plugin file: give --plugin /home/me/gone.py, as before"),
    ],
)
def test_a_study_that_only_results_know_is_told_with_its_plugin(
    command: str, files: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "gone" / "quick"
    folder.mkdir(parents=True)
    (folder / NAME).write_text(
        json.dumps({"plugins": files, "origins": {"loss": "/site-packages/gone/losses.py"}})
    )
    for study, said in (("gone", f"study gone {told}"), (".", "unknown study '.'"), ("other", "unknown study 'other'")):
        assert main([command, "--study", study, "--out", str(tmp_path)]) == 2
        assert said in capsys.readouterr().err
