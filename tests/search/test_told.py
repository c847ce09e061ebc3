"""What is told below a table: of the vectors that students start from, and of how far it is."""

from __future__ import annotations

from harness.search.progress import Finished, Progress
from harness.search.results import coverage, how_far
from tests.search.builders import cell, plan, student_run


def test_tasks_are_named_where_their_vectors_differ() -> None:
    """Those of `static:teacher` are made of the teacher as it was fine-tuned on each."""
    cells, replays = [], []
    for init, task, share in (
        ("static:teacher", "sst2", 0.5), ("static:teacher", "mrpc", 0.25), ("static:teacher", "rte", 0.5),
        ("vectors:glove", "sst2", 0.75), ("vectors:glove", "sst2", 0.875),
    ):  # fmt: skip
        started = {"coverage": share, "filled": "vectors", **({"variance": 0.8} if init[0] == "s" else {})}
        run = student_run(init=init, task=task)
        cells.append(cell(run, f"{init} {task}", student="cbow"))
        replays.append(Progress(trials=[Finished("r", lambda run=run: run, {}, {"initialisation": started})]))
    kept = "% of the vocabulary, with 80.0% of their variance"
    assert coverage(plan(cells), replays) == (
        f"Init static:teacher gives cbow the vectors of 50.0{kept}, on rte and sst2.",
        f"Init static:teacher gives cbow the vectors of 25.0{kept}, on mrpc.",
        "Init vectors:glove gives cbow the vectors of 75.0% of the vocabulary.",
        "Init vectors:glove gives cbow the vectors of 87.5% of the vocabulary.",  # of rows that differ
    )


def test_a_run_that_failed_is_not_told_as_done() -> None:
    scored, broken = {"status": "finished", "selection": 0.5}, {"status": "failed", "error": "out of memory"}
    cells = [cell(name=name, space={"learning_rate": [1e-3, 2e-3, 5e-4]}, trials=3, seeds=2) for name in "abc"]

    def progress(of: str, *records: dict[str, object], seeds: int = 0) -> Progress:
        trials = [Finished(f"{of}, trial {n}", student_run, {}, record) for n, record in enumerate(records)]
        further = [Finished(f"{of}, seed {n}", student_run, {}, scored) for n in range(1, seeds)]
        return Progress(trials=trials, seeds=[*trials[:1], *further] if seeds else [])

    whole = [progress(of, scored, scored, scored, seeds=2) for of in "abc"]
    assert how_far(plan(cells), [*whole[:2], progress("c", scored)]) == ("Runs done: 9 of 12",)
    assert how_far(plan(cells), [*whole[:2], progress("c", scored, broken)]) == ("Runs done: 9 of 12, 1 failed",)
    assert how_far(plan(cells), whole) == ()
