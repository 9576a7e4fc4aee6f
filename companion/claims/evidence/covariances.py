"""Covariances of a step on a sample of examples (FedSTaS Lemmas 3-4, Theorem 3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd

from companion.claims.registry import Claim, Evidence, claim, judge_theory
from fedstas.errors import InputError
from fedstas.theory import covariances as cov

EXAMPLE = np.array([[1, 0], [0, 2], [3, -1], [-2, 1]], dtype=object)  # four gradients of one client
SETTINGS = {  # n_k, n, n*, n̄ of ten equal participants
    "n* = 600": (600, 6000, 600, 60),
    "n* = 2048 (preprint)": (600, 6000, 2048, 204),
}


def text(matrix) -> str:
    """Format a small matrix on one line, a 1 x 1 matrix as its number."""
    m = np.asarray(matrix)
    if m.shape == (1, 1):
        return str(m[0, 0])
    return "[" + ", ".join("[" + ", ".join(map(str, row)) + "]" for row in m) + "]"


@cache
def grid(largest: int = 6, total: int = 16) -> tuple[tuple[int, int, int, int], ...]:
    """List all (n_k, n, n*, n̄) with 2 <= n_k <= largest, n_k <= n <= total, n̄ <= n_k and n̄ <= n* <= n."""
    sizes = ((k, n) for k in range(2, largest + 1) for n in range(k, total + 1))
    return tuple(
        (k, n, star, size)
        for k, n in sizes
        for star in range(1, n + 1)
        for size in range(1, min(k, star) + 1)
    )


@claim(
    "journal-lemma-3",
    paper="journal",
    place="Lemma 3, eq. 6.10",
    kind="theory",
    statement="The covariance of a step on a simple random sample of n̄ of n_k examples is eq. 6.10.",
    printed="eq. 6.10",
    chapter="04d_covariance#is-lemma-3-right",
    meaning="by the formula, and by listing all samples",
    core=True,
    order=340,
)
def lemma_3(claim: Claim, *, formula: Callable = cov.srs_covariance) -> Evidence:
    """Check eq. 6.10 (`formula`) by enumerating all simple random samples of five sets of gradients."""
    sets = [EXAMPLE, EXAMPLE[:2], np.array([[1, 2], [0, -1], [4, 1]], dtype=object)]
    sets += [np.array([[x] for x in v], dtype=object) for v in ((1, 1, 1), (0, 0, 1, 5, -3))]
    rows, equal = [], []
    for g in sets:
        for size in range(1, len(g) + 1):
            _, result = cov.enumerated(g, cov.outcomes("fixed", len(g), len(g), size, size))
            equal.append((result == formula(g, size)).all())
            if g is EXAMPLE:
                rows.append(
                    {
                        "n̄": size,
                        "eq. 6.10": text(formula(g, size)),
                        "all samples": text(result),
                    }
                )
    note = "Without replacement, one local step, n_k ≥ 2 (for n_k = 1 the printed quotient is 0/0)."
    return Evidence(
        judge_theory(all(equal)),
        f"{sum(equal)} of {len(equal)} equal",
        note=note,
        table=pd.DataFrame(rows),
    )


def readings(setting=(4, 8, 4, 2), form: Callable = cov.lemma4_form) -> pd.DataFrame:
    """Tabulate the exact covariance of each reading of Lemma 4 for four gradients, beside eq. 6.11.

    A reading is one interpretation of the lemma's sentence as a design.

    Args:
        setting: n_k, n, n*, n̄.
        form: eq. 6.11.
    """
    printed = form(*setting[1:]).at(EXAMPLE)
    rows = [{"design": "eq. 6.11 as printed", "expects": "–", "covariance": text(printed)}]
    for reading, words in cov.READINGS.items():
        try:
            weight, _ = cov.reading_form(reading, *setting)
        except InputError:
            rows.append({"design": words, "expects": "–", "covariance": "no design: n_k n* > n"})
            continue
        _, result = cov.enumerated(EXAMPLE, cov.outcomes(reading, *setting))
        rows.append({"design": words, "expects": f"{weight} ∇F_k", "covariance": text(result)})
    return pd.DataFrame(rows)


@cache
def matches(printed: Callable = cov.lemma4_form) -> pd.DataFrame:
    """Count, for each reading of Lemma 4, the settings in which it is possible and those in which eq. 6.11 is its covariance.

    `printed` is eq. 6.11; the settings are those of `grid`.
    """
    rows = []
    for reading, words in cov.READINGS.items():
        count = dict.fromkeys(("settings", "equal", "settings, n̄, n* ≥ 2", "equal, n̄, n* ≥ 2"), 0)
        for setting in grid():
            try:
                _, form = cov.reading_form(reading, *setting)
            except InputError:
                continue
            equal, large = form == printed(*setting[1:]), min(setting[2:]) >= 2
            for key, add in zip(count, (1, equal, large, equal and large), strict=True):
                count[key] += int(add)
        rows.append({"design": words, **count})
    return pd.DataFrame(rows)


@claim(
    "journal-lemma-4",
    paper="journal",
    place="Lemma 4, eq. 6.11",
    kind="theory",
    statement="The covariance of a step on FedSTaS's sample, with probabilities n*/n, is eq. 6.11.",
    printed="eq. 6.11",
    chapter="04d_covariance#what-can-the-sentence-of-lemma-4-mean",
    meaning="is eq. 6.11 on four gradients: no covariance matrix",
    core=True,
    order=350,
)
def lemma_4(claim: Claim, *, form: Callable = cov.lemma4_form) -> Evidence:
    """Compare eq. 6.11 (`form`) with the covariance of every reading, and check whether it is a covariance matrix at all."""
    result, example = matches(form), readings(form=form)
    equal_everywhere = result["equal"] == result["settings"]
    # whether eq. 6.11 is the covariance of some reading at least where n̄ and n* are 2 or more
    part = (result["equal, n̄, n* ≥ 2"] == result["settings, n̄, n* ≥ 2"]).any()
    semidefinite = sum(form(n, n_star, size).is_covariance(n_k) for n_k, n, n_star, size in grid())
    n, n_star, size = 8, 4, 2  # as in `readings`
    note = (
        f"No covariance at {len(grid()) - semidefinite} of {len(grid())} small settings; none of "
        f"{len(cov.READINGS)} readings has it where n̄, n* ≥ 2. Bernoulli: p(1−p)/n̄² Σgg'; fixed size: Lemma 3."
    )
    return Evidence(
        judge_theory(bool(equal_everywhere.any()), bool(part)),
        text(form(n, n_star, size).at(EXAMPLE)),
        note=note,
        table=example,
    )


CASES = (
    ("bernoulli", (3, 9, 3, 1), (1, 1, 1)),
    ("eq. 6.11", (2, 12, 4, 2), (1, -1)),  # with a client of 10 beside, n̄ = n*/m
    ("again", (2, 2, 2, 2), (1, -1)),
    ("pooled", (2, 4, 2, 1), (1, 1)),
)


def counterexamples(cases=CASES, form: Callable = cov.lemma4_form) -> pd.DataFrame:
    """Tabulate small settings with scalar gradients in which Theorem 3's inequality is wrong."""
    rows = []
    for reading, setting, gradients in cases:
        g = np.array([[x] for x in gradients], dtype=object)
        _, n, request, size = setting
        if reading == "eq. 6.11":
            words, covariance = "eq. 6.11 as printed", form(n, request, size).at(g)
        else:
            words = cov.READINGS[reading]
            _, covariance = cov.enumerated(g, cov.outcomes(reading, *setting))
        ((srs,),), ((other,),) = cov.srs_covariance(g, size), covariance  # 1 x 1 matrices
        rows.append(
            {
                "V_STaS read as": words,
                "n_k, n, n*, n̄": ", ".join(map(str, setting)),
                "gradients": ", ".join(map(str, gradients)),
                "V_SRS": str(srs),
                "V_STaS": str(other),
                "V_SRS ≥ V_STaS": "yes" if srs >= other else "no",
            }
        )
    return pd.DataFrame(rows)


