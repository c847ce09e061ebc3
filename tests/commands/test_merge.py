"""Results of several folders as one, and a folder of results for somebody else."""

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

from harness.evaluation import server_scores
from harness.ledger import Ledger
from harness.planning import filed
from tests.commands import results
from tests.conftest import Harness
from tests.faults.killing import killed_at
from tests.launching import begun
from tests.results import done, refused

STUDY = ("--study", "objectives_vs_init")


def test_merging_unites_runs_plans_weights_and_predictions(call: Harness, tmp_path: Path) -> None:
    one = results.finished(tmp_path / "one", ["vanilla_kd"])
    two = results.finished(tmp_path / "two", ["att_kl", "val_kl"])
    server_scores.keep(two, {results.run_of("att_kl"): {"sst2": {"accuracy": 90.0}}})
    into = tmp_path / "into"
    done = call("merge", one.out, two.out, "--into", into)
    assert done.returncode == 0, done.stderr
    assert "2 runs brought, 0 there before" in done.stdout and "2 runs brought, 1 there before" in done.stdout
    assert done.stdout.count(", 1 plan brought\n") == 2
    assert results.content(into) == results.content(one.out) | results.content(two.out)
    assert server_scores.kept(Ledger(into)) == server_scores.kept(two)
    assert not list(into.rglob("*.tmp")) and not (into / "cache").exists()
    assert "Vanilla KD" in call("report", *STUDY, "--out", into).stdout
    cells = [cell.id for cell in results.plan(["att_kl", "val_kl"]).cells]
    (earlier,) = into.glob("*/*/earlier/*.json")
    assert all(cell in earlier.read_text() for cell in cells), "the plan that had to give way"
    assert f"{two.out / results.PLAN} has 2 cells that {into / results.PLAN} has not" in done.stderr.replace("\n", " ")
    before = results.content(into)
    again = call("merge", one.out, two.out, "--into", into)
    assert "0 runs brought, 2 there before, 0 in conflict, 0 damaged, 0 plans brought" in again.stdout
    assert results.content(into) == before


def test_a_folder_that_is_worked_in_is_told_and_stays_open(call: Harness, tmp_path: Path) -> None:
    one = results.finished(tmp_path / "one", ["vanilla_kd"])
    before = {*one.out.iterdir()}
    assert done(call("merge", one.out, "--into", tmp_path / "early")).stderr == "" and {*one.out.iterdir()} == before
    with one.lock():
        told = done(call("merge", one.out, "--into", tmp_path / "busy"))
    assert "2 runs brought" in told.stdout
    sentence = f"harness: {one.out} is still worked in: merge it again for the runs that end from now on\n"
    assert told.stderr == sentence
    assert done(call("merge", one.out, "--into", tmp_path / "calm")).stderr == ""


def test_an_archive_is_to_be_unpacked(call: Harness, tmp_path: Path) -> None:
    one = results.finished(tmp_path / "one", ["vanilla_kd"])
    done(call("pack", "--out", one.out, "--to", tmp_path / "one.tar.gz"))
    packed = tmp_path / "one.tar.gz"
    commands = [("merge", packed, "--into", tmp_path / "all"), ("status", *STUDY, "--out", packed)]
    # whose only study is told by what is in it, as is where a study's plugin lies
    commands += [("report", "--out", packed), ("report", "--study", "of_a_plugin", "--out", packed)]
    for words in commands:
        refused(call(*words), "one.tar.gz is a file, where a folder is wanted: unpack it, and give what was in it")


def test_equal_runs_with_other_numbers_are_told_and_stay(call: Harness, tmp_path: Path) -> None:
    one, two = (results.finished(tmp_path / name, score=score) for name, score in (("one", 0.5), ("two", 0.75)))
    before = results.content(one.out)
    done = call("merge", two.out, "--into", one.out)
    assert done.returncode == 1 and "0 runs brought, 1 there before, 2 in conflict" in done.stdout
    assert f"run {results.run_of('att_kl')} of {two.out} (" in done.stderr and "keeps its own" in done.stderr
    assert "att_kl every sst2, seed 0) has other numbers (accuracy 0.5 here, 0.75 there" in done.stderr
    assert results.content(one.out) == before


@pytest.mark.parametrize("keeps", ["one", "two"])
def test_a_run_that_left_no_weights_is_the_same_as_one_that_did(keeps: str, call: Harness, tmp_path: Path) -> None:
    """As of `--keep none` in one of the folders. The weights come with the record that vouches for them."""
    run = replace(results.student("vanilla_kd"), seed=0)
    one, two = (results.finished(tmp_path / name, ["vanilla_kd"]) for name in ("one", "two"))
    name = results.record(Ledger(tmp_path / keeps), run, 0.5, weights=True)
    said = done(call("merge", two.out, "--into", one.out))
    assert "0 runs brought, 2 there before, 0 in conflict" in said.stdout and not said.stderr
    into = Ledger(one.out)
    assert into.whole(name) and into.read(name)["weights"] and not into.trouble_with_weights(name)


