"""Strata of least variance: the identity, the guarantee, the search, the design."""

import itertools
import math
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedstas import config, methods, one_round, partition, simulation
from fedstas import least_variance as lv
from fedstas.compression import squeeze
from fedstas.errors import InputError
from fedstas.least_variance import LeastVariance, MaxCutPartition

P = 64 * 50 + 50 + 50 * 10 + 10  # number of parameters of the digits perceptron


def moments(labels, q, omega, u):
    """Return mean [r] and variance of the sum of omega_k / p_k u_k over one draw from each stratum, by enumeration."""
    members = [np.flatnonzero(labels == h) for h in np.unique(labels)]
    mean, mean_square = np.zeros(u.shape[1]), 0.0
    for cohort in itertools.product(*members):
        k = np.array(cohort)
        p = np.array([q[c] / q[group].sum() for c, group in zip(k, members, strict=True)])
        total = (omega[k] / p) @ u[k]
        mean += p.prod() * total
        mean_square += p.prod() * (total @ total)
    return mean, mean_square - mean @ mean


def md_variance(omega, u, m: int, noise=0.0) -> float:
    """Return the variance of m draws of MD sampling; repeated draws of a client share its noisy update.

    Args:
        omega, u: the clients' probabilities and mean updates.
        noise: the variance of each client's update about its mean. It counts with the mean square of the client's share of
            the draws, which has the mean omega and the variance omega (1 - omega) / m.
    """
    mean = omega @ u
    noise = np.broadcast_to(noise, len(omega))
    spread = omega @ np.square(u).sum(1) - mean @ mean
    return float(spread / m + (omega * (1 - omega) / m + omega**2) @ noise)


def make_cut(labels, q, a, b, m: int) -> MaxCutPartition:
    """Return the cut with these labels of clients of masses q, points a and squared lengths b."""
    cut = MaxCutPartition(q, a, b, m)
    for k, h in enumerate(labels):
        cut.assign(k, h)
    return cut


CLIENTS = st.integers(2, 8)
WORLDS = st.builds(
    lambda n, r, seed: (
        np.random.default_rng(seed).dirichlet(np.ones(n)),
        np.random.default_rng(seed + 1).normal(size=(n, r)) * (seed % 3 + 1),
    ),
    CLIENTS,
    st.integers(1, 3),
    st.integers(0, 10**6),
)


@settings(max_examples=60, deadline=None)
@given(WORLDS, st.integers(1, 4), st.integers(0, 10**6))
def test_the_variance_is_the_sum_over_pairs_within_strata(world, m, seed):
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
        make_cut(labels, q, a, np.square(a).sum(1), m).cost(), pairs, atol=1e-10
    )


@settings(max_examples=100, deadline=None)
@given(WORLDS, st.integers(1, 6), st.floats(0, 4))
def test_least_variance_strata_are_never_worse_than_md_even_with_noise(world, m, noise):
    omega, u = world
    noises = np.full(len(omega), noise)
    labels = lv.max_cut_strata(omega, u, np.square(u).sum(1) + noises, m)
    _, variance = moments(labels, omega, omega, u)
    weights = np.bincount(labels, omega)[labels]
    with_noise = variance + (omega * weights) @ noises  # W_h^2 tau_k^2 at probability omega_k / W_h
    assert with_noise <= md_variance(omega, u, m, noises) * (1 + 1e-9) + 1e-12


def test_with_noise_strata_can_be_worse_than_md_whose_repeated_draws_train_again():
    omega, noise = np.array([2 / 3, 1 / 3]), 1.0
    labels = np.array([0, 1])  # as good as any for equal updates
    variance = (omega * np.bincount(labels, omega)[labels]).sum() * noise
    of_md = noise / 2  # if a client that is drawn twice trains twice
    assert variance == pytest.approx(5 / 9) and variance > of_md


def test_strata_that_no_move_improves_can_have_mds_variance_which_the_search_avoids():
    omega, u = np.full(4, 0.25), np.array([[0.0], [1], [0], [1]])
    labels = np.array([0, 0, 1, 1])
    cut = make_cut(labels, omega, u, np.square(u).sum(1), 2)
    assert cut.cost() == pytest.approx(1 / 8) == md_variance(omega, u, 2)
    costs_of_moves = cut.costs(np.arange(4)) * cut.unit
    # No single move helps.
    assert (costs_of_moves[np.arange(4), labels] <= costs_of_moves.min(1) + 1e-12).all()
    best_labels = lv.max_cut_strata(omega, u, np.square(u).sum(1), 2)
    assert make_cut(best_labels, omega, u, np.square(u).sum(1), 2).cost() == pytest.approx(0)


