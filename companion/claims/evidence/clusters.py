"""Clustered sampling, the weights: Proposition 1, eq. 3-56, Lemma 5, Theorems 1 and 2 (Fraboni et al.).

Checked on every federation of at most four clients and seven examples, up to three draws, under five schemes
each; moments come from listing all cohorts, never from the formula that is being checked. A parameter `cases`
replaces the list that `schemes` returns: of each scheme the sizes n, the rows r, and the moments of its weights (w) and
of those under MD sampling (md).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import combinations, product

import pandas as pd

from companion.claims.registry import Claim, Evidence, claim, judge_theory
from fedstas import clustered, theory
from fedstas.theory.clusters import Weights


def text(values) -> str:
    """Format numbers, separated by commas."""
    return ", ".join(str(v) for v in values)


def _is_md(rows) -> bool:
    """Return whether all rows are equal, that is, the scheme is MD sampling."""
    return all(list(row) == list(rows[0]) for row in rows)


def _example() -> pd.DataFrame:
    """Tabulate MD sampling beside Algorithm 1 for clients of 5, 3, 2, 1, 1 examples and three draws."""
    sizes, m = (5, 3, 2, 1, 1), 3
    md = theory.weight_moments(theory.md_rows(sizes, m))
    one = theory.weight_moments(theory.normalise_rows(clustered.counts_by_size(sizes, m)))
    return pd.DataFrame(
        {
            "n": sizes,
            "mean weight": map(str, one.mean),
            "variance, MD": map(str, variances(md)),
            "variance, Alg. 1": map(str, variances(one)),
            "P(in), MD": map(str, md.sampled),
            "P(in), Alg. 1": map(str, one.sampled),
        }
    )


def _evidence_of_checks(checks, note: str, table: pd.DataFrame | None = None) -> Evidence:
    """Return the evidence that a claim holds if all exact checks are true; its table is by default that of `_example`."""
    checks = list(checks)
    ours = f"{sum(checks)} of {len(checks)} exact checks"
    return Evidence(
        judge_theory(all(checks)), ours, note=note, table=_example() if table is None else table
    )


@claim(
    "clustered-eq-3",
    paper="clustered",
    place="Sec. 2.2, eq. 3",
    kind="theory",
    statement="FedAvg's sampling, with the old model in place of the missing clients, is biased.",
    printed="biased",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="is what is expected, where all of it is wanted",
    order=50,
)
def eq_3_biased(
    claim: Claim, *, cases: tuple = (([1, 1, 8], 1), ([1, 1, 8], 2), ([1, 1, 8], 3), ([2, 3], 1))
) -> Evidence:
    """Check that FedAvg with the old model in place of missing clients is biased, by the factor m/n, if m < n.

    The expected weights are exact, over all cohorts of m of n clients.
    """
    rows, biased, factor = [], [], []
    for sizes, m in cases:
        n, p = len(sizes), shares(sizes)
        cohorts = list(combinations(range(n), m))
        mean = [sum(p[i] for c in cohorts if i in c) / len(cohorts) for i in range(n)]
        if m < n:
            biased.append(mean != p)
        factor.append(all(n * x / m == q for x, q in zip(mean, p, strict=True)))
        rows.append({"n": text(sizes), "m": m, "weights wanted": text(p), "expected": text(mean)})
    note = "The bias is a common factor m/n: on updates, weights (n/m) n_i/M are unbiased; m = n has no bias."
    return Evidence(
        judge_theory(bool(biased) and all(biased) and all(factor)),
        "m/n of the update",
        note=note,
        table=pd.DataFrame(rows),
    )


@claim(
    "clustered-eq-4",
    paper="clustered",
    place="Sec. 2.2, eq. 4 and 6",
    kind="theory",
    statement="The plain mean of m draws with probabilities n_i/M is unbiased for the data-weighted "
    "model.",
    printed="unbiased",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="of the mean weights, over all cohorts of small federations",
    order=60,
)
def md_unbiased(claim: Claim, *, cases: list | None = None) -> Evidence:
    """Check that each client's mean weight under MD sampling is p_i, by enumerating cohorts."""
    checks = (md.mean == shares(sizes) for sizes, _, _, md in cases or schemes())
    return _evidence_of_checks(checks, "Draws with replacement, p_i = n_i/M, each weighing 1/m.")


