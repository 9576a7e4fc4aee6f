"""The cube and the local pivotal method: their whole tree of random choices, and R's cube."""

import itertools

import numpy as np
import pytest

from fedstas.balanced import Balanced, cube_sample, local_pivotal_sample, null_vector
from fedstas.corrected import proportional_inclusion
from fedstas.errors import InputError


class Coin:
    def __init__(self, tree):
        self.tree = tree

    def __lt__(self, p):
        p = min(max(float(p), 0.0), 1.0)
        return self.tree.branch([1 - p, p]) == 1


class Branching:
    """A generator that follows a script of choices, the first that is possible beyond it."""

    def __init__(self, script):
        self.script, self.taken, self.open, self.chance = script, [], [], 1.0

    def branch(self, chances):
        possible = [i for i, p in enumerate(chances) if p > 0]
        at = len(self.taken)
        choice = self.script[at] if at < len(self.script) else possible[0]
        self.taken.append(choice)
        self.open.append([i for i in possible if i != choice])
        self.chance *= chances[choice]
        return choice

    def random(self, count=None):
        return Coin(self) if count is None else np.array([Coin(self) for _ in range(count)], object)

    def choice(self, values):
        return values[self.branch([1 / len(values)] * len(values))]

    def permutation(self, count):
        orders = list(itertools.permutations(range(count)))
        return np.array(orders[self.branch([1 / len(orders)] * len(orders))])


def outcomes(draw):
    """All that `draw(rng)` can give, each with its chance."""
    found, scripts = [], [[]]
    while scripts:
        script = scripts.pop()
        rng = Branching(script)
        found.append((draw(rng), rng.chance))
        for at in range(len(script), len(rng.taken)):
            scripts += [[*rng.taken[:at], other] for other in rng.open[at]]
    np.testing.assert_allclose(sum(chance for _, chance in found), 1, rtol=1e-12)
    return found


X = np.array([[1.0, 3], [2, -1], [0, 0.5], [4, 1], [-2, 2], [1, 1]])
PI = {
    2: np.array([0.5, 0.3, 0.1, 0.6, 0.25, 0.25]),
    3: np.array([0.9, 0.3, 0.1, 0.6, 0.6, 0.5]),
    4: np.array([1.0, 0.7, 0.3, 0.8, 0.6, 0.6]),
}


@pytest.mark.parametrize("m", PI)
@pytest.mark.parametrize("columns", [0, 1, 2])
def test_the_cube_keeps_inclusion_probabilities_and_size(m, columns):
    pi = PI[m]
    found = outcomes(lambda rng: cube_sample(np.column_stack([pi, X[:, :columns]]), pi, rng))
    assert len(found) > 2
    np.testing.assert_allclose(sum(c * s for s, c in found), pi, atol=1e-12)
    assert {int(s.sum()) for s, _ in found} == {m}


@pytest.mark.parametrize("m", PI)
def test_the_local_pivotal_method_keeps_inclusion_probabilities_and_size(m):
    pi = PI[m][1:] if m == 4 else proportional_inclusion([5, 3, 1, 6, 2], m)
    found = outcomes(lambda rng: local_pivotal_sample(X[:5], pi, rng))
    np.testing.assert_allclose(sum(c * s for s, c in found), pi, atol=1e-12)
    assert {int(s.sum()) for s, _ in found} == {round(pi.sum())}


def test_a_sum_that_is_no_whole_number_is_rounded_by_the_last_coin():
    for draw in (
        lambda rng: cube_sample([[0.4], [0.9]], [0.4, 0.9], rng),
        lambda rng: local_pivotal_sample([[0.0], [1.0]], [0.4, 0.9], rng),
    ):
        found = outcomes(draw)
        np.testing.assert_allclose(sum(c * s for s, c in found), [0.4, 0.9], atol=1e-12)
        assert {int(s.sum()) for s, _ in found} == {1, 2}


