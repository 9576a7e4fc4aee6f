"""Exercises of the page `Which design should you use?`: verdicts, budgets, and orders that turn round."""

from __future__ import annotations

import numpy as np

from companion.teach.check import Example, Exercise, Function

GUESS = 0.1  # the accuracy of a guess among ten classes


def at_budget(megabytes, accuracy, budget):
    """Return the accuracy at a budget: linear between evaluations, constant after the last, that of a guess at 0 MB."""
    return float(np.interp(budget, [0, *megabytes], [GUESS, *accuracy]))


EXERCISES: dict[str, Exercise] = {}


def verdict(low, high):
    """Return the verdict on a gain in accuracy, in percentage points, from the low and high end of its interval.

    A gain or loss of up to one point does not matter.
    """
    if low > 1:
        return "better"
    if high < -1:
        return "worse"
    return "no worse" if low > -1 else "we do not know"


def verdict_against_zero(low, high):
    """Return the verdict if the interval of the gain is held against 0 instead of one percentage point (a mistake)."""
    return "better" if low > 0 else "worse" if high < 0 else "we do not know"


def verdict_by_middle(low, high):
    """Return the verdict if only the middle of the interval is compared with one percentage point (a mistake)."""
    middle = (low + high) / 2
    return "better" if middle > 1 else "worse" if middle < -1 else "no worse"


def verdict_without_no_worse(low, high):
    """Return the verdict if an interval above minus one percentage point counts for nothing: never `no worse` (a mistake)."""
    return "better" if low > 1 else "worse" if high < -1 else "we do not know"


EXERCISES["verdict"] = Function(
    level=1,
    solution=verdict,
    inputs=((2.0, 3.0), (0.5, 3.0), (-0.5, 0.5), (-3.0, 0.5), (-3.0, -2.0), (-3.0, 9.0)),
    mistakes={
        "This holds the interval against 0. What matters is one point.": verdict_against_zero,
        "This looks at the middle alone; the interval must lie beyond the point as a whole.": verdict_by_middle,
        "An interval above minus one point says more than nothing: no worse.": verdict_without_no_worse,
    },
)


def last_accuracy_before(megabytes, accuracy, budget):
    """Return the accuracy of the last evaluation within the budget, not interpolated (a mistake)."""
    reached = [a for x, a in zip(megabytes, accuracy, strict=True) if x <= budget]
    return reached[-1] if reached else GUESS


def interpolate_from_first(megabytes, accuracy, budget):
    """Return the accuracy at a budget, constant before the first evaluation and not rising from that of a guess (a mistake)."""
    return float(np.interp(budget, megabytes, accuracy))


RUN = ([10, 20, 40], [0.3, 0.5, 0.9])  # megabytes sent and accuracy at three evaluations


EXERCISES["at-budget"] = Function(
    level=2,
    solution=at_budget,
    inputs=((*RUN, 20), (*RUN, 30), (*RUN, 5), (*RUN, 50)),
    mistakes={
        "This takes the last evaluation before the budget: lines join the evaluations.": last_accuracy_before,
        "Before its first evaluation a run has the accuracy of a guess at 0 MB, 0.1.": interpolate_from_first,
    },
)


def check_turned(example) -> str:
    """Return what is wrong with ((curve, curve), (MB, MB a round), budget) of two methods whose order should reverse; "" if nothing is."""
    curves, price, budget = example
    a, b = ([float(x) for x in curve] for curve in curves)
    cost_a, cost_b = (float(x) for x in price)
    if len(a) != len(b) or len(a) < 2:
        return "give two curves of equal length, of at least two rounds."
    if not all(0 <= x <= 1 for x in (*a, *b)):
        return "accuracies lie between 0 and 1."
    if min(cost_a, cost_b) <= 0:
        return "a round costs more than 0 MB."
    if not 0 < budget <= len(a) * min(cost_a, cost_b):
        return f"a budget of {budget:g} MB is more than one of them sends, or nothing."
    if a[-1] <= b[-1]:
        return f"after equal rounds the first has {a[-1]:g} and the second {b[-1]:g}: the first must lead."
    rounds = np.arange(1, len(a) + 1)
    at_a, at_b = (
        at_budget(rounds * cost, curve, budget) for cost, curve in ((cost_a, a), (cost_b, b))
    )
    if at_b > at_a:
        return ""
    return f"at {budget:g} MB the first has {at_a:.3f} and the second {at_b:.3f}: the second must lead."


EXERCISES["turned"] = Example(
    level=3,
    solution=(([0.5, 0.9], [0.4, 0.8]), (20, 10), 20),
    fault=check_turned,
    mistakes=(
        (([0.5, 0.9], [0.4, 0.8]), (10, 10), 20),  # equal costs: no reason to turn
        (([0.5, 0.8], [0.4, 0.9]), (20, 10), 20),  # the second leads after equal rounds, too
        (([0.5, 0.9], [0.4, 0.8]), (20, 10), 40),  # more than the second sends
    ),
)
