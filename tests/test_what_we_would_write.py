"""The statements of chapter 9, each compared with an enumeration in rationals.

What other files test already (Hansen-Hurwitz over all cohorts in floating point, inclusion
probabilities, the reference cases) is not repeated.
"""

import re
from collections import Counter
from fractions import Fraction as Q
from itertools import combinations, permutations, product
from math import comb, isclose, prod
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from enumeration import enumerate_cohorts
from hypothesis import given
from hypothesis import strategies as st

from companion.pages import ch09, design_comparison
from companion.runs import feature_errors, least_variance_results, one_rounds, protocol
from companion.teach.exercises.corrected import shares_by_size, variance
from fedstas import allocation, methods, privacy, theory
from fedstas.client_sampling import Cohort
from fedstas.data_sampling import FixedRate, Requested
from fedstas.errors import InputError

LABELS = (0, 0, 0, 1, 1, 1)
SIZES = st.lists(st.integers(1, 9), min_size=6, max_size=6)
UPDATES = st.lists(st.integers(-9, 9), min_size=6, max_size=6)
ALLOCATIONS = st.sampled_from([(1, 1), (2, 1), (1, 3), (2, 2)])


def make_exact_view(view):
    """Return a view of five clients in two strata whose probabilities and weights are exact as floats.

    Sizes times norms are 8, 4, 4 in one stratum and 16, 48 in the other: p are quarters, and omega are eighths.
    """
    z = np.zeros((5, 2))
    z[[0, 1, 2], 0], z[[3, 4], 1] = (8, 4, 2), (16, 16)
    return view([1, 1, 2, 1, 3], z)


# Lemma 1'


@pytest.mark.parametrize("m", [2, 3, 5])
def test_the_corrected_method_is_unbiased_in_exact_arithmetic(view, m):
    server, updates = make_exact_view(view), [Q(4), Q(-2), Q(3), Q(5), Q(1)]
    design, mean, total = methods.get("fedstas-unbiased", strata=2).clients, Q(0), Q(0)
    exact = True
    for cohort, chance in enumerate_cohorts(design, server, m):
        exact &= all(Q(float(w)).denominator <= 64 for w in cohort.weights)
        mean += chance * sum(
            Q(float(w)) * updates[k] for w, k in zip(cohort.weights, cohort.clients, strict=True)
        )
        total += chance
    target = sum(n * d for n, d in zip(server.sizes.tolist(), updates, strict=True)) / 8
    assert total == 1
    assert mean == target if exact else isclose(mean, target, rel_tol=1e-14)
    assert exact or m == 5  # five draws give a stratum 3 draws, and thirds are no exact floats


@pytest.mark.parametrize("name", ["fedstas-unbiased", "fedstas-unbiased-dp"])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_the_expected_weight_of_each_client_is_its_weight_in_the_objective(
    view_without_sizes, view, name, m
):
    """The expected weight of client k is omega_k; of the private method 1/N, on a server whose sizes cannot be read."""
    view_class = view if name == "fedstas-unbiased" else view_without_sizes
    server = make_exact_view(view_class)
    expected = np.zeros(5)
    for cohort, chance in enumerate_cohorts(methods.get(name, strata=2).clients, server, m):
        np.add.at(expected, cohort.clients, float(chance) * cohort.weights)
    omega = np.array([1, 1, 2, 1, 3]) / 8 if name == "fedstas-unbiased" else np.full(5, 1 / 5)
    np.testing.assert_allclose(expected, omega, rtol=1e-13)


def test_the_floor_keeps_the_design_unbiased_for_a_client_without_gradient_and_cannot_be_zero(view):
    z = np.zeros((5, 2))
    z[[0, 1], 0], z[[3, 4], 1] = (8, 4), (16, 16)
    expected = np.zeros(5)
    design, server = methods.get("fedstas-unbiased", strata=2).clients, view([1, 1, 2, 1, 3], z)
    for cohort, chance in enumerate_cohorts(design, server, 3):
        np.add.at(expected, cohort.clients, float(chance) * cohort.weights)
    np.testing.assert_allclose(expected, np.array([1, 1, 2, 1, 3]) / 8, rtol=1e-12)
    with pytest.raises(InputError, match="floor"):
        methods.get("fedstas-unbiased", floor=0.0)


def test_a_data_rate_that_depends_on_the_cohort_changes_the_expectation():
    """Two clients of 1 and 3 examples, one draw, n* = 1: rates 1 and 1/3. A client trains if its sample is not empty:
    these probabilities have another mean than those at the mean rate."""

    class View:
        clients, total, sizes = 2, 4, np.array([1, 3])

    rates = [
        float(Requested(1).rates(View(), Cohort(np.array([k]), np.ones(1)))[0]) for k in (0, 1)
    ]
    assert rates == [1.0, pytest.approx(1 / 3)]
    at_own_rates = [1 - (1 - r) ** n for r, n in zip(rates, (1, 3), strict=True)]
    at_mean_rate = [1 - (1 - np.mean(rates)) ** n for n in (1, 3)]
    assert abs(np.mean(at_own_rates) - np.mean(at_mean_rate)) > 0.02


# Theorem 1'


def enumerated_variance(omega, p, labels, draws_by_stratum, updates) -> Q:
    """Return the variance of Hansen-Hurwitz draws, the sum over strata, by enumeration of all draws."""
    total = Q(0)
    for h, count in enumerate(draws_by_stratum):
        k = [i for i, label in enumerate(labels) if label == h]
        terms = [omega[i] * updates[i] / (count * p[i]) for i in k]
        draws = theory.samples_with_replacement([p[i] for i in k], count)
        total += theory.moments(
            (sum(terms[i] for i in draw), probability) for draw, probability in draws
        ).variance
    return total