def test_the_cube_balances_exactly_where_that_is_possible():
    """Five strata of two clients, one column for each: every sample has one of each, though the columns
    depend on each other. Dropping a column as soon as p clients are left, as landings often do, does not."""
    strata = np.repeat(np.arange(5), 2)
    pi = np.array([0.5, 0.5, 0.3, 0.7, 0.9, 0.1, 0.25, 0.75, 0.4, 0.6])
    balance = np.column_stack([pi, *(pi * (strata == h) for h in range(5))])
    found = outcomes(lambda rng: cube_sample(balance, pi, rng))
    assert len(found) == 2**5
    for sample, _ in found:
        assert np.bincount(strata[sample], minlength=5).tolist() == [1] * 5
    np.testing.assert_allclose(sum(c * s for s, c in found), pi, atol=1e-12)


def test_the_cube_balances_a_numeric_variable_exactly_where_that_is_possible():
    """pi = 1/2 and x in two mirrored halves: the total of x is met by each of 2^3 pairings and others."""
    x = np.array([1.0, 1, 2, 2, 5, 5])
    pi = np.full(6, 0.5)
    found = outcomes(lambda rng: cube_sample(np.column_stack([pi, x]), pi, rng))
    exact = sum(c for s, c in found if abs((x[s] / 0.5).sum() - x.sum()) < 1e-9)
    plain = [s for s in itertools.combinations(x, 3) if abs(sum(s) - 8) < 1e-9]
    assert len(plain) / 20 == 0.4  # of simple random samples
    np.testing.assert_allclose(exact, 1, atol=1e-12)


def test_neighbours_fight_first():
    """Two far groups whose pi sum to one each: every sample has one client of each."""
    features = np.array([[0.0], [0.1], [0.25], [9.0], [9.1]])
    pi = np.array([0.2, 0.5, 0.3, 0.6, 0.4])
    for sample, chance in outcomes(lambda rng: local_pivotal_sample(features, pi, rng)):
        assert chance > 0 and sample[:3].sum() == sample[3:].sum() == 1


R = {"x1": (1638.39390, 15.5748), "x2": (837.60598, 7.8543), "y": (1088.88108, 19.8371)}


def test_the_cube_agrees_with_the_r_package_sampling():
    """Variances of Horvitz-Thompson totals of two balanced variables and another, with their standard
    errors, over 20,000 samples of R 4.2.2, sampling 2.9: samplecube(cbind(pik, x1, x2), pik, order = 1,
    method = 2), set.seed(16); pik from inclusionprobabilities(size, 6)."""
    k = np.arange(1, 21)
    size = 1 + 7 * k % 11 + 3 * (k == 5)
    pi = proportional_inclusion(size, 6)
    known = [0.372093023256, 0.186046511628, 0.511627906977, 0.325581395349, 0.279069767442]
    np.testing.assert_allclose(pi[:5], known, atol=1e-12)
    values = np.column_stack([k * k % 13 + 1, 5 * k % 17, 3 * k % 7 + 2]).astype(float)
    rng, count = np.random.default_rng(16), 2000
    totals = np.zeros((count, 3))
    for i in range(count):
        order = rng.permutation(20)
        sample = cube_sample(np.column_stack([pi, values[:, :2]])[order], pi[order], rng)
        totals[i] = (values / pi[:, None])[order][sample].sum(0)
    squares = np.square(totals - totals.mean(0))
    ours, error = squares.sum(0) / (count - 1), squares.std(0) / np.sqrt(count)
    theirs, their_error = np.array(list(R.values())).T
    assert (np.abs(ours - theirs) < 4.9 * np.hypot(error, their_error)).all(), (ours, error)
    assert (error < 0.1 * theirs).all()
    poisson = ((1 / pi - 1) * values.T**2).sum(1)
    assert (ours[:2] < poisson[:2] / 2).all()  # balancing is at work


