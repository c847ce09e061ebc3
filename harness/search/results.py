"""What a plan and the ledger tell of how a table's numbers were made; `harness.search.frame` has the numbers."""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from harness.code_versions import changed, current, engine
from harness.contracts import AGREEMENT, CellResult, Study, Task
from harness.errors import counted, listed
from harness.files import digest
from harness.ledger import Ledger
from harness.planning.planned import Cell, Plan, declaration_of, distinct, runs_of, searches_of
from harness.planning.space import chooses, spreads
from harness.runs import CorpusDistillationRun, JointTeacherRun, Run, RunId, TaskRun
from harness.runs.settings import LABELS, held_out_of
from harness.runs.told import Record
from harness.search.index import Index
from harness.search.progress import Lookup, Progress, left, progress


def replayed(plan: Plan, ledger: Ledger | None, whole: bool = False) -> list[Progress]:
    """The progress of every cell of the plan, in order.

    whole: a run whose predictions are lost is missing, as it is for `harness run`.
    """
    # Models that are only counted have no ledger, so nothing has an index of them.
    replay = Index(ledger).progress if isinstance(ledger, Ledger) else progress
    lookup: Lookup = (ledger.whole if whole else ledger.read) if ledger else lambda run: None
    return [replay(cell, plan.defaults, lookup) for cell in plan.cells]


def with_progress(plan: Plan, replays: Sequence[Progress]) -> list[tuple[Cell, Progress]]:
    """The cells that can exist with the progress of each, one for all those that share their runs."""
    found = zip(plan.cells, replays, strict=True)
    return list({cell.search: (cell, one) for cell, one in found if not cell.refused}.values())


def counts(plan: Plan, replays: Sequence[Progress]) -> tuple[int, int, int]:
    """How many runs of cells are done and failed, those that cells share once, and how many are left, at most."""
    found = with_progress(plan, replays)
    records = {run: record for _, one in found for run, record in one.records}
    lost = sum(record["status"] == "failed" for record in records.values())
    return len(records) - lost, lost, sum(left(cell, one) for cell, one in found)


def how_far(plan: Plan, replays: Sequence[Progress]) -> tuple[str, ...]:
    """How many runs of cells are done, and failed, where some are missing."""
    made, lost, more = counts(plan, replays)
    told = f", {lost} failed" if lost else ""
    return (f"Runs done: {made} of {made + lost + more}{told}",) if more else ()


def started_from(plan: Plan, replays: Sequence[Progress]) -> list[str]:
    """The runs that cells start from and that are not those of a cell, as a teacher with a row of its own is."""
    own = {done.run for found in replays for done in found.runs}
    own |= {run.identity(plan.defaults) for found in replays for run in found.missing}
    return [run for run in plan.first if run not in own]


def shown(study: Study, tasks: Mapping[str, Task], cells: Sequence[CellResult]) -> dict[str, tuple[str, ...]]:
    """The metrics that each task's columns show: the study's; where no cell is chosen by a label, agreement before.

    Of a task that has no labels at all it stands alone.
    """
    found = {}
    for name, task in tasks.items():
        metrics, of_task = study.shown(task), [cell for cell in cells if cell.task == name and not cell.refused]
        if of_task and all(cell.metric == AGREEMENT for cell in of_task):
            runs = [run for cell in of_task for run in cell.seeds]
            metrics = (AGREEMENT, *(m for m in metrics if not runs or any(m in run.metrics for run in runs)))
        found[name] = metrics
    return found


def misnamed(plan: Plan, study: Study) -> tuple[str, ...]:
    """What a table says of rows whose label names the study's own student, where another is trained."""
    own = {name.partition(":")[0] for name in (*study.students, *study.profile(plan.profile).students)}
    labels = {row.name: row.label for row in study.rows if not row.student}
    trained = {(labels[cell.row], cell.student) for cell in plan.cells if cell.row in labels}
    others = sorted((label, name) for label, name in trained if name.partition(":")[0] not in own)
    if not (found := [(label, name) for label, name in others if any(student in label.casefold() for student in own)]):
        return ()
    rows, students = (", ".join(dict.fromkeys(part)) for part in zip(*found, strict=True))
    return (f"The study names rows after students of its own; trained with {students} they are the objective: {rows}.",)


