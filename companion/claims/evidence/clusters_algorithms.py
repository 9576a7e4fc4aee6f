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
def algorithm_1_inputs() -> list[tuple[list[int], int]]:
    """List every (sizes, m) with at most 12 examples and 6 draws: the inputs of Algorithm 1."""
    return [(n, m) for n in federations(12, 12) for m in range(1, 7)]


@cache
def algorithm_2_inputs() -> list[tuple[list[int], list[list[int]], int]]:
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


def format_groups(groups) -> str:
    """Format groups of clients, which count from 1, as `format_lists` does."""
    return format_lists([i + 1 for i in group] for group in groups)


def format_row_sums(counts) -> str:
    """Format the sum of each row, separated by commas."""
    return ", ".join(str(sum(row)) for row in counts)


def count_valid_algorithm_1(repaired=(), inputs=None) -> tuple[int, int]:
    """Count the inputs for which the printed Algorithm 1, with the lines `repaired` corrected, satisfies Proposition 1.

    Returns:
        That count, and the number of inputs tried.
    """
    inputs = algorithm_1_inputs() if inputs is None else inputs
    valid = [
        theory.satisfies_proposition_1(theory.printed_algorithm_1(n, m, repaired), n, m)
        for n, m in inputs
    ]
    return sum(valid), len(valid)


def count_valid_algorithm_2(repaired=()) -> tuple[int, int]:
    """Count the inputs for which the printed Algorithm 2, with the lines `repaired` corrected, satisfies Proposition 1.

    Returns:
        That count, and the number of inputs tried.
    """
    valid = [
        theory.satisfies_proposition_1(theory.printed_algorithm_2(n, g, m, repaired), n, m)
        for n, g, m in algorithm_2_inputs()
    ]
    return sum(valid), len(valid)


def _smallest_input(inputs, violates: Callable[..., bool]):
    """Return the input for which `violates` holds with the fewest examples, then clients, then draws."""

    def size_of(sizes, *groups_and_draws) -> tuple[int, int, int]:
        """Return the examples, clients and draws of an input."""
        *_, draws = groups_and_draws
        return sum(sizes), len(sizes), draws

    return min((x for x in inputs if violates(*x)), key=lambda x: size_of(*x))


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
    valid, inputs = count_valid_algorithm_1(repaired)

    def violates(n, m):
        """Return whether the printed lines break Proposition 1 for this input."""
        return not theory.satisfies_proposition_1(theory.printed_algorithm_1(n, m, repaired), n, m)

    table = []
    if valid < inputs:
        several_clients = [(n, m) for n, m in algorithm_1_inputs() if len(n) > 1]
        examples = (
            _smallest_input(algorithm_1_inputs(), violates),
            _smallest_input(several_clients, violates),
            ([1, 1, 1], 1),
        )
        for n, m in examples:
            printed_counts = theory.printed_algorithm_1(n, m, repaired)
            figure_counts = clustered.counts_by_size(n, m)
            table.append(
                {
                    "n": format_lists([n]),
                    "m": m,
                    "M": sum(n),
                    "rows r', printed": format_lists(printed_counts),
                    "row sums": format_row_sums(printed_counts),
                    "rows r', Fig. 3": format_lists(figure_counts),
                }
            )
    valid_if_repaired, _ = count_valid_algorithm_1(REPAIRS_1)
    note = (
        "Rows count from 0 (line 3), line 11 fills r'_(l,i), and in line 13 a row begun before gets "
        f"b_i - b_(i-1): then {valid_if_repaired} of {inputs}."
    )
    ours = f"Proposition 1 in {valid} of {inputs} inputs"
    return Evidence(judge_theory(valid == inputs), ours, note=note, table=pd.DataFrame(table))


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
    schemes = [(n, m, np.array(scheme(n, m)).tolist()) for n, m in algorithm_1_inputs()]
    figure_is_valid = all(theory.satisfies_proposition_1(c, n, m) for n, m, c in schemes)
    repaired_is_figure = all(
        theory.printed_algorithm_1(n, m, REPAIRS_1) == c for n, m, c in schemes
    )
    valid, inputs = count_valid_algorithm_1(repaired)
    first, second, third = REPAIRS_1
    choices = ((), (first,), (first, second), (first, third), REPAIRS_1)
    rows = [(" and ".join(c) or "nothing", *count_valid_algorithm_1(c)) for c in choices]
    table = pd.DataFrame(rows, columns=["repaired", "Proposition 1 holds", "of"])
    note = (
        "For the scheme of Fig. 3 (clients laid end to end); the printed lines need three repairs."
    )
    ours = "fails as drawn"
    if figure_is_valid:
        ours = f"{len(schemes)} of {len(schemes)} as drawn, {valid} as printed"
    verdict = judge_theory(
        figure_is_valid and valid == inputs, figure_is_valid and repaired_is_figure
    )
    return Evidence(verdict, ours, note=note, table=table)


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
def algorithm_1_cost(
    claim: Claim, *, inputs: list | None = None, scheme: Callable = clustered.counts_by_size
) -> Evidence:
    """Count the comparisons of the sort and the non-zero entries of r, each of which the loop writes once."""
    pairs = inputs or algorithm_1_inputs()
    entries = [(len(n), m, int((np.array(scheme(n, m)) > 0).sum())) for n, m in pairs]
    bound = all(e <= n + m - 1 for n, m, e in entries)
    attained = any(e == n + m - 1 for n, m, e in entries)
    linear = [e <= 2 * n for n, m, e in entries]
    linear_if = [e <= 2 * n for n, m, e in entries if m <= n]
    table, sorts_within_bound = [], []
    for n in (16, 256, 4096):
        comparisons = []
        key = cmp_to_key(lambda a, b: comparisons.append(1) or b - a)  # noqa: B023
        sorted(stream(n, "evidence, sorting").integers(1, 10**6, n).tolist(), key=key)
        sorts_within_bound.append(len(comparisons) <= n * np.log2(n))
        table.append(
            {
                "n": n,
                "comparisons of the sort": len(comparisons),
                "n log2 n": int(n * np.log2(n)),
                "entries at most, m = 10": n + 9,
                "dense r, m = 10": 10 * n,
            }
        )
    note = "If m <= n and only the entries that are not 0 are stored, at most n + m - 1; writing out r costs m n."
    ours = f"entries <= n + m - 1 in {len(entries)} inputs, {'attained' if attained else 'not attained'}"
    conditional = bound and all(linear_if) and all(sorts_within_bound)
    verdict = judge_theory(conditional and all(linear), conditional)
    return Evidence(verdict, ours, note=note, table=pd.DataFrame(table))