@cache
def order(form: Callable = cov.lemma4_form) -> dict[str, int]:
    """Count the settings of the grid by how the matrix of eq. 6.11 (`form`) relates to the covariance of eq. 6.10.

    Returns:
        The numbers of all settings; of those where eq. 6.11 is a covariance; where eq. 6.10 is above it in the order of
        matrices; where both is so; and where besides the two differ.
    """
    count = dict.fromkeys(("settings", "covariance", "ordered", "both", "strict"), 0)
    for n_k, n, n_star, size in grid():
        eq_6_11, eq_6_10 = form(n, n_star, size), cov.srs_form(n_k, size)
        is_covariance, is_below = eq_6_11.is_covariance(n_k), eq_6_10.is_at_least(eq_6_11, n_k)
        count["settings"] += 1
        count["covariance"] += is_covariance
        count["ordered"] += is_below
        count["both"] += is_covariance and is_below
        count["strict"] += is_covariance and is_below and eq_6_10 != eq_6_11
    return count


def compare_with_srs(reading: str, reading_form: Callable = cov.reading_form) -> dict[str, int]:
    """Count, where a reading is unbiased and n_k n* = n n̄, how often its covariance is below, equal to, above Lemma 3's, or neither."""
    count = dict.fromkeys(("settings", "always below", "equal", "always above", "indefinite"), 0)
    for setting in grid():
        n_k, n, star, size = setting
        if n_k * star != n * size:
            continue
        try:
            weight, form = reading_form(reading, *setting)
        except InputError:
            continue
        if weight != 1:
            continue
        srs = cov.srs_form(n_k, size)
        less, more = srs.is_at_least(form, n_k), form.is_at_least(srs, n_k)
        count["settings"] += 1
        which = {(1, 1): "equal", (1, 0): "always below", (0, 1): "always above"}
        count[which.get((less, more), "indefinite")] += 1
    return count