def test_of_several_tasks_the_numbers_are_compared_and_not_what_was_measured(call: Harness, tmp_path: Path) -> None:
    run = replace(results.student("vanilla_kd"), seed=0)
    one, two, three = (results.finished(tmp_path / name) for name in ("one", "two", "three"))
    for ledger, score, measured in ((one, 0.5, {"examples_per_second": 1.0}), (two, 0.5, {}), (three, 0.75, {})):
        told = {"metrics": {"accuracy": score}, "selection": score, **measured}
        results.record(ledger, run, 0.5, by_task={"sst2": told, "rte": {**told, "metrics": {"accuracy": 0.5}}})
    assert "0 in conflict" in done(call("merge", two.out, "--into", one.out)).stdout
    said = call("merge", three.out, "--into", one.out)
    assert said.returncode == 1 and "has other numbers (sst2 accuracy 0.5 here, 0.75 there)" in said.stderr


def test_what_is_damaged_is_told_and_left_out(call: Harness, tmp_path: Path) -> None:
    source, into = results.finished(tmp_path / "one"), tmp_path / "into"
    torn, lost = results.run_of("vanilla_kd"), results.run_of("att_kl")
    (source.folder(torn) / "record.json").write_bytes((source.folder(torn) / "record.json").read_bytes()[:100])
    (source.folder(lost) / "predictions.safetensors").unlink()
    (source.folder(results.TEACHER_RUN) / "weights" / "model.safetensors").write_bytes(b"others")
    done = call("merge", source.out, "--into", into)
    assert done.returncode == 1 and "1 run brought" in done.stdout and "2 damaged" in done.stdout
    assert f"the record of run {torn} is damaged" in done.stderr and f"the predictions of run {lost}" in done.stderr
    assert f"the weights of run {results.TEACHER_RUN} of {source.out} are damaged" in done.stderr
    assert list(Ledger(into).runs()) == [results.TEACHER_RUN]
    assert not (Ledger(into).folder(results.TEACHER_RUN) / "weights").exists()
    sound = results.finished(tmp_path / "sound")
    done = call("merge", sound.out, "--into", into)
    assert done.returncode == 0 and results.content(into) == results.content(sound.out), "the weights, too"
    done = call("merge", sound.out, "--into", source.out)
    assert done.returncode == 0 and results.content(source.out) == results.content(sound.out), "in place of the damaged"


def test_a_finished_run_takes_the_place_of_one_that_failed_or_was_interrupted(call: Harness, tmp_path: Path) -> None:
    source, into = results.finished(tmp_path / "one"), Ledger(tmp_path / "into", create=True)
    failed, begun = results.run_of("vanilla_kd"), results.run_of("att_kl")
    run = replace(results.student("vanilla_kd"), seed=0)
    into.write(failed, {"status": "failed", "error": "x", "specification": run.specification()}, None)
    into.folder(begun).mkdir()
    (into.folder(begun) / "checkpoint.pt").write_bytes(b"")
    (into.folder(begun) / ".record.json.1.tmp").write_bytes(b"")
    shutil.copytree(into.out, tmp_path / "failed")
    assert call("merge", source.out, "--into", into.out).returncode == 0
    assert results.content(into.out) == results.content(source.out) and not list(into.out.rglob("*.tmp"))
    back = call("merge", tmp_path / "failed", "--into", into.out)
    assert back.returncode == 0 and "1 there before" in back.stdout
    assert results.content(into.out) == results.content(source.out)


def test_a_failure_takes_no_progress_away(call: Harness, tmp_path: Path) -> None:
    source, into = (Ledger(tmp_path / name, create=True) for name in ("one", "into"))
    run = replace(results.student("att_kl"), seed=0)
    source.write(
        results.run_of("att_kl"), {"status": "failed", "error": "x", "specification": run.specification()}, None
    )
    begun = into.folder(results.run_of("att_kl")) / "checkpoint.pt"
    begun.parent.mkdir(parents=True)
    begun.write_bytes(b"of hours")
    done(call("merge", source.out, "--into", into.out))
    assert begun.read_bytes() == b"of hours"