def redeclared(plan: Plan, study: Study) -> tuple[str, ...]:
    """What a table says where the study asks for something else by now than when its runs were planned."""
    first = {task: shown if isinstance(shown, str) else shown[0] for task, shown in study.metrics.items()}
    chosen = {cell.task: cell.metric for cell in plan.cells if cell.metric != AGREEMENT}
    alike = all(first.get(task, metric) == metric for task, metric in chosen.items())
    earlier = declaration_of(study, plan.profile, ("label", "mark"))  # with what rows are called in a printed table
    if alike and plan.declaration in ("", declaration_of(study, plan.profile), earlier):
        return ()
    return (
        f"Study {plan.study} was changed since these runs were planned, and asks for others now: harness run makes "
        "them.",
    )


def unlabelled(plan: Plan) -> tuple[str, ...]:
    """What a table says of cells that are trained without labels."""
    if not any(cell.metric == AGREEMENT for cell in plan.cells if not cell.refused):
        return ()
    return (
        "Without labels, none is trained or chosen by: the teacher's answers stand for them. Agreement is the share of "
        "examples that are answered as the teacher does, or Spearman's correlation with its scores; other metrics are "
        "of the labels of dev.",
    )


def teacher_scores(plan: Plan, ledger: Ledger) -> dict[str, list[Mapping[str, float]]]:
    """task -> the scores on the dev split of the teacher, by its seeds, where all of them are finished."""
    scores = {task: scores_of(plan, ledger, run, task) for task, run in plan.teachers.items()}
    return {task: found for task, found in scores.items() if found}


def teacher_progress(plan: Plan, ledger: Ledger) -> dict[str, str]:
    """task -> how many of the teacher's runs are finished, as "1/3", or "failed", where not all are."""
    found = {}
    for task, run in plan.teachers.items():
        stands = [record["status"] for record in _by_seed(plan, ledger, run)]
        if {*stands} != {"finished"}:
            found[task] = "failed" if "failed" in stands else f"{stands.count('finished')}/{len(stands)}"
    return found


def scores_of(plan: Plan, ledger: Ledger, run: RunId, task: str) -> list[Mapping[str, float]]:
    """The scores on a task of one of plan.first, by its seeds; none before all of them are finished."""
    records = _by_seed(plan, ledger, run)
    if any(record["status"] != "finished" for record in records):
        return []
    return [record.get("by_task", {}).get(task, record)["metrics"] for record in records]


def taught_by(plan: Plan, run: Run) -> RunId:
    """The run of plan.first that a run imitates, or that what it starts from does; "" where there is none."""
    if isinstance(run.learns_from, str) and getattr(run, "objective", run.trained_by) != LABELS:
        return run.learns_from if run.learns_from in plan.first else ""
    before = plan.first.get(run.starts_from or "")
    return taught_by(plan, before.run) if before else ""


def other_teachers(plan: Plan) -> tuple[str, ...]:
    """What a table says of the teacher of several tasks above it, where not all rows learn from that one."""
    joint = {task: run for task, run in plan.teachers.items() if isinstance(plan.first[run].run, JointTeacherRun)}
    labels = {row.name: row.label for row in plan.rows}
    others = []
    for cell in plan.cells:
        runs = [cell.run, *(plan.first[start].run for start in cell.starts[:1])]
        teacher = next(filter(None, (taught_by(plan, run) for run in runs)), "")
        if cell.task in joint and not cell.refused and teacher not in ("", joint[cell.task]):
            others.append(labels[cell.row])
    if not others:
        return ()
    tasks = listed(sorted({task for run in joint.values() for task in plan.first[run].run.data_of}))
    return (
        f"The teacher above the table is the one refined on {tasks} together; rows that learn from another: "
        f"{', '.join(dict.fromkeys(others))}.",
    )


