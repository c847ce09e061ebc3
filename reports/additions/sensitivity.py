"""How the scores of a table depend on the settings that were searched."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from harness.errors import UserError
from harness.reports.additions.searched import Search, Trial, chosen_on, searches
from harness.reports.statistics.importance import FEWEST, importance
from harness.reports.tables.layout import Cell, Grid, Group
from harness.reports.tables.quantities import written
from harness.reports.tables.shapes import Table


def found(table: Table) -> list[Search]:
    """The searches that tried more than one setting."""
    return [one for one in searches(table) if len(one.trials) > 1]


def chosen(search: Search) -> list[Trial]:
    """Of each seed that searched, the one with the highest selection score, and none that was stopped early.

    The earliest of equals.
    """
    found: dict[int, list[Trial]] = {}
    for trial in search.trials:
        found.setdefault(trial.seed, []).append(trial)
    whole = ([trial for trial in some if not trial.pruned] or some for some in found.values())
    return [max(some, key=lambda trial: (trial.selection, -trial.number)) for some in whole]


def no_importance(search: Search) -> str:
    """Why the settings of a search have no importance, or ""."""
    if len(search.space) < 2:
        return "one setting alone is searched, and all depends on it"
    if search.pruned:
        return "a pruner stopped trials early"
    if len(search.trials) < FEWEST:
        return f"there are fewer than {FEWEST} trials"
    return ""


def short(search: Search, setting: str) -> str:
    """A setting without the name of its student."""
    return setting.removeprefix(f"{search.line.student.partition(':')[0]}.")


def shares(search: Search) -> dict[str, float]:
    """Setting -> its importance, empty where there is none.

    Of a score less the mean of its seed's: the better half would otherwise be that of the seeds which did better.
    """
    if no_importance(search):
        return {}
    every = [trial.score for trial in search.trials]
    found: dict[int, list[float]] = {}
    for trial in search.trials:
        found.setdefault(trial.seed, []).append(trial.score)
    level = {seed: fmean(own if len(own) > 1 else every) for seed, own in found.items()}
    scores = [trial.score - level[trial.seed] for trial in search.trials]
    return importance(search.distributions(), [trial.settings for trial in search.trials], scores)


def grids(table: Table) -> list[Grid]:
    """Of every cell the setting that was chosen, the spread of its trials' scores, and what mattered.

    Raises UserError where no cell tried two settings.
    """
    every = found(table)
    if not every:
        raise UserError(
            f"study {table.study} has no cell in which two settings were tried: how scores depend on settings is seen "
            "after harness run with --trials 2 or more, where the study searches some"
        )
    settings = list(dict.fromkeys(short(one, name) for one in every for name in one.space))
    some = any(not no_importance(one) for one in every)
    groups: dict[str, list[tuple[Cell, ...]]] = {}
    reasons: dict[str, int | str] = {}
    lacking = {no_importance(one) for one in every}
    for one in every:
        of = {short(one, name): name for name in one.space}
        scores, best, mattered = [t.score for t in one.trials], chosen(one), shares(one)
        why = no_importance(one)
        mark = str(reasons.setdefault(why, len(reasons) + 1)) if why and len(lacking) > 1 else ""
        spread = written("", 100 * (max(scores) - min(scores)))
        cells = [Cell(one.label, mark=mark), Cell(str(len(scores))), Cell(spread)]
        for name in settings:
            own = dict.fromkeys(value(trial.settings[of[name]]) for trial in best) if name in of else {}
            cells.append(Cell(", ".join(own)))
            cells += [Cell(f"{100 * mattered[of[name]]:.0f} %" if of.get(name) in mattered else "")] if some else []
        groups.setdefault(", ".join(filter(None, (one.block, one.column.name))), []).append(tuple(cells))
    header: list[tuple[str, ...]] = [("trials",), ("spread",)]
    for name in settings:
        header += [(name, "chosen"), (name, "importance")] if some else [(name, "chosen")]
    told = reasons or {reason: "" for reason in lacking if reason}  # without a mark where it is so of all
    notes = [(str(number), f"No importance: {reason}.") for reason, number in told.items()]
    each = any(trial.seed for one in every for trial in one.trials)
    seeds = "of all seeds, each of which has a search" if each else "one seed each"
    notes += [("", f"Spread: the best less the worst score on dev of the trials, in points, {seeds}.")]
    whole = ", of those that were not stopped early" if any(one.pruned for one in every) else ""
    of_each = ", of each seed's" * each
    notes += [("", f"Chosen: the setting of the trial with the highest score on {chosen_on(table)}{of_each}{whole}.")]
    if some:
        what = "the settings' shares in what tells the better half of the trials from all (PED-ANOVA)"
        what += ", by a score less the mean of its seed's" * each
        notes += [("", f"Importance: {what}; where no setting matters it is chance.")]
    caption = "What was tried and what came of it."
    made = tuple(Group(heading, tuple(lines)) for heading, lines in groups.items())
    return [Grid("Sensitivity to settings", caption, tuple(header), made, tuple(notes))]


def rows(table: Table) -> list[dict[str, Any]]:
    """Every setting of every trial: its value, the trial's scores × 100, and the setting's importance where it has one.

    A table without searches has none.
    """
    return [
        {
            "block": one.block,
            "task": one.column.task,
            "metric": one.column.metric,
            "row": one.label,
            "setting": short(one, setting),
            "value": trial.settings[setting],
            "scale": "list" if isinstance(values, list) else "log" if values["log"] else "linear",
            "seed": trial.seed,
            "trial": trial.number,
            "dev": round(100 * trial.score, 6),
            "chosen_by": round(100 * trial.selection, 6),
            "chosen": int(any(trial is own for own in best)),
            "importance": round(mattered[setting], 6) if setting in mattered else None,
        }
        for one, best, mattered in ((one, chosen(one), shares(one)) for one in found(table))
        for setting, values in one.space.items()
        for trial in one.trials
    ]


def records(table: Table) -> dict[str, Any]:
    return {"rows": rows(table)}


def value(setting: Any) -> str:
    return f"{setting:.3g}" if isinstance(setting, float) else str(setting)
