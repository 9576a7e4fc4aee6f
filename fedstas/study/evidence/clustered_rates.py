"""Is clustered sampling's error below MD's, and not only its bound? (Fraboni et al., Appendix A.2.)"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd

from fedstas import clustered
from fedstas.study.evidence import Claim, Evidence, theory
from fedstas.study.evidence.convergence import digits, scalars
from fedstas.theory import convergence as cv


def on_quadratics() -> pd.DataFrame:
    """Clustered sampling's exact errors against MD's, in each of 300 rounds, on four quadratic federations."""
    rows = []
    cases = {
        "c = (0, 0, 1)": scalars((0, 0, 1)),
        "c = (0, 1, 3, 5)": scalars((0, 1, 3, 5)),
        "the same, a = (1, 2, 4, 8)/8": scalars((0, 1, 3, 5), np.array([1, 2, 4, 8]) / 8),
        "digits, 20 clients": digits(),
    }
    for name, clients in cases.items():
        n, m = len(clients.omega), 2
        for steps in (1, 5):
            lrs, start = np.full(300, 0.1), np.ones(clients.centres.shape[1:])
            md = cv.errors(clients, cv.rows([clients.omega] * m), lrs, start, steps)
            ours = cv.errors(clients, cv.rows(clustered.by_size([1] * n, m)), lrs, start, steps)
            rows.append(
                {
                    "clients": name,
                    "local steps": steps,
                    "mean squared gradient, MD": f"{md[2].mean():.4f}",
                    "clustered": f"{ours[2].mean():.4f}",
                    "never above": "yes" if (ours <= md * (1 + 1e-9)).all() else "no",
                }
            )
    return pd.DataFrame(rows)


def flat_tails(rounds: int = 8) -> pd.DataFrame:
    """Exact P(w_t != 0) = E |grad|^2 for F_k = h(w) + c_k w, c = (-1, 1, -3, 3), h' = clip(w, -1, 1), steps 1.

    Rows {-1, 1} and {-3, 3} of clustered sampling have equal means: its variance is MD's.
    """
    c = (-1, 1, -3, 3)
    draws = {}
    for name, rows in (("MD", (c, c)), ("clustered", (c[:2], c[2:]))):
        pairs = [Fraction(a + b, 2) for a in rows[0] for b in rows[1]]
        draws[name] = {x: Fraction(pairs.count(x), len(pairs)) for x in set(pairs)}
    found = []
    for name, draw in draws.items():
        at = {Fraction(0): Fraction(1)}
        for t in range(1, rounds + 1):
            after: dict[Fraction, Fraction] = {}
            for w, p in at.items():
                for x, q in draw.items():
                    to = w - max(-1, min(1, w)) - x
                    after[to] = after.get(to, 0) + p * q
            at = after
            found.append((t, name, 1 - at.get(Fraction(0), Fraction(0))))
    variance = {n: sum(x * x * q for x, q in d.items()) for n, d in draws.items()}
    assert variance["MD"] == variance["clustered"]
    wide = pd.DataFrame(found, columns=["round", "design", "E |∇F|²"])
    return wide.pivot(index="round", columns="design", values="E |∇F|²").reset_index()


def improvement(claim: Claim) -> Evidence:
    """Is clustered sampling's error at most MD's, round by round? On quadratic clients, and on flat tails."""
    quadratic = (on_quadratics()["never above"] == "yes").all()
    tails = flat_tails(4)
    never = (tails["clustered"] <= tails["MD"]).all()
    note = (
        "If the clients are quadratic (exact in every round; proved in the chapter). In general only the variance "
        "of the draws is ordered (eq. 42-43): with flat tails, as in the table, clustered sampling can be worse."
    )
    return Evidence(
        theory(bool(quadratic and never), bool(quadratic)),
        f"{tails['clustered'][0]} > {tails['MD'][0]}",
        note=note,
        table=tails.astype(str),
    )
