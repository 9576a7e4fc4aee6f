"""The cube and the local pivotal method: enumeration of all random choices, and comparison with R's cube."""

import itertools

import numpy as np
import pytest
from test_simulation import assert_same_histories

from fedstas import methods, simulation
from fedstas.balanced import Balanced, cube_sample, local_pivotal_sample, null_vector
from fedstas.corrected import proportional_inclusion
from fedstas.errors import InputError


class BranchingNumber:
    """A uniform random number: the comparison `number < p` takes either branch of the tree of choices."""

    def __init__(self, tree):
        self.tree = tree

    def __lt__(self, p):
        p = min(max(float(p), 0.0), 1.0)
        return self.tree.branch([1 - p, p]) == 1


class BranchingGenerator:
    """A generator that follows a script of choices, then takes the first possible one, and records the others."""

    def __init__(self, script):
        self.script, self.choices, self.alternatives, self.chance = script, [], [], 1.0

    def branch(self, chances):
        """Make the next choice: return its index, of those that have these chances."""
        possible = [i for i, p in enumerate(chances) if p > 0]
        position = len(self.choices)
        choice = self.script[position] if position < len(self.script) else possible[0]
        self.choices.append(choice)
        self.alternatives.append([i for i in possible if i != choice])
        self.chance *= chances[choice]
        return choice

    def random(self, count=None):
        if count is None:
            return BranchingNumber(self)
        return np.array([BranchingNumber(self) for _ in range(count)], object)

    def choice(self, values):
        return values[self.branch([1 / len(values)] * len(values))]

    def permutation(self, count):
        orders = list(itertools.permutations(range(count)))
        return np.array(orders[self.branch([1 / len(orders)] * len(orders))])


def enumerate_outcomes(draw):
    """Return the pairs (outcome, probability) of all outcomes of `draw(rng)`, by following all branches."""
    results, scripts = [], [[]]
    while scripts:
        script = scripts.pop()
        rng = BranchingGenerator(script)
        results.append((draw(rng), rng.chance))
        for position in range(len(script), len(rng.choices)):
            scripts += [[*rng.choices[:position], choice] for choice in rng.alternatives[position]]
    np.testing.assert_allclose(sum(chance for _, chance in results), 1, rtol=1e-12)
    return results


VARIABLES = np.array([[1.0, 3], [2, -1], [0, 0.5], [4, 1], [-2, 2], [1, 1]])
INCLUSION = {
    2: np.array([0.5, 0.3, 0.1, 0.6, 0.25, 0.25]),
    3: np.array([0.9, 0.3, 0.1, 0.6, 0.6, 0.5]),
    4: np.array([1.0, 0.7, 0.3, 0.8, 0.6, 0.6]),
}


@pytest.mark.parametrize("m", INCLUSION)
@pytest.mark.parametrize("columns", [0, 1, 2])
def test_the_cube_keeps_inclusion_probabilities_and_size(m, columns):
    pi = INCLUSION[m]
    samples = enumerate_outcomes(
        lambda rng: cube_sample(np.column_stack([pi, VARIABLES[:, :columns]]), pi, rng)
    )
    assert len(samples) > 2
    np.testing.assert_allclose(sum(c * s for s, c in samples), pi, atol=1e-12)
    assert {int(s.sum()) for s, _ in samples} == {m}


@pytest.mark.parametrize("m", INCLUSION)
def test_the_local_pivotal_method_keeps_inclusion_probabilities_and_size(m):
    pi = INCLUSION[m][1:] if m == 4 else proportional_inclusion([5, 3, 1, 6, 2], m)
    samples = enumerate_outcomes(lambda rng: local_pivotal_sample(VARIABLES[:5], pi, rng))
    np.testing.assert_allclose(sum(c * s for s, c in samples), pi, atol=1e-12)
    assert {int(s.sum()) for s, _ in samples} == {round(pi.sum())}


def test_a_fractional_sum_of_probabilities_gives_one_of_the_two_nearest_sizes():
    for draw in (
        lambda rng: cube_sample([[0.4], [0.9]], [0.4, 0.9], rng),
        lambda rng: local_pivotal_sample([[0.0], [1.0]], [0.4, 0.9], rng),
    ):
        samples = enumerate_outcomes(draw)
        np.testing.assert_allclose(sum(c * s for s, c in samples), [0.4, 0.9], atol=1e-12)
        assert {int(s.sum()) for s, _ in samples} == {1, 2}