def format_expected_draws(n, m) -> list[str]:
    """Format m p_i, the expected number of draws, of each client."""
    return [str(Fraction(m * size, sum(n))) for size in n]


def sum_of_variances(counts) -> Fraction:
    """Return the sum of the clients' weight variances under the rows r' `counts`."""
    return sum(theory.weight_variances(theory.normalise_rows(counts)))


def count_certain_rows(counts) -> list[int]:
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

    def lacks_rows(n, m, counts) -> bool:
        """Return whether a client has fewer rows of its own than floor(m p_i)."""
        certain = count_certain_rows(counts)
        return any(rows < m * size // sum(n) for rows, size in zip(certain, n, strict=True))

    inputs = algorithm_1_inputs()
    failures = [(n, m) for n, m in inputs if lacks_rows(n, m, np.array(scheme(n, m)).tolist())]
    proof_is_valid = all(
        theory.satisfies_proposition_1(counts, n, m) and not lacks_rows(n, m, counts)
        for n, m in inputs
        for counts in [theory.theorem_3_counts(n, m)]
    )
    table = []
    if failures:
        n, m = _smallest_input(failures, lambda n, m: True)
        allocations = {
            "Fig. 3": np.array(scheme(n, m)).tolist(),
            "proof": theory.theorem_3_counts(n, m),
        }
        for name, counts in allocations.items():
            table.append(
                {
                    "n": format_lists([n]),
                    "m": m,
                    "m p": ", ".join(format_expected_draws(n, m)),
                    "allocation": name,
                    "rows r'": format_lists(counts),
                    "sum of variances": str(sum_of_variances(counts)),
                }
            )
    note = "The proof describes another allocation, which satisfies Proposition 1 as well and has this promise."
    ours = f"missed in {len(failures)} of {len(inputs)} inputs by Fig. 3"
    verdict = judge_theory(not failures and proof_is_valid)
    return Evidence(verdict, ours, note=note, table=pd.DataFrame(table))


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
    for n, m in algorithm_1_inputs():
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
def most_draws_per_client(claim: Claim, *, scheme: Callable = clustered.counts_by_size) -> Evidence:
    """Count the clients that stand in more rows than floor(m p_i) + 2, and those in exactly as many.

    The bound holds as an interval of length m p_i meets at most floor(m p_i) + 2 unit intervals. The table shows the
    smallest input that attains it.
    """
    exceeded, attained, sharp_inputs = 0, 0, []
    for n, m in algorithm_1_inputs():
        draws = (np.array(scheme(n, m)) > 0).sum(0)
        bounds = np.array([m * size // sum(n) + 2 for size in n])
        exceeded += (draws > bounds).sum()
        attained += (draws == bounds).sum()
        if (draws == bounds).any():
            sharp_inputs.append((n, m))
    table = pd.DataFrame()
    if sharp_inputs:
        n, m = _smallest_input(sharp_inputs, lambda n, m: True)
        counts = np.array(scheme(n, m))
        table = pd.DataFrame(
            {
                "client": range(1, len(n) + 1),
                "n": n,
                "m p": format_expected_draws(n, m),
                "floor + 2": [m * size // sum(n) + 2 for size in n],
                "rows r'": [format_lists([column]) for column in counts.T],
                "times at most": (counts > 0).sum(0),
            }
        )
    # Ten draws from 200 examples: the last two clients, of 10 each, have m p_i = 1/2, and fill what the ten others leave
    # of their rows.
    groups = [[i] for i in range(12)]
    rows_2 = clustered.counts_by_groups([18] * 10 + [10, 10], groups, 10)
    most_rows = (rows_2 > 0).sum(0).max()
    note = f"Sharp. It is Algorithm 1's alone: under Algorithm 2 a client with m p_i = 1/2 can stand in {most_rows} rows."
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
    valid, inputs = count_valid_algorithm_2(repaired)

    def violates(n, groups, m):
        """Return whether the printed lines break Proposition 1 for this input."""
        counts = theory.printed_algorithm_2(n, groups, m, repaired)
        return not theory.satisfies_proposition_1(counts, n, m)

    table = []
    if valid < inputs:
        single_clients = ([4, 3, 2, 1], [[0], [1], [2], [3]], 2)
        for n, groups, m in (_smallest_input(algorithm_2_inputs(), violates), single_clients):
            printed_counts = theory.printed_algorithm_2(n, groups, m, repaired)
            figure_counts = clustered.counts_by_groups(n, groups, m)
            table.append(
                {
                    "n": format_lists([n]),
                    "groups": format_groups(groups),
                    "m": m,
                    "M": sum(n),
                    "rows r', printed": format_lists(printed_counts),
                    "row sums": format_row_sums(printed_counts),
                    "rows r', Fig. 4": format_lists(figure_counts),
                }
            )
    more_groups_than_rows = sum(len(groups) > m for _, groups, m in algorithm_2_inputs())
    valid_if_repaired, _ = count_valid_algorithm_2(REPAIRS_2)
    note = (
        "Line 12 places u_i, not b_i, and q_k grows with what row k is given (after lines 12 and 14): "
        f"then {valid_if_repaired} of {inputs}. "
        f"{more_groups_than_rows} of the inputs have more groups than rows."
    )
    return Evidence(
        judge_theory(valid == inputs),
        f"Proposition 1 in {valid} of {inputs} inputs",
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
    schemes = [(n, g, m, np.array(scheme(n, g, m)).tolist()) for n, g, m in algorithm_2_inputs()]
    same = [
        c == theory.printed_algorithm_2(n, g, m, REPAIRS_2)
        and theory.satisfies_proposition_1(c, n, m)
        for n, g, m, c in schemes
    ]
    rows = [
        (" and ".join(r) or "nothing", *count_valid_algorithm_2(r))
        for r in ((), *((x,) for x in REPAIRS_2), REPAIRS_2)
    ]
    table = pd.DataFrame(rows, columns=["repaired", "Proposition 1 holds", "of"])
    note = "For the repaired lines (Fig. 4), if p_i <= 1/m and no group is heavier than a row."
    valid, inputs = count_valid_algorithm_2(repaired)
    ours = f"{sum(same)} of {len(same)} as drawn, {valid} as printed"
    verdict = judge_theory(all(same) and valid == inputs, all(same))
    return Evidence(verdict, ours, note=note, table=table)


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
    for n, groups, m in algorithm_2_inputs():
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
    fitting_groupings = inputs or algorithm_2_inputs()
    at_least_m = all(len(groups) >= m for _, groups, m in fitting_groupings)
    with_grouping = {(tuple(n), m) for n, _, m in algorithm_2_inputs()}
    exists = all(
        (tuple(n), m) in with_grouping
        for n in federations(9, 5)
        for m in (2, 3, 4)
        if m * n[0] <= sum(n)
    )
    sizes, groups = [1] * 6, [[0, 1, 2], [3, 4], [5]]
    mean = theory.weight_moments(theory.groups_as_rows(sizes, groups)).mean
    table = pd.DataFrame(
        {
            "client": range(1, 7),
            "group": [1, 1, 1, 2, 2, 3],
            "p": ["1/6"] * 6,
            "weight if groups are rows": map(str, mean),
        }
    )
    note = (
        "K >= m follows from q_k <= M and need not be asked for. Given groups heavier than a row, as classes may be, "
        "first fill rows of their own."
    )
    return Evidence(
        judge_theory(at_least_m and exists),
        f"{len(fitting_groupings)} groupings",
        note=note,
        table=table,
    )