def list_partitions(n: int, m: int):
    """Yield the labels of all partitions of n clients into at most m strata."""
    for labels in itertools.product(range(m), repeat=n):
        first = list(dict.fromkeys(labels))
        if first == sorted(first) and first == list(range(len(first))):
            yield np.array(labels)


@pytest.mark.parametrize("m", [2, 3])
def test_the_search_finds_the_best_of_all_partitions_nearly_always(m):
    rng, misses = np.random.default_rng(0), 0
    for _ in range(40):
        omega, u = rng.dirichlet(np.ones(7)), rng.normal(size=(7, 2))
        b = np.square(u).sum(1)
        cost = make_cut(lv.max_cut_strata(omega, u, b, m), omega, u, b, m).cost()
        best = min(make_cut(labels, omega, u, b, m).cost() for labels in list_partitions(7, m))
        assert cost >= best - 1e-12
        misses += cost > best * (1 + 1e-9) + 1e-12
    assert misses <= 2  # of 40


def place_one_by_one(cut, order) -> None:
    """Move one client after another to its cheapest stratum, computing all costs anew each time, until none gains."""
    moved = True
    while moved:
        moved = False
        for k in order:
            (costs,) = cut.costs(np.array([k]))
            if cut.labels[k] < 0 or costs.min() <= costs[cut.labels[k]] - lv.MIN_GAIN:
                cut.assign(k, costs.argmin())
                moved = True


def swap_best_pair(cut) -> bool:
    """Make the exchange of two clients that gains most, computing the gains of all; return False if none gains enough."""
    clients, labels = np.arange(len(cut.q)), cut.labels
    costs = cut.costs(clients)
    gain = costs[:, labels] - costs[clients, labels][:, None]
    distances = cut.b[:, None] + cut.b - 2 * cut.a @ cut.a.T
    gain = gain + gain.T - np.round(2 * np.outer(cut.q, cut.q) * distances / cut.unit)
    gain[labels[:, None] == labels] = 0
    k, other = divmod(int(gain.argmin()), len(clients))
    if gain[k, other] > -lv.MIN_GAIN:
        return False
    stratum, other_stratum = labels[k], labels[other]
    cut.assign(k, other_stratum)
    cut.assign(other, stratum)
    return True


@settings(max_examples=100, deadline=None)
@given(
    st.integers(2, 60), st.integers(1, 12), st.integers(1, 70), st.booleans(), st.integers(0, 10**6)
)
def test_cost_tables_find_the_same_moves_and_exchanges_as_computing_all_costs(
    clients, m, r, ties, seed
):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(clients, r))
    q = rng.dirichlet(np.ones(clients))
    if ties:  # many clients share few points and masses
        a, q = rng.integers(0, 2, (clients, r)) * 1.0, rng.integers(1, 3, clients) / clients
    b = np.square(a).sum(1) + rng.integers(0, 2) * rng.uniform(size=clients)
    by_computing_all, tables = MaxCutPartition(q, a, b, m), lv.MaxCutTables(q, a, b, m)
    for order in (np.argsort(-q, kind="stable"), rng.permutation(clients)):
        for cut in (by_computing_all, tables):
            cut.clear()
        improved = True
        while improved:
            place_one_by_one(by_computing_all, order)
            tables.place(order)
            np.testing.assert_array_equal(by_computing_all.labels, tables.labels)
            improved = swap_best_pair(by_computing_all)
            assert tables.swap() == improved
            np.testing.assert_array_equal(by_computing_all.labels, tables.labels)
        np.testing.assert_array_equal(by_computing_all.sums, tables.sums)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 200), st.integers(1, 12), st.integers(0, 10**6))
