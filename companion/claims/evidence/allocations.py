"""Allocation of draws to strata: Neyman's rule and the second inequality of Theorem 1 (chapter 4b)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np
import pandas as pd

from companion.claims.registry import Claim, Evidence, claim, judge_theory
from fedstas import allocation, theory
from fedstas.theory.allocations import in_proportion, largest_remainder

SPREAD_CASE = ((50, 30, 20), (2, 4, 6), 10)  # N_h, S_h, m


def _splits(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write `total` as a sum of so many whole numbers above 0, in order."""
    for cuts in combinations(range(1, total), parts - 1):
        yield tuple(b - a for a, b in pairwise((0, *cuts, total)))


@cache
def rounding() -> tuple:
    """Find the smallest case in which the rounded Neyman allocation is worse than the rounded proportional one.

    All cases of two strata without ties are searched in full, by the sum m + N_1 + N_2 + S_1 + S_2.

    Returns:
        (N_h, S_h, m, Neyman allocation, proportional one, variance of the first, of the second).
    """
    # From the least sum with m = 2 on; the end only stops a search in vain.
    for total in range(6, 30):
        for m, a, b, x, y in _splits(total, 5):
            has_tie = m * a * x % (a * x + b * y) * 2 == a * x + b * y  # a fraction of 1/2
            if not 2 <= m <= a + b or has_tie:
                continue
            neyman = largest_remainder(in_proportion((a * x, b * y), m), m)
            plain = largest_remainder(in_proportion((a, b), m), m)
            bounds = zip(neyman + plain, (a, b) * 2, strict=True)
            if neyman == plain or not all(1 <= draws <= clients for draws, clients in bounds):
                continue
            worse, better = (theory.allocation_variance((a, b), (x, y), k) for k in (neyman, plain))
            if worse > better:
                return (a, b), (x, y), m, neyman, plain, worse, better
    raise AssertionError("no counterexample in the range that is searched")


READINGS = {  # of S_h in eq. 3.5: the spreads of the averaged vectors, and what is put for S_h
    "S a standard deviation": (*SPREAD_CASE[:2], SPREAD_CASE[1]),
    "S a variance": (*SPREAD_CASE[:2], tuple(x * x for x in SPREAD_CASE[1])),
    "S of other vectors, (2, 1)": ((50, 50), (1, 2), (2, 1)),
}
LEFT_OUT = "whole draws: left out by the theorem"


@claim(
    "journal-theorem-1-allocation",
    paper="journal",
    place="Theorem 1, second inequality",
    kind="theory",
    statement="The re-allocated (Neyman) draws have at most the variance of plain ones, if m/N, m_h/N_h, "
    "1/m_h and 1/N are negligible.",
    printed="V(stradiv) ≤ V(strat)",
    chapter="04b_variance#does-neyman-allocation-lower-it",
    meaning="is the variance with re-allocated and with plain draws, where S_h is of other vectors",
    order=380,
)
def theorem_1_second(
    claim: Claim | None = None,
    *,
    readings: dict = READINGS,
    rule: Callable = theory.neyman_printed,
) -> Evidence:
    """Compare V(stradiv) with V(strat): the allocation of eq. 3.5 (`rule`) against the proportional one.

    Allocations are real numbers, as in the limit that the theorem names. `readings` are cases of the spreads, right and
    wrong. A case of few whole draws stands beside them in the table and does not count for the verdict.
    """
    sizes, spreads, _, draws_per_stratum, plain, *_ = rounding()
    *_, m = SPREAD_CASE
    cases = {
        name: (n, s, rule(n, spread_used, m), in_proportion(n, m))
        for name, (n, s, spread_used) in readings.items()
    }
    cases[LEFT_OUT] = (sizes, spreads, draws_per_stratum, plain)
    rows, right, worst = [], {}, None
    for name, (n_h, s_h, reallocated, proportional) in cases.items():
        v, w = (theory.allocation_variance(n_h, s_h, k) for k in (reallocated, proportional))
        right[name] = v <= w
        if name != LEFT_OUT and v > w:
            worst = f"{v} > {w}"
        rows.append(
            {
                "case": name,
                "N_h": str(n_h),
                "S_h": str(s_h),
                "draws, re-allocated": ", ".join(map(str, reallocated)),
                "proportional": ", ".join(map(str, proportional)),
                "V(stradiv)": str(v),
                "V(strat)": str(w),
            }
        )
    del right[LEFT_OUT]
    condition = [right[x] for x in ("S a standard deviation", "S a variance") if x in right]
    return Evidence(
        judge_theory(all(right.values()), bool(condition) and all(condition)),
        ours=worst or "V(stradiv) ≤ V(strat)",
        note="If S_h is the spread of the vectors that are averaged: Cauchy-Schwarz, with equality (no gain at all) if S_h is read as a "
        "variance. With few draws, which the theorem leaves out, rounding can turn the order around.",
        table=pd.DataFrame(rows),
    )


