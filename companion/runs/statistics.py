"""Statistics of runs: intervals, paired differences, corrected p-values, verdicts, and how they are printed.

Values are one per seed, and seeds are independent. All intervals use Student's t distribution. This is the only
module that computes them: tables, the protocol, the leaderboard, the claims and the chapters import it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

LEVEL = 0.95  # of every interval that is shown
MIN_SEEDS = 5  # a claim with fewer is undecided
# The smallest effect that matters, by unit. One point is the smallest gap that the paper reports as a result
# (56.0 against 55.0 %), and what a point costs along its curve is about 0.03 nats.
MIN_EFFECT = {
    "points": 1.0,  # of accuracy or macro F1
    "nats": 0.03,  # of the training loss
    "rounds": 5.0,  # to a given accuracy
    "% relatively": 2.0,  # one point of 50
    "digits": 0.5,  # distinct ones in a cohort
    "of a share": 0.05,
}

# The verdicts: on a published claim, and on a method's gain over the reference of the protocol.
AGREES, DIFFERS, UNDECIDED = "agrees", "differs", "undecided"
CLAIM_VERDICTS = (AGREES, DIFFERS, UNDECIDED)
BETTER, NO_WORSE, WORSE, UNKNOWN = "better", "no worse", "worse", "we do not know"
GAIN_VERDICTS = (BETTER, NO_WORSE, WORSE, UNKNOWN)
ABOVE, BELOW, NOT_TOLD_APART = "above", "below", "not told apart from"


class Interval(NamedTuple):
    """A mean with the ends of its interval; the ends are NaN where there are fewer than two values."""

    mean: float
    low: float
    high: float


class PairedDifference(NamedTuple):
    """The mean of paired differences, its interval, the p-value of the paired t-test, the number of pairs."""

    mean: float
    low: float
    high: float
    p: float
    pairs: int

    @property
    def interval(self) -> Interval:
        """The mean and the interval alone."""
        return Interval(self.mean, self.low, self.high)


# Estimates


def mean_band(values, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean of each column of values [seeds, points] and the ends of its t-interval, each [points]."""
    values = np.asarray(values, dtype=float)
    mean = values.mean(axis=0) if len(values) else np.full(values.shape[1:], np.nan)
    if len(values) < 2:
        return mean, mean * np.nan, mean * np.nan
    quantile = stats.t.ppf((1 + level) / 2, len(values) - 1)
    half = quantile * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return mean, mean - half, mean + half


def mean_interval(values, level: float = LEVEL) -> Interval:
    """Return the mean and the t-interval of values [seeds].

    This is scipy's `ttest_1samp(values, 0).confidence_interval(level)`, without its warning where all values are
    equal: the interval is then the value itself.
    """
    return Interval(*map(float, mean_band(values, level)))


def prediction_interval(values, level: float = LEVEL) -> Interval:
    """Return the mean of values [seeds] and the interval in which one more run lies with probability `level`.

    The mean plus and minus t s sqrt(1 + 1/k), with s the standard deviation of the k values.
    """
    values = np.asarray(values, dtype=float)
    seeds, mean = len(values), float(values.mean())
    quantile = stats.t.ppf((1 + level) / 2, seeds - 1)
    half = float(quantile * values.std(ddof=1) * np.sqrt(1 + 1 / seeds))
    return Interval(mean, mean - half, mean + half)


def gain_prediction_interval(
    first: pd.Series, second: pd.Series, relative: bool = False, level: float = LEVEL
) -> Interval:
    """Return the mean gain of `first` over `second` [seeds] and the interval in which that of one more run of each lies
    with probability `level`, if the two runs share no draw.

    A relative gain is in % of `second`, and its variance that of a ratio to first order.
    """
    gains = 100 * (first / second - 1) if relative else first - second
    ratio, scale = first.mean() / second.mean(), 100 / second.mean()
    if not relative:
        ratio = scale = 1.0
    seeds, mean = len(gains), float(gains.mean())
    spread = scale * np.hypot(first.std(ddof=1), ratio * second.std(ddof=1))
    quantile = stats.t.ppf((1 + level) / 2, seeds - 1)
    half = float(quantile * spread * np.sqrt(1 + 1 / seeds))
    return Interval(mean, mean - half, mean + half)


def paired_difference(first: pd.Series, second: pd.Series | float = 0.0) -> PairedDifference:
    """Return the mean of `first - second` over the seeds (the index) that both have, with interval and p-value.

    The p-value is that of the two-sided paired t-test, NaN for fewer than two pairs.
    """
    difference = (first - second).dropna()
    p = float(stats.ttest_1samp(difference, 0).pvalue) if len(difference) > 1 else np.nan
    return PairedDifference(*mean_interval(difference), p, len(difference))