def test_moving_clients_in_batches_equals_moving_them_one_by_one(clients, m, seed):
    rng = np.random.default_rng(seed)
    q, a = rng.dirichlet(np.ones(clients)), rng.normal(size=(clients, 3))
    one_by_one, in_batches = (MaxCutPartition(q, a, np.square(a).sum(1), m) for _ in range(2))
    order = rng.permutation(clients)
    place_one_by_one(one_by_one, order)
    in_batches.place(order)
    np.testing.assert_array_equal(one_by_one.labels, in_batches.labels)


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 25), st.integers(2, 6), st.integers(0, 10**6))
def test_each_client_is_exchanged_with_the_best_member_of_its_nearest_stratum(clients, m, seed):
    rng = np.random.default_rng(seed)
    q, a = rng.dirichlet(np.ones(clients)), rng.normal(size=(clients, 3))
    b, order = np.square(a).sum(1) + rng.uniform(), rng.permutation(clients)
    labels = rng.integers(0, m, clients)

    def cost_after(changes: dict) -> float:
        return make_cut([changes.get(k, h) for k, h in enumerate(labels)], q, a, b, m).cost()

    cut = make_cut(labels, q, a, b, m)
    cut.swap_with_nearest(order)
    for k in order:  # by comparing the costs of whole partitions
        nearest = min(set(range(m)) - {labels[k]}, key=lambda h: cost_after({k: h}))
        members = np.flatnonzero(labels == nearest)
        exchanges = [{k: nearest, other: labels[k]} for other in members]
        best = min(exchanges, key=cost_after, default={})
        if cost_after(best) < cost_after({}) - lv.MIN_GAIN * cut.unit:
            labels[list(best)] = list(best.values())
    np.testing.assert_array_equal(cut.labels, labels)


def test_exchanges_lower_the_cost_for_more_clients_than_tables_are_made_for():
    rng = np.random.default_rng(0)
    clients, m = lv.DENSE + 76, 110  # 1,100 clients, ten in a stratum on average
    q, a = rng.dirichlet(np.ones(clients)), rng.normal(size=(clients, 8))
    b = np.square(a).sum(1)
    moves = MaxCutPartition(q, a, b, m)
    # By moves of single clients alone, the heaviest first.
    moves.place(np.argsort(-q, kind="stable"))
    cut = make_cut(lv.max_cut_strata(q, a, b, m), q, a, b, m)
    assert cut.cost() < 0.995 * moves.cost()  # exchanges save half a per cent at least
    costs, rows = cut.costs(np.arange(clients)), np.arange(clients)
    assert (costs.min(1) > costs[rows, cut.labels] - lv.MIN_GAIN).all()  # an optimum under moves


def test_few_features_of_many_clients_are_their_own_coordinates():
    features = np.random.default_rng(0).normal(size=(20_000, 8)).astype(np.float32)
    tracemalloc.start()
    points = lv.gram_coordinates(features)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert points.shape == features.shape and peak < 20 * features.nbytes  # not 20,000^2
    longest = np.linalg.norm(features, axis=1).max()
    assert 0 < np.abs(points - features).max() <= 2.0**-21 * longest


def test_no_move_and_no_swap_improves_the_strata_that_were_found():
    rng = np.random.default_rng(3)
    omega, u = rng.dirichlet(np.ones(30)), rng.normal(size=(30, 4))
    b = np.square(u).sum(1)
    labels = lv.max_cut_strata(omega, u, b, 5)
    cost = make_cut(labels, omega, u, b, 5).cost()
    for k, h in itertools.product(range(30), range(5)):
        changed = labels.copy()
        changed[k] = h
        assert make_cut(changed, omega, u, b, 5).cost() >= cost - 1e-9
    for k, other in itertools.combinations(range(30), 2):
        changed = labels.copy()
        changed[[k, other]] = labels[[other, k]]
        assert make_cut(changed, omega, u, b, 5).cost() >= cost - 1e-9


def test_equal_strata_of_equal_clients_are_not_worse_than_distinct_clients():
    """Strata of equal numbers that no swap improves have at most (N - m) / (N - 1) of MD's variance, here 8/11."""
    rng, equal_strata = np.random.default_rng(1), 0
    for _ in range(30):
        omega, u = np.full(12, 1 / 12), rng.normal(size=(12, 3))
        labels = lv.max_cut_strata(omega, u, np.square(u).sum(1), 4)
        if (np.bincount(labels, minlength=4) == 3).all():
            equal_strata += 1
            _, variance = moments(labels, omega, omega, u)
            assert variance <= md_variance(omega, u, 4) * 8 / 11 + 1e-12
    assert equal_strata >= 2


def test_ties_go_to_the_first_stratum_and_coordinates_keep_inner_products():
    u = np.array([[1.0, 0], [0, 1], [1, 0], [0, 1], [1, 0]])
    labels = lv.max_cut_strata(np.full(5, 0.2), u, np.ones(5), 2)
    assert labels.tolist() == [0, 1, 0, 1, 0]
    features = np.random.default_rng(0).normal(size=(6, 50))
    points = lv.gram_coordinates(features)
    np.testing.assert_allclose(points @ points.T, features @ features.T, atol=1e-3)


