"""Clustered sampling, exactly (Fraboni et al., ICML 2021): weights, rows, and the printed pseudocode.

A scheme of m draws from n clients is a matrix r [m, n]: draw k selects client i with probability r_ki. In the functions
below, `rows` are the matrix r as a list of lists whose entries are read as `Fraction`s, and `counts` are the whole
numbers r'_ki = M r_ki, whose rows sum to M = sum(sizes), the paper's M.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import comb, factorial, prod
from typing import NamedTuple

from fedstas.arrays import as_int_array
from fedstas.errors import InputError, check_choice, check_int
from fedstas.theory.designs import LARGEST, exact

MOST = 10_000  # rows
REPAIRS_1 = ("start", "line 11", "line 13")
REPAIRS_2 = ("line 12", "update")


class Weights(NamedTuple):
    """Exact moments of the aggregation weights omega_i, the share of the m draws that selected client i."""

    mean: list[Fraction]  # [n], eq. 12
    covariance: list[list[Fraction]]  # [n, n]; its diagonal is eq. 14 and 16
    sampled: list[Fraction]  # [n], P(i in S), eq. 20 and 22
    times: list[tuple[int, int]]  # [n], fewest and most draws that a client can get


def _as_fractions(row) -> list[Fraction]:
    """Convert numbers to the Fractions of their decimal representation: 0.1 to 1/10."""
    return exact([str(x) for x in row])


def _check_sizes(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return the sizes as a list, and their sum; `InputError` unless they are whole numbers, at least one above 0."""
    n = as_int_array("client sizes", sizes).tolist()
    if not sum(n):
        raise InputError("client sizes are all zero: at least one client must hold an example")
    return n, sum(n)


def as_rows(rows: Sequence[Sequence]) -> list[list[Fraction]]:
    """Convert a matrix to Fractions; `InputError` unless it is feasible (eq. 7: entries >= 0, rows sum to 1)."""
    matrix = [_as_fractions(row) for row in rows]
    if not matrix or any(len(row) != len(matrix[0]) for row in matrix):
        raise InputError("rows must be a matrix with one row per draw")
    if any(sum(row) != 1 or min(row) < 0 for row in matrix):
        raise InputError("every row must be >= 0 and sum to 1 (eq. 7)")
    return matrix


def normalise_rows(counts: Sequence[Sequence[int]]) -> list[list[Fraction]]:
    """Divide each row of the whole numbers r' by its sum: r [m, n]."""
    return as_rows([[Fraction(int(c), int(sum(row))) for c in row] for row in counts])


def md_rows(sizes: Sequence[int], m: int) -> list[list[Fraction]]:
    """Return MD sampling as a clustered scheme: m equal rows p_i = n_i / M."""
    sizes, total = _check_sizes(sizes)
    return as_rows([[Fraction(int(k), total) for k in sizes]] * check_int("m", m, 1, MOST))


def weight_moments(rows: Sequence[Sequence]) -> Weights:
    """Compute the moments of the weights by enumerating all cohorts, without the paper's formulas."""
    r = as_rows(rows)
    m, n = len(r), len(r[0])
    support = [[i for i in range(n) if row[i]] for row in r]
    if prod(map(len, support)) > LARGEST:
        raise InputError(f"more than {LARGEST} cohorts are too many to enumerate")
    mean, sampled = [Fraction(0)] * n, [Fraction(0)] * n
    second = [[Fraction(0)] * n for _ in range(n)]
    fewest, most = [m] * n, [0] * n
    for cohort in product(*support):
        chance = prod((r[k][i] for k, i in enumerate(cohort)), start=Fraction(1))
        times = [cohort.count(i) for i in range(n)]
        for i in range(n):
            fewest[i], most[i] = min(fewest[i], times[i]), max(most[i], times[i])
        for i in set(cohort):
            mean[i] += chance * times[i] / m
            sampled[i] += chance
            for j in set(cohort):
                second[i][j] += chance * times[i] * times[j] / m**2
    covariance = [[second[i][j] - mean[i] * mean[j] for j in range(n)] for i in range(n)]
    return Weights(mean, covariance, sampled, list(zip(fewest, most, strict=True)))