@given(SIZES, UPDATES, ALLOCATIONS)
def test_the_variance_agrees_with_enumerating_all_cohorts(sizes, updates, draws):
    omega, p = shares_by_size(sizes, LABELS)
    shifted = [q * w for q, w in zip(p, (1, 2, 3, 3, 2, 1), strict=True)]  # any p > 0
    sums = [sum(shifted[:3]), sum(shifted[3:])]
    shifted = [x / sums[h] for x, h in zip(shifted, LABELS, strict=True)]
    for selection in (p, shifted):
        exact = enumerated_variance(omega, selection, LABELS, draws, updates)
        assert variance(omega, selection, LABELS, draws, updates) == exact


@given(SIZES, UPDATES.filter(lambda u: 0 not in u))
def test_selection_by_the_norms_of_weighted_updates_has_the_least_variance(sizes, updates):
    omega, p = shares_by_size(sizes, LABELS)
    u = [abs(o * d) for o, d in zip(omega, updates, strict=True)]
    totals = [sum(u[:3]), sum(u[3:])]
    best = [x / totals[h] for x, h in zip(u, LABELS, strict=True)]
    least = variance(omega, best, LABELS, (1, 1), updates)
    stratum_updates = [
        sum(o * d for o, d in zip(omega[i:j], updates[i:j], strict=True))
        for i, j in ((0, 3), (3, 6))
    ]
    assert least == sum(t**2 - x**2 for t, x in zip(totals, stratum_updates, strict=True))
    assert least <= variance(omega, p, LABELS, (1, 1), updates)
    # Kantorovich's inequality bounds the variance of any other selection.
    ratios = [q / b for q, b in zip(p, best, strict=True)]
    for i, j in ((0, 3), (3, 6)):
        kappa = max(ratios[i:j]) / min(ratios[i:j])
        mean_square = sum(x**2 / q for x, q in zip(u[i:j], p[i:j], strict=True))
        assert mean_square <= totals[i // 3] ** 2 * (kappa + 1) ** 2 / (4 * kappa)


@given(SIZES, UPDATES.filter(lambda u: 0 not in u))
def test_the_four_parts_add_up_to_the_variance_of_md(sizes, updates):
    omega, _ = shares_by_size(sizes, LABELS)
    md = float(variance(omega, omega, [0] * 6, [1], updates))
    halves = (slice(0, 3), slice(3, 6))
    o, d = np.array(omega, dtype=float), np.array(updates, dtype=float)
    # By stratum: the mass W, the mean update D, and T, the sum of the lengths of the weighted updates.
    W = np.array([o[h].sum() for h in halves])
    D = np.array([o[h] @ d[h] for h in halves]) / W
    T = np.array([o[h] @ abs(d[h]) for h in halves])
    root = np.sqrt(np.maximum(T**2 - (W * D) ** 2, 0))
    strata_part = W @ (D - o @ d) ** 2
    norms_part = sum(o[h] @ (abs(d[h]) - T[i] / W[i]) ** 2 for i, h in enumerate(halves))
    allocation_part = W @ (root / W - root.sum()) ** 2
    assert strata_part + norms_part + allocation_part + root.sum() ** 2 == pytest.approx(
        md, rel=1e-9, abs=1e-9
    )


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(0, 6))
def test_the_allocation_minimises_the_bound_over_all_integer_allocations(totals, extra):
    m, H = len(totals) + extra, len(totals)
    result = allocation.by_priority(
        [float(x) for x in totals], m, lower=np.ones(H), upper=np.full(H, m)
    )
    allocations = [draws for draws in product(range(1, m + 1), repeat=H) if sum(draws) == m]
    bounds = [sum(Q(t * t, k) for t, k in zip(totals, draws, strict=True)) for draws in allocations]
    assert sum(Q(t * t, int(k)) for t, k in zip(totals, result, strict=True)) == min(bounds)


def bound(totals, draws) -> Q:
    """Return the bound on the variance: the sum of T_h^2 / m_h over the strata."""
    return sum(Q(t * t, int(k)) for t, k in zip(totals, draws, strict=True))


def test_the_allocation_is_best_only_if_all_strata_have_the_same_measure():
    """The measure c_h omega_k l_k has the selection p of part 2 for any c, and the best allocation for equal c only."""
    omega, updates, labels = [Q(1, 4)] * 4, [1, -1, 1, -1], [0, 0, 1, 1]
    lengths = [o * abs(d) for o, d in zip(omega, updates, strict=True)]
    T = [Q(1, 2), Q(1, 2)]
    allocations = {}
    for factors in ((1, 1), (1, 100)):
        measure = [factors[h] * x for x, h in zip(lengths, labels, strict=True)]
        stratum_totals = [sum(measure[:2]), sum(measure[2:])]
        selection = [x / stratum_totals[h] for x, h in zip(measure, labels, strict=True)]
        assert selection == [x / T[h] for x, h in zip(lengths, labels, strict=True)]  # part 2
        allocations[factors] = allocation.by_priority(
            [float(x) for x in stratum_totals], 4, lower=np.ones(2), upper=np.full(2, 4)
        ).tolist()
    assert allocations == {(1, 1): [2, 2], (1, 100): [1, 3]}
    p = [Q(1, 2)] * 4
    assert (bound(T, [2, 2]), bound(T, [1, 3])) == (Q(1, 4), Q(1, 3))
    for draws in allocations.values():  # the strata's means are 0: the bound is the variance itself
        assert enumerated_variance(omega, p, labels, draws, updates) == bound(T, draws)


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=4),
    st.lists(st.integers(1, 40), min_size=4, max_size=4),
)
def test_a_measure_that_differs_between_strata_costs_at_most_kantorovichs_factor(totals, factors):
    products = [t * x for t, x in zip(totals, factors, strict=False)]
    kappa = Q(max(factors[: len(products)]), min(factors[: len(products)]))
    shares = [Q(x, sum(products)) for x in products]  # an allocation of m = 1 in real numbers
    attained = sum(t * t / x for t, x in zip(totals, shares, strict=True))
    assert attained <= Q(sum(totals)) ** 2 * (kappa + 1) ** 2 / (4 * kappa)