@cache
def unbiased_readings(reading_form: Callable = cov.reading_form) -> pd.DataFrame:
    """Tabulate `compare_with_srs` for the readings that use n̄ examples on average.

    "bernoulli-mean" is left out: given that its sample is not empty, it uses more.
    """
    counts = {
        words: compare_with_srs(reading, reading_form)
        for reading, words in cov.READINGS.items()
        if reading != "bernoulli-mean"
    }
    rows = [{"design": words, **count} for words, count in counts.items() if count["settings"]]
    return pd.DataFrame(rows)


@claim(
    "journal-theorem-3",
    paper="journal",
    place="Theorem 3",
    kind="theory",
    statement="In the Loewner order, a step's covariance under simple random sampling is at least that "
    "under FedSTaS.",
    printed="V_SRS ⪰ V_STaS",
    chapter="04d_covariance#can-a-blind-design-beat-simple-random-sampling",
    meaning="are V_SRS and V_STaS in four small settings",
    core=True,
    order=430,
)
def theorem_3(claim: Claim, *, form: Callable = cov.lemma4_form, cases: tuple = CASES) -> Evidence:
    """Check whether V_SRS >= V_STaS, for the printed formulas (`form` is eq. 6.11) and for every unbiased reading."""
    counts, table = order(form), counterexamples(cases, form)
    note = (
        f"6.11 is a covariance, and not above 6.10, at {counts['both']} of {counts['settings']} small settings, strictly "
        f"below it at {counts['strict']}. No blind unbiased design of n̄ examples is below SRS for all gradients: ⪰ "
        "holds with equality, or not at all."
    )
    better = unbiased_readings()["always below"].sum() > 0
    is_larger = table["V_SRS ≥ V_STaS"] == "yes"
    printed = counts["ordered"] == counts["settings"] and is_larger.all()
    return Evidence(
        judge_theory(bool(printed), bool(better)),
        "; ".join(f"{r['V_SRS']} < {r['V_STaS']}" for _, r in table[~is_larger].iterrows()),
        note=note,
        table=table,
    )


@claim(
    "journal-6.3-more-stable",
    paper="journal",
    place="Sec. 6.3, before Theorem 3",
    kind="superiority",
    statement="FedSTaS's data sampling leads to more stable updates of a client than simple random "
    "sampling.",
    printed="more stable",
    chapter="04d_covariance#can-a-blind-design-beat-simple-random-sampling",
    meaning="in which an unbiased design that does not look at gradients is always below simple "
    "random sampling",
    order=230,
)
def more_stable_updates(claim: Claim, *, reading_form: Callable = cov.reading_form) -> Evidence:
    """Check whether any unbiased reading of FedSTaS's data sampling is at or below SRS for all gradients."""
    table = unbiased_readings(reading_form)
    note = (
        "At equal expected size a blind unbiased design equals SRS, or is worse for some gradients. Coins whose kept examples "
        "are averaged, given that there are any, use more than n̄ on average and are not counted."
    )
    return Evidence(
        judge_theory(bool(table["always below"].sum())),
        f"{table['always below'].sum()} of {table['settings'].sum()} settings",
        note=note,
        table=table,
    )
