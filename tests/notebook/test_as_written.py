"""Whether what a notebook has is what its source makes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness import registry
from harness.errors import UserError
from harness.notebook.written import files_of
from tests.notebook.cells import IMPORTS, Cell, cell, loss, loss_of

__all__ = ["cell"]  # a fixture

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
        ("one = Bare\nclass Bare: factor = 2.0\nclass Bare(one): pass", "cannot be run: NameError: name 'one'"),
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
