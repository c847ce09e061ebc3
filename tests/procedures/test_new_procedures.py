"""Procedures are plugins: two of them, each a file of its own, plan, train, go on after a kill and stand in a table."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from harness import registry
from harness.contracts import LayerMap
from harness.procedures.base import PlannedStage
from tests.conftest import ROOT
from tests.faults.killing import run_and_kill
from tests.launching import forked
from tests.results import done, records, same_runs

ROOM = Path(registry.__file__).parent / "procedures"
STUDY = """
from harness.contracts import Profile, Row, Study
from harness.registry import study

SETTINGS = {"epochs": 6, "batch_size": 8, "learning_rate": 1e-3, "max_length": 32, "train_examples": 160}
SETTINGS["transformer.layers"] = 2
study(
    Study(
        name="steps",
        title="Steps",
        question="In how many steps does a student learn?",
        procedure="two_stage",
        rows=(
            Row("two", "hid_seq", "Two stages"),
            Row("layers", "hid_seq", "Layer by layer", procedure="layerwise"),
            Row("helped", "hid_seq", "By an assistant", procedure="helper"),
            Row("values", "minilm", "The last layer at each", procedure="layerwise"),
            Row("contrast", "hid_cls_contrast", "All layers at each", procedure="layerwise"),
        ),
        students=("transformer",),
        profiles={
            "quick": Profile(
                "embedded", ("sentiment",), ("every",), trials=1, seeds=1, settings=SETTINGS
            ),
            "small": Profile(
                "embedded", ("sentiment",), ("every",), trials=2, seeds=1, search={"learning_rate": (0.0007, 0.0003)},
                settings={"transformer.layers": 2},
            ),
        },
    )
)
"""


@pytest.fixture(scope="module")
def words(often: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The arguments of a study whose procedures are ours under other names, in files outside the distribution."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "steps.py").write_text(STUDY)
    layers = (ROOM / "progressive.py").read_text().replace('("progressive")', '("layerwise")')
    (folder / "layers_alone.py").write_text(layers)
    helper = (ROOM / "assistant.py").read_text().replace('@procedure("assistant")', '@procedure("helper")')
    helper = helper.replace('str] = "assistant"', 'str] = "helper"').replace('str] = "assisted"', 'str] = "helped"')
    (folder / "a_helper.py").write_text(helper)
    plugins = [word for path in (*sorted(folder.glob("*.py")), often) for word in ("--plugin", str(path))]
    return ("--study", "steps", *plugins, "--workers", "2")


@pytest.fixture(scope="module")
def trained(words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("steps")
    return folder / "out", done(forked("run", *words, "--out", folder / "out", folder=folder / "said")).stdout


@pytest.mark.parametrize("name", ["progressive", "assistant"])
def test_each_is_one_short_file(name: str) -> None:
    assert len((ROOM / f"{name}.py").read_text().splitlines()) <= 120


def test_their_rows_stand_beside_two_stage(trained: tuple[Path, str]) -> None:
    for label in ("Two stages", "Layer by layer", "By an assistant"):
        (line,) = [line for line in trained[1].splitlines() if line.strip().startswith(label)]
        assert any(character.isdigit() for character in line), line
    assert "Assistant by hid_seq, init every, once (seed 0), on sentiment: " in trained[1]


def test_what_they_train_is_what_they_say(trained: tuple[Path, str]) -> None:
    found = {record["specification"]["kind"]: record for record in records(trained[0]).values()}
    (run,) = records(trained[0], "helper")
    assert found["helper"]["specification"]["settings"]["transformer.layers"] == 3  # half way from 2 to 4
    assert found["helped"]["specification"]["assistant"] == run and run in found["helped"]["started_from"]
    assert found["helped"]["teacher_signals"] == {"hidden_states": "stored", "logits": "stored"}
    layers = next(r for r in records(trained[0]).values() if r["specification"].get("procedure") == "layerwise")
    stages = [entry["stage"] for entry in layers["curve"]]
    assert stages == ["intermediate 1"] * 3 + ["intermediate 2"] * 3 + ["prediction"] * 6
    assert layers["specification"]["plugins"].keys() == {"procedure layerwise"}


def test_an_assistant_is_between_the_two(words: tuple[str, ...], tmp_path: Path) -> None:
    asked = ("plan", *words, "--out", tmp_path / "none", "--objectives", "helped")
    said = forked(*asked, "--set", "transformer.layers=3", folder=tmp_path / "said")
    assert "an assistant of 3 layers is not between a student of 3 and a teacher of 4" in said.stdout
    said = forked(*asked, "--students", "bilstm", "--inits", "random", folder=tmp_path / "said")
    assert "a student bilstm has no setting layers" in said.stdout


def test_one_assistant_is_not_of_a_teacher_for_each_seed(words: tuple[str, ...], tmp_path: Path) -> None:
    asked = ("plan", *words, "--out", tmp_path / "none", "--objectives", "helped", "--teacher", "embedded:train")
    said = forked(*asked, "--seeds", "2", "--set", "teacher.seeds=2", folder=tmp_path / "said")
    assert "an assistant is made once, by one teacher, and teacher.seeds gives each seed a teacher" in said.stdout


@pytest.mark.parametrize(
    ("row", "epochs", "sentence"),
    [
        ("values", 6, "refused: progressive transfers one layer after another, but minilm compares others beside"),
        ("contrast", 6, "but hid_cls_contrast compares others beside"),
        ("layers", 1, "refused: progressive divides the epochs among 2 layers, and 1 are too few"),
    ],
)
def test_layers_one_after_another_are_just_that(
    words: tuple[str, ...], row: str, epochs: int, sentence: str, tmp_path: Path
) -> None:
    asked = ("plan", *words, "--out", tmp_path / "none", "--objectives", row, "--set", f"epochs={epochs}")
    assert sentence in forked(*asked, folder=tmp_path / "said").stdout


def test_their_epochs_are_those_of_one_stage() -> None:
    for epochs, shares in ((6, [2, 2, 2]), (5, [2, 2, 1]), (3, [1, 1, 1])):
        parts = [PlannedStage("", "hid_seq", LayerMap(()), False, 3, part) for part in range(3)]
        assert [stage.share(epochs) for stage in parts] == shares


def test_an_assistant_learns_as_a_search_would_try_first(words: tuple[str, ...], tmp_path: Path) -> None:
    asked = ("plan", *words, "--profile", "small", "--out", tmp_path / "none", "--objectives", "helped")
    said = forked(*asked, folder=tmp_path / "said")
    (line,) = [x for x in said.stdout.splitlines() if x.startswith("Assistant by")]
    assert "learning_rate 0.0007;" in line, "not the default of a setting that is searched"


def test_a_kill_changes_nothing(trained: tuple[Path, str], words: tuple[str, ...], tmp_path: Path) -> None:
    out = Path(shutil.copytree(trained[0], tmp_path / "out"))
    for run, record in records(out).items():
        of = record["specification"]
        if of["kind"] in ("helper", "helped") or of.get("procedure") == "layerwise":
            shutil.rmtree(out / "ledger" / run)
    run_and_kill(["run", *words[:-1], "1", "--out", out], out)
    assert len(records(out)) < len(records(trained[0]))
    done(forked("run", *words, "--out", out, folder=tmp_path / "said"))
    same_runs(out, trained[0])


def test_the_page_on_them_is_followed_word_by_word(tmp_path: Path) -> None:
    section = (ROOT / "docs/plugins/procedure.md").read_text(encoding="utf-8")
    (tmp_path / "labels_first.py").write_text(re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S)[0])
    listed, run = (line.split()[1:] for line in re.findall(r"^(harness .*)$", section, re.M))
    said = forked(*listed, folder=tmp_path / "said", cwd=tmp_path)
    assert re.search(r"^labels_first +By the labels alone, then by the row's objective\.$", said.stdout, re.M)
    said = forked(*run, "--inits", "every", "--seeds", "1", folder=tmp_path / "said", cwd=tmp_path)
    assert said.returncode == 0 and "Labels, then vanilla KD" in said.stdout, said.stderr
    made = [r for r in records(tmp_path / "results").values() if r["specification"].get("procedure") == "labels_first"]
    assert [entry["stage"] for entry in made[0]["curve"]] == ["labels", "labels", "prediction", "prediction"]
    assert made[0]["code"].keys() >= {"labels_first", "labels_only", "vanilla_kd"}
