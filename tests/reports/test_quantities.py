"""How numbers are written, by their metric."""

import statistics

import pytest

from harness.reports.tables.quantities import difference, is_score, number, printed, scaled, written


@pytest.mark.parametrize(
    "metric, value, std, expected",
    [
        ("accuracy", 85.34, 0.449, "85.3 ± 0.4"),
        ("accuracy", 85.25, 0.25, "85.3 ± 0.3"),
        ("accuracy", 100 * (0.85 + 0.857) / 2, None, "85.4"),  # 85.35, in a float a little less
        ("accuracy", -0.05, None, "−0.1"),
        ("matthews", -0.04, None, "0.0"),
        ("parameters", 47861634.0, 0.0, "47,861,634"),
        ("classifier_parameters", 0.0, None, "0"),
        ("sentences_per_second", 12345.6, 187.0, "12,300 ± 200"),
        ("sentences_per_second", 12345.6, 3.0, "12,300 ± 3"),
        ("sentences_per_second", 41.27, 0.42, "41.3 ± 0.4"),
        ("speed_ratio", 6.522, None, "6.52×"),
        ("speed_ratio", 860.4, 12.0, "860× ± 12"),
        ("speed_ratio", 0.0123456, None, "0.0123×"),
        ("speed_ratio", 9.996, None, "10.0×"),
        ("speed_ratio", 99.949, 9.96, "99.9× ± 10.0"),
        ("distillation_loss", 0.02884, 0.00031, "0.0288 ± 0.0003"),
        ("millions_without_embeddings", 4.8312, 0.0, "4.83 M"),
        ("seconds", 26.84, 0.2, "26.8 s ± 0.2"),
    ],
)
def test_a_value_is_written(metric, value, std, expected):
    assert written(metric, value, std) == expected


@pytest.mark.parametrize(
    "metric, value, expected",
    [
        ("accuracy", -2.44, "−2.4"),
        ("accuracy", 0.0, "+0.0"),
        ("parameters", 0.0, "0"),
        ("parameters", -1234.0, "−1,234"),
        ("sentences_per_second", 13611.0, "+13,600"),
    ],
)
def test_a_difference_has_a_sign(metric, value, expected):
    assert difference(metric, value) == expected


def test_a_difference_of_two_rows_has_a_spread():
    assert difference("accuracy", 5.49, 0.71) == "+5.5 ± 0.7"


@pytest.mark.parametrize(
    "metric, value, of, expected",
    [
        ("millions_without_embeddings", 0.0312, 4.8312, "+0.03 M"),
        ("distillation_loss", -0.00013, 0.0288, "−0.0001"),
        ("sentences_per_second", 7745.6, 12345.6, "+7,750"),
        ("accuracy", 0.12, 85.3, "+0.1"),
    ],
)
def test_a_difference_of_measurements_is_no_finer_than_they_are(metric, value, of, expected):
    assert difference(metric, value, of=of) == expected


@pytest.mark.parametrize(
    "metric, text, expected",
    [
        ("accuracy", "70.23", "70.23"),
        ("f1", "0.", "0."),
        ("millions_without_embeddings", "4.8", "4.8 M"),
        ("millions_without_embeddings", "309", "309 M"),
        ("distillation_loss", "0.0288", "0.0288"),
        ("sentences_per_second", "14600", "14,600"),
        ("seconds", "1461.9", "1,461.9 s"),
        ("time_factor", "54.4", "54.4×"),
        ("parameters", "4,025,0421", "40,250,421"),
    ],
)
def test_a_printed_quantity_gets_no_digit_that_was_not_printed(metric, text, expected):
    assert printed(metric, text) == expected


def test_scores_alone_are_multiplied():
    assert scaled("accuracy", 0.5) == 50 and scaled("speed_ratio", 6.5) == 6.5
    assert not any(map(is_score, ("distillation_loss", "millions_without_embeddings", "seconds")))
    assert is_score("pearson_spearman_mean") and not is_score("parameters") and not is_score("sentences_per_second")


def test_a_printed_number_may_have_separators():
    assert (number("4,025,0421"), number("0.85"), number("18003")) == (40250421, 0.85, 18003)
    assert (number("+5.5"), number("-2.9"), number("0.")) == (5.5, -2.9, 0)


@pytest.mark.parametrize("examples, seeds", [(1000, 2), (400, 3), (500, 4)])
def test_equal_means_are_written_alike_whichever_runs_they_are_of(examples, seeds):
    for right in range(examples * seeds):
        half, rest = divmod(right, seeds)
        others = (half,) * (seeds - 2)
        ways = [(half - k, *others, half + rest + k) for k in range(20) if k <= half <= examples - rest - k]
        means = (statistics.fmean(k / examples for k in way) for way in ways)
        assert len({written("accuracy", scaled("accuracy", mean)) for mean in means}) <= 1, right
