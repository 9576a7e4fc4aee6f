"""The statements of chapter 9 on strata of least variance, each by enumeration."""

from fractions import Fraction as Q
from itertools import combinations, permutations, product
from math import isclose, prod

import numpy as np
import pytest
from enumeration import enumerate_cohorts
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.runs import features
from fedstas import clustered, methods, partition, theory
from fedstas.errors import InputError
from fedstas.least_variance import LeastVariance
from fedstas.methods import LocalSGD
from fedstas.sim import one_round
from fedstas.theory import convergence as cv
from fedstas.theory import least_variance as lv

integers = st.integers(-4, 4)
WORLDS = st.integers(2, 5).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(1, 6), min_size=n, max_size=n),
        st.lists(st.tuples(integers, integers), min_size=n, max_size=n),
        st.lists(st.integers(1, 9), min_size=n, max_size=n),
    )
)
FEW_EXAMPLES = settings(max_examples=25, deadline=None)


def shares(sizes):
    """Return the clients' shares of the examples, omega [N]."""
    return [Q(x, sum(sizes)) for x in sizes]


def md_rows(omega, m):
    """Return m draws of MD sampling as rows of `lv.moments_by_enumeration`: contributions x and probabilities p, each [m, N].

    Client k, drawn with probability p[j][k] = omega_k in draw j, contributes x[j][k] / p[j][k] = 1/m of its update.
    """
    return [[o / m for o in omega]] * m, [list(omega)] * m


def variance_by_enumeration(x, p, updates):
    """Return the variance of the sum of the draws x, p [m, N], by enumerating all cohorts."""
    _, variance = lv.moments_by_enumeration(x, p, updates)
    return variance


def simplex(n):
    """Return n updates at the same distance from each other, the unit vectors."""
    return [[int(i == k) for i in range(n)] for k in range(n)]


def move_costs(d, labels, m):
    """Return the cost of each client k in each stratum h, [N, m]: the sum of d[k, j] over the others j there."""
    return [
        [sum(d[k, j] for j in range(len(d)) if j != k and labels[j] == h) for h in range(m)]
        for k in range(len(d))
    ]


# Unbiased, and the variance is a cut


@FEW_EXAMPLES
@given(WORLDS)
def test_every_partition_is_unbiased_and_its_variance_is_the_sum_over_pairs_within_strata(world):
    sizes, u, measure = world
    omega = shares(sizes)
    target = [sum(o * v[i] for o, v in zip(omega, u, strict=True)) for i in (0, 1)]
    for a in (None, measure):
        d = lv.pair_weights(omega, u, a)
        for labels in lv.partitions(len(u), 3):
            mean, variance = lv.moments_by_enumeration(*lv.rows_of_strata(omega, labels, a), u)
            assert mean == target
            assert variance == lv.sum_within_strata(d, labels)


