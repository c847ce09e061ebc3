"""Whether the functions and classes of a notebook are still what their source says: what runs get is the source.

A value that a default or a class's attribute was made of may be another by now, and an attribute or a method may have
been put in another's place since.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

from harness.errors import UserError

Definition = ast.FunctionDef | ast.ClassDef
PLAIN = (bool, int, float, str, bytes, type(None), list, tuple, dict, set, frozenset)
# What can be worked out once more without an effect.
AGAIN = (
    ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.BinOp,
    ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context,
)  # fmt: skip


def check(owner: str, value: Any, node: Definition, file: str, names: Mapping[str, Any]) -> None:
    """Raise UserError where a function or class is not what its source makes of the names around it.

    owner: what it is written for. value: as it is called by its name, so perhaps wrapped; node, file: its source.
    """
    for told, why in _otherwise(value, node, file, names):
        raise UserError(f"{owner}: {told} {why} since it was defined, and its source does not say so: define it again")


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of one type."""
    try:
        return one is other or (type(one) is type(other) and bool(one == other))
    except Exception:  # of arrays there is no one answer
        return False


def _otherwise(value: Any, node: Definition, file: str, names: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is otherwise, each with how that came about."""
    made, wrapped = value, 0
    while hasattr(made, "__wrapped__"):
        made, wrapped = made.__wrapped__, wrapped + 1
    if wrapped > len(node.decorator_list):
        yield node.name, "was wrapped"
    if isinstance(node, ast.FunctionDef):
        yield from _defaults(made, node, names)
        return
    for base, expression in zip(vars(made).get("__orig_bases__", made.__bases__), node.bases, strict=False):
        if _changed(expression, base, names):
            yield f"the base {ast.unparse(expression)} of {node.name}", "was defined again"
    within = {**names, **vars(made)}
    for name, expression in _attributes(made, node):
        if type(vars(made)[name]) in PLAIN and _changed(expression, vars(made)[name], within):
            yield f"{node.name}.{name}", "was changed, or what it was made of,"
    for part in node.body:
        method = vars(made).get(part.name) if isinstance(part, ast.FunctionDef) else None
        if not isinstance(part, ast.FunctionDef) or not isinstance(method, FunctionType) or part.decorator_list:
            continue
        code, own = method.__code__, method.__module__ == made.__module__ and "<locals>" not in method.__qualname__
        if (code.co_filename, code.co_firstlineno) == (file, part.lineno):
            yield from _defaults(method, part, within)
        elif own:
            yield f"{node.name}.{part.name}", "was put in another's place"


def _defaults(function: FunctionType, node: ast.FunctionDef, names: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parameters whose default is otherwise."""
    arguments = [*node.args.posonlyargs, *node.args.args]
    last = arguments[len(arguments) - len(node.args.defaults) :]
    now = dict(zip((each.arg for each in last), function.__defaults__ or (), strict=False))
    said = list(zip((each.arg for each in last), node.args.defaults, strict=True))
    now |= function.__kwdefaults__ or {}
    by_name = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    said += [(each.arg, given) for each, given in by_name if given]
    for name, expression in said:
        if name in now and _changed(expression, now[name], names):
            yield f"the default of {name} in {function.__qualname__}", "was changed, or what it was made of,"


def _attributes(made: type, node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """The attributes that a class's body gives a value once, but for those that decorators of ours set."""
    set_by_us = {name for each in made.__mro__ if each.__module__.startswith("harness.")
                 for name in vars(each).get("__annotations__", ())}  # fmt: skip
    found: dict[str, list[ast.expr]] = {}
    for part in node.body:
        if isinstance(part, (ast.FunctionDef, ast.ClassDef)):
            continue
        for each in ast.walk(part):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                given = part.value if isinstance(part, (ast.Assign, ast.AnnAssign)) and each in _targets(part) else None
                found.setdefault(each.id, []).append(given or ast.Call(each, [], []))
    for name, expressions in found.items():
        if len(expressions) == 1 and name in vars(made) and name not in set_by_us:
            yield name, expressions[0]


def _targets(part: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return part.targets if isinstance(part, ast.Assign) else [part.target]


def _changed(expression: ast.expr, now: Any, names: Mapping[str, Any]) -> bool:
    """Whether an expression gives another value than this; False where that cannot be told without an effect."""
    if not all(isinstance(part, AGAIN) for part in ast.walk(expression)):
        return False
    try:
        return not same(eval(compile(ast.Expression(expression), "<source>", "eval"), dict(names)), now)
    except Exception:  # it names what is not there any more
        return False
