"""The arguments of Python are those of the command line."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas
import pytest

import harness
from harness.cli import parser
from harness.errors import UserError
from harness.notebook.asking import options
from tests.conftest import environment

pytestmark = pytest.mark.usefixtures("no_figures")

LIGHT = """
import sys, harness
from harness.cli import main
assert harness.__version__ and set(harness.__all__) <= {*dir(harness)} and harness.UserError
try:
    main(["--help"])
except SystemExit:
    assert not {"torch", "pandas", "matplotlib"} & set(sys.modules)
assert main(["plan", "--study", "objectives_vs_init", "--out", sys.argv[1], "--objectives", "att_kl"]) == 0
assert not {"pandas", "matplotlib"} & set(sys.modules) - set(sys.argv[2:])
"""


@pytest.mark.parametrize("command", ["run", "plan"])
def test_every_flag_is_an_argument_and_every_argument_a_flag(command: str) -> None:
    given = inspect.signature(getattr(harness, command)).parameters
    found = subprocess.run(
        [sys.executable, "-m", "harness", command, "--help"], env=environment(), capture_output=True, text=True
    )
    flags = {word.strip("[],") for word in found.stdout.split() if word.strip("[],").startswith("--")} - {"--help"}
    assert {f"--{name.replace('_', '-')}" for name in given} == {
        f for f in flags if f.removeprefix("--").replace("-", "").isalpha()
    }
    asked = parser().parse_args([command, "--study", "sra"])
    for name, parameter in given.items():
        assert name in harness.__getattribute__(command).__doc__
        assert name == "study" or parameter.default == getattr(asked, name), name


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("--objectives att_kl", {"objectives": "att_kl"}),
        ("--objectives att_kl 0.5*att_kl+val_kl", {"objectives": ["att_kl", "0.5*att_kl+val_kl"]}),
        ("--inits 1,4 every", {"inits": [[1, 4], "every"]}),
        ("--set epochs=2 general.pack=true rate=1e-05", {"set": {"epochs": 2, "general.pack": True, "rate": 1e-5}}),
        ("--set epochs=2 --trials 3", {"set": ["epochs=2"], "trials": 3, "seeds": None}),
        ("--data=a_folder --teacher minilm", {"data": Path("a_folder"), "teacher": "minilm"}),
        ("--checkpoints a_row=m", {"checkpoints": {"a_row": "m"}}),
        ("--refresh --run-timeout 2h --workers 1", {"refresh": True, "run_timeout": "2h", "workers": 1}),
        ("", {"refresh": False}),
    ],
)  # fmt: skip
def test_values_are_said_as_words(words: str, given: dict[str, Any]) -> None:
    assert options("run", {"study": "sra", **given}) == parser().parse_args(["run", "--study", "sra", *words.split()])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"objective": "att_kl"}, "unknown argument 'objective': did you mean objectives?"),
        ({"objectives": []}, "objectives is empty"),
        ({"objectives": [object()]}, "decorate it"),
        ({"objectives": ["-0.5*att_kl"]}, "a weight must be greater than zero"),
        ({"refresh": 1}, "refresh is True or False, not 1"),
        ({"data": [1]}, r"data takes what --data does, as text or number, not \[1\]"),
        ({"seeds": "many"}, "--seeds must be a whole number, not 'many'"),
        ({"executor": "rai"}, "invalid choice: 'rai'"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(harness.UserError, match=said) as raised:
        harness.run("objectives_vs_init", out=tmp_path / "out", **given)
    assert raised.type is UserError and not list(tmp_path.glob("out/*/*/plan.json"))
    assert raised.value._render_traceback_()[0].startswith("harness: ")  # what a notebook shows


FRAME = pandas.DataFrame({"text": ["fine", "dull"] * 40, "label": ["good", "bad"] * 40})
DATA: list[tuple[Any, str]] = [
    (FRAME, "DataFrame"),
    ({"r": FRAME}, "DataFrame"),
    ({"r": [("a fine film", "good")] * 500}, "list"),
    ([("a fine film", "good")] * 500, "tuple"),
    ([{"text": "a fine film", "label": "good"}], "dict"),
]


@pytest.mark.parametrize(("tasks", "kind"), DATA, ids=[str(i) for i in range(len(DATA))])
def test_data_in_memory_are_no_task_and_not_printed(tasks: Any, kind: str, tmp_path: Path) -> None:
    said = (
        f"tasks takes names, NAME=FILE and {{NAME: FILE}}, not a {kind}: give data in memory to harness.distil, or "
        "write them into a CSV"
    )
    for command in (harness.run, harness.plan):
        with pytest.raises(harness.UserError) as raised:
            command("objectives_vs_init", tasks=tasks, out=tmp_path / "out")
        assert str(raised.value) == said
    with pytest.raises(harness.UserError, match="^set takes text and numbers, not a list$"):
        harness.plan("objectives_vs_init", set={"epochs": [1, 2]}, out=tmp_path / "out")


def test_importing_loads_nothing_heavy_and_neither_help_nor_a_plan_loads_pandas(tmp_path: Path) -> None:
    others = ["pandas"] if sys.version_info < (3, 11) else []  # by transformers 5.20, the last for 3.10
    words = [sys.executable, "-c", LIGHT, str(tmp_path / "none"), *others]
    subprocess.run(words, env=environment(), check=True, capture_output=True)
