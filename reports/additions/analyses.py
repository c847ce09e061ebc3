"""What a table can be asked for in its place: as grids of text, and as tidy records that are also its figure's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from harness.reports.additions import sensitivity, tuning
from harness.reports.figures import sensitivity as by_setting
from harness.reports.figures import tuning as by_trials
from harness.reports.tables.layout import Grid
from harness.reports.tables.shapes import Table


class Analysis(NamedTuple):
    """grids: raises UserError where there is nothing to tell. rows: plain numbers and strings, of CSV and JSON."""

    grids: Callable[[Table], list[Grid]]
    rows: Callable[[Table], list[dict[str, Any]]]


ANALYSES = {
    "tuning": Analysis(tuning.grids, by_trials.rows),
    "sensitivity": Analysis(sensitivity.grids, by_setting.rows),
}