def test_strata_do_not_depend_on_the_last_bit_of_the_features():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 500)).astype(np.float32)
    omega = rng.dirichlet(np.ones(40))
    labels = []
    for perturbed in (features, np.nextafter(features, np.float32(np.inf))):
        z = lv.gram_coordinates(perturbed)
        labels.append(lv.max_cut_strata(omega, z, np.square(z).sum(1), 6))
    np.testing.assert_array_equal(*labels)


def test_sketches_of_many_clients_keep_inner_products_approximately():
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
    "options",
    [
        {"features": "gradients"},
        {"features": "gradients", "draws": "norm"},
        {"features": "gradients", "noise": True},
        {"features": "updates"},
        {"features": "sketch+updates", "sketch_size": 8},
        {"features": "labels"},
        {"features": "labels", "epsilon": 0.5},
        {"features": "output"},
        {"sketch_size": 8, "epsilon": 5.0, "clip": 1.0},
        {"sketch_size": 8, "draws": "norm"},
        {"sketch_size": 8, "noise": True},
        {"sketch_size": 8, "equal_clients": True},
        {"sketch_size": 8, "restratify_every": 2},
    ],
    ids=str,
)
def test_every_setting_is_unbiased_given_its_strata(view, options):
    rng = np.random.default_rng(5)
    server = view(rng.integers(1, 9, 7), rng.normal(size=(7, 20)))
    updates = np.zeros((7, 20), dtype=np.float32)
    updates[:4] = rng.normal(size=(4, 20))
    server.last_updates = lambda: updates
    design = LeastVariance(**options)
    labels, q, omega = design.strata(server, 3)
    u = rng.normal(size=(7, 2))
    mean, _ = moments(labels, q, omega, u)
    np.testing.assert_allclose(mean, omega @ u, atol=1e-12)
    assert (q > 0).all() and omega.sum() == pytest.approx(1)
    cohort = design.draw(server, 3, rng)
    assert len(cohort.clients) == len(np.unique(labels)) == 3
    if options.get("draws") != "norm":
        assert cohort.weights.sum() == pytest.approx(1)


def test_residual_variance_estimates_the_noise_of_updates():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 500))
    u = -0.03 * (z + 0.7 * rng.normal(size=z.shape))
    assert lv.residual_variance(z, u) == pytest.approx(0.49 * 500, rel=0.05)
    assert lv.residual_variance(z[:0], u[:0]) == np.inf


def test_with_as_many_participants_as_clients_all_take_part(view):
    server = view(np.array([1, 2, 3]), np.eye(3))
    cohort = LeastVariance().draw(server, 5, np.random.default_rng(0))
    assert cohort.clients.tolist() == [0, 1, 2]
    np.testing.assert_allclose(cohort.weights, [1 / 6, 2 / 6, 3 / 6])
    assert server.requests == 0


@pytest.mark.parametrize(
    ("settings", "bytes_up"),
    [
        ({}, 4 * 64),
        ({"sketch_size": 16}, 4 * 16),
        ({"features": "sketch+updates"}, 4 * 64),
        ({"features": "output"}, 4 * (50 * 10 + 10)),  # weights and biases of the last layer
        ({"features": "labels"}, 4 * 10),
        ({"features": "labels", "epsilon": 1.0}, 4 * 10),
        ({"features": "updates"}, 0),
        # Nine levels of 32 bits, and a code of 4 bits for each parameter.
        ({"features": "gradients"}, math.ceil((9 * 32 + P * 4) / 8)),
    ],
    ids=str,
)
def test_each_client_sends_its_features_once_at_their_documented_cost(
    digits, federation, settings, bytes_up
):
    method = methods.get("fedstas-least-variance", **settings)
    history = simulation.run(digits, federation, method, rounds=3, clients_per_round=5, seed=0)
    n, frame = len(federation.with_data), history.frame
    trained = 5 * 4 * P
    assert frame["bytes_up"].tolist() == [n * (8 + bytes_up) + t * trained for t in (1, 2, 3)]
    # Clients that compute a gradient get the seed of w_0, 8 bytes; labels and updates need no model.
    downloads = n if settings.get("features", "sketch") not in ("labels", "updates") else 5
    later = np.array([0, 1, 2]) * trained
    assert frame["bytes_down"].tolist() == (8 * downloads + later).tolist()


