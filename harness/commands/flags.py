"""What the flags of several commands are, and how a wrong one is told; `harness.cli` makes commands of these."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import harness
from harness.commands import words
from harness.errors import UserError, close, near

SEVERAL: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}  # of a flag that may be given again


class Parser(argparse.ArgumentParser):
    """argparse, because options here take several words (--objectives A B); its errors become one sentence."""

    words: Sequence[str] = ()  # what it is to parse
    elsewhere: Mapping[str, Sequence[str]] = {}  # flag -> the commands that have it

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        self.words = sys.argv[1:] if args is None else args
        for word in self.words:
            if re.match(r"-[\d.]+\s*\*", word):  # argparse would take it for a flag
                raise UserError(
                    f"objective {word!r} begins with a weight below zero: a loss is made smaller, so a weight must be "
                    "greater than zero, as in '0.5*att_kl+val_kl'"
                )
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:  # said by the command that does not know the flag, so that near ones are its own
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        for action in self._actions:
            given = getattr(found, action.dest, None)
            if given != action.default and "" in (given if isinstance(given, list) else [given]):
                self.error(f"{'/'.join(action.option_strings) or action.metavar} is empty")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        first = next((word for word in self.words[:1] if not word.startswith("-")), None)
        options = [option for action in self._actions for option in action.option_strings]
        meant = message.endswith(": --study") and first is not None
        flags = [word.partition("=")[0] for word in self.words if re.match(r"--\w", word)]
        if "are required" in message and (wrong := [flag for flag in flags if flag not in options]):
            message = f"unrecognized arguments: {wrong[0]}"  # it may be what is missed, misspelt
        if message.startswith("unrecognized arguments: "):
            word = message.removeprefix("unrecognized arguments: ").split()[0]
            flag, meant = word.startswith("-"), "--study" in options and word == first
            unexpected = f"unexpected word {word!r}{self._after(word)}"
            message = f"unknown flag {word!r}: {self._whose(word, options)}" if flag else unexpected
        if meant:
            message = f"{message}: did you mean --study {first}?"
        if found := re.fullmatch(r"argument (\S+): invalid choice: '([^']*)' \(choose from (.*)\)", message):
            where, word, valid = found.groups()
            what = "unknown command" if where == "COMMAND" else f"argument {where}: invalid choice:"
            names = valid.replace("'", "").split(", ")  # which some versions of Python quote
            message = f"{what} {word!r}: {close(word, names) or 'choose from ' + ', '.join(names)}"
        if found := re.fullmatch(r"argument (\S+): invalid (int|float) value: (.*)", message):
            where, kind, word = found.groups()
            message = f"{where} must be a {'whole ' * (kind == 'int')}number, not {word}"
        if found := re.fullmatch(r"the following arguments are required: (\S+)", message):
            message += "".join(f", {each.help}" for each in self._actions if _lists_names(each, found[1]))
        raise UserError(f"{message} ({self.prog} --help tells the rest)")

    def _after(self, word: str) -> str:
        """Of a word too many that the flag before it takes one alone, as --seeds, which says how many there are."""
        before = list(self.words)[: list(self.words).index(word)] if word in self.words else []
        flag = next((each for each in reversed(before) if each.startswith("-")), "")
        takes_one = any(flag in action.option_strings and action.nargs is None for action in self._actions)
        return f": {flag} takes one value" if takes_one else ""

    def _whose(self, word: str, options: Sequence[str]) -> str:
        """What to type in place of an unknown flag, or which commands have it."""
        others = self.elsewhere.get(word.partition("=")[0])
        return f"it is a flag of {', '.join(others)}" if others else near(word, options)


def _lists_names(action: argparse.Action, name: str) -> bool:
    return action.metavar == name and (action.help or "").startswith("one of ")


def acquaint(commands: Iterable[Parser]) -> None:
    """Let each command know the flags of the others, to say whose an unknown flag is."""
    elsewhere: dict[str, list[str]] = {}
    for command in dict.fromkeys(commands):  # one with two names is there twice
        for flag in (option for action in command._actions for option in action.option_strings):
            elsewhere.setdefault(flag, []).append(command.prog)
    for command in commands:
        command.elsewhere = elsewhere


class Version(argparse.Action):
    """Looked up only where it is asked for."""

    def __call__(self, parser: Any, *_: Any) -> None:
        print(f"harness {harness.__version__}")
        parser.exit()


def kind(made: bool = False) -> Parser:
    """The flags that say which study, of which kind, and where its results are. made: only what is there is read."""
    found = Parser(add_help=False)
    add, sizes = found.add_argument, "quick|small|paper"
    if made:
        add("--study", metavar="NAME", help="the study (default: the only one with results)")
        add("--profile", metavar=sizes, help="its size (default: quick, or the only one with results)")
    else:
        add("--study", required=True, metavar="NAME", help="the study (harness list studies shows all)")
        add("--profile", default="quick", metavar=sizes, help="its size (default: quick)")
    add(
        "--teacher",
        nargs="+",
        metavar="NAME",
        help="embedded, embedded:train, minilm, mpnet, fairseq:FOLDER, a hub name or a folder; several joined by + "
        "(their mean probabilities); TASK=NAME ... for one per task",
    )
    add("--corpus", metavar="TEXT", help="unlabelled text: a file, a folder, embedded, pydoc or hub:NAME")
    add("--out", default="results", metavar="DIR", help="the folder of results (default: results)")
    add("--seeds", type=int, metavar="N", help="runs of each cell's best setting")
    add("--trials", type=int, metavar="N", help="settings to try in each cell")
    add("--set", **SEVERAL, metavar="KEY=VALUE", help="fix a setting; teacher.KEY for the teacher's")
    add(
        "--search",
        **SEVERAL,
        metavar="KEY=A,B",
        help="try these values of a setting in each cell; KEY=LOW..HIGH: try --trials values of a range",
    )
    add("--plugin", **SEVERAL, metavar="FILE", help="load plugins from a Python file")
    return found


def selection(made: bool = False) -> Parser:
    """The flags of those who work on a study, and of those who look at it: what was run is found by its own flags."""
    found = Parser(add_help=False, parents=[kind(made)])
    add = found.add_argument
    add("--data", metavar="DIR", help="a folder in GLUE's official layout or fairseq's, or hub")
    add(
        "--checkpoints",
        nargs="+",
        default=[],
        metavar="ROW[=MODEL]",
        help="also fine-tune these models on the labels: rows of the study, or hub names and folders of your own",
    )
    add(
        "--baselines",
        action="store_true",
        help="add two reference rows: the commonest class or mean score, and a regression on tf-idf",
    )
    add(
        "--controls",
        action="store_true",
        help="add control rows: label smoothing, and vanilla KD from random weights, from shuffled answers and from a "
        "student of the same kind",
    )
    add(
        "--objectives",
        nargs="+",
        metavar="A",
        help="only these rows of the study (harness plan prints their names), objectives (harness list objectives), or "
        "sums of objectives (0.5*att_kl+val_kl)",
    )
    for flag in ("students", "inits"):
        add(f"--{flag}", nargs="+", metavar="A", help=f"only these {flag}")
    tasks = "only these tasks; your own data as NAME=FILE, NAME=FOLDER or NAME=hub:DATASET[:CONFIG] (docs/own_data.md)"
    add("--tasks", nargs="+", metavar="A", help=tasks)
    return found


def add_layout(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--layout",
        choices=words.LAYOUTS,
        help="lines: one line per row, one column per task; matrix: for each task, rows by students and "
        "initialisations (default: the study's)",
    )


def add_columns(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--columns",
        **SEVERAL,
        choices=words.COLUMNS,
        help="add each model's size, and how fast it encodes here (measured once, from kept weights)",
    )
