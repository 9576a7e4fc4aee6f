"""Exercises of the part on data sampling (chapter 4d)."""

from __future__ import annotations

from fractions import Fraction

from companion.teach.check import Example, Exercise, Function
from fedstas.theory import covariances as cov

EXERCISES: dict[str, Exercise] = {}


def expected_examples(sizes, n_star):
    """Return the expected number of examples of each client at p = n*/n."""
    n = sum(sizes)
    return [float(Fraction(k * n_star, n)) for k in sizes]


EXERCISES["contribution"] = Function(
    level=1,
    solution=expected_examples,
    inputs=(((5, 5), 4), ((1, 3), 2), ((10, 30, 60), 20)),
    mistakes={
        "n*/m for each client is the other rule, the floor of Algorithm 1.": lambda sizes, n_star: (
            [n_star / len(sizes)] * len(sizes)
        ),
        "n*/n is the chance of one example; a client has n_k of them.": lambda sizes, n_star: (
            [n_star / sum(sizes)] * len(sizes)
        ),
    },
)


def srs_variance(gradients, size):
    """Return the variance of the mean of `size` scalar gradients, drawn without replacement."""
    n, mean = len(gradients), sum(gradients) / len(gradients)
    if n == 1:
        return 0.0
    spread = sum((g - mean) ** 2 for g in gradients) / (n - 1)
    return (1 - size / n) * spread / size


def variance_with_replacement(gradients, size):
    """Return the variance of the mean of `size` draws with replacement (a mistake)."""
    n, mean = len(gradients), sum(gradients) / len(gradients)
    return sum((g - mean) ** 2 for g in gradients) / n / size


# One scalar gradient for each example of a client.
GRADIENTS = ((1.0, 1.0), (1.0, -1.0), (0.0, 1.0, 5.0), (2.0, 2.0, 2.0, 7.0, -3.0))


EXERCISES["lemma-3"] = Function(
    level=2,
    solution=srs_variance,
    inputs=tuple((g, size) for g in GRADIENTS for size in range(1, len(g) + 1)),
    mistakes={
        "That is the variance of draws with replacement.": variance_with_replacement,
        "The factor 1 − n̄/n_k is missing: a sample of everybody has variance 0.": lambda g, size: (
            srs_variance(g, 1) / size * len(g) / max(1, len(g) - 1)
        ),
    },
)


def check_bernoulli_wins(gradients) -> str:
    """Return what is wrong with four scalar gradients for which Bernoulli sampling should have the smaller variance; "" if nothing is."""
    g = [Fraction(x) for x in gradients]
    if len(g) != 4:
        return f"it has {len(g)} gradients, not 4."
    if not any(g):
        return "with gradients 0 both variances are 0."
    if sum(g) == 0:
        return "a mean gradient of 0 is too easy: find one whose sum is not 0."
    # Two of four examples: drawn as a simple random sample, or each with probability 1/2 (1/2 (1 - 1/2)/2^2 = 1/16).
    ((srs,),) = cov.srs_form(4, 2).at([[x] for x in g])
    ((bernoulli,),) = cov.Form(Fraction(1, 16), Fraction(0)).at([[x] for x in g])
    if bernoulli >= srs:
        return f"Bernoulli has the variance {bernoulli}, SRS {srs}: the mean gradient is too large."
    return ""


EXERCISES["bernoulli-wins"] = Example(
    level=2,
    solution=(3, -2, 1, 0),
    fault=check_bernoulli_wins,
    mistakes=((1, 1, 1, 1), (1, -1, 1, -1), (0, 0, 0, 0), (5, 4, 3, 1)),
)


def check_negative_variance(setting) -> str:
    """Return what is wrong with (n_k, n, n*, n̄), n̄ >= 2, for which eq. 6.11 should give a negative variance; "" if nothing is."""
    n_k, n, n_star, size = setting
    if not (2 <= n_k <= n and 2 <= size <= n_k and 1 <= n_star <= n):
        return "it must have 2 ≤ n_k ≤ n, 2 ≤ n̄ ≤ n_k and 1 ≤ n* ≤ n."
    if n_star < 2:
        return "n* = 1 requests a single example; find one with n* ≥ 2."
    each, along = cov.lemma4_form(n, n_star, size).eigenvalues(n_k)
    if min(each, along) < 0:
        return f"with equal gradients 1 the printed variance is {n_k * along}, below 0."
    return ""


EXERCISES["a-covariance"] = Example(
    level=3,
    solution=(2, 12, 4, 2),
    fault=check_negative_variance,
    mistakes=((600, 6000, 600, 60), (2, 4, 2, 2), (4, 8, 1, 3)),
)
