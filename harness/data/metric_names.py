"""What a task can be scored by, in words; `harness.evaluation.metrics` computes it."""

from __future__ import annotations

from collections.abc import Collection

from harness.errors import UserError, near

BINARY = {"f1": "F1 of the second of two classes"}
CLASSES = {
    "accuracy": "the share of examples whose class is right",
    "macro_f1": "the mean of the classes' F1, each counting alike",
    "weighted_f1": "the mean of the classes' F1, each counting as often as it is there",
    "macro_precision": "the mean of the classes' precision, each counting alike",
    "balanced_accuracy": "the mean of the classes' recall, each counting alike",
    "matthews": "Matthews' correlation coefficient",
    "kappa": "Cohen's kappa",
}
SCORES = {
    "pearson": "Pearson's correlation",
    "spearman": "Spearman's rank correlation",
    "kendall": "Kendall's rank correlation, tau-b",
    "r2": "the share of the variance that is explained; below 0 where the mean would be closer",
}
MEANS = {"accuracy_f1_mean": ("accuracy", "f1"), "pearson_spearman_mean": ("pearson", "spearman")}
ALL = (*CLASSES, *BINARY, *SCORES, *MEANS)
# What is counted, timed or compared of a model, whatever its task: columns of a study beside scores.
QUANTITIES = (
    *("parameters", "classifier_parameters", "encoder_parameters", "millions_of_parameters"),
    *("millions_without_embeddings", "size_factor", "megabytes", "seconds", "time_factor", "speed_ratio"),
    *("sentences_per_second", "sentences_per_second_from_ids", "sentences_per_second_from_text"),
    *("sentences_tokenized_per_second", "tokenizer_share", "distillation_loss", "agreement"),
)
# As scikit-learn, SciPy and `evaluate` call them.
ALIASES = {
    "f1_macro": "macro_f1",
    "f1_weighted": "weighted_f1",
    "precision_macro": "macro_precision",
    "macro_recall": "balanced_accuracy",
    "recall_macro": "balanced_accuracy",
    "balanced_accuracy_score": "balanced_accuracy",
    "matthews_corrcoef": "matthews",
    "matthews_correlation": "matthews",
    "mcc": "matthews",
    "cohen_kappa": "kappa",
    "cohen_kappa_score": "kappa",
    "accuracy_score": "accuracy",
    "f1_score": "f1",
    "pearsonr": "pearson",
    "spearmanr": "spearman",
    "kendalltau": "kendall",
    "r2_score": "r2",
    "r_squared": "r2",
}
LESS = ("mse", "rmse", "mae", "mean_squared_error", "mean_absolute_error", "log_loss", "hamming_loss", "brier_score")


def usual(classes: int) -> tuple[str, ...]:
    """The metrics that are recorded of a user's own task, the default first. classes: 0 for a score."""
    found = ("accuracy", "macro_f1", "balanced_accuracy", "matthews") if classes else ("spearman", "pearson")
    return (*found, "f1") if classes == 2 else found


def chosen(name: str, task: str, classes: int, own: Collection[str] = ()) -> str:
    """The metric that a task is asked to have, "" for the default. Raises UserError for one that is not of its kind.

    own: what the plugin of a task brings, whatever its kind.
    """
    if not name:
        return usual(classes)[0]
    if name in own:
        return name
    name = ALIASES.get(name, name)
    fitting = {**CLASSES, **(BINARY if classes == 2 else {})} if classes else SCORES
    names = [*own, *fitting, *(mean for mean, parts in MEANS.items() if fitting.keys() >= {*parts})]
    if name in names:
        return name
    if name in LESS:
        raise UserError(f"metric {name} is best when lowest, but tables take the highest: use {', '.join(names)}")
    if name in ALL:
        what = f"{classes} classes" if classes else "a score"
        raise UserError(f"task {task} has {what}, to which metric {name} does not apply: use {', '.join(names)}")
    raise UserError(f"unknown metric {name!r} of task {task}: {near(name, names, 30)}")
