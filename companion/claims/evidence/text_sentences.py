"""Sentences of the papers' text that calculation decides: local bias, what is optimised, what a server needs to know."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product
from math import log2
from types import SimpleNamespace

import numpy as np
import pandas as pd

from companion.claims.registry import Claim, Evidence, claim, judge_theory
from fedstas import clustered, theory
from fedstas.client_sampling import Uniform
from fedstas.independent import Poisson
from fedstas.sim.rng import stream
from fedstas.state import new_state

CENTRES = (0, 1)  # c_k of two clients of equal weight, F_k = a_k (w - c_k)^2 / 2
CURVATURES = (1, 4)  # a_k


def weighted_centre(pulls) -> Fraction:
    """Return the model that the clients leave unchanged on average, if client k moves it by pull_k (c_k - w)."""
    pulls = [Fraction(pull) for pull in pulls]
    return sum((g * c for g, c in zip(pulls, CENTRES, strict=True)), Fraction(0)) / sum(pulls)


@claim(
    "preprint-1-fedprox-bias",
    paper="preprint",
    place="Sec. 1",
    kind="theory",
    statement="FedProx's proximal term addresses the bias that FedAvg introduces. (Read as: where every "
    "client takes part and works until it converges, the model stops at the optimum.)",
    printed="addressing the bias",
    chapter="04f_convergence#what-do-local-steps-change",
    meaning="from the optimum, where FedAvg stops and where FedProx does for ever larger mu",
    order=35,
)
def fedprox_bias(
    claim: Claim, *, curvatures: tuple = CURVATURES, prox: tuple = (0, 1, 10, 100)
) -> Evidence:
    """Compute how far from the optimum two clients stop that minimise F_k + mu/2 |w - w_t|^2, for each mu in `prox`.

    A client of curvature a moves by a/(a + mu) of its way, and the whole way without the term.
    """
    optimum = weighted_centre(curvatures)
    stops = [weighted_centre(Fraction(a, a + mu) for a in curvatures) for mu in prox]
    biases = [abs(stop - optimum) for stop in stops]
    falls = all(after < before for before, after in pairwise(biases))
    table = pd.DataFrame(
        {
            "mu": prox,
            "stops at": map(str, stops),
            "optimum": str(optimum),
            "off by": map(str, biases),
        }
    )
    note = (
        "If less bias is meant: it falls as mu grows, and is zero for no mu. The bias of drawing some clients stays as it "
        "is, since the term changes neither who is drawn nor the weights."
    )
    ours = ", ".join(f"{float(bias):.3f}" for bias in biases)
    return Evidence(judge_theory(not any(biases), falls), ours, note=note, table=table)


@claim(
    "clustered-2.3-equal-steps",
    paper="clustered",
    place="Sec. 2.3",
    kind="theory",
    statement="A surrogate loss is avoided if the server asks every client for the same number of local "
    "steps.",
    printed="the same amount of SGD steps",
    chapter="04f_convergence#what-do-local-steps-change",
    meaning="of equal numbers of local steps at which two clients of unequal curvature stop at the optimum",
    order=75,
)
def equal_steps(
    claim: Claim, *, curvatures: tuple = CURVATURES, steps: tuple = (1, 5, 20)
) -> Evidence:
    """Compute where two clients stop that take gradient steps of 1/10: equally many, and one and three."""
    optimum, rows = weighted_centre(curvatures), []
    for counts in (*((n, n) for n in steps), (1, 3)):
        pulls = (
            1 - (1 - Fraction(a, 10)) ** count for a, count in zip(curvatures, counts, strict=True)
        )
        rows.append((*counts, weighted_centre(pulls)))
    exact = [stop == optimum for *_, stop in rows]
    table = pd.DataFrame(
        [(a, b, f"{float(stop):.4f}", f"{float(optimum):.4f}") for a, b, stop in rows],
        columns=["steps of client 1", "of client 2", "stops at", "optimum"],
    )
    note = (
        "With one step each, or clients of equal curvature, or a step size that goes to zero. With several steps of a fixed "
        "size clients that curve differently stop beside the optimum, if all take equally many, too; with unequal numbers "
        "they do even where the curvatures are equal."
    )
    verdict = judge_theory(all(exact[:-1]) and not exact[-1], any(exact[:-1]) and not exact[-1])
    return Evidence(verdict, f"{sum(exact[:-1])} of {len(steps)}", note=note, table=table)


def two_stage_variance(participants, examples, between, within) -> Fraction:
    """Return sum_h W_h^2 (S_h^2 + s_h^2 / n_h) / m_h for strata of equal weight W_h: a mean of m_h clients, n_h examples each."""
    weight = Fraction(1, len(participants)) ** 2
    parts = zip(participants, examples, between, within, strict=True)
    return sum((weight * (b + Fraction(w, n)) / m for m, n, b, w in parts), Fraction(0))


@claim(
    "journal-1-jointly",
    paper="journal",
    place="Sec. 1; Sec. 5",
    kind="superiority",
    statement="Unlike prior work, FedSTaS jointly optimises client selection and data sampling. (Read "
    "as: no other choice of both, at the same number of examples, has a smaller variance.)",
    printed="jointly optimizes",
    chapter="04b_variance#does-neyman-allocation-lower-it",
    meaning="is the variance of FedSTaS's choice, then the least one",
    order=55,
)
def jointly(claim: Claim, *, between: tuple = (1, 1), within: tuple = (0, 16)) -> Evidence:
    """Compare FedSTaS's choice with the best one in two strata, for four clients and eight examples.

    FedSTaS allocates clients by the variances between them (eq. 3.5), and draws examples at one rate.

    Args:
        between: S_h^2, the variance between clients of a stratum.
        within: s_h^2, the variance between examples of a client.
    """
    clients, budget = 4, 8
    choices = {
        (m, n): two_stage_variance(m, n, between, within)
        for m in [(k, clients - k) for k in range(1, clients)]
        for n in product(range(1, budget + 1), repeat=2)
        if m[0] * n[0] + m[1] * n[1] <= budget
    }
    best = min(choices, key=choices.__getitem__)
    rate = budget // clients
    # Neyman allocation over the strata, of equal weight, with a client from each at least.
    first_deviation, second_deviation = (variance**0.5 for variance in between)
    quota = clients * first_deviation / (first_deviation + second_deviation)
    first = min(max(round(quota), 1), clients - 1)
    theirs = ((first, clients - first), (rate, rate))
    rows = [
        (name, str(m), str(n), str(choices[m, n]))
        for name, (m, n) in (("FedSTaS", theirs), ("best of all", best))
    ]
    table = pd.DataFrame(rows, columns=["choice", "clients", "examples of each", "variance"])
    note = (
        "Each is chosen without regard to the other: eq. 3.5 knows nothing of the examples that a client will draw, and "
        "the rate n*/n nothing of strata. Two strata whose clients vary alike, of which only the second's examples vary."
    )
    ours = f"{choices[theirs]} against {choices[best]}"
    return Evidence(judge_theory(choices[theirs] == choices[best]), ours, note=note, table=table)


def by_shard_size(shards) -> list[Fraction]:
    """Return each client's share of all examples."""
    return [Fraction(len(shard), sum(map(len, shards))) for shard in shards]


