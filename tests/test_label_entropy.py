"""HiCS-FL: entropies that updates show, who goes first, and the probability of every cohort of the clusters."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from test_simulation import assert_same_histories

from fedstas import Cohorts, methods, simulation
from fedstas.label_entropy import LabelEntropy, LabelEntropyState, softmax_entropy
from fedstas.sim import audit, models, one_round
from fedstas.streams import stream

# Two clients of one class each, of the same kind, and three of more even data.
UPDATES = np.array([[1, -1, 0], [1, -0.9, 0], [0.02, 0, 0], [0, 0.02, 0], [0, 0, 0.02]]) / 10
PAIR, EVEN = {0, 1}, {2, 3, 4}


@pytest.fixture
def server(view_without_sizes):
    """Five clients that have sent updates; no size and no gradient may be asked for."""

    class ClassUpdates(view_without_sizes):
        updates = UPDATES

        def class_updates(self):
            return self.updates

    server = ClassUpdates(np.full(5, 4), UPDATES)
    server.updates = UPDATES
    return server


def test_entropies_of_equal_and_of_one_sided_updates():
    entropy = softmax_entropy([[0.0, 0, 0, 0], [1000, 0, 0, 0], [np.log(3), 0, -1000, -1000]], 1)
    quarter = -0.75 * np.log(0.75) - 0.25 * np.log(0.25)
    np.testing.assert_allclose(entropy, [np.log(4), 0, quarter], atol=1e-12)
    np.testing.assert_allclose(softmax_entropy([[0.3, 0.1]], 0.1), softmax_entropy([[3, 1]], 1))
    assert (
        softmax_entropy(UPDATES, 0.01)[:2].max()
        < 0.01
        < 1
        < softmax_entropy(UPDATES, 0.01)[2:].min()
    )


def test_entropies_of_updates_are_correlated_with_those_of_labels(digits, federation):
    state = one_round.state_after(digits, federation, rounds=0, clients_per_round=4)
    setup = state.setup
    (updates,) = one_round.all_updates(setup, digits.model(0), t=1, params=state.params, repeats=1)
    shares = setup.class_shares
    truth = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(1)
    estimated = softmax_entropy(models.class_entries(digits.model(0), updates), 0.01)
    assert spearmanr(estimated, truth).statistic > 0.5


def test_the_entries_of_a_class_are_its_bias_or_the_mean_of_its_weights():
    vectors = np.random.default_rng(0).normal(size=(3, 5 * 4 + 4)).astype(np.float32)
    with_bias, without = torch.nn.Linear(5, 4), torch.nn.Linear(6, 4, bias=False)
    np.testing.assert_array_equal(models.class_entries(with_bias, vectors), vectors[:, -4:])
    mean = vectors.reshape(3, 4, 6).mean(2)
    np.testing.assert_allclose(models.class_entries(without, vectors), mean, rtol=1e-6)


def test_clients_without_an_update_go_first_in_a_random_order(server):
    server.updates = np.zeros((5, 3))
    orders = set()
    for seed in range(40):
        server.states.clear()
        rng, design = np.random.default_rng(seed), LabelEntropy()
        draws = [design.draw(server, 2, rng).clients.tolist() for _ in range(3)]
        assert len({*draws[0], *draws[1]}) == 4  # nobody twice
        assert {*range(5)} - {*draws[0], *draws[1]} <= {*draws[2]} and len(draws[2]) == 2
        orders.add(tuple(draws[0]))
    assert len(orders) > 10  # of the 20 ordered pairs of five clients


def test_a_silent_client_goes_first_again_until_it_answers():
    classes, n = 3, 5
    updates = np.eye(classes)[np.arange(n) % classes]
    chooser = Cohorts("hics-fl", sizes=[4] * n, m=2, seed=1)
    view, answered, silent = chooser._view, set(), 4

    def play(mute) -> list[int]:
        cohort = chooser.sample(output_bias=slice(-classes, None))
        answers = {int(k): updates[k] for k in cohort.clients if k != mute}
        chooser.report(cohort, answers)
        answered.update(answers)
        return cohort.clients.tolist()

    state = view.state_of(chooser.method.clients)
    for _ in range(8):
        waiting = {*range(n)} - answered
        drawn = play(silent)
        assert len(waiting & {*drawn}) == min(2, len(waiting))
    assert answered == {*range(n)} - {silent} and silent in drawn
    assert state.clusters.round is None
    assert silent in play(None) and state.clusters.round is None
    play(None)
    assert state.clusters.round == chooser.round == 10


def test_clusters_of_the_simulator_wait_for_who_did_not_answer(digits, federation):
    options, method = {"clients_per_round": 7, "seed": 0}, methods.get("hics-fl", horizon=7)
    history = simulation.run(digits, federation, method, rounds=7, drop=0.5, **options)
    server, clients = history.state.server, federation.with_data
    state = server.designs[LabelEntropyState]
    answered = np.zeros((8, len(clients)), dtype=bool)
    for t, cohort in enumerate(history.cohorts, 1):
        online = stream(0, "answers", t).random(len(clients)) >= 0.5
        answered[t] = online & np.isin(clients, cohort)
    np.testing.assert_array_equal(state.has_taken_part, answered[:7].any(0))
    np.testing.assert_array_equal(server.respondents, answered[7])
    assert np.isin(clients, np.concatenate(history.cohorts[:6])).all()  # all were drawn
    assert not state.has_taken_part.all() and state.clusters.round is None


class ScriptedClusters:
    """A generator that draws given clusters, and the first clients of each; `chance` is the clusters' probability."""

    def __init__(self, clusters):
        self.clusters, self.chance = list(clusters), 1.0

    def choice(self, pool, count=None, replace=True, p=None):
        """Return the next cluster of the script, or, without probabilities, the first clients of a cluster."""
        if p is None:
            assert not replace
            return pool[:count]
        cluster = self.clusters.pop(0)
        self.chance *= p[cluster]
        return cluster