@claim(
    "clustered-md-zero-to-m",
    paper="clustered",
    place="Sec. 3.1; Sec. 4",
    kind="theory",
    statement="Under MD sampling a client can be drawn 0 to m times, so its weight ranges from 0 to 1.",
    printed="0 to m",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="of the fewest and most draws of a client, in small federations",
    order=80,
)
def md_times(claim: Claim, *, cases: list | None = None) -> Evidence:
    """Check the fewest and the most draws of each client under MD sampling."""
    checks = [
        t == ((m if 0 < p == 1 else 0), m)
        for sizes, rows, _, md in cases or schemes()
        for m in [len(rows)]
        for p, t in zip(shares(sizes), md.times, strict=True)
    ]
    return _evidence_of_checks(
        checks, "A client with 0 < p_i < 1 is drawn 0 to m times: its weight ranges from 0 to 1."
    )


@claim(
    "clustered-proposition-1",
    paper="clustered",
    place="Proposition 1, eq. 7-10",
    kind="theory",
    statement="Row sums 1 and column sums m p_i make clustered sampling unbiased.",
    printed="sufficient",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="of the mean weights, over all cohorts of small federations",
    order=370,
)
def proposition_1(claim: Claim, *, cases: list | None = None) -> Evidence:
    """Check that the condition of Proposition 1 makes every scheme unbiased, and that rows which break it are biased."""
    sufficient = [weights.mean == shares(sizes) for sizes, _, weights, _ in cases or schemes()]
    not_satisfying = [[Fraction(3, 4), Fraction(1, 4)], [HALF, HALF]]
    mean = theory.weight_moments(not_satisfying).mean
    necessary = mean != [HALF, HALF]
    table = pd.DataFrame(
        {
            "rows": ["(1, 0), (0, 1)", "(3/4, 1/4), (1/2, 1/2)"],
            "columns": ["1, 1", "5/4, 3/4"],
            "mean weights": ["1/2, 1/2", text(mean)],
            "p": ["1/2, 1/2"] * 2,
        }
    )
    note = (
        "S counts a client as often as it is drawn. The condition is necessary, too: "
        "the mean weight of client i is (1/m) sum_k r_ki."
    )
    result = _evidence_of_checks(sufficient, note, table)
    if not necessary:
        return Evidence("fails", result.ours, note="the condition is not needed")
    return result


@claim(
    "clustered-eq-12",
    paper="clustered",
    place="Sec. 3.2, eq. 12",
    kind="theory",
    statement="Each client's expected weight is p_i under MD and under clustered sampling.",
    printed="p_i",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="of both mean weights, over all cohorts of small federations",
    order=90,
)
def eq_12(claim: Claim, *, cases: list | None = None) -> Evidence:
    """Check that each client's mean weight is p_i under MD and under clustered sampling."""
    checks = (w.mean == md.mean == shares(n) for n, _, w, md in cases or schemes())
    return _evidence_of_checks(checks, "By eq. 8.")


@claim(
    "clustered-eq-13",
    paper="clustered",
    place="Sec. 3.2, eq. 13-14 and 44",
    kind="theory",
    statement="Under MD sampling a weight has the variance p_i (1 - p_i)/m.",
    printed="p_i (1 - p_i)/m",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="of MD's variances, over all cohorts of small federations",
    order=100,
)
def eq_13_14(claim: Claim, *, formula: Callable = lambda p, m: p * (1 - p) / m) -> Evidence:
    """Check MD's weight variances (`formula`) by enumerating cohorts."""
    checks = (
        variances(md) == [formula(p, len(rows)) for p in shares(sizes)]
        for sizes, rows, _, md in schemes()
    )
    return _evidence_of_checks(checks, "By enumeration of all cohorts.")