def alike(shards) -> list[Fraction]:
    """Return one weight for all clients."""
    return [Fraction(1, len(shards))] * len(shards)


LOCAL_WEIGHTS = {"n_k/n": by_shard_size, "1/N": alike}


@claim(
    "journal-4-local-bias",
    paper="journal",
    place="Sec. 1; Sec. 4",
    kind="theory",
    statement="Random sampling by each client from its own data introduces bias, in particular where "
    "clients differ in size and distribution.",
    printed="can introduce bias",
    chapter="04d_covariance#do-larger-clients-contribute-no-more",
    meaning="of clients' means are biased, for clients of 1 and 3 examples",
    order=125,
)
def local_bias(
    claim: Claim, *, shards: tuple = ((0,), (1, 2, 3)), weights: dict = LOCAL_WEIGHTS
) -> Evidence:
    """Compute the mean of the aggregate if each client draws one of its examples uniformly, by the weights of clients."""
    pooled = Fraction(sum(map(sum, shards)), sum(map(len, shards)))
    rows = []
    for name, weigh in weights.items():
        draws = list(product(*shards))
        means = (sum(w * x for w, x in zip(weigh(shards), draw, strict=True)) for draw in draws)
        rows.append((name, sum(means, Fraction(0)) / len(draws)))
    biased = [mean != pooled for _, mean in rows]
    table = pd.DataFrame(
        [(name, str(mean), str(pooled)) for name, mean in rows],
        columns=["weight of a client", "mean of the aggregate", "mean of all examples"],
    )
    note = (
        "If clients are averaged without regard to their sizes. It is the weights that are biased, and not the draws: with "
        "n_k/n, the weights of eq. 2.1, equally large samples are unbiased however sizes and distributions differ."
    )
    ours = f"{sum(biased)} of {len(biased)} ways to weight"
    return Evidence(judge_theory(all(biased), any(biased)), ours, note=note, table=table)


class BareServer(SimpleNamespace):
    """A server that has its fields only; to ask it for anything else is an `AttributeError` that names it."""


