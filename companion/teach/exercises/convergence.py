"""Exercises of the part on convergence (chapter 4f)."""

from __future__ import annotations

import numpy as np

from companion.teach.check import Example, Exercise, Function

EXERCISES: dict[str, Exercise] = {}


def noise_floor(centres, m, lr):
    """Return the limit of E (w - w*)^2 for m uniform draws with replacement at a constant step size."""
    return lr / (2 - lr) * float(np.var(centres)) / m


EXERCISES["noise-floor"] = Function(
    level=1,
    solution=noise_floor,
    inputs=(
        ((0, 1), 1, 0.5),
        ((0, 0, 1), 1, 0.1),
        ((0, 0, 1), 2, 0.1),
        ((0, 1, 3, 5), 4, 0.02),
    ),
    mistakes={
        "That is the noise of one step; the steps before it have left some, too.": lambda c, m, lr: (
            lr**2 * float(np.var(c)) / m
        ),
        "The mean of m draws has a variance m times smaller.": lambda c, m, lr: (
            lr / (2 - lr) * float(np.var(c))
        ),
    },
)


def find_balance(centres):
    """Return the limit of w under draws in proportion to the gradient's norm: sum_k |w - c_k| (w - c_k) = 0."""
    low, high = float(min(centres)), float(max(centres))
    for _ in range(200):  # bisection, to the last bit
        w = (low + high) / 2
        drift = sum(abs(w - c) * (w - c) for c in centres)
        low, high = (low, w) if drift > 0 else (w, high)
    return (low + high) / 2


# The c_k of federations with F_k = (w - c_k)^2/2.
CENTRES = ((0, 1), (0, 0, 1), (0, 1, 3, 5), (0, 0, 0, 0, 1))


EXERCISES["where-it-leads"] = Function(
    level=2,
    solution=find_balance,
    inputs=tuple((c,) for c in CENTRES),
    mistakes={
        "That is the minimiser of F, where unbiased draws lead.": lambda c: float(np.mean(c)),
        "That is the middle of the outermost centres: all clients pull.": lambda c: (
            (min(c) + max(c)) / 2
        ),
    },
)


def error_slope(steps):
    """Return the log-log slope of the exact error of F_k = (w - c_k)^2/2 from round 1,000 to 10,000."""
    error, errors = 1.0, {}
    for t in range(10_000):
        lr = steps(t)
        error = (1 - lr) ** 2 * error + lr**2
        errors[t + 1] = error
    return float(np.log10(errors[10_000] / errors[1000]))


def check_steps(steps) -> str:
    """Return what is wrong with a step size, a function of t = 0, 1, ..., that should give the rate 1/T; "" if nothing is."""
    if not callable(steps):
        return "it must be a function of the round t = 0, 1, 2, ..."
    slope = error_slope(steps)
    if not np.isfinite(slope) or slope > -0.95:  # -1, up to the terms that fall faster
        return f"between T = 1,000 and 10,000 the error falls like T^{slope:.2f}, not like 1/T."
    return ""


EXERCISES["steps"] = Example(
    level=3,
    solution=(lambda t: 2 / (t + 2)),
    fault=check_steps,
    mistakes=(lambda t: 0.1, lambda t: 1 / (t + 1) ** 0.5, lambda t: 0.25 / (t + 1), 0.1),
)
