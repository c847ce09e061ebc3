"""The words that flags take of what other files define, so that `harness --help` imports none of them."""

from __future__ import annotations

ADDITIONS = ("over_tasks", "selection", "tuning", "sensitivity")  # of harness.reports.additions
COLUMNS = ("parameters", "megabytes", "speed")  # of harness.commands.columns
FIGURES = (  # of harness.reports.figures
    *("heatmap", "points", "pareto", "curves", "tuning", "sensitivity"),
    *("critical_differences", "verdicts", "masked_words"),
)
LAYOUTS = ("lines", "matrix")  # of harness.reports.tables.table
WIDTHS = ("one", "two", "both")  # of harness.reports.figures.drawing
TRACKERS = ("tensorboard", "mlflow", "wandb")  # of harness.search.tracking
NEW = ("objective", "student", "teacher", "task", "study", "procedure", "plugin")  # of harness.commands.new
KINDS = (  # of harness.commands.declared
    *("objectives", "students", "teachers", "studies", "procedures", "tasks", "sources"),
    *("settings", "inits", "metrics", "profiles"),
)
