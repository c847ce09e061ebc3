"""What a notebook's cells define, as plugin files."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from harness import code_versions, plugin_code, registry
from harness.contracts import Profile, Row, Study
from harness.errors import UserError
from harness.notebook.asking import options
from harness.notebook.source import check_modules, study_text
from harness.notebook.written import files_of, named

Cell = Callable[[str], Any]
IMPORTS = """
from harness.contracts import Signal
from harness.registry import objective
"""
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


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
    """cell(text) does what a cell of a notebook does, and gives the notebook's names."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    count = iter(range(100))

    def run(text: str, source: bool = True) -> Any:
        name = f"<cell {next(count)}>"
        if source:
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec", dont_inherit=True), vars(main))
        return main

    yield run
    for known in registry.ALL.values():
        for name in [name for name, (_, origin) in known._found.items() if origin in registry.WRITTEN]:
            del known._found[name]


def loss() -> float:
    return loss_of(registry.OBJECTIVES.get("of_a_cell")(None, None, None))


def loss_of(made: Callable[..., Any]) -> float:
    ones, zeros = SimpleNamespace(sentence=torch.ones(2, 3)), SimpleNamespace(sentence=torch.zeros(2, 3))
    return float(made(ones, zeros, None))


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
                with pytest.raises(UserError, match="what is given as of_a_cell is not what has this name now"):
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
    "uses missing, which nothing defines": f"{DEFINED}return missing(student)",
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


CHANGING = f"""{IMPORTS}
import dataclasses, enum, functools, typing, torch
K = 1.0
class Over(typing.Generic[typing.AnyStr]):
    def ever(self): return 1
def free(self): return 1.0
class Config(Over):
    scale = 1.0
    twice, thrice, box, weights = 2 * K, [3], dict(a=1.0), torch.ones(2)
    method = free
    def get(self, k=K): return self.scale * k
    def put(self): return 1
    @property
    def one(self): return 1.0
    @functools.cached_property
    def two(self): return 2.0
def by_one(function):
    @functools.wraps(function)
    def inner(*args, **given): return 1.0 * function(*args, **given)
    return inner
def times(by):
    return lambda function: functools.wraps(function)(lambda *args: by * function(*args))
@by_one
def part(x, k=K, *, by=K): return x * Config.scale * k * by
@times(K)
@functools.cache
@torch.no_grad()
def cached(x, ones=torch.ones(1)): return x
def other(x): return 2 * x
@functools.wraps(other)
def wrapper(x): return 1 * other(x)
alias = wrapper
class Kind(enum.Enum): ONE = 1.0
class Told(typing.NamedTuple): more: float = 1.0
@dataclasses.dataclass
class Given:
    k: float = 1.0
    kind: Kind = Kind.ONE
    made: float = dataclasses.field(init=False)
    def __post_init__(self): self.made = self.k
given, nested = Given(), {{"a": [1.0, 1]}}
class Bare: factor = 1.0
@objective("of_a_cell", needs={{Signal.SENTENCE}})
def of_a_cell(student, teacher, batch):
    scale = given.made * given.kind.value * nested["a"][0] * Told().more * cached(1.0) * Bare.factor
    return part(alias(student.sentence)).sum() * scale + Config().get() * Config().method()
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Config.scale = 2.0", "of_a_cell: Config.scale is 2.0 now, and 1.0 by its source: define it again"),
        ("Config.scale = 1", "Config.scale is 1 now, and 1.0 by its source"),
        ("Config.put = other", "Config.put is another function now"),
        ("Config.more = 1", "Config.more was set since it was defined"),
        ("del Config.put", "Config.put was deleted since it was defined"),
        ("Config.box['a'] = 2.0", r"Config.box\['a'\] is 2.0 now, and 1.0 by its source"),
        ("Config.thrice += 4,", "Config.thrice has a length of 2 now, and of 1 by its source"),
        ("Config.weights *= 2", "Config.weights is another Tensor now"),
        ("Config.one = property(lambda self: 2.0)", "Config.one is another function now"),
        ("Config.two = functools.cached_property(other)", "Config.two.func is another function now"),
        ("def free(self): return 2.0", "Config.method is another function now"),
        ("class Over:\n    def ever(self): return 2", "the base Generic of the base Over of Config is Generic now"),
        ("K = 2.0", "Config.twice is 2.0 now, and 4.0 by its source"),
        ("K = 2.0; Config.twice = 4.0", "the default k of Config.get is 1.0 now, and 2.0 by its source"),
        ("part.__wrapped__.__kwdefaults__['by'] = 2.0", "the default by of part.__wrapped__ is 2.0 now"),
        ("part.weight = 2", "part.weight was set since it was defined"),
        ("part = functools.wraps(part)(lambda x: 5 * x)", "part is another function now than by its source"),
        ("def by_one(function): return lambda x: 2 * function(x)", "part is another function now"),
        ("def times(by): return lambda f: functools.wraps(f)(lambda x: 2 * f(x))", "cached is another function"),
        ("cached.__closure__[1].cell_contents.__wrapped__.__wrapped__.__defaults__[0].mul_(2)", "another Tensor now"),
        ("Kind.ONE._value_ = 2.0", "Given.kind._value_ is 2.0 now"),
        ("class Told(typing.NamedTuple):\n    more: float = 1.0\n    most: float = 1.0\nTold = [Told][0]", ""),
        ("Told._field_defaults['more'] = 2.0", r"Told._field_defaults\['more'\] is 2.0 now"),
        ("def other(x): return 4 * x", "alias.__wrapped__ is another function now"),
        ("def wrapper(x): return 4 * x", ""),
        ("given.made = 2.0", "given.made is 2.0 now, and 1.0 by its source: define it again, or give it as it is made"),
        ("given.more = 2.0", "given.more was set since it was defined"),
        ("given.k = 2.0; given.made = 2.0", ""),
        ("nested['a'][0] = 2.0", ""),
        ("import collections; nested = collections.Counter(a=[1.0])", "nested is a Counter now, and a dict by"),
        ("one = Bare\nclass Bare: factor = 2.0\nclass Bare(one): pass", "Bare"),
        ("import random; Config.scale = random.Random(1)", "Config.scale is a Random now, and 1.0"),
    ],
)
def test_what_is_no_longer_what_its_source_says_is_refused(cell: Cell, tmp_path: Path, line: str, said: str) -> None:
    """Runs would get the source: other numbers than the notebook means."""
    cell(CHANGING)
    (before,) = files_of(["of_a_cell"], tmp_path)
    registry.load_file(before)
    assert loss() == 13.0  # 2 * 6 + 1: by the other name of a function, too
    cell(line)
    if said:
        with pytest.raises(UserError, match=said):
            files_of(["of_a_cell"], tmp_path)
    else:
        means = loss_of(sys.modules["__main__"].of_a_cell)
        registry.load_file(files_of(["of_a_cell"], tmp_path)[0])
        assert loss() == means
    cell(CHANGING)
    assert files_of(["of_a_cell"], tmp_path) == [before]


UNCHANGED = f"""{IMPORTS}
import abc, dataclasses, datetime, decimal, enum, functools, logging, re, threading, typing
from pathlib import Path
import numpy as np
import torch
from torch import nn
class Meta(abc.ABCMeta):
    def __call__(cls, *args): return super().__call__(*args)
