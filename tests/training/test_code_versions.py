"""Fingerprints of code: what is told in a table, and what is another run."""

from __future__ import annotations

import ast
import shutil
import sys
import types
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest

from harness import code_versions, plugin_code
from harness.code_versions import built_on, changed, current, engine, fingerprint, of_run, of_stored, of_teacher
from harness.plugin_code import files
from harness.registry import ALL, OBJECTIVES, PROCEDURES, TEACHERS, load_file
from harness.runs import BaseTeacher, CheckpointRun, JointTeacherRun, PretrainingRun, StudentRun, TeacherRun
from harness.search.progress import Finished, Progress
from harness.search.results import older_code
from tests.conftest import ROOT
from tests.search.builders import plan
from tests.training.builders import a_run

STUDENT = a_run(StudentRun, objective="att_kl", procedure="two_stage", teacher="t" * 16)
CACHED = (
    plugin_code.code, plugin_code.imports, plugin_code._places, plugin_code._elsewhere, plugin_code._package,
    plugin_code._named, plugin_code.variables, code_versions._version, engine, fingerprint,
)  # fmt: skip


def forget() -> None:
    for cached in CACHED:
        cached.cache_clear()


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    """Every fingerprint is taken anew, as by another process."""
    forget()
    yield
    forget()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the engine that a test may edit."""
    shutil.copytree(ROOT / "harness", tmp_path / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    for module in (code_versions, plugin_code):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    return tmp_path / "harness"


EDITS = {
    "modeling/signals.py": "harness.modeling", "combine.py": "harness.contracts", "data/encoding.py": "harness.data",
    "evaluation/metrics.py": "harness.evaluation", "runs/labelled.py": "harness.contracts",
    "training/loop.py": "harness.training", "contracts.py": "harness.contracts",
    "batch.py": "harness.contracts", "hyperparameters.py": "harness.contracts", "seeds.py": "harness.contracts",
}  # fmt: skip

RAISED, SAID = 'raise UserError(f"', 'raise UserError(f"{HERE} says '


def test_a_change_of_the_engine_is_told_with_its_part_and_words_are_not(tree: Path) -> None:
    record = {"code": engine(), "specification": {}, "status": "finished"}
    stored = of_stored("embedded")
    found = Progress(trials=[Finished("run", lambda: STUDENT, {}, record)])
    whole = {file: (tree / file).read_text(encoding="utf-8") for file in EDITS}
    commented = {file: f"# a comment\n\n{text.replace(RAISED, SAID)}" for file, text in whole.items()}
    assert any(SAID in text for text in commented.values()), "or no sentence is edited"
    edits: list[tuple[dict[str, str], tuple[str, ...]]] = [(commented, ())]
    for file, text in whole.items():
        sentence = f"1 cell was made with another version of {EDITS[file]}"
        edits.append(({**whole, file: text.replace("return ", "return not ", 1)}, (sentence,)))
    for texts, told in edits:
        for file, text in texts.items():
            (tree / file).write_text(text, encoding="utf-8")
        forget()
        assert older_code(plan([]), {}.get, [found]) == told
        assert (of_stored("embedded") == stored) == (not told), "what was stored for runs is used by other code"


def test_what_the_contracts_are_made_of_is_fingerprinted_with_them() -> None:
    """But for sentences, files and the rows of tables, on which no number of a run rests."""
    tree = ast.parse((code_versions.ROOT / "harness" / "contracts.py").read_text())
    used = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    parts = {name.removeprefix("harness.") + ".py" for name in used if name.startswith("harness.")}
    assert parts - {"errors.py", "files.py", "rows.py"} <= {*code_versions.CONTRACTS} and "batch.py" in parts


def test_records_of_an_older_scheme_are_of_another_version() -> None:
    old = {"code": {"training": "49b33cd71a6a", "att_kl": "486f1bff99a3"}, "specification": {}}
    replays = [Progress(trials=[Finished(str(n), lambda: STUDENT, {}, old)]) for n in range(2)]
    known = plan([], origins={"att_kl": "objectives/attention.py"})
    assert older_code(known, {}.get, replays) == ("2 cells were made with another version of att_kl and harness",)
    assert older_code(plan([]), {}.get, replays) == ("2 cells were made with another version of harness",)


def test_what_not_all_of_them_were_made_with_is_told_with_how_many() -> None:
    """A table of many rows would tell as many sentences otherwise."""
    old = {"code": {"training": "49b33cd71a6a", "att_kl": "486f1bff99a3"}, "specification": {}}
    other = {"code": {"training": "49b33cd71a6a", "hid_seq": "486f1bff99a3"}, "specification": {}}
    replays = [Progress(trials=[Finished(str(n), lambda: STUDENT, {}, r)]) for n, r in enumerate((old, other, old))]
    known = plan([], origins={"att_kl": "objectives/attention.py", "hid_seq": "objectives/hidden.py"})
    told = "3 cells were made with another version of harness, att_kl (2) and hid_seq (1)"
    assert older_code(known, {}.get, replays) == (told,)


HEAD = '"""What it is."""\nimport math\nimport torch\nfrom harness.contracts import Signal\n'
TOO_LONG = f"TEXT = '{'一' * 99}'\n"  # in bytes, for the name of a file


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


LAYOUTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "beside": ("plugin.py", "import helper", ("helper.py",)),
    "beside, from": ("plugin.py", "from helper import part", ("helper.py",)),
    "called as a kind": ("plugin.py", "import tasks", ("tasks.py",)),
    "called as a folder of ours": ("plugin.py", "from objectives import part", ("objectives.py",)),
    "a package beside": ("plugin.py", "from help.er import part", ("help/__init__.py", "help/er.py")),
    "by a call": ("plugin.py", "import importlib\nimportlib.import_module('help.er')", ("help/er.py",)),
    "by Python's own call": ("mine/plugin.py", "__import__('mine.helper')", ("mine/__init__.py", "mine/helper.py")),
    "relative, called": ("mine/plugin.py", "import_module('.helper', 'mine')", ("mine/__init__.py", "mine/helper.py")),
    "in a function": ("plugin.py", "def f():\n    import helper", ("helper.py",)),
    "a package": ("mine/plugin.py", "from mine.deep.helper import part", ("mine/__init__.py", "mine/deep/helper.py")),
    "relative": ("mine/deep/plugin.py", "from ..helper import part", ("mine/__init__.py", "mine/helper.py")),
    "from the package": ("mine/plugin.py", "from . import helper", ("mine/__init__.py", "mine/helper.py")),
    "a namespace": ("mine/plugin.py", "import mine.helper", ("mine/helper.py",)),
    "in turn": ("plugin.py", "import first", ("first.py", "helper.py")),
    "beside, in a package": ("mine/plugin.py", "from helper import part", ("mine/__init__.py", "mine/helper.py")),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_plugin_imports_beside_it_is_part_of_it(tmp_path: Path, layout: str) -> None:
    name, line, beside = LAYOUTS[layout]
    plugin = written(tmp_path / name, f"{HEAD}{line}\n")
    for file in beside:
        written(tmp_path / file, "import helper\n" if file == "first.py" else "part = 1\n")
    written(tmp_path / "torch.dist" / "other.py", "x = 1\n")
    written(tmp_path / "harness" / "contracts.py", "x = 1\n")  # as where a plugin lies at the top of a checkout
    reached = {str(file.relative_to(tmp_path)) for file in files(str(plugin))} - {name, "mine/__init__.py"}
    assert reached == set(beside) - {"mine/__init__.py"}
    before = fingerprint(str(plugin))
    for text, same in (("# a comment\npart  =  1\n", True), ("part = 2\n", False)):
        written(tmp_path / beside[-1], text)
        forget()
        assert (fingerprint(str(plugin)) == before) == same


ELSEWHERE: dict[str, tuple[str, tuple[str, ...]]] = {
    "a package": ("from mylab.losses import part", ("mylab/__init__.py", "mylab/losses.py")),
    "a module": ("import mylab_losses", ("mylab_losses.py",)),
    "a namespace": ("import mylab.deep.losses as losses", ("mylab/deep/losses.py",)),
    "in turn": ("import mylab.first", ("mylab/__init__.py", "mylab/first.py", "mylab_losses.py")),
}


@pytest.mark.parametrize("layout", ELSEWHERE)
def test_what_a_plugin_imports_from_the_users_own_package_elsewhere_is_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    line, names = ELSEWHERE[layout]
    plugin = written(tmp_path / "run" / "plugin.py", f"{HEAD}import numpy, scipy_that_is_not_there\n{line}\n")
    package = [written(tmp_path / "lib" / name, "import mylab_losses\n" if "first" in name else "") for name in names]
    written(tmp_path / "site-packages" / "mylab_losses.py", "part = 0\n")  # an installed one is found second
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    assert files(str(plugin)) == {plugin}
    forget()
    monkeypatch.syspath_prepend(tmp_path / "lib")
    assert files(str(plugin)) == {plugin, *package}
    assert files(str(plugin), elsewhere=False) == {plugin}  # other machines are to have it themselves
    before = fingerprint(str(plugin))
    written(package[-1], "part = 2\n")
    forget()
    assert fingerprint(str(plugin)) != before


def test_a_distribution_that_is_installed_to_be_edited_is_found_through_its_finder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip's editable installations are: of a package in a folder that need not be called as it is."""

    class Finder(MetaPathFinder):
        def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
            return spec_from_file_location(name, tmp_path / "source" / "__init__.py") if name == "mylab" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    plugin = written(tmp_path / "run" / "plugin.py", "from mylab.losses import part\n")
    package = {written(tmp_path / "source" / name, "part = 1\n") for name in ("__init__.py", "losses.py")}
    assert files(str(plugin)) == {plugin} | package


