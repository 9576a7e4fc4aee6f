"""Exercises of the page `What we would write instead`: the weights of a draw, the variance, and its limits."""

from __future__ import annotations

from fractions import Fraction

from companion.teach.check import Example, Exercise, Function


def variance(omega, p, labels, draws_per_stratum, updates):
    """Return the variance of the stratified Hansen-Hurwitz estimator for scalar updates.

    Args:
        omega: each client's share of all examples.
        p: each client's probability within its stratum.
        labels: each client's stratum, 0, 1, ...
        draws_per_stratum: the number of draws m_h of each stratum.
        updates: each client's update.
    """
    total = Fraction(0)
    for h, draws in enumerate(draws_per_stratum):
        members = [k for k, label in enumerate(labels) if label == h]
        second = sum(Fraction(omega[k] * updates[k]) ** 2 / p[k] for k in members)
        mean = sum(omega[k] * updates[k] for k in members)
        total += (second - mean**2) / draws
    return total


# Two federations: omega, p, labels and draws_per_stratum.
TWO_STRATA = ([Fraction(1, 2)] * 2, [Fraction(1)] * 2, [0, 1], [1, 1])
UNEVEN_STRATA = (
    [Fraction(1, 8), Fraction(1, 8), Fraction(1, 4), Fraction(1, 2)],
    [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4), Fraction(1)],
    [0, 0, 0, 1],
    [2, 1],
)
EXERCISES: dict[str, Exercise] = {}


def weights(omega, p, labels, draws_per_stratum, cohort):
    """Return the weight omega_k / (m_h p_k) of each client k of the cohort; `draws_per_stratum` are the m_h."""
    return [omega[k] / (draws_per_stratum[labels[k]] * p[k]) for k in cohort]


EXERCISES["weights"] = Function(
    level=1,
    solution=weights,
    inputs=((*TWO_STRATA, [0, 1]), (*UNEVEN_STRATA, [0, 0, 3]), (*UNEVEN_STRATA, [2, 1, 3])),
    mistakes={
        "These weights divide by m, not by the m_h draws of the client's own stratum.": (
            lambda omega, p, labels, draws_per_stratum, cohort: [
                omega[k] / (len(cohort) * p[k]) for k in cohort
            ]
        ),
        "These weights leave out m_h: a stratum drawn twice would count twice.": (
            lambda omega, p, labels, draws_per_stratum, cohort: [omega[k] / p[k] for k in cohort]
        ),
        "These weights are normalised to sum to one: that is a ratio estimator, and biased.": (
            lambda *a: [w / sum(weights(*a)) for w in weights(*a)]
        ),
    },
)


def variance_over_all_draws(omega, p, labels, draws_per_stratum, updates):
    """Return the variance with the total number of draws m in place of every m_h (a mistake)."""
    return variance(omega, p, labels, [sum(draws_per_stratum)] * len(draws_per_stratum), updates)


def second_moment(omega, p, labels, draws_per_stratum, updates):
    """Return the variance without the squared mean of each stratum subtracted (a mistake)."""
    moments = [
        (Fraction(o * d) ** 2 / q, h) for o, d, q, h in zip(omega, updates, p, labels, strict=True)
    ]
    return sum((x / draws_per_stratum[h] for x, h in moments), Fraction(0))


EXERCISES["variance"] = Function(
    level=2,
    solution=variance,
    inputs=(
        (*TWO_STRATA, [1, 3]),
        (*UNEVEN_STRATA, [4, -2, 3, 5]),
        ([Fraction(1, 4)] * 4, [Fraction(1, 2)] * 4, [0, 0, 1, 1], [2, 1], [1, 3, 2, 2]),
    ),
    mistakes={
        "This is the second moment: subtract the squared sum of omega_k d_k of each stratum.": (
            second_moment
        ),
        "This divides every stratum by m; each has its own number of draws m_h.": variance_over_all_draws,
    },
)


def shares_by_size(sizes, labels):
    """Return each client's share omega_k of all examples, and its share p_k of the examples of its stratum."""
    totals: dict = {}
    for size, label in zip(sizes, labels, strict=True):
        totals[label] = totals.get(label, 0) + size
    omega = [Fraction(size, sum(sizes)) for size in sizes]
    return omega, [Fraction(s, totals[h]) for s, h in zip(sizes, labels, strict=True)]


def check_worse_than_md(example) -> str:
    """Return what is wrong with (sizes, updates, labels), whose strata should have a larger variance than MD; "" if nothing is."""
    sizes, updates, labels = (list(x) for x in example)
    if not len(sizes) == len(updates) == len(labels) or not sizes:
        return "give three lists of equal length: sizes, updates, labels."
    if min(sizes) < 1 or any(x != int(x) for x in (*sizes, *labels)):
        return "sizes must be whole numbers above 0, labels whole numbers."
    if sorted(set(labels)) != list(range(max(labels) + 1)):
        return f"the labels {labels} must be 0, 1, ..., each of them used."
    m = max(labels) + 1
    if m < 2:
        return "with one stratum and one draw this is MD itself: use at least two strata."
    omega, p = shares_by_size([int(x) for x in sizes], labels)
    updates = [Fraction(x) for x in updates]
    strata = variance(omega, p, labels, [1] * m, updates)
    md = variance(omega, omega, [0] * len(sizes), [m], updates)
    if strata > md:
        return ""
    return f"the strata give variance {strata}, MD with {m} draws {md}: that is not worse."


EXERCISES["worse-than-md"] = Example(
    level=3,
    solution=([9, 9, 1, 1], [1, -1, 0, 0], [0, 0, 1, 1]),
    fault=check_worse_than_md,
    mistakes=(
        ([1, 1, 1, 1], [1, -1, 1, -1], [0, 0, 1, 1]),  # equal shares: proportional, never worse
        ([9, 9, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]),  # no spread within: strata win
        ([9, 9, 1, 1], [1, -1, 0, 0], [0, 0, 0, 0]),
    ),
)
