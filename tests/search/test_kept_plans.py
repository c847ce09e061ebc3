"""A request is not a study: each has a folder of its own, and nothing that was planned is lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness import registry
from harness.errors import UserError
from harness.ledger import Ledger
from harness.planning import naming
from harness.planning.filed import every, keep, only, read
from harness.planning.naming import flags_named, flags_of, folder_of
from harness.planning.plan import resolve
from harness.planning.spelling import ambiguous
from harness.planning.together import recorded
from tests.conftest import Harness
from tests.search.builders import asked, kept

pytestmark = pytest.mark.usefixtures("no_figures")

STUDY = "objectives_vs_init"
SHORT = ("--study", STUDY, "--set", "train_examples=32", "epochs=1", "--trials", "1", "--seeds", "1")
KIND = "seeds=1--trials=1--epochs=1--train_examples=32"


def name(**more: object) -> str:
    return str(folder_of(Path("out"), asked(**more)).relative_to(f"out/{STUDY}"))


# ---------------------------------------------------------------- names


def test_a_folder_is_named_after_what_the_profile_does_not_say(tmp_path: Path) -> None:
    assert name() == name(seeds=3, teacher="embedded", tasks=["entailment", "acceptability"]) == "quick"
    assert name(tasks=["entailment"]) == "quick/tasks=entailment"
    assert name(objectives=["hid_cls", "att_kl+val_kl"], inits=["last"]) == (
        "quick/objectives=att_kl+val_kl,hid_cls--inits=last"
    )
    assert name(seeds=5, overrides=["epochs=2"], profile="small") == "small/seeds=5--epochs=2"
    assert name(overrides=["epochs=2"], tasks=["entailment"]) == "quick/epochs=2/tasks=entailment"
    (tmp_path / "bert").mkdir()
    assert name(teacher=str(tmp_path / "bert")) == "quick/teacher=bert", "a folder may be moved"
    (tmp_path / "embedded").mkdir()
    called = name(teacher=str(tmp_path / "embedded"))
    assert called.startswith("quick/teacher=.-embedded--"), "the name alone is the profile's teacher"
    assert flags_of(asked(teacher=str(tmp_path / "embedded"))) == "--teacher ./embedded"
    assert name(data="somewhere") == "quick", "where data are is not what is asked"


def test_a_folder_that_is_called_as_something_else_shares_no_place_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("minilm", "pydoc", "bert", "sentiment"):
        (tmp_path / folder).mkdir()
    for flag, word in (("teacher", "minilm"), ("corpus", "pydoc"), ("teacher", "minilm+bert")):
        other = word.replace("minilm", "./minilm").replace("pydoc", "./pydoc")
        assert name(**{flag: word})== f"quick/{flag}={word}", "the name, as before"
        assert name(**{flag: other}) != name(**{flag: word})
        assert flags_of(asked(**{flag: other})) == f"--{flag} {other}"
        place = str(tmp_path / word)
        assert "+" in word or name(**{flag: place}) == name(**{flag: other})
    assert name(teacher=["sentiment=./minilm"]) != name(teacher=["sentiment=minilm"])
    told = [*ambiguous(asked(teacher="bert+minilm", corpus="pydoc", tasks=["sentiment", "entailment"]))]
    assert told[0] == (
        "--teacher minilm is a name and no path: the folder that is called so here is --teacher ./minilm"
    )
    assert [words.split()[0] for words in told] == ["--teacher", "--corpus", "--tasks"]
    assert not [*ambiguous(asked(teacher="./minilm", corpus="./pydoc"))]


def test_one_number_is_one_folder_however_it_is_spelt(tmp_path: Path) -> None:
    for one, other in (
        ("learning_rate=5e-4", "learning_rate=0.0005"),
        ("teacher.learning_rate=5E-5", "teacher.learning_rate=0.00005"),
        ("vanilla_kd.temperature=4.0", "vanilla_kd.temperature=4"),
        ("student.layers=2.0", "student.layers=2"),
        ("epochs=2.0", "epochs=02"),
    ):
        assert name(overrides=[one]) == name(overrides=[other]), one
    assert name(overrides=["learning_rate=5e-4"]) == "quick/learning_rate=0.0005"
    searched = [name(search=[f"learning_rate={values}"]) for values in ("5e-4,1e-3", "0.0005,0.001", "5e-4..1e-3")]
    assert searched[0] == searched[1] != searched[2]
    assert name(overrides=["mine.classes=1.0"]) != name(overrides=["mine.classes=1"]), "of own data, a word"


@pytest.mark.parametrize("typed", ["5e-4", "0.00050"])
def test_a_folder_whose_number_was_spelt_otherwise_is_found_and_kept(tmp_path: Path, typed: str) -> None:
    kind = {"objectives": ["vanilla_kd"], "inits": ["random"], "tasks": ["entailment"]}
    plan = kept(tmp_path, overrides=["learning_rate=0.0005"], **kind)
    base, narrow = tmp_path / STUDY / "quick", plan.variant.partition("/")[2]
    (base / "learning_rate=0.0005").rename(base / f"learning_rate={typed}")  # as earlier versions called it
    path = base / f"learning_rate={typed}" / narrow / "plan.json"
    told = {**json.loads(path.read_text()), "flags": f"--set learning_rate={typed}", "variant": f"x={typed}/{narrow}"}
    path.write_text(json.dumps({name: part for name, part in told.items() if name != "sha256"}))
    assert recorded(tmp_path, asked(overrides=["learning_rate=5e-04"], **kind)).cells == plan.cells
    kept(tmp_path, overrides=["learning_rate=0.0005"], **kind)
    kept(tmp_path, overrides=["learning_rate=0.0005"], **{**kind, "tasks": ["acceptability"]})
    assert [path.name for path in base.iterdir()] == [f"learning_rate={typed}"]
    tasks = recorded(tmp_path, asked()).tasks
    assert tasks == ["acceptability", "entailment"], "of the only kind"


def test_a_kind_is_told_as_it_is_typed() -> None:
    teachers = ["sentiment=minilm", "entailment=embedded"]
    said = "--teacher entailment=embedded sentiment=minilm --seeds 2 --set epochs=2"
    assert flags_of(asked(teacher=teachers, seeds=2, overrides=["epochs=2"])) == said
    assert flags_named("teacher=entailment=embedded,sentiment=minilm--seeds=2--epochs=2") == said
    assert flags_named("t.classes=a,b") == "--set t.classes=a,b"
    assert flags_named("seeds=1--t.de--a1d881") == "" == flags_of(asked()), "cut, or none"


def test_no_two_requests_share_a_folder_and_every_name_is_one() -> None:
    assert name(teacher="bert--seeds=2") != name(teacher="bert", seeds=2)
    strange = ["0.5*att_kl+val_kl", "0.5-att_kl+val_kl", "0.5/att_kl+val_kl", "é" * 300, "a" * 300, "a" * 301]
    names = [name(objectives=[each]) for each in strange]
    assert len(set(names)) == len(strange)
    assert all(len(each.encode()) < 140 and each.count("/") == 1 for each in names)


# ---------------------------------------------------------------- through the command line


def test_a_narrowed_or_extended_study_keeps_the_table_of_the_whole(call: Harness, tmp_path: Path) -> None:
    out, two = tmp_path / "out", ("--inits", "random", "last", "--tasks", "entailment")
    objectives = ("vanilla_kd", "hid_cls")
    narrow = ("--objectives", *objectives, *two)
    whole = call("run", *SHORT, *narrow, "--out", out)
    assert whole.returncode == 0, whole.stderr
    folder = out / STUDY / "quick" / KIND / "objectives=hid_cls,vanilla_kd--inits=last,random--tasks=entailment"
    before = (folder / "table.json").read_bytes()
    for fewer in (("--objectives", "hid_cls", *two), ("--objectives", *objectives, "cosine", *two)):
        process = call("run", *SHORT, *fewer, "--out", out)
        assert process.returncode == 0 and (folder / "table.json").read_bytes() == before, process.stderr
    assert len(list(folder.parent.glob("*/table.html"))) == 3

    def rows(*words: object) -> list[tuple[str, str]]:
        process = call("report", "--study", STUDY, *words, "--format", "json", "--out", out)
        assert process.returncode == 0, process.stderr
        entries = json.loads(process.stdout)["entries"]
        return sorted({(entry["row"], entry["init"]) for entry in entries if entry["init"]})

    labels = ("Cosine SRA", "Hid-CLS", "Vanilla KD")
    assert rows() == [(label, init) for label in labels for init in ("last", "random")], "of all together"
    assert rows("--objectives", "cosine") == [("Cosine SRA", "last"), ("Cosine SRA", "random")]
    assert rows("--inits", "last", "--objectives", "hid_cls", "cosine") == [(x, "last") for x in labels[:2]]
    assert len(rows(*SHORT[2:], *narrow)) == 4, "by its own flags"
    refused = call("report", "--study", STUDY, "--objectives", "hid_sec", "--out", out)
    assert refused.returncode == 2 and "did you mean hid_cls" in refused.stderr
    for word, path in (("whole", folder), ("fewer", next(folder.parent.glob("objectives=hid_cls--*")))):
        cells = [cell["id"] for cell in json.loads((path / "plan.json").read_text())["cells"]]
        assert all(call("show", cell, "--out", out).returncode == 0 for cell in cells), word
    assert "6 of 6 complete" in call("status", "--study", STUDY, "--out", out).stdout


STUDY_FILE = """
from harness.contracts import Batch, Outputs, Profile, Row, Signal, Study
from harness.registry import objective, study

