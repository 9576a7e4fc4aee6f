"""Clustered sampling, the sentences: heavy clients, costs, zero updates, and the numbers of Section 6."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pandas as pd

from companion.claims.evidence.clusters_algorithms import (
    algorithm_1_inputs,
    algorithm_2_inputs,
    count_certain_rows,
    format_groups,
    format_lists,
    sum_of_variances,
)
from companion.claims.registry import Claim, Evidence, claim, judge_theory
from fedstas import clustered, theory
from fedstas.sim.rng import stream
from fedstas.state import new_state


@claim(
    "clustered-heavy-clients",
    paper="clustered",
    place="Sec. 5, end",
    kind="theory",
    statement="With floor(m p_i) distributions of its own for a client with p_i >= 1/m, Algorithm 2 "
    "works for all federations.",
    printed="floor(m n_i/M)",
    chapter="04g_clustered#what-do-the-sentences-promise",
    meaning="for which it works",
    order=210,
)
def heavy_clients(claim: Claim, *, scheme: Callable = clustered.counts_by_groups) -> Evidence:
    """Check that Algorithm 2 (`scheme`) gives a client with p_i >= 1/m floor(m p_i) rows of its own and stays unbiased."""
    checks = []
    for n, m in algorithm_1_inputs():
        if m * n[0] >= sum(n):
            counts = np.array(scheme(n, [[i] for i in range(len(n))], m)).tolist()
            has_own_rows = all(
                own_rows >= m * size // sum(n)
                for own_rows, size in zip(count_certain_rows(counts), n, strict=True)
            )
            checks.append(theory.satisfies_proposition_1(counts, n, m) and has_own_rows)
    # The example has 10 examples and two draws, so that the weights are column sums of counts over 20.
    sizes, groups = [7, 1, 1, 1], [[0], [1, 2, 3]]
    without = theory.weight_moments(theory.groups_as_rows(sizes, groups)).mean
    row_counts = clustered.counts_by_groups(sizes, groups, 2)
    table = pd.DataFrame(
        {
            "n": sizes,
            "p": [str(Fraction(k, 10)) for k in sizes],
            "weight without the step": map(str, without),
            "weight with it": [str(Fraction(int(x), 20)) for x in row_counts.sum(0)],
        }
    )
    note = "The step is needed: a client above a row that simply becomes a row loses weight."
    ours = f"{sum(checks)} of {len(checks)} federations with p_i ≥ 1/m"
    return Evidence(judge_theory(all(checks)), ours, note=note, table=table)


@claim(
    "clustered-theorem-4-cost",
    paper="clustered",
    place="Theorem 4; App. C.2",
    kind="theory",
    statement="Algorithm 2 takes O(n^2 d + X) operations, and O(n m d + X) when only m updates have "
    "changed.",
    printed="O(n² d + X)",
    chapter="04g_clustered#do-the-printed-algorithms-make-such-rows",
    meaning="whose rows have no more entries than the bound",
    order=440,
)
def algorithm_2_cost(claim: Claim, *, scheme: Callable = clustered.counts_by_groups) -> Evidence:
    """Count the entries of Algorithm 2's rows (`scheme`), and tabulate the pairs of clients that it compares."""
    checks = [
        (np.array(scheme(n, g, m)) > 0).sum() <= len(n) + m - 1 for n, g, m in algorithm_2_inputs()
    ]
    rows = []
    for n, m in ((10, 2), (30, 2)):
        pairs = list(combinations(range(n), 2))
        new = sum(i < m for i, _ in pairs)  # pairs of a client among the first m
        rows.append(
            {
                "n": n,
                "m": m,
                "pairs": len(pairs),
                "n²": n * n,
                "with a new update": new,
                "n m": n * m,
            }
        )
    note = (
        "Counted are the entries of the rows, at most n + m - 1, one step for each. The clustering compares n(n-1)/2 pairs at "
        "first, and m(n-1) - m(m-1)/2 after m new updates, with d operations for a pair; X is its own cost (Ward: "
        "O(n^2 log n), cited)."
    )
    return Evidence(
        judge_theory(all(checks)),
        f"{sum(checks)} of {len(checks)} inputs",
        note=note,
        table=pd.DataFrame(rows),
    )


