"""Strata of least variance: the identity, the guarantee, the search, the design."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedstas import least_variance as lv
from fedstas import methods, simulation
from fedstas.compression import squeeze
from fedstas.errors import InputError
from fedstas.least_variance import LeastVariance, MaxCutPartition


def moments(labels, q, omega, u):
    """Mean [r] and variance of sum omega_k / p_k u_k over one draw from each stratum, by enumeration."""
    members = [np.flatnonzero(labels == h) for h in np.unique(labels)]
    mean, second = np.zeros(u.shape[1]), 0.0
    for cohort in itertools.product(*members):
        k = np.array(cohort)
        p = np.array([q[c] / q[group].sum() for c, group in zip(k, members, strict=True)])
        total = (omega[k] / p) @ u[k]
        mean += p.prod() * total
        second += p.prod() * (total @ total)
    return mean, second - mean @ mean


def md(omega, u, m: int, noise=0.0) -> float:
    """The variance of m draws with replacement, weights 1/m; those of one client share a run."""
    mean = omega @ u
    noise = np.broadcast_to(noise, len(omega))
    spread = omega @ np.square(u).sum(1) - mean @ mean
    return float(spread / m + (omega * (1 - omega) / m + omega**2) @ noise)


def cut_of(labels, q, a, b, m: int) -> MaxCutPartition:
    cut = MaxCutPartition(q, a, b, m)
    for k, h in enumerate(labels):
        cut.assign(k, h)
    return cut


clients = st.integers(2, 8)
worlds = st.builds(
    lambda n, r, seed: (
        np.random.default_rng(seed).dirichlet(np.ones(n)),
        np.random.default_rng(seed + 1).normal(size=(n, r)) * (seed % 3 + 1),
    ),
    clients,
    st.integers(1, 3),
    st.integers(0, 10**6),
)


@settings(max_examples=60, deadline=None)
@given(worlds, st.integers(1, 4), st.integers(0, 10**6))
def test_the_variance_is_that_of_the_pairs_left_together(world, m, seed):
    omega, u = world
    rng = np.random.default_rng(seed)
    labels, q = rng.integers(0, m, len(omega)), rng.uniform(0.1, 2, len(omega))
    a = omega[:, None] * u / q[:, None]
    mean, variance = moments(labels, q, omega, u)
    pairs = sum(
        q[k] * q[other] * np.square(a[k] - a[other]).sum()
        for k, other in itertools.combinations(range(len(q)), 2)
        if labels[k] == labels[other]
    )
    np.testing.assert_allclose(mean, omega @ u, atol=1e-12)
    np.testing.assert_allclose(variance, pairs, atol=1e-10)
    np.testing.assert_allclose(
        cut_of(labels, q, a, np.square(a).sum(1), m).cost(), pairs, atol=1e-10
    )


@settings(max_examples=100, deadline=None)
@given(worlds, st.integers(1, 6), st.floats(0, 4))
def test_never_worse_than_md_noise_included(world, m, noise):
    omega, u = world
    own = np.full(len(omega), noise)
    labels = lv.max_cut_strata(omega, u, np.square(u).sum(1) + own, m)
    _, variance = moments(labels, omega, omega, u)
    weights = np.bincount(labels, omega)[labels]
    ours = variance + (omega * weights) @ own  # W_h^2 tau_k^2 at probability omega_k / W_h
    assert ours <= md(omega, u, m, own) * (1 + 1e-9) + 1e-12


def test_the_plain_cut_is_worse_than_md_where_clients_are_noisy():
    omega, noise = np.array([2 / 3, 1 / 3]), 1.0
    labels = np.array([0, 1])  # as good as any for equal updates
    ours = (omega * np.bincount(labels, omega)[labels]).sum() * noise
    assert ours == pytest.approx(5 / 9)
    assert pytest.approx(noise / 2) == 1 / 2  # MD whose repeated draws train anew
    assert ours > 1 / 2


def test_the_factor_one_is_tight():
    omega, u = np.full(4, 0.25), np.array([[0.0], [1], [0], [1]])
    labels = np.array([0, 0, 1, 1])
    cut = cut_of(labels, omega, u, np.square(u).sum(1), 2)
    assert cut.cost() == pytest.approx(1 / 8) == md(omega, u, 2)
    moved = cut.costs(np.arange(4)) * cut.unit
    assert (moved[np.arange(4), labels] <= moved.min(1) + 1e-12).all()  # no single move helps
    found = lv.max_cut_strata(omega, u, np.square(u).sum(1), 2)
    assert cut_of(found, omega, u, np.square(u).sum(1), 2).cost() == pytest.approx(0)


def partitions(n: int, m: int):
    """Labels of all partitions of n into at most m parts."""
    for labels in itertools.product(range(m), repeat=n):
        first = list(dict.fromkeys(labels))
        if first == sorted(first) and first == list(range(len(first))):
            yield np.array(labels)


@pytest.mark.parametrize("m", [2, 3])
def test_the_search_finds_the_best_of_all_partitions_nearly_always(m):
    rng, missed = np.random.default_rng(0), 0
    for _ in range(40):
        omega, u = rng.dirichlet(np.ones(7)), rng.normal(size=(7, 2))
        b = np.square(u).sum(1)
        found = cut_of(lv.max_cut_strata(omega, u, b, m), omega, u, b, m).cost()
        best = min(cut_of(labels, omega, u, b, m).cost() for labels in partitions(7, m))
        assert found >= best - 1e-12
        missed += found > best * (1 + 1e-9) + 1e-12
    assert missed <= 2


def plain_place(cut, order) -> None:
    """Moves of one client after another, each with all its costs computed."""
    moved = True
    while moved:
        moved = False
        for k in order:
            costs = cut.costs(np.array([k]))[0]
            if cut.labels[k] < 0 or costs.min() <= costs[cut.labels[k]] - lv.MIN_GAIN:
                cut.assign(k, costs.argmin())
                moved = True


def plain_swap(cut) -> bool:
    """The exchange that gains most, with the gains of all computed; False if none gains enough."""
    everyone, at = np.arange(len(cut.q)), cut.labels
    costs = cut.costs(everyone)
    gain = costs[:, at] - costs[everyone, at][:, None]
    distances = cut.b[:, None] + cut.b - 2 * cut.a @ cut.a.T
    gain = gain + gain.T - np.round(2 * np.outer(cut.q, cut.q) * distances / cut.unit)
    gain[at[:, None] == at] = 0
    k, other = divmod(int(gain.argmin()), len(everyone))
    if gain[k, other] > -lv.MIN_GAIN:
        return False
    stratum, other_stratum = at[k], at[other]
    cut.assign(k, other_stratum)
    cut.assign(other, stratum)
    return True


@settings(max_examples=100, deadline=None)
@given(
    st.integers(2, 60), st.integers(1, 12), st.integers(1, 70), st.booleans(), st.integers(0, 10**6)
)
def test_tables_find_the_moves_and_exchanges_of_the_plain_search(clients, m, r, ties, seed):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(clients, r))
    q = rng.dirichlet(np.ones(clients))
    if ties:  # a few points and masses, each of many clients
        a, q = rng.integers(0, 2, (clients, r)) * 1.0, rng.integers(1, 3, clients) / clients
    b = np.square(a).sum(1) + rng.integers(0, 2) * rng.uniform(size=clients)
    plain, tables = MaxCutPartition(q, a, b, m), lv.MaxCutTables(q, a, b, m)
    for order in (np.argsort(-q, kind="stable"), rng.permutation(clients)):
        for cut in (plain, tables):
            cut.clear()
        exchanged = True
        while exchanged:
            plain_place(plain, order)
            tables.place(order)
            np.testing.assert_array_equal(plain.labels, tables.labels)
            exchanged = plain_swap(plain)
            assert tables.swap() == exchanged
            np.testing.assert_array_equal(plain.labels, tables.labels)
        np.testing.assert_array_equal(plain.sums, tables.sums)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 200), st.integers(1, 12), st.integers(0, 10**6))
def test_clients_looked_at_in_batches_move_as_one_after_another(clients, m, seed):
    rng = np.random.default_rng(seed)
    q, a = rng.dirichlet(np.ones(clients)), rng.normal(size=(clients, 3))
    plain, ours = (MaxCutPartition(q, a, np.square(a).sum(1), m) for _ in range(2))
    order = rng.permutation(clients)
    plain_place(plain, order)
    ours.place(order)
    np.testing.assert_array_equal(plain.labels, ours.labels)


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 25), st.integers(2, 6), st.integers(0, 10**6))
def test_each_client_is_exchanged_with_the_best_member_of_its_nearest_stratum(clients, m, seed):
    rng = np.random.default_rng(seed)
    q, a = rng.dirichlet(np.ones(clients)), rng.normal(size=(clients, 3))
    b, order = np.square(a).sum(1) + rng.uniform(), rng.permutation(clients)
    labels = rng.integers(0, m, clients)

    def cost_after(changes: dict) -> float:
        return cut_of([changes.get(k, h) for k, h in enumerate(labels)], q, a, b, m).cost()

    cut = cut_of(labels, q, a, b, m)
    cut.swap_with_nearest(order)
    for k in order:  # the same by the cost of whole partitions
        nearest = min(set(range(m)) - {labels[k]}, key=lambda h: cost_after({k: h}))
        members = np.flatnonzero(labels == nearest)
        exchanges = [{k: nearest, other: labels[k]} for other in members]
        best = min(exchanges, key=cost_after, default={})
        if cost_after(best) < cost_after({}) - lv.MIN_GAIN * cut.unit:
            labels[list(best)] = list(best.values())
    np.testing.assert_array_equal(cut.labels, labels)


def test_exchanges_lower_the_cost_for_more_clients_than_tables_are_made_for():
    rng = np.random.default_rng(0)
    clients, m = lv.DENSE + 76, 110
    q, a = rng.dirichlet(np.ones(clients)), rng.normal(size=(clients, 8))
    b = np.square(a).sum(1)
    moves = MaxCutPartition(q, a, b, m)
    moves.place(np.argsort(-q, kind="stable"))
    found = cut_of(lv.max_cut_strata(q, a, b, m), q, a, b, m)
    assert found.cost() < 0.995 * moves.cost()
    costs, rows = found.costs(np.arange(clients)), np.arange(clients)
    assert (costs.min(1) > costs[rows, found.labels] - lv.MIN_GAIN).all()  # an optimum under moves


def test_few_features_of_many_clients_are_their_own_coordinates():
    features = np.random.default_rng(0).normal(size=(20_000, 8)).astype(np.float32)
    tracemalloc.start()
    found = lv.gram_coordinates(features)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.shape == features.shape and peak < 20 * features.nbytes  # not 20,000^2
    longest = np.linalg.norm(features, axis=1).max()
    assert 0 < np.abs(found - features).max() <= 2.0**-21 * longest


def test_moves_and_swaps_cannot_help_any_more():
    rng = np.random.default_rng(3)
    omega, u = rng.dirichlet(np.ones(30)), rng.normal(size=(30, 4))
    b = np.square(u).sum(1)
    labels = lv.max_cut_strata(omega, u, b, 5)
    cost = cut_of(labels, omega, u, b, 5).cost()
    for k, h in itertools.product(range(30), range(5)):
        changed = labels.copy()
        changed[k] = h
        assert cut_of(changed, omega, u, b, 5).cost() >= cost - 1e-9
    for k, other in itertools.combinations(range(30), 2):
        changed = labels.copy()
        changed[[k, other]] = labels[[other, k]]
        assert cut_of(changed, omega, u, b, 5).cost() >= cost - 1e-9


def test_equal_clients_in_equal_strata_do_as_well_as_without_replacement():
    # With swaps, and strata of equal numbers, at most (N - m) / (N - 1) of MD's variance.
    rng = np.random.default_rng(1)
    for _ in range(30):
        omega, u = np.full(12, 1 / 12), rng.normal(size=(12, 3))
        labels = lv.max_cut_strata(omega, u, np.square(u).sum(1), 4)
        if (np.bincount(labels, minlength=4) == 3).all():
            _, variance = moments(labels, omega, omega, u)
            assert variance <= md(omega, u, 4) * 8 / 11 + 1e-12


def test_ties_go_to_the_first_and_points_keep_inner_products():
    u = np.array([[1.0, 0], [0, 1], [1, 0], [0, 1], [1, 0]])
    labels = lv.max_cut_strata(np.full(5, 0.2), u, np.ones(5), 2)
    assert labels.tolist() == [0, 1, 0, 1, 0]
    features = np.random.default_rng(0).normal(size=(6, 50))
    found = lv.gram_coordinates(features)
    np.testing.assert_allclose(found @ found.T, features @ features.T, atol=1e-3)


def test_the_last_bit_of_a_feature_changes_nothing():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 500)).astype(np.float32)
    omega = rng.dirichlet(np.ones(40))
    found = []
    for moved in (features, np.nextafter(features, np.float32(np.inf))):
        z = lv.gram_coordinates(moved)
        found.append(lv.max_cut_strata(omega, z, np.square(z).sum(1), 6))
    np.testing.assert_array_equal(*found)


def test_many_clients_are_sketched():
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(lv.DENSE + 1, 300)).astype(np.float32)
    squeezed = squeeze(gradients, 9)
    z = squeezed.restore()[:50]
    short = lv.sketch(squeezed)[:50]
    assert short.shape == (50, lv.SKETCH)
    length = np.linalg.norm(z, axis=1)
    error = (short @ short.T - z @ z.T) / np.outer(length, length)
    assert np.sqrt(np.square(error).mean()) < 1.3 / np.sqrt(lv.SKETCH)


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"draws": "norm"},
        {"features": "updates"},
        {"noise": True},
        {"equal_clients": True},
        {"restratify_every": 2},
    ],
)
def test_every_setting_is_unbiased_given_its_strata(view, chosen):
    rng = np.random.default_rng(5)
    seen = view(rng.integers(1, 9, 7), rng.normal(size=(7, 20)))
    updates = np.zeros((7, 20), dtype=np.float32)
    updates[:4] = rng.normal(size=(4, 20))
    seen.last_updates = lambda: updates
    design = LeastVariance(**chosen)
    labels, q, omega = design.strata(seen, 3)
    u = rng.normal(size=(7, 2))
    mean, _ = moments(labels, q, omega, u)
    np.testing.assert_allclose(mean, omega @ u, atol=1e-12)
    assert (q > 0).all() and omega.sum() == pytest.approx(1)
    cohort = design.draw(seen, 3, rng)
    assert len(cohort.clients) == len(np.unique(labels)) == 3
    if chosen.get("draws") != "norm":
        assert cohort.weights.sum() == pytest.approx(1)


def test_a_norm_that_is_half_noise_is_estimated():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 500))
    u = -0.03 * (z + 0.7 * rng.normal(size=z.shape))
    assert lv.residual_variance(z, u) == pytest.approx(0.49 * 500, rel=0.05)
    assert lv.residual_variance(z[:0], u[:0]) == np.inf


def test_with_as_many_participants_as_clients_all_take_part(view):
    seen = view(np.array([1, 2, 3]), np.eye(3))
    cohort = LeastVariance().draw(seen, 5, np.random.default_rng(0))
    assert cohort.clients.tolist() == [0, 1, 2]
    np.testing.assert_allclose(cohort.weights, [1 / 6, 2 / 6, 3 / 6])
    assert seen.asked == 0


def test_a_run_asks_for_gradients_once(digits, federation):
    method = methods.get("fedstas-least-variance")
    history = simulation.run(digits, federation, method, rounds=4, clients_per_round=5, seed=0)
    up = history.frame["bytes_up"].diff().dropna()
    assert up.nunique() == 1 and history.frame["bytes_up"].iloc[0] > 1.2 * up.iloc[0]
    for way in ({"features": "updates"}, {"draws": "norm"}, {"noise": True}):
        method = methods.get("fedstas-least-variance", **way)
        assert simulation.run(
            digits, federation, method, rounds=3, clients_per_round=5, seed=0
        ).cohorts


def test_bad_input_is_one_sentence():
    for way in ({"noise": True}, {"draws": "norm"}):
        with pytest.raises(InputError, match="needs features='gradients': features is 'updates'"):
            LeastVariance(features="updates", **way)
    with pytest.raises(InputError, match="must be finite"):
        lv.gram_coordinates(np.array([[np.nan]]))
    with pytest.raises(InputError, match="draws"):
        LeastVariance(draws="chance")


def test_the_search_ends_where_all_partitions_of_equal_masses_are_alike():
    """Nobody seen yet: all pairs cost the same, and swaps of a rounding error's gain went in circles."""
    rng = np.random.default_rng(0)
    for clients in (30, 65, 100):
        q = rng.integers(1, 2000, clients) / 30_000
        labels = lv.max_cut_strata(q, np.zeros((clients, 1)), np.ones(clients), 10)
        assert len(np.unique(labels)) == 10


def test_a_client_never_seen_is_known_by_its_update_alone(view):
    """Not by its coordinates, which rounding leaves at 1e-9 or at 0: last bits would decide the strata."""
    rng = np.random.default_rng(3)
    seen, updates = view(rng.integers(1, 9, 60), np.zeros((60, 2))), np.zeros((60, 500), np.float32)
    there = rng.permutation(60) < 56
    updates[there] = rng.normal(size=(56, 500))
    seen.last_updates = lambda: updates
    cut = LeastVariance(features="updates")
    labels = cut.strata(seen, 8)[0]
    for _ in range(5):
        seen.last_updates = lambda: (
            updates * (1 + 1e-7 * rng.normal(size=(60, 1)).astype(np.float32))
        )
        np.testing.assert_array_equal(cut.strata(seen, 8)[0], labels)
    far = lv.gram_coordinates(updates)
    assert np.square(far[~there]).sum(1).max() > 0  # so that zero would not have told them
    own = np.where(there, 0.0, np.square(far[there]).sum(1).mean())
    sizes = seen.sizes / seen.sizes.sum()
    np.testing.assert_array_equal(
        labels, lv.max_cut_strata(sizes, far, np.square(far).sum(1) + own, 8)
    )
