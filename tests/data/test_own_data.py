"""A user's own data: read from any format alike, told what they are, split by content, and known to every command."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.code_versions import outside
from harness.data import loading, own
from harness.data.embedded import generate
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.jobs import examples
from harness.planning.plan import resolve
from harness.planning.planned import Plan
from harness.planning.request import Request
from harness.runs import TeacherRun
from harness.search.driver import workspace_of
from tests.conftest import Harness
from tests.data.test_hostile_data import reads
from tests.data.test_new_source import forget as forget
from tests.training.builders import BASE, a_run, settings

DATA = Path(os.environ.get("HARNESS_DATA_DIR", Path(__file__).parents[2].parent / "shared" / "data"))
pytestmark = pytest.mark.usefixtures("no_figures")
needs_data = pytest.mark.skipif(not (DATA / "vader").is_dir(), reason="no data: set HARNESS_DATA_DIR")

STUDY = ("--study", "objectives_vs_init", "--objectives", "vanilla_kd", "--inits", "random")
QUICK = (*STUDY, "--trials", "1", "--seeds", "1", "--set", "epochs=1", "teacher.epochs=1")
ROWS = [{"text": f"text {n}", "label": ("no", "yes", "so")[n % 3], "id": n} for n in range(60)]


@pytest.fixture(autouse=True)
def forgotten(forget: Callable[[], None]) -> Iterator[None]:
    yield
    own.KNOWN.clear()


def table(path: Path, rows: list[dict[str, Any]], delimiter: str = ",") -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def as_jsonl(path: Path) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return path


def as_json(path: Path) -> Path:
    path.write_text(json.dumps({"version": "1", "data": ROWS}))
    return path


def as_parquet(path: Path) -> Path:
    import datasets

    datasets.disable_progress_bars()
    datasets.Dataset.from_list(ROWS).to_parquet(str(path))
    return path


def as_saved(path: Path) -> Path:
    import datasets

    datasets.DatasetDict(train=datasets.Dataset.from_list(ROWS)).save_to_disk(str(path))
    return path


def as_parts(path: Path) -> Path:
    path.mkdir()
    table(path / "train-00000-of-00002.csv", ROWS[:20])
    table(path / "train-00001-of-00002.csv", ROWS[20:])
    return path


FORMATS: dict[str, Callable[[Path], Path]] = {
    "a.tsv": lambda path: table(path, ROWS, "\t"),
    "a.jsonl": as_jsonl,
    "a.json": as_json,
    "a.parquet": as_parquet,
    "saved": as_saved,
    "parts": as_parts,
}


@pytest.mark.parametrize("name", FORMATS)
def test_equal_examples_are_equal_whatever_the_file(tmp_path: Path, name: str) -> None:
    known, other = reads(table(tmp_path / "b.csv", ROWS)), reads(FORMATS[name](tmp_path / name))
    assert other.task == known.task and known.task.labels == ("no", "so", "yes")
    assert other.source.content(other.task) == known.source.content(known.task)


def test_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    features = datasets.Features(
        {
            "premise": datasets.Value("string"),
            "hypothesis": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["yes", "maybe", "no"]),
        }
    )
    rows = [{"premise": f"a {n}", "hypothesis": f"b {n}", "label": n % 3} for n in range(12)]
    asked = []

    def load_dataset(*words: Any) -> Any:
        asked.append(words)
        parts = {"train": rows[:6], "validation_matched": rows[6:9], "test": [{**row, "label": -1} for row in rows]}
        return datasets.DatasetDict({k: datasets.Dataset.from_list(v, features) for k, v in parts.items()})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    known = reads("hub:someone/entailments:english", "dev=validation_matched")
    assert asked == [("someone/entailments", "english")]
    assert known.task.pair and known.task.labels == ("yes", "maybe", "no")
    train, dev = known.source.splits(known.task)
    assert (train.text_a[1], train.text_b, train.labels[1]) == ("a 1", [f"b {n}" for n in range(6)], 1)
    assert len(dev.text_a) == 3

    def unreachable(*words: Any) -> Any:
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(UserError, match="hub:someone/entailments cannot be read: no network"):
        reads("hub:someone/entailments")


KINDS: dict[str, tuple[list[object], tuple[str, ...], str]] = {
    "names": (["bad", "good", "bad", "fine"], (), "3 classes (bad, fine, good)"),
    "whole numbers": ([2, 10, 1, 2], (), "3 classes (1, 2, 10)"),
    "truth": ([True, False, True, False], (), "2 classes (false, true)"),
    "fractions": ([0.5, 1, 2, -1], (), "a score from -1 to 2"),
    "many whole numbers": (list(range(51)), (), "a score from 0 to 50"),
    "ratings": ([1, 5, 3, 4], ("kind=score",), "a score from 1 to 5"),
    "names that look like numbers": ([1.5, 2.5, 1.5, 2.5], ("kind=classes",), "2 classes (1.5, 2.5)"),
    "no label": (["no", "N/A", "nana"], (), "3 classes (N/A, nana, no), of which N/A reads as if there was no label"),
    "one, perhaps": ([0, 1, 1.0], (), "3 classes (0, 1, 1.0), of which 1, 1.0 differ in case or spelling alone"),
    "one accent": (["x", "\u00e9", "e\u0301"], (), "of which e\u0301, \u00e9 differ in case or spelling alone"),
    "an order": (["bad", "good", "bad", "good"], ("classes=good,bad",), "2 classes (good, bad)"),
}


@pytest.mark.parametrize("case", KINDS)
def test_classes_or_a_score_are_told_from_the_labels(tmp_path: Path, case: str) -> None:
    labels, settings, told = KINDS[case]
    for split, repeat in (("train", 2), ("dev", 1)):
        rows = [{"text": f"{split} {n}", "label": label} for n, label in enumerate(labels * repeat)]
        (tmp_path / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    known = reads(tmp_path, *settings)
    metric = "spearman" if "a score" in told else "accuracy"
    assert f"{told}; " in known.told and known.told.endswith(f"metric {metric}") and known.task.metric == metric


def test_what_is_reported(tmp_path: Path) -> None:
    """dev where there is one; test where there is none; otherwise a part of train. Test beside dev is not read."""
    table(tmp_path / "train.csv", ROWS)
    assert "48 to train on, 12 reported (held out of train)" in reads(tmp_path).told
    table(tmp_path / "test.csv", ROWS[30:])
    told = reads(tmp_path).told
    assert (
        "60 to train on, 30 reported (test, for there is no dev split); 30 of them have a text that is trained" in told
    )
    table(tmp_path / "validation.csv", ROWS[:30])
    (tmp_path / "test.csv").write_text("nothing that could be read")
    assert "30 reported (validation)" in reads(tmp_path).told
    assert "20 reported (odd)" in reads(table(tmp_path / "odd.csv", ROWS[:20]).parent, "dev=odd").told


def test_labels_that_contradict_each_other_are_told(tmp_path: Path) -> None:
    table(tmp_path / "validation.csv", ROWS[:9])
    told = [reads(table(tmp_path / "train.csv", ROWS + more).parent).told for more in (
        [], [ROWS[0] | {"label": "yes"}, ROWS[0] | {"label": "so"}], [ROWS[0] | {"label": "No"}, ROWS[1]],
        [ROWS[number] | {"label": "so"} for number in (0, 1, 2, 3)],
    )]  # fmt: skip
    assert "label" not in told[0] and "case" not in told[0]
    assert "1 of the texts to train on has more than one label" in told[1] and "case" not in told[1]
    assert "4 classes (No, no, so, yes), of which No, no differ in case or spelling alone" in told[2]
    assert "; 1 of the texts to train on has more" in told[2] and "; 3 of the texts to train on have more" in told[3]


def test_data_without_labels_say_what_is_asked(tmp_path: Path) -> None:
    """By the classes or the kind; or by a dev split that has labels, though train has none."""
    bare = [{"text": row["text"]} for row in ROWS]
    place = table(tmp_path / "a.csv", bare)
    for said, message in ((), "no label column.* or none if there is none"), (("label=none",), "no labels to"):
        with pytest.raises(UserError, match=message):
            reads(place, *said)
    known = reads(place, "label=none", "classes=no,yes")
    assert known.task.labels == ("no", "yes") and "2 classes (no, yes), but no labels to train on; 48 to" in known.told
    assert {label for _, _, label in (*known.source.read.train, *known.source.read.dev)} == {None}
    assert reads(place, "label=none", "kind=score").task.labels == ()
    (tmp_path / "split").mkdir()
    table(tmp_path / "split/train.csv", bare[:40])
    table(tmp_path / "split/dev.csv", ROWS[40:])
    known = reads(tmp_path / "split", "label=none")
    assert known.task.labels == ("no", "so", "yes") and {label for _, _, label in known.source.read.train} == {None}
    assert [label for _, _, label in known.source.read.dev] == [row["label"] for row in ROWS[40:]]


def held_out(path: Path, *settings: str) -> tuple[set[str], set[str]]:
    train, dev = reads(path, *settings).source.splits(get_task("mine"))
    return set(train.text_a), set(dev.text_a)


def test_the_held_out_part_is_drawn_by_content(tmp_path: Path) -> None:
    rows = [*ROWS, *ROWS[:20]]  # twenty texts stand twice
    train, dev = held_out(table(tmp_path / "a.csv", rows))
    assert train.isdisjoint(dev) and train | dev == {row["text"] for row in ROWS}
    assert held_out(table(tmp_path / "b.csv", rows[::-1])) == (train, dev), "the order decides nothing"
    assert held_out(tmp_path / "a.csv", "split_seed=1") != (train, dev)
    assert len(held_out(tmp_path / "a.csv", "held_out=0.5")[1]) > 2 * len(dev)
    rare = [{"text": f"text {n}", "label": "often"} for n in range(30)] + [{"text": "rare", "label": "once"}]
    for seed in range(20):
        assert "rare" in held_out(table(tmp_path / "c.csv", rare), f"split_seed={seed}", "held_out=0.9")[0]


def test_groups_are_never_parted(tmp_path: Path) -> None:
    """Neither where dev is held out of train, nor where epochs are chosen on a part of what is left."""
    rows = [{"id": f"{n % 9}_{n}", "text": f"{n % 9} {n}", "label": n % 2} for n in range(90)]
    place = table(tmp_path / "a.csv", rows)
    train, dev = held_out(place, "group=id", "group_until=_")
    group = {text: text.split()[0] for text in train | dev}
    assert {group[text] for text in train}.isdisjoint(group[text] for text in dev) and dev
    known = own.KNOWN["mine"]
    texts, data = known.source.splits(known.task)[0].text_a, known.source.content(known.task)
    run = a_run(TeacherRun, task="mine", data=data, settings=settings(protocol="held_out"), teacher=BASE)
    index, held = examples._indices(run, known.task, "", len(texts), None)
    assert held is not None and len(held) > 1
    assert {group[texts[i]] for i in index.tolist()}.isdisjoint(group[texts[i]] for i in held.tolist())
    assert reads(place, "group=id").source.content(known.task) != data


def test_a_yaml_file_says_it_for_good(tmp_path: Path) -> None:
    rows = [{"body": f"text {n}", "stars": n % 5} for n in range(40)]
    place = table(tmp_path / "reviews.csv", rows)
    said = "text: body\nlabel: stars\nkind: score\nmetric: pearsonr\ntitle: Film reviews\n"
    (tmp_path / "mine.yaml").write_text(said)
    known = reads(place)
    assert (known.task.label, known.task.metric, known.task.labels) == ("Film reviews", "pearson", ())
    assert reads(place, "metric=kendall").task.metric == "kendall", "--set goes before it"
    (tmp_path / "elsewhere.yaml").write_text(f"path: reviews.csv\n{said}")
    assert reads(tmp_path / "elsewhere.yaml").source.content(known.task) == known.source.content(known.task)
    (tmp_path / "mine.yaml").write_text("text: body\nlabel: stars\nclasses: [0, 1, 2, 3, 4]\n")
    assert reads(place).task.labels == ("0", "1", "2", "3", "4")


PLUGIN = '''
from harness.data.own import task


@task("mine", metric="macro_f1", text="body", classes=["no", "yes"])
def mine():
    """Whether it is so."""
    return {place}
'''
GIVEN = '{"train": [{"body": f"text {n}", "label": ("no", "yes")[n % 2]} for n in range(40)]}'


def test_a_plugin_says_it_in_a_few_lines(tmp_path: Path, call: Harness) -> None:
    """By rows, or by a path beside it: the same data, and the code that gives them is part of what a run is."""
    rows = [{"body": f"text {n}", "label": ("no", "yes")[n % 2]} for n in range(40)]
    table(tmp_path / "rows.csv", rows)
    contents = set()
    for name, place in (("a.py", GIVEN), ("b.py", '"rows.csv"')):
        (tmp_path / name).write_text(PLUGIN.replace("{place}", place))
        own.TASKS._found.pop("mine", None)
        asked = {"tasks": ["mine"], "objectives": ["vanilla_kd"], "plugins": [str(tmp_path / name)]}
        plan = resolve(Request("objectives_vs_init", **asked))  # type: ignore[arg-type]
        contents |= {cell.run.data_of["mine"] for cell in plan.cells}
        assert plan.cells[0].metric == "macro_f1" and outside(plan.cells[0].run).keys() == {"task mine"}
        recalled = own.Known.from_json("mine", json.loads(json.dumps(plan.declared["mine"])))
        assert recalled.task == get_task("mine") and recalled.source.content(recalled.task) in contents
    assert len(contents) == 1
    listed = call("list", "tasks", "--plugin", tmp_path / "b.py").stdout.splitlines()
    assert ["mine", "Whether it is so."] in [line.split(None, 1) for line in listed]
    refused = call("plan", *QUICK, "--tasks", f"mine={tmp_path / 'rows.csv'}")
    assert refused.returncode == 2 and "task mine already exists" in refused.stderr


OF_MINE = """
from harness.contracts import Profile, Row, Study
from harness.registry import study