@claim(
    "clustered-zero-updates",
    paper="clustered",
    place="Sec. 5",
    kind="theory",
    statement="Clients that have not taken part are grouped together if their representative gradient "
    "is set to 0.",
    printed="group them together",
    chapter="04g_clustered#what-do-the-sentences-promise",
    meaning="are the measures that group these clients",
    order=200,
)
def zero_updates(
    claim: Claim, *, measures: tuple = tuple(clustered.MEASURES), other: tuple = (0, 0)
) -> Evidence:
    """Check which similarity measures group clients whose update is zero.

    Of four equal clients 2 and 4 have the update zero, unless `other` is given for client 4; a row has room for two.
    """
    updates, rows, together = [[1, 0], [0, 0], [0, 1], list(other)], [], {}
    for measure in measures:
        groups = clustered.similarity_groups(updates, [1] * 4, 2, measure)
        together[measure] = [1, 3] in groups
        rows.append({"similarity": measure, "groups": format_groups(groups)})
    note = (
        "With L1 and L2, as far as a row has room. The angle with a zero update is not defined; set to 0, the client is as "
        "near to everybody as to the other zeros."
    )
    ours = "together with " + (", ".join(x for x in together if together[x]) or "none")
    word = judge_theory(all(together.values()), all(together.get(x, False) for x in ("L1", "L2")))
    return Evidence(word, ours, note=note, table=pd.DataFrame(rows))


@claim(
    "clustered-intro-algorithm-2-variance",
    paper="clustered",
    place="Sec. 1",
    kind="superiority",
    statement="Grouping by similarity further reduces the variance of the clients' aggregation weights, "
    "as compared to MD sampling.",
    printed="further reduces the variance … as compared to MD sampling",
    chapter="04g_clustered#what-do-the-sentences-promise",
    meaning="by the sum of the weights' variances",
    order=40,
)
def further_variance(claim: Claim, *, scheme: Callable = clustered.counts_by_groups) -> Evidence:
    """Compare the weight variances of Algorithm 2 (`scheme`) with MD's: no weight may vary more, and their sum must be less.

    The table compares with Algorithm 1 too, of which the paper's sentence says nothing.
    """
    none_larger, smaller, worse_than_algorithm_1 = [], [], []
    for n, groups, m in algorithm_2_inputs():
        by_md = theory.weight_variances(theory.md_rows(n, m))
        by_algorithm_2 = theory.weight_variances(theory.normalise_rows(scheme(n, groups, m)))
        none_larger.append(all(a <= b for a, b in zip(by_algorithm_2, by_md, strict=True)))
        smaller.append(none_larger[-1] and sum(by_algorithm_2) < sum(by_md))
        sums = {
            "MD": sum(by_md),
            "Algorithm 1": sum_of_variances(clustered.counts_by_size(n, m)),
            "Algorithm 2": sum(by_algorithm_2),
        }
        if sums["Algorithm 2"] > sums["Algorithm 1"]:
            worse_than_algorithm_1.append((n, groups, m, sums))
    table = pd.DataFrame()
    if worse_than_algorithm_1:  # the smallest of them is the example

        def size_of(case: tuple) -> tuple:
            """Return examples, clients and draws of a case, by which cases are compared."""
            n, _, m, _ = case
            return sum(n), len(n), m

        n, groups, m, sums = min(worse_than_algorithm_1, key=size_of)
        table = pd.DataFrame(
            {
                "scheme": list(sums),
                "n": [format_lists([n])] * 3,
                "m": [m] * 3,
                "groups": ["", "", format_groups(groups)],
                "sum of variances": map(str, sums.values()),
            }
        )
    note = (
        "Compared with MD sampling, as the sentence says; with more than one draw. Compared with Algorithm 1 the sum is larger in "
        f"{len(worse_than_algorithm_1)} of {len(smaller)} groupings: that depends on who must be split, and what similarity lowers is the variance of the "
        "aggregate."
    )
    ours = f"below MD in {sum(smaller)} of {len(smaller)} groupings"
    return Evidence(judge_theory(all(smaller), all(none_larger)), ours, note=note, table=table)