@claim(
    "preprint-neyman",
    paper="preprint",
    place="Sec. 1 and 2.4",
    kind="theory",
    statement="The optimal Neyman allocation, computed from the sizes and gradient variances of the "
    "strata, minimises the variance of the client sampling.",
    printed="minimizes the variance introduced by client sampling",
    chapter="04b_variance#does-neyman-allocation-lower-it",
    meaning="is the variance with sample variances for S_h; standard deviations give less",
    fact="neyman",
    order=90,
)
@claim(
    "journal-eq-3-5",
    paper="journal",
    place="eq. 3.5",
    kind="theory",
    statement="Draws proportional to N_h S_h minimise the variance of the client sampling, where S_h is "
    "the sample variance of the stratum.",
    printed="m_h = m N_h S_h / Σ N_h S_h",
    chapter="04b_variance#does-neyman-allocation-lower-it",
    meaning="is the variance with sample variances for S_h; standard deviations give less",
    fact="neyman",
    order=290,
)
def neyman(
    claim: Claim | None = None,
    *,
    spreads: tuple = SPREAD_CASE[1],
    rule: Callable = theory.neyman_printed,
) -> Evidence:
    """Check that eq. 3.5 (`rule`) minimises the variance: with S_h a standard deviation, and as printed a sample variance."""
    (n, _, m), s = SPREAD_CASE, spreads
    draws_per_stratum = {
        "standard deviation": rule(n, s, m),
        "sample variance, as printed": rule(n, [x * x for x in s], m),
        "none: proportional": in_proportion(n, m),
    }
    v = {name: theory.allocation_variance(n, s, k) for name, k in draws_per_stratum.items()}
    identity = all(
        theory.allocation_variance(a, b, theory.neyman_printed(a, [x * x for x in b], 5))
        == theory.allocation_variance(a, b, in_proportion(a, 5))
        for a in product(range(1, 5), repeat=2)
        for b in product(range(1, 5), repeat=2)
    )
    # The least variance of a fine grid of real-valued allocations.
    grid = min(
        theory.allocation_variance(n, s, [Fraction(k, 10) for k in (x, y, 100 - x - y)])
        for x in range(1, 99)
        for y in range(1, 100 - x)
    )
    share = [Fraction(a, sum(n)) for a in n]
    closed = sum(a * b for a, b in zip(share, s, strict=True)) ** 2 / m
    optimal = v["standard deviation"] == closed <= grid
    assert identity
    return Evidence(
        judge_theory(v["sample variance, as printed"] <= grid, optimal),
        ours=str(v["sample variance, as printed"]),
        note="If S_h is the standard deviation: V = (sum W_h S_h)^2 / m. With the sample variance in its place V is exactly that of "
        "proportional allocation, sum W_h S_h^2 / m, always.",
        table=pd.DataFrame(
            [
                {
                    "S_h": k,
                    "draws": ", ".join(map(str, draws_per_stratum[k])),
                    "variance": str(v[k]),
                }
                for k in draws_per_stratum
            ]
        ),
    )


