"""From a study to a folder: found by its id, made again where it is lost, asked from a shell, given to the next."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch

from harness.commands.taken import taken
from harness.data.loading import load as read_task
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.evaluation.metrics import score
from harness.exporting.card import LICENCE
from harness.exporting.opened import load
from harness.ledger import Ledger
from harness.planning.filed import read as read_plan
from harness.search.kept import best_run
from harness.search.progress import Progress, progress
from tests.commands.results import finished, plan, run_of, write_plan
from tests.conftest import Harness
from tests.faults.killing import killed_at
from tests.results import table_folder

pytestmark = pytest.mark.usefixtures("no_figures", "here")

STUDY = "objectives_vs_init"


@pytest.fixture(scope="module")
def results(call: Harness, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cells of a study, one on single sentences and one on pairs."""
    out = tmp_path_factory.mktemp("study") / "out"
    done = call(
        "run", "--study", STUDY, "--objectives", "vanilla_kd", "--inits", "every", "--tasks", "sentiment", "entailment",
        "--trials", "1", "--seeds", "2", "--set", "train_examples=64", "epochs=1", "--out", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out


def cell_of(out: Path, task: str) -> tuple[str, Progress]:
    plan = read_plan(table_folder(out) / "plan.json", out)
    cell = next(cell for cell in plan.cells if cell.task == task)
    return cell.id, progress(cell, plan.defaults, Ledger(out).read)


@pytest.fixture
def again(results: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(results, tmp_path / "again"))


def test_weights_of_the_best_runs_are_there_and_status_tells_their_size(results: Path, call: Harness) -> None:
    kept = {path.parent.name for path in results.glob("ledger/*/weights")}
    found = [best_run(cell_of(results, task)[1]) for task in ("sentiment", "entailment")]
    best = {one.run for one in found if one}
    records = {run: Ledger(results).read(run) or {} for run in kept}
    assert best == {run for run, record in records.items() if "student" in record["specification"]}
    size = sum(file.stat().st_size for run in best for file in (results / "ledger" / run / "weights").iterdir())
    assert f"weights kept: 2 runs, {size / 1e6:.1f} MB" in call("status", "--study", STUDY, "--out", results).stdout


@pytest.mark.parametrize("task", ["sentiment", "entailment"])
def test_a_cell_becomes_a_folder_with_the_scores_of_its_table(
    task: str, results: Path, call: Harness, tmp_path: Path
) -> None:
    name, found = cell_of(results, task)
    one = best_run(found)
    assert one is not None
    done = call("export", name[:8], "--to", tmp_path / "student", "--out", results)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    student, dev = load(tmp_path / "student"), read_task(get_task(task), "embedded").dev[0]
    texts: Any = dev.text_a if dev.text_b is None else list(zip(dev.text_a, dev.text_b, strict=True))
    labels = [student.labels.index(each["label"]) for each in student.predict(texts)]
    assert score(get_task(task), labels, dev.labels) == one.record["metrics"]
    card = (tmp_path / "student" / "README.md").read_text(encoding="utf-8")
    mean = 100 * sum(seed.record["metrics"]["accuracy"] for seed in found.seeds) / len(found.seeds)
    assert f"the row vanilla_kd has accuracy {mean:.1f} ± " in card and "its teacher has " in card
    run = call("export", one.run, "--to", tmp_path / "run", "--out", results)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tmp_path / "student" / "model.safetensors"
    ).read_bytes()
    planned = call(
        "plan", "--study", STUDY, "--teacher", tmp_path / "student", "--tasks", task, "--objectives", "vanilla_kd",
        "--inits", "last", "--set", "student.layers=1",
    )  # fmt: skip
    assert planned.returncode == 0 and re.search(r"\d runs? that these start from", planned.stdout), planned.stderr


def test_the_card_tells_the_version_that_trained_the_weights(again: Path, call: Harness, tmp_path: Path) -> None:
    cell, found = cell_of(again, "sentiment")
    best, ledger = best_run(found), Ledger(again)
    assert best
    told = {"harness": "0.0.7 commit 0123456789ab", "machine": "another"}
    ledger.write(best.run, {**(ledger.read(best.run) or {}), "made_on": told}, None)
    done = call("export", cell, "--to", tmp_path / "student", "--out", again)
    assert done.returncode == 0, done.stderr
    card = (tmp_path / "student" / "README.md").read_text(encoding="utf-8")
    assert "Made with distill-harness 0.0.7.\n" in card and "version = {0.0.7}" in card