def both_rows(n, groups, m):
    """Return the rows of Algorithm 1 and of Algorithm 2."""
    return [
        theory.normalise_rows(clustered.counts_by_size(n, m)),
        theory.normalise_rows(clustered.counts_by_groups(n, groups, m)),
    ]


@claim(
    "clustered-conclusion-both",
    paper="clustered",
    place="Sec. 7",
    kind="superiority",
    statement="Both algorithms give smaller weight variances and better representativity than MD "
    "sampling.",
    printed="smaller; better",
    chapter="04g_clustered#what-are-the-weights-exactly",
    meaning="by the variance of the weight and by the chance to take part",
    order=350,
)
def both_smaller(
    claim: Claim, *, inputs: list | None = None, schemes: Callable = both_rows
) -> Evidence:
    """Compare each client's variance and inclusion probability under both algorithms (`schemes`) with MD's."""
    not_worse, better = [], []
    for n, groups, m in inputs or algorithm_2_inputs():
        md = theory.md_rows(n, m)
        for rows in schemes(n, groups, m):
            variances = zip(theory.weight_variances(md), theory.weight_variances(rows), strict=True)
            inclusions = zip(theory.row_inclusion(md), theory.row_inclusion(rows), strict=True)
            for (v_md, v), (p_md, p) in zip(variances, inclusions, strict=True):
                not_worse.append(v <= v_md and p >= p_md)
                better.append(v < v_md and p > p_md)
    note = "Never larger; smaller unless a client has the same share p_i of every row (with m = 1 all have)."
    ours = f"not larger {sum(not_worse)}, smaller {sum(better)}, of {len(not_worse)} clients"
    return Evidence(judge_theory(all(better), all(not_worse)), ours, note=note)


@claim(
    "clustered-abstract-no-extra-work",
    paper="clustered",
    place="Abstract; Sec. 5",
    kind="superiority",
    statement="Neither algorithm asks anything more of the clients than MD sampling does.",
    printed="does not require any additional operation",
    chapter="04g_clustered#what-do-the-sentences-promise",
    meaning="are all that the server of either algorithm needs",
    order=30,
)
def no_extra_messages(claim: Claim, *, design: Callable = clustered.Clustered) -> Evidence:
    """Run a design against a server that offers only sizes and known updates, and refuses gradients and labels."""
    rows = []
    for groups in ("size", "similarity"):
        requests = []

        class Server(SimpleNamespace):
            """A server that has its fields only, and records whatever else is requested."""

            def __getattr__(self, name):
                requests.append(name)  # noqa: B023
                raise AttributeError(name)

        view = Server(clients=4, sizes=np.array([3, 2, 2, 1]), last_updates=lambda: np.eye(4))
        view.round, view.state_of = 1, new_state  # neither is requested from a client
        try:
            cohort = design(groups).draw(view, 2, stream(0, "evidence, clustered"))
            algorithm = 1 if groups == "size" else 2
            rows.append((algorithm, ", ".join(requests) or "nothing", len(cohort.clients)))
        except AttributeError as error:
            rows.append((groups, str(error), 0))
    columns = ["algorithm", "asks besides sizes and old updates for", "participants"]
    table = pd.DataFrame(rows, columns=columns)
    good = (table[columns[1]] == "nothing").all() and (table["participants"] == 2).all()
    note = "The server keeps one update per client, n d numbers; nothing is asked of clients that do not take part."
    return Evidence(
        judge_theory(bool(good)), "sizes and the updates it already has", note=note, table=table
    )


