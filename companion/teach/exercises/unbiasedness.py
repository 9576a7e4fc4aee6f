"""Exercises of part 4a: is the cohort's mean right?"""

from __future__ import annotations

from fractions import Fraction

from companion.teach.check import Example, Exercise, Function
from fedstas import theory

EXERCISES: dict[str, Exercise] = {}


def check_smallest(example) -> str:
    """Return what is wrong with (updates, norms) as the smallest case in which the plain mean is biased; "" if nothing is."""
    updates, norms = (list(x) for x in example)
    if len(updates) != len(norms) or any(x != int(x) for x in updates + norms):
        return "give as many updates as norms, all whole numbers."
    if min(updates) < 0 or min(norms) < 1:
        return "updates are at least 0 and norms at least 1."
    mean = theory.design_moments("plain-wr", updates, norms, 1).mean
    target = Fraction(sum(updates), len(updates))
    if mean == target:
        return f"the mean is {mean}, which is the target: no counterexample."
    if len(updates) > 2:
        return f"it is one ({mean} instead of {target}), but fewer clients are enough."
    if sum(updates) + sum(norms) > 4:  # the sum of the solution, [0, 1] and [1, 2]
        return f"it is one ({mean} instead of {target}), but smaller numbers are enough."
    return ""


EXERCISES["smallest"] = Example(
    level=1,
    solution=([0, 1], [1, 2]),
    fault=check_smallest,
    mistakes=(([0, 1], [1, 1]), ([1, 1], [1, 2]), ([1, 2, 6], [1, 2, 3]), ([0, 2], [1, 2])),
)


CASES = (
    ([0, 1], [1, 2], 1),
    ([1, 2, 6], [1, 2, 3], 2),
    ([1, 2, 6], [1, 1, 1], 2),
    ([4, 0, 2, 5], [1, 4, 2, 3], 3),
)


def plain_bias(updates, norms, m):
    """Return the bias of the plain mean of m draws with replacement, p proportional to the norms."""
    p = [Fraction(g, sum(norms)) for g in norms]
    return sum(q * d for q, d in zip(p, updates, strict=True)) - Fraction(sum(updates), len(p))


def bias_of_distinct_draws(updates, norms, m):
    """Return the bias for distinct clients, drawn one after another (a mistake)."""
    mean = theory.design_moments("plain-successive", updates, norms, m).mean
    return mean - Fraction(sum(updates), len(updates))


EXERCISES["plain-bias"] = Function(
    level=2,
    solution=plain_bias,
    inputs=CASES,
    mistakes={
        "That is the bias divided by N: the average of p is 1/N, so Cov_h(p, d) still has to be multiplied by N.": (
            lambda d, g, m: plain_bias(d, g, m) / len(d)
        ),
        "That is the bias for distinct clients, drawn one after another: here clients may be drawn twice.": bias_of_distinct_draws,
        "That is m times the bias: the mean of m draws has the expectation of one draw.": (
            lambda d, g, m: m * plain_bias(d, g, m)
        ),
    },
)


SAMPLES = (  # clients in the order in which they were drawn, updates, norms
    ((1,), [0, 1], [1, 2]),
    ((0, 2), [1, 2, 6], [1, 2, 3]),
    ((2, 0), [1, 2, 6], [1, 2, 3]),
    ((3, 1, 0), [4, 0, 2, 5], [1, 4, 2, 3]),
)


def des_raj(sample, updates, norms):
    """Return Des Raj's estimate of the mean from distinct clients in the order in which they were drawn."""
    p, terms = [Fraction(g, sum(norms)) for g in norms], []
    for r, k in enumerate(sample):
        before = sample[:r]
        remaining = 1 - sum(p[i] for i in before)
        terms.append(sum(updates[i] for i in before) + updates[k] * remaining / p[k])
    return sum(terms) / (len(terms) * len(p))


def hansen_hurwitz(sample, updates, norms):
    """Return Hansen and Hurwitz' estimate of the mean, which is made for draws with replacement (a mistake)."""
    total, n = sum(norms), len(norms)
    return sum(Fraction(updates[k] * total, n * norms[k]) for k in sample) / len(sample)


EXERCISES["des-raj"] = Function(
    level=3,
    solution=des_raj,
    inputs=SAMPLES,
    mistakes={
        "That is Hansen and Hurwitz' weight 1/(N p_k) on distinct clients: it forgets that the later draws had fewer "
        "clients to choose from.": hansen_hurwitz,
        "The terms of the first draws are missing: to the weighted update add the updates that are already known.": (
            lambda s, d, g: (
                sum(
                    Fraction(d[k], g[k]) * (sum(g) - sum(g[i] for i in s[:r]))
                    for r, k in enumerate(s)
                )
                / (len(s) * len(g))
            )
        ),
    },
)
