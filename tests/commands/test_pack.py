"""A folder of results for somebody else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.planning import filed
from tests.commands import results
from tests.conftest import Harness
from tests.faults.killing import killed_at
from tests.launching import begun
from tests.results import done, refused

pytestmark = pytest.mark.usefixtures("no_figures")

STUDY = ("--study", "objectives_vs_init")


@pytest.mark.parametrize("name", ["packed", "packed.zip", "packed.tar.gz"])
def test_a_pack_has_all_that_report_and_run_need(name: str, call: Harness, tmp_path: Path) -> None:
    ledger = results.finished(tmp_path / "out")
    (ledger.out / "cache" / "0123456789ab").mkdir(parents=True)
    (ledger.out / "optuna.db").write_bytes(b"")
    (ledger.folder("f" * 16)).mkdir()  # interrupted
    table = ledger.out / results.PLAN.with_name("table.md")
    table.write_text("a table")
    done = call("pack", "--out", ledger.out, "--to", tmp_path / name)
    assert done.returncode == 0 and "3 runs" in done.stdout, done.stderr
    away = tmp_path / "away"
    if "." in name:
        shutil.unpack_archive(tmp_path / name, away)
    else:
        shutil.copytree(tmp_path / name, away / "packed")
    assert [path.name for path in away.iterdir()] == ["packed"]
    packed = away / "packed"
    assert results.content(packed) == results.content(ledger.out)
    assert sorted(path.name for path in packed.iterdir()) == ["harness.json", "ledger", "objectives_vs_init"]
    assert (packed / results.PLAN.with_name("table.md")).read_text() == "a table"
    shutil.rmtree(ledger.out)
    reported = call("report", *STUDY, "--out", packed)
    assert reported.returncode == 0 and "Vanilla KD" in reported.stdout
    assert "1 of 1 done" in call("status", *STUDY, "--out", packed).stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["away", name], "nothing half made is left"


PLUGIN = """
from harness.contracts import Signal
from harness.registry import objective
from beside_mine import distance

@objective("of_a_pack", needs={Signal.SENTENCE})
def of_a_pack(student, teacher, batch):
    return distance(student.sentence, teacher.sentence)
"""

BESIDE = """
from pathlib import Path

FACTOR = float(Path(__file__).with_name("factor.txt").read_text())


def distance(one, other):
    return FACTOR * (one - other).abs().mean()