@claim(
    "clustered-eq-15",
    paper="clustered",
    place="Sec. 3.2, eq. 15-16 and 45",
    kind="theory",
    statement="Under clustered sampling a weight has the variance (1/m^2) sum_k r_ki (1 - r_ki).",
    printed="sum_k r_ki (1 - r_ki)/m²",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="of the variances, over all cohorts of small federations",
    order=110,
)
def eq_15_16(claim: Claim, *, formula: Callable = theory.weight_variances) -> Evidence:
    """Check the weight variances of clustered sampling (`formula`) by enumerating cohorts."""
    checks = (variances(w) == formula(rows) for _, rows, w, _ in schemes())
    return _evidence_of_checks(checks, "By enumeration of all cohorts; the draws are independent.")


@claim(
    "clustered-eq-17",
    paper="clustered",
    place="Sec. 3.2, eq. 17",
    kind="theory",
    statement="No client's weight varies more under clustered than under MD sampling.",
    printed="≥",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="of both variances, over all cohorts of small federations",
    order=130,
)
def eq_17(claim: Claim, *, cases: list | None = None) -> Evidence:
    """Check that no weight varies more than under MD, and the stronger identity for the difference of the covariances."""
    checks = []
    for _, rows, w, md in cases or schemes():
        difference, clients = theory.covariance_reduction(rows), range(len(rows[0]))
        same = all(
            md.covariance[i][j] - w.covariance[i][j] == difference[i][j]
            for i in clients
            for j in clients
        )
        checks.append(
            same and all(a >= b for a, b in zip(variances(md), variances(w), strict=True))
        )
    return _evidence_of_checks(
        checks,
        "Stronger: Cov_MD - Cov_C = (1/m^2) sum_k (r_k - p)(r_k - p)', so no direction gains variance.",
    )


def _check_equality(is_equal: Callable, moment: str, cases: list | None) -> Evidence:
    """Check whether a moment of a scheme's weights equals that under MD if and only if the scheme is MD sampling.

    As printed this is said of every client by itself; the corrected statement is about all clients of a scheme at once. A
    table shows a client whose moment is equal although the scheme is another one.

    Args:
        is_equal: takes the moments of a scheme's weights, those under MD, and a client; returns whether the client's are
            equal.
        moment: its name, for the note.
        cases: the schemes to try; by default all of `schemes`.
    """
    cases = cases or schemes()
    per_client, jointly = [], []
    for _, rows, moments, md_moments in cases:
        equal = [is_equal(moments, md_moments, i) for i in range(len(rows[0]))]
        per_client += [e == _is_md(rows) for e in equal]
        jointly.append(all(equal) == _is_md(rows))
    counterexample = theory.weight_moments(ONE_CLIENT)
    md = theory.weight_moments(theory.md_rows([2, 1, 1], 2))
    table = pd.DataFrame(
        {
            "client": [1, 2, 3],
            "p": ["1/2", "1/4", "1/4"],
            "row 1": ["1/2", "1/2", "0"],
            "row 2": ["1/2", "0", "1/2"],
            "variance, MD": map(str, variances(md)),
            "variance": map(str, variances(counterexample)),
            "P(in), MD": map(str, md.sampled),
            "P(in)": map(str, counterexample.sampled),
        }
    )
    note = f"For all clients together. One client has equality of {moment} if and only if r_ki = p_i for all k."
    ours = f"{len(per_client) - sum(per_client)} of {len(per_client)} clients contradict it, {len(jointly) - sum(jointly)} schemes"
    return Evidence(judge_theory(all(per_client), all(jointly)), ours, note=note, table=table)