@objective("halved", needs={Signal.LOGITS}, stage="prediction")
def halved(student: Outputs, teacher: Outputs, batch: Batch):
    return (student.logits - teacher.logits).square().mean() / 2

study(Study(name="halves", title="Halves", question="Is half enough?", procedure="one_stage",
    rows=(Row("halved", "halved", "Halved"),), students=("transformer",),
    profiles={"quick": Profile("embedded", ("sentiment",), ("every",), 1, 1,
        settings={"train_examples": 32, "epochs": 1, "max_length": 16, "transformer.layers": 1})}))
"""


@pytest.fixture
def forget() -> Callable[[], None]:
    """Forget the study of the plugin, as another process has never heard of it."""

    def forgotten() -> None:
        for known in registry.ALL.values():
            for plugin in [p for p, (_, origin) in known._found.items() if Path(origin).name == "halves.py"]:
                del known._found[plugin]
        registry._loaded.difference_update({path for path in registry._loaded if path.endswith("halves.py")})

    return forgotten


def test_a_plugins_study_is_found_again_and_a_folder_may_be_moved(
    call: Harness, tmp_path: Path, forget: Callable[[], None]
) -> None:
    (project := tmp_path / "project").mkdir()
    (project / "halves.py").write_text(STUDY_FILE)
    study = ("--study", "halves")
    process = call("run", *study, "--plugin", project / "halves.py", "--out", project / "results")
    assert process.returncode == 0 and "2 runs trained" not in process.stderr, process.stderr
    plan = (project / "results" / "halves" / "quick" / "plan.json").read_text()
    assert str(tmp_path) not in plan and "{results}/../halves.py" in plan
    forget()
    moved = tmp_path / "elsewhere" / "mine"
    moved.parent.mkdir()
    project.rename(moved)
    table = call("report", *study, "--out", moved / "results")
    assert table.returncode == 0 and "Halved" in table.stdout, table.stderr
    forget()
    assert "1 of 1 complete" in call("status", *study, "--out", moved / "results").stdout
    forget()
    process = call("run", *study, "--plugin", moved / "halves.py", "--out", moved / "results")
    assert process.returncode == 0 and "0 runs trained" in process.stdout, process.stderr
    forget()
    submitted = call("submit", *study, "--row", "other", "--to", tmp_path / "to", "--out", moved / "results")
    assert "unknown row of study halves" in submitted.stderr
    forget()
    (moved / "halves.py").rename(moved / "aside.py")
    cell = json.loads(plan)["cells"][0]["id"]
    assert call("show", cell, "--out", moved / "results").returncode == 0, "what is not needed is not missed"
    lost = call("report", *study, "--out", moved / "results")
    assert lost.returncode == 2 and "--plugin FILE says where" in lost.stderr
    shutil.copy(moved / "aside.py", tmp_path / "halves.py")
    given = call("report", *study, "--plugin", tmp_path / "halves.py", "--out", moved / "results")
    assert given.returncode == 0 and "Halved" in given.stdout, given.stderr
    forget()


def test_a_profile_or_kind_that_is_there_is_named(
    call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert call("run", *SHORT, "--objectives", "vanilla_kd", "--inits", "last", "--tasks", "entailment", "--out", out)
    report = ("report", "--study", STUDY, "--out", out)
    both = call(*report).stdout
    assert both == call("report", "--out", out).stdout == call("report", "--out", out, "--profile", "quick").stdout
    assert call("status", "--out", out).stdout.startswith(f"study {STUDY}, profile quick")
    other = call("report", "--out", out, "--profile", "small")
    assert other.returncode == 2 and f"holds results of {STUDY} (profile quick): none of profile small" in other.stderr
    spaced = shutil.copytree(out, tmp_path / "of a paper")
    for words, empty in ((("report",), tmp_path / "not here"), (("report", "--study", "matrix_heads"), spaced)):
        other = call(*words, "--out", empty)
        assert other.returncode == 2 and "no results" in other.stderr and "harness run --study" in other.stderr
        assert f" --out '{empty}'" in other.stderr  # as a shell takes it
    other = call(*report, "--profile", "small")
    assert other.returncode == 2 and "but of quick: give --profile quick" in other.stderr
    other = call(*report, "--seeds", "7")
    assert other.returncode == 2 and "with --seeds 7" in other.stderr
    assert "but with --seeds 1 --trials 1 --set epochs=1 train_examples=32: give these" in other.stderr
    for flags in (("--seeds", "3"), ("--trials", "2")):  # what the profile has is no wildcard for another number
        other = call(*report, *flags)
        assert other.returncode == 2 and "as it stands in" in other.stderr and "but with --seeds 1" in other.stderr
    assert call(*report, "--teacher", "embedded").stdout == both
    # As if the profile had had another number when these were made, and has had theirs since.
    monkeypatch.setattr(naming, "kinds", lambda base: {path.name: "--seeds 3 --trials 1" for path in base.glob("*=*")})
    assert call(*report, "--seeds", "3").stdout == both


def test_a_narrowed_table_tells_nothing_of_the_data_of_other_tasks(call: Harness, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in ("films", "songs"):
        rows = [f"a {name[:-1]} of {number} {'long ' * 60}words,{number % 2}" for number in range(60)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    tasks = [f"{name}={tmp_path / name}.csv" for name in ("films", "songs")]
    kept(Ledger(out, create=True).out, objectives=["vanilla_kd"], inits=["random"], tasks=tasks)
    both, one = (call("report", "--study", STUDY, "--out", out, *words).stdout for words in ((), ("--tasks", "songs")))
    assert all(f"task {name}: 2 classes" in both and f"texts of {name}" in both for name in ("films", "songs"))
    assert "task songs: 2 classes" in one and "texts of songs" in one and "films" not in one


def test_kinds_are_named_by_their_flags_and_found_by_what_they_have(tmp_path: Path) -> None:
    out, data = tmp_path / "out", tmp_path / "semi.csv"
    data.write_text("\n".join(["text;label", *(f"film {number};{number % 2}" for number in range(60))]) + "\n")
    one, more = {"objectives": ["vanilla_kd"], "inits": ["random"]}, ["semi.delimiter=semicolon", "semi.title=My films"]
    kept(out, **one, tasks=["sentiment"])
    kept(out, **one, tasks=["entailment"], seeds=1, trials=1)
    kept(out, **one, tasks=[f"semi={data}"], seeds=1, trials=1, overrides=more)
    assert recorded(out, asked(tasks=["semi"])).tasks == ["semi"], "of the only kind that has it"
    assert recorded(out, asked(tasks=["entailment"])).cells[0].seeds == 1
    assert recorded(out, asked(inits=["random"])).tasks == ["sentiment"], "as the profile has it, where that has all"
    cut = next((out / STUDY / "quick").glob("*semi.delimiter*"))
    flags = "--seeds 1 --trials 1 --set semi.delimiter=semicolon 'semi.title=My films'"
    others = "but with none of these flags, as the profile has it; and with --seeds 1 --trials 1; and with"
    with pytest.raises(UserError, match=f"with --seeds 7 in .*, {others} {flags}: give those of one$"):
        recorded(out, asked(seeds=7))
    for path in (out / STUDY / "quick").glob("*/*/plan.json"):  # as earlier versions wrote them
        told = {name: part for name, part in json.loads(path.read_text()).items() if name not in ("flags", "sha256")}
        path.write_text(json.dumps(told))
    with pytest.raises(UserError, match=f"{others} the flags that made {STUDY}/quick/{cut.name}: give those of one$"):
        recorded(out, asked(seeds=7))
    with pytest.raises(UserError, match="as the profile has it; and with"):
        recorded(out, asked(seeds=7, tasks=["semi"]))


# ---------------------------------------------------------------- what is kept


def test_what_a_plan_replaces_is_set_aside(tmp_path: Path) -> None:
    out, tasks = tmp_path / "out", ["entailment"]
    first = kept(out, tasks=tasks, objectives=["vanilla_kd"])
    path = folder_of(out, asked(tasks=tasks, objectives=["vanilla_kd"])) / "plan.json"
    other = resolve(asked(tasks=["acceptability"], objectives=["vanilla_kd"]))
    for _ in range(2):
        keep(out, replace(other, variant=first.variant))
    plans, unread = every(out)
    assert not unread and [plan.tasks for plan in plans] == [["entailment"], ["acceptability"]]
    assert plans[0].cells == first.cells and read(path, out).cells == other.cells
    keep(out, replace(resolve(asked(objectives=["vanilla_kd"])), variant=first.variant))
    assert len(every(out)[0]) == 2, "a plan that has all cells of the one before replaces it"


def test_a_damaged_plan_is_replaced_and_not_set_aside(tmp_path: Path) -> None:
    """Beside the new one it would be told for ever, though the command that is to write it again was given."""
    plan = kept(tmp_path, tasks=["entailment"], objectives=["vanilla_kd"])
    path = folder_of(tmp_path, plan) / "plan.json"
    path.write_text(path.read_text().replace(plan.cells[0].id, "0" * 16))
    keep(tmp_path, plan)
    assert [found.cells for found in every(tmp_path)[0]] == [plan.cells] and not every(tmp_path)[1]


def test_an_older_folder_is_read_as_it_was(tmp_path: Path) -> None:
    """Until now any request was written to STUDY/PROFILE, with absolute paths."""
    out, plan = tmp_path / "out", resolve(asked(tasks=["entailment"], seeds=2))
    (out / STUDY / "quick").mkdir(parents=True)
    told = {name: part for name, part in plan.to_json().items() if name != "variant"}
    (out / STUDY / "quick" / "plan.json").write_text(json.dumps(told))
    assert json.loads(json.dumps(recorded(out, asked()).to_json())) == json.loads(json.dumps(told))
    assert {cell.init for cell in recorded(out, asked(inits=["last"])).cells} == {"last"}


def test_files_are_told_by_where_they_lie_from_the_results(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("here/train", "here/embedded", "far"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copytree(checkpoint, tmp_path / "here/model")
    monkeypatch.chdir(tmp_path / "here")
    for place in ("here/notes.txt", "far/notes.txt"):
        (tmp_path / place).write_text("A sentence is here.\n")
    plan = resolve(asked(teacher="embedded:train", objectives=["vanilla_kd"], inits=["last"]))
    files = {"a": os.path.abspath("notes.txt"), "b": str(tmp_path / "far/notes.txt")}
    models = {"huggingface 1": ["huggingface", "model"], "embedded 2": ["embedded", "train"]}
    keep(Path("results"), replace(plan, corpus="notes.txt", files=files, checkpoints=models, variant=""))
    told = json.loads(Path(f"results/{STUDY}/quick/plan.json").read_text())
    assert (told["source"], told["argument"]) == ("embedded", "train"), "names, though folders are called so"
    assert told["corpus"] == told["files"]["a"] == "{results}/../notes.txt"
    assert told["files"]["b"] == files["b"], "what lies elsewhere stays there"
    assert [argument for _, argument in told["checkpoints"].values()] == ["{results}/../model", "train"]
    monkeypatch.chdir("/")
    found = read(tmp_path / f"here/results/{STUDY}/quick/plan.json", tmp_path / "here/results")
    assert found.files == files and found.corpus == files["a"] and found.argument == "train"


def test_the_only_study_is_found_before_its_first_run_is_recorded(tmp_path: Path) -> None:
    Ledger(tmp_path, create=True)
    kept(tmp_path, tasks=["entailment"], objectives=["vanilla_kd"])
    assert not (tmp_path / "ledger").exists()
    assert only(tmp_path, None, None) == (STUDY, "quick")


def test_a_damaged_plan_beside_others_is_told(tmp_path: Path) -> None:
    out = tmp_path / "out"
    kept(out, tasks=["entailment"], objectives=["vanilla_kd"])
    folder = folder_of(out, asked(tasks=["entailment"], objectives=["cosine"]))
    folder.mkdir()
    (folder / "plan.json").write_text("{")
    assert len(every(out)[1]) == 1
    with pytest.raises(UserError, match=r"cosine.*is damaged"):
        recorded(out, asked())


def test_more_trials_than_settings_are_told(call: Harness, tmp_path: Path) -> None:
    words = ("plan", "--study", STUDY, "--objectives", "cosine", "--out", tmp_path / "out")
    told = call(*words, "--trials", "7").stdout
    assert "--trials 7 is more than there are settings to try: the grid of learning_rate has 2 settings" in told
    assert "more than there are" not in call(*words, "--trials", "2").stdout
    fixed = call(*words, "--trials", "2", "--set", "learning_rate=1e-3").stdout
    assert "--trials 2 is more than there are settings to try: none is searched" in fixed
