"""How a number is written, by its metric: counts and measurements as they are, every other metric × 100."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

WHOLE = frozenset({"parameters", "classifier_parameters", "encoder_parameters"})  # counted, so compared exactly
# The same for every seed: without spread.
COUNTED = WHOLE | {"millions_of_parameters", "millions_without_embeddings", "size_factor", "megabytes"}
MACHINE = frozenset({"sentences_per_second", "seconds"})  # of another machine another number: never subtracted
MEASURED = {  # three significant digits, then this sign
    "sentences_per_second": "",
    "sentences_per_second_from_ids": "",
    "sentences_per_second_from_text": "",
    "sentences_tokenized_per_second": "",
    "tokenizer_share": " %",
    "speed_ratio": "×",
    "time_factor": "×",
    "seconds": " s",
    "millions_of_parameters": " M",
    "millions_without_embeddings": " M",
    "size_factor": "×",
    "megabytes": " MB",
    "distillation_loss": "",
}
# Metrics of which one answer for all examples has nothing.
FROM_NOTHING = frozenset({"matthews", "kappa", "pearson", "spearman", "kendall", "pearson_spearman_mean", "r2"})
# What a row has of a quantity as a multiple of what the study's `relative_to` has; the time is the inverse of a speed.
RELATIVE = {"size_factor": ("millions_without_embeddings", False), "time_factor": ("speed_ratio", True)}


def is_score(metric: str) -> bool:
    """True of a fraction or correlation: it is shown × 100 and competes. A quantity does neither."""
    return metric not in WHOLE and metric not in MEASURED


def scaled(metric: str, value: float) -> float:
    """The value in the unit it is shown in: points for a score, its own for a quantity."""
    return 100 * value if is_score(metric) else value


def written(metric: str, value: float, std: float | None = None, places: int | None = None) -> str:
    """A value as scaled() gives it: "85.3 ± 0.4", "47,861,634", "12,300 ± 200", "6.52×"; a count has no spread.

    places: the most decimal places that a measurement is written with.
    """
    if metric in WHOLE:
        return f"{round(value):,}".replace("-", "−")
    shown = 1 if is_score(metric) else _places(value, 3)
    if places is not None and not is_score(metric):
        shown = min(shown, places)
    spread = ""
    if std is not None and metric not in COUNTED:  # of a measurement never rounded to nothing
        spread = f" ± {_fixed(std, shown if is_score(metric) else max(shown, _places(std, 1)))}"
    return _fixed(value, shown) + MEASURED.get(metric, "") + spread


def difference(metric: str, value: float, std: float | None = None, of: float | None = None) -> str:
    """A difference of two scaled values with its sign; of counts that are equal "0".

    of: one of the two, than whose last decimal place that of a measurement is no finer.
    """
    if metric in WHOLE and value == 0:
        return "0"
    text = written(metric, value, std, None if of is None else max(_places(of, 3), 0))
    return text if text.startswith("−") else f"+{text}"


def printed(metric: str, text: str) -> str:
    """A score as a paper prints it, a quantity with its digits there, thousands apart, and its sign."""
    if is_score(metric):
        return text
    return f"{number(text):,.{len(text.partition('.')[2])}f}".replace("-", "−") + MEASURED.get(metric, "")


def number(text: str) -> float:
    """The number that a published table prints, with or without separators or a sign."""
    return float(text.replace(",", ""))


def _places(value: float, digits: int) -> int:
    """Decimal places that leave so many significant digits of it as rounded; negative left of the point."""
    if not value:
        return 0
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return places - (_rounded(abs(value), places) >= Decimal(10).scaleb(digits - 1 - places))  # 9.996 is 10.0


def _fixed(value: float, places: int) -> str:
    """The value with so many decimal places, halves away from zero, whatever the last bits of the sum behind it are."""
    rounded = float(_rounded(value, places)) + 0.0  # + 0.0: no minus before zero
    return f"{rounded:,.{max(places, 0)}f}".replace("-", "−")


def _rounded(value: float, places: int) -> Decimal:
    return Decimal(f"{value:.{max(places, 0) + 9}f}").quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
