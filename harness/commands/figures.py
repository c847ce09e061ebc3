"""harness figures: the figures of the last table as files for a paper, with their data."""

from __future__ import annotations

from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from harness import registry, reports
from harness.commands import columns
from harness.commands.recorded import recorded, say_damage, table_of
from harness.commands.telling import say, tell
from harness.errors import UserError, check_known, counted, listed, near
from harness.files import atomic_file, check_writable
from harness.ledger import Ledger
from harness.planning.naming import folder_of
from harness.planning.planned import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figures(options: Namespace) -> int:
    """Write each figure asked for, of those that the table has, as SVG, PDF, PNG and CSV."""
    for name in options.names:
        check_known("figure", name, reports.FIGURES)
    plan, ledger = recorded(options)
    table, study = table_of(plan, ledger), registry.STUDIES.get(plan.study)
    table = reports.with_published(table, study) if study.published else table
    folder = Path(options.to) if options.to else folder_of(ledger.out, plan) / "figures"
    check_writable(folder, "--to")  # before anything is measured for columns
    table = columns.added(plan, ledger, table, options.columns) if options.columns else table
    widths = reports.WIDTHS if options.width == "both" else {options.width: reports.WIDTHS[options.width]}
    written, undrawn, files = 0, list[str](), dict[str, bytes]()
    for name in options.names or reports.FIGURES:
        kind, shown = reports.FIGURES[name], measured(plan, ledger, table, name) if options.names else table
        rows, missing = kind.rows(shown)
        if missing:
            say(f"{name} is not drawn: {missing}")
            continue
        files[f"{name}.csv"], before = reports.rows_as_csv(rows).encode(), len(files) + 1
        for of_paper, width in widths.items():
            columns_wide = f"{of_paper} column{'s' * (of_paper != 'one')}"
            try:
                figure = kind.drawn(shown, width)
            except UserError as error:
                say(f"{name} is not drawn for {columns_wide}: {error}")
                continue
            assert figure is not None  # there are rows
            for form, write in reports.WRITERS.items():
                files[f"{name}_{columns_wide.replace(' ', '_')}.{form}"] = write(figure)
        if len(files) == before:  # it fits no width
            undrawn.append(name)
            continue
        tell(f"{name}: {kind.title}")
        written += 1
    say_damage(ledger)
    if not written:
        raise UserError("none of these figures can be drawn from this table")
    with ExitStack() as whole:
        for file, content in files.items():
            half = whole.enter_context(atomic_file(folder / file))
            half.write(content)
            half.flush()  # on a full disk it ends here, and those of before stay
        for path in map(folder.joinpath, files):
            if not path.is_dir():  # killed from here on it leaves some missing, none beside those of an earlier table
                path.unlink(missing_ok=True)
    also = f", and of {listed(undrawn)} the data alone" if undrawn else ""
    tell(f"{counted(written, 'figure')}, as {', '.join(reports.WRITERS)} and csv{also}, in {folder}")
    return 0


def measured(plan: Plan, ledger: Ledger, table: reports.Table, name: str) -> reports.Table:
    """The table that this figure is drawn of: with the columns that it needs, where it has none of them."""
    kind = reports.FIGURES[name]
    wanted = () if kind.rows(table)[0] else kind.columns
    return columns.added(plan, ledger, table, wanted) if wanted else table


def figure_of(plan: Plan, ledger: Ledger, table: reports.Table, name: str) -> Figure:
    """The figure of this name. Raises UserError where there is none, or nothing to draw."""
    check_known("figure", name, reports.FIGURES)
    kind, shown = reports.FIGURES[name], measured(plan, ledger, table, name)
    figure = kind.drawn(shown)
    if figure is None:
        others = [other for other, kind in reports.FIGURES.items() if kind.rows(table)[0]]
        raise UserError(f"there is nothing to draw in {name}, because {kind.rows(shown)[1]}: {near(name, others)}")
    return figure
