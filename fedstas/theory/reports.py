"""Private size reports of one client, exactly: their distribution, and what one and many of them reveal.

FedSTaS Sec. 5.2, Definition 1 and Lemma 5; FedSampling's slides, Lemma 2. A report is the client's (clipped)
size with probability alpha, else uniform on a support of fake sizes, by default 1..M-1.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from fedstas.arrays import MAX_COUNT
from fedstas.errors import InputError, check_float, check_int, format_value

MOST = 10_000  # sizes or reports; their outcomes are enumerated


def truth(alpha, name: str = "alpha") -> Fraction:
    """Convert a probability, a number, Fraction or string like "101/625", to a Fraction; `InputError` outside [0, 1]."""
    try:
        alpha = Fraction(alpha.item() if hasattr(alpha, "item") else alpha)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InputError(
            f"{name} is {format_value(alpha)}: it must be a number from 0 to 1"
        ) from None
    if not 0 <= alpha <= 1:
        raise InputError(f"{name} is {alpha}: it must be at least 0 and at most 1")
    return alpha


def truth_probability_bounds(
    epsilon: int, size_cap: int, terms: int = 60
) -> tuple[Fraction, Fraction]:
    """Return rationals just below and just above alpha of eq. 6.13, which is irrational for a whole epsilon >= 1.

    From the series of e^epsilon, whose tail after K > 2 epsilon terms is below twice the next term.
    """
    epsilon, size_cap = check_int("epsilon", epsilon, 1), check_int("size_cap", size_cap, 3)
    terms = check_int("terms", terms, 2 * epsilon + 1)
    low = sum((Fraction(epsilon**k, math.factorial(k)) for k in range(terms)), start=Fraction(0))
    high = low + 2 * Fraction(epsilon**terms, math.factorial(terms))
    return (low - 1) / (low + size_cap - 2), (high - 1) / (high + size_cap - 2)


def report_distribution(size: int, alpha, support: Sequence[int]) -> dict[int, Fraction]:
    """Compute P(r) of one report of a client of that (already clipped) size, {value: probability} ascending."""
    alpha, support = truth(alpha), list(support)
    chances = dict.fromkeys(support, (1 - alpha) / len(support))
    chances[size] = chances.get(size, Fraction(0)) + alpha
    return {r: chances[r] for r in sorted(chances) if chances[r]}


def worst_ratio(laws: Iterable[dict[int, Fraction]]) -> Fraction | float:
    """Compute the largest P(y) / P'(y) over all outcomes y and pairs of distributions P, P' (eq. 6.12).

    It is infinite if an outcome has probability 0 under one distribution and not under another.
    """
    laws = list(laws)
    worst = Fraction(1)
    for y in set().union(*laws):
        chances = [law.get(y, Fraction(0)) for law in laws]
        if min(chances) == 0:
            return math.inf
        worst = max(worst, max(chances) / min(chances))
    return worst


def report_ratio(alpha, support: Sequence[int], sizes: Iterable[int]) -> Fraction | float:
    """Compute the worst likelihood ratio of one report over these true sizes: exp(epsilon), or inf."""
    return worst_ratio(report_distribution(n, alpha, support) for n in sizes)


def ldp_ratio(size_cap: int, alpha) -> Fraction:
    """Compute `report_ratio` for true and random sizes in 1..M-1; it equals 1 + (M-1) alpha / (1 - alpha)."""
    size_cap = check_int("size_cap", size_cap, 3, MOST)
    alpha = truth(alpha)
    if alpha == 1:
        raise InputError("alpha is 1: the ratio is finite for alpha in [0, 1) only")
    return _ldp_ratio(size_cap, alpha)


@cache
def _ldp_ratio(size_cap: int, alpha: Fraction) -> Fraction:
    """Compute the likelihood ratio of `ldp_ratio`; it is finite, since alpha is below 1."""
    return Fraction(report_ratio(alpha, range(1, size_cap), range(1, size_cap)))


def composed_ratio(size_cap: int, alpha, reports: int, delta=0) -> Fraction:
    """Compute exp(epsilon) of that many fresh reports at this delta, as an exact rational.

    Of two sizes to be told apart, a report equal to the true one multiplies the likelihood ratio by rho (`ldp_ratio`), one
    equal to the other size divides it by rho, and any other report leaves it. So the ratio is rho^D, where D is the number
    of reports equal to the true size less the number equal to the other. y = exp(epsilon) solves
    E[(1 - y rho^-D)_+] = delta, which is linear in y between powers of rho.
    """
    rho, delta = ldp_ratio(size_cap, alpha), truth(delta, "delta")
    j, alpha = check_int("reports", reports, 1, MOST // 10), truth(alpha)
    if delta == 0:
        return rho**j
    false = (1 - alpha) / (size_cap - 1)  # the chance of a random report to be a given size
    # The chances of D + 1, D - 1 and D, times this, are whole.
    scale = false.denominator * alpha.denominator
    up, down = int((alpha + false) * scale), int(false * scale)
    stay = scale - up - down
    ways = [1]  # numerator of P(D = d), d = -j..j
    for _ in range(j):
        padded = [0, 0, *ways, 0, 0]
        ways = [
            up * padded[i] + stay * padded[i + 1] + down * padded[i + 2]
            for i in range(len(ways) + 2)
        ]
    total = scale**j
    tail = weighted = Fraction(0)
    for d in range(j, -j - 1, -1):  # losses of at least d: y lies in [rho^(d-1), rho^d]
        chance = Fraction(ways[d + j], total)
        tail, weighted = tail + chance, weighted + chance / rho**d
        y = (tail - delta) / weighted
        if y >= rho ** (d - 1):
            return max(y, Fraction(1))
    return Fraction(1)


def mode_attack(size_cap: int, alpha, reports: int) -> list[Fraction]:
    """Compute P(the most frequent of j fresh reports is the true size), j = 0..reports; ties are broken at random.

    The best guess if all of 1..M-1 are equally plausible beforehand: the sum over outcomes of the largest likelihood,
    over M-1. u_j(c) is the number of ways in which j balls leave c in the fullest of M-1 cells; with
    F_c(z) = sum_{i<=c} z^i/i!, "at most c" has j! [z^j] F_c^(M-1), by the recurrence of powers of a series.
    """
    cells, most = (
        check_int("size_cap", size_cap, 3) - 1,
        check_int("reports", reports, 0, MOST // 10),
    )
    alpha = truth(alpha)
    scale = alpha.denominator * cells
    miss = alpha.denominator - alpha.numerator  # (1 - alpha) / cells times scale
    hit = miss + alpha.numerator * cells
    best = [0] * (most + 1)
    before = [1] + [0] * most
    for c in range(1, most + 1):
        ways = [1]  # n! [z^n] F_c^cells
        for n in range(1, most + 1):
            total, choose = 0, 1
            for k in range(1, min(n, c) + 1):
                choose = choose * (n - k + 1) // k
                total += (k * (cells + 1) - n) * choose * ways[n - k]
            ways.append(total // n)
        for j in range(c, most + 1):
            best[j] += (ways[j] - before[j]) * hit**c * miss ** (j - c)
        before = ways
    best[0] = 1
    return [Fraction(x, cells * scale**j) for j, x in enumerate(best)]


def busiest_bounds(rounds: int, m: int, clients: int) -> tuple[float, float]:
    """Bound the expected participations of the busiest client, m of them drawn uniformly in each round.

    Each client's count is binomial(rounds, m/clients), and the counts of all are negatively associated (Joag-Dev and
    Proschan, 1983), so P(all <= c) is at most the product; and at least 1 less the sum of P(one > c).
    """
    from scipy.stats import binom

    rounds = check_int("rounds", rounds, 1, MAX_COUNT)
    clients = check_int("clients", clients, 1, MAX_COUNT)
    m = check_int("m", m, 0, clients)
    above = binom.sf(np.arange(rounds), rounds, m / clients)  # P(count > c), c = 0..rounds-1
    low = 1 - (1 - above) ** clients
    return float(low.sum()), float(np.minimum(1, clients * above).sum())


def composed_epsilon(alpha: float, size_cap: int, reports: int, delta: float = 0.0) -> float:
    """Compute the epsilon of that many fresh reports of one client, exactly for this mechanism.

    delta = 0: reports times epsilon, attained. delta > 0: the smallest e with
    E[(1 - exp(e - L))_+] <= delta, where the privacy loss L of two sizes is epsilon times (reports
    equal to the one less reports equal to the other), a trinomial difference.
    """
    from scipy.special import gammaln, logsumexp

    alpha = check_float("alpha", alpha, 0, 1, open_low=False)
    size_cap = check_int("size_cap", size_cap, 3, MAX_COUNT)
    delta = check_float("delta", delta, 0, 1, open_low=False)
    j = check_int("reports", reports, 0, MOST // 10 if delta else MAX_COUNT)
    one = math.inf if alpha == 1 else math.log1p((size_cap - 1) * alpha / (1 - alpha))
    if j == 0 or one == 0.0:
        return 0.0
    if delta == 0.0 or math.isinf(one):
        return j * one
    miss = (1 - alpha) / (size_cap - 1)
    hit, other = math.log(alpha + miss), (1 - alpha) * (size_cap - 3) / (size_cap - 1)
    log_other = math.log(other) if other > 0 else -math.inf
    a, b = np.meshgrid(np.arange(j + 1), np.arange(j + 1), indexing="ij")
    a, b = a[a + b <= j], b[a + b <= j]
    rest = j - a - b
    logs = gammaln(j + 1) - gammaln(a + 1) - gammaln(b + 1) - gammaln(rest + 1)
    with np.errstate(invalid="ignore"):
        logs = logs + a * hit + b * math.log(miss) + np.where(rest > 0, rest * log_other, 0.0)
    # Between two multiples of epsilon the excess is linear in exp(e): solve on the right piece.
    for k in range(j - 1, -2, -1):
        above = (a - b) > k
        tail, weighted = logsumexp(logs[above]), logsumexp(logs[above] - (a - b)[above] * one)
        if math.exp(tail) - math.exp(k * one + weighted) >= delta or k < 0:
            rise = math.exp(tail) - delta
            return max(0.0, math.log(rise) - weighted) if rise > 0 else 0.0
    return 0.0