def holm(p: Sequence[float]) -> np.ndarray:
    """Return p-values corrected for multiple comparisons by Holm's method, in the order given.

    Holm (1979), *A simple sequentially rejective multiple test procedure*, Scandinavian Journal of Statistics
    6, 65-70: the i-th smallest of k p-values is multiplied by k - i + 1, and none becomes smaller than one before
    it or larger than 1. A NaN stands for no comparison, stays NaN, and is not counted in k. statsmodels has the
    same (`multipletests(p, method="holm")`), but would be a large dependency for these lines.
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]  # NaN is sorted to the end
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full(len(p), np.nan)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, factors * p[order]))
    return adjusted


# Verdicts


def judge_increase(
    interval: tuple[float, float, float], min_effect: float, corrected_high: float
) -> str:
    """Judge the claim that a difference is above zero.

    Args:
        interval: the mean of the difference and the ends of its interval; the claim agrees if it is above zero.
        min_effect: the smallest effect that matters.
        corrected_high: the upper end of the interval corrected for the number of comparisons (Bonferroni); the
            claim differs if it is below the smallest effect that matters.
    """
    _, low, _ = interval
    return AGREES if low > 0 else DIFFERS if corrected_high < min_effect else UNDECIDED


def judge_no_decrease(
    interval: tuple[float, float, float], min_effect: float, corrected_high: float
) -> str:
    """Judge the claim that a difference is not below zero; a decrease smaller than `min_effect` is none.

    Args:
        interval: the mean of the difference and the ends of its interval.
        min_effect: the smallest effect that matters.
        corrected_high: the upper end of the interval corrected for the number of comparisons (Bonferroni); the
            claim differs if it is below zero.
    """
    _, low, _ = interval
    return AGREES if low > -min_effect else DIFFERS if corrected_high < 0 else UNDECIDED


def judge_equality(
    interval: tuple[float, float, float],
    printed: float,
    tolerance: float,
    min_effect: float,
    corrected: tuple[float, float, float],
) -> str:
    """Judge the claim that a value is the printed one, known up to `tolerance`.

    It agrees if all of the interval is closer to it than `min_effect` (or `tolerance`, if that is larger). Otherwise it
    differs if none of the interval `corrected` for the number of comparisons (Bonferroni) is within the tolerance.
    """
    _, low, high = interval
    near = max(tolerance, min_effect)
    if printed - near <= low and high <= printed + near:
        return AGREES
    _, low, high = corrected
    return DIFFERS if high < printed - tolerance or low > printed + tolerance else UNDECIDED


def judge_exactly(holds: bool) -> str:
    """Return the verdict on what is counted or calculated, without chance."""
    return AGREES if holds else DIFFERS


def combine_verdicts(verdicts: Iterable[str]) -> str:
    """Return the verdict on a claim of several parts: it differs if one part does, and agrees if all do."""
    present = set(verdicts)
    order = (DIFFERS, UNDECIDED, "no-data", "pending")
    return next((verdict for verdict in order if verdict in present), AGREES)


def judge_gain(low: float, high: float, min_effect: float) -> str:
    """Return the verdict on a gain from the ends of its interval and the smallest effect that matters."""
    if low > min_effect:
        return BETTER
    if high < -min_effect:
        return WORSE
    return NO_WORSE if low > -min_effect else UNKNOWN


def judge_sign(low: float, high: float) -> str:
    """Return on which side of zero an interval is: above, below, or not told apart from it."""
    return ABOVE if low > 0 else BELOW if high < 0 else NOT_TOLD_APART


# Printing


def _add_decimals(form: str, low: float, high: float) -> str:
    """Return the format with as many decimals as half the interval's width needs to show one digit that is not 0."""
    half = (high - low) / 2
    sign, least = form[:-3], int(form[-2])
    return f"{sign}z.{max(least, -math.floor(math.log10(half))) if half > 1e-6 else least}f"


def format_interval(mean: float, low: float, high: float, form: str = ".1f") -> str:
    """Format a mean with its interval, as in `1.2 (0.9 to 1.6)`; a dash where there is no mean."""
    if pd.isna(mean):
        return "–"
    form = _add_decimals(form, low, high)
    return f"{mean:{form}}" + ("" if pd.isna(low) else f" ({low:{form}} to {high:{form}})")


def format_points(mean: float, low: float, high: float) -> str:
    """Format a difference in points, as in `+6.6 points (+3.7 to +9.4)`."""
    return format_interval(mean, low, high, "+.1f").replace(" (", " points (", 1)


def format_plus_minus(mean: float, low: float, high: float, form: str = ".1f") -> str:
    """Format a mean and half the width of its interval, as in `1.2 ± 0.3`, for narrow columns."""
    if pd.isna(mean):
        return "–"
    form = _add_decimals(form, low, high)
    half = "" if pd.isna(low) else f" ± {(high - low) / 2:{form.lstrip('+')}}"
    return f"{mean:{form}}{half}".replace("-", "−").replace(" ", "\u00a0")


def format_p(p: float) -> str:
    """Format a p-value with three decimals, or as less than 0.001."""
    return "–" if pd.isna(p) else "<\u00a00.001" if p < 0.001 else f"{p:.3f}"
