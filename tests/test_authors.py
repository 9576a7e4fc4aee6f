"""The authors' code of December 2024 as a variant: its rules, one by one."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from fedstas import authors, methods, simulation
from fedstas.authors import AuthorsPrivateRate, AuthorsRate, AuthorsStratified
from fedstas.client_sampling import Cohort
from fedstas.errors import InputError
from fedstas.sim import engine, models, server
from fedstas.state import Renewed


def test_centres_are_in_the_order_of_scikit_learns_k_means():
    gradient = np.random.default_rng(0).normal(size=500).astype(np.float32)
    raw = authors.raw_centres(gradient, 9, processor=1)
    expected = KMeans(9, n_init=10, random_state=0).fit(gradient[:, None])
    np.testing.assert_allclose(np.sort(raw), np.sort(expected.cluster_centers_[:, 0]), atol=0.05)
    centres = authors.unsorted_centres(gradient, 9)
    assert (np.diff(centres) < 0).any()
    nearest = np.square(gradient[:, None] - centres).min(axis=1).sum()
    assert nearest <= 1.02 * expected.inertia_
    assert len(authors.unsorted_centres(np.zeros(5, dtype=np.float32), 9)) == 9


def test_rounding_changes_the_order_of_the_authors_centres_but_not_of_ours():
    # 60 skewed gradients, each perturbed twice in the last bits: the authors' code changes some orders, ours none.
    rng, size = np.random.default_rng(0), 300
    changed = {"authors": 0, "ours": 0}
    for _ in range(60):
        gradient = (rng.normal(size=size) ** 3).astype(np.float32)
        perturbed = gradient + 2.0**-24 * np.abs(gradient).max() * rng.choice([-1, 1], size)
        centres = {
            "authors": [authors.raw_centres(gradient, 9, processor=k) for k in (1, 2)],
            "ours": [
                authors.unsorted_centres(g.astype(np.float32), 9) for g in (gradient, perturbed)
            ],
        }
        for name, (one, other) in centres.items():
            changed[name] += not np.allclose(one, other, rtol=0, atol=1e-3 * np.abs(one).max())
    assert changed["authors"] > 0
    assert changed["ours"] == 0


def frozen_at_w0(labels, allocation, norms):
    """Return the design's state after the first round."""
    return authors.FrozenState(Renewed(authors.FrozenStrata(labels, allocation, norms), round=1))


def test_a_stratum_of_zero_gradients_without_participants_does_not_stop_a_draw():
    # Eight clients of one gradient each; the last two have none, and their stratum gets no participant.
    centres = np.array([[3.0, 1], [3, 1.1], [3, 0.9], [9, 1], [9, 2], [9, 3], [0, 0], [0, 0]])

    class Frozen(SizesAndReports):
        clients, sizes = 8, np.full(8, 10)

        def state_of(self, design):
            labels, allocation = np.array([0, 0, 0, 1, 1, 1, 2, 2]), np.array([1, 2, 0])
            return frozen_at_w0(labels, allocation, np.linalg.norm(centres, axis=1))

    cohort = AuthorsStratified().draw(Frozen(), 3, np.random.default_rng(0))
    assert set(cohort.clients.tolist()) <= set(range(6)) and len(cohort.clients) == 3


def test_the_batch_size_of_local_training_is_also_that_of_the_gradients():
    method = methods.get("fedstas-authors-dec", batch=32)
    assert (method.clients.batch, method.local.batch) == (32, 32)


def test_the_spread_is_the_mean_distance_over_all_ordered_pairs():
    centres = np.array([[0.0, 0], [3, 4], [10, 0]])
    spreads = authors.pairwise_spread(centres, np.array([0, 0, 1]))
    np.testing.assert_allclose(spreads, [2 * 5 / 4, 0])


@pytest.mark.parametrize(
    ("sizes", "spreads", "m", "expected"),
    [
        ([5, 5, 5, 5], [8, 1, 1, 0], 4, [3, 1, 0, 0]),  # floors 3 0 0 0, one left: lowest label
        ([4, 4], [1, 1], 2, [1, 1]),
        ([9, 9, 9], [0, 0, 1], 3, [0, 0, 3]),  # nothing left for the zeros
        ([2, 9, 9], [50, 1, 1], 4, [2, 1, 0]),  # 3 cut to N_h = 2
        ([1, 1, 1], [0, 0, 0], 2, [1, 1, 0]),  # 0/0: as if all floors were 0
        ([9, 9, 9], [0, 0, 0], 7, [2, 2, 2]),  # round(7 / 3) each, and the seventh to nobody
        ([9, 9, 9], [0, 0, 0], 8, [3, 3, 2]),  # round(8 / 3) each, while there are any left
    ],
)
def test_rounded_allocation_fills_zeros_in_the_order_of_the_labels_up_to_m(
    sizes, spreads, m, expected
):
    allocation = authors.rounded_allocation(np.array(sizes), np.array(spreads, dtype=float), m)
    assert allocation.tolist() == expected


