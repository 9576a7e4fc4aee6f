"""The statements of chapter 9 on sketches, collapsed strata, silence, rivals and several steps, by enumeration."""

from fractions import Fraction as Q
from itertools import combinations, product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedstas.theory import least_variance as lv

FEW_EXAMPLES = settings(max_examples=25, deadline=None)
integers = st.integers(-4, 4)


def shares(sizes) -> np.ndarray:
    """Return the clients' weights n_k / n, as Fractions [N]."""
    return np.array([Q(x, sum(sizes)) for x in sizes])


@FEW_EXAMPLES
@given(st.lists(st.tuples(integers, integers, integers), min_size=3, max_size=4), st.data())
def test_the_inside_sum_of_sketches_has_the_stated_mean_and_at_most_the_stated_deviation(u, data):
    """Over all 2^(r d) choices of signs, r = 2 and d = 3."""
    rows, u = 2, np.array(u)
    omega = shares(data.draw(st.lists(st.integers(1, 5), min_size=len(u), max_size=len(u))))
    labels = data.draw(st.sampled_from(list(lv.partitions(len(u), 2))))
    exact = lv.sum_within_strata(lv.pair_weights(omega, u.tolist()), labels)
    sums = []
    for signs in product((-1, 1), repeat=rows * u.shape[1]):
        sketches = u @ np.array(signs).reshape(u.shape[1], rows)
        pairs = lv.pair_weights(omega, sketches.tolist())
        sums.append(lv.sum_within_strata(pairs, labels) / rows)
    mean = sum(sums) / len(sums)
    assert mean == exact
    assert sum((x - mean) ** 2 for x in sums) / len(sums) <= Q(2, rows) * exact**2


def test_the_squared_length_of_a_sketch_has_the_stated_variance():
    x, rows = np.array([3, -1, 2]), 2
    squares = [
        Q(int(((x @ np.array(signs).reshape(3, rows)) ** 2).sum()), rows)
        for signs in product((-1, 1), repeat=3 * rows)
    ]
    mean = sum(squares) / len(squares)
    length = int(x @ x)
    assert mean == length
    variance = sum((s - mean) ** 2 for s in squares) / len(squares)
    assert variance == Q(2, rows) * (length**2 - int((x**4).sum()))


@FEW_EXAMPLES
@given(st.lists(st.tuples(integers, integers), min_size=6, max_size=6), st.data())
def test_collapsed_strata_are_above_the_variance_by_the_distance_of_the_strata_means(u, data):
    omega = shares(data.draw(st.lists(st.integers(1, 5), min_size=6, max_size=6)))
    u, labels = np.array(u), (0, 1, 0, 1, 2, 3)
    members = [np.flatnonzero(np.equal(labels, h)) for h in range(4)]
    mass = [omega[k].sum() for k in members]
    expectation = Q(0)
    for cohort in product(*members):
        parts = [w * u[k] for w, k in zip(mass, cohort, strict=True)]
        chance = prod(omega[k] / w for w, k in zip(mass, cohort, strict=True))
        estimate = sum(((parts[h] - parts[h + 1]) ** 2).sum() for h in (0, 2))
        expectation += chance * estimate
    means = [omega[k] @ u[k] for k in members]
    variance = lv.sum_within_strata(lv.pair_weights(omega, u.tolist()), labels)
    excess = sum(((means[h] - means[h + 1]) ** 2).sum() for h in (0, 2))
    assert expectation == variance + excess


def test_no_function_of_one_draw_from_a_stratum_of_two_has_the_variance_as_its_expectation():
    """For updates of 1 or -1 such a function would have to solve four equations that contradict each other."""
    omega = [Q(1, 2)] * 2
    variances = [
        lv.sum_within_strata(lv.pair_weights(omega, u), (0, 0)) for u in ([[1], [1]], [[1], [-1]])
    ]
    assert variances == [0, 1]
    # f_k(u) is the function's value where client k is drawn with update u. Twice the expectation:
    # f_1(1) + f_2(1) = 0, f_1(1) + f_2(-1) = 2, f_1(-1) + f_2(1) = 2, f_1(-1) + f_2(-1) = 0.
    system = np.array([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]])
    extended = np.column_stack([system, [0, 2, 2, 0]])
    assert np.linalg.matrix_rank(extended) > np.linalg.matrix_rank(system)


@FEW_EXAMPLES
@given(st.lists(st.tuples(integers, integers), min_size=4, max_size=4), st.data())
def test_silent_clients_with_unequal_rates_add_the_variance_of_the_proposition(u, data):
    omega = shares(data.draw(st.lists(st.integers(1, 5), min_size=4, max_size=4)))
    silent = data.draw(st.lists(st.sampled_from([Q(0), Q(1, 4), Q(1, 2)]), min_size=4, max_size=4))
    labels = data.draw(st.sampled_from(list(lv.partitions(4, 2))))
    x, p = lv.rows_of_strata(omega, labels)
    p = [[(1 - s) * v for s, v in zip(silent, row, strict=True)] for row in p]
    p = [[*row, 1 - sum(row)] for row in p]  # the last column: nobody answers
    mean, variance = lv.moments_by_enumeration([[*row, Q(0)] for row in x], p, [*u, (0, 0)])
    noise = [s / (1 - s) * (a * a + b * b) for s, (a, b) in zip(silent, u, strict=True)]
    pairs = lv.pair_weights(omega, u, None, noise)
    noise_of_drawn = sum(o * o * v for o, v in zip(omega, noise, strict=True))
    assert mean == [sum(o * v[i] for o, v in zip(omega, u, strict=True)) for i in (0, 1)]
    assert variance == lv.sum_within_strata(pairs, labels) + noise_of_drawn


