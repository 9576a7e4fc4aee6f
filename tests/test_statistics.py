"""Intervals, paired differences, corrected p-values, verdicts and their printed forms."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from companion.runs import statistics

VALUES = np.random.default_rng(0).normal(5, 1, 8)


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_interval_of_a_mean_is_that_of_the_t_test(level):
    mean, low, high = statistics.mean_interval(VALUES, level)
    assert mean == VALUES.mean()
    assert (low, high) == pytest.approx(stats.ttest_1samp(VALUES, 0).confidence_interval(level))


def test_an_interval_needs_two_values_and_has_no_width_where_they_are_equal():
    assert np.isnan(statistics.mean_interval([])).all()
    assert (
        statistics.mean_interval([3.0]).mean == 3
        and np.isnan(statistics.mean_interval([3])[1:]).all()
    )
    assert statistics.mean_interval([3, 3, 3]) == (3, 3, 3)


def test_the_interval_covers_the_mean_as_often_as_it_says():
    # 4,000 normal samples of 10: the count outside is binomial; false alarm below 1e-6 at 5 sd.
    samples = np.random.default_rng(0).normal(size=(4000, 10))
    _, low, high = statistics.mean_band(samples.T)
    outside = np.count_nonzero((low > 0) | (high < 0))
    assert abs(outside - 200) < 5 * np.sqrt(4000 * 0.05 * 0.95)


def test_a_band_is_the_interval_of_each_column():
    columns = np.random.default_rng(1).normal(size=(6, 4))
    expected = np.transpose([statistics.mean_interval(column) for column in columns.T])
    np.testing.assert_allclose(statistics.mean_band(columns), expected)
    assert all(np.isnan(end).all() for end in statistics.mean_band(columns[:1])[1:])


def test_one_more_run_lies_in_its_prediction_interval_as_often_as_it_says():
    # 20,000 runs: the share is binomial; false alarm below 1e-6 at 5 standard deviations.
    samples = np.random.default_rng(2).normal(size=(20_000, 6))
    ends = np.array([statistics.prediction_interval(row[:5])[1:] for row in samples])
    share = ((ends[:, 0] <= samples[:, 5]) & (samples[:, 5] <= ends[:, 1])).mean()
    assert abs(share - 0.95) < 5 * np.sqrt(0.95 * 0.05 / len(samples))


@pytest.mark.parametrize("relative", [False, True])
def test_the_gain_of_two_more_separate_runs_lies_in_its_interval(relative):
    # 5,000 experiments of six seeds whose two runs share a part; the next two runs share none. Coverage is at least 95 %,
    # since the mean gain of runs that share a part is known better; false alarm below 1e-6 at 5 standard deviations.
    rng, inside = np.random.default_rng(3), 0
    for _ in range(5_000):
        shared = rng.normal(size=6)
        first, second = (pd.Series(level + shared + rng.normal(size=6)) for level in (60, 50))
        _, low, high = statistics.gain_prediction_interval(first, second, relative)
        one, other = (60, 50) + np.sqrt(2) * rng.normal(size=2)
        inside += low <= (100 * (one / other - 1) if relative else one - other) <= high
    assert inside / 5_000 > 0.95 - 5 * np.sqrt(0.95 * 0.05 / 5_000)
    shared_only = pd.Series(VALUES)
    _, low, high = statistics.gain_prediction_interval(shared_only + 1, shared_only)
    assert (
        high - low > 2 * np.sqrt(2) * shared_only.std()
    )  # not zero, as the spread of the differences is


def test_a_paired_difference_is_over_common_seeds_with_the_p_value_of_the_paired_test():
    first = pd.Series(VALUES)
    second = pd.Series(VALUES[:6] + np.linspace(-1, 2, 6), index=range(2, 8))
    difference = statistics.paired_difference(first, second)
    assert difference.pairs == 6
    assert difference.p == pytest.approx(stats.ttest_rel(first[2:], second).pvalue)
    assert difference.interval == statistics.mean_interval(first[2:] - second)
    one = statistics.paired_difference(first[:3], second)
    assert one.pairs == 1 and np.isnan([one.low, one.high, one.p]).all()


def test_holm_is_the_published_correction():
    # The example of https://en.wikipedia.org/wiki/Holm%E2%80%93Bonferroni_method, and R's p.adjust on it.
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([0.9, 0.5]) == pytest.approx([1.0, 1.0])
    np.testing.assert_array_equal(statistics.holm([np.nan, 0.02]), [np.nan, 0.02])
    assert statistics.holm([]).shape == (0,)


def test_holm_keeps_the_familywise_rate():
    # 4,000 families of 5 null comparisons: errors are binomial; false alarm below 1e-6 at 5 sd.
    p = np.random.default_rng(1).uniform(size=(4000, 5))
    errors = sum((statistics.holm(row) < 0.05).any() for row in p)
    assert errors <= 200 + 5 * np.sqrt(4000 * 0.05 * 0.95)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.1, 2.0, "better"),
        (1.0, 2.0, "no worse"),
        (-0.9, 5.0, "no worse"),
        (-1.0, 5.0, "we do not know"),
        (-3.0, -0.9, "we do not know"),
        (-3.0, -1.1, "worse"),
        (np.nan, np.nan, "we do not know"),
    ],
)
def test_the_verdict_on_a_gain_compares_its_interval_with_the_smallest_effect(low, high, verdict):
    assert statistics.judge_gain(low, high, 1.0) == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.1, 0.5, "above"), (-0.5, -0.1, "below"), (-1, 1, "not told apart from")],
)
def test_the_side_of_zero_of_an_interval(low, high, verdict):
    assert statistics.judge_sign(low, high) == verdict


@pytest.mark.parametrize(
    ("verdicts", "combined"),
    [
        (["agrees", "agrees"], "agrees"),
        (["agrees", "no-data", "undecided"], "undecided"),
        (["undecided", "differs", "no-data"], "differs"),
        (["agrees", "pending", "no-data"], "no-data"),
    ],
)
def test_a_claim_of_several_parts_fails_if_one_part_differs(verdicts, combined):
    assert statistics.combine_verdicts(verdicts) == combined


@pytest.mark.parametrize(
    ("interval", "form", "text"),
    [
        ((1.24, 0.9, 1.6), ".1f", "1.2 (0.9 to 1.6)"),
        ((-1.24, np.nan, np.nan), "+.1f", "-1.2"),
        ((-0.0232, -0.0285, -0.0179), ".1f", "-0.023 (-0.029 to -0.018)"),
        ((0.04, -0.03, 0.11), "+.1f", "+0.04 (-0.03 to +0.11)"),
        ((-0.04, -0.9, 0.8), ".1f", "0.0 (-0.9 to 0.8)"),
        ((np.nan, 0, 1), ".1f", "–"),
    ],
)
def test_an_interval_is_printed_with_decimals_that_suit_its_width(interval, form, text):
    assert statistics.format_interval(*interval, form) == text


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ((-1.24, -2.0, -0.4), "−1.2 ± 0.8"),
        ((-0.0232, -0.0285, -0.0179), "−0.023 ± 0.005"),
        ((0, 0, 0), "+0.0 ± 0.0"),
        ((np.nan, 0, 1), "–"),
    ],
)
def test_a_mean_with_half_its_interval_is_printed_without_breaking_spaces(interval, text):
    assert statistics.format_plus_minus(*interval, "+.1f") == text.replace(" ", "\u00a0")


def test_a_p_value_and_a_difference_in_points_are_printed():
    assert [statistics.format_p(p) for p in (0.0004, 0.0312, np.nan)] == [
        "<\u00a00.001",
        "0.031",
        "–",
    ]
    assert statistics.format_points(6.6, 3.7, 9.4) == "+6.6 points (+3.7 to +9.4)"