def test_the_cube_balances_exactly_where_that_is_possible():
    """Five strata of two clients, a column for each, which are linearly dependent with pi: every sample has one client of
    each stratum. An implementation that drops a column once only p clients are left would fail here."""
    strata = np.repeat(np.arange(5), 2)
    pi = np.array([0.5, 0.5, 0.3, 0.7, 0.9, 0.1, 0.25, 0.75, 0.4, 0.6])
    balance = np.column_stack([pi, *(pi * (strata == h) for h in range(5))])
    samples = enumerate_outcomes(lambda rng: cube_sample(balance, pi, rng))
    assert len(samples) == 2**5
    for sample, _ in samples:
        assert np.bincount(strata[sample], minlength=5).tolist() == [1] * 5
    np.testing.assert_allclose(sum(c * s for s, c in samples), pi, atol=1e-12)


def test_the_cube_balances_a_numeric_variable_exactly_where_that_is_possible():
    """x = 1, 1, 2, 2, 5, 5 and pi = 1/2: a sample of one client of each value has the total of x."""
    x = np.array([1.0, 1, 2, 2, 5, 5])
    pi = np.full(6, 0.5)
    samples = enumerate_outcomes(lambda rng: cube_sample(np.column_stack([pi, x]), pi, rng))
    chance_of_balance = sum(c for s, c in samples if abs((x[s] / 0.5).sum() - x.sum()) < 1e-9)
    balanced_samples = [s for s in itertools.combinations(x, 3) if abs(sum(s) - 8) < 1e-9]
    assert len(balanced_samples) / 20 == 0.4  # of simple random samples
    np.testing.assert_allclose(chance_of_balance, 1, atol=1e-12)


def test_the_local_pivotal_method_draws_one_client_of_each_far_group():
    """Two far groups whose pi sum to one each: every sample has one client of each."""
    features = np.array([[0.0], [0.1], [0.25], [9.0], [9.1]])
    pi = np.array([0.2, 0.5, 0.3, 0.6, 0.4])
    for sample, chance in enumerate_outcomes(lambda rng: local_pivotal_sample(features, pi, rng)):
        assert chance > 0 and sample[:3].sum() == sample[3:].sum() == 1


R_VARIANCES = {"x1": (1638.39390, 15.5748), "x2": (837.60598, 7.8543), "y": (1088.88108, 19.8371)}


def test_the_cube_agrees_with_the_r_package_sampling():
    """Variances of Horvitz-Thompson totals of two balanced variables and another, with their standard
    errors, over 20,000 samples of R 4.2.2, sampling 2.9: samplecube(cbind(pik, x1, x2), pik, order = 1,
    method = 2), set.seed(16); pik from inclusionprobabilities(size, 6)."""
    k = np.arange(1, 21)
    size = 1 + 7 * k % 11 + 3 * (k == 5)
    pi = proportional_inclusion(size, 6)
    by_r = [0.372093023256, 0.186046511628, 0.511627906977, 0.325581395349, 0.279069767442]
    np.testing.assert_allclose(pi[:5], by_r, atol=1e-12)
    values = np.column_stack([k * k % 13 + 1, 5 * k % 17, 3 * k % 7 + 2]).astype(float)
    rng, count = np.random.default_rng(16), 2000
    totals = np.zeros((count, 3))
    for i in range(count):
        order = rng.permutation(20)
        sample = cube_sample(np.column_stack([pi, values[:, :2]])[order], pi[order], rng)
        totals[i] = (values / pi[:, None])[order][sample].sum(0)
    squares = np.square(totals - totals.mean(0))
    variances, error = squares.sum(0) / (count - 1), squares.std(0) / np.sqrt(count)
    r_variances, r_error = np.array(list(R_VARIANCES.values())).T
    # 4.9 standard errors of a difference of independent estimates: a false alarm in 10^6 each.
    assert (np.abs(variances - r_variances) < 4.9 * np.hypot(error, r_error)).all()
    assert (error < 0.1 * r_variances).all()
    poisson = ((1 / pi - 1) * values.T**2).sum(1)
    assert (variances[:2] < poisson[:2] / 2).all()  # balancing reduces these variances


def test_null_vector_lies_in_the_kernel_or_is_none():
    rng = np.random.default_rng(0)
    for row_count, column_count in ((1, 2), (3, 4), (4, 6), (0, 2)):
        rows = rng.normal(size=(row_count, column_count))
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
    Balanced(name, measure) for name in ("cube", "pivotal") for measure in ("size-norm", "size")
]


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_the_designs_are_unbiased_with_m_distinct_clients(view, design, m):
    server, mean, inclusion = view(SIZES, GRADIENTS), np.zeros(4), np.zeros(4)
    for cohort, chance in enumerate_outcomes(lambda rng: design.draw(server, m, rng)):
        assert len(set(cohort.clients.tolist())) == len(cohort.clients) == m
        mean[cohort.clients] += chance * cohort.weights
        inclusion[cohort.clients] += chance
    np.testing.assert_allclose(mean, np.array(SIZES) / 10, rtol=1e-9)
    norms = np.linalg.norm(GRADIENTS, axis=1) if design.measure == "size-norm" else np.ones(4)
    np.testing.assert_allclose(
        inclusion, proportional_inclusion(np.array(SIZES) * norms, m), rtol=1e-5
    )
    assert server.requests == 1  # the first draw asks for the gradients, all others remember them