def test_the_last_shorter_batch_has_the_weight_of_a_full_one():
    # Seven examples in batches of 3, 3 and 1, each a third of the mean; two examples in one batch.
    weights = server.batch_mean_weights(np.array([7, 2]), 3, seed=0)
    assert sorted(weights[:7]) == pytest.approx([1 / 9] * 6 + [1 / 3])
    assert weights[7:].tolist() == [0.5, 0.5]


def test_gradients_are_means_of_batch_means(digits, federation):
    shards = [federation.shards[k] for k in federation.with_data]
    data = engine.pool(digits.train_x, digits.train_y, shards)
    module = digits.model(0)
    params = models.flatten(module)
    view = server.Server(data, module, 0)
    view.begin(1, params)
    centres = view.centres(lambda g: g[:4], 16, 4)
    weights = server.batch_mean_weights(data.sizes, 16, 0)
    import torch

    rows = slice(data.offsets[0], data.offsets[1])
    for p in module.parameters():
        p.grad = None
    loss = torch.nn.functional.cross_entropy(module(data.x[rows]), data.y[rows], reduction="none")
    (loss * torch.from_numpy(weights[rows]).float()).sum().backward()
    expected = torch.cat([p.grad.flatten() for p in module.parameters()])[:4]
    np.testing.assert_allclose(centres[0], expected, atol=1e-6)


def test_strata_and_allocation_are_frozen_at_the_first_round(digits, federation):
    method = methods.get("fedstas-authors-dec", strata=4, lr=0.1)
    history = simulation.run(digits, federation, method, rounds=6, clients_per_round=4, seed=1)
    strata = history.state.server.designs[authors.FrozenState].strata
    assert strata.round == 1
    frozen = strata.value
    position = {k: i for i, k in enumerate(federation.with_data)}
    for cohort in history.cohorts:
        strata = np.bincount(
            frozen.labels[[position[k] for k in cohort]], minlength=len(frozen.allocation)
        )
        assert strata.tolist() == frozen.allocation.tolist()
        assert len(set(cohort.tolist())) == len(cohort)


class SizesAndReports:
    """A view of three clients of given sizes, each of which reports 50."""

    clients, round, total, sizes = 3, 2, 5100, np.array([100, 1000, 4000])

    def reports(self, clients, *, size_cap, alpha, memoised):
        assert clients.tolist() == [0, 1, 2] and not memoised  # all clients, each time
        return np.array([50, 50, 50])


def test_rates_are_per_client_and_capped_at_one():
    cohort = Cohort(np.array([0, 2]), np.ones(2) / 2)
    np.testing.assert_allclose(AuthorsRate(2048).rates(SizesAndReports(), cohort), [1, 2048 / 4000])
    # With M = 100 and reports of M/2 the estimate is their sum, 150, above the floor of 3.
    rates = AuthorsPrivateRate(60, 3.0, 100).rates(SizesAndReports(), cohort)
    np.testing.assert_allclose(rates, 60 / 150)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["uniform", "strata"])
def test_aggregation_weights_follow_the_authors_code(digits, federation, weights):
    shards = [federation.shards[k] for k in federation.with_data]
    data = engine.pool(digits.train_x, digits.train_y, shards)
    module = digits.model(0)
    view = server.Server(data, module, 0)
    view.begin(1, models.flatten(module))
    design = AuthorsStratified(weights, strata=3, n_star=20)
    cohort = design.draw(view, 5, np.random.default_rng(0))
    frozen = view.state_of(design).strata.value
    assert cohort.weights.sum() == pytest.approx(1)
    if weights == "uniform":
        assert np.ptp(cohort.weights) == 0
        return
    sizes = np.bincount(frozen.labels)
    raw = sizes[cohort.strata] / (5 * frozen.allocation[cohort.strata])
    # Their code cuts N_h / (m m_h) to 10, and divides by the probability min(1, n*/n_k) of an example.
    raw = np.minimum(raw, 10) / np.minimum(1, 20 / data.sizes[cohort.clients])
    np.testing.assert_allclose(cohort.weights, raw / raw.sum())


def test_a_weight_is_capped_at_ten_before_normalisation():
    # 25 clients in a stratum with one of two participants: N_h / (m m_h) is 12.5; of the other 5 it is 2.5.
    class Frozen(SizesAndReports):
        clients, sizes = 30, np.full(30, 10)

        def state_of(self, design):
            return frozen_at_w0(np.repeat([0, 1], [25, 5]), np.array([1, 1]), np.ones(30))

    cohort = AuthorsStratified().draw(Frozen(), 2, np.random.default_rng(0))
    np.testing.assert_allclose(cohort.weights, [10 / 12.5, 2.5 / 12.5], rtol=1e-15)


def test_bad_settings_are_refused():
    with pytest.raises(InputError, match="weights 'none'"):
        AuthorsStratified("none")
    with pytest.raises(InputError, match="n_star is 0"):
        AuthorsRate(0)
