"""The statements of chapter 9 on strata of least variance, each by enumeration."""

from fractions import Fraction as Q
from itertools import combinations, permutations, product
from math import isclose, prod

import numpy as np
import pytest
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

whole = st.integers(-4, 4)
WORLDS = st.integers(2, 5).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(1, 6), min_size=n, max_size=n),
        st.lists(st.tuples(whole, whole), min_size=n, max_size=n),
        st.lists(st.integers(1, 9), min_size=n, max_size=n),
    )
)
few = settings(max_examples=25, deadline=None)


def shares(sizes):
    return [Q(x, sum(sizes)) for x in sizes]


def md(omega, m):
    """MD sampling as rows x, p."""
    return [[o / m for o in omega]] * m, [list(omega)] * m


def simplex(n):
    """Updates at the same distance from each other."""
    return [[int(i == k) for i in range(n)] for k in range(n)]


def with_moves(d, labels, m):
    """What each client k costs in each stratum [N][m], beside the others there."""
    return [
        [sum(d[k, j] for j in range(len(d)) if j != k and labels[j] == h) for h in range(m)]
        for k in range(len(d))
    ]


# Unbiased, and the variance is a cut


@few
@given(WORLDS)
def test_every_partition_is_unbiased_and_its_variance_is_that_of_its_pairs(world):
    sizes, u, measure = world
    omega = shares(sizes)
    target = [sum(o * v[i] for o, v in zip(omega, u, strict=True)) for i in (0, 1)]
    for a in (None, measure):
        d = lv.pair_weights(omega, u, a)
        for labels in lv.partitions(len(u), 3):
            mean, variance = lv.moments_by_enumeration(*lv.rows_of_strata(omega, labels, a), u)
            assert mean == target
            assert variance == lv.sum_within_strata(d, labels)


@few
@given(WORLDS, st.integers(1, 3))
def test_md_has_the_mth_part_of_all_pairs(world, m):
    sizes, u, _ = world
    omega = shares(sizes)
    _, variance = lv.moments_by_enumeration(*md(omega, m), u)
    assert variance == lv.sum_within_strata(lv.pair_weights(omega, u), [0] * len(u)) / m
    gram = np.array(u) @ np.array(u).T
    assert lv.variance_of(*md(omega, m), gram) == pytest.approx(float(variance))


class Script:
    """A generator that plays given outcomes of `choice` and notes what was asked."""

    def __init__(self, outcomes=()):
        self.outcomes, self.asked = list(outcomes), []

    def choice(self, pool, p):
        self.asked.append((pool, p))
        return pool[self.outcomes.pop(0)] if self.outcomes else pool[0]


@pytest.mark.parametrize(
    ("how", "sizes"),
    [
        ({}, (1, 1, 2, 1, 3)),
        ({"draws": "norm"}, (1, 1, 2, 1, 3)),
        ({"equal_clients": True}, (1,) * 5),
    ],
)
def test_the_packages_own_draw_is_unbiased_for_features_that_have_nothing_to_do_with_updates(
    view, blind, how, sizes
):
    """With equal clients for the plain mean, on a server that refuses to tell a size."""
    z = np.array([[8.0, 0], [4, 0], [2, 0], [0, 16], [0, 16]])
    made = blind if "equal_clients" in how else view
    server, updates = made([1, 1, 2, 1, 3], z), [Q(4), Q(-2), Q(3), Q(5), Q(1)]
    server.last_updates = lambda: 3 * z[::-1] + 1  # what sets tau: of other clients
    design, mean, total, probe = LeastVariance(**how), Q(0), Q(0), Script()
    design.draw(server, 3, probe)
    assert max(len(pool) for pool, _ in probe.asked) > 1
    for way in product(*(range(len(pool)) for pool, _ in probe.asked)):
        cohort = design.draw(server, 3, Script(way))
        chance = prod((Q(float(p[i])) for (_, p), i in zip(probe.asked, way, strict=True)))
        drawn = zip(cohort.weights, cohort.clients, strict=True)
        mean, total = (
            mean + chance * sum(Q(float(w)) * updates[k] for w, k in drawn),
            total + chance,
        )
    target = Q(sum(n * x for n, x in zip(sizes, updates, strict=True)), sum(sizes))
    assert isclose(total, 1, rel_tol=1e-14) and isclose(mean, target, rel_tol=1e-14)