def _by_seed(plan: Plan, ledger: Ledger, run: RunId) -> list[Record]:
    """The records of all that differ from one of plan.first in the seed alone, by seed, that one among them."""
    wanted = replace(plan.first[run].run, seed=0)
    alike = [name for name, first in plan.first.items() if replace(first.run, seed=0) == wanted]
    in_order = sorted(alike, key=lambda name: plan.first[name].run.seed or 0)
    return [ledger.read(name) or {"status": "waiting"} for name in in_order]


def teachers(plan: Plan) -> int:
    """How many teachers the seeds of a cell learn from: one for each or 1 for all; 0 where none learns from any."""
    runs = [cell for cell in plan.cells if isinstance(cell.run.learns_from, str)]
    return max((len(cell.teachers) or 1 for cell in runs if not cell.refused), default=0)


def samples(plan: Plan) -> int:
    """How many draws of a part of the training examples the seeds of a cell have; 0 where all train on the whole."""
    drawn = _drawn(plan)
    return max((cell.seeds for cell in drawn if _own(cell)), default=1) if drawn else 0


def searches(plan: Plan) -> int:
    """How many searches of settings the seeds of a cell have, one for all or one for each; 0 where none is searched."""
    return max((searches_of(cell) for cell in plan.cells if _chooses(cell)), default=0)


def distillations(plan: Plan) -> int:
    """1 where all seeds of a cell start from a student that was distilled once on the corpus, 0 where none does."""
    several = (cell for cell in plan.cells if not cell.refused and cell.seeds > 1)
    before = {run for cell in several for run in cell.after if run in plan.first}
    return int(any(isinstance(plan.first[run].run, CorpusDistillationRun) for run in before))


def unfamiliar(plan: Plan, ledger: Ledger) -> tuple[str, ...]:
    """Says whether a corpus is text that the teacher knows less well than students that were distilled on it."""
    before = [run for run, first in plan.first.items() if isinstance(first.run, CorpusDistillationRun)]
    found = [record.get("metrics", {}) for run in before if (record := ledger.read(run))]
    pairs = [(one["teacher_masked_cross_entropy"], one["masked_cross_entropy"])
             for one in found if "teacher_masked_cross_entropy" in one]  # fmt: skip
    if not (better := [(theirs, own) for theirs, own in pairs if own < theirs]):
        return ()
    theirs, own = max(better, key=lambda pair: pair[0] - pair[1])
    how_many = f"{len(better)} of {counted(len(pairs), 'student')} distilled on the corpus"
    return (
        f"{how_many} {'predicts' if len(better) == 1 else 'predict'} masked words of held-out text better than the "
        f"teacher (cross-entropy {own:.2f} against {theirs:.2f}), which knows little of such text.",
    )


def recreated(plan: Plan, replays: Sequence[Progress], ledger: Ledger) -> Iterator[str]:
    """Sentences on the texts of dev and held-out examples that augmented copies came to have, a task each."""
    found = [(run.made, run.record) for replay in replays for run in replay.seeds if "recreated" in run.record]
    found += [(first.run, ledger.read(run) or {}) for run, first in plan.first.items()]
    most: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for run, record in found:
        parts: dict[str, Record] = {run.task: record} if isinstance(run, TaskRun) else record.get("by_task", {})
        for task, part in parts.items():
            most[task] |= Counter(part.get("recreated"))  # without what none has
    for task, there in sorted((task, there) for task, there in most.items() if there):
        which = " and ".join(f"{there[part]:,} {part.replace('_', '-')}" for part in sorted(there))
        what = "they are scored on" if "dev" in there else "their epochs are chosen by"
        yield (
            f"Augmented copies have the texts of up to {which} examples of {task}, so rows with copies were trained on "
            f"some of what {what}."
        )


