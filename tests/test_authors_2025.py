"""The authors' code of 2025 as a variant: its rules, one by one."""

from itertools import permutations

import numpy as np
import pytest

from fedstas import authors_2025, methods, simulation
from fedstas.authors_2025 import Authors2025, Authors2025PrivateSample, Authors2025Sample
from fedstas.client_sampling import Cohort, StrataState
from fedstas.errors import InputError
from fedstas.sim import engine, models, server


class LastLayerView:
    """A view of clients whose gradients of the last layer and sizes are given, and which all report 50."""

    def __init__(self, gradients, sizes=None):
        self.answer, self.clients, self.round = (
            np.asarray(gradients, dtype=np.float32),
            len(gradients),
            1,
        )
        self.sizes, self.requests, self.states = sizes, [], {}

    def output_gradients(self, share=1.0, cap=None):
        self.requests.append((self.round, share, cap))
        return self.answer

    def reports(self, clients, *, size_cap, alpha, memoised):
        assert not memoised
        return np.full(len(clients), 50)

    def state_of(self, design):
        return self.states.setdefault(type(design), StrataState())


# Two strata, of three and two clients.
GRADIENTS = np.array([[0.0, 1], [0, 1.2], [0, 1.5], [9, 1], [9, 1.3]])
SMALL_SIZES = np.array([1, 9, 9, 9, 9])


def successive_inclusion(p, m: int) -> np.ndarray:
    """Enumerate all orders in which m clients can be drawn one after another; return inclusion probabilities [n]."""
    result = np.zeros(len(p))
    for order in permutations(range(len(p)), m):
        remaining, chance = 1.0, 1.0
        for k in order:
            chance, remaining = chance * p[k] / remaining, remaining - p[k]
        result[[*order]] += chance
    return result


def test_mean_weights_are_those_of_all_cohorts_enumerated_and_not_the_clients_shares():
    design, view, draws = Authors2025(strata=2), LastLayerView(GRADIENTS), 4000
    rng, weights = np.random.default_rng(0), np.zeros((draws, 5))
    for row in weights:
        cohort = design.draw(view, 3, rng)
        row[cohort.clients] = cohort.weights
    state = view.state_of(design).strata.value
    sizes = np.bincount(state.labels)
    allocation = authors_2025.remainder_allocation(sizes, state.spreads, 3)
    assert sorted(sizes) == [2, 3] and allocation.sum() == 3 and allocation.min() == 1
    expected = np.zeros(5)
    for h, (size, count) in enumerate(zip(sizes, allocation, strict=True)):
        members = np.flatnonzero(state.labels == h)
        inclusion = successive_inclusion(
            state.norms[members] / state.norms[members].sum(), int(count)
        )
        expected[members] = size / 5 * inclusion / count
    z = np.abs(weights.mean(0) - expected) / (weights.std(0) / np.sqrt(draws) + 1e-12)
    # In 1 of 30,000 seeds it is above, for one of five clients.
    assert z[weights.std(0) > 0].max() < 4.5
    assert np.abs(expected - 1 / 5).max() > 0.02  # so that it is biased, whatever the sizes are


def test_all_clients_are_asked_for_one_batch_every_twenty_rounds():
    design, view, rng = Authors2025(strata=2), LastLayerView(GRADIENTS), np.random.default_rng(0)
    for view.round in range(1, 42):
        design.draw(view, 2, rng)
    assert view.requests == [(t, 0.3, 512) for t in (1, 21, 41)]