@pytest.mark.parametrize(
    "told", ['Path(__file__).parent / "data/weights.json"', 'os.path.join(HERE, "data", ".", "weights.json")']
)
def test_a_file_that_a_plugin_names_is_part_of_it(tmp_path: Path, told: str) -> None:
    """Such as weights that it reads: with others it is another objective, and other machines need them."""
    written(tmp_path / "mine" / "helper.py", f"read({told})\n")
    text = f"{HEAD}import helper\n{TOO_LONG}HERE, ABOVE = '.', '../other.json'\n"
    plugin = written(tmp_path / "mine" / "plugin.py", text)
    weights = written(tmp_path / "mine" / "data" / "weights.json", "[1, 2]")
    for other in ("other.json", "mine/data/other.json"):
        written(tmp_path / other, "[1]")
    assert files(str(plugin)) == {plugin, plugin.with_name("helper.py"), weights}
    found = set()
    for text in ("[1, 2]", "[1,  2]", "[1, 3]"):
        written(weights, text)
        forget()
        found.add(fingerprint(str(plugin)))
    assert len(found) == 3


@pytest.mark.parametrize("name", ["'TEMPERATURE'", "NAME", "TOLD"])
@pytest.mark.parametrize("by", ["os.environ[{}]", "environ.get({},1)", "getenv({})", "{} in environ", "getenv(key={})"])
def test_the_value_of_a_variable_that_a_plugin_reads_is_in_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_before: None, by: str, name: str
) -> None:
    head = "import os\nfrom os import environ\nfrom harness.registry import objective\n"
    machine = 'os.environ.get("CUDA_VISIBLE_DEVICES"), {}.get("MY_BETA"), os.environ.get(os.name)\n'
    plugin = written(tmp_path / "plugin.py", f"{head}import alpha_of\n@objective('by_alpha', needs={{'logits'}})\n"
                     f"def by_alpha(student, teacher, batch):\n    return {machine}")  # fmt: skip
    helper = f"{head}NAME = 'TEMPERATURE'\nTOLD: str = 'TEMPERATURE'\ndef other():\n    NAME = 'PRESSURE'\n"
    written(tmp_path / "alpha_of.py", f"{helper}def alpha():\n    return {by.format(name)}\n")
    load_file(plugin)
    monkeypatch.setenv("TEMPERATURE", "1")
    before = code_versions.sources([str(plugin)])
    record = {"code": of_run(a_run(StudentRun, objective="by_alpha", procedure="two_stage", teacher="t" * 16))}
    read = {name for name in record["code"] if name.startswith("$")}  # of a name of two values, both
    assert read == {"$TEMPERATURE"} | ({"$PRESSURE"} if name == "NAME" else set())
    assert changed(record, {}.get, current({})) == set() and code_versions.sources([str(plugin)]) == before
    monkeypatch.setenv("TEMPERATURE", "2")
    assert changed(record, {}.get, current({})) == {"$TEMPERATURE"} and code_versions.sources([str(plugin)]) != before
    monkeypatch.delenv("TEMPERATURE")
    assert changed(record, {}.get, current({})) == {"$TEMPERATURE"}


