"""Which hyperparameters a cell's next trial gets: decided by the cell, the trial's number and the trials before."""

from __future__ import annotations

import functools
import itertools
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.files import digest
from harness.hyperparameters import Hyperparameters, Value
from harness.planning.space import Dimension, Space, is_grid, spreads
from harness.seeds import derive_seed

if TYPE_CHECKING:
    import optuna


def propose(
    cell: str,
    space: Space,
    trials: int,
    number: int,
    before: Sequence[tuple[Hyperparameters, float | None]],
    sampler: str = "",
    seed: int = 0,
) -> Hyperparameters:
    """The hyperparameters of trial `number` (0-based) of `trials`; a grid has no more trials than settings.

    before: (hyperparameters, selection score or None if it failed) of trials 0..number-1 in order. Without a sampler a
    grid is walked in its declared order, the last dimension fastest, or where it has more settings than there are
    trials, as `_spread` says; of ranges Optuna's TPE proposes. It is seeded by cell and number, so that the proposal
    does not depend on when, where or in how many sessions the earlier trials ran. "random" draws as `_at_random` says.
    Of a grid no sampler proposes a setting twice: the next one that `_spread` has takes its place. seed: of the trials;
    each has a search of its own draws.
    """
    own = f"seed {seed}" if seed else ""
    if is_grid(space) and not (sampler and space):
        walk = _spread(_names(space), own) if spreads(space, trials) else list(itertools.product(*space.values()))
        return dict(zip(space, walk[number], strict=True))
    drawn = _at_random(space, number, own) if sampler == "random" else _by_tpe(cell, space, number, before, own)
    tried = [hyperparameters for hyperparameters, _ in before]
    if is_grid(space) and drawn in tried:
        settings = (dict(zip(space, values, strict=True)) for values in _spread(_names(space), own))
        return next(setting for setting in settings if setting not in tried)
    return drawn


def _by_tpe(
    cell: str, space: Space, number: int, before: Sequence[tuple[Hyperparameters, float | None]], own: str
) -> Hyperparameters:
    import optuna

    seed = derive_seed("tpe", cell, number, *filter(None, [own])) % 2**32
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=5)
    study = _study(sampler)
    for hyperparameters, score in before:
        study.add_trial(frozen(space, hyperparameters, score))
    return _asked(study, space)


def _at_random(space: Space, number: int, own: str) -> Hyperparameters:
    """Each dimension is drawn by itself, seeded by its name, its values, the trial's number and its search alone.

    So all cells that search the same dimension see the same of its points, whatever else they search beside it, and
    objectives of one student differ by what they do with them. Of several alike in one space, such as two terms'
    temperatures, each further one draws by its place among them, too: otherwise all would have one value.
    """
    import optuna

    found: dict[str, Value] = {}
    alike: Counter[str] = Counter()
    for name, values in space.items():
        dimension = [name.rpartition(".")[2], values]
        place = alike[json.dumps(dimension)]
        alike[json.dumps(dimension)] += 1
        seed = derive_seed("random", *dimension, number, *filter(None, [place, own])) % 2**32
        found |= _asked(_study(optuna.samplers.RandomSampler(seed=seed)), {name: values})
    return found


def _study(sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize", sampler=sampler)


def _asked(study: optuna.Study, space: Space) -> dict[str, Value]:
    trial = study.ask(distributions(space))
    return {name: trial.params[name] for name in space}


def _names(space: Space) -> str:
    """The space as `_spread` takes it."""
    return json.dumps([[name.rpartition(".")[2], values] for name, values in space.items()])


@functools.cache
def _spread(grid: str, own: str) -> list[tuple[Value, ...]]:
    """All settings of a grid such that any first few are spread over it: the same for all cells, whatever the budget.

    The declared first is the first; then always the one whose values were tried least so far, of equals the one that a
    hash of the grid, the setting and whose `own` search it is puts first. grid: JSON of (name without whose it is,
    values) for each dimension.
    """
    left = list(itertools.product(*(values for _, values in json.loads(grid))))
    walk: list[tuple[Value, ...]] = []
    tried: Counter[tuple[int, Value]] = Counter()
    chance = {setting: digest([grid, setting, *filter(None, [own])]) for setting in left}
    while left:
        least = min(left, key=lambda s: (sum(tried[at] for at in enumerate(s)), chance[s])) if walk else left[0]
        left.remove(least)
        walk.append(least)
        tried.update(enumerate(least))
    return walk


def distributions(space: Space) -> dict[str, optuna.distributions.BaseDistribution]:
    """The space in Optuna's terms."""
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

    def one(values: Dimension) -> BaseDistribution:
        if isinstance(values, list):
            return CategoricalDistribution(values)
        if values["whole"]:
            return IntDistribution(int(values["low"]), int(values["high"]), log=values["log"])
        return FloatDistribution(values["low"], values["high"], log=values["log"])

    return {name: one(values) for name, values in space.items()}


def frozen(
    space: Space, hyperparameters: Hyperparameters, score: float | None, pruned: bool = False, **more: Any
) -> optuna.trial.FrozenTrial:
    """A finished trial in Optuna's terms; no score means that it failed."""
    import optuna

    states = optuna.trial.TrialState
    state = states.FAIL if score is None else states.PRUNED if pruned else states.COMPLETE
    return optuna.trial.create_trial(
        params=dict(hyperparameters), distributions=distributions(space), value=score, state=state, **more
    )