def small_allocation_cases(high: int = 5, spread: int = 3) -> Iterator[tuple[tuple, tuple, int]]:
    """Yield the small cases (N_h, S_h, m) of two and of three strata, with every number of draws m from H to N.

    Of two strata N_h is at most `high` and S_h at most `spread`, of three at most 3 and 2; both are at least 1.
    """
    for strata, largest_size, largest_spread in ((2, high, spread), (3, 3, 2)):
        for n in product(range(1, largest_size + 1), repeat=strata):
            for s in product(range(1, largest_spread + 1), repeat=strata):
                for m in range(strata, sum(n) + 1):
                    yield n, s, m


@cache
def count_allocation_cases(cases: tuple | None = None) -> dict[str, int]:
    """Count in how many cases (N_h, S_h, m), by default `small_allocation_cases`, eq. 3.5 is whole, within bounds, optimal if rounded.

    Returns:
        How many cases there are; in how many eq. 3.5 is "whole"; and in how many, rounded, it gives a stratum "zero" draws,
        gives one more draws than it has clients ("above"), is within these bounds but "worse" than the best whole
        allocation, or as good ("optimal"). "ours": in how many the package's allocation is as good.
    """
    count = dict.fromkeys(("cases", "whole", "zero", "above", "worse", "optimal", "ours"), 0)
    for n, s, m in small_allocation_cases() if cases is None else cases:
        quotas = theory.neyman_printed(n, s, m)
        rounded = largest_remainder(quotas, m)
        least, _ = theory.integer_optimum(n, s, m)
        fits = all(1 <= k <= a for k, a in zip(rounded, n, strict=True))
        v = theory.allocation_variance(n, s, rounded)
        ours = theory.allocation_variance(n, s, [int(k) for k in allocation.neyman(n, s, m)])
        count["cases"] += 1
        count["whole"] += all(q.denominator == 1 for q in quotas)
        count["zero"] += 0 in rounded
        count["above"] += any(k > a for k, a in zip(rounded, n, strict=True))
        count["worse"] += fits and v > least
        count["optimal"] += fits and v == least
        count["ours"] += ours == least
    return count


@claim(
    "journal-eq-3-5-whole",
    paper="journal",
    place="eq. 3.5 in Algorithm 3",
    kind="theory",
    statement="Eq. 3.5 gives the number of clients to be drawn from each stratum, between one and all "
    "that it has.",
    printed="m_h clients",
    chapter="04b_variance#what-do-whole-numbers-of-clients-do-to-it",
    meaning="are the draws that eq. 3.5 gives the strata",
    order=300,
)
def whole_allocation(claim: Claim | None = None, *, cases: tuple | None = None) -> Evidence:
    """Check whether eq. 3.5 gives numbers of clients: whole, at least one, at most N_h."""
    rows = []
    shown_cases = (
        SPREAD_CASE,
        ((40, 35, 25), (3, 0, 5), 10),
        ((2, 48, 50), (100, 1, 1), 10),
        ((10, 10), (3, 1), 2),
    )
    for n, s, m in shown_cases:
        quotas, (least, best) = theory.neyman_printed(n, s, m), theory.integer_optimum(n, s, m)
        rounded = largest_remainder(quotas, m)
        rows.append(
            {
                "N_h": str(n),
                "S_h": str(s),
                "m": str(m),
                "eq. 3.5": ", ".join(map(str, quotas)),
                "rounded": ", ".join(map(str, rounded)),
                "bounded": ", ".join(map(str, theory.neyman_bounded(n, s, m))),
                "best whole draws": " or ".join(str(b) for b in best),
                "least variance": str(least),
            }
        )
    count = count_allocation_cases(cases)
    assert count["ours"] == count["cases"]
    return Evidence(
        judge_theory(count["whole"] == count["cases"] and not count["zero"] + count["above"]),
        ours=f"whole in {count['whole']} of {count['cases']} small cases",
        note="Whole numbers of draws with 1 <= m_h <= N_h need m >= H and a discrete optimum, by Wright's priorities N_h S_h / sqrt(k (k + 1)); "
        f"rounding gives a stratum nobody in {count['zero']} of {count['cases']} small cases, and more clients than it has in {count['above']}.",
        table=pd.DataFrame(rows),
    )