@pytest.mark.parametrize("t", [1, 150, 300, 400])
def test_every_sequence_of_clusters_has_the_probability_of_the_formula(server, t):
    server.round, design = t, LabelEntropy()
    clusters = design.clusters(server, 2)
    members = [set(np.flatnonzero(clusters.labels == c).tolist()) for c in range(2)]
    assert sorted(members, key=min) == [PAIR, EVEN]
    entropy = softmax_entropy(UPDATES, design.temperature)
    mean = np.array([entropy[list(k)].mean() for k in members])
    np.testing.assert_allclose(clusters.entropies, mean, rtol=1e-3)
    # A cluster is drawn in proportion to exp(gamma_t times its mean entropy); gamma_t falls to 0 in round 300.
    measure = np.exp(design.gamma * max(0, 1 - t / design.horizon) * mean)
    for pair in itertools.product(range(2), repeat=2):
        script = ScriptedClusters(pair)
        cohort = design.draw(server, 2, script)
        expected = np.prod([measure[c] for c in pair]) / measure.sum() ** 2
        # The design's entropies are of rounded updates.
        assert script.chance == pytest.approx(expected, rel=1e-2)
        assert sorted(c in members[1] for c in cohort.clients.tolist()) == sorted(map(bool, pair))
        np.testing.assert_array_equal(cohort.weights, [1 / 2, 1 / 2])
    # Both clusters are equally likely: the three clients of one count too little.
    if t >= design.horizon:
        assert script.chance == pytest.approx(1 / 4)


def test_a_cluster_without_clients_left_is_not_drawn_again(server):
    for m in (3, 4, 5):
        for seed in range(20):
            cohort = LabelEntropy().draw(server, m, np.random.default_rng(seed))
            assert len(set(cohort.clients.tolist())) == m == len(cohort.clients)


def test_with_a_large_gamma_clusters_of_small_measure_are_drawn_once_the_others_are_empty(server):
    server.round, design = 1, LabelEntropy(gamma=2000)
    clusters = design.clusters(server, 2)
    assert np.exp(-1990 * np.ptp(clusters.entropies)) == 0
    for seed in range(5):
        cohort = design.draw(server, 4, np.random.default_rng(seed))
        assert {*cohort.clients.tolist()} > EVEN


def test_clients_of_a_cluster_are_equally_probable(server, false_alarm):
    draws, rng, design = 6000, np.random.default_rng(2), LabelEntropy(gamma=0)
    labels = design.clusters(server, 1).labels
    assert not labels.any()  # one cluster
    counts = np.zeros(5)
    for _ in range(draws):
        counts[design.draw(server, 1, rng).clients] += 1
    # 5.2 standard deviations of a binomial count, five of them: once in 10^6.
    assert np.abs(counts - draws / 5).max() < 5.2 * np.sqrt(draws * 0.16)


def test_nothing_is_asked_of_the_clients():
    bench = audit.Bench(methods.get("hics-fl"))
    view = bench.server()
    bench.rounds(view, 4)
    assert view.server.cost == {"examples": 0, "bytes_down": 0, "bytes_up": 0}


def test_a_resumed_run_equals_the_uninterrupted_one(digits, federation):
    options, method = {"clients_per_round": 7, "seed": 0}, methods.get("hics-fl", horizon=7)
    uninterrupted = simulation.run(digits, federation, method, rounds=7, **options)
    # Interrupted while clusters are in use.
    interrupted = simulation.run(digits, federation, method, rounds=4, **options)
    resumed = simulation.run(digits, federation, method, rounds=7, resume=interrupted, **options)
    assert_same_histories(resumed, uninterrupted)