@claim(
    "clustered-eq-17-equality",
    paper="clustered",
    place="Sec. 3.2, after eq. 17",
    kind="theory",
    statement="Equality in eq. 17 holds if and only if all m distributions are MD's.",
    printed="iff all rows are p",
    chapter="04g_clustered#when-is-nothing-gained",
    meaning="that have MD's variance under another scheme",
    order=120,
)
def eq_17_equality(claim: Claim, *, cases: list | None = None) -> Evidence:
    """Check whether a scheme is MD sampling if and only if its weights have MD's variances: one client's, or all clients'."""

    def is_equal(w, md, i):
        """Return whether the weight of client i has the same variance as under MD."""
        return w.covariance[i][i] == md.covariance[i][i]

    return _check_equality(is_equal, "the variance", cases)


@claim(
    "clustered-eq-18",
    paper="clustered",
    place="Sec. 3.2, eq. 18-20 and 51",
    kind="theory",
    statement="Under MD sampling a client takes part with probability 1 - (1 - p_i)^m.",
    printed="1 - (1 - p_i)^m",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="of the chances to take part under MD, over all cohorts of small federations",
    order=140,
)
def eq_18_20(claim: Claim, *, formula: Callable = lambda p, m: 1 - (1 - p) ** m) -> Evidence:
    """Check MD's inclusion probabilities (`formula`) by enumerating cohorts."""
    checks = (
        md.sampled == [formula(p, len(rows)) for p in shares(n)] for n, rows, _, md in schemes()
    )
    return _evidence_of_checks(checks, "By enumeration of all cohorts.")


@claim(
    "clustered-eq-21",
    paper="clustered",
    place="Sec. 3.2, eq. 21-22 and 52",
    kind="theory",
    statement="Under clustered sampling a client takes part with probability 1 - prod_k (1 - r_ki).",
    printed="1 - prod_k (1 - r_ki)",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="of the chances to take part, over all cohorts of small federations",
    order=150,
)
def eq_21_22(claim: Claim, *, formula: Callable = theory.row_inclusion) -> Evidence:
    """Check the inclusion probabilities of clustered sampling (`formula`) by enumerating cohorts."""
    checks = (w.sampled == formula(rows) for _, rows, w, _ in schemes())
    return _evidence_of_checks(checks, "By enumeration of all cohorts.")


@claim(
    "clustered-eq-23",
    paper="clustered",
    place="Sec. 3.2, eq. 23",
    kind="theory",
    statement="No client takes part less often under clustered than under MD sampling.",
    printed="≤",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="of both chances to take part, over all cohorts of small federations",
    order=170,
)
def eq_23(claim: Claim, *, cases: list | None = None) -> Evidence:
    """Compare the inclusion probabilities of both schemes, client by client."""
    checks = (
        all(a <= b for a, b in zip(md.sampled, w.sampled, strict=True))
        for _, _, w, md in cases or schemes()
    )
    return _evidence_of_checks(
        checks, "By the inequality of the arithmetic and the geometric mean."
    )


@claim(
    "clustered-eq-23-equality",
    paper="clustered",
    place="Sec. 3.2, after eq. 23",
    kind="theory",
    statement="Equality in eq. 23 holds if and only if all m distributions are MD's.",
    printed="iff all rows are p",
    chapter="04g_clustered#when-is-nothing-gained",
    meaning="that take part as often as under MD under another scheme",
    order=160,
)
def eq_23_equality(claim: Claim, *, cases: list | None = None) -> Evidence:
    """Check whether a scheme is MD sampling if and only if it has MD's inclusion probabilities: one client's, or all clients'."""

    def is_equal(w, md, i):
        """Return whether client i takes part with the same probability as under MD."""
        return w.sampled[i] == md.sampled[i]

    return _check_equality(is_equal, "the inclusion probability", cases)