def bare_server(**known) -> BareServer:
    """Return a server of four clients of unequal sizes that knows these things besides."""
    sizes = np.array([3, 2, 2, 1])
    view = BareServer(clients=4, sizes=sizes, total=int(sizes.sum()), **known)
    view.round, view.state_of = 1, new_state  # neither is requested from a client
    return view


def asks_nothing(design) -> tuple[bool, str]:
    """Return whether a design draws two of four clients from a server that knows sizes alone, and what it lacks."""
    try:
        design.draw(bare_server(), 2, stream(0, "evidence, sentences"))
    except AttributeError as error:
        return False, str(error).rpartition("'")[0].rpartition("'")[2]
    return True, "nothing"


OTHER_DESIGNS = {
    "uniform clients, weights (N/m) n_k/n on updates": Uniform("expansion"),
    "each client by its own coin (Poisson)": Poisson(),
    "clustered by size (their Algorithm 1)": clustered.Clustered("size"),
}


@claim(
    "clustered-2.4-only-two",
    paper="clustered",
    place="Sec. 1; Sec. 2.4",
    kind="superiority",
    statement="FedAvg and MD sampling are the only schemes that ask the clients for a minimum of work and "
    "communication. (The paper adds: to the best of our knowledge.)",
    printed="the only schemes",
    chapter="04g_clustered#what-do-the-sentences-promise",
    meaning="other schemes ask no client but the drawn ones for anything, of those tried",
    order=78,
)
def only_two(claim: Claim, *, designs: dict = OTHER_DESIGNS) -> Evidence:
    """Run other designs against a server that knows clients' sizes alone, which FedAvg and MD sampling need, too."""
    rows = [(name, *asks_nothing(design)) for name, design in designs.items()]
    as_frugal = [name for name, frugal, _ in rows if frugal]
    table = pd.DataFrame(
        [(name, lacks) for name, _, lacks in rows], columns=["scheme", "asks besides sizes for"]
    )
    note = (
        "Schemes of survey sampling that need sizes alone are as frugal, and unbiased; the paper's own Algorithm 1 is "
        "one more. The model goes to the drawn clients only, and each makes the same local steps."
    )
    ours = f"{len(as_frugal)} of {len(designs)}"
    return Evidence(judge_theory(not as_frugal), ours, note=note, table=table)


@claim(
    "clustered-7-compatible",
    paper="clustered",
    place="Sec. 7",
    kind="superiority",
    statement="Clustered sampling is readily compatible with existing technologies for privacy and for "
    "fewer bytes. (Read as: secure aggregation, where the server sees sums of updates alone, and updates "
    "of one bit a number.)",
    printed="readily compatible",
    chapter="04g_clustered#what-do-the-sentences-promise",
    meaning="work unchanged",
    order=355,
)
def compatible(
    claim: Claim,
    *,
    algorithms: tuple = ("size", "similarity"),
    scheme: Callable = clustered.counts_by_groups,
) -> Evidence:
    """Run each algorithm without individual updates, and check that its rows stay unbiased on updates of one bit a number."""
    rows, n, m = [], [3, 2, 2, 1], 2
    updates = stream(1, "evidence, sentences").normal(size=(4, 8))
    for name in algorithms:
        works, lacks = asks_nothing(clustered.Clustered(name))
        rows.append((name, "secure aggregation", works, "" if works else f"needs {lacks}"))
        if name == "size":
            counts, why = clustered.counts_by_size(n, m), "asks for no update"
        else:
            counts = scheme(n, clustered.similarity_groups(np.sign(updates), n, m), m)
            why = "unbiased for any groups"
        good = theory.satisfies_proposition_1(np.array(counts).tolist(), n, m)
        rows.append((name, "one bit a number", good, why))
    table = pd.DataFrame(rows, columns=["clustered by", "technology", "works", "why"])
    good = table["works"].tolist()
    table["works"] = ["yes" if each else "no" for each in good]
    note = (
        "If clients are grouped by size. Grouped by similarity, the server compares the updates of single clients, which "
        "secure aggregation hides from it; compressed updates change the groups and never the expectation."
    )
    verdict = judge_theory(all(good), any(good) and good[0])
    return Evidence(verdict, f"{sum(good)} of {len(good)} pairs", note=note, table=table)


