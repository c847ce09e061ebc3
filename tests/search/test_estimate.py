"""How long a plan may take is said in the right order of magnitude, or from what was measured."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from harness.planning.plan import resolve
from harness.planning.planned import First, trials_of
from harness.planning.request import Request
from harness.runs import CorpusDistillationRun, TeacherRun
from harness.search.estimate import Meter, estimate, to_make
from harness.search.progress import Finished, Progress
from tests.search.builders import BASE, cell, plan, student_run
from tests.training.builders import a_run


class Told:
    """A ledger of these records. lost, torn: the runs whose weights, or predictions, are not there any more."""

    def __init__(self, records: dict[str, Any], lost: Collection[str] = (), torn: Collection[str] = ()):
        self.read, self.has_weights = records.get, lambda run: run not in lost
        self.whole = lambda run: None if run in torn else records.get(run)


SIZE = {"layers": 6, "width": 384}
SECONDS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}


def said(text: str) -> float:
    found = re.match(r"time: about ([\d.]+) (\w+) with", text)
    assert found, text
    return float(found[1]) * SECONDS[found[2]]


@pytest.mark.parametrize("processor", [True, False])
def test_a_measurement_takes_its_rounds(processor: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,024 rounds, each a turn of the model and one of BERT-base; on a processor 256 x 64 tokens take long."""
    device = type("Device", (), {"type": "cpu" if processor else "cuda"})
    monkeypatch.setattr("harness.training.machine.device", lambda: device)
    made = resolve(Request("size_and_speed", "paper"), lenient=True)
    nothing = [Progress() for _ in made.cells]
    text = estimate(made, nothing, 1)
    least = len(made.cells) * 1024 * 2 * 0.5
    assert least == pytest.approx(said(text), rel=0.05) if not processor else said(text) > 20 * least
    assert "with 1 worker (from sizes alone" in text and "corpus" not in text
    assert said(estimate(made, nothing, 5)) == pytest.approx(said(text) / 5, rel=0.05)


@pytest.mark.parametrize(
    ("student", "seconds"), [("bilstm", 0.014), ("bidirectional_hybrid", 0.059), ("transformer:layers=3", 0.22)]
)
def test_from_sizes_alone_it_is_an_order_of_magnitude(student: str, seconds: float) -> None:
    """A step of 32 x 32 tokens as measured on one core with AVX-512, of students as in the works or MiniLM's."""
    own = ("bilstm.hidden_units=150", "bilstm.embedding_size=50") if student == "bilstm" else ()
    asked = Request(
        "objectives_vs_students", "small", "minilm", None, ("labels_only",), (student,), tasks=("sentiment",),
        overrides=("learning_rate=0.001", "epochs=10", "batch_size=32", *own),
    )  # fmt: skip
    made = resolve(asked, lenient=True)
    runs = sum(trials_of(cell) + cell.seeds - 1 for cell in made.cells)
    steps = runs * 10 * made.examples["sentiment"] / 32
    assert steps * seconds / 4 < said(estimate(made, [Progress() for _ in made.cells], 1)) < steps * seconds * 4


def test_what_was_measured_goes_before_arithmetic() -> None:
    made = plan([cell(name=name) for name in "abc"])
    done = Finished("run", student_run, {}, {"status": "finished", "selection": 0.0, "seconds": 300.0})
    _, *others = made.cells
    nothing = [Progress() for _ in others]
    text = estimate(made, [Progress(trials=[done], best=done, seeds=[done]), *nothing], 2)
    assert text == "time: about 5.0 minutes with 2 workers (as 1 finished run took)"


