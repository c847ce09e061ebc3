"""Optuna's database: a view of the ledger that the Optuna dashboard opens. Deleting it loses nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.ledger import Ledger
from harness.search.progress import progress
from harness.search.proposals import frozen


def synchronise(plan: Mapping[str, Any], ledger: Ledger, path: Path) -> str:
    """Tell the database of every finished trial that it lacks. Returns "" or why it could not be brought up to date.

    Trouble here never stops a study: the ledger has everything, and the next start tries again.
    """
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        storage = optuna.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": 20}})
        known = {study.study_name: study._study_id for study in storage.get_all_studies()}
        for cell in plan["cells"]:
            if cell["refused"] or not cell["space"]:
                continue
            trials = progress(cell, plan["defaults"], ledger.read).trials
            if not trials:
                continue
            name = f"{plan['study']}/{cell['row']}/{cell['student']}/{cell['init']}/{cell['task']}/{cell['id']}"
            number = known.get(name)
            if number is None:
                number = storage.create_new_study([optuna.study.StudyDirection.MAXIMIZE], name)
            told = (
                {t.user_attrs.get("run") for t in storage.get_all_trials(number, deepcopy=False)}
                if name in known
                else set()
            )
            for trial in trials:
                if trial.run not in told:
                    attributes = {"run": trial.run, "metrics": trial.record.get("metrics", {})}
                    storage.create_new_trial(
                        number, frozen(cell["space"], trial.hyperparameters, trial.score, user_attrs=attributes)
                    )
        storage.remove_session()
        storage.engine.dispose()
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError, optuna.exceptions.DuplicatedStudyError) as error:
        return f"Optuna's database {path} could not be brought up to date ({type(error).__name__}); no result is lost"
    return ""
