"""The rate made from an estimated total, n*/ñ, at the preprint's numbers; and a rate that is fixed beforehand."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pandas as pd

from fedstas import theory
from fedstas.study.evidence import Claim, Evidence
from fedstas.study.evidence import theory as verdict
from fedstas.study.evidence.sizes import ALPHA, CAP, SIZE, M, Q


def rate_table(requests=(99, 600, 2048)) -> pd.DataFrame:
    """What becomes of n*/ñ at the preprint's numbers: m = 10, M = 100, alpha = 0.1616, sizes 600."""
    rows = []
    for n_star in requests:
        both = [
            theory.estimated_rate([SIZE] * M, CAP, float(ALPHA), n_star, floor) for floor in (1, M)
        ]
        p = n_star / (SIZE * M)
        rows.append(
            {
                "n*": n_star,
                "n*/n": f"{p:.4f}",
                "n*/n_c": f"{n_star / ((CAP - 1) * M):.4f}",
                "P(n*/ñ not in (0, 1])": f"{both[0].outside:.4f}",
                "E p̃, floor 1": f"{both[0].mean:.5f}",
                "E p̃, floor m": f"{both[1].mean:.5f}",
                "times n*/n": f"{both[0].mean / p:.2f}",
            }
        )
    return pd.DataFrame(rows)


def rate_is_a_probability(claim: Claim) -> Evidence:
    """Section 5.2: examples are drawn with probability n*/ñ."""
    table = rate_table()
    law = theory.size_estimator_exact([CAP - 1] * M, CAP, ALPHA)
    outside = sum(p for v, p in law.items() if v < 600)
    return Evidence(
        verdict(outside == 0),
        float(outside),
        note="n*/ñ is no probability where ñ ≤ 0 or ñ < n*: write min(1, n*/max(ñ, 1)); or choose n* = q ñ, then the rate is q for every ñ.",
        table=table,
    )


def request_of_the_ratio(claim: Claim) -> Evidence:
    """Section 3.1: the ratio q = 0.1 determines the requested sample, which is given as 2048."""
    totals = {"one participant": SIZE, "the participants": SIZE * M, "all clients": SIZE * 100}
    rows = [{"q of": k, "examples": n, "q n": str(Q * n)} for k, n in totals.items()]
    agrees = any(Q * n == 2048 for n in totals.values())
    return Evidence(
        "holds" if agrees else "fails",
        ", ".join(row["q n"] for row in rows),
        note="2048 is not q = 0.1 of any total of the setting (100 clients of 600, 10 take part): say which of q and n* is the parameter.",
        table=pd.DataFrame(rows),
    )


def _pooled(shards, rate: Fraction, norm: Fraction) -> Fraction:
    """E of (1/norm) times the sum of a Bernoulli(rate) sample of all examples, by enumeration."""
    pool = [x for shard in shards for x in shard]
    total = Fraction(0)
    for kept in product((0, 1), repeat=len(pool)):
        chance = rate ** sum(kept) * (1 - rate) ** (len(pool) - sum(kept))
        total += chance * sum(x for x, k in zip(pool, kept, strict=True) if k) / norm
    return total


def _clients(shards, rate: Fraction) -> Fraction:
    """E of the mean over clients of the mean of a non-empty Bernoulli(rate) sample (drawn again if empty)."""
    ends = []
    for shard in shards:
        total = weight = Fraction(0)
        for kept in product((0, 1), repeat=len(shard)):
            if any(kept):
                chance = rate ** sum(kept) * (1 - rate) ** (len(shard) - sum(kept))
                mean = Fraction(sum(x for x, k in zip(shard, kept, strict=True) if k), sum(kept))
                total, weight = total + chance * mean, weight + chance
        ends.append(total / weight)
    return sum(ends) / len(shards)


def slides_fixed_ratio(claim: Claim) -> Evidence:
    """The slides' "naive solution": a fixed sampling ratio leaks sizes or biases the update."""
    shards, k, rows = ((0,), (1, 2, 3)), 1, []
    pooled, clients = Fraction(6, 4), (Fraction(0) + 2) / 2
    for rate in (Fraction(1, 4), Fraction(1, 2)):
        fixed, equal = _pooled(shards, rate, Fraction(k)), _clients(shards, rate)
        rows.append(
            {
                "rate": str(rate),
                "sum of the sample / K, K = 1": str(fixed),
                "mean of all examples": str(pooled),
                "mean over clients of their samples' means": str(equal),
                "mean of the clients' means": str(clients),
            }
        )
    biased = [r["sum of the sample / K, K = 1"] != r["mean of all examples"] for r in rows]
    free = [
        r["mean over clients of their samples' means"] == r["mean of the clients' means"]
        for r in rows
    ]
    return Evidence(
        verdict(not any(free), any(biased)),
        "biased for the mean of all examples if r ≠ K/N; unbiased for the mean of the clients' means",
        note="If clients are to count by their sizes and K is fixed beforehand (r N ≠ K). For the weights 1/N of FedSTaS's eq. 6 a fixed rate is "
        "unbiased (samples that are not empty) and needs no size.",
        table=pd.DataFrame(rows),
    )