@given(SIZES, UPDATES.filter(lambda u: 0 not in u), st.integers(2, 3))
def test_draws_by_norm_beat_uniform_draws_with_replacement_but_not_always_distinct_clients(
    sizes, updates, m
):
    """One stratum of six: uniform draws with replacement are never better; distinct ones have the share
    (N - m)/(N - 1) of their variance."""
    omega, _ = shares_by_size(sizes, [0] * 6)
    norms = [o * abs(d) for o, d in zip(omega, updates, strict=True)]
    best = [x / sum(norms) for x in norms]
    with_replacement = variance(omega, [Q(1, 6)] * 6, [0] * 6, [m], updates)
    assert variance(omega, best, [0] * 6, [m], updates) <= with_replacement
    distinct = theory.moments(
        (Q(6, m) * sum(omega[k] * updates[k] for k in sample), Q(1, comb(6, m)))
        for sample in combinations(range(6), m)
    ).variance
    assert distinct == with_replacement * Q(6 - m, 5)


def test_distinct_uniform_draws_can_beat_draws_by_norm():
    """Two clients of updates 1 and -1, m = 2: both are drawn, and the variance is 0."""
    half = [Q(1, 2)] * 2
    assert variance(half, half, [0, 0], [2], [1, -1]) == Q(1, 2)
    assert theory.stratified_random_variance([[1, -1]], [2]) == 0


def test_one_draw_per_stratum_can_be_worse_than_md():
    omega, p = shares_by_size([9, 9, 1, 1], [0, 0, 1, 1])
    # The first stratum adds omega/p = 9/10 or -9/10 times 1, with equal chances.
    assert variance(omega, p, [0, 0, 1, 1], [1, 1], [1, -1, 0, 0]) == Q(81, 100)
    # Each of two draws adds 1/2 or -1/2 with a chance of 9/20 each.
    assert variance(omega, omega, [0] * 4, [2], [1, -1, 0, 0]) == Q(9, 20)


# Lemma 2'


def enumerate_estimates(sizes, M, alpha, times=None):
    """Yield every estimate of eq. 5.7 with its probability; the report of client i counts times[i] times."""
    clipped, times = privacy.clip(sizes, M).tolist(), times or [1] * len(sizes)
    for reports in product(range(1, M), repeat=len(sizes)):
        pairs = zip(reports, clipped, strict=True)
        chance = prod((1 - alpha) / (M - 1) + alpha * (r == c) for r, c in pairs)
        total = sum(r * t for r, t in zip(reports, times, strict=True))
        yield (total - (1 - alpha) * M * sum(times) / 2) / alpha, chance


def report_variance(size, M, alpha) -> Q:
    """Return v_k of the lemma, the variance of the estimate from one report."""
    return (1 - alpha) / alpha**2 * (Q(M * (M - 2), 12) + alpha * (size - Q(M, 2)) ** 2)


DRAWS_OF_CLIENTS = {1: [(1,), (2,), (5,)], 2: [(1, 1), (2, 1), (0, 3)], 3: [(1, 1, 1), (2, 1, 3)]}


def test_a_memoised_report_that_is_drawn_twice_has_four_times_its_variance():
    """M = 4, alpha = 2/5, size 1: 4 for one report, 8 for two fresh ones, 16 for one that counts twice."""
    alpha, privacy_settings = Q(2, 5), {"size_cap": 4, "alpha": 0.4}
    for sizes, times, exact in (((1,), (1,), 4), ((1, 1), (1, 1), 8), ((1,), (2,), 16)):
        moments = theory.moments(iter(enumerate_estimates(sizes, 4, alpha, times)))
        assert moments == (sum(times), exact)
        computed = privacy.estimate_variance(sizes, times=times, **privacy_settings)
        assert computed == pytest.approx(exact)
    assert privacy.estimate_variance([1, 1], **privacy_settings) == pytest.approx(8)
    estimates = [  # the package's estimate from the reports (r, r) that a server gets
        (Q(privacy.estimate_total([r, r], **privacy_settings)).limit_denominator(1000), probability)
        for r, probability in ((1, Q(3, 5)), (2, Q(1, 5)), (3, Q(1, 5)))
    ]
    assert theory.moments(iter(estimates)) == (2, 16)


@pytest.mark.parametrize("sizes", [(1,), (0, 9), (1, 3), (2, 2, 4), (4, 1, 6)])
@pytest.mark.parametrize("alpha", [Q(1, 5), Q(1, 2), Q(9, 10)])
def test_the_size_estimator_has_the_mean_and_variance_of_the_lemma(sizes, alpha):
    M, clipped = 5, privacy.clip(sizes, 5).tolist()
    for times in DRAWS_OF_CLIENTS[len(sizes)]:
        mean, var = theory.moments(iter(enumerate_estimates(sizes, M, alpha, times)))
        pairs = list(zip(clipped, times, strict=True))
        assert mean == sum(t * c for c, t in pairs)
        assert var == sum(t * t * report_variance(c, M, alpha) for c, t in pairs)
        computed = privacy.estimate_variance(sizes, size_cap=M, alpha=float(alpha), times=times)
        assert computed == pytest.approx(float(var))