@FEW_EXAMPLES
@given(WORLDS, st.integers(1, 3))
def test_the_variance_of_md_is_the_sum_over_all_pairs_divided_by_m(world, m):
    sizes, u, _ = world
    omega = shares(sizes)
    _, variance = lv.moments_by_enumeration(*md_rows(omega, m), u)
    assert variance == lv.sum_within_strata(lv.pair_weights(omega, u), [0] * len(u)) / m
    gram = np.array(u) @ np.array(u).T
    assert lv.variance_of(*md_rows(omega, m), gram) == pytest.approx(float(variance))


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"features": "gradients"}, (1, 1, 2, 1, 3)),
        ({"features": "gradients", "draws": "norm"}, (1, 1, 2, 1, 3)),
        ({"features": "gradients", "equal_clients": True}, (1,) * 5),
        ({"sketch_size": 2}, (1, 1, 2, 1, 3)),
        ({"sketch_size": 2, "draws": "norm"}, (1, 1, 2, 1, 3)),
        ({"sketch_size": 2, "epsilon": 1.0, "clip": 3.0}, (1, 1, 2, 1, 3)),
        ({"sketch_size": 2, "noise": True}, (1, 1, 2, 1, 3)),
        ({"sketch_size": 2, "equal_clients": True}, (1,) * 5),
        ({"features": "sketch+updates", "sketch_size": 2}, (1, 1, 2, 1, 3)),
        ({"features": "updates"}, (1, 1, 2, 1, 3)),
        ({"features": "labels"}, (1, 1, 2, 1, 3)),
        ({"features": "labels", "epsilon": 1.0}, (1, 1, 2, 1, 3)),
        ({"features": "output"}, (1, 1, 2, 1, 3)),
    ],
)
def test_the_packages_design_is_unbiased_for_updates_unrelated_to_its_features(
    view, view_without_sizes, options, sizes
):
    """Enumerate the cohorts; with equal clients the target is the plain mean, and no size may be read."""
    z = np.array([[8.0, 0], [4, 0], [2, 0], [0, 16], [0, 16]])
    view_class = view_without_sizes if "equal_clients" in options else view
    server, updates = view_class([1, 1, 2, 1, 3], z), [Q(4), Q(-2), Q(3), Q(5), Q(1)]
    server.last_updates = lambda: 3 * z[::-1] + 1  # of clients in reverse order, shifted
    mean = total = cohorts = 0
    for cohort, probability in enumerate_cohorts(LeastVariance(**options), server, 3):
        pairs = zip(cohort.weights, cohort.clients, strict=True)
        mean += probability * sum(Q(float(w)) * updates[k] for w, k in pairs)
        total, cohorts = total + probability, cohorts + 1
    assert cohorts > 1
    target = Q(sum(n * x for n, x in zip(sizes, updates, strict=True)), sum(sizes))
    assert isclose(total, 1, rel_tol=1e-14) and isclose(mean, target, rel_tol=1e-14)


# Never worse than MD


@FEW_EXAMPLES
@given(WORLDS, st.integers(2, 3))
def test_strata_that_no_move_of_a_client_improves_have_at_most_mds_variance(world, m):
    sizes, u, a = world
    d, n = lv.pair_weights(shares(sizes), u, a), len(u)
    all_pairs, local_optima = lv.sum_within_strata(d, [0] * n), 0
    for labels in lv.partitions(n, m):
        costs = move_costs(d, labels, m)
        if all(row[h] == min(row) for row, h in zip(costs, labels, strict=True)):
            local_optima += 1
            assert m * lv.sum_within_strata(d, labels) <= all_pairs
    assert local_optima


def test_strata_that_no_move_improves_can_have_mds_variance_where_the_best_have_none():
    omega, u = [Q(1, 4)] * 4, [[0], [1], [0], [1]]
    d = lv.pair_weights(omega, u)
    costs = move_costs(d, (0, 0, 1, 1), 2)
    assert all(row[h] == min(row) for row, h in zip(costs, (0, 0, 1, 1), strict=True))
    assert (
        lv.sum_within_strata(d, (0, 0, 1, 1))
        == Q(1, 8)
        == variance_by_enumeration(*md_rows(omega, 2), u)
    )
    assert lv.sum_within_strata(d, (0, 1, 0, 1)) == 0