def test_of_two_searches_of_a_cell_the_larger_one_counts(
    results: Path, again: Path, call: Harness, tmp_path: Path
) -> None:
    words = ("--study", STUDY, "--objectives", "vanilla_kd", "--inits", "every", "--tasks", "sentiment", "--out", again)
    more = call("run", *words, "--trials", "2", "--seeds", "2", "--set", "train_examples=64", "epochs=1")
    assert more.returncode == 0, more.stderr
    before = cell_of(results, "sentiment")[0]
    name, found = cell_of(again, "sentiment")
    one = best_run(found)
    assert one is not None and len(found.trials) == 2 and name == before
    assert "search: 2 of 2 trials" in call("show", name, "--out", again).stdout
    assert call("export", name, "--to", tmp_path / "student", "--out", again).returncode == 0
    told = json.loads((tmp_path / "student" / "harness_student.json").read_text())
    assert told["made"]["run"] == one.run


def test_weights_that_are_lost_are_made_again_and_are_the_same(again: Path, call: Harness, tmp_path: Path) -> None:
    name, found = cell_of(again, "sentiment")
    one = best_run(found)
    assert one is not None
    weights, ledger = again / "ledger" / one.run / "weights", Ledger(again)
    before = {path.name: path.read_bytes() for path in weights.iterdir()}
    shutil.rmtree(weights)
    record = dict(ledger.read(one.run) or {})
    del record["weights"]  # as those have it that were made before weights were kept
    ledger.write(one.run, record, None)
    done = call("export", name, "--to", tmp_path / "student", "--out", again)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1) and "it is made again" in done.stderr, done.stderr
    assert {path.name: path.read_bytes() for path in weights.iterdir()} == before
    assert not Ledger(again).trouble_with_weights(one.run) and Ledger(again).whole(one.run)
    assert not list((again / "cache").glob("again-*"))
    assert call("export", name, "--to", tmp_path / "second", "--out", again).stderr == ""


def test_where_no_weights_are_kept_the_teacher_is_made_again_first(again: Path, call: Harness, tmp_path: Path) -> None:
    for weights in again.glob("ledger/*/weights"):
        shutil.rmtree(weights)
    done = call("export", cell_of(again, "sentiment")[0], "--to", tmp_path / "student", "--out", again)
    assert done.returncode == 0 and (tmp_path / "student" / "config.json").is_file(), done.stderr