def weight_variances(rows: Sequence[Sequence]) -> list[Fraction]:
    """Compute Var omega_i = (1/m^2) sum_k r_ki (1 - r_ki): eq. 16, and eq. 14 for MD rows."""
    r = as_rows(rows)
    return [sum(x * (1 - x) for x in column) / len(r) ** 2 for column in zip(*r, strict=True)]


def row_inclusion(rows: Sequence[Sequence]) -> list[Fraction]:
    """Compute P(i in S) = 1 - prod_k (1 - r_ki): eq. 22, and eq. 20 for MD rows."""
    return [1 - prod(1 - x for x in column) for column in zip(*as_rows(rows), strict=True)]


def covariance_reduction(rows: Sequence[Sequence]) -> list[list[Fraction]]:
    """Compute by how much a scheme reduces the covariance of the weights relative to MD sampling, [n, n].

    That is (1/m^2) sum_k (r_k - p)(r_k - p)', where p is the mean of the rows r_k.
    """
    r = as_rows(rows)
    m, n = len(r), len(r[0])
    p = [sum(column) / m for column in zip(*r, strict=True)]
    off = [[x - q for x, q in zip(row, p, strict=True)] for row in r]
    return [[sum(d[i] * d[j] for d in off) / m**2 for j in range(n)] for i in range(n)]


def variance_of_mean(rows: Sequence[Sequence], vectors: Sequence) -> Fraction:
    """Compute the variance of the mean of the m drawn vectors, B of eq. 32 and eq. 40.

    That is E |X - E X|^2 for X = (1/m) sum_k z_{l_k}, where draw k selects client l_k and `vectors` are z [n] or [n, d].
    """
    r = as_rows(rows)
    z = [_as_fractions(v if hasattr(v, "__len__") else [v]) for v in vectors]
    total = Fraction(0)
    for row in r:
        centre = [sum(q * v[c] for q, v in zip(row, z, strict=True)) for c in range(len(z[0]))]
        total += sum(q * sum(x * x for x in v) for q, v in zip(row, z, strict=True))
        total -= sum(x * x for x in centre)
    return total / len(r) ** 2


def satisfies_proposition_1(counts: Sequence[Sequence[int]], sizes: Sequence[int], m: int) -> bool:
    """Return whether counts [m, n] are those of an unbiased scheme: row sums M and column sums m n_i (eq. 7 and 8)."""
    total = int(sum(sizes))
    return (
        len(counts) == m
        and all(min(row) >= 0 and sum(row) == total for row in counts)
        and all(sum(c) == m * k for c, k in zip(zip(*counts, strict=True), sizes, strict=True))
    )


def printed_algorithm_1(sizes: Sequence[int], m: int, repaired=()) -> list[list[int]]:
    """Run Algorithm 1 line by line as printed, and return counts r' [m, n] of the clients by descending size.

    The printed algorithm numbers rows from 0 to m: rows 1..m are returned if they satisfy Proposition 1, else 0..m-1.

    Args:
        repaired: the errors of the printed algorithm that are to be corrected. "start": in line 3, rows count from 0,
            as the quotients a_i do. "line 11": fill r'_{l,i}, not r'_{k,i}. "line 13": in a row that another client
            has begun, fill b_i - b_{i-1}, not b_i.
    """
    for name in repaired:
        check_choice("repair", name, REPAIRS_1)
    n, total = _check_sizes(sizes)
    n = sorted(n, reverse=True)
    k, q, before = (0 if "start" in repaired else 1), 0, 0
    r = [[0] * len(n) for _ in range(check_int("m", m, 1, MOST) + 1)]
    for i, size in enumerate(n):
        q += m * size  # line 7
        a, b = divmod(q, total)  # line 8
        entered = a > k  # line 9
        if entered:
            r[k][i] = total - before  # line 10
            for row in range(k + 1, a):  # line 11
                r[row if "line 11" in repaired else k][i] = total
        r[a][i] = b if entered or "line 13" not in repaired else b - before  # line 13
        k, before = a, b  # line 14
    return r[1:] if satisfies_proposition_1(r[1:], n, m) else r[:m]