"""


def test_a_pack_goes_on_elsewhere_with_its_plugins(forked: Harness, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "mine.py").write_text(PLUGIN)
    (here / "beside_mine.py").write_text(BESIDE)
    (here / "factor.txt").write_text("0.5")
    lines = [f"the {who} is {how},{how}" for who in ("dog", "cat", "nurse", "farmer") * 5 for how in ("old", "big")]
    (here / "sizes.csv").write_text("\n".join(["text,label", *lines]))
    words = (*STUDY, "--objectives", "of_a_pack", "--inits", "every", "--seeds", 1, "--trials", 1, "--set", "epochs=1")

    def run(plugin: Path, data: Path, out: Path) -> subprocess.CompletedProcess[str]:
        return forked("run", *words, "--plugin", plugin, "--tasks", f"sizes={data}", "--workers", 1, "--out", out)

    done(run(here / "mine.py", here / "sizes.csv", here / "results"))
    packed = tmp_path / "there" / "packed"
    told = done(forked("pack", "--out", here / "results", "--to", packed)).stdout
    (plugin,) = packed.glob("plugins/*/mine.py")
    assert f"--plugin FOLDER/{plugin.relative_to(packed)}" in told and str(here / "sizes.csv") in told

    shutil.move(here / "sizes.csv", tmp_path / "sizes.csv")
    shutil.rmtree(here)
    table = json.loads(done(forked("report", *words, "--out", packed, "--format", "json")).stdout)
    (cell,) = (entry["cell"] for entry in table["entries"] if entry["objective"] == "of_a_pack")
    refused(run(plugin, here / "sizes.csv", packed), "data of task sizes", "does not exist")
    done(forked("export", cell, "--out", packed, "--to", tmp_path / "student"))
    assert "0 runs trained" in done(run(plugin, tmp_path / "sizes.csv", packed)).stdout
    plugin.unlink()
    said = forked("pack", "--out", packed, "--to", tmp_path / "without")
    assert f"plugin file {plugin} is not there any more" in said.stderr and (tmp_path / "without" / "ledger").is_dir()


def test_a_merge_brings_plugins_of_the_folder_and_tells_where_others_are(call: Harness, tmp_path: Path) -> None:
    inside, beside = tmp_path / "a" / "results" / "plugins" / "in.py", tmp_path / "a" / "beside.py"
    ledger = results.finished(tmp_path / "a" / "results")
    for file in (inside, beside):
        file.parent.mkdir(exist_ok=True)
        file.write_text("VALUE = 1\n")
    filed.keep(ledger.out, replace(results.plan(), plugins=[str(inside), str(beside)]))
    assert call("merge", ledger.out, "--into", tmp_path / "b" / "results").returncode == 0
    found = filed.read(tmp_path / "b" / "results" / results.PLAN, tmp_path / "b" / "results")
    assert found.plugins == [str(tmp_path / "b" / "results" / "plugins" / "in.py"), str(beside)]
    assert Path(found.plugins[0]).read_text() == inside.read_text()


def test_a_pack_tells_which_packages_of_ones_own_it_leaves(
    call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path / "library")
    package, plugin = tmp_path / "library" / "losses_of_mine.py", tmp_path / "plugins" / "mine.py"
    for file, text in ((package, "VALUE = 1\n"), (plugin, "import losses_of_mine\n")):
        file.parent.mkdir()
        file.write_text(text)
    ledger = results.finished(tmp_path / "results")
    filed.keep(ledger.out, replace(results.plan(), plugins=[str(plugin)]))
    told = call("pack", "--out", ledger.out, "--to", tmp_path / "packed").stdout
    assert f"left where they are, and needed to train more: {package}\n" in told
    assert [path.name for path in (tmp_path / "packed").rglob("*.py")] == ["mine.py"]


def test_what_a_killed_pack_left_is_gone_once_it_is_given_again(call: Harness, tmp_path: Path) -> None:
    ledger = results.finished(tmp_path / "out")
    words = ("pack", "--out", str(ledger.out), "--to", str(tmp_path / "there" / "packed"))
    killed = begun(*words, folder=tmp_path / "said")
    while not list(tmp_path.glob("there/.packed*.tmp/ledger")):
        assert killed.is_alive()
        time.sleep(0.001)
    killed.kill()
    killed.join()
    assert os.listdir(tmp_path / "there") and not (tmp_path / "there" / "packed").exists()
    assert call(*words).returncode == 0
    assert os.listdir(tmp_path / "there") == ["packed"]
    assert results.content(tmp_path / "there" / "packed") == results.content(ledger.out)


def test_a_pack_that_is_killed_in_the_end_is_whole_and_what_it_left_goes(call: Harness, tmp_path: Path) -> None:
    ledger, to = results.finished(tmp_path / "out"), tmp_path / "there" / "packed.zip"
    words = ("pack", "--out", ledger.out, "--to", to)
    killed_at("harness.commands.merge:sync_folder", 1, *words, folder=tmp_path / "said")
    assert len(os.listdir(to.parent)) == 2
    refused(call(*words), "exists already")
    shutil.unpack_archive(to, tmp_path / "away")
    assert os.listdir(to.parent) == ["packed.zip"]
    assert results.content(tmp_path / "away" / "packed") == results.content(ledger.out)


def test_the_first_of_two_packs_keeps_its_name(call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.commands import merge

    ledger, to, archived = results.finished(tmp_path / "out"), tmp_path / "packed.zip", merge._archived

    def late(*words: Any) -> Path:
        to.write_bytes(b"another's")
        return archived(*words)

    monkeypatch.setattr(merge, "_archived", late)
    refused(call("pack", "--out", ledger.out, "--to", to), "exists already")
    assert to.read_bytes() == b"another's" and not list(tmp_path.glob(".*"))


def test_a_folder_that_is_only_to_be_read_is_packed(
    call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = results.finished(tmp_path / "out")
    monkeypatch.setattr(os, "access", lambda *words: False)  # whoever runs the tests may be allowed everything
    done(call("pack", "--out", ledger.out, "--to", tmp_path / "packed"))
    assert results.content(tmp_path / "packed") == results.content(ledger.out)
    assert not (ledger.out / ".lock").exists()


OTHERS = (("a.7z", "must be a folder or"), (os.fsdecode(b"caf\xe9.zip"), "not in UTF-8"))


def test_a_pack_is_refused_where_it_would_be_lost(call: Harness, tmp_path: Path) -> None:
    ledger = results.finished(tmp_path / "out")
    for to, told in (("out/packed", "lies in the folder"), ("out", "exists already"), *OTHERS):
        done = call("pack", "--out", ledger.out, "--to", tmp_path / to)
        assert done.returncode == 2 and told in done.stderr, done.stderr
    with ledger.lock():
        done = call("pack", "--out", ledger.out, "--to", tmp_path / "packed")
    assert done.returncode == 3 and "another harness run is working" in done.stderr
    assert not (tmp_path / "packed").exists()