@claim(
    "clustered-eq-46",
    paper="clustered",
    place="App. B.1, eq. 46-50",
    kind="theory",
    statement="The variance of client i's weight is smaller under clustered than under MD sampling by "
    "(1/m^2)(sum_k r_ki^2 - m p_i^2) >= 0; the two are equal if and only if r_ki = p_i for "
    "all k.",
    printed="≥ 0",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="client by client, in small federations",
    order=730,
)
def variance_difference_per_client(claim: Claim, *, cases: list | None = None) -> Evidence:
    """Check the formula of the difference of the variances, and where it is zero, client by client."""
    checks = []
    for sizes, rows, w, md in cases or schemes():
        m = len(rows)
        for i, p in enumerate(shares(sizes)):
            gap = (sum(row[i] ** 2 for row in rows) - m * p * p) / Fraction(m * m)
            rows_are_md = all(row[i] == p for row in rows)
            checks.append(
                md.covariance[i][i] - w.covariance[i][i] == gap >= 0 and (gap == 0) == rows_are_md
            )
    return _evidence_of_checks(
        checks,
        "For each client alone: the condition of the main text, all rows equal, is more than it needs.",
    )


@claim(
    "clustered-eq-53",
    paper="clustered",
    place="App. B.2, eq. 53-55",
    kind="theory",
    statement="The chance that client i is left out is at most MD's, prod_k (1 - r_ki) <= (1 - p_i)^m; "
    "the two are equal if and only if r_ki = p_i for all k.",
    printed="≤",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="of the inequality and of equality, client by client, in small federations",
    order=770,
)
def absence_probability_per_client(claim: Claim, *, cases: list | None = None) -> Evidence:
    """Check that no client is left out more often than under MD, and as often only if r_ki = p_i in every row k."""
    checks = []
    for sizes, rows, w, md in cases or schemes():
        for i, p in enumerate(shares(sizes)):
            rows_are_md = all(row[i] == p for row in rows)
            checks.append(1 - w.sampled[i] <= 1 - md.sampled[i])
            checks.append((w.sampled[i] == md.sampled[i]) == rows_are_md)
    return _evidence_of_checks(checks, "For each client alone.")


@claim(
    "clustered-eq-56",
    paper="clustered",
    place="App. B.2, eq. 56",
    kind="theory",
    statement="A client takes part at least as often under MD as under clustered sampling.",
    printed="≥",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="is the chance to take part under MD and under clustered sampling, for two equal clients",
    slip=True,
    order=780,
)
def eq_56(claim: Claim, *, cases: list | None = None) -> Evidence:
    """Check the last line of the appendix, whose inequality has the wrong sign."""
    md = theory.weight_moments(theory.md_rows([1, 1], 2))
    w = theory.weight_moments([[1, 0], [0, 1]])
    holds = all(
        a >= b
        for _, _, w_, md_ in cases or schemes()
        for a, b in zip(md_.sampled, w_.sampled, strict=True)
    )
    table = pd.DataFrame(
        {
            "client": [1, 2],
            "row 1": [1, 0],
            "row 2": [0, 1],
            "P(in), MD": map(str, md.sampled),
            "P(in)": map(str, w.sampled),
        }
    )
    ours = f"{md.sampled[0]} against {w.sampled[0]}"
    return Evidence(judge_theory(holds), ours, note="Read <= as in eq. 23 and 55.", table=table)


@claim(
    "clustered-abstract-weights",
    paper="clustered",
    place="Abstract; Sec. 1; Sec. 3.2",
    kind="superiority",
    statement="Clustered sampling gives every client a smaller variance of its aggregation weight and a "
    "larger probability of taking part than MD sampling.",
    printed="smaller; larger",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="clients of small federations",
    core=True,
    order=20,
)
def representativity(claim: Claim, *, cases: list | None = None) -> Evidence:
    """Compare variance and inclusion probability with MD's: never worse for any client, better only where a row differs from p."""
    never_worse, better_or_md = [], []
    for _, rows, w, md in cases or schemes():
        for i in range(len(rows[0])):
            gains = md.covariance[i][i] - w.covariance[i][i], w.sampled[i] - md.sampled[i]
            never_worse.append(min(gains) >= 0)
            better_or_md.append(min(gains) > 0 or _is_md(rows))
    note = "Never worse for any client; strictly better for a client if and only if some r_ki differs from p_i."
    ours = (
        f"never worse in {sum(never_worse)} of {len(never_worse)} cases, "
        f"strictly better or MD itself in {sum(better_or_md)}"
    )
    verdict = judge_theory(all(better_or_md), all(never_worse))
    return Evidence(verdict, ours, note=note, table=_example())


