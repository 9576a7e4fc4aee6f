"""Exercises of chapter 1: expected weights, the smallest bias, and weights on models."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

from companion.teach.check import Example, Exercise, Function
from fedstas import theory
from fedstas.errors import InputError

F = Fraction  # short, for exact numbers such as F(1, 3)
SIZES = (1, 2, 3)
TARGET = [F(k, sum(SIZES)) for k in SIZES]


def weights_by_size(cohort):
    """Return FedAvg's weights: each participant's share of the cohort's examples."""
    return tuple(F(SIZES[k], sum(SIZES[j] for j in cohort)) for k in cohort)


def five_designs():
    """Return the exercise's designs by letter, for m = 2 of N = 3 clients; each as its outcomes (cohort, weights, probability)."""
    even, p = [F(1, 3)] * 3, [F(1, 2), F(1, 4), F(1, 4)]
    pairs = list(theory.successive_samples(even, 2))  # of distinct clients
    draws_by_size = theory.samples_with_replacement(SIZES, 2)
    draws_by_p = theory.samples_with_replacement(p, 2)
    return {
        # always clients 0 and 1, with FedAvg's weights
        "a": [((0, 1), weights_by_size((0, 1)), F(1))],
        # two distinct clients at random, with FedAvg's weights
        "b": [(c, weights_by_size(c), q) for c, q in pairs],
        # the same, with weights N/m omega_k
        "c": [(c, tuple(F(3, 2) * TARGET[k] for k in c), q) for c, q in pairs],
        # MD sampling: two draws with replacement in proportion to sizes, with weights 1/m
        "d": [(c, (F(1, 2), F(1, 2)), q) for c, q in draws_by_size],
        # two draws with replacement by p, with Hansen-Hurwitz weights omega_k / (m p_k)
        "e": [(c, tuple(TARGET[k] / (2 * p[k]) for k in c), q) for c, q in draws_by_p],
    }


def as_sizes(values) -> list[int]:
    """Return sizes as integers; raise InputError unless they are whole numbers of at least 1."""
    if any(x != int(x) for x in values) or min(values) < 1:
        raise InputError(f"the sizes are {list(values)}, and must be whole numbers of at least 1")
    return [int(x) for x in values]


EXERCISES: dict[str, Exercise] = {}


# Designs of two clients: (cohort, weights, probability) of each possible cohort.
EVEN_DRAW = [((0,), (F(1),), F(1, 2)), ((1,), (F(1),), F(1, 2))]


UNEVEN_DRAW = [((0,), (F(2),), F(1, 4)), ((1,), (F(1),), F(3, 4))]


REPEATED_DRAW = [((0, 0), (F(1, 2), F(1, 2)), F(1, 4)), ((0, 1), (F(1, 2), F(1, 2)), F(3, 4))]


def count_clients_once(clients, outcomes):
    """Return the expected weights if a client that is drawn twice counts with its last draw alone (a mistake)."""
    distinct = [(dict(zip(c, weights, strict=True)), q) for c, weights, q in outcomes]
    return theory.expected_weights(clients, [(tuple(w), tuple(w.values()), q) for w, q in distinct])


EXERCISES["expected"] = Function(
    level=1,
    solution=theory.expected_weights,
    inputs=(
        (2, EVEN_DRAW),
        (2, UNEVEN_DRAW),
        (2, REPEATED_DRAW),
        *((3, d) for d in five_designs().values()),
    ),
    mistakes={
        "You take all cohorts to be equally likely: weigh each by its chance.": lambda n, o: (
            theory.expected_weights(n, [(c, w, F(1, len(o))) for c, w, _ in o])
        ),
        "A client that is drawn twice counts twice: add both of its weights.": count_clients_once,
        "That is how often a client is drawn: add its weights instead of ones.": lambda n, o: (
            theory.expected_weights(n, [(c, (1,) * len(c), q) for c, _, q in o])
        ),
    },
)


def check_five_designs(example) -> str:
    """Return what is wrong with the letters of the unbiased designs; "" if nothing is."""
    try:  # "CDE", "c, d, e", ["c", "d", "e"]
        example = {letter.lower() for letter in "".join(example) if letter.isalnum()}
    except TypeError:
        example = set()
    if not example or not example <= set("abcde"):
        return 'name the unbiased ones by their letters, such as "ab".'
    for letter, outcomes in five_designs().items():
        expected = theory.expected_weights(len(SIZES), outcomes)
        biased = [k for k in range(len(SIZES)) if expected[k] != TARGET[k]]
        if biased and letter in example:
            k = biased[0]
            return f"in ({letter}) client {k + 1} has the expected weight {expected[k]}, not {TARGET[k]}."
        if not biased and letter not in example:
            return f"in ({letter}) every expected weight is right, and you leave it out."
    return ""


EXERCISES["five-designs"] = Example(
    level=1,
    solution="cde",
    fault=check_five_designs,
    mistakes=("cd", "abcde", "bcde", "ade"),
)