def test_the_projection_is_gaussian_the_same_for_all_runs_and_standardised():
    gradients = np.random.default_rng(0).normal(size=(12, 300)).astype(np.float32)
    points = authors_2025.standardised_projections(gradients, 50)
    np.testing.assert_array_equal(points, authors_2025.standardised_projections(gradients, 50))
    np.testing.assert_allclose(points.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(points.std(0), 1, atol=1e-3)
    assert points.shape == (12, 50)
    # Gradients of at most 50 entries are not projected: their columns are standardised as they are.
    short = authors_2025.standardised_projections(gradients[:, :3], 50)
    expected = (gradients[:, :3] - gradients[:, :3].mean(0)) / gradients[:, :3].std(0)
    np.testing.assert_allclose(short, expected, atol=1e-3)


@pytest.mark.parametrize(
    ("sizes", "spreads", "m", "expected"),
    [
        (
            [5, 5, 5],
            [3, 2, 1],
            4,
            [2, 1, 1],
        ),  # quotas 2, 4/3, 2/3: the largest remainder gets the last
        ([5, 5, 1], [1, 1, 0], 3, [2, 1, 0]),  # a stratum of one client has no spread, and no draw
        ([2, 9, 9], [90, 1, 1], 4, [2, 0, 0]),  # 3.6, .2, .2: cut at N_h, and two draws are lost
        ([2, 2, 2], [0, 0, 0], 2, [1, 1, 0]),  # no spreads: the first m strata
        ([4], [0], 3, [1]),
    ],
)
def test_the_allocation_rounds_down_and_fills_the_largest_remainders(sizes, spreads, m, expected):
    draws = authors_2025.remainder_allocation(np.array(sizes), np.array(spreads, dtype=float), m)
    assert draws.tolist() == expected


def test_a_spread_is_the_mean_variance_of_the_coordinates():
    points = np.array([[0.0, 0], [2, 4], [7, 7]])
    assert authors_2025.mean_variance(points, np.array([0, 0, 1])).tolist() == [2.5, 0]


def test_a_sample_is_a_whole_share_without_replacement_and_one_example_at_least():
    rng = np.random.default_rng(0)
    sample = authors_2025.whole_share(10, 0.39, rng)
    assert len({*sample}) == 3 and (np.diff(sample) > 0).all()
    assert len(authors_2025.whole_share(10, 0.01, rng)) == 1
    assert len(authors_2025.whole_share(10, 1.0, rng)) == 10


def test_the_rate_is_that_of_the_participants_with_true_or_private_sizes():
    view, cohort = (
        LastLayerView(GRADIENTS, np.array([100, 1000, 4000, 7, 7])),
        Cohort(np.array([0, 2]), np.ones(2) / 2),
    )
    np.testing.assert_allclose(Authors2025Sample(2050).rates(view, cohort), 0.5)
    assert Authors2025Sample().rates(view, Cohort(np.array([0]), np.ones(1))).tolist() == [1.0]
    # With M = 100 and reports of M/2 the estimate is their sum, 100.
    rates = Authors2025PrivateSample(60, 3.0, 100).rates(view, cohort)
    np.testing.assert_allclose(rates, 60 / 100)


def test_clients_below_the_threshold_are_skipped_and_sizes_that_leave_nobody_are_refused():
    view, rng = LastLayerView(GRADIENTS, SMALL_SIZES), np.random.default_rng(0)
    for _ in range(50):
        cohort = Authors2025(strata=2, min_examples=5).draw(view, 5, rng)
        assert 0 not in cohort.clients and cohort.weights.sum() == pytest.approx(1)
    with pytest.raises(
        InputError,
        match=r"^none of the \d clients drawn in round 1 has 10 examples, as min_ex.*lower",
    ):
        Authors2025(strata=2, min_examples=10).draw(view, 3, rng)


def test_strata_without_a_participant_do_not_count():
    # Two far clients, each a stratum of its own, have no spread and are never drawn; the stratum of the others has one.
    gradients = np.vstack([GRADIENTS[:3], [[90, 0], [0, 90]]])
    design, view = Authors2025(strata=3), LastLayerView(gradients)
    cohort = design.draw(view, 2, np.random.default_rng(0))
    assert set(cohort.clients.tolist()) <= {0, 1, 2}
    np.testing.assert_allclose(cohort.weights, 0.5)


def test_the_gradient_of_the_last_layer_is_that_of_one_batch_and_is_charged_as_such(
    digits, federation
):
    data = engine.pool(
        digits.train_x, digits.train_y, [federation.shards[k] for k in federation.with_data]
    )
    module = digits.model(0)
    view = server.Server(data, module, 0)
    view.begin(1, params := models.flatten(module))
    answer = view.output_gradients(share=0.3, cap=20)
    counts = np.clip(np.round(0.3 * data.sizes), 1, 20).astype(int)
    n, width = len(data.sizes), answer.shape[1]
    assert view.cost == {
        "examples": counts.sum(),
        "bytes_down": n * params.nbytes,
        "bytes_up": n * width * 4,
    }
    np.testing.assert_array_equal(answer, view.output_gradients(share=0.3, cap=20))
    exact = view.output_gradients()
    everything = view.output_gradients(share=1.0, cap=10**6)
    np.testing.assert_allclose(everything, exact, atol=1e-6)
    assert np.abs(answer - exact).max() > 1e-3
    view.begin(2, params)
    assert not np.array_equal(answer, view.output_gradients(share=0.3, cap=20))  # another batch
    with pytest.raises(InputError, match="share is 0"):
        view.output_gradients(share=0.0)


def test_a_run_of_the_code_of_2025_samples_clients_and_examples(digits, federation):
    method = methods.get("fedstas-authors-2025", strata=4, n_star=100, lr=0.1)
    history = simulation.run(digits, federation, method, rounds=4, clients_per_round=4, seed=1)
    assert np.isfinite(history.params).all()
    assert all(len({*cohort.tolist()}) == len(cohort) for cohort in history.cohorts)
    assert history.frame["participants"].max() <= 4