@pytest.mark.parametrize(
    "settings",
    [{"sketch_size": 16}, {"features": "sketch+updates"}, {"features": "labels", "epsilon": 0.3}],
    ids=str,
)
def test_a_resumed_run_equals_the_uninterrupted_one(digits, federation, settings):
    method = methods.get("fedstas-least-variance", lr=0.1, **settings)
    options = {"clients_per_round": 5, "seed": 0}
    uninterrupted = simulation.run(digits, federation, method, rounds=4, **options)
    first = simulation.run(digits, federation, method, rounds=2, **options)
    resumed = simulation.run(digits, federation, method, rounds=4, resume=first, **options)
    np.testing.assert_array_equal(resumed.params, uninterrupted.params)
    assert resumed.frame["bytes_up"].tolist() == uninterrupted.frame["bytes_up"].tolist()


def test_the_identity_of_the_old_default_is_as_it_was_recorded():
    design = methods.get("fedstas-least-variance", features="gradients").clients
    recorded = {"is": "LeastVariance", "draws": "size", "features": "gradients", "levels": 9}
    recorded |= {"restratify_every": 0, "noise": False, "equal_clients": False}
    assert config.to_dict(design) == recorded and config.from_dict(recorded) == design
    assert config.to_dict(LeastVariance())["features"] == "sketch"
    assert config.to_dict(LeastVariance(sketch_size=16))["sketch_size"] == 16


def test_last_updates_are_averaged_with_gradients_where_there_are_any():
    z = np.array([[3.0, 0.0], [0.0, 4.0], [1.0, 1.0]])
    np.testing.assert_array_equal(lv.with_updates(z, np.zeros((3, 2))), z)  # nobody seen yet
    # All seen, after steps of length 0.1: the same features again.
    np.testing.assert_allclose(lv.with_updates(z, -0.1 * z), z)
    mixed = lv.with_updates(z, np.array([[0.0, -0.2], [0.0, 0.0], [0.0, 0.0]]))
    np.testing.assert_allclose(mixed, [[1.5, 1.5], [0.0, 4.0], [1.0, 1.0]])