@claim(
    "clustered-63-percent",
    paper="clustered",
    place="Sec. 6",
    kind="number",
    statement="Ten MD draws from 100 equal clients give ten different clients in 63 % of the rounds.",
    printed=63,
    chapter="04g_clustered#what-do-the-sentences-promise",
    meaning="% of the rounds, calculated",
    tolerance=0.5,
    order=310,
)
def distinct_clients(claim: Claim, *, printed: float = 63) -> Evidence:
    """Compute the probability that ten MD draws from 100 equal clients are all different; compare it with the printed one."""
    chance = theory.distinct_uniform_probabilities(100, 10)[10]
    ours = 100 * float(chance)
    table = pd.DataFrame(
        {"draws so far": range(10), "factor": [f"{100 - j}/100" for j in range(10)]}
    )
    good = round(ours) == round(float(claim.printed if claim else printed))
    note = f"100!/(90! 100^10) = {chance}; fewer than ten different clients in {100 - ours:.2f} % of the rounds."
    return Evidence(judge_theory(good), round(ours, 2), note=note, table=table)


@claim(
    "clustered-37-percent",
    paper="clustered",
    place="Sec. 6",
    kind="number",
    statement="In 37 % of the rounds MD sampling aggregates fewer than ten different clients.",
    printed=37,
    chapter="04g_clustered#what-do-the-sentences-promise",
    meaning="% of the rounds, calculated",
    tolerance=0.5,
    order=220,
)
def repeated_clients(claim: Claim, *, printed: float = 37) -> Evidence:
    """Compute the probability that ten MD draws from 100 equal clients repeat one; compare it with the printed one."""
    ours = 100 * float(1 - theory.distinct_uniform_probabilities(100, 10)[10])
    good = round(ours) == round(float(claim.printed if claim else printed))
    return Evidence(judge_theory(good), round(ours, 2), note="The complement of 100!/(90! 100^10).")


@claim(
    "clustered-6-to-8-digits",
    paper="clustered",
    place="Sec. 6",
    kind="number",
    statement="With one digit per client, MD sampling generally draws between 6 and 8 different digits.",
    printed="6 to 8",
    chapter="04g_clustered#what-do-the-sentences-promise",
    meaning="% of the rounds have 6 to 8 digits, calculated",
    fact="md-digits",
    order=300,
)
def six_to_eight(claim: Claim, *, draws: int = 10) -> Evidence:
    """Compute the distribution of distinct digits in ten uniform draws from ten digits, one digit per client."""
    p = theory.distinct_uniform_probabilities(10, draws)
    inside, mean = sum(p[6:9]), sum(j * x for j, x in enumerate(p))
    table = pd.DataFrame(
        {"digits": range(4, len(p)), "probability (%)": [f"{100 * float(x):.3f}" for x in p[4:]]}
    )
    note = f"Mean {float(mean):.3f} digits; all {len(p) - 1} with {100 * float(p[-1]):.3f} %."
    return Evidence(
        judge_theory(inside > Fraction(1, 2) and 6 <= mean <= 8),
        round(100 * float(inside), 2),
        note=note,
        table=table,
    )