study(Study("of_mine", "Title", "Question?", "one_stage", (Row("kd", "vanilla_kd", "KD"),), ("transformer",),
            {"quick": Profile("embedded", ("mine",), ("random",), trials=1, seeds=1)}))
"""


def test_what_the_profile_of_a_plugins_study_names_is_told_and_set_like_what_is_typed(
    tmp_path: Path, forked: Harness
) -> None:
    (tmp_path / "both.py").write_text(PLUGIN.replace("{place}", GIVEN) + OF_MINE)
    planned = forked("plan", "--study", "of_mine", "--plugin", "both.py", "--set", "mine.metric=accuracy", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "task mine: 2 classes (no, yes)" in planned.stdout and "metric accuracy" in planned.stdout


def test_from_the_command_to_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Harness, forked: Harness
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [text for text, *_ in generate("sentiment", 160, 1)[0]]
    words = [{"words": text, "mark": f"{len(text)}.5"} for text in texts]
    table(tmp_path / "a.csv", words)
    given = (*QUICK, "mine.text=words", "mine.label=mark", "--tasks", "mine=a.csv")
    planned = call("plan", *given)
    assert planned.returncode == 0 and "task mine: a score from " in planned.stdout, planned.stderr
    done = call("run", *given, "--workers", "1")
    assert done.returncode == 0 and "harness: task mine: a score from " in done.stderr, done.stderr
    table(tmp_path / "b.tsv", words, "\t")
    again = call("run", *[word.replace("a.csv", "b.tsv") for word in given], "--workers", "1")
    assert "\n0 runs trained" in again.stdout, "what matters are the examples"
    submitted = call("submit", *STUDY[:2], "--row", "vanilla_kd", "--to", "there")
    assert submitted.returncode == 2 and "of your own data has no test split" in submitted.stderr, submitted.stderr
    for name in ("a.csv", "b.tsv"):
        (tmp_path / name).unlink()
    report = forked("report", *STUDY[:2], "--format", "markdown", cwd=tmp_path)  # nothing is known there but the plan
    assert "mine (spearman)" in report.stdout and "32 reported (held out of train)" in report.stdout, report.stderr
    status = call("status", *STUDY[:2])
    assert "cells: 1 of 1 complete" in status.stdout


def test_data_that_change_after_the_plan_are_refused(tmp_path: Path) -> None:
    place = table(tmp_path / "a.csv", ROWS)
    request = Request("objectives_vs_init", tasks=[f"mine={place}"], objectives=["vanilla_kd"], inits=["random"])
    plan = Plan.from_json(json.loads(json.dumps(resolve(request).to_json())))
    run = plan.cells[0].run
    workspace = workspace_of(plan, tmp_path / "results", "run", run)
    own.recall(workspace.declared)  # as a worker does
    task = get_task("mine")
    examples._check_content(task, workspace.source, run.data_of["mine"])
    table(place, [*ROWS, {"text": "more", "label": "no", "id": 60}])
    own.recall(workspace.declared)
    with pytest.raises(UserError, match="the data of mine .* changed since the study was planned"):
        examples._check_content(task, workspace.source, run.data_of["mine"])


def test_a_plugin_that_draws_examples_anew_each_time_is_told_so(tmp_path: Path, forked: Harness) -> None:
    """To give the command again would not help."""
    given = GIVEN.replace('"text {n}"', '"text {n} {time.time()}"')
    (tmp_path / "plugin.py").write_text("import time\n" + PLUGIN.format(place=given))
    words = ("--tasks", "mine", "--plugin", "plugin.py", "--objectives", "vanilla_kd", "--inits", "random")
    ended = forked("run", "--study", "objectives_vs_init", *words, "--set", "epochs=1", cwd=tmp_path)
    assert ended.returncode == 2 and "in embedded" not in ended.stderr, ended.stderr
    assert "the data of mine changed" in ended.stderr and "it must use a fixed seed" in ended.stderr, ended.stderr


def test_nodes_of_a_cluster_get_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    from harness.executors import ray_cluster, ray_node
    from harness.executors.ray_depot import Depot
    from tests.executors.test_ray_node import Near

    monkeypatch.chdir(tmp_path)
    table(tmp_path / "a.csv", ROWS)
    plan = resolve(Request("objectives_vs_init", tasks=["mine=a.csv"], objectives=["vanilla_kd"], inits=["random"]))
    run = plan.cells[0].run
    workspace = ray_cluster._absolute(workspace_of(plan, tmp_path / "out", "run", run))
    parts = ray_cluster._parts(run, workspace)
    assert str(tmp_path / "a.csv") in parts
    monkeypatch.setattr(ray_node, "ask", lambda answer: answer)
    monkeypatch.setattr(ray_node, "folder_of", lambda session: tmp_path / "nodes" / session)
    session = ray_node.Session(Near(Depot(str(tmp_path / "out"))), "a", "", None)
    node = ray_node.Node(session, workspace, "run")
    here = node.fetch_all([part for part in parts if part.endswith("a.csv")])
    (tmp_path / "a.csv").unlink()
    own.recall(here.declared)
    assert loading.content(get_task("mine"), here.source) == run.data_of["mine"]


@needs_data
@pytest.mark.parametrize(
    ("place", "settings", "told"),
    [
        ("reuters_r8", (),
            "8 classes (acq, crude, earn, grain, interest, ...); 5,485 to train on, 2,189 reported (test,"),
        ("newsgroups", (), "20 classes (alt.atheism, comp.graphics, "),
        (
            "vader/movieReviewSnippets_GroundTruth.txt", ("columns=id,score,text",),
            "a score from -3.875 to 3.94118; 8,605 to train on, 2,000 reported (held out of train)",
        ),
        (
            "vader/nytEditorialSnippets_GroundTruth.txt",
            ("columns=id,score,text", "group=id", "group_until=_"),
            "4,152 to train on, 1,038 reported (held out of train, alike in id together)",
        ),
    ],
)  # fmt: skip
def test_data_that_nobody_prepared(place: str, settings: tuple[str, ...], told: str) -> None:
    known = reads(DATA / place, *settings)
    assert told in known.told
    assert len(set(known.source.splits(known.task)[0].labels.tolist())) > 1