class Abstract(metaclass=Meta):
    pattern, when, exact, path = re.compile("a+"), datetime.timedelta(1), decimal.Decimal("0.1"), Path("here")
    array, weights = np.arange(3.0), nn.Parameter(torch.tensor([1.0, float('nan')]))
    loss = nn.CrossEntropyLoss(torch.ones(2))
    lock, log, nan, nothing = threading.RLock(), logging.getLogger("of_no_effect"), float("nan"), (...)
    flags, nested = frozenset({{"a", "b"}}), [{{"a": (1, -0.0)}}]
    @abc.abstractmethod
    def value(self): ...
    @classmethod
    def of(cls, *, by=2.0): return cls()
    @staticmethod
    def twice(x): return 2 * x
    half = functools.partialmethod(pow, 2)
    class Within: more = 1.0
class Slotted:
    __slots__ = "x", "__dict__"
    def __init__(self, x=1.0): self.x = x
    @property
    def y(self): return self.x
    @y.setter
    def y(self, x): self.x = x
class Flag(enum.Flag):
    A = enum.auto()
    B = enum.auto()
class Bits(enum.IntFlag):
    A = 1
    B = 2
class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(context, x): return x
    @staticmethod
    def backward(context, gradient): return -gradient
class Number(str, enum.Enum):
    ONE = "one"
class Likeness(typing.Protocol):
    def like(self) -> "Slotted": ...
class Keys(typing.TypedDict, total=False): key: "Slotted"
@functools.total_ordering
@dataclasses.dataclass(frozen=True, slots=True)
class Data:
    x: float = 1.0
    flag: Flag = Flag.A | Flag.B
    many: list = dataclasses.field(default_factory=lambda: [1])
    def __lt__(self, other): return self.x < other.x
class Net(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.inner = nn.Linear(width, 1)
    @torch.no_grad()
    def forward(self, x): return self.inner(x)
class Concrete(Abstract):
    @functools.cached_property
    def value(self): return super().twice(1.0)
@functools.lru_cache(maxsize=None)
def cached(x, slotted=Slotted(), net=Net, *, data=Data()): return slotted.x * data.x * x
@functools.singledispatch
def sent(x): return 1.0
def numbers(upto: "int" = 3) -> typing.Iterator[int]:
    yield from (each for each in range(upto))
async def later(x): return [y async for y in x]
def recursive(x): return 1.0 if x < 1 else recursive(x - 1)
compiled = torch.compile(lambda x: x) if False else None
@torch.compile(disable=True)
def fused(x): return x
@objective("of_a_cell", needs={{Signal.SENTENCE}})
def of_a_cell(student, teacher, batch):
    used = Flag, Number, Likeness, Keys, numbers, later, Net, compiled
    scale = cached(1.0) * sent(1) * recursive(2) * Concrete().value * (len(used) + bool(Bits.A and fused))
    return Reversed.apply(student.sentence).mean() * scale
"""


def test_what_is_as_its_source_says_is_written_though_it_was_used(cell: Cell, tmp_path: Path) -> None:
    main = cell(UNCHANGED)
    (before,) = files_of(["of_a_cell"], tmp_path)
    assert loss_of(main.of_a_cell) == 18.0
    cell("Bits.A | Bits.B")
    cell("cached(3.0), Data().many, Concrete().value, Flag(3), Net().eval(), Net.__annotations__, Number('one')")
    assert files_of(["of_a_cell"], tmp_path) == [before]
    registry.load_file(before)
    assert loss() == 18.0


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