def check_smallest(example) -> str:
    """Return what is wrong with (sizes, m) as the smallest federation in which weights over the cohort are biased; "" if nothing is."""
    sizes, m = as_sizes(example[0]), int(example[1])
    n = len(sizes)
    if not 1 <= m < n <= 8:
        return f"{n} clients and m = {m}: use at most 8 clients, and m from 1 to {n - 1}."
    cohorts = list(combinations(range(n), m))
    for k in range(n):
        weights = [F(sizes[k], sum(sizes[j] for j in c)) for c in cohorts if k in c]
        expected, target = sum(weights) / len(cohorts), F(sizes[k], sum(sizes))
        if expected != target:
            break
    else:
        return "every client's expected weight is its share of the data: no counterexample."
    praise = f"it is one (client {k + 1} has {expected} instead of {target}), but "
    if n > 2:
        return praise + "fewer clients are enough."
    return "" if sum(sizes) == 3 else praise + "fewer examples are enough."


EXERCISES["smallest"] = Example(
    level=2,
    solution=([1, 2], 1),
    fault=check_smallest,
    mistakes=(([1, 1], 1), ([1, 1, 2], 2), ([1, 3], 1), ([1, 2], 2)),
)


def variance_of_factor(omega, m):
    """Return the variance of the random factor: the sum of (N/m) omega_k over m distinct clients, drawn uniformly."""
    n, mean = len(omega), sum(omega) / len(omega)
    spread = sum((w - mean) ** 2 for w in omega) / (n - 1)
    return F(n * n, m) * (1 - F(m, n)) * spread


def variance_with_replacement(omega, m):
    """Return the variance of that factor for m draws with replacement (a mistake)."""
    n = len(omega)
    return F(n * n, m) * sum((w - F(1, n)) ** 2 for w in omega) / n


EXERCISES["random-factor"] = Function(
    level=2,
    solution=variance_of_factor,
    inputs=(
        ([F(1, 3), F(2, 3)], 1),
        ([F(1, 6), F(1, 3), F(1, 2)], 2),
        ([F(1, 6), F(1, 3), F(1, 2)], 3),
        ([F(1, 4)] * 4, 2),
    ),
    mistakes={
        "The factor 1 − m/N is missing: with everybody in the cohort nothing is left to vary.": lambda o, m: (
            variance_of_factor(o, m) / (1 - F(m, len(o)))
            if m < len(o)
            else F(len(o) ** 2, m) * sum((w - F(1, len(o))) ** 2 for w in o) / (len(o) - 1)
        ),
        "Beside 1 − m/N the spread has the divisor N − 1, not N.": lambda o, m: (
            variance_of_factor(o, m) * (len(o) - 1) / len(o)
        ),
        "That is for draws with replacement: here the m clients are distinct.": variance_with_replacement,
    },
)


def variances_of_aggregate(sizes, updates, common):
    """Return the variances [on models, on updates] of the aggregate of one client, drawn uniformly.

    `common` is the model w that all clients start from.
    """
    n, omega = len(sizes), [F(k, sum(sizes)) for k in sizes]
    variances = []
    for base in (common, 0):
        values = [n * w * (base + d) for w, d in zip(omega, updates, strict=True)]
        mean = sum(values) / n
        variances.append(sum((v - mean) ** 2 for v in values) / n)
    return variances


def check_models_win(example) -> str:
    """Return what is wrong with an example in which weights on models should have the smaller variance; "" if nothing is.

    The example is (sizes, updates, w), where w, here `common`, is the model that all clients start from. As in training,
    w is at least as long as the step that is made from it.
    """
    sizes, updates, common = example
    sizes, updates, common = as_sizes(sizes), [F(x) for x in updates], F(common)
    if len(sizes) != len(updates):
        return f"{len(sizes)} sizes and {len(updates)} updates: give as many."
    target = sum(F(k, sum(sizes)) * d for k, d in zip(sizes, updates, strict=True))
    if not target or abs(common) < abs(target):
        return f"w is {float(common):g} and the target {target}: w must be at least as long as a target that is not 0."
    on_models, on_updates = variances_of_aggregate(sizes, updates, common)
    if on_models == on_updates:
        equal = len(set(sizes)) == 1
        what = (
            "the weights must not all be equal" if equal else "w lies at an end of where models win"
        )
        return f"both variances are {on_models}: {what}."
    if on_models > on_updates:
        return f"the variance is {on_models} on models and {on_updates} on updates."
    return ""


EXERCISES["models-win"] = Example(
    level=3,
    solution=([1, 2], [1, 1], -1),
    fault=check_models_win,
    mistakes=(
        ([1, 2], [1, 1], 1),
        ([1, 1], [1, 3], -2),
        ([1, 2], [1, 1], -100),
        ([1, 2], [2, -1], -1),
    ),
)