@pytest.mark.parametrize("package", [True, False])
def test_what_a_helper_in_a_folder_imports_from_beside_the_plugin_is_part_of_it(tmp_path: Path, package: bool) -> None:
    plugin = written(tmp_path / "plugin.py", "from deep.inner import loss\n")
    inner = written(tmp_path / "deep" / "inner.py", "from factors import FACTOR\n")
    factors = written(tmp_path / "factors.py", "FACTOR = 1.0\n")
    if package:
        written(tmp_path / "deep" / "__init__.py", "")
    assert {plugin, inner, factors} <= files(str(plugin))
    before = fingerprint(str(plugin))
    written(factors, "FACTOR = -3.0\n")
    forget()
    assert fingerprint(str(plugin)) != before


@pytest.mark.parametrize("line", ["from harness.objectives import attention", "import harness.objectives.attention"])
def test_a_users_plugin_is_of_another_version_where_the_shipped_one_that_it_is_built_on_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    shutil.copytree(ROOT / "objectives", tmp_path / "ours" / "objectives")
    for module in (code_versions, plugin_code):
        monkeypatch.setattr(module, "ROOT", tmp_path / "ours")
    plugin = written(tmp_path / "mine" / "plugin.py", f"{HEAD}import helper\n")
    written(tmp_path / "mine" / "helper.py", f"{line}\n")
    names = {file.name for file in built_on(str(plugin))}
    assert "attention.py" in names and "hidden_states.py" not in names
    alone = written(tmp_path / "mine" / "alone.py", HEAD)
    assert not built_on(str(alone)) and current({"a": str(alone)})["a"] == fingerprint(str(alone))
    before, identity = current({"mine": str(plugin)})["mine"], fingerprint(str(plugin))
    shipped = tmp_path / "ours" / "objectives" / "attention.py"
    shipped.write_text(shipped.read_text() + "\nMORE = 1\n")
    forget()
    assert current({"mine": str(plugin)})["mine"] != before and fingerprint(str(plugin)) == identity


