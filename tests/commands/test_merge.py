"""Results of several folders as one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.evaluation import server_scores
from harness.ledger import Ledger
from tests.commands import results
from tests.conftest import Harness
from tests.results import done, refused

pytestmark = pytest.mark.usefixtures("no_figures")

STUDY = ("--study", "objectives_vs_init")


def test_merging_unites_runs_plans_weights_and_predictions(call: Harness, tmp_path: Path) -> None:
    one = results.finished(tmp_path / "one", ["vanilla_kd"])
    two = results.finished(tmp_path / "two", ["att_kl", "val_kl"])
    server_scores.keep(two, {results.run_of("att_kl"): {"sst2": {"accuracy": 90.0}}})
    into = tmp_path / "all of them"
    done = call("merge", one.out, two.out, "--into", into)
    assert done.returncode == 0, done.stderr
    assert f"harness report --study NAME --out '{into}' prints a table of all" in done.stdout.replace("\n", " ")
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
        refused(call(*words), "one.tar.gz is a file, not a folder: unpack it, and give what was in it")


def test_equal_runs_with_other_numbers_are_told_and_stay(call: Harness, tmp_path: Path) -> None:
    one, two = (results.finished(tmp_path / name, score=score) for name, score in (("one", 0.5), ("two", 0.75)))
    before = results.content(one.out)
    done = call("merge", two.out, "--into", one.out)
    assert done.returncode == 1 and "0 runs brought, 1 there before, 2 in conflict" in done.stdout
    assert f"run {results.run_of('att_kl')} of {two.out} (" in done.stderr and "keeps its own" in done.stderr
    assert "att_kl transformer every sst2, seed 0) has other numbers (accuracy 0.5 here, 0.75 there" in done.stderr
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
