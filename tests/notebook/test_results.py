"""What harness.run and harness.load_results give."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from html import escape
from pathlib import Path
from typing import Any

import pandas
import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib.figure import Figure

import harness
from harness.ledger import Ledger
from harness.notebook.results import Results, Shown
from tests.conftest import Harness, environment
from tests.results import table_folder

ASKED: dict[str, Any] = {
    "objectives": ["vanilla_kd", "att_kl"],
    "inits": ["every", "last"],
    "tasks": ["acceptability", "entailment"],
    "seeds": 2,
    "trials": 1,
    "set": {"epochs": 1, "train_examples": 48},
}

WITHOUT_TORCH = """
import sys, harness
found = harness.load_results(sys.argv[1], seeds=2, trials=1, set={"epochs": 1, "train_examples": 48})
found.to_pandas(), found.to_pandas(wide=True), found.best("entailment"), found._repr_html_(), found.figure("curves")
found.compare("att_kl", "vanilla_kd"), found.predictions()
assert "torch" not in sys.modules and "transformers" not in sys.modules
print(found)
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook") / "results"


@pytest.fixture(scope="module")
def found(out: Path) -> Results:
    return harness.run("objectives_vs_init", out=out, **ASKED)


def test_text_that_is_no_table_is_shown_in_a_notebook() -> None:
    shown, _ = DisplayFormatter().format(Shown("2 cells"))
    assert shown == {"text/plain": "2 cells"}, "an empty table would be shown in its place"


