"""FedSampling's slides on sampling: the two client-sampling pairs, FedOpt's mean, examples drawn uniformly.

Three clients with 1, 3 and 2 examples and two participants, or the shards {0} and {1, 2, 3} with rate 1/2:
every cohort or sample is listed with its probability. (The size estimator and its epsilon are in other parts.)
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import chain, combinations, product
from math import comb

import pandas as pd

from companion.claims.registry import Claim, Evidence, claim, judge_theory
from fedstas import theory

SIZES, PARTICIPANTS = (1, 3, 2), 2
SHARDS = ((0,), (1, 2, 3))  # the scalar gradients of two clients' examples
EXPECTED_EXAMPLES = 2  # K, the number of examples drawn on average
RATE = Fraction(EXPECTED_EXAMPLES, sum(map(len, SHARDS)))


def designs(
    sizes=SIZES, m: int = PARTICIPANTS
) -> dict[str, list[tuple[tuple[int, ...], Fraction]]]:
    """List every cohort, with its probability, of three ways to draw m clients."""
    omega = [Fraction(k, sum(sizes)) for k in sizes]
    pairs = list(combinations(range(len(sizes)), m))
    return {
        "uniform": [(c, Fraction(1, len(pairs))) for c in pairs],
        "weighted, with replacement": list(theory.samples_with_replacement(omega, m)),
        "weighted, without": list(theory.successive_samples(omega, m)),
    }


def expected_weights(cohorts, weight, clients: int) -> list[Fraction]:
    """Return each client's expected aggregation weight, if client i has `weight(i)` in every cohort that it is in."""
    outcomes = ((members, [weight(i) for i in members], chance) for members, chance in cohorts)
    return theory.expected_weights(clients, outcomes)


def by_size(i: int, sizes=SIZES) -> Fraction:
    """Return client i's share of all examples."""
    return Fraction(sizes[i], sum(sizes))


def equally(i: int, sizes=SIZES) -> Fraction:
    """Return 1/M, with M the number of clients."""
    return Fraction(1, len(sizes))


def _pair(name: str, weight: Callable, participants: int, others: tuple = ()) -> Evidence:
    """Check whether a way to draw clients, with these aggregation weights, gives each client its share on average.

    Args:
        name: the way to draw, a key of `designs`.
        weight: the aggregation weight of a drawn client.
        participants: the number of draws.
        others: further ways to draw, for the table.
    """
    omega, m = [by_size(i) for i in range(len(SIZES))], participants
    factor = Fraction(len(SIZES), m)
    mean_weights = {
        x: expected_weights(designs(m=m)[x], weight, len(SIZES)) for x in (name, *others)
    }
    rows = [{"draw": "(wanted)", **{f"n = {k}": str(w) for k, w in zip(SIZES, omega, strict=True)}}]
    rows += [
        {"draw": x, **{f"n = {k}": str(w) for k, w in zip(SIZES, y, strict=True)}}
        for x, y in mean_weights.items()
    ]
    unbiased_if_scaled = [factor * w for w in mean_weights[name]] == omega
    ratios = {x: {a / b for a, b in zip(omega, y, strict=True)} for x, y in mean_weights.items()}
    note = f"Times the clients over the participants, here {factor}, weights sum to 1 on average and the update is unbiased."
    if any(len(ratios[x]) > 1 for x in others):
        note += " Drawn without replacement, one after another, no factor makes it so."
    ours = f"sum of the expected weights {sum(mean_weights[name])}"
    return Evidence(
        judge_theory(mean_weights[name] == omega, unbiased_if_scaled),
        ours,
        note=note,
        table=pd.DataFrame(rows),
    )