def test_what_is_stored_of_a_users_teacher_is_that_of_the_shipped_one_that_it_is_built_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "teachers", tmp_path / "ours" / "teachers", ignore=shutil.ignore_patterns("*.safetensors"))
    for module in (code_versions, plugin_code):
        monkeypatch.setattr(module, "ROOT", tmp_path / "ours")
    plugin = written(tmp_path / "mine" / "plugin.py", "from harness.teachers.generative import sentence\n")
    monkeypatch.setattr(TEACHERS, "origin", lambda name: str(plugin))
    teacher, stored, identity = of_teacher("mine"), of_stored("mine"), fingerprint(str(plugin))
    shipped = tmp_path / "ours" / "teachers" / "generative.py"
    shipped.write_text(shipped.read_text() + "\nMORE = 1\n")
    forget()
    assert of_teacher("mine") != teacher and of_stored("mine") != stored and fingerprint(str(plugin)) == identity


def test_a_shipped_plugin_does_not_stand_for_the_engine() -> None:
    """What plans or prints would be told as another version of the procedure that imports it."""
    for registry in ALL.values():
        for origin in map(Path, map(registry.origin, registry.names())):
            assert {file.parent for file in files(str(origin)) if file.is_relative_to(ROOT / "harness")} <= {
                origin.parent
            }
    procedures = Path(PROCEDURES.origin("two_stage")).parent
    assert procedures / "base.py" in files(PROCEDURES.origin("two_stage"))


def test_what_others_installed_beside_a_plugin_is_no_part_of_it(tmp_path: Path) -> None:
    plugin = written(tmp_path / "plugin.py", "import helper\n")
    written(tmp_path / "helper.py", "part = 1\n")
    (tmp_path / "numpy-1.0.dist-info").mkdir()
    assert files(str(plugin)) == {plugin}


def test_neither_place_nor_layout_counts_nor_the_version_of_python(tmp_path: Path) -> None:
    text = HEAD + 'def f(x, *, y: int = 3):\n    """Says."""\n    return [math.pi * x, f"{y:>{x}}", None, ..., b"1"]\n'
    first = written(tmp_path / "a" / "plugin.py", text)
    plain = text.replace('    """Says."""\n', "    # says\n").replace('"""What it is."""\n', "")
    second = written(tmp_path / "b" / "renamed.py", plain.replace(" * x", "  *  x"))
    # As Python 3.11 gives it; every other must give the same, or a study would be trained again on another machine.
    assert fingerprint(str(first)) == fingerprint(str(second)) == "8ee901ddadeb"


