"""What p = n*/n means for the clients and for the pool of their examples (FedSTaS Sections 4.1, 5.2-5.3; FedSampling)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product

import pandas as pd

from companion.claims.registry import Claim, Evidence, claim, judge_theory
from fedstas.theory import covariances as cov


@claim(
    "journal-4.1-larger-clients",
    paper="journal",
    place="Sec. 4.1",
    kind="theory",
    statement="If each example is drawn with probability n*/n, clients with larger data sets do not "
    "contribute more training samples.",
    printed="do not contribute more",
    chapter="04d_covariance#do-larger-clients-contribute-no-more",
    meaning="are the expected examples of clients that hold 10, 30 and 60",
    order=140,
)
def larger_clients(claim: Claim, *, rate: Callable | None = None) -> Evidence:
    """Compare the expected examples of each client under p = n*/n (or `rate`, a function of its size)."""
    sizes, star = (10, 30, 60), 20
    rate = rate or (lambda size: Fraction(star, sum(sizes)))
    expected = [rate(k) * k for k in sizes]
    fixed = Fraction(star, len(sizes))
    rows = [
        {"n_k": k, "expected, n_k n*/n": str(e), "⌊n*/m⌋ instead": int(fixed)}
        for k, e in zip(sizes, expected, strict=True)
    ]
    same = len(set(expected)) == 1
    note = "With p = n*/n a client's expected share is n_k/n: larger clients contribute more."
    return Evidence(
        judge_theory(same), " : ".join(map(str, expected)), note=note, table=pd.DataFrame(rows)
    )


@claim(
    "journal-4.1-total",
    paper="journal",
    place="Sec. 4.1, p_k = n*/n",
    kind="theory",
    statement="Selecting each example with probability n*/n gives the desired sample size n*.",
    printed="n*",
    chapter="04d_covariance#do-larger-clients-contribute-no-more",
    meaning="examples are expected where n* = 2",
    order=150,
)
def requested_total(claim: Claim, *, rate: Callable = Fraction) -> Evidence:
    """Compute the mean and variance of the number of examples drawn at p = n*/n (`rate`), by enumeration."""
    rows, holds = [], []
    for sizes, star in (((1, 3), 2), ((2, 2, 4), 3), ((1, 1, 6), 4)):
        n, q = sum(sizes), rate(star, sum(sizes))
        chance = {}
        for keep in product((0, 1), repeat=n):
            total = sum(keep)
            chance[total] = chance.get(total, 0) + q**total * (1 - q) ** (n - total)
        mean = sum(k * p for k, p in chance.items())
        variance = sum(k * k * p for k, p in chance.items()) - mean**2
        holds.append(mean == star)
        rows.append({"sizes": str(sizes), "n*": star, "mean": str(mean), "variance": str(variance)})
    note = "In expectation; the number drawn varies with variance n p (1 − p)."
    return Evidence(judge_theory(all(holds)), rows[0]["mean"], note=note, table=pd.DataFrame(rows))


def inclusion_chances(sizes: tuple[int, ...], star: int) -> list[Fraction]:
    """Return, for each participant, the probability that one of its examples is kept with p = n*/n, by enumeration."""
    q, owner = Fraction(star, sum(sizes)), [k for k, n in enumerate(sizes) for _ in range(n)]
    chances = [Fraction(0)] * len(sizes)
    for keep in product((0, 1), repeat=len(owner)):
        chance = q ** sum(keep) * (1 - q) ** (len(keep) - sum(keep))
        for k in range(len(sizes)):  # the first example of each
            chances[k] += chance * keep[owner.index(k)]
    return chances


@claim(
    "journal-5.3-uniform",
    paper="journal",
    place="Sec. 5.3",
    kind="theory",
    statement="Data sampling gives every example of all participants the same chance.",
    printed="uniform",
    chapter="04d_covariance#do-larger-clients-contribute-no-more",
    meaning="are the chances of an example under Algorithm 1, of clients with 2 and with 6",
    order=190,
)
def uniform_over_participants(
    claim: Claim, *, cases: tuple = (((4, 4), 4), ((2, 6), 4)), text: Callable = inclusion_chances
) -> Evidence:
    """Compare the participants' chances of an example, under the p of the paper's text (`text`) and under Algorithm 1."""
    rows, equal_by_text, equal_by_algorithm = [], [], []
    for sizes, star in cases:
        size, by_text = star // len(sizes), text(sizes, star)
        by_algorithm = [Fraction(min(size, k), k) for k in sizes]
        equal_by_text.append(len(set(by_text)) == 1)
        equal_by_algorithm.append(len(set(by_algorithm)) == 1)
        rows.append(
            {
                "sizes": ", ".join(map(str, sizes)),
                "each example, p = n*/n": ", ".join(map(str, dict.fromkeys(by_text))),
                "each example, ⌊n*/m⌋ per client": ", ".join(map(str, by_algorithm)),
            }
        )
    note = "If each example is kept with p = n*/n, not ⌊n*/m⌋ per client as Algorithm 1 says."
    return Evidence(
        judge_theory(all(equal_by_text) and all(equal_by_algorithm), all(equal_by_text)),
        rows[-1]["each example, ⌊n*/m⌋ per client"],
        note=note,
        table=pd.DataFrame(rows),
    )


@claim(
    "journal-1-unbiased-data-sampling",
    paper="journal",
    place="Sec. 1, end",
    kind="theory",
    statement="Data sampling is unbiased, so that a participant's expected step is along its own mean "
    "gradient.",
    printed="unbiased",
    chapter="04d_covariance#do-larger-clients-contribute-no-more",
    meaning="that the text allows have this expectation",
    order=90,
)
def unbiased_data_sampling(
    claim: Claim, *, readings: tuple = ("fixed", "bernoulli", "bernoulli-mean", "pooled", "again")
) -> Evidence:
    """Compute the multiple of its own mean gradient that a participant sends, for unequal sizes."""
    sizes, star = (2, 6), 4
    n, size = sum(sizes), star // len(sizes)
    rows = []
    for reading in readings:
        multiples = [cov.reading_form(reading, k, n, star, size) for k in sizes]
        weights = [weight for weight, _ in multiples]
        rows.append(
            {
                "design": cov.READINGS[reading],
                **{f"client of {k}": str(w) for k, w in zip(sizes, weights, strict=True)},
            }
        )
    table = pd.DataFrame(rows)
    unbiased = (table[[f"client of {k}" for k in sizes]] == "1").all(axis=1)
    note = "If a participant averages over what it drew; dividing by ⌊n*/m⌋ gives m n_k/n times its gradient."
    verdict = judge_theory(bool(unbiased.all()), bool(unbiased.any()))
    ours = f"{unbiased.sum()} of {len(unbiased)} designs"
    return Evidence(verdict, ours, note=note, table=table)


def aggregate_moments(clients, star: int, data: str, weights: str) -> tuple[Fraction, Fraction]:
    """Compute the mean and the variance of an aggregate of scalar gradients, by enumeration.

    Args:
        clients: the gradients of each client's examples.
        star: n*, the number of examples that are requested.
        data: how examples are drawn: "bernoulli", each with probability n*/n; "fixed", ⌊n*/m⌋ of each client;
            "proportional", n_k n*/n of each client; "pooled", n* of all.
        weights: of the means of the clients' samples: "equal", 1/m; "drawn", the share of the sample in n*; "size", n_k/n.
    """
    flat = [
        (k, Fraction(g)) for k, client_gradients in enumerate(clients) for g in client_gradients
    ]
    n, m, q = len(flat), len(clients), Fraction(star, len(flat))
    sample_sizes = {
        "fixed": [star // m] * m,
        "proportional": [len(client_gradients) * q for client_gradients in clients],
    }.get(data)
    total, first, second = Fraction(0), Fraction(0), Fraction(0)
    subsets = combinations(range(n), star) if data == "pooled" else None
    for chosen in subsets or (c for j in range(n + 1) for c in combinations(range(n), j)):
        client_samples = [[flat[i][1] for i in chosen if flat[i][0] == k] for k in range(m)]
        if sample_sizes and [len(d) for d in client_samples] != sample_sizes:
            continue
        chance = q ** len(chosen) * (1 - q) ** (n - len(chosen)) if data == "bernoulli" else 1
        value = Fraction(0)
        for client_gradients, d in zip(clients, client_samples, strict=True):
            if d:  # a client without examples returns the model unchanged
                share = {"equal": Fraction(1, m), "size": Fraction(len(client_gradients), n)}
                value += share.get(weights, Fraction(len(d), star)) * sum(d) / len(d)
        total, first, second = total + chance, first + chance * value, second + chance * value**2
    return first / total, second / total - (first / total) ** 2


def pooled_target(clients=((0, 2), (1, 2, 3, 4, 5, 9)), star: int = 4) -> pd.DataFrame:
    """Tabulate mean, bias and variance of six designs as estimates of the mean gradient of all examples, exactly."""
    designs = [
        ("centralised: n* of the pool", "pooled", "drawn"),
        ("each with n*/n, weights by what was drawn (FedSampling)", "bernoulli", "drawn"),
        ("n_k n*/n of each client, weights by what was drawn", "proportional", "drawn"),
        ("n*/m of each client, weights n_k/n", "fixed", "size"),
        ("n*/m of each client, weights 1/m (FedSTaS)", "fixed", "equal"),
        ("each with n*/n, client means, weights 1/m", "bernoulli", "equal"),
    ]
    n = sum(map(len, clients))
    pooled = Fraction(sum(map(sum, clients)), n)
    rows = []
    for name, data, weights in designs:
        mean, variance = aggregate_moments(clients, star, data, weights)
        rows.append(
            {
                "design": name,
                "mean": str(mean),
                "bias": str(mean - pooled),
                "variance": str(variance),
            }
        )
    return pd.DataFrame(rows)


@claim(
    "preprint-2.4-mimics",
    paper="preprint",
    place="Sec. 2.4",
    kind="theory",
    statement="Data-level sampling mimics centralised learning across the participating clients.",
    printed="adjusted to mimic",
    chapter="04d_covariance#does-it-mimic-centralised-learning",
    meaning="is the expected aggregate of FedSTaS for a centralised one, with clients of 1 and 3 "
    "examples",
    fact="mimics",
    order=110,
)
@claim(
    "journal-5.2-mimics",
    paper="journal",
    place="Sec. 5.2",
    kind="theory",
    statement="Data sampling mimics centralised learning across the participants.",
    printed="adapted to mimic",
    chapter="04d_covariance#does-it-mimic-centralised-learning",
    meaning="is the expected aggregate of FedSTaS for a centralised one, with clients of 1 and 3 "
    "examples",
    fact="mimics",
    order=160,
)
def mimics_centralised(claim: Claim, *, fedstas: tuple[str, str] = ("fixed", "equal")) -> Evidence:
    """Compare the aggregate's expectation with that of a centralised draw, for unequal and for equal sizes.

    `fedstas`: data and weights of `aggregate_moments`.
    """
    rows, right = [], {}
    for words, clients, star in (
        ("unequal", ((0,), (1, 2, 3)), 2),
        ("unequal", ((0, 2), (1, 2, 3, 4, 5, 9)), 4),
        ("equal", ((0, 3), (1, 2)), 2),
        ("equal", ((0, 1, 5), (2, 2, 8)), 4),
    ):
        central, _ = aggregate_moments(clients, star, "pooled", "drawn")
        ours, _ = aggregate_moments(clients, star, *fedstas)
        client_samples, _ = aggregate_moments(clients, star, "bernoulli", "drawn")
        right.setdefault(words, []).append(central == ours)
        rows.append(
            {
                "clients' gradients": "; ".join(", ".join(map(str, c)) for c in clients),
                "n*": star,
                "centralised": str(central),
                "weights 1/m (FedSTaS)": str(ours),
                "weights by what was drawn": str(client_samples),
            }
        )
    note = (
        "In expectation, if all participants hold equally many examples; else the weights must be those "
        "of what was drawn, as in FedSampling."
    )
    everything = all(all(v) for v in right.values())
    ours = f"{rows[0]['weights 1/m (FedSTaS)']} for {rows[0]['centralised']}"
    verdict = judge_theory(everything, all(right["equal"]))
    return Evidence(verdict, ours, note=note, table=pd.DataFrame(rows))
