"""Strata of class shares: the requests, the strata, and the mean for which the weights are unbiased."""

from itertools import combinations, product

import numpy as np
import pytest

from fedstas import allocation, methods
from fedstas.label_strata import LabelStrata
from fedstas.sim import audit
from fedstas.stratification import within_stratum_std

# Clients 0, 2, 4, 6 hold almost the first class alone, 1, 3, 5 the others.
COUNTS = np.array(
    [[9, 1, 0], [0, 10, 10], [8, 0, 2], [0, 7, 3], [90, 10, 0], [1, 1, 8], [10, 0, 0]], float
)
GROUPS = [np.array([0, 2, 4, 6]), np.array([1, 3, 5])]


@pytest.fixture
def server(view_without_sizes):
    """Seven clients, which send label counts and never a size."""

    class Labels(view_without_sizes):
        def label_counts(self, epsilon=None):
            self.requests += 1
            return COUNTS

    return Labels(COUNTS.sum(1), np.zeros((7, 2)))


def test_strata_are_of_shares_whatever_the_sizes(server):
    design = LabelStrata(2)
    cohort = design.draw(server, 3, np.random.default_rng(0))
    labels = server.state_of(design).strata.value.labels
    assert labels.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert (labels[cohort.clients] == cohort.strata).all()


def test_the_allocation_is_neymans_for_the_spread_of_shares(server):
    shares = COUNTS / COUNTS.sum(1, keepdims=True)
    spreads = within_stratum_std(shares, np.array([0, 1, 0, 1, 0, 1, 0]))
    for m in range(2, 8):
        cohort = LabelStrata(2).draw(server, m, np.random.default_rng(m))
        draws = allocation.neyman([4, 3], spreads, m)
        assert np.bincount(cohort.strata).tolist() == draws.tolist()
        assert len(set(cohort.clients.tolist())) == m
        np.testing.assert_allclose(cohort.weights, np.array([4, 3])[cohort.strata] / 7 / draws[cohort.strata])  # fmt: skip
        server.states.clear()


def test_weights_are_unbiased_for_the_plain_mean_over_all_cohorts(server, false_alarm):
    """Every cohort of the strata has the same probability, and over all of them each client's mean weight is 1/N."""
    design, m, draws = LabelStrata(2), 4, 6000
    counts = np.bincount(design.draw(server, m, np.random.default_rng(0)).strata)
    choices = [list(combinations(g, int(c))) for g, c in zip(GROUPS, counts, strict=True)]
    cohorts = [[*first, *second] for first, second in product(*choices)]
    weight = np.repeat([4, 3], counts) / 7 / np.repeat(counts, counts)
    mean = np.zeros(7)
    for cohort in cohorts:
        mean[cohort] += weight / len(cohorts)
    np.testing.assert_allclose(mean, 1 / 7)
    rng, counts_by_cohort = np.random.default_rng(5), dict.fromkeys(map(frozenset, cohorts), 0)
    for _ in range(draws):
        counts_by_cohort[frozenset(design.draw(server, m, rng).clients.tolist())] += 1
    expected, variance = draws / len(cohorts), draws / len(cohorts) * (1 - 1 / len(cohorts))
    # 5.5 standard deviations, for at most some dozen cohorts: once in 10^6.
    assert max(abs(n - expected) for n in counts_by_cohort.values()) < 5.5 * np.sqrt(variance)


def test_label_counts_are_requested_once(server):
    design = LabelStrata(2)
    for t in range(1, 20):
        server.round = t
        design.draw(server, 3, np.random.default_rng(t))
    assert server.requests == 1


def test_the_cost_is_that_of_label_counts_alone():
    bench = audit.Bench(methods.get("stratified-labels"))
    view = bench.server()
    bench.draw(view, 1)
    assert list(view.questions) == ["label_counts"]
    assert view.server.cost == {"examples": 0, "bytes_down": 0, "bytes_up": 6 * 3 * 4}