def cluster_by_chains(distances: np.ndarray) -> tuple[list[float], int]:
    """Cluster by Ward's method with nearest-neighbour chains (Müllner 2011, arXiv:1109.2378).

    Args:
        distances: of the points [n, n].

    Returns:
        The heights of the merges, ascending, and how many distances were read or written.
    """
    squared, n = distances.astype(float) ** 2, len(distances)
    np.fill_diagonal(squared, np.inf)
    active, sizes, chain, heights, touched = set(range(n)), [1] * n, [], [], 0
    while len(active) > 1:
        chain = chain or [min(active)]
        while True:
            here = chain[-1]
            others = [k for k in active if k != here]
            touched += len(others)
            previous = chain[-2] if len(chain) > 1 else None
            # Of equally near neighbours the previous one, so that the chain ends.
            nearest = min(others, key=lambda k: (squared[here, k], k != previous, k))
            if nearest == previous:
                break
            chain.append(nearest)
        a, b = chain.pop(), chain.pop()
        heights.append(float(squared[a, b]) ** 0.5)
        for k in active - {a, b}:  # the formula of Lance and Williams for Ward's method
            total = sizes[a] + sizes[b] + sizes[k]
            joined = (sizes[a] + sizes[k]) * squared[a, k] + (sizes[b] + sizes[k]) * squared[b, k]
            squared[b, k] = squared[k, b] = (joined - sizes[k] * squared[a, b]) / total
            touched += 1
        sizes[b] += sizes[a]
        active.remove(a)
    return sorted(heights), touched


@claim(
    "clustered-5-ward-cost",
    paper="clustered",
    place="Sec. 5",
    kind="theory",
    statement="Ward's hierarchical clustering of n clients has complexity O(n^2 log n).",
    printed="O(n² log n)",
    chapter="04g_clustered#do-the-printed-algorithms-make-such-rows",
    meaning="is the largest number of distances touched, as a share of n^2 log2 n",
    order=192,
)
def ward_cost(
    claim: Claim, *, cluster: Callable = cluster_by_chains, sizes: tuple = (8, 16, 32, 64)
) -> Evidence:
    """Count the distances that Ward's method touches (`cluster`), and check that its tree is scipy's."""
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import pdist, squareform

    rows, checks = [], []
    for n in sizes:
        distances = pdist(stream(n, "evidence, sentences").normal(size=(n, 3)))
        heights, touched = cluster(squareform(distances))
        bound = n * n * log2(n)
        same = np.allclose(heights, hierarchy.linkage(distances, "ward")[:, 2])
        checks.append(same and touched <= bound)
        rows.append((n, touched, round(bound), f"{touched / bound:.2f}"))
    table = pd.DataFrame(rows, columns=["n", "distances touched", "n² log2 n", "share"])
    note = (
        "Counted for random points; with nearest-neighbour chains Ward's method takes O(n^2) steps, which is within the "
        "printed bound (Müllner 2011, arXiv:1109.2378)."
    )
    return Evidence(
        judge_theory(all(checks)), max(float(row[3]) for row in rows), note=note, table=table
    )


@claim(
    "clustered-5-while-waiting",
    paper="clustered",
    place="Sec. 5",
    kind="theory",
    statement="The server can estimate the next partition while it waits for the clients' local work, so "
    "that Algorithm 2 takes no more time than MD sampling.",
    printed="equivalent to MD sampling",
    chapter="04g_clustered#do-the-printed-algorithms-make-such-rows",
    meaning="before and after the updates for which the server waits",
    order=194,
)
def while_waiting(
    claim: Claim,
    *,
    news: tuple = ((0, 1), (1, 0)),
    scheme: Callable = clustered.counts_by_groups,
) -> Evidence:
    """Compare the partition from the updates before a round with that after it, and check that the older is unbiased.

    Args:
        news: the updates that clients 1 and 4 send in the round; before it they are (1, 0) and (0, 1).
        scheme: makes counts of groups.
    """
    sizes, m = [1] * 4, 2
    before = [[1, 0], [1, 0], [0, 1], [0, 1]]
    after = [list(news[0]), *before[1:3], list(news[1])]
    groups = [clustered.similarity_groups(u, sizes, m) for u in (before, after)]
    counts = np.array(scheme(sizes, groups[0], m)).tolist()
    unbiased = theory.satisfies_proposition_1(counts, sizes, m)
    same = sorted(map(sorted, groups[0])) == sorted(map(sorted, groups[1]))
    ours = " and ".join(
        "; ".join(str(sorted(k + 1 for k in group)) for group in sorted(map(sorted, each)))
        for each in groups
    )
    table = pd.DataFrame(
        {
            "client": [1, 2, 3, 4],
            "update before": map(str, before),
            "update after": map(str, after),
        }
    )
    note = (
        "If the partition may be one round old: updates that arrive at its end cannot be in a partition that is made while they are "
        "computed. An older partition is as unbiased; the variance is that of the older updates."
    )
    return Evidence(judge_theory(unbiased and same, unbiased), ours, note=note, table=table)