def printed_algorithm_2(sizes, groups, m: int, repaired=()) -> list[list[int]]:
    """Run lines 4 to 18 of Algorithm 2 as printed, and return counts r' [m, n].

    Args:
        groups: lists of clients, of which none may be heavier than a row (line 3), else `InputError`.
        repaired: the errors of the printed algorithm that are to be corrected. "line 12": r'_{k,i} is u_i, not b_i.
            "update": after lines 12 and 14, add to q_k what was put into the row.
    """
    for name in repaired:
        check_choice("repair", name, REPAIRS_2)
    n, total = _check_sizes(sizes)
    ranked = sorted(groups, key=lambda group: -sum(n[i] for i in group))  # line 4
    q = [m * sum(n[i] for i in group) for group in ranked]
    if max(q) > total:
        raise InputError("a group is heavier than a row: m times its size exceeds the total")
    r = [[0] * len(n) for _ in range(check_int("m", m, 1, MOST))]
    for k, group in enumerate(ranked[:m]):  # line 5
        for i in group:
            r[k][i] = m * n[i]
    rest, k = [[i, m * n[i]] for group in ranked[m:] for i in group], 0  # lines 6 and 7
    while rest:
        i, u = rest[0]  # line 9
        a, b = divmod(q[k] + u, total)  # line 10
        if a == 0:
            r[k][i] = u if "line 12" in repaired else b
            q[k] += u if "update" in repaired else 0
            rest.pop(0)
        else:
            r[k][i] = total - q[k]  # line 14
            rest[0][1] -= r[k][i]  # line 15
            if not rest[0][1]:
                rest.pop(0)
            k += 1  # line 17
    return r


def theorem_3_counts(sizes: Sequence[int], m: int) -> list[list[int]]:
    """Return the counts r' [m, n] of the scheme in the proof of Theorem 3.

    Each client i first fills floor(m p_i) rows alone; then the clients' remainders fill the other rows one after
    another.
    """
    (n, total), m = _check_sizes(sizes), check_int("m", m, 1, MOST)
    owners = [i for i, size in enumerate(n) for _ in range(m * size // total)]
    rows = [[total if i == j else 0 for j in range(len(n))] for i in owners]
    row, free = [0] * len(n), total  # the row that is being filled, and what still fits into it
    for i, size in enumerate(n):
        remaining = m * size % total
        while remaining:
            part = min(remaining, free)
            row[i] += part
            remaining, free = remaining - part, free - part
            if not free:
                rows.append(row)
                row, free = [0] * len(n), total
    return rows


def groups_as_rows(sizes: Sequence[int], groups) -> list[list[Fraction]]:
    """Return a scheme with one row for each group, in which its clients are drawn in proportion to their sizes.

    Unlike in Algorithm 2, groups are not split; the scheme is unbiased only if all groups have the same total size.
    """
    rows = []
    for group in groups:
        mass = sum(int(sizes[i]) for i in group)
        share = [Fraction(int(k), mass) for k in sizes]
        rows.append([x if i in group else Fraction(0) for i, x in enumerate(share)])
    return as_rows(rows)


def distinct_uniform_probabilities(categories: int, draws: int) -> list[Fraction]:
    """Compute the probability of exactly j distinct values in uniform draws with replacement, j = 0, 1, ...

    By Stirling numbers of the second kind; the last j is the smaller of `categories` and `draws`.
    """
    categories = check_int("categories", categories, 1, MOST)
    draws = check_int("draws", draws, 1, MOST)
    most = min(categories, draws)
    onto = [
        sum((-1) ** (j - s) * comb(j, s) * s**draws for s in range(j + 1)) for j in range(most + 1)
    ]
    ways = [onto[j] // factorial(j) for j in range(most + 1)]
    falling = [factorial(categories) // factorial(categories - j) for j in range(most + 1)]
    return [Fraction(w * f, categories**draws) for w, f in zip(ways, falling, strict=True)]


def distinct_probabilities(rows: Sequence[Sequence]) -> list[Fraction]:
    """Compute the probability of exactly j distinct clients in a cohort, j = 0..n, for one draw from each row.

    For at most 14 clients.
    """
    r = as_rows(rows)
    check_int("the number of columns", len(r[0]), 1, 14)
    chances: dict[frozenset, Fraction] = {frozenset(): Fraction(1)}
    for row in r:
        after: dict[frozenset, Fraction] = {}
        for columns, chance in chances.items():
            for i, x in enumerate(row):
                if x:
                    key = columns | {i}
                    after[key] = after.get(key, Fraction(0)) + chance * x
        chances = after
    result = [Fraction(0)] * (len(r[0]) + 1)
    for columns, chance in chances.items():
        result[len(columns)] += chance
    return result
