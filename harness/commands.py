"""What each command of the command line does. Called by `harness.cli`; each returns the exit status."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from harness import registry
from harness.errors import UserError, near, unknown
from harness.ledger import Ledger, atomic_write, cannot_write, identity

Plan = dict[str, Any]


def run(options: Namespace) -> int:
    """Train what is missing, then print the table and where its files are."""
    request = _request(options)
    from harness.executors.local import LocalExecutor
    from harness.search import plan as planning

    planning.check_early(request)
    workers = _workers(options.workers)
    out = Path(options.out)
    _check_writable(out)
    ledger = Ledger(out, create=True)
    with ledger.lock(), closing(LocalExecutor(workers)) as executor:
        plan = planning.Planner(request).resolve()
        atomic_write(_plan_file(out, request.study, request.profile), json.dumps(plan, indent=1).encode())
        trained = _train(plan, ledger, executor)
        for sentence in ledger.damaged.values():
            _say(sentence)
        table = _table(plan, ledger)
        files = _write_reports(plan, table, ledger, changed=trained > 0)
    import reports

    print(reports.render(table, "terminal"))
    print(f"{trained} run{'s' * (trained != 1)} trained. The table as a page, in LaTeX, Markdown, CSV and JSON:")
    for path in files:
        print(f"  {path}")
    return _status_of(table)


def plan(options: Namespace) -> int:
    """Print every cell, run and refusal, and an estimate of the time. Trains and writes nothing."""
    from harness.search import plan as planning
    from harness.search.estimate import estimate
    from harness.search.progress import progress
    from harness.search.results import budget, protocol, recipe

    request = _request(options)
    planning.check_early(request)
    worked_out = planning.Planner(request, lenient=True).resolve()
    out = Path(options.out)
    ledger = Ledger(out) if (out / "harness.json").exists() else None
    missing = 0
    for cell in worked_out["cells"]:
        label = f"{cell['id']}  {cell['task']:<14} {cell['init']:<18} {cell['student']:<12} {cell['row']}"
        if cell["refused"]:
            print(f"{label}  refused: {cell['refused']}")
            continue
        found = progress(cell, worked_out["defaults"], ledger.read if ledger else lambda run: None)
        done = len(found.trials) + max(len(found.seeds) - 1, 0)
        wanted = found.wanted_trials + cell["seeds"] - 1
        missing += wanted - done
        epochs = cell["specification"]["settings"]["epochs"]
        print(f"{label}  {cell['stages']} x {epochs} epochs, runs {done} of {wanted} done")
    real = [c for c in worked_out["cells"] if not c["refused"]]
    argument = worked_out["argument"] or worked_out["teacher"]
    tasks, refused = ", ".join(worked_out["tasks"]), len(worked_out["cells"]) - len(real)
    print(f"\nstudy {worked_out['study']}, profile {request.profile}: teacher {argument}, tasks {tasks}")
    print(f"{len(real)} cells, {refused} refused; {planning.runs_of(worked_out)} runs, {missing} missing")
    if real:
        print(f"budget: {budget(worked_out)}\nprotocol: {protocol(worked_out)}\nrecipe: {recipe(worked_out)}")
    for notice in worked_out["notices"]:
        print(f"note: {notice}")
    print(estimate(worked_out, ledger, missing, _workers(options.workers)))
    return 0


def report(options: Namespace) -> int:
    """Print the table of the last plan from what is recorded."""
    import reports

    if options.format not in reports.FORMATS:
        raise unknown("report format", options.format, reports.FORMATS)
    plan, ledger = _recorded(options)
    table = _table(plan, ledger)
    if options.compare:
        table = reports.with_published(table, registry.STUDIES.get(plan["study"]))
    for sentence in ledger.damaged.values():
        _say(sentence)
    print(reports.render(table, options.format))
    return 0


def status(options: Namespace) -> int:
    """Print what is done, running, failed and left."""
    from harness.search.progress import progress

    plan, ledger = _recorded(options)
    done = failed = left = refused = complete = 0
    for cell in plan["cells"]:
        if cell["refused"]:
            refused += 1
            continue
        found = progress(cell, plan["defaults"], ledger.read)
        runs = [*found.trials, *found.seeds[1:]]
        bad = sum(1 for r in runs if r.score is None)
        wanted = found.wanted_trials + cell["seeds"] - 1
        done, failed, left = done + len(runs) - bad, failed + bad, left + wanted - len(runs)
        complete += not bad and len(runs) == wanted
    teachers = {identity(s, plan["defaults"]): s for runs in plan["teachers"].values() for s in runs}
    made = sum(1 for run in teachers if (ledger.read(run) or {}).get("status") == "finished")
    print(f"study {plan['study']}, profile {plan['profile']}, in {ledger.out}")
    print(f"cells: {complete} of {len(plan['cells']) - refused} complete, {refused} impossible")
    print(f"runs: {done} done, {failed} failed, {left} left; teacher runs: {made} of {len(teachers)} done")
    working = _is_locked(ledger)
    begun = ledger.interrupted()
    if begun:
        what = "running" if working else "interrupted (the same harness run command continues them)"
        print(f"{what}: {', '.join(begun)}")
    elif working:
        print("a harness run is working here")
    for sentence in ledger.damaged.values():
        print(sentence)
    return 0


def show(options: Namespace) -> int:
    """Print one cell or run."""
    ledger = Ledger(Path(options.out))
    asked = options.what
    cells = {cell["id"]: (plan, cell) for plan in _plans(ledger.out) for cell in plan["cells"]}
    runs = list(ledger.runs())
    matches = [i for i in {*cells, *runs} if i.startswith(asked)]
    if not matches:
        raise UserError(f"there is no cell or run {asked!r} in {ledger.out}: {near(asked, [*cells, *runs])}")
    if len(matches) > 1:
        raise UserError(f"{asked!r} is the start of {len(matches)} ids: {near(asked, matches)}; give more of it")
    if matches[0] in cells:
        _show_cell(*cells[matches[0]], ledger)
    else:
        _show_run(matches[0], ledger)
    return 0


def list_names(options: Namespace) -> int:
    """Print every name of one kind with what it is."""
    for path in options.plugin:
        registry.load_file(path)
    if options.kind == "tasks":
        from harness.data.tasks import TASKS

        for name, task in TASKS.items():
            print(f"{name:<18} {task.label}, {task.metric}")
        return 0
    if options.kind not in registry.ALL:
        raise unknown("kind", options.kind, [*registry.ALL, "tasks"])
    found = registry.ALL[options.kind]
    for name in found.names():
        plugin = found.get(name)
        text = plugin.question if options.kind == "studies" else (plugin.__doc__ or "").strip().split("\n")[0]
        extra = ""
        if hyperparameters := getattr(plugin, "hyperparameters", None):
            extra = f" [{', '.join(f'{name}.{k}={h.default}' for k, h in hyperparameters.items())}]"
        print(f"{name:<18} {text}{extra}")
    return 0


TEMPLATE = '''"""{name}: say in one sentence what it transfers, and from which paper."""

from harness.contracts import Batch, Outputs, Signal
from harness.registry import objective
from torch import Tensor


@objective("{name}", needs={{Signal.SENTENCE}})
def {name}(student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
    """Mean absolute difference of the sentence vectors, (B, D) each; returns a scalar. Put your formula here."""
    return (student.sentence - teacher.sentence).abs().mean()
'''


def new(options: Namespace) -> int:
    """Write a plugin file into the current folder. Raises UserError rather than write over a file."""
    name, path = options.name, Path(f"{options.name}.py")
    if not name.isidentifier():
        raise UserError(f"{name!r} cannot name an objective: use letters, digits and underscores, not a digit first")
    if path.exists():
        raise UserError(f"{path} exists already; choose another name or remove it")
    if name in registry.OBJECTIVES.names():
        raise UserError(f"objective {name!r} exists already, in {registry.OBJECTIVES.origin(name)}")
    atomic_write(path, TEMPLATE.format(name=name).encode())
    print(
        f"{path} written. Fill in the formula, then:\n  harness run --study objectives_vs_init --plugin {path} "
        f"--objectives vanilla_kd {name}\nor move it into objectives/ to make it part of every study's choice."
    )
    return 0


# ---------------------------------------------------------------- shared


def _request(options: Namespace) -> Any:
    from harness.search.plan import Request

    return Request(
        study=options.study,
        profile=options.profile,
        teacher=options.teacher,
        data=options.data,
        objectives=options.objectives,
        students=options.students,
        inits=options.inits,
        tasks=options.tasks,
        seeds=options.seeds,
        trials=options.trials,
        overrides=options.set,
        plugins=options.plugin,
    )


def _workers(asked: int | None) -> int:
    if asked is not None and asked < 1:
        raise UserError(f"--workers must be at least 1, not {asked}")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return asked or available


def _check_writable(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".{os.getpid()}.tmp"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise cannot_write(out, error) from error


def _train(plan: Plan, ledger: Ledger, executor: Any) -> int:
    from harness.search.database import synchronise
    from harness.search.display import display
    from harness.search.driver import Driver

    for name in ledger.interrupted():
        _say(f"run {name} was interrupted: it continues from its last whole epoch if it is part of this study")
    database = ledger.out / "optuna.db"
    try:
        with display(plan) as listener:
            return Driver(plan, ledger, executor, listener).run()
    finally:
        executor.close()
        trouble = synchronise(plan, ledger, database) if _changed(plan, ledger, database) else ""
        if trouble:
            _say(trouble)


def _changed(plan: Plan, ledger: Ledger, database: Path) -> bool:
    """True if the database is older than the newest record, or is gone."""
    if not database.exists():
        return True
    then = database.stat().st_mtime
    return any(
        (ledger.folder(run) / "record.json").stat().st_mtime > then
        for run in ledger.runs()
        if (ledger.folder(run) / "record.json").exists()
    )


def _table(plan: Plan, ledger: Ledger) -> Any:
    import reports
    from harness.data.tasks import get_task
    from harness.evaluation.metrics import score
    from harness.search import results

    study = registry.STUDIES.get(plan["study"])
    cells = results.cell_results(plan, ledger)
    tasks = {
        name: dataclasses.replace(get_task(name), metric=study.metrics.get(name, get_task(name).metric))
        for name in plan["tasks"]
    }
    inits, profile = tuple(plan["inits"]), study.profile(plan["profile"])
    study = dataclasses.replace(
        study,
        students=tuple(plan["students"]),
        profiles={
            **study.profiles,
            plan["profile"]: dataclasses.replace(profile, inits=inits, tasks=tuple(plan["tasks"])),
        },
    )
    provenance = reports.Provenance(
        teacher=plan["argument"] or plan["teacher"],
        teacher_scores=results.teacher_scores(plan, ledger),
        protocol=results.protocol(plan),
        budget=results.budget(plan),
        recipe=results.recipe(plan),
        notes=(),
        older_code=tuple(results.older_code(plan, ledger, _origins(plan))),
    )
    return reports.build(
        study,
        plan["profile"],
        cells,
        tasks,
        provenance,
        lambda task, predictions, labels: score(task, predictions, labels)[task.metric],
    )


def _origins(plan: Plan) -> Mapping[str, str]:
    """Plugin name -> its file now, for the plugins that can be found without loading torch: by their recorded place."""
    import importlib.util

    found = importlib.util.find_spec("harness.training.loop")
    origins = {"training": str(found.origin)} if found and found.origin else {}
    return origins | plan.get("origins", {})


def _write_reports(plan: Plan, table: Any, ledger: Ledger, changed: bool) -> Sequence[Path]:
    """Every format beside the plan; rewritten only where the text is new."""
    import reports

    folder = _plan_file(ledger.out, plan["study"], plan["profile"]).parent
    names = {
        "html": "table.html",
        "latex": "table.tex",
        "markdown": "table.md",
        "csv": "table.csv",
        "json": "table.json",
    }
    compared = reports.with_published(table, registry.STUDIES.get(plan["study"]))
    for form, name in names.items():
        if changed or not (folder / name).exists():
            atomic_write(folder / name, reports.render(compared if form == "html" else table, form).encode())
    return [folder / name for name in names.values()]


def _recorded(options: Namespace) -> tuple[Plan, Ledger]:
    if options.study not in registry.STUDIES.names():
        raise unknown("study", options.study, registry.STUDIES.names())
    registry.STUDIES.get(options.study).profile(options.profile)
    ledger = Ledger(Path(options.out))
    path = _plan_file(ledger.out, options.study, options.profile)
    if not path.exists():
        raise UserError(
            f"study {options.study} has no results of profile {options.profile} in {ledger.out}; start with "
            f"harness run --study {options.study} --profile {options.profile} --out {ledger.out}"
        )
    return _read_plan(path), ledger


def _plans(out: Path) -> Sequence[Plan]:
    return [_read_plan(path) for path in sorted(out.glob("*/*/plan.json"))]


def _read_plan(path: Path) -> Plan:
    try:
        plan: Plan = json.loads(path.read_bytes())
    except ValueError as error:
        raise UserError(f"{path} is damaged; the harness run command that made it writes it again") from error
    return plan


def _plan_file(out: Path, study: str, profile: str) -> Path:
    return out / study / profile / "plan.json"


def _show_cell(plan: Plan, cell: dict[str, Any], ledger: Ledger) -> None:
    from harness.search.progress import progress

    print(f"cell {cell['id']}: {cell['row']}, {cell['student']}, init {cell['init']}, task {cell['task']}")
    if cell["refused"]:
        print(f"impossible: {cell['refused']}")
        return
    found = progress(cell, plan["defaults"], ledger.read)
    print(f"learns by layer (student, teacher): {', '.join(str(tuple(pair)) for pair in cell['layers'])}")
    print(
        f"search: {len(found.trials)} of {found.wanted_trials} trials, chosen by {cell['metric']} on "
        f"{'dev' if cell['specification']['settings']['protocol'] == 'published' else 'held-out training data'}"
    )
    for number, trial in enumerate(found.trials):
        mark = " <- best" if found.best and trial.run == found.best.run else ""
        what = f"failed: {trial.record['error']}" if trial.score is None else f"selection {trial.score:.4f}"
        print(f"  trial {number}: run {trial.run}, {trial.hyperparameters}, {what}{mark}")
    for one in found.seeds:
        what = (
            f"failed: {one.record['error']}"
            if one.score is None
            else f"dev {one.record['metrics'][cell['metric']]:.4f}, epoch {one.record['best']['epoch']}"
        )
        print(f"  seed {one.specification['seed']}: run {one.run}, {what}")
    if found.missing:
        print(f"  still to run: {len(found.missing)}")


def _show_run(run: str, ledger: Ledger) -> None:
    record = ledger.read(run)
    if record is None:
        print(ledger.damaged.get(run, f"run {run} was begun and is not finished"))
        return
    print(f"run {run}: {record['status']}")
    for name, value in sorted(record.items()):
        if name not in ("curve", "traceback", "status", "specification"):
            print(f"  {name}: {value}")
    print(f"  specification: {json.dumps(record['specification'], indent=2, sort_keys=True)}")
    for entry in record.get("curve", ()):
        chosen = "" if entry["selection"] is None else f", selection {entry['selection']:.4f}"
        print(f"  {entry['stage']} {entry['epoch']}: loss {entry['loss']:.5f}{chosen}")
    if "traceback" in record:
        print(record["traceback"])


def _status_of(table: Any) -> int:
    failed = sum(1 for entry in table.entries() if entry.status == "failed")
    if failed:
        _say(f"{failed} cell{'s' * (failed > 1)} failed; harness show CELL tells why, and the same command tries again")
    return 1 if failed else 0


def _is_locked(ledger: Ledger) -> bool:
    try:
        with ledger.lock():
            return False
    except UserError:
        return True


def _say(sentence: str) -> None:
    print(f"harness: {sentence}", file=sys.stderr)
