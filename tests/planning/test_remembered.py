"""A plan is not worked out twice, and whatever it rests on is looked at again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from harness import code_versions
from harness.contracts import Hyperparameter, ModelRow, Profile, Study
from harness.modeling import glove
from harness.planning import filed, remembered
from harness.planning import plan as planning
from harness.planning.planned import Plan
from harness.planning.request import Request
from harness.planning.together import recorded
from harness.procedures.base import procedure
from harness.registry import OBJECTIVES, PROCEDURES, STUDIES, load_file, study
from harness.search.proposals import propose
from tests import launching
from tests.results import done
from tests.search.builders import cell, plan, student_run

OWN = "text,label\n" + "".join(f"word{n} here,{n % 2}\n" for n in range(40))


@pytest.fixture
def resolved(tmp_path: Path, checkpoint: Path, glue: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    """Plans of copies of a teacher and of data that a test may change, in tmp_path."""
    shutil.copytree(checkpoint, tmp_path / "teacher")
    shutil.copytree(glue, tmp_path / "glue")
    (tmp_path / "own.csv").write_text(OWN)
    monkeypatch.chdir(tmp_path)

    def plan(**asked: object) -> Plan:
        usual = {"teacher": "teacher", "data": "glue", "tasks": ["sst2"], "objectives": ["vanilla_kd"]}
        given = {**usual, "inits": ["every"], "overrides": ["max_length=16"], **asked}
        return planning.resolve(Request("objectives_vs_init", **given), cache=Path("cache"))  # type: ignore[arg-type]

    return plan


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A note of every plan that was worked out."""
    found: list[str] = []
    work_out = planning._worked_out

    def noting(request: Request, asked: object) -> Plan:
        found.append(request.study)
        return work_out(request, asked)  # type: ignore[arg-type]

    monkeypatch.setattr(planning, "_worked_out", noting)
    return found


def test_a_plan_is_worked_out_once(resolved: Callable[..., Plan], made: list[str]) -> None:
    first = resolved()
    assert resolved().to_json() == first.to_json() and len(made) == 1
    assert resolved(inits=["last"]).cells != first.cells and len(made) == 2


def test_its_settings_stay_in_the_order_that_trials_go_by(resolved: Callable[..., Plan], made: list[str]) -> None:
    asked = {"search": ["weight_decay=0,0.1", "learning_rate=1e-3,5e-4", "batch_size=16,32"], "trials": 3}
    first, again = resolved(**asked), resolved(**asked)
    assert len(made) == 1 and [*again.cells[0].space] == ["learning_rate", "weight_decay", "batch_size"]
    assert json.dumps(again.to_json()) == json.dumps(first.to_json())
    trials = [[propose("", plan.cells[0].space, 3, number, []) for number in range(3)] for plan in (first, again)]
    assert trials[0] == trials[1]