def test_what_cells_start_from_is_told_apart_and_as_far_as_finished_ones_tell() -> None:
    """Two teachers and two distillations are missing; a teacher of half as many examples is finished, for 100 s."""
    own = {"teacher": BASE, "data": "", "settings": {"epochs": 2}}
    teachers = {task: a_run(TeacherRun, **own, task=task) for task in ("sst2", "rte", "qnli")}
    own = {"teacher": BASE, "corpus": "", "objective": "cosine", "student": "bilstm", "init": "random"}
    general = [a_run(CorpusDistillationRun, **own, settings={"steps": steps}) for steps in (1, 2)]
    first = {run.identity({}): First(run) for run in (*teachers.values(), *general)}
    cells = [cell(student_run(task=task), task, after=list(first)) for task in teachers]
    made = plan(cells, first=first, examples={"sst2": 2_000, "rte": 1_000, "qnli": 2_000})
    finished = {teachers["rte"].identity({}): {"status": "finished", "seconds": 100.0}}
    nothing = [Progress() for _ in cells]
    text = estimate(made, nothing, 2, Told(finished))
    assert text.endswith(
        ", and about 3.3 minutes for 2 runs that they start from (as finished ones like these took), "
        "and 2 runs that they start from (teachers, distillations), whose time is not known yet"
    )
    assert "and 5 runs" in estimate(made, nothing, 2) and "and about" not in estimate(made, nothing, 2)
    everything = dict.fromkeys(first, {"status": "finished", "seconds": 100.0})
    assert "start from" not in estimate(made, nothing, 2, Told(everything))


def test_lost_weights_are_to_be_made_where_something_missing_starts_from_them() -> None:
    teacher = a_run(TeacherRun, teacher=BASE, data="", task="sst2")
    own = {"teacher": BASE, "corpus": "", "objective": "cosine", "student": "bilstm", "init": "random"}
    general = a_run(CorpusDistillationRun, **own)
    first, second = teacher.identity({}), general.identity({})
    made = plan([cell(after=[second])], first={first: First(teacher), second: First(general, (first,))})
    finished = dict.fromkeys(made.first, {"status": "finished", "seconds": 100.0})
    for lost, expected in (([], []), ([first], []), ([second], [second]), ([first, second], [first, second])):
        assert to_make(made, [Progress()], Told(finished, lost)) == expected
    assert to_make(plan([], first=made.first), [], Told(finished, [first, second])) == []
    assert to_make(made, [Progress()], Told({second: finished[second]}, [second])) == [first, second]
    assert to_make(made, [Progress()], None) == [first, second]


def test_a_teacher_without_its_predictions_is_missing_also_where_no_run_of_a_cell_is() -> None:
    teacher = a_run(TeacherRun, teacher=BASE, data="", task="sst2")
    made = plan([], first={teacher.identity({}): First(teacher)})
    finished = dict.fromkeys(made.first, {"status": "finished", "seconds": 100.0})
    assert estimate(made, [], 2, Told(finished)) == "time: nothing is missing"
    for torn in (Told(finished, torn=made.first), Told({})):
        assert to_make(made, [], torn) == [*made.first]
        assert estimate(made, [], 2, torn) == (
            "time: nothing for runs of cells, and 1 run that they start from (teachers, distillations), whose time is "
            "not known yet"
        )


def test_long_tasks_weigh_more_than_short_ones() -> None:
    """One run of each task is done; what is left of the long one takes as long as that did."""
    cells = [cell(student_run(task=task, settings={"epochs": 2}), task, seeds=4, size=SIZE) for task in ("sst2", "rte")]
    made = plan(cells, examples={"sst2": 60_000, "rte": 2_000})
    seconds = {"sst2": 3000.0, "rte": 100.0}
    replays = []
    for each in cells:
        record = {"selection": 0.0, "seconds": seconds[each.task], "status": "finished"}
        done = Finished(each.id, lambda each=each: each.run, {}, record)
        replays.append(Progress(trials=[done], best=done, seeds=[done]))
    assert said(estimate(made, replays, 1)) == pytest.approx(3 * 3100, rel=0.02)
    replays[0].seeds += [replace(replays[0].seeds[0], run=f"seed {seed}") for seed in (1, 2, 3)]
    assert said(estimate(made, replays, 1)) == pytest.approx(300, rel=0.05), "the long ones are done"


def test_copies_of_augmented_texts_are_read_too() -> None:
    """A run with ten copies is done; one without them takes an eleventh of it."""
    more = {"augmentation": "masking", "augmentation_copies": 10}
    runs = [student_run(objective=name, settings={"epochs": 2} | told) for name, told in (("a", more), ("b", {}))]
    cells = [cell(run, run.task, size=SIZE) for run in runs]
    done = Finished("run", lambda: runs[0], {}, {"status": "finished", "selection": 0.0, "seconds": 1100.0})
    replays = [Progress(trials=[done], best=done, seeds=[done]), Progress()]
    assert said(estimate(plan(cells, examples={runs[0].task: 60_000}), replays, 1)) == pytest.approx(100, rel=0.05)