def shared_draws(plan: Plan) -> Iterator[str]:
    """Sentences on what a plan draws or chooses once for all seeds of a cell."""
    cells = [cell for cell in plan.cells if not cell.refused and cell.seeds > 1]
    if cells and samples(plan) == 1:
        only = "± and tests hold for that draw only; --set train_sample=each_seed gives each seed its own"
        yield f"train_examples: one draw of them for all seeds, so {only}"
    searched = [cell for cell in cells if _chooses(cell) and not cell.searched_by_seed]
    if searched:
        runs = sum(runs_of(replace(cell, searched_by_seed=_chooses(cell))) for cell in distinct(plan.cells))
        only = f"the settings that it finds; --set searches=each_seed gives each seed its own ({runs} runs)"
        yield f"search: one for all seeds of a cell, so ± and tests hold for {only}"


def drawn_by_seed(plan: Plan) -> tuple[str, ...]:
    """The tasks of which each seed of a cell draws what all rows share: a part of the training examples, a teacher, the
    settings that are tried.

    Not those that are no larger than the part.
    """
    drawn = [cell for cell in _drawn(plan) if _own(cell) and cell.seeds > 1]
    drawn += [cell for cell in plan.cells if len(cell.teachers) > 1 and not cell.refused]
    tried = [cell for cell in plan.cells if cell.searched_by_seed and not cell.refused]
    drawn += [cell for cell in tried if cell.sampler == "random" or spreads(cell.space, cell.trials)]
    return tuple(dict.fromkeys(cell.task for cell in drawn))


def _drawn(plan: Plan) -> list[Cell]:
    """The cells that train on a part of the examples."""
    return [cell for cell in plan.cells if cell.run.trains and not cell.refused and _draws(cell, plan)]


def _chooses(cell: Cell) -> bool:
    return not cell.refused and chooses(cell.space, cell.trials, cell.sampler)


def _own(cell: Cell) -> bool:
    return bool(cell.run.settings["train_sample"] == "each_seed")


def _draws(cell: Cell, plan: Plan) -> bool:
    """Whether its runs train on a part of a task's examples; where their number is not known, whether they might."""
    settings, known = cell.run.settings, [plan.examples.get(task, 0) for task in cell.run.data_of]
    held_out = settings["protocol"] == "held_out"
    most = max(size - held_out * held_out_of(size) for size in known) if known and all(known) else math.inf
    return bool(settings["train_fraction"] < 1 or 0 < settings["train_examples"] < most)


def coverage(plan: Plan, replays: Sequence[Progress]) -> tuple[str, ...]:
    """Sentences on how much of the vocabulary the vectors cover that students start from; by task where they differ."""
    said: dict[tuple[str, str], dict[str, set[str]]] = {}
    for cell, found in zip(plan.cells, replays, strict=True):
        for run in found.trials:
            started = run.record.get("initialisation") or {}
            if "coverage" in started:
                share = f"{100 * started['coverage']:.1f}% of the vocabulary"
                if "variance" in started:  # of the teacher's, of which these are principal components
                    share += f", with {100 * started['variance']:.1f}% of their variance"
                what = f"the {started['filled']} of {share}"
                said.setdefault((cell.init, cell.student), {}).setdefault(what, set()).add(cell.task)
    told = []
    for (init, student), each in said.items():
        apart = len({*map(frozenset, each.values())}) > 1  # otherwise rows differ, or none
        told += [
            f"Init {init} gives {student} {what}{f', on {listed(sorted(tasks))}' if apart else ''}."
            for what, tasks in each.items()
        ]
    return tuple(told)


def not_chosen(plan: Plan, replays: Sequence[Progress], scores: Mapping[RunId, Container[str]]) -> tuple[str, ...]:
    """A sentence on each cell whose test score is of another run than the chosen one, as more trials may choose one.

    scores: run -> the tasks on which its predictions were scored.
    """

    def place(cell: Cell) -> str:
        axes = ", ".join(filter(None, (cell.student, cell.init and f"init {cell.init}")))
        return axes and f" ({axes})"  # a row that is no student of ours, but can be submitted, has neither

    both = [*zip(plan.cells, replays, strict=True)]
    chosen = {(found.best.run, cell.task) for cell, found in both if found.best}  # a row may share trials with another
    return tuple(
        f"The test score of {cell.row} on {cell.task}{place(cell)} is not shown: another run is chosen now than was "
        "submitted."
        for cell, found in both
        if scores  # none of most ledgers, which need not be searched
        and found.best
        and cell.task not in scores.get(found.best.run, ())
        and any(cell.task in scores.get(run, ()) and (run, cell.task) not in chosen for run, _ in found.records)
    )