def test_the_kernel_of_a_matrix():
    rng = np.random.default_rng(0)
    for few, many in ((1, 2), (3, 4), (4, 6), (0, 2)):
        rows = rng.normal(size=(few, many))
        x = null_vector(rows)
        np.testing.assert_allclose(rows @ x, 0, atol=1e-12)
        assert np.abs(x).max() >= 1
    assert null_vector(rng.normal(size=(3, 3))) is None
    assert null_vector(np.eye(4)[:, :2]) is None
    repeated = np.vstack([rows := rng.normal(size=(2, 4)), rows[0] + rows[1]])
    np.testing.assert_allclose(repeated @ null_vector(repeated), 0, atol=1e-12)
    singular = np.outer([1.0, 2], [1, 2, 3])
    np.testing.assert_allclose(null_vector(singular), [-2, 1, 0], atol=1e-12)


SIZES, GRADIENTS = [1, 2, 3, 4], np.array([[1.0, 0], [1, 1], [0, 2], [-1, 0.5]])
DESIGNS = [
    Balanced(how, measure) for how in ("cube", "pivotal") for measure in ("size-norm", "size")
]


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_the_designs_are_unbiased_with_m_distinct_clients(view, design, m):
    known, mean, seen = view(SIZES, GRADIENTS), np.zeros(4), np.zeros(4)
    for cohort, chance in outcomes(lambda rng: design.draw(known, m, rng)):
        assert len(set(cohort.clients.tolist())) == len(cohort.clients) == m
        mean[cohort.clients] += chance * cohort.weights
        seen[cohort.clients] += chance
    np.testing.assert_allclose(mean, np.array(SIZES) / 10, rtol=1e-9)
    norms = np.linalg.norm(GRADIENTS, axis=1) if design.measure == "size-norm" else np.ones(4)
    np.testing.assert_allclose(seen, proportional_inclusion(np.array(SIZES) * norms, m), rtol=1e-5)
    assert known.asked == 1


@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_all_clients_one_client_and_no_gradient(view, design):
    rng = np.random.default_rng(0)
    for sizes, gradients in ((SIZES, GRADIENTS), ([7], [[1.0, 2.0]]), (SIZES, np.zeros((4, 2)))):
        cohort = design.draw(view(sizes, gradients), len(sizes), rng)
        assert cohort.clients.tolist() == list(range(len(sizes)))
        np.testing.assert_allclose(cohort.weights, np.array(sizes) / sum(sizes), rtol=1e-12)
    cohort = design.draw(view(SIZES, np.zeros((4, 2))), 2, rng)
    np.testing.assert_allclose(cohort.weights, 1 / 2)  # by size: omega / pi = 1 / m
    for m in (0, 5):
        with pytest.raises(
            InputError, match=f"participants .* is {m}: .* at least 1 and at most 4"
        ):
            design.draw(view(SIZES, GRADIENTS), m, rng)


def test_a_client_without_gradient_is_drawn_too(view):
    known = view([1, 1, 1, 1], GRADIENTS * [[1], [0], [1], [1]])
    mean = np.zeros(4)
    for cohort, chance in outcomes(lambda rng: Balanced().draw(known, 2, rng)):
        mean[cohort.clients] += chance * cohort.weights
    np.testing.assert_allclose(mean, 1 / 4, rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda rng: cube_sample([[1.0]], [1.5], rng), "inclusion probability is 1.5"),
        (lambda rng: cube_sample([[1.0]], [-0.5], rng), "inclusion probabilities are"),
        (lambda rng: cube_sample([[np.nan]], [0.5], rng), "balancing variables are"),
        (lambda rng: cube_sample([[1.0], [2.0]], [0.5], rng), "same length"),
        (lambda rng: local_pivotal_sample([[np.inf]], [0.5], rng), "features are"),
        (lambda rng: local_pivotal_sample([[1.0], [2.0]], [0.5], rng), "same length"),
        (lambda rng: Balanced("random"), "unknown how 'random'"),
    ],
)
def test_bad_input_is_one_sentence(call, named):
    with pytest.raises(InputError, match=named):
        call(np.random.default_rng(0))