@pytest.mark.parametrize(
    ("p", "m"), [((Q(1, 4), Q(3, 4)), 2), ((Q(1, 2), Q(1, 3), Q(1, 6)), 3), ((Q(1),), 4)]
)
def test_the_error_over_draws_and_memoised_reports_is_that_of_the_lemma(p, m):
    """One stratum, every cohort and every report: E t_k^2 = m p_k + m (m - 1) p_k^2."""
    sizes, M, alpha = (1, 3, 2)[: len(p)], 4, Q(2, 5)
    error, squares = Q(0), [Q(0)] * len(p)
    for draws, chance in theory.samples_with_replacement(p, m):
        times = [draws.count(k) for k in range(len(p))]
        total = sum(t * n for t, n in zip(times, sizes, strict=True))
        error += chance * sum(
            p_reports * (estimate - total) ** 2
            for estimate, p_reports in enumerate_estimates(sizes, M, alpha, times)
        )
        squares = [s + chance * t * t for s, t in zip(squares, times, strict=True)]
    assert squares == [m * q + m * (m - 1) * q * q for q in p]
    assert error == sum(
        s * report_variance(n, M, alpha) for s, n in zip(squares, sizes, strict=True)
    )


@pytest.mark.parametrize("sizes", [(1,), (1, 3), (2, 2, 3), (1, 1, 1), (3, 3, 3)])
@pytest.mark.parametrize("n_star", [1, 2, 5, 30])
@pytest.mark.parametrize("alpha", [Q(1, 5), Q(1, 2)])
def test_the_relative_error_of_the_rate_is_below_its_bound(sizes, n_star, alpha):
    for times in DRAWS_OF_CLIENTS[len(sizes)]:
        m, pairs = sum(times), list(enumerate_estimates(sizes, 4, alpha, times))
        p = min(Q(1), Q(n_star, sum(t * n for t, n in zip(times, sizes, strict=True))))
        error = sum(c * (min(Q(1), n_star / max(x, m)) / p - 1) ** 2 for x, c in pairs)
        assert error <= theory.moments(iter(pairs)).variance / m**2


def test_more_draws_of_one_memoised_report_do_not_improve_the_rate():
    """One client: with n* = q n the relative error is the same for every m; fresh reports shrink it."""
    alpha, M, size = Q(2, 5), 4, 2

    def error(estimates, m):
        """Return the mean squared relative error of the rate at p = q = 1/2 and n* = m."""
        return sum(p * (m / max(estimate, m) - 1) ** 2 for estimate, p in estimates)

    of_one_draw = error(enumerate_estimates((size,), M, alpha), 1)
    assert of_one_draw > 0
    for m in (1, 2, 7, 50):
        assert error(enumerate_estimates((size,), M, alpha, (m,)), m) == of_one_draw
    fresh = [error(enumerate_estimates((size,) * m, M, alpha), m) for m in (2, 4, 6)]
    assert of_one_draw != fresh[0] > fresh[1] > fresh[2]


@pytest.mark.parametrize("reports", [(3, 4, 3), (2, 4, 4), (4, 4, 4)])
@pytest.mark.parametrize("n_star", [1, 2, 5])
def test_a_requested_number_of_examples_gives_the_rate_of_its_share_of_the_estimate(
    reports, n_star
):
    class Server:
        def reports(self, clients, *, size_cap, alpha, memoised):
            self.estimate = privacy.estimate_total(reports, size_cap=size_cap, alpha=alpha)
            return np.array(reports)

    server, cohort = Server(), Cohort(np.arange(3), np.full(3, 1 / 3))
    rates = Requested(n_star, epsilon=3.0, size_cap=5).rates(server, cohort)
    assert server.estimate >= max(3, n_star)  # the rate is not clipped, from below or at 1
    fixed_rates = FixedRate(n_star / server.estimate).rates(None, cohort)  # without a view
    np.testing.assert_array_equal(rates, fixed_rates)
    assert 0 < rates[0] < 1


# Lemmas 3' and 4', Theorem 3'

GRADIENTS = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=4).map(
    lambda rows: [[Q(x) for x in row] for row in rows]
)


def mean_and_covariance(outcomes):
    """Return the mean and covariance of weighted values."""
    total = sum(c for _, c in outcomes)
    mean = sum(v * c for v, c in outcomes) / total
    return mean, sum(np.outer(v - mean, v - mean) * c for v, c in outcomes) / total


def exact_moments(rows):
    """Return gradients as an exact array g [n, d], their mean, and their sample covariance S."""
    g = np.array(rows, dtype=object)
    centre = sum(g) / Q(len(g))
    return g, centre, sum(np.outer(x - centre, x - centre) for x in g) / Q(len(g) - 1)


def list_samples(n):
    """Return all subsets of n examples."""
    return [k for size in range(n + 1) for k in combinations(range(n), size)]