def test_shares_of_classes_are_those_of_the_counts_and_noise_below_zero_counts_as_none():
    counts = np.array([[2, 0, 6], [1.5, -3.0, 0.5], [-1, -2, -3]])
    shares = [[0.25, 0, 0.75], [0.75, 0, 0.25], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(lv.class_shares(counts), shares)


def test_strata_from_sketches_are_about_as_good_as_from_gradients(digits, federation):
    """One-round errors relative to MD's, the means of three partitions: from sketches less than 1.1 times that from gradients."""
    errors = {"sketch": [], "gradients": []}
    for seed in range(3):
        clients = partition.dirichlet(digits.train_y, 30, 0.1, seed)
        state = one_round.state_after(digits, clients, clients_per_round=5, seed=seed, device="cpu")
        for features, values in errors.items():
            design = LeastVariance(features=features)
            labels, q, _ = design.strata(one_round.view_at(state, design), 5)
            error, _ = one_round.stratified_error(state, labels, q)
            values.append(error)
    assert np.mean(errors["sketch"]) < 1.1 * np.mean(errors["gradients"]) < 0.7


def test_a_run_asks_for_gradients_once(digits, federation):
    method = methods.get("fedstas-least-variance", features="gradients")
    history = simulation.run(digits, federation, method, rounds=4, clients_per_round=5, seed=0)
    bytes_of_rounds = history.frame["bytes_up"].diff().dropna()
    assert (
        bytes_of_rounds.nunique() == 1
        and history.frame["bytes_up"].iloc[0] > 1.2 * bytes_of_rounds.iloc[0]
    )
    for options in ({"features": "updates"}, {"draws": "norm"}, {"noise": True}):
        method = methods.get("fedstas-least-variance", **options)
        assert simulation.run(
            digits, federation, method, rounds=3, clients_per_round=5, seed=0
        ).cohorts


def test_bad_input_is_refused():
    for options in ({"noise": True}, {"draws": "norm"}):
        for features in ("updates", "labels"):
            wrong = f"needs features='sketch' or features='gradients': features is '{features}'"
            with pytest.raises(InputError, match=wrong):
                LeastVariance(features=features, **options)
    for features in ("sketch", "updates", "sketch+updates", "labels", "output"):
        wrong = rf"levels=5 needs features='gradients': features is '{re.escape(features)}'"
        with pytest.raises(InputError, match=wrong):
            LeastVariance(features=features, levels=5)
        assert config.to_dict(LeastVariance(features=features))["levels"] == 9  # as recorded
    with pytest.raises(InputError, match=r"sketch_size=16 needs .*: features is 'labels'"):
        LeastVariance(features="labels", sketch_size=16)
    with pytest.raises(InputError, match=r"epsilon=1.0 needs .*: features is 'output'"):
        LeastVariance(features="output", epsilon=1.0)
    with pytest.raises(InputError, match=r"epsilon is given without clip: .* or neither"):
        LeastVariance(epsilon=1.0)
    with pytest.raises(InputError, match=r"clip is given without epsilon: .* both"):
        LeastVariance(clip=1.0)
    with pytest.raises(InputError, match="delta=1e-06 is of no use without noise"):
        LeastVariance(delta=1e-6)
    for wrong in ({"clip": 1.0}, {"delta": 1e-6}):
        with pytest.raises(InputError, match=r".* needs features='sketch': .* is 'labels'"):
            LeastVariance(features="labels", epsilon=1.0, **wrong)
    for epsilon in (0, -1):
        with pytest.raises(InputError, match=r"epsilon is .*: it must be a number above 0"):
            LeastVariance(features="labels", epsilon=epsilon)
    with pytest.raises(InputError, match="sketch_size is 0"):
        LeastVariance(sketch_size=0)
    with pytest.raises(InputError, match="must be finite"):
        lv.gram_coordinates(np.array([[np.nan]]))
    for count in (2, lv.DENSE + 1):
        with pytest.raises(
            InputError, match=r"numbers up to 1e\+200, whose squares are not finite"
        ):
            lv.gram_coordinates(np.full((count, 3), 1e200))
    with pytest.raises(InputError, match="draws"):
        LeastVariance(draws="chance")


def test_the_search_ends_where_all_pairs_cost_the_same():
    """Without any update all pairs cost the same: swaps that gain only a rounding error must not repeat for ever."""
    rng = np.random.default_rng(0)
    for clients in (30, 65, 100):
        q = rng.integers(1, 2000, clients) / 30_000
        labels = lv.max_cut_strata(q, np.zeros((clients, 1)), np.ones(clients), 10)
        assert len(np.unique(labels)) == 10


@pytest.mark.parametrize("spread", [0.0, 1e-9, 1e-7])
def test_the_search_ends_where_clients_are_equal_up_to_rounding_errors_and_there_are_m_strata(
    spread,
):
    """As in a first trial of a loop, with the same data for each client."""
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(20))
    for _ in range(10):
        points = rng.normal(size=8) + spread * rng.normal(size=(20, 8))
        labels = lv.max_cut_strata(q, points, np.square(points).sum(1), 5)
        assert len(np.unique(labels)) == 5


def test_strata_of_equal_clients_are_split_into_halves_of_about_equal_mass():
    labels = lv.split_strata(np.array([0, 0, 0, 0, 1, 1]), np.array([3.0, 3, 2, 2, 1, 1]), 4)
    masses = np.bincount(labels, [3, 3, 2, 2, 1, 1])
    assert masses.tolist() == [3, 2, 5, 2]
    np.testing.assert_array_equal(lv.split_strata(np.array([1, 0]), np.ones(2), 5), [1, 0])


def test_clients_without_an_update_are_recognised_by_it_and_not_by_their_coordinates(view):
    """Coordinates of clients without update are 0 or 1e-9 by rounding: if they counted, last bits would decide strata."""
    rng = np.random.default_rng(3)
    server, updates = (
        view(rng.integers(1, 9, 60), np.zeros((60, 2))),
        np.zeros((60, 500), np.float32),
    )
    has_update = rng.permutation(60) < 56
    updates[has_update] = rng.normal(size=(56, 500))
    server.last_updates = lambda: updates
    design = LeastVariance(features="updates")
    labels, *_ = design.strata(server, 8)
    for _ in range(5):
        server.last_updates = lambda: (
            updates * (1 + 1e-7 * rng.normal(size=(60, 1)).astype(np.float32))
        )
        labels_of_perturbed, *_ = design.strata(server, 8)
        np.testing.assert_array_equal(labels_of_perturbed, labels)
    points = lv.gram_coordinates(updates)
    # Comparing with 0 would not find these clients.
    assert np.square(points[~has_update]).sum(1).max() > 0
    noise = np.where(has_update, 0.0, np.square(points[has_update]).sum(1).mean())
    sizes = server.sizes / server.sizes.sum()
    np.testing.assert_array_equal(
        labels, lv.max_cut_strata(sizes, points, np.square(points).sum(1) + noise, 8)
    )
