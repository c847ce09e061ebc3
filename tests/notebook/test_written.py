"""What a notebook's cells define, as plugin files."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from harness import code_versions, plugin_code, registry
from harness.contracts import Profile, Row, Study
from harness.errors import UserError
from harness.notebook.asking import options
from harness.notebook.source import check_modules, study_text
from harness.notebook.written import files_of, named
from tests.notebook.cells import IMPORTS, Cell, cell, loss

__all__ = ["cell"]  # a fixture
FORMULA = (
    IMPORTS
    + """
import math as m
import torch
from torch import nn as layers

SCALE = {{"by": (2.0, float("inf"))}}

def clipped(x):
    return torch.clamp(x, max=SCALE["by"][1]) * {factor}

@objective("of_a_cell", needs={{Signal.SENTENCE}})
def of_a_cell(student, teacher, batch):
    assert m.pi > 3 and layers.Linear
    return clipped(student.sentence - teacher.sentence).abs().mean() * SCALE["by"][0]
"""
)


def test_a_file_holds_what_the_objective_names_wherever_that_was_defined(cell: Cell, tmp_path: Path) -> None:
    function = cell(FORMULA.format(factor=1)).of_a_cell
    assert named([function, "vanilla_kd"]) == ["of_a_cell", "vanilla_kd"]
    (path,) = files_of(["0.5*of_a_cell+vanilla_kd"], tmp_path)
    registry.load_file(path)  # in a module of its own
    assert loss() == 2.0 and registry.OBJECTIVES.origin("of_a_cell") == str(path)
    assert files_of(["vanilla_kd"], tmp_path) == []


def test_a_cell_may_be_run_again_and_changed_and_its_code_is_what_it_is(cell: Cell, tmp_path: Path) -> None:
    found = []
    for factor in (1, 3, 1):
        cell(FORMULA.format(factor=factor))
        (path,) = files_of(["of_a_cell"], tmp_path)
        registry.load_file(path)
        found.append((path, code_versions.fingerprint(registry.OBJECTIVES.origin("of_a_cell")), loss()))
        assert files_of(["of_a_cell"], tmp_path) == [path]  # asked again without running the cell
    assert found[0] == found[2] != found[1] and [value for *_, value in found] == [2.0, 6.0, 2.0]
    for scale in (4.0, 2.0):  # a value that it names, and it as it was
        cell(f"SCALE = {{'by': ({scale}, float('inf'))}}")
        (path,) = files_of(["of_a_cell"], tmp_path)
        registry.load_file(path)
        assert loss() == scale and (path == found[0][0]) == (scale == 2.0)
    (elsewhere,) = files_of(["of_a_cell"], tmp_path / "other")
    assert elsewhere.name == path.name and elsewhere.read_text() == path.read_text()


def test_what_was_defined_again_since_is_not_taken_for_what_has_its_name_now(cell: Cell, tmp_path: Path) -> None:
    for text, name in ((FORMULA.format(factor=1), "of_a_cell"), (LEARNED, "Learned")):
        before, now = vars(cell(text))[name], vars(cell(text))[name]
        for _ in range(2):  # the second time the file is loaded that was written of it
            for given in (before, ["vanilla_kd", before]):
                with pytest.raises(UserError, match="of_a_cell was defined again after what is given as of_a_cell"):
                    named(given)
            assert named(["vanilla_kd", now]) == ["vanilla_kd", "of_a_cell"]
            registry.load_file(files_of(["of_a_cell"], tmp_path)[0])


LEARNED = f"""{IMPORTS}
from harness.modeling.bases import Objective

@objective("of_a_cell", needs={{Signal.SENTENCE}})
class Learned(Objective):
    def forward(self, student, teacher, batch):
        return student.sentence.sum()
"""


def test_a_class_of_a_cell_is_written(cell: Cell, tmp_path: Path) -> None:
    assert named(cell(LEARNED).Learned) == ["of_a_cell"]
    (path,) = files_of(["of_a_cell"], tmp_path)
    registry.load_file(path)
    assert loss() == 6.0


def test_a_study_is_written_with_the_objectives_of_the_notebook_that_its_rows_have(cell: Cell, tmp_path: Path) -> None:
    cell(FORMULA.format(factor=1))
    rows = (
        Row("row_of_a_cell", "of_a_cell", "Of a cell", settings={"epochs": 2}),
        Row("kd", "vanilla_kd", "KD", point=("a", 0.5)),
    )
    quick = Profile("embedded", ("sentiment",), ("every",), 1, 2, search={"learning_rate": (1e-3, 2e-3)})
    made = Study("mine_or_kd", "Two rows", 'Is "it" better?', "two_stage", rows, ("transformer",), {"quick": quick})
    assert named(made) == "mine_or_kd"
    paths = files_of(["mine_or_kd"], tmp_path)
    assert [path.name.rpartition("_")[0] for path in paths] == ["mine_or_kd", "of_a_cell"]
    for path in paths:
        registry.load_file(path)
    found = registry.STUDIES.get("mine_or_kd")
    assert found == made and found is not made and study_text(found) == study_text(made)


DEFINED = "@objective('of_a_cell', needs={Signal.SENTENCE})\ndef of_a_cell(student, teacher, batch): "
REFUSED = {
    "uses WEIGHTS, a Tensor, which its runs, in processes of their own, cannot see": "WEIGHTS = torch.ones(2)\n"
    f"{DEFINED}return WEIGHTS.sum()",
    "uses missing, which is not defined": f"{DEFINED}return missing(student)",
    "is a lambda": f"square = lambda x: x * x\n{DEFINED}return square(1)",
    "inside a function": "def made():\n    @objective('of_a_cell', needs={Signal.SENTENCE})\n"
    "    def of_a_cell(student, teacher, batch): return 0\nmade()",
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_other_processes_cannot_have_is_refused(cell: Cell, tmp_path: Path, said: str) -> None:
    cell(f"{IMPORTS}import torch\n{REFUSED[said]}")
    with pytest.raises(UserError, match=said):
        files_of(["of_a_cell"], tmp_path)
    assert list(tmp_path.iterdir()) == []


WITHOUT_CODE = f"""{IMPORTS}
import dataclasses, enum, typing
class Kind(enum.Enum):
    MEAN = 1.0
    SUM = 2.0