def test_what_is_measured_counts_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeds of a long task and of one between a 20th and a 30th of it."""
    now = [0.0]
    monkeypatch.setattr("harness.search.estimate.time.monotonic", lambda: now[0])
    runs = [student_run(task=task, seed=seed, settings={"epochs": 2}) for task in ("sst2", "rte") for seed in (0, 1)]
    cells = [cell(run, run.task, stages=2, seeds=2, size=SIZE) for run in runs[::2]]
    meter = Meter(plan(cells, examples={"sst2": 60_000, "rte": 2_000}))
    meter.began(runs[0])
    assert meter.left() is None
    now[0] = 100.0
    meter.epoch(runs[0])  # a quarter of it
    assert 700 + 2 * 400 / 30 < (meter.left() or 0) < 700 + 2 * 400 / 20
    meter.began(runs[1])
    now[0] = 400.0
    meter.ended(runs[0])
    assert 200 + 400 / 30 < (meter.left() or 0) < 200 + 400 / 20, "two at a time"
    again = Meter(plan(cells, examples={"sst2": 60_000, "rte": 2_000}))
    again.started(0.5)  # the long task, say
    again.began(runs[2])
    now[0] = 410.0
    again.ended(runs[2])
    assert 200 < (again.left() or 0) < 300


def test_a_run_is_over_after_its_own_epochs_where_a_search_decides_them(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("harness.search.estimate.time.monotonic", lambda: now[0])
    run = student_run(settings={"epochs": 2})
    searching = replace(cell(run, run.task, size=SIZE), space={"epochs": [1, 4]}, trials=2)
    meter, first = Meter(plan([searching])), student_run(seed=0, settings={"epochs": 1})
    meter.began(first)
    now[0] = 100.0
    meter.epoch(first)
    assert meter.left() == pytest.approx(100), "as long again for the second trial"


def test_rows_that_differ_in_settings_alone_have_lengths_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row and one with ten augmented copies of each example, with a search of the learning rate."""
    now = [0.0]
    monkeypatch.setattr("harness.search.estimate.time.monotonic", lambda: now[0])
    copies = {"augmentation": "masking", "augmentation_copies": 10}
    plain = [student_run(seed=seed, settings={"epochs": 2, "learning_rate": 1e-3}) for seed in range(4)]
    long = [student_run(seed=seed, settings={**copies, "epochs": 2}) for seed in range(4)]
    cells = [cell(runs[0], name=f"{len(runs[0].settings)}", seeds=4, size=SIZE) for runs in (plain, long)]
    meter = Meter(plan(cells, examples={plain[0].task: 2_000}))
    for run in plain:
        meter.began(run)
        now[0] += 10.0
        meter.ended(run)
    assert 4 * 100 < (meter.left() or 0) < 4 * 120
    meter.began(long[0])
    now[0] += 110.0
    meter.ended(long[0])
    assert 3 * 100 < (meter.left() or 0) < 3 * 120


def test_each_student_has_a_pace_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("harness.search.estimate.time.monotonic", lambda: now[0])
    runs = {name: student_run(student=name, settings={"epochs": 2}) for name in ("bilstm", "transformer", "cbow")}
    cells = [cell(run, name=name, seeds=2, size=SIZE) for name, run in runs.items()]
    made = plan(cells, examples={run.task: 2_000 for run in runs.values()})
    meter, done = Meter(made), []
    for name, seconds in (("bilstm", 100.0), ("transformer", 20.0)):
        meter.began(runs[name])
        now[0] += seconds
        meter.ended(runs[name])
        record = {"status": "finished", "selection": 0.0, "seconds": seconds}
        done.append(Finished(name, lambda name=name: runs[name], {}, record))
    expected = 100 + 20 + 2 * 60  # of the third the mean
    assert meter.left() == pytest.approx(expected)
    replays = [Progress(trials=[one], best=one, seeds=[one]) for one in done]
    assert said(estimate(made, [*replays, Progress()], 1)) == pytest.approx(expected, rel=0.02)