def _neyman(variances, sizes, m: int) -> list[float]:
    """Allocate m draws in proportion to size times standard deviation, as real numbers."""
    measure = [n * float(v) ** 0.5 for n, v in zip(sizes, variances, strict=True)]
    return [m * x / sum(measure) for x in measure]


@claim(
    "journal-eq-3-5-by-norm",
    paper="journal",
    place="eq. 3.5 with Sec. 3.2",
    kind="theory",
    statement="The allocation of eq. 3.5 minimises the variance when clients are drawn by gradient norm.",
    printed="minimizes the variance due to client sampling",
    chapter="04b_variance#what-is-true-instead",
    meaning="is the variance with this allocation; another gives less",
    order=310,
)
def spread_of_draws(
    claim: Claim | None = None,
    *,
    strata: tuple = ((-1, 5, 6), (-1, -1, 1, 1)),
    rule: Callable = _neyman,
) -> Evidence:
    """Check whether draws allocated by S_h (eq. 3.5) have the least variance when clients are drawn by norm (Sec. 3.2).

    S_h is the standard deviation of one uniform draw.

    `strata` has for each stratum its clients' gradients, a number each: the absolute values are the norms. `rule`
    allocates by the variances of one uniform draw in each stratum.
    """
    m, n = 2, [len(s) for s in strata]
    per_draw_moments = [theory.per_draw(w, np.abs(w)) for w in strata]
    share = [Fraction(a, sum(n)) for a in n]

    def variance(draws_per_stratum, spreads):
        """Return the variance of the stratified mean from the variances of one draw, `spreads`."""
        return sum(
            a**2 * v / k for a, v, k in zip(share, spreads, draws_per_stratum, strict=True) if v
        )

    hh = [x.hansen_hurwitz for x in per_draw_moments]
    plain = [x.plain for x in per_draw_moments]
    by_size = in_proportion(n, m)
    rows, worse = [], []
    for name, spreads in (("Hansen–Hurwitz", hh), ("plain mean", plain)):
        by_uniform = rule([x.uniform for x in per_draw_moments], n, m)
        by_draws = _neyman(spreads, n, m)
        by_rule, least = variance(by_uniform, spreads), variance(by_draws, spreads)
        worse.append(by_rule > least * (1 + 1e-9))  # up to rounding errors
        rows.append(
            {
                "estimator, p by norm": name,
                "variance per draw": ", ".join(map(str, spreads)),
                "S² (uniform)": ", ".join(str(x.uniform) for x in per_draw_moments),
                "draws by S": ", ".join(f"{k:.3f}" for k in by_uniform),
                "V": f"{float(by_rule):.4f}",
                "draws by the spread of a draw": ", ".join(f"{k:.3f}" for k in by_draws),
                "V, least": f"{float(least):.4f}",
            }
        )
    uniform = [x.uniform for x in per_draw_moments]
    by_rule, proportional = (variance(k, uniform) for k in (rule(uniform, n, m), by_size))
    # The claim holds if no allocation is better under draws by norm. It holds under a condition, that draws are uniform,
    # if the rule is then no worse than allocation in proportion to size.
    return Evidence(
        judge_theory(not any(worse), by_rule <= proportional * (1 + 1e-9)),
        ours=rows[0]["V"],
        note="If clients are drawn uniformly within strata. Under draws by norm the optimum replaces S_h by the standard deviation of one "
        "weighted draw, sqrt(sum_k d_k^2 / (N_h^2 p_k) - mean^2).",
        table=pd.DataFrame(rows),
    )
