"""Clustered sampling, exactly (Fraboni et al., ICML 2021): weights, rows, and the printed pseudocode.

A scheme is a matrix r [m, n], one row per draw. `rows` below are lists of lists whose entries are read as
`Fraction`s; `counts` are the same in whole numbers r'_{k,i} with row capacity M = sum(sizes), the paper's M.
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
    """Exact moments of the aggregation weights: omega_i is the share of the m draws that took client i."""

    mean: list[Fraction]  # [n], eq. 12
    covariance: list[list[Fraction]]  # [n, n]; its diagonal is eq. 14 and 16
    sampled: list[Fraction]  # [n], P(i in S), eq. 20 and 22
    times: list[tuple[int, int]]  # [n], fewest and most draws that a client can get


def _decimals(row) -> list[Fraction]:
    """Convert numbers to Fractions as they are printed: 0.1 to 1/10."""
    return exact([str(x) for x in row])


def _check_sizes(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return the sizes as a list, and their sum; `InputError` unless they are whole numbers, at least one above 0."""
    n = as_int_array("client sizes", sizes).tolist()
    if not sum(n):
        raise InputError("client sizes are all zero")
    return n, sum(n)


def as_rows(rows: Sequence[Sequence]) -> list[list[Fraction]]:
    """Convert a matrix to Fractions; `InputError` unless it is feasible (eq. 7: entries >= 0, rows sum to 1)."""
    matrix = [_decimals(row) for row in rows]
    if not matrix or any(len(row) != len(matrix[0]) for row in matrix):
        raise InputError("rows must be a matrix with one row per draw")
    if any(sum(row) != 1 or min(row) < 0 for row in matrix):
        raise InputError("every row must be >= 0 and sum to 1 (eq. 7)")
    return matrix


def rows_of(counts: Sequence[Sequence[int]]) -> list[list[Fraction]]:
    """Normalise whole-number rows r' of one capacity to r [m, n]."""
    return as_rows([[Fraction(int(c), int(sum(row))) for c in row] for row in counts])


def md_rows(sizes: Sequence[int], m: int) -> list[list[Fraction]]:
    """Return MD sampling as a clustered scheme: m equal rows p_i = n_i / M."""
    sizes, total = _check_sizes(sizes)
    return as_rows([[Fraction(int(k), total) for k in sizes]] * check_int("m", m, 1, MOST))


def weight_moments(rows: Sequence[Sequence]) -> Weights:
    """Compute the moments of the weights by listing every cohort with its probability (no formula of the paper)."""
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


def removed_covariance(rows: Sequence[Sequence]) -> list[list[Fraction]]:
    """Compute (1/m^2) sum_k (r_k - p)(r_k - p)', p the mean row: the covariance of MD sampling less that of an unbiased
    scheme r."""
    r = as_rows(rows)
    m, n = len(r), len(r[0])
    p = [sum(column) / m for column in zip(*r, strict=True)]
    off = [[x - q for x, q in zip(row, p, strict=True)] for row in r]
    return [[sum(d[i] * d[j] for d in off) / m**2 for j in range(n)] for i in range(n)]


def mean_variance(rows: Sequence[Sequence], vectors: Sequence) -> Fraction:
    """Compute E || (1/m) sum_k z_{l_k} - its mean ||^2 for vectors z [n] or [n, d]: B of eq. 32 and eq. 40."""
    r = as_rows(rows)
    z = [_decimals(v if hasattr(v, "__len__") else [v]) for v in vectors]
    total = Fraction(0)
    for row in r:
        centre = [sum(q * v[c] for q, v in zip(row, z, strict=True)) for c in range(len(z[0]))]
        total += sum(q * sum(x * x for x in v) for q, v in zip(row, z, strict=True))
        total -= sum(x * x for x in centre)
    return total / len(r) ** 2


def proposition_1(counts: Sequence[Sequence[int]], sizes: Sequence[int], m: int) -> bool:
    """Return whether m rows sum to M and the columns to m n_i, in whole numbers (eq. 7 and 8)."""
    total = int(sum(sizes))
    return (
        len(counts) == m
        and all(min(row) >= 0 and sum(row) == total for row in counts)
        and all(sum(c) == m * k for c, k in zip(zip(*counts, strict=True), sizes, strict=True))
    )


def printed_algorithm_1(sizes: Sequence[int], m: int, repaired=()) -> list[list[int]]:
    """Run Algorithm 1 line by line as printed: counts r' [m, n], clients by descending size.

    `repaired` names slips to mend: "start" (line 3: rows count from 0, as the quotients a_i do), "line 11"
    (fill r'_{l,i}, not r'_{k,i}), "line 13" (in a row begun before, b_i - b_{i-1}, not b_i). The quotients
    run from 0 to m: the m rows returned are 0..m-1, or 1..m where only these satisfy Proposition 1.
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
    return r[1:] if proposition_1(r[1:], n, m) else r[:m]


def printed_algorithm_2(sizes, groups, m: int, repaired=()) -> list[list[int]]:
    """Run Algorithm 2, lines 4 to 18, as printed: counts r' [m, n], clients in the order given.

    `repaired` names slips to mend: "line 12" (r'_{k,i} <- u_i, not b_i) and "update" (q_k grows with what
    the row is given, after lines 12 and 14). Groups must fit into a row (line 3), else `InputError`.
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


def proof_of_theorem_3(sizes: Sequence[int], m: int) -> list[list[int]]:
    """Make the allocation of Theorem 3's proof: floor(m p_i) rows of its own for each client, then the remainders."""
    (n, total), m = _check_sizes(sizes), check_int("m", m, 1, MOST)
    owners = [i for i, size in enumerate(n) for _ in range(m * size // total)]
    rows = [[total if i == j else 0 for j in range(len(n))] for i in owners]
    row, room = [0] * len(n), total
    for i, size in enumerate(n):
        remaining = m * size % total
        while remaining:
            part = min(remaining, room)
            row[i] += part
            remaining, room = remaining - part, room - part
            if not room:
                rows.append(row)
                row, room = [0] * len(n), total
    return rows


def groups_as_rows(sizes: Sequence[int], groups) -> list[list[Fraction]]:
    """Make each group a row, normalised and not split, also where it does not fill or fit one."""
    rows = []
    for group in groups:
        mass = sum(int(sizes[i]) for i in group)
        share = [Fraction(int(k), mass) for k in sizes]
        rows.append([x if i in group else Fraction(0) for i, x in enumerate(share)])
    return as_rows(rows)


def distinct_uniform(categories: int, draws: int) -> list[Fraction]:
    """Compute P(exactly j distinct values), j = 0..min, among uniform draws with replacement (Stirling numbers)."""
    categories = check_int("categories", categories, 1, MOST)
    draws = check_int("draws", draws, 1, MOST)
    most = min(categories, draws)
    onto = [
        sum((-1) ** (j - s) * comb(j, s) * s**draws for s in range(j + 1)) for j in range(most + 1)
    ]
    ways = [onto[j] // factorial(j) for j in range(most + 1)]
    falling = [factorial(categories) // factorial(categories - j) for j in range(most + 1)]
    return [Fraction(w * f, categories**draws) for w, f in zip(ways, falling, strict=True)]


def distinct(rows: Sequence[Sequence]) -> list[Fraction]:
    """Compute P(exactly j distinct columns), j = 0..n, when one column is drawn from each row (at most 14 columns)."""
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