def pruned(plan: Plan, replays: Sequence[Progress]) -> tuple[str, ...]:
    """Sentences on how many trials the pruners stopped early; none where no pruner was asked for."""
    made: Counter[str] = Counter()
    stopped: Counter[str] = Counter()
    # Cells may share runs.
    trials = {t.run: (cell, t) for cell, found in zip(plan.cells, replays, strict=True) for t in found.trials}
    for cell, trial in trials.values():
        name = str(trial.hyperparameters.get("pruner", cell.run.settings["pruner"]))
        if name != "none":
            made[name] += 1
            stopped[name] += bool(trial.record.get("pruned"))
    return tuple(
        f"{stopped[name]} of {count} trials {'was' if stopped[name] == 1 else 'were'} stopped early by the {name} "
        "pruner, and cannot be chosen."
        for name, count in sorted(made.items())
    )


def older_code(plan: Plan, read: Lookup, replays: Sequence[Progress]) -> tuple[str, ...]:
    """A sentence such as "3 cells were made with another version of att_kl" for what changed since the runs.

    read: the record of a run.
    """
    now, whole = current(plan.origins), {*engine()}  # all its parts together are harness
    of_run: dict[str, set[str]] = {}  # cells may share runs
    made: list[set[str]] = []  # of each cell with any: what changed
    for found in replays:
        names: set[str] = set()
        for run in found.runs:
            if run.run not in of_run:
                of_run[run.run] = changed(run.record, read, now)
            names |= of_run[run.run]
        if names:
            made.append(names - whole | {"harness"} if names >= whole else names)
    if not made:
        return ()
    count, of_name = len(made), Counter(name for names in made for name in names)
    named = sorted(of_name.items(), key=lambda item: (-item[1], item[0]))
    what = listed(name if cells == count else f"{name} ({cells})" for name, cells in named)
    return (f"{counted(count, 'cell')} {'were' if count > 1 else 'was'} made with another version of {what}",)


def made_apart(replays: Sequence[Progress]) -> tuple[str, ...]:
    """A sentence where the runs of a table are of several kinds of device, or versions of what computes them."""
    records = {run.run: run.record for found in replays for run in found.runs}.values()
    made = [{"device": record.get("device"), **record.get("versions", {})} for record in records]
    apart = []
    for what in ("device", "torch", "transformers"):
        kinds = Counter(one[what] for one in made if one.get(what))  # a run that failed, or only counted, has none
        if len(kinds) > 1:
            each = (f"{kind} ({counted(number, 'run')})" for kind, number in sorted(kinds.items()))
            apart.append(f"{what} {listed(each)}")
    return (f"Not all runs were made by the same: {'; '.join(apart)}.",) if apart else ()


def other_weights(replays: Sequence[Progress], ledger: Ledger) -> tuple[str, ...]:
    """Sentences on the cells that started, directly or not, from weights of a run which has other ones now."""
    changed: Counter[str] = Counter()
    now: dict[str, str] = {}

    @functools.cache
    def below(run: RunId) -> frozenset[tuple[RunId, str]]:
        """(run, its weights then) of all that a run started from, directly or not."""
        direct = (ledger.read(run) or {}).get("started_from", {})
        return frozenset(direct.items()).union(*map(below, direct))

    for found in replays:
        started = {start for run in found.runs if run.record.get("started_from") for start in below(run.run)}
        now |= {run: digest((ledger.read(run) or {}).get("weights"))[:16] for run in dict(started) if run not in now}
        changed.update({run for run, was in started if now[run] != was})
    return tuple(
        f"{counted(count, 'cell')} started from other weights of run {run} than are here: it was trained more "
        "than once, after a loss or in folders that were merged."
        for run, count in sorted(changed.items())
    )