@given(GRADIENTS)
def test_simple_random_sampling_has_the_covariance_of_the_lemma(rows):
    g, centre, S = exact_moments(rows)
    for size in range(1, len(g) + 1):
        mean, covariance = mean_and_covariance(
            [(sum(g[list(k)]) / Q(size), Q(1)) for k in combinations(range(len(g)), size)]
        )
        assert (mean == centre).all()
        assert (covariance == (Q(1, size) - Q(1, len(g))) * S).all()
        assert (theory.srs_covariance(g, size) == covariance).all()


@given(GRADIENTS, st.sampled_from([Q(1, 10), Q(1, 2), Q(3, 4)]), st.integers(1, 4))
def test_bernoulli_sampling_has_the_moments_of_the_lemma(rows, q, batch):
    g, centre, S = exact_moments(rows)
    n, zero = len(g), np.array([Q(0), Q(0)], dtype=object)
    p = {k: q ** len(k) * (1 - q) ** (n - len(k)) for k in list_samples(n)}
    nonempty = 1 - (1 - q) ** n
    batches = [
        (sum(g[list(b)]) / Q(len(b)), p[k] / comb(len(k), len(b)))
        for k in p
        if k
        for b in combinations(k, min(batch, len(k)))
    ]
    mean, covariance = mean_and_covariance(batches)
    mean_inverse_size = sum(p_k / min(batch, len(k)) for k, p_k in p.items() if k) / nonempty
    assert (mean == centre).all()
    assert (covariance == (mean_inverse_size - Q(1, n)) * S).all()
    with_empty_samples = mean_and_covariance([*batches, (zero, (1 - q) ** n)])
    assert (with_empty_samples[0] == nonempty * centre).all()
    expansion = mean_and_covariance(
        [(sum((g[i] for i in k), zero) / (q * n), p_k) for k, p_k in p.items()]
    )
    assert (expansion[0] == centre).all()
    assert (expansion[1] == (1 - q) / (q * n**2) * (g.T @ g)).all()
    # Theorem 3' (1) and (2), at the same expected size
    srs = (1 / (q * n) - Q(1, n)) * S
    gap = (1 - q) / (q * n) * (np.outer(centre, centre) - S / Q(n))
    assert (expansion[1] - srs == gap).all()
    assert sum(p_k / len(k) for k, p_k in p.items() if k) / nonempty >= 1 / (q * n / nonempty)


def bernoulli_and_srs_variances(rows):
    """Return the variances, traces of the covariances, of the mean of four gradients by two designs of expected size 2.

    Bernoulli sampling with rate q = 1/2 and weights 1/(q n) (Lemma 4' (3)), simple random sampling of two (Lemma 3').
    """
    g, _, S = exact_moments(rows)
    n, q, size = len(g), Q(1, 2), 2
    bernoulli = (1 - q) / (q * n**2) * np.trace(g.T @ g)
    srs = (Q(1, size) - Q(1, n)) * np.trace(S)
    return bernoulli, srs


def test_neither_bernoulli_nor_simple_random_sampling_is_better_for_all_gradients():
    equal_gradients = [[Q(1), Q(0)]] * 4
    bernoulli, srs = bernoulli_and_srs_variances(equal_gradients)
    assert bernoulli > srs == 0
    unequal = [[Q(x), Q(y)] for x, y in ((1, 0), (0, 2), (3, -1), (-2, 1))]
    bernoulli, srs = bernoulli_and_srs_variances(unequal)
    assert (bernoulli, srs) == (Q(5, 4), Q(3, 2))


@given(GRADIENTS.filter(lambda rows: len(rows) == 4))
def test_designs_of_fixed_size_average_to_simple_random_sampling(rows):
    """Systematic sampling of every second of four examples, over all orders in which they may stand."""
    g, _, S = exact_moments(rows)
    pairs = ((0, 2), (1, 3))  # each example with probability 1/2
    variances = []
    for order in permutations(range(4)):
        means = [(sum(g[[order[i] for i in pair]]) / Q(2), Q(1)) for pair in pairs]
        variances.append(np.trace(mean_and_covariance(means)[1]))
    srs = (Q(1, 2) - Q(1, 4)) * np.trace(S)  # Lemma 3' with two of four
    assert sum(variances) / len(variances) == srs <= max(variances)


# Lemma 5'


@pytest.mark.parametrize("M", [3, 4, 6])
@pytest.mark.parametrize("ratio", [Q(3, 2), Q(3), Q(20)])
def test_reports_are_as_private_as_the_lemma_says(M, ratio):
    alpha = (ratio - 1) / (ratio + M - 2)

    def worst_ratio(alpha, j, *, fresh=True):
        """Return the largest likelihood ratio of j reports, `fresh` ones or one that is repeated, over pairs of sizes."""
        p_report = {
            n: {r: (1 - alpha) / (M - 1) + alpha * (r == n) for r in range(1, M)}
            for n in range(1, M)
        }
        observations = product(range(1, M), repeat=j) if fresh else [(r,) * j for r in range(1, M)]
        observations = list(observations)

        def probability(n, y):
            return prod((p_report[n][r] for r in y), start=Q(1)) if fresh else p_report[n][y[0]]

        return max(
            probability(a, y) / probability(b, y)
            for a in p_report
            for b in p_report
            for y in observations
        )

    assert worst_ratio(alpha, 1) == ratio == theory.ldp_ratio(M, alpha)
    assert worst_ratio(alpha + Q(1, 1000), 1) > ratio > worst_ratio(alpha - Q(1, 1000), 1)
    for j in (2, 3):
        assert worst_ratio(alpha, j) == ratio**j
        assert worst_ratio(alpha, j, fresh=False) == ratio