@dataclasses.dataclass(frozen=True)
class Given:
    by: float = 1.0
    kind: Kind = Kind.SUM
class Bare: factor = 3.0
class Told(typing.NamedTuple):
    more: float = 5.0
class Read:
    @property
    def one(self): return 1.0
    @staticmethod
    def two(): return 2.0
given = Given(2.0)
@objective("of_a_cell", needs={{Signal.SENTENCE}})
def of_a_cell(student, teacher, batch):
    scale = given.by * given.kind.value * Bare.factor * Told().more * Read().one * Read.two()
    return student.sentence.mean() * scale
"""


def test_a_class_without_code_of_its_own_is_written(cell: Cell, tmp_path: Path) -> None:
    """As a dataclass of settings, or an enumeration: Python does not say where it was defined."""
    cell(WITHOUT_CODE.replace("factor = 3.0", "factor = 4.0").replace("SUM = 2.0", "SUM = 7.0"))
    cell(WITHOUT_CODE)
    cell("class Other: factor = 9.0")
    (path,) = files_of(["of_a_cell"], tmp_path)
    registry.load_file(path)
    assert loss() == 2.0 * 2.0 * 3.0 * 5.0 * 1.0 * 2.0
    cell("Bare.factor = 8.0")
    with pytest.raises(UserError, match="Bare.factor is 8.0 now, and 3.0 by its source"):
        files_of(["of_a_cell"], tmp_path)


def test_what_has_no_source_or_no_name_is_refused(cell: Cell, tmp_path: Path) -> None:
    main = cell(FORMULA.format(factor=1), source=False)
    with pytest.raises(UserError, match="of_a_cell has no source"):
        files_of(["of_a_cell"], tmp_path)
    options("run", {"study": "sra", "out": tmp_path / "of_a_cell"})  # a folder may be called as it
    with pytest.raises(UserError, match="decorate it"):
        named([main.clipped])


@pytest.mark.parametrize("module", ["helpers_of_mine", "turtle"])  # the second is one of Python's, too
def test_a_module_that_a_cell_imports_is_part_of_what_it_is(
    cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    path = tmp_path / f"{module}.py"
    path.write_text("def clipped(x): return x")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        cell(FORMULA.format(factor=1) + f"\nfrom {module} import clipped")
        (written,) = files_of(["of_a_cell"], tmp_path)
        assert f"check_modules({{'{module}': '" in written.read_text()
        registry.load_file(written)
        path.write_text("def clipped(x): return -x")
        with pytest.raises(UserError, match=f"{module}.py was edited after it was loaded: start Python anew"):
            files_of(["of_a_cell"], tmp_path)
        with pytest.raises(UserError, match=f"{module}.py was edited after what imports it was written"):
            check_modules({module: "another"})  # as a process does that loads what was written
    finally:
        sys.modules.pop(module, None)


def test_what_is_none_is_so_whatever_module_has_it_too(cell: Cell, tmp_path: Path) -> None:
    """Of what other libraries have called so, which ones are loaded would decide, and what they set it to later."""
    main = cell("SCALE_OF_MINE = None\n" + FORMULA.format(factor=1) + "\ndef clipped(x): return SCALE_OF_MINE or x")
    library = ModuleType("a_library")
    library.SCALE_OF_MINE = main.SCALE_OF_MINE  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "a_library", library)
        (written,) = files_of(["of_a_cell"], tmp_path)
    assert "SCALE_OF_MINE = None" in written.read_text() and "a_library" not in written.read_text()


def test_a_module_of_the_users_own_is_given_as_the_file_that_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "losses_of_mine.py"
    path.write_text(FORMULA.format(factor=1).replace("of_a_cell", "of_a_module"))
    monkeypatch.syspath_prepend(tmp_path)
    try:
        imported = importlib.import_module("losses_of_mine").of_a_module
        assert named(imported) == "of_a_module"
        assert files_of(["of_a_module"], None) == files_of(["of_a_module"], None) == [path]
        registry.load_file(path)  # as a plan does: here it is known already
        path.write_text(path.read_text().replace("clamp", "relu"))
        with pytest.raises(UserError, match="losses_of_mine.py was edited after it was loaded"):
            plugin_code.check_unchanged([path])
    finally:
        registry.OBJECTIVES._found.pop("of_a_module", None)