# Never worse than MD


@few
@given(WORLDS, st.integers(2, 3))
def test_where_no_single_move_gains_the_mth_part_of_all_pairs_is_not_exceeded(world, m):
    sizes, u, a = world
    d, n = lv.pair_weights(shares(sizes), u, a), len(u)
    every, optimal = lv.sum_within_strata(d, [0] * n), 0
    for labels in lv.partitions(n, m):
        costs = with_moves(d, labels, m)
        if all(row[h] == min(row) for row, h in zip(costs, labels, strict=True)):
            optimal += 1
            assert m * lv.sum_within_strata(d, labels) <= every
    assert optimal


def test_the_factor_one_is_attained_while_the_best_strata_leave_nothing():
    omega, u = [Q(1, 4)] * 4, [[0], [1], [0], [1]]
    d = lv.pair_weights(omega, u)
    costs = with_moves(d, (0, 0, 1, 1), 2)
    assert all(row[h] == min(row) for row, h in zip(costs, (0, 0, 1, 1), strict=True))
    assert (
        lv.sum_within_strata(d, (0, 0, 1, 1))
        == Q(1, 8)
        == lv.moments_by_enumeration(*md(omega, 2), u)[1]
    )
    assert lv.sum_within_strata(d, (0, 1, 0, 1)) == 0


