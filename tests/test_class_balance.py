"""Fed-CBS: the imbalance of pooled classes, every order in which clients are drawn, and the bias of the weights."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedstas import Cohorts, methods
from fedstas.class_balance import LEAST_IMBALANCE, ClassBalance, class_imbalance
from fedstas.errors import InputError
from fedstas.sim import audit

COUNTS = np.array([[9, 1, 0], [0, 10, 10], [8, 0, 2], [0, 7, 3], [5, 5, 5]], float)


@pytest.fixture
def server(view_without_sizes):
    """Five clients, which send label counts and never a size."""

    class Labels(view_without_sizes):
        def label_counts(self, epsilon=None):
            self.requests += 1
            return COUNTS

    return Labels(COUNTS.sum(1), np.zeros((5, 2)))


@given(
    st.lists(
        st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any), min_size=1, max_size=6
    )
)
def test_the_imbalance_is_that_of_the_products_of_all_pairs(counts):
    """The paper's form, from products of the clients' shares: sum q_k q_l a_k a_l / (sum q)^2 - 1/classes."""
    counts = np.array(counts, float)
    sizes = counts.sum(1)
    shares = counts / sizes[:, None]
    pairs = np.outer(sizes, sizes) * (shares @ shares.T)
    assert class_imbalance(counts.sum(0)) == pytest.approx(pairs.sum() / sizes.sum() ** 2 - 1 / 4, abs=1e-12)  # fmt: skip


def test_the_imbalance_of_equal_counts_is_0_and_of_one_class_is_largest():
    np.testing.assert_allclose(class_imbalance([[3, 3, 3], [7, 0, 0]]), [0, 2 / 3], atol=1e-15)


@pytest.mark.parametrize("counts", [[[0, 0], [1, 1]], [[-1, 3], [1, 1]], [[1, 0], [0, 0]]])
def test_counts_that_have_no_shares_are_refused(counts):
    with pytest.raises(InputError, match=r"label counts are .*: (each client must have|they must)"):
        class_imbalance(counts)
    with pytest.raises(InputError, match="label counts are"):
        Cohorts("fed-cbs", sizes=[3] * len(counts), m=1).sample(labels=counts)


def probability_of_order(order, first):
    """Return the probability that clients are drawn in this order, given the first one's probabilities [N]."""
    result = first[order[0]]
    for i in range(1, len(order)):
        remaining = [k for k in range(5) if k not in order[:i]]
        imbalance = [class_imbalance(COUNTS[[*order[:i], k]].sum(0)) for k in remaining]
        measure = np.maximum(imbalance, LEAST_IMBALANCE) ** -(i + 1.0)
        result *= measure[remaining.index(order[i])] / measure.sum()
    return result


class ScriptedOrder:
    """A generator that draws clients in a given order; `chance` is the product of their probabilities."""

    def __init__(self, order):
        self.order, self.chance = list(order), 1.0

    def choice(self, pool, p):
        k = self.order.pop(0)
        self.chance *= p[list(pool).index(k)]
        return k


@pytest.mark.parametrize("t, times", [(1, [0] * 5), (4, [3, 0, 1, 0, 2])])
def test_every_order_has_the_probability_of_the_formulas(server, t, times):
    first = np.maximum(class_imbalance(COUNTS), LEAST_IMBALANCE) ** -1.0
    first += 10 * np.sqrt(3 * np.log(t) / 2 / (np.array(times) + 1))
    first /= first.sum()
    total, mean, server.round, design = 0.0, np.zeros(5), t, ClassBalance()
    for order in itertools.permutations(range(5), 3):
        server.state_of(design).draws = np.array(times)
        script = ScriptedOrder(order)
        cohort = design.draw(server, 3, script)
        assert script.chance == pytest.approx(probability_of_order(order, first), rel=1e-9)
        assert cohort.clients.tolist() == list(order)
        sizes = COUNTS[list(order)].sum(1)
        np.testing.assert_allclose(cohort.weights, sizes / sizes.sum())
        total += script.chance
        mean[list(order)] += script.chance * cohort.weights
    assert total == pytest.approx(1)
    bias = mean - COUNTS.sum(1) / COUNTS.sum()
    assert np.abs(bias).max() > 0.05  # in these five clients by more than a twentieth


def test_probabilities_of_a_large_cohort_neither_overflow_nor_underflow(view_without_sizes):
    class Labels(view_without_sizes):
        def label_counts(self, epsilon=None):
            return np.eye(2)[np.arange(400) % 2] + 1

    cohort = ClassBalance().draw(
        Labels(np.full(400, 3), np.zeros((400, 1))), 300, np.random.default_rng(0)
    )
    assert len(set(cohort.clients.tolist())) == 300 and cohort.weights.sum() == pytest.approx(1)


def test_draws_are_counted_and_labels_requested_once(server):
    design, total = ClassBalance(), np.zeros(5)
    for t in range(1, 9):
        server.round = t
        total[design.draw(server, 2, np.random.default_rng(t)).clients] += 1
    assert server.state_of(design).draws.tolist() == total.tolist()
    assert server.requests == 1


def test_without_exploration_the_rounds_do_not_matter(server):
    design = ClassBalance(exploration=0)
    first, server.round = design.draw(server, 3, np.random.default_rng(0)), 50
    np.testing.assert_array_equal(
        design.draw(server, 3, np.random.default_rng(0)).clients, first.clients
    )
    with pytest.raises(InputError, match="exploration is -1"):
        ClassBalance(exploration=-1)


def test_the_cost_is_that_of_label_counts_alone():
    bench = audit.Bench(methods.get("fed-cbs"))
    view = bench.server()
    bench.draw(view, 1)
    assert list(view.questions) == ["label_counts"]
    assert view.server.cost == {"examples": 0, "bytes_down": 0, "bytes_up": 6 * 3 * 4}
