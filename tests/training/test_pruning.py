"""Pruners: a decision follows from what the run is, and is the one that a search without interruption would take."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.ledger import Ledger
from harness.runs import StudentRun
from harness.training.pruning import pruner
from tests.conftest import Harness
from tests.training.builders import a_run

Curves = list[list[float]]
STUDY = """
from harness.contracts import Profile, Row, Study
from harness.registry import study

study(
    Study(
        name="slow_learners",
        title="Slow learners",
        question="Which of them are stopped?",
        procedure="one_stage",
        rows=(Row("labels_only", "labels_only", "Labels only"),),
        students=("transformer",),
        profiles={
            "quick": Profile(
                teacher="minilm",
                tasks=("sst2",),
                inits=("every",),
                trials=4,
                seeds=1,
                settings={
                    "transformer.layers": 1, "epochs": 4, "max_length": 16, "teacher.epochs": 1, "batch_size": 16
                },
                search={"learning_rate": (3e-3, 2e-3, 2e-7, 1e-7)},
            )
        },
    )
)
"""


def decide(name: str, before: Sequence[Sequence[float]], epochs: int) -> Any:
    return pruner(a_run(StudentRun, settings={"pruner": name, "epochs": epochs}, before=before))


def trained(name: str, before: Curves, scores: Sequence[float]) -> list[float]:
    """The curve of a trial that would have these scores: as far as the pruner lets it come."""
    should_prune = decide(name, before, len(scores))
    for epoch in range(1, len(scores)):
        if should_prune(scores[:epoch]):
            return list(scores[:epoch])
    assert not should_prune(scores)  # with all its epochs it stays a candidate
    return list(scores)


def test_the_median_of_the_trials_that_were_not_stopped() -> None:
    first, second = [0.5, 0.6, 0.7], [0.6, 0.7, 0.8]
    assert trained("median", [], [0.0, 0.0, 0.0]) == [0.0, 0.0, 0.0]  # nothing to compare with
    assert trained("median", [first], [0.4, 0.9, 0.9]) == [0.4]  # behind 0.5
    assert trained("median", [first], [0.5, 0.5, 0.9]) == [0.5, 0.5]  # level with 0.5, then behind 0.6
    assert trained("median", [first, second], [0.55, 0.65, 0.0]) == [0.55, 0.65, 0.0]  # level; the best so far counts
    assert trained("median", [first, second], [0.54, 0.9, 0.9]) == [0.54]  # behind 0.55
    assert trained("median", [first, [0.1], second], [0.54, 0.9, 0.9]) == [0.54]  # a stopped trial does not count
    assert trained("median", [first, [0.1, 0.9, 0.9], second], [0.52, 0.9, 0.9]) == [0.52, 0.9, 0.9]  # it has all


def test_hyperband_lets_the_best_third_of_a_rung_go_on() -> None:
    # Three epochs make two brackets: one has a rung after the second epoch, the other stops nobody. crc32("search_N")
    # modulo 5 is 0, 3, 2, 2, 0, 1, 4, 4 for these trials; the first bracket has those below 3.
    low, high = [0.1, 0.1, 0.1], [0.9, 0.9, 0.9]
    stopped = [len(trained("hyperband", [high] * number, low)) == 2 for number in range(8)]
    assert stopped == [False, False, True, True, True, True, False, False]  # trial 0 is alone in its rung
    assert trained("hyperband", [low, low], high) == high
    assert trained("hyperband", [low, high], [0.9, 0.5, 0.9]) == [0.9, 0.5, 0.9]  # ahead of 0.1: trial 1 is elsewhere
    assert trained("hyperband", [high, low, low[:2]], [0.9, 0.5, 0.9]) == [0.9, 0.5]


def live(name: str, scores: Curves) -> tuple[Curves, list[str]]:
    """The curves and states of a search by Optuna itself, one trial after another."""
    epochs = len(scores[0])
    own = {
        "median": optuna.pruners.MedianPruner(n_startup_trials=1),
        "hyperband": optuna.pruners.HyperbandPruner(min_resource=1, max_resource=epochs, reduction_factor=3),
    }
    study = optuna.create_study(study_name="search", direction="maximize", pruner=own[name])
    curves: Curves = []
    for wanted in scores:
        trial, curve = study.ask(), []
        for step, score in enumerate(wanted):
            trial.report(score, step)
            curve.append(score)
            if trial.should_prune() and step + 1 < epochs:
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            study.tell(trial, max(curve))
        curves.append(curve)
    return curves, [trial.state.name for trial in study.trials]


SCORES = st.integers(1, 10).flatmap(
    lambda epochs: st.lists(st.lists(st.integers(0, 9), min_size=epochs, max_size=epochs), min_size=1, max_size=12)
)


@pytest.mark.parametrize("name", ["median", "hyperband"])
@given(SCORES)
@example([[5] * 8, *[[1] * 8] * 8])  # 9 epochs would make another bracket
@settings(max_examples=40, deadline=None, derandomize=True)
def test_decisions_are_those_of_one_search_without_interruption(name: str, whole: list[list[int]]) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    scores = [[number / 10 for number in trial] for trial in whole]
    curves: Curves = []
    for wanted in scores:
        curves.append(trained(name, curves, wanted))
    expected, states = live(name, scores)
    assert curves == expected
    assert [len(curve) < len(scores[0]) for curve in curves] == [state == "PRUNED" for state in states]
    last, before = curves[-1], curves[:-1]
    for done in range(1, len(last)):  # killed after `done` epochs: the first question comes after the next one
        resumed = decide(name, before, len(scores[0]))
        answers = [resumed(last[:epoch]) for epoch in range(done + 1, len(last) + 1)]
        assert answers == [False] * (len(answers) - 1) + [states[-1] == "PRUNED"]


def test_one_worker_and_two_stop_the_same_trials(glue: Path, checkpoint: Path, call: Harness, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(STUDY)

    def run(pruner: str, out: Path, workers: int) -> tuple[dict[str, bool], bytes]:
        process = call(
            "run", "--study", "slow_learners", "--plugin", tmp_path / "slow.py", "--set", f"pruner={pruner}",
            "--data", glue, "--teacher", checkpoint, "--out", out, "--workers", workers,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        ledger = Ledger(out)
        pruned = {run: bool((ledger.read(run) or {}).get("pruned")) for run in ledger.runs()}
        return pruned, next(out.glob(f"slow_learners/quick/*pruner={pruner}*/table.md")).read_bytes()

    two, one = tmp_path / "two", tmp_path / "one"
    tables = {name: run(name, two, 2) for name in ("median", "hyperband")}
    shutil.copytree(two, one)
    for path in (one / "ledger").glob("*/record.json"):
        if json.loads(path.read_bytes())["record"]["specification"]["kind"] == "student":
            shutil.rmtree(path.parent)
    assert any(tables["median"][0].values())
    assert sum(tables["hyperband"][0].values()) > sum(tables["median"][0].values())  # those of both are there by then
    assert {name: run(name, one, 1) for name in tables} == tables
