"""The small cases of clustered sampling: every federation of at most four clients and seven examples, up to
three draws, under five schemes each, with the exact moments of the weights."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

from fedstas import clustered, theory
from fedstas.theory.clusters import Weights

HALF = Fraction(1, 2)
ONE_CLIENT = [[HALF, HALF, 0], [HALF, 0, HALF]]  # sizes 2, 1, 1: client 1 has p in both rows
MIXED = [[HALF, HALF, 0, 0], [0, 0, HALF, HALF]]  # four equal clients, rows {1, 2} and {3, 4}
ALIKE = [[HALF, 0, HALF, 0], [0, HALF, 0, HALF]]  # rows {1, 3} and {2, 4}
UNLIKE = (1, 0, 1, 0)  # gradients of these four clients


def federations(examples: int, clients: int, low: int = 1):
    """All lists of sizes, descending, with up to so many clients and examples in all."""

    def parts(total, largest, places):
        if not total:
            yield []
        elif places:
            for k in range(min(total, largest), 0, -1):
                yield from ([k, *rest] for rest in parts(total - k, k, places - 1))

    for total in range(low, examples + 1):
        yield from parts(total, total, clients)


def groupings(items: list[int]):
    """All ways to put items into groups."""
    if not items:
        yield []
        return
    first, *rest = items
    for groups in groupings(rest):
        yield [[first], *groups]
        for k, group in enumerate(groups):
            yield [*groups[:k], [first, *group], *groups[k + 1 :]]


def pairs_of(sizes: list[int]) -> list[list[int]]:
    """Groups for Algorithm 2: clients 1 and 3, 2 and 4, and so on."""
    return [g for g in (list(range(0, len(sizes), 2)), list(range(1, len(sizes), 2))) if g]


@cache
def schemes() -> list[tuple[list[int], list, Weights, Weights]]:
    """(sizes, rows, exact weights, exact weights under MD) of every small scheme."""
    found = []
    for sizes in federations(7, 4):
        for m in (1, 2, 3):
            md = theory.md_rows(sizes, m)
            r = theory.rows_of(clustered.counts_by_size(sizes, m))
            made = [
                md,
                r,
                theory.rows_of(clustered.counts_by_groups(sizes, pairs_of(sizes), m)),
                theory.rows_of(theory.proof_of_theorem_3(sizes, m)),
                [
                    [(x + y) / 2 for x, y in zip(a, b, strict=True)]
                    for a, b in zip(r, md, strict=True)
                ],
            ]
            under_md = theory.weight_moments(md)
            found += [(sizes, rows, theory.weight_moments(rows), under_md) for rows in made]
    found.append(([2, 1, 1], ONE_CLIENT, theory.weight_moments(ONE_CLIENT),
                  theory.weight_moments(theory.md_rows([2, 1, 1], 2))))  # fmt: skip
    return found


def shares(sizes) -> list[Fraction]:
    """p_i = n_i/M."""
    return [Fraction(k, sum(sizes)) for k in sizes]


def variances(weights: Weights) -> list[Fraction]:
    """The diagonal of the covariance."""
    return [row[i] for i, row in enumerate(weights.covariance)]


def cohort_means(rows, z) -> list[tuple[Fraction, Fraction]]:
    """(mean of the drawn z, its probability) over all cohorts, for numbers z."""
    found = []
    for cohort in product(range(len(z)), repeat=len(rows)):
        chance = Fraction(1)
        for row, i in zip(rows, cohort, strict=True):
            chance *= row[i]
        if chance:
            found.append((sum((Fraction(z[i]) for i in cohort), Fraction(0)) / len(rows), chance))
    return found