def poisson_variance(omega, m: int) -> Q:
    """Return the variance of Poisson sampling with pi_k = m omega_k for orthonormal updates, over all 2^N cohorts."""
    mean, second = [Q(0)] * len(omega), Q(0)
    for takes_part in product((0, 1), repeat=len(omega)):
        chance = prod(m * o if t else 1 - m * o for o, t in zip(omega, takes_part, strict=True))
        second += chance * sum(takes_part) * Q(1, m * m)
        mean = [a + chance * Q(t, m) for a, t in zip(mean, takes_part, strict=True)]
    assert mean == list(omega)
    return second - sum(a * a for a in mean)


@pytest.mark.parametrize(
    ("sizes", "strata", "rival"),
    [((1, 1, 1), Q(2, 9), Q(1, 6)), ((3, 3, 3, 1), Q(24, 100), Q(22, 100))],
)
def test_poisson_sampling_beats_the_best_two_strata_of_orthonormal_updates(sizes, strata, rival):
    omega = shares(sizes)
    d = lv.pair_weights(omega, np.eye(len(sizes), dtype=int).tolist())
    inside = [lv.sum_within_strata(d, labels) for labels in lv.partitions(len(sizes), 2)]
    assert min(inside) == strata
    assert poisson_variance(omega, 2) == rival == Q(1, 2) - (omega**2).sum()


def test_distinct_clients_with_the_same_inclusion_probabilities_have_that_variance_too():
    """Weights .3, .3, .3, .1 and two participants: pairs of the first three with 4/15 each, the last with each of them
    1/15, so that pi = 2 omega."""
    omega, chances = shares((3, 3, 3, 1)), {}
    for pair in combinations(range(4), 2):
        chances[pair] = Q(1, 15) if 3 in pair else Q(4, 15)
    assert sum(chances.values()) == 1
    inclusion = [sum(c for pair, c in chances.items() if k in pair) for k in range(4)]
    assert inclusion == [2 * o for o in omega]
    # Orthonormal updates with weight 1/2 each: the squared length of the sum is 1/2 in every cohort.
    assert Q(1, 2) - (omega**2).sum() == Q(22, 100)


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("gamma", [0.01, 0.1, 0.25])
def test_the_descent_of_one_round_without_convexity(steps, gamma):
    """E F(w_t+1) <= F(w_t) - gamma/2 ((1 - c) |grad F|^2 - c D - gamma L V), with c = 25/48 gamma^2 L^2 (proof of Theorem 2″,
    chapter 9).

    gamma is the learning rate times the number of local steps, gamma^2 V the variance of the cohort's update, and D the
    weighted mean of |grad F_k - grad F|^2. Here one client is drawn from each of three strata, and
    F_k(w) = sum_i cos(a_ki w_i + b_ki) with |a_ki| <= 1, so that L = 1. Checked from 300 models w_t, over all cohorts.
    """
    rng = np.random.default_rng(steps)
    a, b = rng.uniform(-1, 1, (6, 2)), rng.uniform(0, 6, (6, 2))
    omega, labels = rng.dirichlet(np.ones(6)), np.array([0, 1, 0, 2, 1, 2])
    start = rng.uniform(-4, 4, (300, 2))

    def loss(w):  # [n, 2] -> [n]
        return np.cos(a * w[:, None] + b).sum(2) @ omega

    def gradients(w):  # [n, 6, 2] -> [n, 6, 2]
        return -a * np.sin(a * w + b)

    start_of_each = np.repeat(start[:, None], 6, axis=1)
    g, models = gradients(start_of_each), start_of_each
    for _ in range(steps):
        models = models - gamma / steps * gradients(models)
    u, mean_gradient = models - start_of_each, np.einsum("nkd,k->nd", g, omega)
    members = [np.flatnonzero(labels == h) for h in range(3)]
    mass = np.array([omega[k].sum() for k in members])
    expected_loss, second = np.zeros(300), np.zeros(300)
    for cohort in product(*members):
        chance = (omega[list(cohort)] / mass).prod()
        step = np.einsum("nhd,h->nd", u[:, list(cohort)], mass)
        expected_loss += chance * loss(start + step)
        second += chance * (step**2).sum(1)
    v = (second - (np.einsum("nkd,k->nd", u, omega) ** 2).sum(1)) / gamma**2
    heterogeneity = ((g - mean_gradient[:, None]) ** 2).sum(2) @ omega
    c = 25 / 48 * gamma**2
    descent = (1 - c) * (mean_gradient**2).sum(1) - c * heterogeneity - gamma * v
    assert (expected_loss <= loss(start) - gamma / 2 * descent + 1e-12).all()