@claim(
    "slides-uniform-clients",
    paper="slides",
    place="Client Sampling, uniform",
    kind="theory",
    statement="Clients drawn uniformly, with aggregation weights n_i over the total, give the "
    "data-weighted update.",
    printed="p = 1/M, w = n_i/N",
    chapter="04g_clustered#what-do-the-slides-say-about-sampling",
    meaning="it would have to be 1",
    order=80,
)
def uniform_pair(
    claim: Claim, *, participants: int = PARTICIPANTS, weight: Callable = by_size
) -> Evidence:
    """Check uniform draws with aggregation weights n_i over the total."""
    return _pair("uniform", weight, participants)


@claim(
    "slides-weighted-clients",
    paper="slides",
    place="Client Sampling, weighted",
    kind="theory",
    statement="Clients drawn with probability n_i over the total, with aggregation weights 1/M, give "
    "the data-weighted update.",
    printed="p = n_i/N, w = 1/M",
    chapter="04g_clustered#what-do-the-slides-say-about-sampling",
    meaning="it would have to be 1",
    order=90,
)
def weighted_pair(
    claim: Claim, *, participants: int = PARTICIPANTS, weight: Callable = equally
) -> Evidence:
    """Check draws by size with aggregation weights 1/M."""
    return _pair("weighted, with replacement", weight, participants, ("weighted, without",))


@claim(
    "slides-fedopt-mean",
    paper="slides",
    place="Algorithm 1 (FedOpt), line 9",
    kind="theory",
    statement="The plain mean of the participants' updates estimates the data-weighted update.",
    printed="1/|S|",
    chapter="04g_clustered#what-do-the-slides-say-about-sampling",
    meaning="only, of three ways to draw",
    order=50,
)
def fedopt_mean(
    claim: Claim, *, sizes: tuple = SIZES, weight: Fraction = Fraction(1, PARTICIPANTS)
) -> Evidence:
    """Check line 9's plain mean over the participants (each with `weight`), under each way to draw them."""
    rows, unbiased, unbiased_if_equal = [], {}, True
    for case_sizes in (sizes, (2, 2, 2)):
        omega = [Fraction(k, sum(case_sizes)) for k in case_sizes]
        for name, cohorts in designs(case_sizes).items():
            mean_weights = expected_weights(cohorts, lambda i: weight, 3)
            rows.append(
                {
                    "n": str(case_sizes),
                    "draw": name,
                    "wanted": ", ".join(map(str, omega)),
                    "expected": ", ".join(map(str, mean_weights)),
                }
            )
            if case_sizes == sizes:
                unbiased[name] = mean_weights == omega
            else:
                unbiased_if_equal &= mean_weights == omega
    note = "Draws by size with replacement, or equal sizes; uniform draws give every client the weight 1/M."
    ours = "right for " + (", ".join(x for x in unbiased if unbiased[x]) or "none")
    by_size_or_equal = unbiased["weighted, with replacement"] and unbiased_if_equal
    verdict = judge_theory(all(unbiased.values()), by_size_or_equal)
    return Evidence(verdict, ours, note=note, table=pd.DataFrame(rows))


def samples(shards=SHARDS):
    """Yield every Bernoulli sample of the shards: (drawn values per client, probability)."""
    for selected in product((False, True), repeat=sum(map(len, shards))):
        chance = Fraction(1)
        for is_selected in selected:
            chance *= RATE if is_selected else 1 - RATE
        flags = iter(selected)
        yield [[value for value in shard if next(flags)] for shard in shards], chance


def flat(sample_values) -> list[int]:
    """Return the drawn values of all clients as one list."""
    return list(chain.from_iterable(sample_values))


def _pooled(shards=SHARDS) -> Fraction:
    """Return the mean of all examples."""
    return Fraction(sum(map(sum, shards)), sum(map(len, shards)))