def _add(path: str, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def _flip(path: str) -> None:
    """Another byte at the end, where only the content tells."""
    raw = bytearray(Path(path).read_bytes())
    raw[-1] ^= 1
    Path(path).write_bytes(raw)


CHANGES: dict[str, Callable[[], object]] = {
    "weights of the teacher": lambda: _flip("teacher/model.safetensors"),
    "its tokenizer": lambda: _add("teacher/vocab.txt", "\nmore"),
    "a file more in its folder": lambda: Path("teacher/added.json").write_text("{}"),
    "training data": lambda: _add("glue/SST-2/train.tsv", "a good one\t1\n"),
    "dev data": lambda: _add("glue/SST-2/dev.tsv", "a good one\t1\n"),
    "other data beside": lambda: Path("glue/SST-2-bin").mkdir(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_it_rests_on_is_looked_at(change: str, resolved: Callable[..., Plan], made: list[str]) -> None:
    resolved()
    CHANGES[change]()
    resolved()
    assert len(made) == 2


@pytest.mark.parametrize("name", ["teacher", "checkpoint"])
def test_shapes_that_are_measured_are_looked_at(
    name: str, tmp_path: Path, checkpoint: Path, made: list[str], as_before: None
) -> None:
    for folder in ("teacher", "checkpoint"):
        shutil.copytree(checkpoint, tmp_path / folder)
    rows = (ModelRow("mine", "Mine", checkpoint=str(tmp_path / "checkpoint")), ModelRow("cbow", "CBOW", student="cbow"))
    profiles = {"quick": Profile(str(tmp_path / "teacher"), ("sst2",), ("random",), 1, 1)}
    study(Study("shapes", "Shapes", "How large?", "speed", rows, ("cbow",), profiles))

    def sizes() -> set[int]:
        (cell,) = planning.resolve(Request("shapes", objectives=["cbow"]), cache=tmp_path / "cache").cells
        return {shape["vocab_size"] for shape in (cell.run.configuration, cell.run.reference)}

    before = sizes()
    assert len(before) == 1 and sizes() == before and len(made) == 1
    told = json.loads((tmp_path / name / "config.json").read_text())
    (tmp_path / name / "config.json").write_text(json.dumps({**told, "vocab_size": 999}))
    assert sizes() == before | {999} and len(made) == 2


@pytest.mark.parametrize(("file", "asked"), [
    ("own.csv", {"tasks": ["mine=own.csv"], "data": None}),
    ("own.yaml", {"tasks": ["own=own.csv"], "data": None}),
])  # fmt: skip
def test_data_of_ones_own(file: str, asked: dict[str, object], resolved: Callable[..., Plan], made: list[str]) -> None:
    resolved(**asked)
    resolved(**asked)
    assert len(made) == 1
    _add(file, "more words,1\n" if file.endswith("csv") else "title: Mine\n")
    assert resolved(**asked).declared and len(made) == 2


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_edited_while_a_plan_is_made_is_planned_again(
    change: str, resolved: Callable[..., Plan], made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be remembered as the plan of what no longer is there, and every run of it be refused."""
    work_out = planning._worked_out

    def edited_meanwhile(*given: object) -> Plan:
        plan = work_out(*given)  # type: ignore[arg-type]
        if len(made) == 1:
            CHANGES[change]()
        return plan

    monkeypatch.setattr(planning, "_worked_out", edited_meanwhile)
    resolved()
    resolved()
    assert len(made) == 2
    resolved()
    assert len(made) == 2


def test_code(resolved: Callable[..., Plan], made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = tmp_path / "ours.py"
    ours.write_text("one = 1\n")
    found = [*code_versions._ours(), ours]
    monkeypatch.setattr(code_versions, "own_code", lambda: code_versions._hashed(found))
    resolved()
    code_versions._content.cache_clear()  # as another process has it
    ours.write_text("one = 2\n")
    resolved()
    assert len(made) == 2
    monkeypatch.setattr(code_versions, "_distributions", lambda: ["torch-0.dist-info"])
    resolved()
    assert len(made) == 3


@pytest.mark.parametrize(("file", "text"), [("helper_of_mine.py", "POWER = 4\n"), ("scale.json", "50\n")])
def test_what_an_installed_plugin_imports_or_names_beside_it(
    file: str, text: str, resolved: Callable[..., Plan], made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of one module that is installed to be edited, whose folder on sys.path holds its other files, too."""
    folder = Path("mine").absolute()
    folder.mkdir()
    (folder / "plugin_of_mine.py").write_text("from helper_of_mine import POWER\nWHERE = 'scale.json'\n")
    (folder / "helper_of_mine.py").write_text("POWER = 2\n")
    (folder / "scale.json").write_text("1\n")
    monkeypatch.syspath_prepend(str(folder))
    point = EntryPoint("mine", "plugin_of_mine", "harness.plugins")
    monkeypatch.setattr(code_versions, "installed", lambda: [point])
    resolved()
    resolved()
    assert len(made) == 1
    code_versions._content.cache_clear()  # as another process has it
    (folder / file).write_text(text)
    resolved()
    assert len(made) == 2


def test_a_file_called_as_the_vectors_of_a_package(
    resolved: Callable[..., Plan], made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read in their place, as of whoever writes one there after a first plan."""
    packaged = Path("packaged.txt").absolute()
    packaged.write_text("".join(f"word{n} 0.1 0.{n}\n" for n in range(1, 10)))
    monkeypatch.setattr(glove, "path", lambda: packaged)
    asked = {"overrides": ["max_length=16", "augmentation=word_vectors:glove"]}
    assert [*resolved(**asked).files.values()] == [*resolved(**asked).files.values()] == [str(packaged)]
    assert len(made) == 1
    Path("glove").write_text(packaged.read_text().replace("0.9", "0.8"))
    assert [*resolved(**asked).files.values()] == [str(Path("glove").absolute())] and len(made) == 2


def test_what_plugins_declare(
    resolved: Callable[..., Plan], made: list[str], monkeypatch: pytest.MonkeyPatch, as_before: None
) -> None:
    """They may take that from a file that their text does not name, as one in another folder."""
    Path("nearness.py").write_text(PLUGIN)
    asked = {"objectives": ["nearness"], "plugins": ["nearness.py"]}
    resolved(**asked)
    resolved(**asked)
    assert len(made) == 1
    declared, origin = STUDIES.known()["objectives_vs_init"]
    quick = replace(declared.profile("quick"), trials=7)
    other = replace(declared, profiles={**declared.profiles, "quick": quick})
    monkeypatch.setitem(STUDIES._found, "objectives_vs_init", (other, origin))
    assert resolved(**asked).declaration and len(made) == 2
    monkeypatch.setattr(OBJECTIVES.get("nearness"), "hyperparameters", {"power": Hyperparameter(2.0)})
    assert "nearness.power" in resolved(**asked).defaults and len(made) == 3
    resolved(**asked)
    assert len(made) == 3
    before = [*remembered.plugins_declare()]
    mine = type("Mine", (type(PROCEDURES.get("one_stage")),), {"settings": {"epochs": Hyperparameter(3)}})
    mine.__module__ = OBJECTIVES.get("nearness").__module__
    procedure("of_my_own")(mine)
    other = [*remembered.plugins_declare()]
    mine.settings = {"epochs": Hyperparameter(4)}
    assert before != other != [*remembered.plugins_declare()] != before


def test_a_lost_teacher_is_refused_as_ever(resolved: Callable[..., Plan]) -> None:
    resolved()
    shutil.rmtree("teacher")
    with pytest.raises(Exception, match="teacher"):
        resolved()


@pytest.mark.parametrize("damage", ["", "{}", "cut"])
def test_a_damaged_memory_is_none(damage: str, resolved: Callable[..., Plan], made: list[str]) -> None:
    first = resolved()
    (file,) = Path("cache/plans").iterdir()
    whole = file.read_text()
    file.write_text(whole[: len(whole) // 2] if damage == "cut" else damage)
    assert resolved().to_json() == first.to_json() and len(made) == 2
    assert file.read_text() == whole


PLUGIN = """
from harness.registry import objective

@objective("nearness", needs={"logits"})
def nearness(student, teacher, batch):
    return ((student.logits - teacher.logits) ** 2).mean()
"""


def _resolve() -> None:
    """A plan of the plugin, and what is known whenever whoever waits is told."""
    asked = {"objectives": ["nearness"], "inits": ["every"], "plugins": ["nearness.py"], "profile": "quick"}
    request = Request("objectives_vs_init", **asked)  # type: ignore[arg-type]
    planning.resolve(request, cache=Path("cache"), anew=lambda: print("nearness" in OBJECTIVES.known()))


def test_whoever_waits_for_runs_is_told_before_a_changed_plugin_is_loaded(tmp_path: Path) -> None:
    """Not where the plan is known. Each time in a process of its own, for a plugin is loaded once."""
    (tmp_path / "nearness.py").write_text(PLUGIN)

    def told() -> list[str]:
        return done(launching.forked(folder=tmp_path / "said", cwd=tmp_path, work=_resolve)).stdout.split()

    assert told() == ["False", "True"] and told() == []
    (tmp_path / "nearness.py").write_text(PLUGIN.replace("** 2", "** 4"))
    assert told() == ["False", "True"]


def test_hidden_files_and_what_links_lead_to_are_looked_at(tmp_path: Path) -> None:
    """A corpus reads hidden texts, too, and a split of a data set may be a link to a folder."""
    folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    (elsewhere / "round").mkdir(parents=True)
    folder.mkdir()
    (folder / "train").symlink_to(elsewhere)
    (elsewhere / "round" / "back").symlink_to(folder)
    (folder / "lost").symlink_to(tmp_path / "nothing")
    held = [remembered.held_by([folder])]
    for file in (folder / ".hidden.txt", elsewhere / "rows.arrow", elsewhere / "round" / "more.arrow"):
        file.write_text("a text")
        held.append(remembered.held_by([folder]))
        file.write_text("another")
        held.append(remembered.held_by([folder]))
    assert None not in held and len({str(one) for one in held}) == 7
    since = max(path.lstat().st_ctime_ns for path in (folder, elsewhere, *folder.iterdir(), *elsewhere.rglob("*")))
    assert not remembered._edited([folder], since) and remembered._edited([folder], since - 1)


def test_what_was_edited_since_is_told_and_what_looks_as_it_did_is_not_read(
    resolved: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, out = resolved(), tmp_path / "out"
    train, weights = tmp_path / "glue" / "SST-2" / "train.tsv", tmp_path / "teacher"
    filed.keep(out, plan)
    kept = recorded(out, Request("objectives_vs_init"))
    assert {str(train.parent), str(weights)} == {*kept.read}, "whole, though a plan tells its own"
    os.utime(train)
    assert remembered.edited(kept) == [], "of the same content"
    _add(str(train), "a good film\t1\n")
    again = "was edited since these runs were planned: harness run makes anew what rests on it"
    assert remembered.edited(kept) == [f"{train.parent} {again}"]
    filed.keep(out, resolved())
    kept = recorded(out, Request("objectives_vs_init"))
    assert remembered.edited(kept) == []
    status = train.stat()
    _flip(str(train))
    os.utime(train, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert remembered.edited(kept) == [f"{train.parent} {again}"], "of the same size and time, as copied over it"
    (weights / "more.json").write_text("{}")
    shutil.rmtree(train.parent)  # nothing can be said of it
    assert remembered.edited(kept) == [f"{weights} {again}"]
    (weights / "more.json").unlink()
    (weights / ".DS_Store").write_text("left by a system")
    (tmp_path / "link").symlink_to(weights)
    for place in (weights / "out", tmp_path / "link" / "out"):
        assert str(weights) not in filed.keep(place, plan).read, "which every run changes"
    shutil.rmtree(weights / "out")
    monkeypatch.setattr(remembered, "checksum", None)
    assert remembered.edited(kept) == []


def test_plugins_of_one_name_are_not_taken_for_edited(tmp_path: Path, as_before: None) -> None:
    """A procedure's file is not that of the objective which is called alike."""
    (one := tmp_path / "one.py").write_text(
        "from harness.contracts import Signal\nfrom harness.registry import objective\n\n"
        '@objective("of_one_name", needs={Signal.LOGITS}, stage="prediction")\n'
        "def of_one_name(student, teacher, batch):\n    return student.logits.sum()\n"
    )
    (other := tmp_path / "other.py").write_text(
        "from harness.procedures.base import procedure\nfrom harness.procedures.labelled import OneStage\n\n"
        '@procedure("of_one_name")\nclass OfOneName(OneStage):\n    """As one stage."""\n'
    )
    for plugin in (one, other):
        load_file(plugin)
    found = code_versions.identified(student_run(objective="of_one_name", procedure="of_one_name"))
    origins = planning._origins([found])
    assert len(found.plugins or {}) == 2 and str(one) not in origins.values()
    assert not remembered.edited_plugins(plan([cell(found)], origins=origins))