@pytest.mark.parametrize("m", [2, 3])
def test_where_no_swap_gains_equal_numbers_are_never_worse_than_distinct_clients(m):
    """Of six clients, any weights; for equal ones the bound is the variance of m distinct clients."""
    rng, seen = np.random.default_rng(m), 0
    for _ in range(6):
        sizes, u = rng.integers(1, 5, 6).tolist(), rng.integers(-3, 4, (6, 2)).tolist()
        for omega in (shares(sizes), [Q(1, 6)] * 6):
            d = lv.pair_weights(omega, u)
            bound = Q(6 - m, 5) * lv.sum_within_strata(d, [0] * 6) / m
            for labels in lv.partitions(6, m):
                if sorted(labels) != sorted(list(range(m)) * (6 // m)):
                    continue
                now = lv.sum_within_strata(d, labels)
                swapped = []
                for k, j in combinations(range(6), 2):
                    other = list(labels)
                    other[k], other[j] = labels[j], labels[k]
                    swapped.append(lv.sum_within_strata(d, other))
                if now <= min(swapped):
                    seen += 1
                    assert now <= bound
        distinct = sum(theory.simple_random([v[i] for v in u], m) for i in (0, 1))
        assert bound == distinct  # the last omega is the equal one
    assert seen >= 12
    even = lv.pair_weights([Q(1, 6)] * 6, simplex(6))
    labels = [k % m for k in range(6)]
    assert (
        lv.sum_within_strata(even, labels) == Q(6 - m, 5) * lv.sum_within_strata(even, [0] * 6) / m
    )


@few
@given(WORLDS, st.integers(2, 3))
def test_placing_each_client_where_it_costs_least_is_enough(world, m):
    sizes, u, _ = world
    d = lv.pair_weights(shares(sizes), u)
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
        d = lv.pair_weights([Q(1, n)] * n, simplex(n))
        return lv.sum_within_strata(d, lv.merge_strata(d, 2)) / (
            lv.sum_within_strata(d, [0] * n) / 2
        )

    ratios = {n: ratio(n) for n in range(3, 13)}
    assert ratios[12] == Q(34, 33)
    assert max(ratios[n] for n in range(3, 12)) < 1


def test_the_optimum_of_k_means_can_be_worse_than_md():
    """Equal weights: on a simplex of five all pairs of clusters are as good for k-means. Clients of size
    3, 3, 1, all as far apart, and a k-means that does not know sizes: three are enough."""
    omega, u = [Q(1, 5)] * 5, simplex(5)
    d = lv.pair_weights(omega, u)

    def within(labels):  # what k-means minimises: pairs of a cluster over its size
        groups = [[k for k in range(5) if labels[k] == h] for h in set(labels)]
        return sum(Q(2 * len(list(combinations(g, 2))), len(g)) for g in groups)

    two = [x for x in lv.partitions(5, 2) if max(x) == 1]
    assert {within(labels) for labels in two} == {3}
    _, variance = lv.moments_by_enumeration(*md(omega, 2), u)
    assert lv.sum_within_strata(d, (0, 0, 0, 0, 1)) / variance == Q(6, 5)
    assert min(lv.sum_within_strata(d, labels) for labels in two) / variance == Q(4, 5)
    d = lv.pair_weights(shares([3, 3, 1]), simplex(3))
    assert lv.sum_within_strata(d, (0, 0, 1)) / (lv.sum_within_strata(d, (0, 0, 0)) / 2) == Q(6, 5)


# The least of all independent draws


def test_no_independent_draws_have_less_variance_than_the_best_angular_cut():
    """Contributions of any sign, and rounding client by client never raises their least variance."""
    rng, below = np.random.default_rng(0), []
    for i in range(150):
        n, m = 3 + i % 4, 2 + i % 2
        omega, u = rng.dirichlet(np.ones(n)), rng.normal(size=(n, 1 + i % 3))
        gram = u @ u.T
        r = np.sqrt(gram.diagonal())
        angular = 2 * np.outer(omega, omega) * (np.outer(r, r) - gram)
        _, bottom = lv.best_partition(angular, m)
        x = rng.dirichlet(np.ones(m), size=n).T * omega
        if i % 2:
            x[0] -= 0.3 * omega
            x[1] += 0.3 * omega
        result = lv.variance_at_best_probabilities(x, gram)
        assert result >= bottom - 1e-12
        labels = lv.round_to_strata(x, gram, "norm")
        assert bottom - 1e-12 <= lv.sum_within_strata(angular, labels) <= result + 1e-12
        p = np.abs(x) * r
        p /= p.sum(1, keepdims=True)
        assert lv.variance_of(x, p, gram) == pytest.approx(result)
        assert lv.variance_of(x, (p + 1 / n) / 2, gram) >= result - 1e-12
        below.append(result > bottom * 1.01)
    assert np.mean(below) > 0.9


def test_the_least_variance_is_that_of_all_cohorts():
    """Lengths 5, 5, 13 and 10, exactly: strata {1, 2} and {3, 4}, draws by omega times length."""
    omega, u = shares([1, 2, 1, 2]), [[3, 4], [5, 0], [5, 12], [6, -8]]
    labels, lengths = (0, 0, 1, 1), [5, 5, 13, 10]
    measure = [o * r for o, r in zip(omega, lengths, strict=True)]
    x, p = lv.rows_of_strata(omega, labels, measure)
    _, variance = lv.moments_by_enumeration(x, p, u)
    assert variance == lv.sum_within_strata(lv.pair_weights(omega, u, measure), labels)
    gram = np.array(u) @ np.array(u).T
    assert lv.variance_at_best_probabilities(x, gram) == pytest.approx(float(variance))
    by_size = lv.moments_by_enumeration(*lv.rows_of_strata(omega, labels), u)[1]
    assert variance < by_size


@few
@given(WORLDS, st.integers(2, 3))
def test_seats_in_a_stratum_are_never_better_than_strata_of_one_seat(world, seats):
    sizes, u, a = world
    omega = shares(sizes)
    p = [Q(x, sum(a)) for x in a]
    again = lv.moments_by_enumeration([[o / seats for o in omega]] * seats, [p] * seats, u)[1]
    d = lv.pair_weights(omega, u, a)
    assert min(lv.sum_within_strata(d, x) for x in lv.partitions(len(u), seats)) <= again


def test_rounding_the_rows_of_clustered_sampling_or_md_never_raises_the_variance():
    rng, gained = np.random.default_rng(1), 0
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
            gained += after < 0.99 * before
    assert gained > 100


# Noise


def noisy(omega, u, tau, x, p, again: bool) -> Q:
    """The variance over cohorts and two-valued noise -tau or tau; a client drawn twice trains `again` or not."""
    n, m, first, second = len(u), len(x), Q(0), Q(0)
    signs = list(product((-1, 1), repeat=m if again else n))
    for cohort in product(range(n), repeat=m):
        chance = prod((p[j][k] for j, k in enumerate(cohort)), start=Q(1))
        if not chance:
            continue
        for sign in signs:
            own = [sign[j if again else k] * tau[k] for j, k in enumerate(cohort)]
            total = sum(
                x[j][k] / p[j][k] * (u[k] + e)
                for (j, k), e in zip(enumerate(cohort), own, strict=True)
            )
            first, second = (
                first + chance * total / len(signs),
                second + chance * total**2 / len(signs),
            )
    return second - first**2


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
    st.lists(whole, min_size=3, max_size=3),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
)
def test_noise_adds_to_the_pairs_and_a_constant(sizes, u, tau, a):
    omega, own, m = shares(sizes), [Q(t) ** 2 for t in tau], 2
    constant = sum(o * o * v for o, v in zip(omega, own, strict=True))
    points = [[x] for x in u]
    for measure in (None, a):
        d = lv.pair_weights(omega, points, measure, own)
        for labels in lv.partitions(3, 2):
            x, p = lv.rows_of_strata(omega, labels, measure)
            assert noisy(omega, u, tau, x, p, True) == lv.sum_within_strata(d, labels) + constant
    d = lv.pair_weights(omega, points, None, own)
    every = lv.sum_within_strata(d, [0] * 3)
    shared, anew = (noisy(omega, u, tau, *md(omega, m), again) for again in (False, True))
    assert shared == every / m + constant
    assert anew == (every + constant) / m
    ours = min(lv.sum_within_strata(d, labels) for labels in lv.partitions(3, 2)) + constant
    assert ours <= shared == anew + (1 - Q(1, m)) * constant


def test_with_noise_the_strata_can_be_worse_than_md_that_trains_anew():
    """Two clients, weights 2/3 and 1/3, equal updates, variance 1; and one client alone, where the bound is met."""
    omega, one = [Q(2, 3), Q(1, 3)], [Q(1)] * 2
    x, p = lv.rows_of_strata(omega, (0, 1))
    assert noisy(omega, [0, 0], one, x, p, True) == Q(5, 9)
    assert noisy(omega, [0, 0], one, *md(omega, 2), True) == Q(1, 2)
    x, p = lv.rows_of_strata([1], (0,))
    assert noisy([Q(1)], [0], [Q(1)], x, p, True) == 1
    assert noisy([Q(1)], [0], [Q(1)], *md([Q(1)], 2), True) == Q(1, 2)


def test_the_plain_pairs_can_lose_to_md_even_where_repeated_draws_share_a_run():
    """Three equal updates: to the plain cut one stratum is as good as three."""
    omega, tau = [Q(1, 3)] * 3, [Q(1)] * 3
    x, p = lv.rows_of_strata(omega, (0, 0, 0))
    assert noisy(omega, [0] * 3, tau, x, p, True) == 1
    assert noisy(omega, [0] * 3, tau, *md(omega, 3), False) == Q(5, 9)
    d = lv.pair_weights(omega, [[0]] * 3, None, [1] * 3)
    assert lv.sum_within_strata(d, (0, 1, 2)) == 0 < lv.sum_within_strata(d, (0, 0, 1))


# Clients that do not answer


def with_nobody(x, p, drop, factor):
    """Rows of draws of which each is nobody, a client more, with probability `drop`."""
    more = [[factor * (1 - drop) * v for v in row] + [Q(0)] for row in x]
    return more, [[(1 - drop) * v for v in row] + [drop] for row in p]


@few
@given(WORLDS, st.sampled_from([Q(1, 10), Q(1, 2)]))
def test_silence_is_noise_of_the_length_of_the_updates(world, drop):
    """Over all cohorts and silences: without the remedy a bias of `drop` times the full update; with it
    none, and the variance of clients whose noise is drop / (1 - drop) of their squared length."""
    sizes, u, measure = world
    omega, nobody = shares(sizes), [*u, (0, 0)]
    full = [sum(o * v[i] for o, v in zip(omega, u, strict=True)) for i in (0, 1)]
    lengths = [Q(v[0] ** 2 + v[1] ** 2) for v in u]
    noise = [drop / (1 - drop) * r for r in lengths]
    gram, spread = np.array(u) @ np.array(u).T, np.array(noise, dtype=float)
    ways = [
        md(omega, 2),
        *(lv.rows_of_strata(omega, each, measure) for each in lv.partitions(len(u), 2)),
    ]
    for x, p in ways:
        lost, _ = lv.moments_by_enumeration(*with_nobody(x, p, drop, 1), nobody)
        assert lost == [(1 - drop) * v for v in full]
        mean, variance = lv.moments_by_enumeration(*with_nobody(x, p, drop, 1 / (1 - drop)), nobody)
        assert mean == full
        terms = (
            (a * a / b, r)
            for i, j in zip(x, p, strict=True)
            for a, b, r in zip(i, j, noise, strict=True)
            if b
        )
        assert variance == lv.moments_by_enumeration(x, p, u)[1] + sum(w * r for w, r in terms)
        assert lv.variance_of(x, p, gram, spread) == pytest.approx(float(variance))


def test_silence_costs_a_heavy_stratum_more_than_md():
    omega, nobody = [Q(2, 3), Q(1, 3)], [[1], [1], [0]]
    for (x, p), exact in ((lv.rows_of_strata(omega, (0, 1)), Q(5, 9)), (md(omega, 2), Q(1, 2))):
        assert lv.moments_by_enumeration(*with_nobody(x, p, Q(1, 2), 2), nobody) == ([1], exact)


def test_the_instrument_drops_clients_as_the_theory_says(digits):
    """Four clients, all drawn with weights omega: only silence is left to chance, and each client's
    noise. With weights divided by 1 - drop the error is that of the proposition."""
    held = partition.dirichlet(digits.train_y, 4, 1.0, 0)
    state = one_round.state_after(digits, held, clients_per_round=4, local=LocalSGD(lr=0.1))
    drop, everyone = 0.25, methods.get("fedstas-least-variance")
    result = one_round.errors(state, everyone, draws=4000, drop=drop)
    square = state.omega**2 @ (state.gram.diagonal() + state.noise)
    full = state.omega @ state.gram @ state.omega
    added = drop / (1 - drop) * square + state.omega**2 @ state.noise
    assert result["remedied"] == pytest.approx(added / state.md_error, rel=0.05)
    unremedied = (1 - drop) ** 2 * added + drop**2 * full
    assert abs(result["error"] - unremedied / state.md_error) < 4 * result["se"]
    assert result["bias"] == pytest.approx(drop * np.sqrt(full / state.md_error), rel=0.05)
    assert "remedied" not in one_round.errors(state, everyone, draws=2)


# Features that are not the updates


def test_the_bound_for_features_holds_for_all_partitions():
    rng = np.random.default_rng(2)
    for i in range(40):
        n, m = 3 + i % 4, 2 + i % 2
        omega, z = rng.dirichlet(np.ones(n)), rng.normal(size=(n, 2))
        u = (-1) ** i * 3 * z + (i % 5) * rng.normal(size=(n, 2))
        for labels in lv.partitions(n, m):
            result = lv.features_bound(omega, labels, z @ z.T, z @ u.T, u @ u.T, m)
            md_ = lv.variance_of(*md(omega, m), u @ u.T)
            exact = lv.variance_of(*lv.rows_of_strata(omega, labels), u @ u.T)
            assert result.ratio == pytest.approx(exact / md_)
            assert result.ratio <= result.bound * (1 + 1e-9) + 1e-12
            weight = max(
                sum(o for o, h in zip(omega, labels, strict=True) if h == j) for j in range(m)
            )
            assert result.bound <= result.rho + m * weight + 1e-9  # whatever eps is
            if i % 5 == 0:
                assert result.eps < 1e-6 and result.ratio == pytest.approx(result.rho)


def test_the_scale_of_features_does_not_matter_and_the_best_factor_is_the_best():
    rng = np.random.default_rng(5)
    omega, z = rng.dirichlet(np.ones(6)), rng.normal(size=(6, 3))
    u, labels = z + rng.normal(size=(6, 3)), [0, 0, 1, 1, 2, 2]
    once = lv.features_bound(omega, labels, z @ z.T, z @ u.T, u @ u.T, 3)
    again = lv.features_bound(omega, labels, 49 * z @ z.T, -7 * z @ u.T, u @ u.T, 3)
    assert again == pytest.approx(once)
    of_md = lv.variance_of(*md(omega, 3), u @ u.T)
    left = [
        lv.variance_of(*md(omega, 3), (u - c * z) @ (u - c * z).T) / of_md
        for c in np.linspace(-3, 3, 601)
    ]
    assert min(left) == pytest.approx(once.eps**2, abs=1e-4) and min(left) >= once.eps**2 - 1e-12


def test_draws_by_wrong_norms_have_no_such_bound():
    """Updates all alike: MD errs by nothing, draws by lengths 1 and 2 by an eighth."""
    omega = [Q(1, 2)] * 2
    x, p = lv.rows_of_strata(omega, (0, 0), [1, 2])
    assert lv.moments_by_enumeration(x, p, [[1], [1]])[1] == Q(1, 8)
    assert lv.moments_by_enumeration(*md(omega, 1), [[1], [1]])[1] == 0


# How hard, and how near


@pytest.mark.parametrize(("vertices", "m"), [(3, 2), (4, 2), (3, 3)])
def test_the_best_strata_of_a_graphs_clients_are_its_maximum_cut(vertices, m):
    every = list(combinations(range(vertices), 2))
    graphs = [e for i in range(1, len(every) + 1) for e in combinations(every, i)]
    for edges in graphs[:: 1 if vertices == 3 else 9]:
        u = np.array(lv.updates_from_graph(edges, vertices, m))
        gram = u @ u.T
        assert len(set(gram.diagonal().tolist())) == 1  # so that both cuts are one
        own = gram.diagonal()
        labels, _ = lv.best_partition(own[:, None] + own - 2 * gram, m)
        cut = sum(labels[k] != labels[j] for k, j in edges)
        assert cut == max(
            sum(h[k] != h[j] for k, j in edges) for h in product(range(m), repeat=vertices)
        )
        assert np.bincount(labels).tolist() == [vertices] * m


def test_the_partitions_are_all_there():
    bell = {(3, 3): 5, (5, 2): 16, (5, 5): 52, (10, 4): 43947}
    assert {key: sum(1 for _ in lv.partitions(*key)) for key in bell} == bell
    d = lv.pair_weights([Q(1, 4)] * 4, [[0], [1], [0], [1]])
    labels, value = lv.best_partition(d, 2)
    assert labels.tolist() == [0, 1, 0, 1] and value == 0


def test_the_search_is_near_the_best_of_all_partitions():
    result = {
        (n, m): lv.measure_search(n, m, 30, np.random.default_rng(n))
        for n, m in ((7, 3), (10, 2), (10, 4))
    }
    assert all(g.optimal >= 0.9 and g.worst >= 1 - 1e-12 and g.of_md < 1 for g in result.values())


# Without replacement


@pytest.mark.parametrize("n", range(2, 8))
def test_on_a_simplex_distinct_clients_win_unless_m_divides_n(n):
    omega, u = [Q(1, n)] * n, simplex(n)
    d = lv.pair_weights(omega, u)
    for m in range(1, n + 1):
        distinct = n * theory.simple_random([1] + [0] * (n - 1), m)
        ours = min(lv.sum_within_strata(d, labels) for labels in lv.partitions(n, m))
        rest = n % m
        if m < n:
            assert ours / distinct == 1 + Q(rest * (m - rest), n * (n - m))
        else:
            assert ours == distinct == 0
    if n == 3:
        distinct = 3 * theory.simple_random([1, 0, 0], 2)
        assert (distinct, min(lv.sum_within_strata(d, x) for x in lv.partitions(3, 2))) == (
            Q(1, 6),
            Q(2, 9),
        )


# The rate that follows


def test_the_error_of_strata_is_below_the_theorems_bound_and_the_moments_are_those_of_all_cohorts():
    centres, curve = np.array([0.0, 1, 3, 8, 9]), np.array([1.0, 2, 1, 3, 1])
    omega, labels = np.array([1, 2, 1, 3, 1]) / 8, np.array([0, 0, 1, 2, 2])
    world = cv.Quadratics(curve[:, None, None], centres[:, None, None], omega)
    design = lv.moments(omega, labels)
    x, p = lv.rows_of_strata(omega.tolist(), labels.tolist())
    second = np.zeros((5, 5))
    for cohort in product(*([k for k in range(5) if row[k]] for row in p)):
        c = np.zeros(5)
        c[list(cohort)] = [float(x[j][k] / p[j][k]) for j, k in enumerate(cohort)]
        second += float(prod(p[j][k] for j, k in enumerate(cohort))) * np.outer(c, c)
    np.testing.assert_allclose(design.square, second, atol=1e-12)
    distance = float(world.minimiser.item() ** 2)
    bound = lv.convergence_bound(world, labels, 400, distance)
    result = cv.errors(world, design, bound.lrs, [[0.0]])[0]
    assert (result <= bound.distance * (1 + 1e-9)).all()
    steps = np.full(400, 1 / bound.smoothness)
    tube = (1 - steps[0] * world.convexity) ** np.arange(401) * distance
    tube += 2 * steps[0] * bound.variance / world.convexity
    assert (cv.errors(world, design, steps, [[0.0]])[0] <= tube * (1 + 1e-9)).all()


def test_squeeze_local_steps_and_age_are_measured_at_a_state(digits, federation):
    """One step on all data is the gradient but for the squeeze; age adds."""
    one = LocalSGD(steps=1, batch=10_000, lr=0.1)
    state = one_round.state_after(digits, federation, local=one, clients_per_round=5, device="cpu")
    late = one_round.state_after(
        digits, federation, rounds=10, local=one, clients_per_round=5, device="cpu"
    )

    def measured(*args, **how):
        result = lv.features_bound(state.omega, *features.products(*args, **how), args[0].gram, 5)
        assert result.ratio <= result.bound and result.ratio < 1
        return result

    fine, rough, old = measured(state, levels=256), measured(state), measured(late, state)
    assert fine.eps < 0.05 < rough.eps < old.eps < 1
    assert fine.ratio == pytest.approx(fine.rho, rel=0.1)
    labels = features.products(state)[0]
    exact = lv.variance_of(*lv.rows_of_strata(state.omega.tolist(), labels.tolist()), state.gram)
    of_md = lv.variance_of(*md(state.omega, 5), state.gram)
    assert rough.ratio == pytest.approx(exact / of_md)
    other = one_round.state_after(
        digits, partition.dirichlet(digits.train_y, 8, 0.1, 0), clients_per_round=5, device="cpu"
    )
    with pytest.raises(InputError, match="8 clients and the later 19"):
        features.products(state, other)