def test_of_a_users_code_what_it_raises_counts(tmp_path: Path) -> None:
    """Its sentence may be what is caught and computed with; of ours none is."""
    told = [written(tmp_path / name / "plugin.py", f'{HEAD}raise UserError("{name}")\n') for name in ("a", "b")]
    assert fingerprint(str(told[0])) != fingerprint(str(told[1]))


def test_a_plugin_that_is_python_no_more_is_of_another_version(tmp_path: Path) -> None:
    plugin = written(tmp_path / "plugin.py", "x = 1\n")
    record = {"code": {**engine(), "mine": fingerprint(str(plugin))}, "specification": {}}
    assert changed(record, {}.get, current({"mine": str(plugin)})) == set()
    plugin.write_text("def broken(:\n")
    forget()
    assert changed(record, {}.get, current({"mine": str(plugin)})) == {"mine"}
    plugin.unlink()  # on another machine: nothing can be told
    assert changed(record, {}.get, current({"mine": str(plugin)})) == set()


# ---------------------------------------------------------------- of a run


def test_a_teacher_rests_on_the_loss_that_it_is_fine_tuned_by() -> None:
    for kind in (TeacherRun, CheckpointRun, JointTeacherRun):
        assert "labels_only" in of_run(a_run(kind))
    assert "labels_only" not in of_run(a_run(PretrainingRun))


def test_a_record_tells_the_code_of_its_plugins() -> None:
    assert set(of_run(a_run(TeacherRun))) == {*engine(), "huggingface", "labels_only"}
    code = of_run(STUDENT)  # whose second stage is vanilla KD
    assert set(code) == {*engine(), "transformer", "two_stage", "att_kl", "vanilla_kd"}
    assert code["att_kl"] == fingerprint(OBJECTIVES.origin("att_kl"))


def test_what_other_libraries_stored_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"tokenizers", "torch", "transformers"} <= code_versions._libraries().keys()
    stored = of_stored("embedded")
    monkeypatch.setattr(code_versions, "_libraries", lambda: {"torch": "1.0"})
    assert of_stored("embedded") != stored


def test_a_student_is_older_if_its_teacher_is() -> None:
    origins = {"embedded": TEACHERS.origin("embedded")}
    student = {"code": engine(), "started_from": {"t" * 16: "hash of its weights"}}
    for version, told in ((fingerprint(origins["embedded"]), set()), ("old", {"embedded"})):
        teacher = {"code": {**engine(), "embedded": version}}
        assert changed(student, {"t" * 16: teacher}.get, current(origins)) == told


def test_models_of_users_files_belong_to_runs_of_the_teachers_that_may_load_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*files: str) -> None:
        """Transformers knows a class of the same name from each of these files."""
        classes = set()
        for number, file in enumerate(files):
            path = tmp_path / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"class Mine:\n    number = {file!r}\n")
            module = types.ModuleType(f"told_{number}")
            module.__file__ = str(path)
            monkeypatch.setitem(sys.modules, module.__name__, module)
            classes.add(type("Mine", (), {"__module__": module.__name__}))
        monkeypatch.setattr(code_versions, "told_to_transformers", lambda: classes)

    def of(name: str) -> dict[str, str]:
        return code_versions.outside(a_run(TeacherRun, teacher=BaseTeacher(name=name, content="base")))

    assert of("huggingface") == {}
    found = []
    for those in (("one.py",), ("two.py",), ("one.py", "two.py")):
        told(*those)
        assert of("huggingface").keys() == {"registered models"} and of("huggingface") == of("ensemble")
        assert of_teacher("huggingface") != fingerprint(TEACHERS.origin("huggingface"))
        assert of("embedded") == {} and of_teacher("embedded") == fingerprint(TEACHERS.origin("embedded"))
        found.append(of("huggingface"))
    told("two.py", "one.py")  # in whatever order
    assert of("huggingface") == found[-1] and len({str(each) for each in found}) == 3
    told("site-packages/library.py")  # which a process may have imported or not
    assert of("huggingface") == {} and of_teacher("huggingface") == fingerprint(TEACHERS.origin("huggingface"))