def test_a_memoised_report_is_the_same_in_every_round(digits, federation):
    from fedstas import engine, simulation

    shards = [federation.shards[k] for k in federation.with_data]
    pool = engine.pool(digits.train_x, digits.train_y, shards)
    server, counts = simulation.Server(pool, None, 0), Counter()
    for t in range(1, 8):
        server.begin(t, torch.zeros(1))  # reports do not depend on the model
        answers = server.reports([0, 3, 3], size_cap=50, alpha=0.2, memoised=True)
        counts[tuple(answers.tolist())] += 1
        assert answers[1] == answers[2]  # a client drawn twice
    assert len(counts) == 1


def test_who_knows_the_seed_knows_which_reports_are_true(digits, federation):
    """Replay the simulator's random streams from its seed: they tell which reports are true."""
    from fedstas import engine, simulation
    from fedstas.sim.rng import stream

    shards = [federation.shards[k] for k in federation.with_data]
    pool = engine.pool(digits.train_x, digits.train_y, shards)
    server, cap, alpha, true_reports = simulation.Server(pool, None, 7), 50, 0.3, 0
    server.begin(1, torch.zeros(1))  # reports do not depend on the model
    clients = range(len(pool.sizes))
    answers = server.reports(clients, size_cap=cap, alpha=alpha, memoised=True)
    for k, size, answer in zip(clients, pool.sizes, answers, strict=True):
        replay = stream(7, "memoised report", k)
        random_size = replay.integers(1, cap)
        is_true = replay.random() < alpha
        assert answer == (np.clip(size, 1, cap - 1) if is_true else random_size)
        true_reports += is_true
    assert 0 < true_reports < len(pool.sizes)


def test_the_page_says_what_its_statements_do_not_cover():
    page, variations, lemmas = (
        (Path(__file__).parents[1] / "notebooks" / f"{name}.py").read_text(encoding="utf-8")
        for name in ("09_what_we_would_write", "09b_variations", "09c_corrected_lemmas")
    )
    _, _, private = lemmas.partition("} The privacy statement")
    private, _, _ = private.partition("# ```\n")
    for words in ("empty client", "public seed", "Time tells", "new run", "in clear"):
        assert words in private, words
    _, _, corrected = variations.partition("# ## Why not the corrected method?")
    _, _, limits = page.partition("# ## What are the limits?")
    limits, _, _ = limits.partition("# ## How to cite")
    assert "CIFAR-100" in limits and "Fashion-MNIST" in limits
    assert all(name in corrected for name in ("ch9_hundred_corrected", "ch9_gain_few"))
    for label in (
        "wwi-prp-features",
        "wwi-prp-distinct",
        "wwi-prp-noise",
        "wwi-prp-silent",
    ):  # where MD can win
        assert label in limits, label


# Theorem 2'


def test_the_bound_of_the_theorem_holds_exactly_and_the_rate_is_one_over_t():
    """F_k(w) = (w - c_k)^2 / 2, L = mu = 1; strata {1, 2} and {3}, one draw by size from each."""
    c, omega, W = [Q(0), Q(4), Q(7)], [Q(1, 8), Q(3, 8), Q(1, 2)], Q(1, 2)
    w_star = sum(o * x for o, x in zip(omega, c, strict=True))
    report_variance = omega[0] * omega[1] * (c[0] - c[1]) ** 2  # V*: gradients at w* are w* - c_k
    smooth = 1 + 2 * W
    gamma = 2 * smooth
    v = max(8 * report_variance, gamma * w_star**2)
    draws = [(omega[k] / W, W * c[k] + W * c[2]) for k in (0, 1)]  # w' = w - eta (w - U)

    def step(first, second, eta):
        """Return E w and E w^2 after a round of step size `eta`, from those before it."""
        mean = sum(p * u for p, u in draws)
        square = sum(p * u * u for p, u in draws)
        new = (1 - eta) ** 2 * second + 2 * eta * (1 - eta) * first * mean + eta**2 * square
        return (1 - eta) * first + eta * mean, new

    def error(first, second):
        """Return E (w - w*)^2."""
        return second - 2 * w_star * first + w_star**2

    first = second = Q(0)
    for t in range(40):
        assert error(first, second) <= v / (t + gamma)
        first, second = step(first, second, 2 / (t + gamma))
    eta = 1 / smooth
    first = second = Q(0)
    for t in range(40):
        assert error(first, second) <= (1 - eta) ** t * w_star**2 + 2 * eta * report_variance
        first, second = step(first, second, eta)
    assert error(first, second) == pytest.approx(float(eta / (2 - eta) * report_variance))


@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(0, 100)), min_size=5, max_size=5),
    st.sampled_from([0.01, 0.1, 1.0]),
)
def test_the_floor_bounds_the_selection_probabilities(view, clients, floor):
    sizes, norms = np.array([n for n, _ in clients]), np.array([z for _, z in clients])
    server = view(sizes, np.stack([norms, np.zeros(5)], axis=1))
    for name in ("fedstas-unbiased", "fedstas-unbiased-dp"):
        design = methods.get(name, strata=2, floor=floor).clients
        labels, measure, _ = design.measure(server, 3, np.random.default_rng(0))
        p = measure / np.bincount(labels, measure)[labels]
        share = sizes / sizes.max() if name == "fedstas-unbiased" else 1.0
        assert (p >= floor / (1 + floor) * share / 5 * (1 - 1e-9)).all()


# The table of one-round errors


