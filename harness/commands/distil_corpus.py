"""`harness distil-corpus`: the distillations on a corpus that a study starts from, by every process of one launch."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.executors import environment
from harness.executors.made_on import made_on
from harness.files import check_writable
from harness.ledger import Ledger
from harness.planning import filed
from harness.planning import plan as planning
from harness.planning.planned import Plan, waited_for
from harness.planning.request import Request, check_early
from harness.runs import CorpusDistillationRun, Run
from harness.runs.told import Entry, Record
from harness.search.display import display
from harness.search.driver import workspace_of


def distil_corpus(options: Namespace) -> int:
    """Train the corpus distillations that `harness run` would begin with, and what they wait for.

    One process by itself; under torchrun or `accelerate launch` all of them share out every batch. The leading one
    plans, records and tells; --out is a folder that all see. Returns the exit status.
    """
    if environment.launched() > 1:  # refuses what cannot be a launch
        end_with_launcher()
    environment.prepare()

    request, out = Request.of(options), Path(options.out)
    if os.environ.get("RANK", "0") == "0":  # the leading process; others wait for it below, and are not told twice
        filed.check_study(out, request)
        check_early(request)
    with ExitStack() as held:
        plan: Plan = _told(lambda: _planned(request, out, held))
        ledger = Ledger(out)  # in every process
        failed = [run for run in wanted(plan) if not _made(run, plan, ledger)]
    return 1 if failed else 0


def end_with_launcher() -> None:
    """End as soon as the process that began this one is gone: it was killed, and its command may be given again."""
    launcher = os.getppid()

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def wanted(plan: Plan) -> list[str]:
    """The corpus distillations of a plan and the runs they wait for, each after those that it waits for itself."""
    asked_for = (run for run, first in plan.first.items() if isinstance(first.run, CorpusDistillationRun))
    return list(waited_for(plan.first, asked_for))


def _planned(request: Request, out: Path, held: ExitStack) -> Plan:
    """The plan, written down; the folder is locked until `held` ends."""
    check_writable(out)
    held.enter_context(Ledger(out, create=True).lock())
    plan = planning.resolve(request, cache=out / "cache")
    if not (runs := wanted(plan)):
        raise UserError(f"study {request.study} distils nothing on a corpus, so there is nothing to pre-train")
    for run in runs:
        _check_shares(plan.first[run].run)
    filed.keep(out, plan)
    return plan


def _check_shares(run: Run) -> None:
    """Raise UserError if a batch has fewer micro-batches than there are processes."""
    from harness.training import processes

    if not isinstance(run, CorpusDistillationRun):
        return
    size, together = run.settings["batch_size"], processes.number()
    parts = -(-size // (run.settings["micro_batch"] or size))
    if parts < together:
        most = size // together
        raise UserError(
            f"{together} processes divide a batch by micro-batches, and a batch of {size} pieces has {parts}: "
            + (
                f"give --set general.micro_batch=N, N from 1 to {most}, here and to harness run"
                if most
                else "start fewer processes, or make general.batch_size larger"
            )
        )


def _made(run: str, plan: Plan, ledger: Ledger) -> bool:
    """Train the run unless it is there. True in every process if it is there in the end."""
    from harness.training import processes

    first = plan.first[run]
    where = workspace_of(plan, ledger.out, run, first.run)

    def there(name: str) -> bool:
        return (ledger.read(name) or {}).get("status") == "finished" and not ledger.trouble_with_weights(name)

    begins = _told(lambda: not there(run) and all(map(there, first.after)))
    if begins and processes.leads():
        with display(plan) as watcher:
            record = _attempt(first.run, where, lambda entry: watcher.epoch(first.run, entry))
            ledger.write(run, record, None)
            watcher.ended(first.run, record)
    elif begins and first.run.shared_out:
        _attempt(first.run, where, lambda entry: None)
    return bool(_told(lambda: there(run)))


def _attempt(run: Run, where: Any, tell: Callable[[Entry], None]) -> Record:
    """One run's record. A loss that is not finite fails it in every process; anything else ends the launch."""
    from harness.executors import preload  # noqa: F401
    from harness.jobs.perform import perform
    from harness.training import processes
    from harness.training.loop import TrainingFailure

    try:
        return perform(run.specification(), where, tell)[0] | {"made_on": made_on()}
    except TrainingFailure as error:
        if isinstance(error.__cause__, UserError) and processes.number() > 1:
            raise error.__cause__ from error  # met by this process, perhaps alone: the others must not wait for it
        told = {"error": str(error), "traceback": traceback.format_exc()}
        return {"status": "failed", "specification": run.specification()} | told


def _told(find: Callable[[], Any]) -> Any:
    """What the leading process finds, in every process; its UserError ends them all and is told once."""
    from harness.training import processes

    refused, found = None, None
    try:
        found = find() if processes.leads() else None
    except UserError as error:
        refused = error
    status, value = processes.from_leader((refused and refused.status, found))
    if refused is not None:
        raise refused
    if status:
        sys.exit(status)
    return value
