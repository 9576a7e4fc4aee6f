"""Clustered sampling, the algorithms: the printed pseudocode, Theorems 3 and 4, and the sentences around them.

Exhaustive over small federations: Algorithm 1 over all sizes up to 12 examples and 1 to 6 draws, Algorithm 2
over all groupings of up to five clients and nine examples that fit into the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache, cmp_to_key

import numpy as np
import pandas as pd

from companion.claims.evidence.clusters import federations, groupings
from companion.claims.registry import Claim, Evidence, claim, judge_theory
from fedstas import clustered, theory
from fedstas.sim.rng import stream
from fedstas.theory.clusters import REPAIRS_1, REPAIRS_2


@cache
def inputs_1() -> list[tuple[list[int], int]]:
    """List every (sizes, m) with at most 12 examples and 6 draws: the inputs of Algorithm 1."""
    return [(n, m) for n in federations(12, 12) for m in range(1, 7)]


@cache
def inputs_2() -> list[tuple[list[int], list[list[int]], int]]:
    """List every (sizes, groups, m) in which no group is heavier than a row: the inputs of Algorithm 2."""
    return [
        (n, groups, m)
        for n in federations(9, 5)
        for m in (2, 3, 4)
        if m * n[0] <= sum(n)
        for groups in groupings(list(range(len(n))))
        if all(m * sum(n[i] for i in g) <= sum(n) for g in groups)
    ]


def format_lists(rows) -> str:
    """Format lists of numbers on one line, as in `3 0 0; 1 2 0`, with line breaks only between the lists."""
    return "; ".join("\u00a0".join(map(str, row)) for row in rows)


def sums(counts) -> str:
    """Format the row sums."""
    return ", ".join(str(sum(row)) for row in counts)


def frequency_1(repaired=(), inputs=None) -> tuple[int, int]:
    """Count the inputs for which the printed Algorithm 1, with the lines `repaired` corrected, satisfies Proposition 1.

    Returns:
        That count, and the number of inputs tried.
    """
    inputs = inputs_1() if inputs is None else inputs
    good = [
        theory.proposition_1(theory.printed_algorithm_1(n, m, repaired), n, m) for n, m in inputs
    ]
    return sum(good), len(good)


def frequency_2(repaired=()) -> tuple[int, int]:
    """Count the inputs for which the printed Algorithm 2 satisfies Proposition 1, as `frequency_1` does for Algorithm 1."""
    good = [
        theory.proposition_1(theory.printed_algorithm_2(n, g, m, repaired), n, m)
        for n, g, m in inputs_2()
    ]
    return sum(good), len(good)


def _least(inputs, broken):
    """Return the input for which `broken` holds with the fewest examples, then clients, then draws."""
    return min((x for x in inputs if broken(*x)), key=lambda x: (sum(x[0]), len(x[0]), x[-1]))


@claim(
    "clustered-algorithm-1",
    paper="clustered",
    place="Algorithm 1",
    kind="theory",
    statement="The printed lines of Algorithm 1 make m distributions that satisfy Proposition 1.",
    printed="Proposition 1",
    chapter="04g_clustered#do-the-printed-algorithms-make-such-rows",
    meaning="is what the printed lines give",
    order=450,
)
def algorithm_1_printed(claim: Claim, *, repaired: tuple = ()) -> Evidence:
    """Run the printed Algorithm 1, with the lines `repaired` corrected, on all small inputs; show the smallest failures."""
    good, tried = frequency_1(repaired)

    def broken(n, m):
        return not theory.proposition_1(theory.printed_algorithm_1(n, m, repaired), n, m)

    table = []
    if good < tried:
        several_clients = [(n, m) for n, m in inputs_1() if len(n) > 1]
        for n, m in (_least(inputs_1(), broken), _least(several_clients, broken), ([1, 1, 1], 1)):
            printed_counts = theory.printed_algorithm_1(n, m, repaired)
            table.append({"n": format_lists([n]), "m": m, "M": sum(n), "rows r', printed": format_lists(printed_counts),
                          "row sums": sums(printed_counts), "rows r', Fig. 3": format_lists(clustered.counts_by_size(n, m))})  # fmt: skip
    note = ("Rows count from 0 (line 3), line 11 fills r'_(l,i), and in line 13 a row begun before gets "
            f"b_i - b_(i-1): then {frequency_1(REPAIRS_1)[0]} of {tried}.")  # fmt: skip
    ours = f"Proposition 1 in {good} of {tried} inputs"
    return Evidence(judge_theory(good == tried), ours, note=note, table=pd.DataFrame(table))


@claim(
    "clustered-theorem-3",
    paper="clustered",
    place="Theorem 3",
    kind="theory",
    statement="Algorithm 1 outputs m distributions that satisfy Proposition 1.",
    printed="Proposition 1",
    chapter="04g_clustered#do-the-printed-algorithms-make-such-rows",
    meaning="small inputs for which Proposition 1 holds: as Fig. 3 draws them, and by the printed "
    "lines",
    order=400,
)
def theorem_3(
    claim: Claim, *, repaired: tuple = (), scheme: Callable = clustered.counts_by_size
) -> Evidence:
    """Check Proposition 1 for the scheme of Fig. 3 (`scheme`), and that the repaired lines compute that scheme."""
    schemes = [(n, m, np.array(scheme(n, m)).tolist()) for n, m in inputs_1()]
    right = all(theory.proposition_1(c, n, m) for n, m, c in schemes)
    same = all(theory.printed_algorithm_1(n, m, REPAIRS_1) == c for n, m, c in schemes)
    good, tried = frequency_1(repaired)
    rows = [(" and ".join(r) or "nothing", *frequency_1(r)) for r in
            ((), REPAIRS_1[:1], REPAIRS_1[:2], (REPAIRS_1[0], REPAIRS_1[2]), REPAIRS_1)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["repaired", "Proposition 1 holds", "of"])
    note = (
        "For the scheme of Fig. 3 (clients laid end to end); the printed lines need three repairs."
    )
    return Evidence(judge_theory(right and good == tried, right and same), f"{len(schemes)} of {len(schemes)} as drawn, {good} as printed"
                    if right else "fails as drawn", note=note, table=table)  # fmt: skip


@claim(
    "clustered-theorem-3-cost",
    paper="clustered",
    place="Theorem 3; App. C.1",
    kind="theory",
    statement="Algorithm 1 takes O(n log n) operations.",
    printed="O(n log n)",
    chapter="04g_clustered#do-the-printed-algorithms-make-such-rows",
    meaning="entries of r that are not 0",
    order=420,
)
def complexity_1(
    claim: Claim, *, inputs: list | None = None, scheme: Callable = clustered.counts_by_size
) -> Evidence:
    """Count the comparisons of the sort and the non-zero entries of r, each of which the loop writes once."""
    pairs = inputs or inputs_1()
    entries = [(len(n), m, int((np.array(scheme(n, m)) > 0).sum())) for n, m in pairs]
    bound = all(e <= n + m - 1 for n, m, e in entries)
    attained = any(e == n + m - 1 for n, m, e in entries)
    linear = [e <= 2 * n for n, m, e in entries]
    linear_if = [e <= 2 * n for n, m, e in entries if m <= n]
    table, sorted_ = [], []
    for n in (16, 256, 4096):
        compared = []
        key = cmp_to_key(lambda a, b: compared.append(1) or b - a)  # noqa: B023
        sorted(stream(n, "evidence, sorting").integers(1, 10**6, n).tolist(), key=key)
        sorted_.append(len(compared) <= n * np.log2(n))
        table.append({"n": n, "comparisons of the sort": len(compared), "n log2 n": int(n * np.log2(n)),
                      "entries at most, m = 10": n + 9, "dense r, m = 10": 10 * n})  # fmt: skip
    note = "If m <= n and only the entries that are not 0 are stored, at most n + m - 1; writing out r costs m n."
    ours = f"entries <= n + m - 1 in {len(entries)} inputs, {'attained' if attained else 'not attained'}"
    good = bound and all(linear_if) and all(sorted_)
    return Evidence(
        judge_theory(good and all(linear), good), ours, note=note, table=pd.DataFrame(table)
    )


def certain(counts) -> list[int]:
    """Return for each client the number of rows that hold no other client."""
    return [sum(row[i] == sum(row) for row in counts) for i in range(len(counts[0]))]


@claim(
    "clustered-theorem-3-proof",
    paper="clustered",
    place="Theorem 3, proof",
    kind="theory",
    statement="Algorithm 1 gives client i floor(m p_i) distributions in which it has probability 1.",
    printed="a_i sets with probability 1",
    chapter="04g_clustered#do-the-printed-algorithms-make-such-rows",
    meaning="what the proof promises",
    order=410,
)
def theorem_3_proof(claim: Claim, *, scheme: Callable = clustered.counts_by_size) -> Evidence:
    """Check whether each client has at least floor(m p_i) rows of its own, in Fig. 3 (`scheme`) and in the proof's allocation."""

    def missing(n, m, counts):
        return any(c < m * k // sum(n) for c, k in zip(certain(counts), n, strict=True))

    schemes = [(n, m) for n, m in inputs_1() if missing(n, m, np.array(scheme(n, m)).tolist())]
    valid = all(
        theory.proposition_1(theory.proof_of_theorem_3(n, m), n, m)
        and not missing(n, m, theory.proof_of_theorem_3(n, m))
        for n, m in inputs_1()
    )
    table = []
    if schemes:
        n, m = _least(schemes, lambda n, m: True)
        for name, c in (
            ("Fig. 3", np.array(scheme(n, m)).tolist()),
            ("proof", theory.proof_of_theorem_3(n, m)),
        ):
            total = sum(theory.weight_variances(theory.rows_of(c)))
            table.append({"n": format_lists([n]), "m": m, "m p": ", ".join(str(Fraction(m * k, sum(n))) for k in n), "allocation": name,
                          "rows r'": format_lists(c), "sum of variances": str(total)})  # fmt: skip
    note = "The proof describes another allocation, which satisfies Proposition 1 as well and has this promise."
    ours = f"missed in {len(schemes)} of {len(inputs_1())} inputs by Fig. 3"
    return Evidence(judge_theory(not schemes and valid), ours, note=note, table=pd.DataFrame(table))


@claim(
    "clustered-figure-3",
    paper="clustered",
    place="Fig. 3",
    kind="figure",
    statement="After each client that Algorithm 1 places, at most one row is neither empty nor full.",
    printed="at most one",
    chapter="04g_clustered#do-the-printed-algorithms-make-such-rows",
    meaning="in which it is so",
    order=620,
)
def figure_3(claim: Claim, *, scheme: Callable = clustered.counts_by_size) -> Evidence:
    """Check that after each client is placed at most one row is neither empty nor full."""
    checks = []
    for n, m in inputs_1():
        # sizes are descending: columns in the order of filling
        filled = np.array(scheme(n, m)).cumsum(1)
        checks.append(((filled > 0) & (filled < sum(n))).sum(0).max() <= 1)
    return Evidence(
        judge_theory(all(checks)),
        f"{sum(checks)} of {len(checks)} inputs",
        note="Clients by descending size, laid end to end.",
    )


@claim(
    "clustered-times",
    paper="clustered",
    place="Sec. 4",
    kind="theory",
    statement="Under Algorithm 1 a client is drawn at most floor(m p_i) + 2 times.",
    printed="floor(m p_i) + 2",
    chapter="04g_clustered#what-do-the-sentences-promise",
    meaning="the bound, over all clients of small inputs",
    order=180,
)
def times_1(claim: Claim, *, scheme: Callable = clustered.counts_by_size) -> Evidence:
    """Count the clients that stand in more rows than floor(m p_i) + 2, and those in exactly as many.

    The bound holds as an interval of length m p_i meets at most floor(m p_i) + 2 unit intervals. The table shows the
    smallest input that attains it.
    """
    exceeded, attained, smallest = 0, 0, None
    for n, m in inputs_1():
        times = (np.array(scheme(n, m)) > 0).sum(0)
        for t, k in zip(times, n, strict=True):
            bound = m * k // sum(n) + 2
            exceeded += t > bound
            attained += t == bound
            if t == bound and (
                smallest is None
                or (sum(n), len(n), m) < (sum(smallest[0]), len(smallest[0]), smallest[1])
            ):
                smallest = (n, m)
    table = pd.DataFrame()
    if smallest:
        n, m = smallest
        c = np.array(scheme(n, m))
        table = pd.DataFrame({"client": range(1, len(n) + 1), "n": n, "m p": [str(Fraction(m * k, sum(n))) for k in n],
                              "floor + 2": [m * k // sum(n) + 2 for k in n], "rows r'": [format_lists([x]) for x in c.T],
                              "times at most": (c > 0).sum(0)})  # fmt: skip
    groups = [[i] for i in range(12)]
    rows_2 = clustered.counts_by_groups([18] * 10 + [10, 10], groups, 10)
    note = f"Sharp. It is Algorithm 1's alone: under Algorithm 2 a client with m p_i = 1/2 can stand in {(rows_2 > 0).sum(0).max()} rows."
    return Evidence(
        judge_theory(exceeded == 0),
        f"exceeded {exceeded} times, attained {attained} times",
        note=note,
        table=table,
    )


@claim(
    "clustered-algorithm-2",
    paper="clustered",
    place="Algorithm 2, lines 4-18",
    kind="theory",
    statement="The printed lines of Algorithm 2 make m distributions that satisfy Proposition 1.",
    printed="Proposition 1",
    chapter="04g_clustered#do-the-printed-algorithms-make-such-rows",
    meaning="is what the printed lines give",
    order=470,
)
def algorithm_2_printed(claim: Claim, *, repaired: tuple = ()) -> Evidence:
    """Run the printed Algorithm 2, with the lines `repaired` corrected, on all small groupings; show the smallest failure."""
    good, tried = frequency_2(repaired)
    table = []
    if good < tried:

        def broken(n, g, m):
            return not theory.proposition_1(theory.printed_algorithm_2(n, g, m, repaired), n, m)

        for n, g, m in (_least(inputs_2(), broken), ([4, 3, 2, 1], [[0], [1], [2], [3]], 2)):
            printed_counts = theory.printed_algorithm_2(n, g, m, repaired)
            table.append({"n": format_lists([n]), "groups": format_lists([i + 1 for i in x] for x in g), "m": m, "M": sum(n), "rows r', printed": format_lists(printed_counts),
                          "row sums": sums(printed_counts), "rows r', Fig. 4": format_lists(clustered.counts_by_groups(n, g, m))})  # fmt: skip
    more = [x for x in inputs_2() if len(x[1]) > x[2]]
    note = ("Line 12 places u_i, not b_i, and q_k grows with what row k is given (after lines 12 and 14): "
            f"then {frequency_2(REPAIRS_2)[0]} of {tried}. {len(more)} of the inputs have more groups than rows.")  # fmt: skip
    return Evidence(
        judge_theory(good == tried),
        f"Proposition 1 in {good} of {tried} inputs",
        note=note,
        table=pd.DataFrame(table),
    )


@claim(
    "clustered-theorem-4",
    paper="clustered",
    place="Theorem 4",
    kind="theory",
    statement="If p_i <= 1/m for all clients, Algorithm 2 outputs m distributions that satisfy "
    "Proposition 1.",
    printed="Proposition 1",
    chapter="04g_clustered#do-the-printed-algorithms-make-such-rows",
    meaning="small inputs for which Proposition 1 holds: as Fig. 4 draws them, and by the printed "
    "lines",
    order=430,
)
def theorem_4(
    claim: Claim, *, repaired: tuple = (), scheme: Callable = clustered.counts_by_groups
) -> Evidence:
    """Check Proposition 1 for the scheme of Fig. 4 (`scheme`), and that the repaired lines compute that scheme."""
    schemes = [(n, g, m, np.array(scheme(n, g, m)).tolist()) for n, g, m in inputs_2()]
    same = [
        c == theory.printed_algorithm_2(n, g, m, REPAIRS_2) and theory.proposition_1(c, n, m)
        for n, g, m, c in schemes
    ]
    rows = [
        (" and ".join(r) or "nothing", *frequency_2(r))
        for r in ((), *((x,) for x in REPAIRS_2), REPAIRS_2)
    ]
    table = pd.DataFrame(rows, columns=["repaired", "Proposition 1 holds", "of"])
    note = "For the repaired lines (Fig. 4), if p_i <= 1/m and no group is heavier than a row."
    good, tried = frequency_2(repaired)
    ours = f"{sum(same)} of {len(same)} as drawn, {good} as printed"
    return Evidence(
        judge_theory(all(same) and good == tried, all(same)), ours, note=note, table=table
    )


@claim(
    "clustered-figure-4",
    paper="clustered",
    place="Fig. 4",
    kind="figure",
    statement="The m heaviest groups start a distribution each and the clients of the others fill the "
    "gaps.",
    printed="every row has M",
    chapter="04g_clustered#do-the-printed-algorithms-make-such-rows",
    meaning="in which it is so",
    order=630,
)
def figure_4(claim: Claim, *, scheme: Callable = clustered.counts_by_groups) -> Evidence:
    """Check that each of the m heaviest groups lies undivided in a row, and that every row is full."""
    checks = []
    for n, groups, m in inputs_2():
        counts = np.array(scheme(n, groups, m))
        ranked = sorted(groups, key=lambda g: -sum(n[i] for i in g))[:m]
        undivided = all(counts[k, i] == m * n[i] for k, g in enumerate(ranked) for i in g)
        checks.append(undivided and (counts.sum(1) == sum(n)).all())
    return Evidence(
        judge_theory(all(checks)),
        f"{sum(checks)} of {len(checks)} inputs",
        note="For groups that fit into a row.",
    )


@claim(
    "clustered-algorithm-2-cut",
    paper="clustered",
    place="Algorithm 2, line 3",
    kind="theory",
    statement="The tree can be cut into at least m groups none of which is heavier than a row.",
    printed="K ≥ m, q_k ≤ M",
    chapter="04g_clustered#do-the-printed-algorithms-make-such-rows",
    meaning="of small federations, all that fit, were tried",
    order=460,
)
def enough_groups(claim: Claim, *, inputs: list | None = None) -> Evidence:
    """Check that groups no heavier than a row number at least m, and that such groups exist if p_i <= 1/m.

    Masses q_k <= M that add up to m M are at least m in number; single clients are such groups if p_i <= 1/m.
    """
    fitting_groupings = inputs or inputs_2()
    enough = all(len(g) >= m for _, g, m in fitting_groupings)
    possible = all(any(n == a and m == b for a, _, b in inputs_2()) for n in federations(9, 5) for m in (2, 3, 4)
                   if m * n[0] <= sum(n))  # fmt: skip
    sizes, groups = [1] * 6, [[0, 1, 2], [3, 4], [5]]
    mean = theory.weight_moments(theory.groups_as_rows(sizes, groups)).mean
    table = pd.DataFrame({"client": range(1, 7), "group": [1, 1, 1, 2, 2, 3], "p": ["1/6"] * 6,
                          "weight if groups are rows": map(str, mean)})  # fmt: skip
    note = ("K >= m follows from q_k <= M and need not be asked for. Given groups heavier than a row, as classes may be, "
            "first fill rows of their own.")  # fmt: skip
    return Evidence(
        judge_theory(enough and possible),
        f"{len(fitting_groupings)} groupings",
        note=note,
        table=table,
    )