def test_weights_that_go_as_they_are_opened_are_made_again(
    again: Path, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble_with_weights = Ledger.trouble_with_weights

    def late(self: Ledger, run: str) -> str:
        found = trouble_with_weights(self, run)
        if not seen:
            shutil.rmtree(self.folder(run) / "weights")  # as a driver takes them that has found a better run
        seen.append(run)
        return found

    seen: list[str] = []
    monkeypatch.setattr(Ledger, "trouble_with_weights", late)
    done = call("export", cell_of(again, "sentiment")[0], "--to", tmp_path / "student", "--out", again)
    assert done.returncode == 0 and "it is made again" in done.stderr, done.stderr


def test_weights_that_are_made_again_otherwise_are_told(again: Path, call: Harness, tmp_path: Path) -> None:
    name, found = cell_of(again, "sentiment")
    one = best_run(found)
    assert one is not None
    ledger, record = Ledger(again), one.record
    shutil.rmtree(ledger.folder(one.run) / "weights")
    ledger.write(one.run, {**record, "metrics": {**record["metrics"], "accuracy": 0.125}}, None)
    done = call("export", name, "--to", tmp_path / "student", "--out", again)
    assert done.returncode == 0 and "where 0.1250 is recorded" in done.stderr, done.stderr
    assert not (ledger.folder(one.run) / "weights").exists(), "the record does not vouch for them"
    metrics = json.loads((tmp_path / "student" / "harness_student.json").read_text())["made"]["metrics"]
    assert metrics["accuracy"] != 0.125


TEXTS = ["the dog was great .", 'the film, it was "awful" .', "", "żółta dzień 🐕"]


def lines(pairs: bool) -> dict[str, str]:
    """The same examples in every form that there is."""
    rows = [(text, "the dog was great .") for text in TEXTS] if pairs else [(text,) for text in TEXTS]
    names = ("premise", "hypothesis") if pairs else ("sentence",)
    table = io.StringIO()
    csv.writer(table).writerows([("other", *names), *(("1", *row) for row in rows)])
    objects = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    return {"in.csv": table.getvalue(), "in.jsonl": objects, "in.txt": "".join("\t".join(row) + "\n" for row in rows)}


@pytest.mark.parametrize("task", ["sentiment", "entailment"])
def test_texts_are_answered_in_order_whatever_they_come_in(
    task: str, results: Path, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _ = cell_of(results, task)
    said = set()
    for file, text in lines(task == "entailment").items():
        (tmp_path / file).write_text(text, encoding="utf-8")
        done = call("predict", name, "--input", tmp_path / file, "--out", results)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        said.add(done.stdout)
    pipe = io.TextIOWrapper(io.BytesIO(lines(task == "entailment")["in.jsonl"].encode()))
    monkeypatch.setattr(sys, "stdin", pipe)
    done = call("predict", name, "--input", "-", "--output", tmp_path / "out.csv", "--out", results)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stderr
    assert len(said) == 1
    found = [json.loads(line) for line in said.pop().splitlines()]
    labels = get_task(task).labels
    assert len(found) == len(TEXTS) and all(tuple(one["probabilities"]) == labels for one in found)
    rows = list(csv.reader((tmp_path / "out.csv").read_text().splitlines()))
    texts = ["sentence1", "sentence2"] if task == "entailment" else ["text"]
    assert rows[0] == [*texts, "label", *(f"probability_{label}" for label in labels)]
    read, said = [row[: len(texts)] for row in rows[1:]], [row[len(texts) :] for row in rows[1:]]
    assert read == [[one[name] for name in texts] for one in found]
    assert [row[0] for row in read] == TEXTS
    assert [row[0] for row in said] == [one["label"] for one in found]
    assert [float(row[1]) for row in said] == [one["probabilities"][labels[0]] for one in found]
    call("predict", name, "--input", tmp_path / "out.csv", "--output", tmp_path / "again.csv", "--out", results)
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "out.csv").read_bytes(), "it can be read again"


def test_a_long_file_is_read_in_parts(
    results: Path, call: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from harness.commands import predict
    from harness.exporting.opened import Opened

    sizes: list[int] = []
    own: Callable[..., torch.Tensor] = Opened.logits
    monkeypatch.setattr(Opened, "logits", lambda self, texts, size: sizes.append(len(texts)) or own(self, texts, size))
    monkeypatch.setattr(predict, "PART", 40)
    (tmp_path / "long.txt").write_text("the dog was great .\n" * 100)
    done = call("predict", cell_of(results, "sentiment")[0], "--input", tmp_path / "long.txt", "--out", results)
    assert len(done.stdout.splitlines()) == 100 and sizes == [40, 40, 20]


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("in.csv", b"a,b\n1,2\n", "no column text or sentence, which predict reads; it has a, b: rename one"),
        ("in.csv", b"text,b\n1\n", "line 2: 1 column split by commas, but"),
        ("in.csv", b"", "no column text or sentence, which predict reads; it has none"),
        ("in.csv", b'text\n"a\n', "line 2"),
        ("in.jsonl", b'{"text": "a"}\n{"text": 3}\n', "line 2: a text is a string, not 3"),
        ("in.jsonl", b"[1]\n", "an example must be an object"),
        ("in.jsonl", b"{\n", "line 1: not JSON"),
        ("in.jsonl", b'{"texts": "a"}\n', "line 1: there is no column text or sentence"),
        ("in.txt", b"a\n\xff\n", "line 2: not UTF-8"),
        ("in.txt", b"a\0b\n", "line 1: it holds a NUL"),
        ("nothing.txt", None, "No such file"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line_and_nothing_is_written(
    file: str, content: bytes | None, words: str, results: Path, call: Harness, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / file).write_bytes(content)
    name = cell_of(results, "sentiment")[0]
    done = call("predict", name, "--input", tmp_path / file, "--output", tmp_path / "said.jsonl", "--out", results)
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not (tmp_path / "said.jsonl").exists()


def test_what_cannot_be_exported_is_told_in_a_sentence(again: Path, call: Harness, tmp_path: Path) -> None:
    name, found = cell_of(again, "sentiment")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()

    def refused(*words: object) -> str:
        done = call("export", *words, "--out", again)
        assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr

    told = refused("zzz", "--to", tmp_path / "new")
    assert "there is no cell or run 'zzz'" in told and "harness plan" in told and "--out names another folder" in told
    assert "exists already and is not an empty folder" in refused(name, "--to", tmp_path / "full")
    assert "cannot be written" in refused(name, "--to", tmp_path / "full" / "file" / "new")
    assert "not a name on the hub" in refused(name, "--to", tmp_path / "new", "--push", "a/b/c")
    (again / "ledger" / found.seeds[1].run / "record.json").unlink()
    assert "the harness run command that planned it goes on" in refused(name, "--to", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_is_uploaded_or_it_is_told_why_not(
    results: Path, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, calls = cell_of(results, "sentiment")[0], []

    class Hub:
        def create_repo(self, *words: Any, **more: Any) -> None:
            calls.append(("create", words, more))

        def upload_folder(self, **more: Any) -> None:
            calls.append(("upload", sorted(path.name for path in Path(more["folder_path"]).iterdir()), more["repo_id"]))

    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    done = call("export", name, "--to", tmp_path / "one", "--push", "somebody/student", "--out", results)
    assert (done.returncode, done.stderr) == (0, "") and "https://huggingface.co/somebody/student" in done.stdout
    assert calls[0] == ("create", ("somebody/student",), {"exist_ok": True})
    assert calls[1][0] == "upload" and calls[1][2] == "somebody/student" and "README.md" in calls[1][1]
    assert 'model="somebody/student"' in (tmp_path / "one" / "README.md").read_text(encoding="utf-8")

    def unreachable(self: Any, *words: Any, **more: Any) -> None:
        raise huggingface_hub.errors.OfflineModeIsEnabled("there is no network")

    monkeypatch.setattr(Hub, "create_repo", unreachable)
    done = call("export", name, "--to", tmp_path / "two", "--push", "somebody/student", "--out", results)
    assert done.returncode == 2 and "there is no network" in done.stderr
    assert (tmp_path / "two" / "config.json").is_file()

    def silent(self: Any, *words: Any, **more: Any) -> None:
        raise TimeoutError

    monkeypatch.setattr(Hub, "create_repo", silent)
    done = call("export", name, "--to", tmp_path / "two", "--push", "somebody/student", "--out", results)
    assert done.returncode == 2 and "could not be uploaded to somebody/student: TimeoutError;" in done.stderr


def test_what_a_killed_push_wrote_is_uploaded_once_it_is_given_again(
    results: Path, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, folder, sent = cell_of(results, "sentiment")[0], tmp_path / "student", dict[str, str]()
    words = ("export", name, "--to", folder, "--push", "somebody/student", "--out", results)
    killed_at("huggingface_hub:HfApi.create_repo", 1, *words, folder=tmp_path / "said")
    card = folder / "README.md"
    card.write_text(card.read_text(encoding="utf-8").replace(LICENCE, "license: mit\n"), encoding="utf-8")

    def upload(_: Any, *, folder_path: Path, **more: Any) -> None:
        sent["card"] = (folder_path / "README.md").read_text(encoding="utf-8")

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", lambda *_, **more: None)
    monkeypatch.setattr(huggingface_hub.HfApi, "upload_folder", upload)
    done = call(*words)
    assert done.returncode == 0 and "still to be filled in" not in done.stdout, done.stderr
    assert "license: mit" in sent["card"]
    other = call("export", name, "--to", folder, "--push", "somebody/another", "--out", results)
    assert other.returncode == 2 and "exists already" in other.stderr, "its card names another place"
    (folder / "model.safetensors").write_bytes(b"others")
    assert "exists already" in call(*words).stderr


def test_a_run_on_several_tasks_is_taken_by_the_cell_of_one(tmp_path: Path) -> None:
    ledger = finished(tmp_path, ["vanilla_kd"])
    cells = [replace(plan(["vanilla_kd"]).cells[0], id=f"cell-{task}", task=task) for task in ("rte", "sst2")]
    write_plan(tmp_path, replace(plan(["vanilla_kd"]), cells=cells, tasks=["rte", "sst2"]))
    with pytest.raises(UserError, match=r"several tasks: .*: cell-rte on rte, cell-sst2 on sst2"):
        taken(ledger.out, run_of("vanilla_kd"))
    assert taken(ledger.out, "cell-sst2").task.name == "sst2"


def test_a_students_code_that_is_another_than_that_of_its_weights_is_told(forked: Harness, tmp_path: Path) -> None:
    """They open all the same, and would answer otherwise without a word."""
    text = (files("harness.students") / "template.txt").read_text(encoding="utf-8")
    (plugin := tmp_path / "mine.py").write_text(text.replace("CLASS", "Mine").replace("NAME", "mine"))
    words = ("--students", "mine", "--inits", "random", "--objectives", "vanilla_kd", "--plugin", "mine.py")
    small = ("--tasks", "sentiment", "--trials", "1", "--seeds", "1", "--set", "train_examples=32", "epochs=1")
    done = forked("run", "--study", STUDY, *words, *small, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    name, found = cell_of(tmp_path / "out", "sentiment")
    (tmp_path / "in.txt").write_text("the film was great .\n")
    asked = ("predict", name, "--input", "in.txt", "--out", "out")
    before = forked(*asked, cwd=tmp_path)
    assert before.returncode == 0 and "code" not in before.stderr, before.stderr
    plugin.write_text(plugin.read_text().replace("sentence = self.body(", "sentence = -self.body("))
    after = forked(*asked, cwd=tmp_path)
    assert after.returncode == 0 and after.stdout != before.stdout, after.stderr
    assert "the code of student mine is another now than when run " in after.stderr
