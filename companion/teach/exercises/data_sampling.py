"""Exercises of chapter 3: truth probability, clipping, whose mean, and the cap for a budget."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from companion.teach.check import Example, Exercise, Function

F = Fraction  # short, for exact numbers such as F(1, 3)
EXERCISES: dict[str, Exercise] = {}


def truth_probability(ratio, size_cap):
    """Return the truth probability alpha for sizes and fakes on 0..M-1, with e^epsilon = ratio."""
    return (ratio - 1) / (ratio + size_cap - 1)


EXERCISES["truth"] = Function(
    level=1,
    solution=truth_probability,
    inputs=((F(3), 4), (F(2), 2), (F(20), 100), (math.exp(3), 601)),
    mistakes={
        "That is eq. 6.13, for the M − 1 fakes 1, …, M − 1: with 0 there are M.": lambda r, M: (
            (r - 1) / (r + M - 2)
        ),
        "That is for one fake too many: an honest answer of the same value counts as well.": lambda r, M: (
            (r - 1) / (r + M)
        ),
        "Reports that are true with this probability leak more than ε: a true answer can also be a fake.": lambda r, M: (
            r / (r + M - 1)
        ),
    },
)


CAP = 100  # M, the size cap of the paper


def check_clip(example) -> str:
    """Return what is wrong with (size, other size, report), "" if nothing: the report should be possible under the first
    of the two sizes and impossible under the second.

    A client of `size` examples reports min(size, M) with probability alpha, and otherwise a fake, uniform on 1..M-1. So
    P(report | size) = alpha [report = min(size, M)] + (1 - alpha) / (M - 1) [1 <= report < M].
    """
    one, other, report = example
    if any(x != int(x) for x in example) or min(one, other) < 1:
        return "give two sizes of at least 1 and a report, all whole numbers."
    can_be_fake = 1 <= report < CAP
    can_be_true, other_can_be_true = (report == min(size, CAP) for size in (one, other))
    if can_be_fake:
        return (
            f"any size can report {int(report)}, by a fake answer: it rules out neither of the two."
        )
    if not can_be_true and not other_can_be_true:
        return f"neither size is ever reported as {int(report)}."
    if can_be_true and other_can_be_true:
        return f"both sizes are reported as {int(report)}: it rules out neither of the two."
    return (
        ""
        if can_be_true
        else "the report rules out the first size: name the two in the other order."
    )


EXERCISES["clip"] = Example(
    level=2,
    solution=(600, 50, 100),
    fault=check_clip,
    mistakes=((600, 50, 99), (600, 700, 100), (50, 600, 100), (50, 60, 100), (600, 50, 101)),
)


def two_means(shards):
    """Return the mean of the clients' means, and the mean of all their examples."""
    equal = sum(F(sum(x), len(x)) for x in shards) / len(shards)
    return [equal, F(sum(map(sum, shards)), sum(map(len, shards)))]


def mean_of_means_twice(shards):
    """Return the mean of the clients' means as both means (a mistake)."""
    mean_of_means, _ = two_means(shards)
    return [mean_of_means] * 2


def mean_of_examples_twice(shards):
    """Return the mean of all examples as both means (a mistake)."""
    _, mean_of_examples = two_means(shards)
    return [mean_of_examples] * 2


def sum_per_client(shards):
    """Return both means, with the sum over examples divided by the number of clients (a mistake)."""
    mean_of_means, _ = two_means(shards)
    return [mean_of_means, F(sum(map(sum, shards)), len(shards))]


EXERCISES["two-means"] = Function(
    level=2,
    solution=two_means,
    inputs=(
        ([[0], [2]],),
        ([[0], [1, 2, 3]],),
        ([[5, 5], [1, 1, 1], [2]],),
    ),
    mistakes={
        "The sum of all drawn examples over n* counts examples: a client of three counts three times.": mean_of_means_twice,
        "The mean of the clients' full means counts clients: a client of three counts once.": mean_of_examples_twice,
        "The expected number of drawn examples is n*, which is what the sum is divided by.": sum_per_client,
    },
)


def bias_and_variance(reports, size, epsilon):
    """Return the caps from 3 to size + 1, and the bias and variance of eq. 5.7 at each, for clients of equal size."""
    caps = np.arange(3, size + 2, dtype=float)
    alpha = (math.exp(epsilon) - 1) / (math.exp(epsilon) + caps - 2)
    top = caps - 1  # what a client of `size` reports if it is honest
    # Of one report, which is `top` or uniform on 1..M-1: these have the mean M/2 and the mean square M (2 M - 1)/6.
    mean = alpha * top + (1 - alpha) * caps / 2
    square = alpha * top**2 + (1 - alpha) * caps * (2 * caps - 1) / 6
    variance = reports * (square - mean**2) / alpha**2
    return caps.astype(int), reports * (top - size), np.maximum(variance, 0)


def best_cap(reports, size, epsilon):
    """Return the cap with the least root mean square error of the estimated total."""
    caps, bias, variance = bias_and_variance(reports, size, epsilon)
    return int(caps[np.argmin(bias**2 + variance)])


def best_cap_by_sum(reports, size, epsilon):
    """Return the cap with the least sum of bias and standard deviation (a mistake)."""
    caps, bias, variance = bias_and_variance(reports, size, epsilon)
    return int(caps[np.argmin(abs(bias) + np.sqrt(variance))])


EXERCISES["cap"] = Function(
    level=3,
    solution=best_cap,
    inputs=(
        (1, 10, 3.0),
        (10, 600, 3.0),
        (100, 600, 3.0),
        (10_000, 600, 3.0),
        (100, 600, 6.0),
        (100_000, 60, 3.0),
    ),
    mistakes={
        "You minimise the noise alone: a low cap cuts off size − (M − 1) examples of every client, too.": lambda m, n, e: (
            3
        ),
        "You clip nobody: with few reports so high a cap brings more noise than a lower one brings bias.": lambda m, n, e: (
            n + 1
        ),
        "Bias grows with the number of reports and the standard deviation with its root: use m.": lambda m, n, e: (
            best_cap(1, n, e)
        ),
        "The error is the root of bias² + variance, not bias + standard deviation.": best_cap_by_sum,
    },
)
