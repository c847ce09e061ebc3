"""harness figures: files for a paper, with their data, and why some are not there."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from harness.files import half_written
from tests.commands import results
from tests.conftest import Harness
from tests.results import refused

POINTS = [{"stage": "prediction", "epoch": i, "loss": 1 / i, "selection": i / 4} for i in (1, 2)]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder of results of two cells, whose runs have learning curves."""
    ledger = results.finished(tmp_path / "out")
    for name in ("vanilla_kd", "att_kl"):
        results.record(ledger, results.student(name), 0.5, curve=POINTS)
    return ledger.out


def figures(call: Harness, out: Path, *words: object) -> list[str]:
    process = call("figures", *words, "--study", "objectives_vs_init", "--out", out)
    assert process.returncode == 0, process.stderr
    return process.stderr.splitlines()


def test_every_figure_is_written_for_both_widths_with_its_data(out: Path, call: Harness) -> None:
    said = figures(call, out)
    folder = out / results.PLAN.parent / "figures"
    names = {path.name for path in folder.iterdir()}
    widths = ("one_column", "two_columns")
    kinds = [
        (name, width, form) for name in ("heatmap", "curves") for width in widths for form in ("svg", "pdf", "png")
    ]
    assert names >= {"heatmap.csv", "curves.csv", *(f"{name}_{width}.{form}" for name, width, form in kinds)}
    rows = list(csv.DictReader((folder / "heatmap.csv").open()))
    assert [(row["row"], row["score"]) for row in rows] == [("Vanilla KD", "50.0"), ("Att-KL", "50.0")]
    (why,) = [line for line in said if "points" in line.split(" is not drawn")[0]]
    assert why == (
        "harness: points is not drawn: it needs finished cells of rows that stand at points of an axis, as those of a "
        "study of sizes do"
    )
    assert "pareto is not drawn" in " ".join(said), "nothing has told a number of parameters"


def test_the_same_table_gives_the_same_files(out: Path, call: Harness, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / f".heatmap.csv.{2**31 - 1}.tmp").write_text("half")  # of a process that was killed
    for place in ("one", "other"):
        assert not figures(call, out, "heatmap", "--width", "one", "--to", tmp_path / place)
    one, other = ({path.name: path.read_bytes() for path in (tmp_path / place).iterdir()} for place in ("one", "other"))
    assert one == other and {*one} == {"heatmap.csv", *(f"heatmap_one_column.{form}" for form in ("svg", "pdf", "png"))}
    pdf = one["heatmap_one_column.pdf"]
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf and b"Date" not in pdf  # TrueType, embedded


def test_stopped_while_it_writes_it_leaves_no_figure_of_an_earlier_table(
    out: Path, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(place: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (tmp_path / place).iterdir()}

    def files(place: str) -> dict[str, bytes]:
        assert not figures(call, out, "heatmap", "--width", "one", "--to", tmp_path / place)
        return read(place)

    def begun(path: Path) -> Path:
        if path.suffix == ".pdf":
            raise KeyboardInterrupt
        return half_written(path)

    def named(half: Path, path: Path) -> None:
        rename(half, begun(path) and path)

    before, rename = files("to"), os.replace
    results.record(results.Ledger(out), results.student("att_kl"), 0.75, curve=POINTS)
    calm = files("calm")
    last = "heatmap_one_column.png"  # which gets its name first
    for place, stop, kept in (
        ("harness.files.half_written", begun, before),
        ("harness.files.os.replace", named, {last: calm[last]}),
    ):
        with monkeypatch.context() as patch, pytest.raises(AssertionError):
            patch.setattr(place, stop)
            files("to")
        assert read("to") == kept
    assert files("to") == calm != before


def test_a_figure_that_is_named_has_the_columns_that_it_needs(out: Path, call: Harness, tmp_path: Path) -> None:
    run = results.student("vanilla_kd")
    results.record(results.Ledger(out), run, 0.5, parameters=1000)
    figures(call, out, "pareto", "--width", "one", "--to", tmp_path / "one")
    (row,) = csv.DictReader((tmp_path / "one" / "pareto.csv").open())
    assert (row["measured"], row["x"], row["score"]) == ("parameters", "1000", "50.0")


def test_of_a_figure_that_no_width_has_room_for_the_data_are_written_and_no_figure_is_told(
    out: Path, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.reports.figures.drawing._fits", lambda figure: len(figure.axes) < 3)
    process = call("figures", "heatmap", "curves", "--out", out, "--to", tmp_path / "to")
    names = {path.name for path in (tmp_path / "to").iterdir()}
    assert process.returncode == 0 and {name for name in names if "curves" in name} == {"curves.csv"}
    assert "heatmap_one_column.pdf" in names and "curves: " not in process.stdout
    last = process.stdout.splitlines()[-1]
    assert last.startswith("1 figure, as svg, pdf, png and csv, and of curves the data alone, in ")
    assert "6.9 inches: --objectives, --students or --inits draw fewer rows" in process.stderr
    process = call("figures", "curves", "--out", out, "--to", tmp_path / "new")
    assert process.returncode == 2 and "none of these figures can be drawn" in process.stderr


def test_what_is_not_there_is_refused(out: Path, call: Harness) -> None:
    words = ("--study", "objectives_vs_init", "--out", out)
    (out / "file").write_text("")
    refused(call("figures", "heatmap", "--to", out / "file", *words), "file is a file, not a folder")
    refused(call("figures", "heat_map", *words), "unknown figure 'heat_map': did you mean heatmap")
    process = call("figures", "masked_words", *words, "--to", out / "new" / "folder")
    assert process.returncode == 2 and "none of these figures can be drawn" in process.stderr
    assert not (out / "new").exists()