def test_a_merge_that_is_killed_leaves_whole_runs_and_is_given_again(
    call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.commands import merge

    source, into = results.finished(tmp_path / "one"), tmp_path / "into"
    copy, left = merge._copy, [5]

    def dying(*words: Path) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        copy(*words)

    monkeypatch.setattr(merge, "_copy", dying)
    assert call("merge", source.out, "--into", into).returncode == 130
    monkeypatch.undo()
    half = Ledger(into)
    assert 0 < len([run for run in half.runs() if half.whole(run)]) < 3 and not half.damaged
    assert call("merge", source.out, "--into", into).returncode == 0
    assert results.content(into) == results.content(source.out)


def test_scores_of_the_server_are_united_and_those_that_differ_are_told(call: Harness, tmp_path: Path) -> None:
    one, two, run = results.finished(tmp_path / "one"), results.finished(tmp_path / "two"), results.run_of("att_kl")
    server_scores.keep(one, {run: {"sst2": {"accuracy": 90.0}}})
    server_scores.keep(two, {run: {"sst2": {"accuracy": 90.0}, "rte": {"accuracy": 70.0}}})
    assert done(call("merge", two.out, "--into", one.out)).stderr == ""
    assert server_scores.kept(one) == server_scores.kept(two)
    server_scores.keep(two, {run: {"sst2": {"accuracy": 80.0}}})
    said = call("merge", two.out, "--into", one.out)
    assert said.returncode == 1 and "keeps its own" in said.stderr
    assert server_scores.kept(one)[run]["sst2"] == {"accuracy": 90.0}


def test_a_damaged_plan_is_left_out_and_gives_way_to_a_whole_one(call: Harness, tmp_path: Path) -> None:
    torn, sound = results.finished(tmp_path / "torn"), results.finished(tmp_path / "sound")
    for half in (torn.out / results.PLAN, tmp_path / "into" / results.PLAN):
        half.parent.mkdir(parents=True, exist_ok=True)
        half.write_text("{")
    (tmp_path / "into" / "harness.json").write_text('{"format":1}')
    said = call("merge", torn.out, "--into", tmp_path / "into")
    assert said.returncode == 1 and f"plan {torn.out / results.PLAN} is damaged" in said.stderr
    done(call("merge", sound.out, "--into", tmp_path / "into"))
    assert "Vanilla KD" in done(call("report", *STUDY, "--out", tmp_path / "into")).stdout


@pytest.mark.parametrize("first", ["0.0005", "5e-4"])
def test_a_kind_that_was_spelt_otherwise_is_one_with_that_of_today(first: str, call: Harness, tmp_path: Path) -> None:
    """Earlier versions named folders as numbers were typed."""
    for word, objective in (("5e-4", "vanilla_kd"), ("0.0005", "att_kl")):
        kind = f"learning_rate={word}"
        ledger = results.finished(tmp_path / word, [objective])
        (ledger.out / results.PLAN).unlink()
        place = Path(STUDY[1], "quick", kind, f"objectives={objective}", "plan.json")
        told = replace(results.plan([objective]), flags=f"--set {kind}", variant=f"{kind}/objectives={objective}")
        results.write_plan(ledger.out, told, place)
    folders = sorted([tmp_path / "0.0005", tmp_path / "5e-4"], key=lambda folder: folder.name != first)
    done(call("merge", *folders, "--into", tmp_path / "into"))
    assert [path.name for path in (tmp_path / "into" / STUDY[1] / "quick").iterdir()] == [f"learning_rate={first}"]
    for flags in ((), ("--set", "learning_rate=5e-4")):
        told = done(call("report", *flags, "--out", tmp_path / "into", "--format", "markdown")).stdout
        assert "| Vanilla KD" in told and "| Att-KL" in told, told


@pytest.mark.parametrize("gone", ["weights", "."])
def test_what_goes_while_it_is_copied_stops_no_merge(
    gone: str, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.commands import merge

    source, copy, into = results.finished(tmp_path / "one"), merge._copy, tmp_path / "into"

    def late(file: Path, target: Path) -> None:
        if results.TEACHER_RUN in file.parts:  # as a driver or `harness remove` takes it
            shutil.rmtree(source.folder(results.TEACHER_RUN) / gone, ignore_errors=True)
        copy(file, target)

    monkeypatch.setattr(merge, "_copy", late)
    said = call("merge", source.out, "--into", into)
    assert "went while they were copied" in said.stderr and not list(into.rglob("*.tmp"))
    whole = {run for run in Ledger(into).runs() if Ledger(into).whole(run)}
    assert said.returncode == (gone == ".") and len(whole) == 3 - (gone == ".")
    assert not (Ledger(into).folder(results.TEACHER_RUN) / "weights").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("one", "--into", "one"), "is the folder that --into names"),
        (("nothing", "--into", "into"), "there are no results in"),
        (("one", "--into", "full"), "holds files that are not results"),
    ],
)
def test_bad_folders_are_refused(
    words: tuple[str, ...], told: str, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results.finished(tmp_path / "one")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("")
    done = call("merge", *words)
    assert done.returncode == 2 and told in done.stderr and not (tmp_path / "into").exists()


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