@claim(
    "slides-conclusion-uniform",
    paper="slides",
    place="Conclusion",
    kind="superiority",
    statement="FedSampling exploits all examples uniformly. (Whether it does so privately, another row "
    "decides.)",
    printed="uniform",
    chapter="04g_clustered#what-do-the-slides-say-about-sampling",
    meaning="of four, where K = 2",
    fact="uniform-examples",
    order=110,
)
@claim(
    "slides-uniform-examples",
    paper="slides",
    place="Uniform Data Sampling",
    kind="theory",
    statement="Keeping each example with probability K over the estimated total draws independent, "
    "identically likely examples.",
    printed="B(K/N)",
    chapter="04g_clustered#what-do-the-slides-say-about-sampling",
    meaning="of four, where K = 2",
    fact="uniform-examples",
    order=290,
)
def uniform_examples(
    claim: Claim, *, estimates: tuple = (4, 2, 1), norm: int = EXPECTED_EXAMPLES
) -> Evidence:
    """Check that all examples are equally likely, drawn pairwise independently, K on average, and that sum/K is unbiased.

    Args:
        estimates: of the total number of examples; the true number first.
        norm: what the sum is divided by, K by default.
    """
    values = [v for shard in SHARDS for v in shard]
    single = {v: sum(p for d, p in samples() if v in flat(d)) for v in values}
    both = {
        (a, b): sum(p for d, p in samples() if {a, b} <= set(flat(d)))
        for a, b in combinations(values, 2)
    }
    count = sum(p * len(flat(d)) for d, p in samples())
    mean = sum(p * Fraction(sum(flat(d)), norm) for d, p in samples())
    independent = set(single.values()) == {RATE} and set(both.values()) == {RATE**2}
    holds = independent and count == EXPECTED_EXAMPLES and mean == _pooled()
    table = pd.DataFrame(
        {
            "example": [f"{v} (client {1 + (v > 0)})" for v in values],
            "P(drawn)": [str(single[v]) for v in values],
            "P(drawn with 3)": [str(both.get((v, 3), single[3])) for v in values],
        }
    )
    allowed = [0 < Fraction(EXPECTED_EXAMPLES, estimate) <= 1 for estimate in estimates]
    note = "Given an estimate of at least K: below it K/N is no probability and needs a guard. The sum of the drawn gradients over K is unbiased."
    return Evidence(
        judge_theory(holds and all(allowed), holds and allowed[0]),
        f"P = {RATE} for every example",
        note=note,
        table=table,
    )


def _are_drawn_independently(cohorts, owner: list[int]) -> tuple[bool, Fraction, Fraction]:
    """Return whether all examples are drawn pairwise independently with one probability, and two numbers for the table.

    These are P(both) and P(first) P(second) of the last two examples. `owner` has the client of each example.
    """
    one = [sum(p for c, p in cohorts if k in c) for k in owner]
    both = {
        (a, b): sum(p for c, p in cohorts if {owner[a], owner[b]} <= set(c))
        for a, b in combinations(range(len(owner)), 2)
    }
    independent = all(q == one[a] * one[b] for (a, b), q in both.items())
    a, b = len(owner) - 2, len(owner) - 1
    return independent and len(set(one)) == 1, both[a, b], one[a] * one[b]


# The slides' two ways to draw clients, with the aggregation weight of each.
PAIRS = {"uniform": by_size, "weighted, with replacement": equally}


