"""The runs of a plan in long form, a row a run, as files for other programs."""

from __future__ import annotations

import sys

from harness.errors import UserError
from harness.ledger import Ledger
from harness.planning.planned import Plan
from harness.search.frame import frame

FORMATS = ("jsonl", "parquet")


def write(plan: Plan, ledger: Ledger, form: str) -> None:
    """Write every run to standard output. Raises UserError for parquet, no text, on a terminal."""
    runs = frame(plan, ledger)
    if form == "parquet":
        if sys.stdout.isatty():
            raise UserError(
                "parquet is no text: send it to a file, as in harness report --format parquet > runs.parquet"
            )
        sys.stdout.flush()
        runs.to_parquet(sys.stdout.buffer, index=False)
    else:
        print(runs.to_json(orient="records", lines=True, force_ascii=False), end="")