def make_one_round_table(setting: str, seeds, **errors) -> pd.DataFrame:
    """Make rows of a setting: least variance at 0.5, with the true updates at 0.4, other designs as given."""
    names = {"divfl": "divfl", "kmeans": "fedstas-unbiased"}
    names |= {"least": one_rounds.LEAST_VARIANCE_METHOD, "oracle": one_rounds.ORACLE}
    rows = []
    for key, value in {"least": 0.5, "oracle": 0.4, **errors}.items():
        for seed, t, m in product(seeds, (0, 10), (5, 10)):
            exact = value if key in ("least", "oracle") else np.nan
            rows.append((setting, seed, t, m, names[key], value, exact))
    columns = ["setting", "seed", "round", "m", "design", "error", "exact"]
    return pd.DataFrame(rows, columns=columns)


def test_errors_of_renewed_strata_are_relative_to_those_of_a_sketch_sent_once():
    errors = {"squeezed gradient": 0.2, "64 signed sums": 0.2, "last updates": 0.4}
    errors |= {"64 signed sums, then updates": 0.3, feature_errors.ORACLE: 0.1}
    rows = [("mnist", name, t, x) for name, x in errors.items() for t in (0, 10)]
    summary = pd.DataFrame(rows, columns=["setting", "features", "round", "mean"])
    table = ch09.tabulate_renewal(summary)
    assert table["strata from"].tolist() == list(errors)
    assert table["round 10"].tolist() == [f"{x:.3f}" for x in errors.values()]
    ratios = ch09.compare_renewal(summary).loc[("mnist", 10)]
    np.testing.assert_allclose(ratios[["renewed", "updates"]], [1.5, 2.0])


def test_a_design_is_listed_as_better_if_it_errs_less_in_every_partition():
    table = make_one_round_table("mnist", range(3), divfl=0.3, kmeans=0.45)
    assert one_rounds.list_better_designs(table, "mnist", 5) == ["divfl", "fedstas-unbiased"]
    worse = (table["design"] == "divfl") & (table["seed"] == 2) & (table["m"] == 5)
    table.loc[worse, "error"] = 0.6
    assert one_rounds.list_better_designs(table, "mnist", 5) == ["fedstas-unbiased"]
    assert (
        one_rounds.list_better_designs(make_one_round_table("cifar100", [4]), "cifar100", 5) == []
    )


def test_errors_above_md_are_counted_and_the_largest_is_returned():
    table = make_one_round_table("mnist-0.1", range(2))
    largest = (table["seed"] == 1) & (table["m"] == 10) & (table["round"] == 10)
    method = one_rounds.LEAST_VARIANCE_METHOD
    assert one_rounds.count_above_md(table, method)[:2] == (0, 8)
    table.loc[largest & (table["design"] == method), "exact"] = 1.04
    above, count, row = one_rounds.count_above_md(table, method)
    assert (above, count, row["exact"], row["seed"], row["round"]) == (1, 8, 1.04, 1, 10)


def test_the_table_of_a_setting_names_designs_in_words_and_omits_the_standard_error_of_one_partition():
    table = make_one_round_table("fashion-mnist", [0], divfl=0.25).assign(megabytes=[1.0] * 12)
    text = one_rounds.tabulate_errors(table, "fashion-mnist")
    names = ["least-variance strata (recommended)", "cut of the true updates", "DivFL (biased)"]
    assert text["design"].tolist() == names
    assert text["m = 5"].tolist() == ["0.5", "0.4", "0.25"]
    assert set(one_rounds.SETTING_TITLES) == set(one_rounds.SETTINGS)
    assert set(one_rounds.DESIGN_NAMES) == set(one_rounds.DESIGNS)


# Chapter 9's sentences on the gains with tuned rates


@pytest.fixture(scope="module")
def tuned_gains():
    """Return the gains with tuned rates that chapter 9 cites, by setting, method, reference and budget."""
    return ch09.compute_tuned_gains()


def test_gains_with_tuned_rates_are_those_of_chapter_10(tuned_gains):
    results = design_comparison.load_results({"mnist-0.1": protocol.read()["mnist-0.1"]})[
        "mnist-0.1"
    ]
    for arm, budget in product(("least-variance", "clustered-similarity"), ("small", "large")):
        of_chapter_10 = results.gain(arm, budget)[["gain", "low", "high"]].astype(float)
        of_chapter_9 = tuned_gains.loc[("mnist-0.1", arm, "md", budget), ["gain", "low", "high"]]
        np.testing.assert_allclose(of_chapter_9, of_chapter_10)


def test_the_price_of_asking_many_clients_is_a_model_and_a_squeezed_gradient_or_a_seed_and_64_sums():
    price, parameters = ch09.compute_costs_of_asking(), 784 * 50 + 50 + 50 * 10 + 10
    squeezed = 4 * parameters + parameters / 2 + 9 * 4  # down, and up: half a byte each, and levels
    # The participants of each round download the model anyway, and a few clients hold no data.
    assert price["asked"] == pytest.approx(1000 * squeezed / 1e6, rel=0.03)
    assert price["asked_mb"] == pytest.approx(1000 * (64 * 4 + 8) / 1e6)


INTERVALS = {"above 0": (0.1, 9.0), "contains 0": (-0.1, 9.0)}  # points of accuracy