@pytest.mark.parametrize("m", [2, 3])
def test_equal_strata_that_no_swap_improves_are_never_worse_than_distinct_clients(m):
    """Enumerate strata of equal numbers of six clients; for equal weights the bound is the variance of m distinct ones."""
    rng, local_optima = np.random.default_rng(m), 0
    for _ in range(6):
        sizes, u = rng.integers(1, 5, 6).tolist(), rng.integers(-3, 4, (6, 2)).tolist()
        for omega in (shares(sizes), [Q(1, 6)] * 6):
            d = lv.pair_weights(omega, u)
            bound = Q(6 - m, 5) * lv.sum_within_strata(d, [0] * 6) / m
            for labels in lv.partitions(6, m):
                if sorted(labels) != sorted(list(range(m)) * (6 // m)):
                    continue
                cost = lv.sum_within_strata(d, labels)
                swapped = []
                for k, j in combinations(range(6), 2):
                    changed = list(labels)
                    changed[k], changed[j] = labels[j], labels[k]
                    swapped.append(lv.sum_within_strata(d, changed))
                if cost <= min(swapped):
                    local_optima += 1
                    assert cost <= bound
        distinct = sum(theory.simple_random_variance([v[i] for v in u], m) for i in (0, 1))
        assert bound == distinct  # the last omega is the equal one
    assert local_optima >= 12  # at least one for each of six federations and two weightings
    simplex_pairs = lv.pair_weights([Q(1, 6)] * 6, simplex(6))
    labels = [k % m for k in range(6)]
    assert (
        lv.sum_within_strata(simplex_pairs, labels)
        == Q(6 - m, 5) * lv.sum_within_strata(simplex_pairs, [0] * 6) / m
    )


@FEW_EXAMPLES
@given(WORLDS, st.integers(2, 3))
def test_placing_clients_one_by_one_where_they_cost_least_is_never_worse_than_md(world, m):
    sizes, u, _ = world
    d = lv.pair_weights(shares(sizes), u)
    # The variance of MD sampling is the sum over all pairs, as of a single stratum, divided by m.
    for order in permutations(range(len(u))):
        labels: dict = {}
        for k in order:
            cost = [sum(d[k, j] for j in labels if labels[j] == h) for h in range(m)]
            labels[k] = cost.index(min(cost))
        assert m * lv.sum_within_strata(
            d, [labels[k] for k in range(len(u))]
        ) <= lv.sum_within_strata(d, [0] * len(u))


def test_greedy_merging_alone_can_be_worse_than_md_from_twelve_clients_on():
    def ratio(n):
        """Return the variance of greedily merged strata, relative to that of MD."""
        d = lv.pair_weights([Q(1, n)] * n, simplex(n))
        return lv.sum_within_strata(d, lv.merge_strata(d, 2)) / (
            lv.sum_within_strata(d, [0] * n) / 2
        )

    ratios = {n: ratio(n) for n in range(3, 13)}
    # Strata of four and eight equally distant clients have 6 + 28 pairs; MD has half of all 66.
    assert ratios[12] == Q(34, 33)
    assert max(ratios[n] for n in range(3, 12)) < 1


def test_the_optimum_of_k_means_can_be_worse_than_md():
    """On a simplex k-means cannot tell pairs of clusters apart; the worst of them has 6/5 of MD's variance.

    So have the clusters {1, 2} and {3} of three clients of sizes 3, 3, 1, which k-means does not weigh.
    """
    omega, u = [Q(1, 5)] * 5, simplex(5)
    d = lv.pair_weights(omega, u)

    def k_means_cost(labels):  # what k-means minimises: pairs of a cluster over its size
        groups = [[k for k in range(5) if labels[k] == h] for h in set(labels)]
        return sum(Q(2 * len(list(combinations(g, 2))), len(g)) for g in groups)

    two_clusters = [x for x in lv.partitions(5, 2) if max(x) == 1]
    assert {k_means_cost(labels) for labels in two_clusters} == {3}
    _, variance = lv.moments_by_enumeration(*md_rows(omega, 2), u)
    assert lv.sum_within_strata(d, (0, 0, 0, 0, 1)) / variance == Q(6, 5)
    assert min(lv.sum_within_strata(d, labels) for labels in two_clusters) / variance == Q(4, 5)
    d = lv.pair_weights(shares([3, 3, 1]), simplex(3))
    assert lv.sum_within_strata(d, (0, 0, 1)) / (lv.sum_within_strata(d, (0, 0, 0)) / 2) == Q(6, 5)


# The least of all independent draws


def test_no_independent_draws_have_less_variance_than_the_best_angular_cut():
    """Compare random contributions x [m, N], of any sign, with the best cut, and with x rounded client by client."""
    rng, above_optimum = np.random.default_rng(0), []
    for i in range(150):
        n, m = 3 + i % 4, 2 + i % 2
        omega, u = rng.dirichlet(np.ones(n)), rng.normal(size=(n, 1 + i % 3))
        gram = u @ u.T
        r = np.sqrt(gram.diagonal())
        angular = 2 * np.outer(omega, omega) * (np.outer(r, r) - gram)
        _, least = lv.best_partition(angular, m)
        x = rng.dirichlet(np.ones(m), size=n).T * omega
        if i % 2:
            x[0] -= 0.3 * omega
            x[1] += 0.3 * omega
        result = lv.variance_at_best_probabilities(x, gram)
        assert result >= least - 1e-12
        labels = lv.round_to_strata(x, gram, "norm")
        assert least - 1e-12 <= lv.sum_within_strata(angular, labels) <= result + 1e-12
        p = np.abs(x) * r
        p /= p.sum(1, keepdims=True)
        assert lv.variance_of(x, p, gram) == pytest.approx(result)
        assert lv.variance_of(x, (p + 1 / n) / 2, gram) >= result - 1e-12
        above_optimum.append(result > least * 1.01)
    assert np.mean(above_optimum) > 0.9  # the comparison is rarely with the optimum itself


def test_the_least_variance_agrees_with_enumerating_all_cohorts():
    """Lengths 5, 5, 13 and 10, exactly: strata {1, 2} and {3, 4}, draws by omega times length."""
    omega, u = shares([1, 2, 1, 2]), [[3, 4], [5, 0], [5, 12], [6, -8]]
    labels, lengths = (0, 0, 1, 1), [5, 5, 13, 10]
    measure = [o * r for o, r in zip(omega, lengths, strict=True)]
    x, p = lv.rows_of_strata(omega, labels, measure)
    _, variance = lv.moments_by_enumeration(x, p, u)
    assert variance == lv.sum_within_strata(lv.pair_weights(omega, u, measure), labels)
    gram = np.array(u) @ np.array(u).T
    assert lv.variance_at_best_probabilities(x, gram) == pytest.approx(float(variance))
    by_size = variance_by_enumeration(*lv.rows_of_strata(omega, labels), u)
    assert variance < by_size


@FEW_EXAMPLES
@given(WORLDS, st.integers(2, 3))
def test_draws_from_one_stratum_are_never_better_than_strata_of_one_draw_each(world, draws):
    sizes, u, a = world
    omega = shares(sizes)
    p = [Q(x, sum(a)) for x in a]
    without_strata = variance_by_enumeration([[o / draws for o in omega]] * draws, [p] * draws, u)
    d = lv.pair_weights(omega, u, a)
    assert min(lv.sum_within_strata(d, x) for x in lv.partitions(len(u), draws)) <= without_strata


def test_rounding_the_rows_of_clustered_sampling_or_md_never_raises_the_variance():
    rng, improved = np.random.default_rng(1), 0
    for i in range(60):
        n, m = 6, 2 + i % 3
        sizes, u = rng.integers(1, 9, n), rng.normal(size=(n, 2))
        omega, gram = sizes / sizes.sum(), u @ u.T
        d = np.array(lv.pair_weights(omega.tolist(), u.tolist()), dtype=float)
        groups = clustered.similarity_groups(u, sizes, m)
        for r in (
            clustered.by_size(sizes, m),
            clustered.by_groups(sizes, groups, m),
            np.tile(omega, (m, 1)),
        ):
            before = lv.variance_of(r / m, r, gram)
            after = float(lv.sum_within_strata(d, lv.round_to_strata(r / m, gram)))
            assert lv.best_partition(d, m)[1] - 1e-12 <= after <= before + 1e-12
            improved += after < 0.99 * before
    assert improved > 100  # of 180


# Noise


def noisy_variance(omega, u, tau, x, p, trains_again: bool) -> Q:
    """Return the variance over all cohorts and signs of the clients' noise, which is -tau or tau.

    A client drawn twice trains twice, with independent noise, if `trains_again`; else both draws share its update.
    """
    n, m, mean, mean_square = len(u), len(x), Q(0), Q(0)
    signs = list(product((-1, 1), repeat=m if trains_again else n))
    for cohort in product(range(n), repeat=m):
        p_cohort = prod((p[j][k] for j, k in enumerate(cohort)), start=Q(1))
        if not p_cohort:
            continue
        for sign in signs:
            noise = [sign[j if trains_again else k] * tau[k] for j, k in enumerate(cohort)]
            total = sum(
                x[j][k] / p[j][k] * (u[k] + e)
                for (j, k), e in zip(enumerate(cohort), noise, strict=True)
            )
            mean += p_cohort * total / len(signs)
            mean_square += p_cohort * total**2 / len(signs)
    return mean_square - mean**2


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
    st.lists(integers, min_size=3, max_size=3),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
)
def test_the_noise_of_clients_adds_to_the_cost_of_pairs_and_a_constant(sizes, u, tau, a):
    omega, noise_variance, m = shares(sizes), [Q(t) ** 2 for t in tau], 2
    constant = sum(o * o * v for o, v in zip(omega, noise_variance, strict=True))
    points = [[x] for x in u]
    for measure in (None, a):
        d = lv.pair_weights(omega, points, measure, noise_variance)
        for labels in lv.partitions(3, 2):
            x, p = lv.rows_of_strata(omega, labels, measure)
            assert (
                noisy_variance(omega, u, tau, x, p, trains_again=True)
                == lv.sum_within_strata(d, labels) + constant
            )
    d = lv.pair_weights(omega, points, None, noise_variance)
    all_pairs = lv.sum_within_strata(d, [0] * 3)
    with_shared_updates, trained_again = (
        noisy_variance(omega, u, tau, *md_rows(omega, m), trains_again)
        for trains_again in (False, True)
    )
    assert with_shared_updates == all_pairs / m + constant
    assert trained_again == (all_pairs + constant) / m
    best_strata = min(lv.sum_within_strata(d, labels) for labels in lv.partitions(3, 2)) + constant
    assert best_strata <= with_shared_updates == trained_again + (1 - Q(1, m)) * constant


def test_with_noise_strata_can_be_worse_than_md_whose_repeated_draws_train_again():
    """Two clients of weights 2/3 and 1/3 with equal updates and noise of variance 1; then one client alone."""
    omega, tau = [Q(2, 3), Q(1, 3)], [Q(1)] * 2
    x, p = lv.rows_of_strata(omega, (0, 1))
    assert noisy_variance(omega, [0, 0], tau, x, p, trains_again=True) == Q(5, 9)
    assert noisy_variance(omega, [0, 0], tau, *md_rows(omega, 2), trains_again=True) == Q(1, 2)
    x, p = lv.rows_of_strata([1], (0,))
    assert noisy_variance([Q(1)], [0], [Q(1)], x, p, trains_again=True) == 1
    assert noisy_variance([Q(1)], [0], [Q(1)], *md_rows([Q(1)], 2), trains_again=True) == Q(1, 2)


def test_a_cut_that_ignores_noise_can_be_worse_than_md_whose_repeated_draws_share_an_update():
    """Three equal updates: a cut that ignores the noise may put all three in one stratum, which costs 1, not 5/9."""
    omega, tau = [Q(1, 3)] * 3, [Q(1)] * 3
    x, p = lv.rows_of_strata(omega, (0, 0, 0))
    assert noisy_variance(omega, [0] * 3, tau, x, p, trains_again=True) == 1
    assert noisy_variance(omega, [0] * 3, tau, *md_rows(omega, 3), trains_again=False) == Q(5, 9)
    d = lv.pair_weights(omega, [[0]] * 3, None, [1] * 3)
    assert lv.sum_within_strata(d, (0, 1, 2)) == 0 < lv.sum_within_strata(d, (0, 0, 1))


# Clients that do not answer


def add_silence(x, p, drop, factor):
    """Return rows x, p with one client more, nobody, to which each draw falls with probability `drop`."""
    contributions = [[factor * (1 - drop) * v for v in row] + [Q(0)] for row in x]
    return contributions, [[(1 - drop) * v for v in row] + [drop] for row in p]


@FEW_EXAMPLES
@given(WORLDS, st.sampled_from([Q(1, 10), Q(1, 2)]))
def test_silent_clients_add_noise_in_proportion_to_the_squared_length_of_their_updates(world, drop):
    """Enumerate cohorts and silent clients. Without the remedy (weights over 1 - drop) the mean is 1 - drop of the full
    update; with it there is no bias, and the variance is that of noise drop / (1 - drop) times the squared length."""
    sizes, u, measure = world
    omega, updates_and_nobody = shares(sizes), [*u, (0, 0)]
    full_update = [sum(o * v[i] for o, v in zip(omega, u, strict=True)) for i in (0, 1)]
    lengths = [Q(v[0] ** 2 + v[1] ** 2) for v in u]
    noise = [drop / (1 - drop) * r for r in lengths]
    gram, noise_array = np.array(u) @ np.array(u).T, np.array(noise, dtype=float)
    designs = [
        md_rows(omega, 2),
        *(lv.rows_of_strata(omega, labels, measure) for labels in lv.partitions(len(u), 2)),
    ]
    for x, p in designs:
        mean_without_remedy, _ = lv.moments_by_enumeration(
            *add_silence(x, p, drop, 1), updates_and_nobody
        )
        assert mean_without_remedy == [(1 - drop) * v for v in full_update]
        mean, variance = lv.moments_by_enumeration(
            *add_silence(x, p, drop, 1 / (1 - drop)), updates_and_nobody
        )
        assert mean == full_update
        terms = (
            (a * a / b, r)
            for i, j in zip(x, p, strict=True)
            for a, b, r in zip(i, j, noise, strict=True)
            if b
        )
        assert variance == variance_by_enumeration(x, p, u) + sum(w * r for w, r in terms)
        assert lv.variance_of(x, p, gram, noise_array) == pytest.approx(float(variance))


def test_silent_clients_can_cost_strata_more_than_md():
    omega, updates_and_nobody = [Q(2, 3), Q(1, 3)], [[1], [1], [0]]
    for (x, p), exact in (
        (lv.rows_of_strata(omega, (0, 1)), Q(5, 9)),
        (md_rows(omega, 2), Q(1, 2)),
    ):
        assert lv.moments_by_enumeration(*add_silence(x, p, Q(1, 2), 2), updates_and_nobody) == (
            [1],
            exact,
        )


def test_the_measured_error_with_silent_clients_agrees_with_the_theory(digits):
    """All four clients are drawn, with weights omega: only silence and the clients' noise are random."""
    federation = partition.dirichlet(digits.train_y, 4, 1.0, 0)
    state = one_round.state_after(digits, federation, clients_per_round=4, local=LocalSGD(lr=0.1))
    drop, all_clients = 0.25, methods.get("fedstas-least-variance")
    result = one_round.errors(state, all_clients, draws=4000, drop=drop)
    squared_lengths = state.omega**2 @ (state.gram.diagonal() + state.noise)
    full_update_squared = state.omega @ state.gram @ state.omega
    variance_of_silence = drop / (1 - drop) * squared_lengths + state.omega**2 @ state.noise
    assert result["remedied"] == pytest.approx(variance_of_silence / state.md_error, rel=0.05)
    unremedied = (1 - drop) ** 2 * variance_of_silence + drop**2 * full_update_squared
    assert abs(result["error"] - unremedied / state.md_error) < 4 * result["se"]
    assert result["bias"] == pytest.approx(
        drop * np.sqrt(full_update_squared / state.md_error), rel=0.05
    )
    assert "remedied" not in one_round.errors(state, all_clients, draws=2)


# Features that are not the updates


def test_the_bound_for_features_holds_for_all_partitions():
    rng = np.random.default_rng(2)
    for i in range(40):
        n, m = 3 + i % 4, 2 + i % 2
        omega, z = rng.dirichlet(np.ones(n)), rng.normal(size=(n, 2))
        u = (-1) ** i * 3 * z + (i % 5) * rng.normal(size=(n, 2))
        for labels in lv.partitions(n, m):
            result = lv.features_bound(omega, labels, z @ z.T, z @ u.T, u @ u.T, m)
            md_variance = lv.variance_of(*md_rows(omega, m), u @ u.T)
            exact = lv.variance_of(*lv.rows_of_strata(omega, labels), u @ u.T)
            assert result.ratio == pytest.approx(exact / md_variance)
            assert result.ratio <= result.bound * (1 + 1e-9) + 1e-12
            weight = max(
                sum(o for o, h in zip(omega, labels, strict=True) if h == j) for j in range(m)
            )
            assert result.bound <= result.rho + m * weight + 1e-9  # this holds for any eps
            if i % 5 == 0:
                assert result.eps < 1e-6 and result.ratio == pytest.approx(result.rho)


def test_the_bound_does_not_depend_on_the_scale_of_the_features_and_uses_the_best_factor():
    rng = np.random.default_rng(5)
    omega, z = rng.dirichlet(np.ones(6)), rng.normal(size=(6, 3))
    u, labels = z + rng.normal(size=(6, 3)), [0, 0, 1, 1, 2, 2]
    bound = lv.features_bound(omega, labels, z @ z.T, z @ u.T, u @ u.T, 3)
    scaled = lv.features_bound(omega, labels, 49 * z @ z.T, -7 * z @ u.T, u @ u.T, 3)
    assert scaled == pytest.approx(bound)
    md_variance = lv.variance_of(*md_rows(omega, 3), u @ u.T)
    residuals = [
        lv.variance_of(*md_rows(omega, 3), (u - c * z) @ (u - c * z).T) / md_variance
        for c in np.linspace(-3, 3, 601)
    ]
    assert (
        min(residuals) == pytest.approx(bound.eps**2, abs=1e-4)
        and min(residuals) >= bound.eps**2 - 1e-12
    )


def test_draws_by_wrong_norms_can_be_worse_than_md_without_bound():
    """Two equal updates: MD has no error, draws by the wrong lengths 1 and 2 have the variance 1/8."""
    omega = [Q(1, 2)] * 2
    x, p = lv.rows_of_strata(omega, (0, 0), [1, 2])
    assert variance_by_enumeration(x, p, [[1], [1]]) == Q(1, 8)
    assert variance_by_enumeration(*md_rows(omega, 1), [[1], [1]]) == 0


# How hard, and how near


@pytest.mark.parametrize(("vertices", "m"), [(3, 2), (4, 2), (3, 3)])
def test_the_best_strata_of_a_graphs_clients_are_a_maximum_cut_of_the_graph(vertices, m):
    possible_edges = list(combinations(range(vertices), 2))
    graphs = [e for i in range(1, len(possible_edges) + 1) for e in combinations(possible_edges, i)]
    for edges in graphs[:: 1 if vertices == 3 else 9]:
        u = np.array(lv.updates_from_graph(edges, vertices, m))
        gram = u @ u.T
        # Equal lengths: the angular cut is the cut of the distances.
        assert len(set(gram.diagonal().tolist())) == 1
        squares = gram.diagonal()
        labels, _ = lv.best_partition(squares[:, None] + squares - 2 * gram, m)
        cut = sum(labels[k] != labels[j] for k, j in edges)
        assert cut == max(
            sum(h[k] != h[j] for k, j in edges) for h in product(range(m), repeat=vertices)
        )
        assert np.bincount(labels).tolist() == [vertices] * m


def test_partitions_are_enumerated_completely():
    counts = {(3, 3): 5, (5, 2): 16, (5, 5): 52, (10, 4): 43947}
    assert {key: sum(1 for _ in lv.partitions(*key)) for key in counts} == counts
    d = lv.pair_weights([Q(1, 4)] * 4, [[0], [1], [0], [1]])
    labels, value = lv.best_partition(d, 2)
    assert labels.tolist() == [0, 1, 0, 1] and value == 0


def test_the_search_finds_the_best_of_all_partitions_in_nine_of_ten_federations():
    result = {
        (n, m): lv.measure_search(n, m, 30, np.random.default_rng(n))
        for n, m in ((7, 3), (10, 2), (10, 4))
    }
    assert all(g.optimal >= 0.9 and g.worst >= 1 - 1e-12 and g.of_md < 1 for g in result.values())


# Without replacement


@pytest.mark.parametrize("n", range(2, 8))
def test_on_a_simplex_distinct_clients_are_better_unless_m_divides_n(n):
    omega, u = [Q(1, n)] * n, simplex(n)
    d = lv.pair_weights(omega, u)
    for m in range(1, n + 1):
        distinct = n * theory.simple_random_variance([1] + [0] * (n - 1), m)
        best_strata = min(lv.sum_within_strata(d, labels) for labels in lv.partitions(n, m))
        remainder = n % m
        if m < n:
            assert best_strata / distinct == 1 + Q(remainder * (m - remainder), n * (n - m))
        else:
            assert best_strata == distinct == 0
        if (n, m) == (3, 2):
            assert (distinct, best_strata) == (Q(1, 6), Q(2, 9))


# The rate that follows


def test_the_error_of_strata_is_below_the_theorems_bound_and_the_moments_are_those_of_all_cohorts():
    centres, curvatures = np.array([0.0, 1, 3, 8, 9]), np.array([1.0, 2, 1, 3, 1])
    omega, labels = np.array([1, 2, 1, 3, 1]) / 8, np.array([0, 0, 1, 2, 2])
    world = cv.Quadratics(curvatures[:, None, None], centres[:, None, None], omega)
    design = lv.moments(omega, labels)
    x, p = lv.rows_of_strata(omega.tolist(), labels.tolist())
    mean_square = np.zeros((5, 5))
    for cohort in product(*([k for k in range(5) if row[k]] for row in p)):
        contributions = np.zeros(5)
        contributions[list(cohort)] = [float(x[j][k] / p[j][k]) for j, k in enumerate(cohort)]
        mean_square += float(prod(p[j][k] for j, k in enumerate(cohort))) * np.outer(
            contributions, contributions
        )
    np.testing.assert_allclose(design.square, mean_square, atol=1e-12)
    distance = float(world.minimiser.item() ** 2)
    bound = lv.convergence_bound(world, labels, 400, distance)
    result = cv.errors(world, design, bound.lrs, [[0.0]])[0]
    assert (result <= bound.distance * (1 + 1e-9)).all()
    rates = np.full(400, 1 / bound.smoothness)
    bound_of_constant_rate = (1 - rates[0] * world.convexity) ** np.arange(401) * distance
    bound_of_constant_rate += 2 * rates[0] * bound.variance / world.convexity
    assert (
        cv.errors(world, design, rates, [[0.0]])[0] <= bound_of_constant_rate * (1 + 1e-9)
    ).all()


def test_the_error_of_features_grows_with_the_squeeze_and_with_their_age(digits, federation):
    """Features are squeezed gradients: with 256 levels they nearly are the updates; fewer levels, older gradients add error."""
    one_full_step = LocalSGD(steps=1, batch=10_000, lr=0.1)
    state = one_round.state_after(
        digits, federation, local=one_full_step, clients_per_round=5, device="cpu"
    )
    state_of_round_10 = one_round.state_after(
        digits, federation, rounds=10, local=one_full_step, clients_per_round=5, device="cpu"
    )

    def compute_bound(*args, **options):
        """Return the bound for features at a state, after checking it."""
        result = lv.features_bound(
            state.omega, *features.products(*args, **options), args[0].gram, 5
        )
        assert result.ratio <= result.bound and result.ratio < 1
        return result

    from_256_levels, from_9_levels, from_earlier_round = (
        compute_bound(state, levels=256),
        compute_bound(state),
        compute_bound(state_of_round_10, state),
    )
    assert from_256_levels.eps < 0.05 < from_9_levels.eps < from_earlier_round.eps < 1
    assert from_256_levels.ratio == pytest.approx(from_256_levels.rho, rel=0.1)
    labels = features.products(state)[0]
    exact = lv.variance_of(*lv.rows_of_strata(state.omega.tolist(), labels.tolist()), state.gram)
    md_variance = lv.variance_of(*md_rows(state.omega, 5), state.gram)
    assert from_9_levels.ratio == pytest.approx(exact / md_variance)
    state_of_8_clients = one_round.state_after(
        digits, partition.dirichlet(digits.train_y, 8, 0.1, 0), clients_per_round=5, device="cpu"
    )
    with pytest.raises(InputError, match="8 clients and the later 19"):
        features.products(state, state_of_8_clients)
