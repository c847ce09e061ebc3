"""What is told below a table: of the vectors that students start from, and of how far it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from harness.planning.planned import First
from harness.runs import CorpusDistillationRun, JointStudentRun
from harness.search.progress import Finished, Progress
from harness.search.results import coverage, how_far, recreated, unfamiliar
from tests.search.builders import cell, plan, student_run
from tests.training.builders import a_run


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


def test_a_corpus_that_students_know_better_than_their_teacher_is_told() -> None:
    entropies = {"a": (3.28, 1.59), "b": (1.2, 1.5), "c": (2.0, 1.9), "d": (), "e": ()}  # d is unfinished
    first = {name: First(a_run(CorpusDistillationRun, student="cbow", corpus=name)) for name in entropies}
    keys = ("teacher_masked_cross_entropy", "masked_cross_entropy")
    records = {name: {"metrics": dict(zip(keys, found, strict=True))} for name, found in entropies.items() if found}
    records["e"] = {"metrics": {"distillation_loss": 0.1}}
    ledger: Any = SimpleNamespace(read=records.get)
    assert unfamiliar(plan([], first=first), ledger) == (
        "2 of 3 students distilled on the corpus predict masked words of held-out text better than the teacher "
        "(cross-entropy 1.59 against 3.28), which knows little of such text.",
    )
    assert unfamiliar(plan([], first={"b": first["b"], "d": first["d"], "e": first["e"]}), ledger) == ()


def test_copies_that_have_the_texts_of_dev_are_told() -> None:
    """Of the worst run of a task, also of several tasks together; no word where none has."""
    runs = [
        (student_run(task="sst2"), {"dev": 8, "held_out": 1}),
        (student_run(task="cola"), {"dev": 0, "held_out": 2}),
        (student_run(task="mrpc"), {"dev": 0, "held_out": 0}),
        (student_run(task="sst2"), {"dev": 5, "held_out": 3}),
    ]
    replays = [Progress(seeds=[Finished("", lambda run=run: run, {}, {"recreated": told})]) for run, told in runs]
    joint = First(a_run(JointStudentRun, tasks={"rte": "", "mrpc": ""}))
    by_task = {"rte": {"recreated": {"dev": 1000, "held_out": 0}}, "mrpc": {"recreated": {"dev": 0, "held_out": 0}}}
    records = {"j": {"by_task": by_task}}
    ledger: Any = SimpleNamespace(read=records.get)
    assert [*recreated(plan([], first={"j": joint, "unfinished": joint}), replays, ledger)] == [
        "Augmented copies have the texts of up to 2 held-out examples of cola, so rows with copies were trained on "
        "some of what their epochs are chosen by.",
        "Augmented copies have the texts of up to 1,000 dev examples of rte, so rows with copies were trained on some "
        "of what they are scored on.",
        "Augmented copies have the texts of up to 8 dev and 3 held-out examples of sst2, so rows with copies were "
        "trained on some of what they are scored on.",
    ]
    assert not [*recreated(plan([]), [replays[2], Progress()], ledger)]