@pytest.mark.parametrize(
    ("setting", "rival", "budget", "interval", "sentence"),
    [
        # early: least variance is ahead of MD at 240 MB (the small budget)
        ("fashion-mnist", "md", "small", "contains 0", "early"),
        # late: least variance is ahead of MD at 950 MB (the large budget) only on Fashion-MNIST
        ("mnist", "md", "large", "above 0", "late"),
        # equal: with equal sizes it is open whether least variance leads MD at 240 MB
        ("mnist-equal", "md", "small", "above 0", "equal"),
        # and at 950 MB its interval just excludes zero
        ("mnist-equal", "md", "large", "contains 0", "equal"),
        # corrected: least variance is surely ahead of k-means strata
        ("mnist", "fedstas-unbiased", "large", "contains 0", "corrected"),
        # similar: it is ahead of clustered sampling only on Fashion-MNIST at 950 MB
        ("mnist", "clustered-similarity", "small", "above 0", "similar"),
        # alike: where clients are more alike, no lead is sure
        ("mnist-0.1", "md", "large", "above 0", "alike"),
        # many: with 1,000 clients least variance is behind MD
        ("mnist-1000", "md", "large", "contains 0", "many"),
        # colour: on CIFAR-100 clustered sampling is ahead of MD, and least variance not surely
        ("cifar100-coarse", "md", "large", "above 0", "colour"),
    ],
)
def test_each_sentence_on_tuned_rates_depends_on_its_gains(
    tuned_gains, setting, rival, budget, interval, sentence
):
    """With the interval of one gain of least variance changed, the sentence on it is false, and no other."""
    assert all(ch09.check_tuned_gains(tuned_gains).values())
    changed = tuned_gains.copy()
    changed.loc[(setting, "least-variance", rival, budget), ["low", "high"]] = INTERVALS[interval]
    holds = ch09.check_tuned_gains(changed)
    assert [key for key in holds if not holds[key]] == [sentence]


def make_final_runs(**accuracies: list[float]) -> pd.DataFrame:
    """Return one evaluated round for each seed of methods with these final accuracies in %; all send as much."""
    rows = [
        (method.replace("_", "-"), seed, value / 100)
        for method, values in accuracies.items()
        for seed, value in enumerate(values)
    ]
    frame = pd.DataFrame(rows, columns=["method", "seed", "test_accuracy"])
    return frame.assign(round=1, rounds=1, megabytes=2.0, thousands=3.0)


def test_p_values_of_least_variance_against_its_rivals_are_corrected_over_all_places():
    """Of differences d to MD over three seeds, p = 1 - |t| / sqrt(2 + t^2) with t = sqrt(3) mean(d) / sd(d)."""
    md, rival, other = [60.0, 60.0, 60.0], [68.0, 70.0, 72.0], [58.0, 61.0, 64.0]
    frames = {
        ("a", 10): make_final_runs(
            md=md, clustered_similarity=rival, fedstas_least_variance=[69.9, 70.0, 70.1]
        ),
        ("b", 5): make_final_runs(md=md, fedstas_least_variance=other),
    }
    table = least_variance_results.compare_with_rivals(frames)
    assert list(zip(table["place"], table["m"], table["rival"], strict=True)) == [
        ("a", 10, "md"),
        ("a", 10, "clustered-similarity"),
        ("b", 5, "md"),
    ]
    np.testing.assert_allclose(table["difference"], [10, 0, 1], atol=1e-9)
    t = np.sqrt(3) * np.array([10 / 0.1, 0, 1 / 3])
    p = 1 - t / np.sqrt(2 + t**2)  # Student's law with two degrees of freedom
    np.testing.assert_allclose(table["p"], p, atol=1e-9)
    np.testing.assert_allclose(table["holm"], [3 * p[0], 1, 1], atol=1e-9)
    assert (table[["bytes", "examples"]] == 1).all(axis=None)
    assert ch09.list_significant_differences(table, "md", 10) == pytest.approx([10])
    assert ch09.list_significant_differences(table, "md", 5) == []
    assert ch09.list_significant_differences(table, "clustered-similarity", 10) == []


def test_only_significant_differences_of_strata_that_are_formed_once_are_listed():
    once, renewed = "fedstas-least-variance", "fedstas-least-variance, every 10 rounds"
    rows = [
        (once, "md", 10, 2.0, 0.049),
        (once, "md", 10, -3.0, 0.01),
        (once, "md", 10, 4.0, 0.05),
        (once, "md", 5, 5.0, 0.01),
        (once, "fedstas-unbiased", 10, 6.0, 0.01),
        (renewed, "md", 10, 7.0, 0.01),
    ]
    table = pd.DataFrame(rows, columns=["variant", "rival", "m", "difference", "holm"])
    assert ch09.list_significant_differences(table, "md", 10) == [2.0, -3.0]


@pytest.mark.parametrize("stem", ["09_what_we_would_write", "10b_own_loop"])
def test_the_loop_to_copy_runs_as_it_stands(stem):
    """With nothing but what the page says is the reader's; it comes near the mean of all clients."""
    notebooks = Path(__file__).resolve().parents[1] / "notebooks"
    source = (notebooks / f"{stem}.py").read_text(encoding="utf-8")
    (block,) = re.findall(r"# ```python\n((?:#.*\n)*?# chooser = .*\n(?:#.*\n)*?)# ```\n", source)
    points = np.random.default_rng(0).normal(size=(30, 80))
    names = {
        "sizes": [3] * 30,
        "data": [(point, [0, 1, 0]) for point in points],
        "model": np.zeros(80),
        "rounds": 100,
        "gradient": lambda model, client: model - client[0],
        "train": lambda model, client: 0.05 * (client[0] - model),
    }
    exec("\n".join(line[2:] for line in block.splitlines()), names)
    error = np.square(names.get("average", names["model"]) - points.mean(axis=0)).sum()
    assert names["chooser"].round == 100 and error < 0.3 * np.square(points.mean(axis=0)).sum()