@claim(
    "clustered-ten-different",
    paper="clustered",
    place="Sec. 6",
    kind="theory",
    statement="With 100 equal clients and m = 10 clustered sampling always aggregates ten different "
    "clients.",
    printed=10,
    chapter="04g_clustered#what-do-the-sentences-promise",
    meaning="in a cohort",
    fact="ten-clients",
    order=340,
)
def ten_different(claim: Claim, *, m: int = 10) -> Evidence:
    """Check that ten draws from 100 equal clients are all different under clustered sampling, whatever the groups.

    Eight draws are shown for contrast.
    """
    rng, rows, checks = stream(0, "evidence, clustered"), [], []
    for _ in range(20):
        order = rng.permutation(100)
        cuts = np.sort(rng.choice(np.arange(1, 100), 40, replace=False))
        clients_per_row = 100 // m
        parts = np.split(order, cuts)
        groups = [part.tolist() for part in parts if len(part) <= clients_per_row]
        groups += [[int(i)] for part in parts if len(part) > clients_per_row for i in part]
        checks.append(((clustered.counts_by_groups([5] * 100, groups, m) > 0).sum(0) == 1).all())
    for draws in (m, 8):
        rows_of_client = (clustered.counts_by_size([5] * 100, draws) > 0).sum(0)
        rows.append(
            {
                "n": 100,
                "m": draws,
                "clients in one row": int((rows_of_client == 1).sum()),
                "in two": int((rows_of_client == 2).sum()),
            }
        )
    good = rows[0]["clients in one row"] == 100 and all(checks)
    note = "For equal clients and m that divides n; with m = 8 a few clients stand in two rows and can be drawn twice."
    return Evidence(
        judge_theory(bool(good)),
        f"{m} different clients, always" if good else "some twice",
        note=note,
        table=pd.DataFrame(rows),
    )


@claim(
    "clustered-equal-variances",
    paper="clustered",
    place="Sec. 6",
    kind="theory",
    statement="With 100 equal clients all weights have the same variance under clustered sampling.",
    printed="identical",
    chapter="04g_clustered#what-do-the-sentences-promise",
    meaning="is the variance of every client's weight",
    order=330,
)
def equal_variances(claim: Claim, *, m: int = 10) -> Evidence:
    """Compute the variances that the weights of 100 equal clients have under Algorithm 1 and under MD."""
    clustered_variances = set(
        theory.weight_variances(theory.normalise_rows(clustered.counts_by_size([5] * 100, m)))
    )
    md_variances = set(theory.weight_variances(theory.md_rows([5] * 100, m)))
    table = pd.DataFrame(
        {
            "scheme": ["clustered", "MD"],
            "variance of every weight": [
                ", ".join(map(str, values)) for values in (clustered_variances, md_variances)
            ],
        }
    )
    note = "All are equal, and smaller than those under MD, which are equal, too."
    return Evidence(
        judge_theory(len(clustered_variances) == 1),
        str(*clustered_variances) if len(clustered_variances) == 1 else "different",
        note=note,
        table=table,
    )


def purity(a, classes: int = 10) -> Fraction:
    """Return E sum_c share_c^2 = (a + 1)/(C a + 1) for Dirichlet shares of C classes with parameter a each."""
    return (Fraction(a) + 1) / (classes * Fraction(a) + 1)


@claim(
    "clustered-dirichlet-limits",
    paper="clustered",
    place="Sec. 6",
    kind="theory",
    statement="A Dirichlet partition gives one class per client as alpha goes to 0 and equal shares as "
    "alpha grows.",
    printed="1 class; uniform",
    chapter="04g_clustered#what-do-the-sentences-promise",
    meaning="of the expected sum of squared class shares",
    order=320,
)
def dirichlet_limits(claim: Claim, *, purity: Callable = purity) -> Evidence:
    """Check the limits of the expected sum of squared shares: 1 for clients of one class, 1/C for clients that are alike."""
    rows = [
        {
            "alpha": x,
            "sum of squared shares, alpha per class": f"{float(purity(x)):.4f}",
            "alpha in all": f"{float(purity(Fraction(x) / 10)):.4f}",
        }
        for x in ("0.001", "0.01", "0.1", "10")
    ]
    good = 1 - purity("1e-9") < 1e-7 and purity("1e9") - Fraction(1, 10) < 1e-7
    note = "In the limits, whether alpha is the parameter of each class or of all ten together."
    return Evidence(judge_theory(good), "limits 1 and 1/10", note=note, table=pd.DataFrame(rows))
