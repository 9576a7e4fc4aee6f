"""Exercises of chapter 7: weights if some clients are asked, clients needed for privacy, one client against FedSampling."""

from __future__ import annotations

import math
from fractions import Fraction

from companion.teach.check import Example, Exercise, Function
from fedstas import privacy

F = Fraction  # short, for exact numbers such as F(1, 3)
EXERCISES: dict[str, Exercise] = {}


def repaired_weights(drawn, request, clients):
    """Return unbiased weights of the clients that were asked, if only some of `clients` were.

    Args:
        drawn: the number of examples that each asked client drew.
        request: the number of examples that the server requests of all clients together.
        clients: the number of all clients.
    """
    return [F(clients, len(drawn)) * F(count, request) for count in drawn]


def normalised_weights(drawn, request, clients):
    """Return weights that sum to 1 (a mistake: they are biased)."""
    return [F(count, sum(drawn) or 1) for count in drawn]


def inverted_weights(drawn, request, clients):
    """Return weights with the probability of being asked in place of its inverse (a mistake)."""
    return [F(len(drawn), clients) * F(count, request) for count in drawn]


EXERCISES["repaired"] = Function(
    level=1,
    solution=repaired_weights,
    inputs=(([2, 1], 3, 2), ([1], 2, 2), ([0, 3, 1], 6, 12), ([5, 2], 10, 5)),
    mistakes={
        "The chance of being asked is missing: an unasked client's examples are never drawn.": lambda d, k, m: (
            repaired_weights(d, k, len(d))
        ),
        "You make the weights sum to one: then the asked stand for themselves alone, whatever they drew.": normalised_weights,
        "The factor is upside down: the fewer are asked, the more each must stand for.": inverted_weights,
    },
)


def clients_needed(size, epsilon, error):
    """Return the number of equal, unclipped clients at which the estimated total has the relative standard deviation `error`."""
    return count_reports(report_variance(size, epsilon), size, error)


def report_variance(size, epsilon):
    """Return the variance that one report adds to the estimated total, with the size cap `size + 1`."""
    alpha = privacy.truth_probability(epsilon, size + 1)
    return privacy.estimate_variance([size], size_cap=size + 1, alpha=alpha)


def count_reports(variance, size, error):
    """Return the number of reports, each of this variance, at which the relative standard deviation is `error`."""
    return math.ceil(variance / (error * size) ** 2)


def clients_by_report_variance(size, epsilon, error):
    """Return the number of clients from a report's variance not divided by alpha^2 (a mistake)."""
    alpha = privacy.truth_probability(epsilon, size + 1)
    return count_reports(report_variance(size, epsilon) * alpha**2, size, error)


def clients_without_square(size, epsilon, error):
    """Return the number of clients with the standard deviation in place of the variance (a mistake)."""
    return math.ceil(math.sqrt(report_variance(size, epsilon)) / (error * size))


EXERCISES["needed"] = Function(
    level=2,
    solution=clients_needed,
    inputs=((600, 3.0, 0.1), (600, 1.0, 0.1), (10, 3.0, 0.1), (600, 3.0, 0.02)),
    mistakes={
        "You count with the variance of a report: the estimate divides it by α.": clients_by_report_variance,
        "A relative error falls with the root of the number of reports: square it.": clients_without_square,
        "An error of 10 % is a tenth of the size, not a tenth of one example.": lambda n, e, d: (
            math.ceil(report_variance(n, e) / d**2)
        ),
    },
)


def round_variances(shards, request=2):
    """Return the aggregate's variance under FedSampling with this request, and with one client drawn by its size.

    Args:
        shards: of each client the gradients of its examples, which are numbers.
        request: how many examples FedSampling draws on average, each by a coin of its own; it divides their sum by it.
    """
    pool = [x for shard in shards for x in shard]
    rate, mean = F(request, len(pool)), F(sum(pool), len(pool))
    by_examples = rate * (1 - rate) * sum(F(x) ** 2 for x in pool) / request**2
    by_client = sum(len(x) * (F(sum(x), len(x)) - mean) ** 2 for x in shards) / len(pool)
    return by_examples, by_client


def check_one_client(example) -> str:
    """Return what is wrong with two shards, of which one drawn client should have a smaller variance than FedSampling; "" if nothing is."""
    shards = [[F(x) for x in shard] for shard in example]
    if len(shards) != 2 or any(len(x) != 2 for x in shards):
        return "two clients with two numbers each are asked for."
    if sum(map(sum, shards)):
        return f"the mean of all four is {F(sum(map(sum, shards)), 4)}, and must be 0."
    if sorted(shards[0]) == sorted(shards[1]):
        return "both clients hold the same numbers: make them differ."
    examples, client = round_variances(shards)
    if client < examples:
        return ""
    return f"FedSampling has the variance {examples}, the one client {client}."


EXERCISES["one-client"] = Example(
    level=3,
    solution=((1, -1), (2, -2)),
    fault=check_one_client,
    mistakes=(((1, 1), (-1, -1)), ((1, 2), (1, 2)), ((1, -1), (1, -1)), ((3, 1), (-3, -1))),
)
