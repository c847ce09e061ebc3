"""The runs of a plan in long form, a row a run, as files for other programs."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

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
                "parquet is a binary format: send it to a file, as in harness report --format parquet > runs.parquet"
            )
        sys.stdout.flush()
        runs.to_parquet(sys.stdout.buffer, index=False)
    else:
        for row in runs.to_dict("records"):  # pandas' own JSON has ten decimal places, where a 1e-12 is 0
            print(json.dumps({name: _told(value) for name, value in row.items()}, ensure_ascii=False))


def _told(value: Any) -> Any:
    """What JSON has a word for: nothing where a value is missing or not finite."""
    import pandas

    return None if value is pandas.NA or (isinstance(value, float) and not math.isfinite(value)) else value