@claim(
    "slides-client-sampling-not-uniform",
    paper="slides",
    place="Challenges",
    kind="theory",
    statement="With client sampling it is difficult to exploit the decentralised examples uniformly.",
    printed="difficult to uniformly exploit",
    chapter="04g_clustered#what-do-the-slides-say-about-sampling",
    meaning="of clients and weights, for clients of 1 and 3 examples",
    order=60,
)
def hard_to_be_uniform(
    claim: Claim, *, sizes: tuple = (1, 3), participants: int = 1, pairs: dict = PAIRS
) -> Evidence:
    """Compute the expected share of each example under client sampling, and check whether examples are drawn independently."""
    rows, share_differs, dependent = [], [], []
    owner = [k for k, n in enumerate(sizes) for _ in range(n)]
    for name, weight in pairs.items():
        cohorts = designs(sizes, participants)[name]
        mean_weights = expected_weights(cohorts, lambda i: weight(i, sizes), len(sizes))  # noqa: B023
        share = [w / k for w, k in zip(mean_weights, sizes, strict=True)]
        independent, both, chance_product = _are_drawn_independently(cohorts, owner)
        inclusion = [str(sum(p for c, p in cohorts if k in c)) for k in range(len(sizes))]
        expected_share = ", ".join(map(str, share))
        rows.append((name, ", ".join(inclusion), expected_share, str(both), str(chance_product)))
        share_differs.append(len(set(share)) > 1)
        dependent.append(not independent)
    rows.append(("examples, rate 1/2", "1/2, 1/2", "1/4, 1/4", "1/4", "1/4"))
    columns = [
        "sampling",
        "P(in) of each client's",
        "expected share of each example",
        "P(the last two)",
        "if independent",
    ]
    note = (
        "If uniform means each example for itself. On average every example counts the same under both pairs; what client sampling "
        "cannot do is to draw the examples of one client independently."
    )
    ours = f"expected shares differ in {sum(share_differs)} of {len(pairs)} pairs, joint draws in {sum(dependent)}"
    verdict = judge_theory(all(share_differs), all(dependent))
    return Evidence(verdict, ours, note=note, table=pd.DataFrame(rows, columns=columns))


@claim(
    "slides-fixed-ratio",
    paper="slides",
    place="Privacy-Preserving Ratio Estimation",
    kind="theory",
    statement="Sampling at a fixed ratio without any size leaks sizes or biases the update.",
    printed="privacy leakage or … biased model update",
    chapter="04g_clustered#what-do-the-slides-say-about-sampling",
    meaning="for clients of 1 and 3 examples",
    order=260,
)
def fixed_ratio(claim: Claim, *, shards: tuple = SHARDS, secure: bool = True) -> Evidence:
    """Check whether sampling at rate 1/2 without any size reveals sizes or is biased.

    The server weighs the clients' means by the counts that it sees, or equally.

    Args:
        shards: the scalar gradients of two clients' examples.
        secure: whether secure aggregation, where the server sees sums over all clients only, is counted as a way out.
    """
    nonempty = [(d, p) for d, p in samples(shards) if flat(d)]
    mass = sum(p for _, p in nonempty)
    by_count = sum(p * Fraction(sum(flat(d)), len(flat(d))) for d, p in nonempty) / mass
    means = [([Fraction(sum(x), len(x)) for x in d if x], p) for d, p in nonempty]
    plain = sum(p * sum(x) / len(x) for x, p in means) / mass
    smaller, larger = sorted(map(len, shards))
    count_law = {
        n: [comb(n, c) * RATE**c * (1 - RATE) ** (n - c) for c in range(4)]
        for n in (smaller, larger)
    }
    leaks = count_law[larger] != count_law[smaller]
    biased, unbiased = plain != _pooled(shards), by_count == _pooled(shards)
    pooled = str(_pooled(shards))
    chance_of_two = f"{count_law[smaller][2]} / {count_law[larger][2]}"
    rows = [
        ("each client's drawn examples", str(by_count), pooled, chance_of_two),
        ("each client's mean, not the count", str(plain), pooled, "not seen"),
        ("sums over all clients only", str(by_count), pooled, "not seen"),
    ]
    columns = [
        "the server sees",
        "mean of the update",
        "wanted",
        f"P(count 2) with {smaller} / {larger} examples",
    ]
    table = pd.DataFrame(rows, columns=columns)
    note = (
        "If clients report on their own: a count tells a size, equal weights are biased. Sums under secure aggregation are unbiased "
        "and show no client's count, only the total."
    )
    secure_escapes = secure and unbiased  # the third row: unbiased, and no client's count is seen
    verdict = judge_theory(leaks and biased and not secure_escapes, leaks and biased and unbiased)
    return Evidence(
        verdict,
        f"mean {plain} instead of {_pooled(shards)} with equal weights",
        note=note,
        table=table,
    )