def test_the_table_is_the_commands_and_a_second_call_trains_nothing(
    found: Results, out: Path, call: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    again = harness.run("objectives_vs_init", out=out, **ASKED)
    assert "runs done" not in capsys.readouterr().err
    reported = call("report", "--study", "objectives_vs_init", "--out", out).stdout
    assert reported == str(found.table) == str(again) == repr(found) == found.table
    assert found.table._repr_html_() == found._repr_html_()
    assert "<table>" in found._repr_html_() and "<body" not in found._repr_html_()


def test_a_table_is_lines_or_a_matrix(found: Results, out: Path, call: Harness) -> None:
    asked = ("report", "--study", "objectives_vs_init", "--out", out)
    matrix = harness.load_results(out, layout="matrix")
    assert call(*asked, "--layout", "matrix").stdout == str(matrix.table) != str(found.table)
    assert call(*asked, "--layout", "lines").stdout == str(found.table)
    assert "objectives_vs_init: Entailment (accuracy)" in matrix.table and "sticky" in matrix._repr_html_()
    with pytest.raises(harness.UserError, match="did you mean matrix"):
        harness.load_results(out, layout="matrx")
    again = harness.run("objectives_vs_init", out=out, layout="matrix", **ASKED)
    assert str(again.table) == str(matrix.table)
    assert "scroll matrix" in (table_folder(out) / "table.html").read_text(encoding="utf-8")


def test_what_is_loaded_is_chosen_as_it_was_run(found: Results, out: Path, call: Harness) -> None:
    assert str(harness.load_results(out, "objectives_vs_init", **ASKED).table) == str(found.table)
    one = harness.load_results(out, tasks="entailment", objectives=["att_kl"])
    assert one.plan.tasks == ["entailment"] and {cell.row for cell in one.plan.cells} == {"att_kl"}
    words = ("--tasks", "entailment", "--objectives", "att_kl", "--out", out)
    assert call("report", "--study", "objectives_vs_init", *words).stdout == str(one.table)
    with pytest.raises(harness.UserError, match="with --set epochs=3 in .* with --seeds 2 --trials 1 --set epochs=1"):
        harness.load_results(out, set={"epochs": 3})
    with pytest.raises(harness.UserError, match="unknown argument 'task': did you mean tasks?"):
        harness.load_results(out, task="entailment")
    with pytest.raises(harness.UserError, match="unknown argument 'workers'"):
        harness.load_results(out, workers=2)


def test_folders_are_opened_without_torch(found: Results, out: Path) -> None:
    words = [sys.executable, "-c", WITHOUT_TORCH, str(out)]
    said = subprocess.run(words, env=environment(), check=True, capture_output=True, text=True).stdout
    assert said.rstrip() == str(found.table).rstrip()


def test_a_frame_of_runs_is_what_the_table_is_made_of(found: Results, out: Path) -> None:
    runs = found.to_pandas()
    assert len(runs) == 2 * 2 * 2 * 2 and runs.run.is_unique and set(runs.objective) == {"vanilla_kd", "att_kl"}
    assert set(runs.epochs) == {1} and (runs.seconds > 0).all() and (runs.peak_memory_mib > 0).all()
    entries = json.loads((table_folder(out) / "table.json").read_text())["entries"]
    for entry in entries:
        own = runs[(runs.cell == entry["cell"]) & runs.chosen]
        if entry["cell"]:
            assert entry["value"] == pytest.approx(100 * own.score.mean()) and entry["n"] == len(own) == 2
            assert entry["std"] == pytest.approx(100 * own.score.std())
    wide = found.to_pandas(wide=True)
    cells = [(cell.student, cell.init, cell.row) for cell in found.plan.cells]
    assert list(wide.index) == list(dict.fromkeys(cells)), "in the order of the plan"
    assert wide.shape == (4, 6) and wide.loc["transformer", "every", "att_kl"]["entailment", "n"] == 2
    one = runs[(runs.row == "att_kl") & (runs.init == "last") & (runs.task == "entailment")]
    assert wide.loc["transformer", "last", "att_kl"]["entailment", "mean"] == pytest.approx(one.accuracy.mean())


def test_what_each_run_answered(found: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered, runs = found.predictions(), found.to_pandas().query("chosen")
    assert {*answered.run} == {*runs.run} and {*answered.label} == {*answered.prediction} | {*answered.label}
    for run, own in answered.groupby("run"):
        (told,) = runs[runs.run == run].itertuples()
        assert (own[["task", "init", "row", "seed"]] == [told.task, told.init, told.row, told.seed]).all(axis=None)
        probabilities = own.filter(like="probability.").dropna(axis=1)
        assert probabilities.shape[1] == 2 and probabilities.sum(axis=1).to_numpy() == pytest.approx(1)
        assert (probabilities.idxmax(axis=1).str.removeprefix("probability.") == own.prediction).all()
        assert own.id.is_unique
        if told.task == "entailment":
            assert {*own.label} == {"entailment", "not_entailment"}
            assert (own.label == own.prediction).mean() == pytest.approx(told.accuracy)
    copied = Path(shutil.copytree(found.ledger.out, tmp_path / "copied"))
    (copied / "ledger" / told.run / "predictions.safetensors").write_bytes(b"damaged")
    left = harness.load_results(copied).predictions()
    assert {*answered.run} - {*left.run} == {told.run}
    assert f"the predictions of run {told.run} are" in capsys.readouterr().err
    none = Results(found.plan, found.ledger, replace(found.whole, runs=[]))
    with pytest.raises(harness.UserError, match="no run of objectives_vs_init that counts .* has kept its answers"):
        none.predictions()


def test_rows_are_compared_by_the_noise_of_the_table(found: Results) -> None:
    pairs = found.compare("att_kl", "Vanilla KD")
    assert list(zip(pairs.task, pairs.init, strict=True)) == [
        (task, init) for init in ("every", "last") for task in ("acceptability", "entailment")
    ]
    assert (pairs.low <= pairs.difference).all() and (pairs.difference <= pairs.high).all()
    back = found.compare("vanilla_kd", "att_kl")
    assert pairs.difference.tolist() == (-back.difference).tolist()
    assert pairs.p.tolist() == pytest.approx(back.p.tolist())
    with pytest.raises(harness.UserError, match="did you mean att_kl"):
        found.compare("att_k", "vanilla_kd")


def test_a_row_is_compared_with_one_of_other_results(found: Results) -> None:
    pairs = found.compare("att_kl", "vanilla_kd", of=found)
    pandas.testing.assert_frame_equal(pairs, found.compare("att_kl", "vanilla_kd"))  # no run is a witness twice
    assert (pairs.low <= pairs.difference).all() and (pairs.difference <= pairs.high).all()
    told = found.beside(found).whole.beside
    assert told and {one.value for _, lines in told.blocks for line in lines for one in line.found if one} == {0}
    assert "Beside other results" in str(found.beside(found).table)
    with pytest.raises(harness.UserError, match="other must be results, as .* gives them, not None"):
        found.beside(None)  # type: ignore[arg-type]
    same = found.compare("att_kl", "att_kl", of=found)
    assert (same.difference == 0).all() and (same.p == 1).all(), "which are the same runs"
    failed = _failed(found, "vanilla_kd", ["acceptability", "entailment"])
    with pytest.raises(harness.UserError, match="finished in both: vanilla_kd failed on acceptability and entailment"):
        found.compare("att_kl", "vanilla_kd", of=failed)
    with pytest.raises(harness.UserError, match="of must be results, as .* gives them, not 'results'"):
        found.compare("att_kl", "vanilla_kd", of="results")  # type: ignore[arg-type]
    for changes, why in (({"task": "rte"}, "none is of the same"), ({"metric": "speed_ratio"}, "vs_init has no")):
        columns = tuple(replace(column, **changes) for column in found.whole.columns)
        with pytest.raises(harness.UserError, match=why):
            found.compare("att_kl", "vanilla_kd", of=replace(found, whole=replace(found.whole, columns=columns)))


def _failed(found: Results, row: str, tasks: list[str], status: str = "failed") -> Results:
    """The results as if no cell of a row on these tasks were finished."""
    gone = {"status": status, "chosen": False, "score": None}
    runs = [{**run, **gone} if run["row"] == row and run["task"] in tasks else run for run in found.whole.runs]
    at = [column.task in tasks for column in found.whole.columns]

    def changed(line: Any) -> Any:
        told = {"status": status, "value": None, "runs": ()}
        entries = (replace(one, **told) if out else one for one, out in zip(line.entries, at, strict=True))
        return replace(line, entries=tuple(entries)) if line.row.name == row else line

    blocks = [replace(block, lines=tuple(map(changed, block.lines))) for block in found.whole.blocks]
    return Results(found.plan, found.ledger, replace(found.whole, blocks=tuple(blocks), runs=runs))


def test_a_line_without_a_score_has_n_0(found: Results) -> None:
    wide = _failed(found, "att_kl", ["acceptability", "entailment"]).to_pandas(wide=True)
    assert list(wide) == list(found.to_pandas(wide=True)) and len(wide) == 4
    failed = wide.xs("att_kl", level="row").xs("n", axis=1, level=1)
    assert (failed == 0).all(axis=None) and {*map(str, failed.dtypes)} == {"int64"}
    assert wide.loc["transformer", "last", "att_kl"].isna().sum() == 4


def test_a_comparison_says_what_failed(found: Results, capsys: pytest.CaptureFixture[str]) -> None:
    left = _failed(found, "att_kl", ["entailment"]).compare("att_kl", "vanilla_kd")
    assert set(left.task) == {"acceptability"}
    said = "att_kl failed on entailment (harness show "
    assert f"left out: {said}" in capsys.readouterr().err
    with pytest.raises(harness.UserError, match="finished in both: att_kl failed on acceptability and entailment"):
        _failed(found, "att_kl", ["acceptability", "entailment"]).compare("vanilla_kd", "att_kl")
    columns = tuple(replace(column, metric="seconds") for column in found.whole.columns)
    measured = Results(found.plan, found.ledger, replace(found.whole, columns=columns))
    with pytest.raises(harness.UserError, match="objectives_vs_init has no scores"):
        measured.compare("att_kl", "vanilla_kd")


@pytest.mark.parametrize(("status", "told"), [("failed", "failed"), ("impossible", "cannot be")])
def test_where_nothing_is_best_it_is_told_why(found: Results, status: str, told: str) -> None:
    both = _failed(_failed(found, "att_kl", ["entailment"], status), "vanilla_kd", ["entailment"], status)
    with pytest.raises(harness.UserError, match=f"no cell is finished yet: .*att_kl {told} on entailment"):
        both.best("entailment")
    assert both.best("acceptability").task == "acceptability"
    average = [replace(line, entries=(*line.entries[:-1], replace(line.entries[-1], status="absent", value=None)))
               for block in both.whole.blocks for line in block.lines]  # fmt: skip
    whole = replace(both.whole, blocks=(replace(both.whole.blocks[0], lines=tuple(average)),))
    with pytest.raises(harness.UserError, match="heatmap, because it needs a row that is finished on every task"):
        Results(both.plan, both.ledger, whole).figure("heatmap")


def test_columns_come_in_one_order_whatever_the_plan_was_read_from(found: Results, out: Path) -> None:
    again = harness.run("objectives_vs_init", out=out, **ASKED)
    for other in (again, harness.load_results(out)):
        pandas.testing.assert_frame_equal(found.to_pandas(), other.to_pandas())


def test_one_column_is_asked_for_as_a_word(found: Results, out: Path) -> None:
    assert (
        harness.load_results(out, columns="parameters").table == harness.load_results(out, columns=["parameters"]).table
    )
    with pytest.raises(harness.UserError, match="unknown column 'paramters': did you mean parameters?"):
        harness.load_results(out, columns="paramters")


@pytest.mark.parametrize(
    "asked",
    [
        lambda out, _: harness.load_results(out, columns=1),
        lambda out, _: harness.load_results(out, columns=[1]),
        lambda out, _: harness.load_results(out, layout=1),
        lambda out, _: harness.load_results(out, against=["att_kl"]),
        lambda out, _: harness.load_results(out, ["objectives_vs_init"]),
        lambda out, _: harness.load_results(out, plugin=1),
        lambda *_: harness.load_results(1),
        lambda _, found: found.compare([], "att_kl"),
        lambda _, found: found.best(1),
        lambda _, found: found.figure(None),
        lambda *_: harness.load(1),
        lambda *_: harness.run("objectives_vs_init", out=1),
        lambda *_: harness.distil("embedded", "sentiment", study=1),
        lambda *_: harness.distil("embedded", "sentiment", out=None),
    ],
)
def test_arguments_of_another_type_are_refused_in_a_sentence(asked: Any, found: Results, out: Path) -> None:
    with pytest.raises(harness.UserError, match=r"^\w+ is (given as text|a name|a file)[\w ,]* not .+$"):
        asked(out, found)


def test_the_best_is_that_of_a_task(found: Results) -> None:
    best = found.best("acceptability")
    runs = found.to_pandas().query("chosen and task == 'acceptability'")
    assert best.score == pytest.approx(runs.groupby("cell").score.mean().max())
    own = runs[runs.cell == best.cell]
    assert best.run == own.loc[own.selection.astype(float).idxmax(), "run"] and best.row == own.row.iloc[0]
    with pytest.raises(harness.UserError, match=r"best\('acceptability'\)"):
        found.best()
    with pytest.raises(harness.UserError, match="unknown task 'entail': did you mean entailment"):
        found.best("entail")


def test_what_is_loaded_is_of_the_run_that_is_best_now(found: Results, out: Path) -> None:
    best = found.best("acceptability")
    best.load()
    runs = found.to_pandas().query("chosen and cell == @best.cell").run
    (other,) = set(runs) - {best.run}
    replace(best, run=other).load()  # as where a further seed has become the best of the cell
    told = [json.loads(path.read_text())["made"]["run"] for path in out.glob("students/*/harness_student.json")]
    assert sorted(told) == sorted(runs)


def test_a_run_that_was_made_anew_is_exported_anew(found: Results, out: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(out, tmp_path / "copied")
    best = replace(found.best("acceptability"), out=copied)
    best.load()
    ledger = Ledger(copied)
    record = ledger.read(best.run)
    assert record is not None
    predictions = ledger.predictions(best.run)
    ledger.write(best.run, {**record, "seconds": 0.5}, predictions)  # as `--refresh` does
    best.load()
    best.load()
    assert len(list(copied.glob(f"students/{best.run}*/harness_student.json"))) == 2


def test_rows_that_are_equally_good_are_told(found: Results, capsys: pytest.CaptureFixture[str]) -> None:
    def valued(values: list[float]) -> Results:
        return _valued(found, values, [value > max(values) - 1e-12 for value in values])

    assert valued([0.5, 0.75, 0.25, 0.5]).best("entailment").score == 0.75 and not capsys.readouterr().err
    best = valued([0.5, 1.0, 0.5, 1.0]).best("entailment")
    assert (best.row, best.init) == ("att_kl", "every")
    assert capsys.readouterr().err == (
        "harness: 2 rows are equally good (100.0): this is the first, att_kl (transformer, init every); as good are "
        "att_kl (transformer, init last), each of which harness export takes by the id of its cell\n"
    )


def _valued(found: Results, values: list[float], best: list[bool], reference: int | None = None) -> Results:
    """The results with these values, line by line; reference: the line whose row does not compete."""
    left = iter(enumerate(values))

    def changed(line: Any) -> Any:
        place, value = next(left)
        entries = tuple(replace(one, value=value, best=best[place]) for one in line.entries)
        row = replace(line.row, reference=True) if place == reference else line.row
        return replace(line, row=row, entries=entries)

    blocks = [replace(block, lines=tuple(map(changed, block.lines))) for block in found.whole.blocks]
    return Results(found.plan, found.ledger, replace(found.whole, blocks=tuple(blocks)))


def test_equal_means_of_other_runs_are_equally_good(found: Results, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (0.914 + 0.999) / 2, (0.938 + 0.975) / 2
    assert one != other
    values = [min(one, other), max(one, other), 0.5, 0.25]
    best = _valued(found, values, [True, True, False, False]).best("entailment")
    assert best.cell == found.whole.blocks[0].lines[0].entries[1].cell
    assert "2 rows are equally good" in capsys.readouterr().err


def test_a_reference_is_best_only_where_there_is_nothing_else(found: Results) -> None:
    best = _valued(found, [0.5, 0.25, 0.9, 0.3], [False] * 4, reference=2).best("entailment")
    assert best.score == 0.5


def test_a_quantity_has_no_best(found: Results) -> None:
    columns = tuple(replace(column, metric="seconds") for column in found.whole.columns)
    with pytest.raises(harness.UserError, match="seconds is not a score"):
        Results(found.plan, found.ledger, replace(found.whole, columns=columns)).best("entailment")


def test_a_record_tells_what_it_was_made_on_and_the_page_shows_it(found: Results, out: Path) -> None:
    told = found.ledger.read(found.best("entailment").run)["made_on"]
    text = (table_folder(out) / "table.html").read_text(encoding="utf-8")
    ended = datetime.fromisoformat(told.pop("ended"))
    assert timedelta() <= datetime.now(timezone.utc) - ended < timedelta(hours=1)
    assert told["machine"] and all(f"<dd>{escape(each)}" in text for each in (*told.values(), ended.date().isoformat()))


def test_the_best_student_is_opened_and_asked(
    found: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = found.best("acceptability")
    said = best.load().predict(["the dog sees the cat .", "dog the sees ."])
    assert len(said) == 2 and said == harness.load(best.export(tmp_path / "student")).predict(
        ["the dog sees the cat .", "dog the sees ."]
    )
    assert not capsys.readouterr().out, "what the command prints"


@pytest.mark.parametrize("name", ["heatmap", "curves"])
def test_figures_are_matplotlibs_and_a_notebook_shows_them(found: Results, name: str) -> None:
    figure = found.figure(name)
    assert isinstance(figure, Figure) and figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    with pytest.raises(harness.UserError, match="nothing to draw in points, because .*: valid names: curves, heatmap"):
        found.figure("points")
    with pytest.raises(harness.UserError, match="unknown figure"):
        found.figure("pie")


def test_a_plan_says_what_the_command_prints(found: Results, out: Path, call: Harness) -> None:
    planned = harness.plan("objectives_vs_init", out=out, **ASKED)
    words = ["--objectives", *ASKED["objectives"], "--inits", *ASKED["inits"], "--tasks", *ASKED["tasks"], "--seeds", 2]
    words += ["--trials", 1, "--set", "epochs=1", "train_examples=48", "--out", out]
    said = call("plan", "--study", "objectives_vs_init", *words).stdout
    assert str(planned.text) == said.rstrip("\n") and "16 runs, 0 missing" in said
    assert planned.to_pandas()[["row", "init", "task"]].equals(
        pandas.DataFrame([[c.row, c.init, c.task] for c in found.plan.cells], columns=["row", "init", "task"])
    )


def test_a_folder_of_several_studies_asks_which(found: Results, out: Path) -> None:
    one = {**ASKED, "objectives": ["vanilla_kd"], "inits": ["every"], "tasks": ["entailment"], "seeds": 1}
    harness.run("objectives_vs_init", profile="small", out=out, teacher="embedded", data="embedded", **one)
    with pytest.raises(harness.UserError, match=r"vs_init \(profile quick\), .*say which by --study and --profile"):
        harness.load_results(out)
    assert harness.load_results(out, profile="quick").plan.profile == "quick"
    with pytest.raises(harness.UserError, match="study sra has no results"):
        harness.load_results(out, "sra")
    with pytest.raises(harness.UserError, match="there are no results in"):
        harness.load_results(out / "none")