@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_full_participation_one_client_and_zero_gradients_have_the_weights_of_the_sizes(
    view, design
):
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
    server = view([1, 1, 1, 1], GRADIENTS * [[1], [0], [1], [1]])
    mean = np.zeros(4)
    for cohort, chance in enumerate_outcomes(lambda rng: Balanced().draw(server, 2, rng)):
        mean[cohort.clients] += chance * cohort.weights
    np.testing.assert_allclose(mean, 1 / 4, rtol=1e-9)


@pytest.fixture
def sketch_view(view):
    """The class of a view that answers with the gradients themselves where sketches are asked for."""

    class SketchView(view):
        def sketches(self, size):
            self.size = size
            self.requests += 1
            return self._gradients.astype(np.float32)

        def gradients(self, levels):
            raise AssertionError("the design asked for gradients")

    return SketchView


@pytest.mark.parametrize("how", ["cube", "pivotal"])
def test_from_sketches_the_designs_are_unbiased_and_balance_on_them(sketch_view, view, how):
    """Of sketches that equal the gradients the cohorts are those of the gradients, of which no value is squeezed."""
    design, levels = Balanced(how, features="sketch", sketch_size=5), 9
    server, mean = sketch_view(SIZES, GRADIENTS), np.zeros(4)
    for cohort, chance in enumerate_outcomes(lambda rng: design.draw(server, 2, rng)):
        mean[cohort.clients] += chance * cohort.weights
    np.testing.assert_allclose(mean, np.array(SIZES) / 10, rtol=1e-9)
    assert (server.requests, server.size) == (1, 5)
    for seed in range(20):
        from_sketches = design.draw(server, 2, np.random.default_rng(seed))
        from_gradients = Balanced(how, levels=levels).draw(view(SIZES, GRADIENTS), 2, np.random.default_rng(seed))  # fmt: skip
        np.testing.assert_array_equal(from_sketches.clients, from_gradients.clients)
        np.testing.assert_allclose(from_sketches.weights, from_gradients.weights, rtol=1e-6)


@pytest.mark.parametrize(("every", "requests"), [(0, 1), (10, 3), (1, 21)])
def test_features_are_requested_once_or_every_so_many_rounds(sketch_view, every, requests):
    server, design = (
        sketch_view(SIZES, GRADIENTS),
        Balanced(features="sketch", restratify_every=every),
    )
    for server.round in range(1, 22):
        design.draw(server, 2, np.random.default_rng(0))
    assert server.requests == requests


def test_a_sketch_of_64_numbers_costs_256_bytes_a_client_and_the_seed_of_w_0(digits, federation):
    """By default the first model is made from a seed of 8 bytes; 19 of 20 clients have data."""
    method = methods.get("cube", features="sketch", restratify_every=0)
    setup = simulation.prepare(digits, federation, method, 4, 0)
    server, params = setup.start()
    server.begin(1, params)
    method.clients.draw(server, 4, np.random.default_rng(0))
    expected = {"bytes_down": 19 * 8, "bytes_up": 19 * (256 + 8), "examples": len(digits.train_y)}
    assert server.cost == expected  # and 8 bytes of each size


def test_a_resumed_run_from_sketches_equals_the_uninterrupted_run(digits, federation):
    options = {"clients_per_round": 4, "seed": 0}
    method = methods.get("local-pivotal", features="sketch", restratify_every=0)
    uninterrupted = simulation.run(digits, federation, method, rounds=5, **options)
    first = simulation.run(digits, federation, method, rounds=2, **options)
    resumed = simulation.run(digits, federation, method, rounds=5, resume=first, **options)
    assert_same_histories(resumed, uninterrupted)


def test_recorded_identities_of_the_designs_are_unchanged():
    recorded_settings = {"is", "how", "measure", "levels", "restratify_every"}
    assert methods.to_dict(methods.get("cube"))["clients"].keys() == recorded_settings
    assert methods.version(methods.get("cube")) == 2
    assert methods.version(methods.get("cube", features="sketch")) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: cube_sample([[1.0]], [1.5], rng), "inclusion probability is 1.5"),
        (lambda rng: cube_sample([[1.0]], [-0.5], rng), "inclusion probabilities are"),
        (lambda rng: cube_sample([[np.nan]], [0.5], rng), "balancing variables are"),
        (lambda rng: cube_sample([[1.0], [2.0]], [0.5], rng), "same shape"),
        (lambda rng: local_pivotal_sample([[np.inf]], [0.5], rng), "features are"),
        (lambda rng: local_pivotal_sample([[1.0], [2.0]], [0.5], rng), "same shape"),
        (lambda rng: Balanced("random"), "unknown how 'random'"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call(np.random.default_rng(0))