HALF = Fraction(1, 2)
# Sizes 2, 1, 1. Client 1 has its p in every row, so that clustering changes nothing for its weight.
ONE_CLIENT = [[HALF, HALF, 0], [HALF, 0, HALF]]
EXAMPLE_GRADIENTS = (1, 0, 1, 0)  # scalar gradients of four equal clients
MIXED_ROWS = [[HALF, HALF, 0, 0], [0, 0, HALF, HALF]]  # rows {1, 2}, {3, 4}: both gradients in each
EQUAL_GRADIENT_ROWS = [[HALF, 0, HALF, 0], [0, HALF, 0, HALF]]  # rows {1, 3}, {2, 4}: one in each


def federations(examples: int, clients: int, low: int = 1):
    """Yield all descending lists of at most `clients` sizes whose total is from `low` to `examples`."""

    def descending(total, largest, length):
        """Yield the descending lists of at most `length` numbers, none above `largest`, whose sum is `total`."""
        if not total:
            yield []
        elif length:
            for k in range(min(total, largest), 0, -1):
                yield from ([k, *others] for others in descending(total - k, k, length - 1))

    for total in range(low, examples + 1):
        yield from descending(total, total, clients)


def groupings(items: list[int]):
    """Yield all partitions of the items into groups."""
    if not items:
        yield []
        return
    first, *rest = items
    for groups in groupings(rest):
        yield [[first], *groups]
        for k, group in enumerate(groups):
            yield [*groups[:k], [first, *group], *groups[k + 1 :]]


def alternate_groups(sizes: list[int]) -> list[list[int]]:
    """Return two groups for Algorithm 2: clients 1, 3, 5, ... and clients 2, 4, 6, ..."""
    return [g for g in (list(range(0, len(sizes), 2)), list(range(1, len(sizes), 2))) if g]


@cache
def schemes() -> list[tuple[list[int], list, Weights, Weights]]:
    """List (sizes, rows, exact weights, exact weights under MD) of every small scheme.

    Rows have, for each draw, the probabilities of the clients; of the weights the exact moments are meant.
    """
    result = []
    for sizes in federations(7, 4):
        for m in (1, 2, 3):
            md = theory.md_rows(sizes, m)
            by_size = theory.normalise_rows(clustered.counts_by_size(sizes, m))
            mean_of_both = [
                [(x + y) / 2 for x, y in zip(a, b, strict=True)]
                for a, b in zip(by_size, md, strict=True)
            ]
            candidates = [
                md,
                by_size,
                theory.normalise_rows(
                    clustered.counts_by_groups(sizes, alternate_groups(sizes), m)
                ),
                theory.normalise_rows(theory.theorem_3_counts(sizes, m)),
                mean_of_both,
            ]
            under_md = theory.weight_moments(md)
            result += [(sizes, rows, theory.weight_moments(rows), under_md) for rows in candidates]
    under_md = theory.weight_moments(theory.md_rows([2, 1, 1], 2))
    result.append(([2, 1, 1], ONE_CLIENT, theory.weight_moments(ONE_CLIENT), under_md))
    return result


def shares(sizes) -> list[Fraction]:
    """Return each client's share p_i = n_i/M of all examples."""
    return [Fraction(k, sum(sizes)) for k in sizes]


def variances(weights: Weights) -> list[Fraction]:
    """Return the variance of each client's weight, the diagonal of the covariance."""
    return [row[i] for i, row in enumerate(weights.covariance)]


def cohort_means(rows, z) -> list[tuple[Fraction, Fraction]]:
    """List (mean of the drawn clients' z, probability) over all cohorts, for scalars z."""
    result = []
    for cohort in product(range(len(z)), repeat=len(rows)):
        chance = Fraction(1)
        for row, i in zip(rows, cohort, strict=True):
            chance *= row[i]
        if chance:
            result.append((sum((Fraction(z[i]) for i in cohort), Fraction(0)) / len(rows), chance))
    return result
