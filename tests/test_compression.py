"""Quantisation of gradients by 1-D k-means (`squeeze`), compared with the exact optimum."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from fedstas import compression
from fedstas.compression import squeeze
from fedstas.errors import InputError
from fedstas.sim import engine, models, partition


def objective(x, restored) -> float:
    """Return the k-means objective: the sum of squared differences."""
    return float(np.square(np.float64(x) - np.float64(restored)).sum())


def restore(x, levels: int) -> np.ndarray:
    """Return one gradient [d] squeezed to some levels and restored."""
    (restored,) = squeeze(x, levels).restore()
    return restored


def optimum(x, levels: int) -> float:
    """Return the best 1-D k-means objective of any x, exactly.

    Dynamic programming over all cuts of the sorted x; the best last cut grows with the end, so that
    each layer is solved by halving: between two solved ends only their cuts need a look.
    """
    x = np.sort(np.float64(x))
    x = x - x.mean()
    n = len(x)
    s1 = np.concatenate([[0.0], np.cumsum(x)])
    s2 = np.concatenate([[0.0], np.cumsum(x * x)])
    best = np.concatenate([[0.0], s2[1:] - s1[1:] ** 2 / np.arange(1, n + 1)])
    for _ in range(levels - 1):
        after = np.empty(n + 1)
        ends, cuts = np.array([-1, n + 1]), np.array([0, n])
        while (gaps := np.flatnonzero(np.diff(ends) > 1)).size:
            middle = (ends[gaps] + ends[gaps + 1]) // 2
            high = np.minimum(cuts[gaps + 1], middle)
            low = np.minimum(cuts[gaps], high)
            length = high - low + 1
            starts = np.cumsum(length) - length
            cut = np.arange(length.sum()) - np.repeat(starts - low, length)
            end = np.repeat(middle, length)
            count = np.maximum(end - cut, 1)
            cost = best[cut] + s2[end] - s2[cut] - (s1[end] - s1[cut]) ** 2 / count
            after[middle] = least = np.minimum.reduceat(cost, starts)
            hits = np.flatnonzero(cost == np.repeat(least, length))
            place = np.repeat(np.arange(len(middle)), length)[hits]
            best_cuts = cut[hits[np.unique(place, return_index=True)[1]]]
            ends, cuts = np.insert(ends, gaps + 1, middle), np.insert(cuts, gaps + 1, best_cuts)
        best = after
    return float(best[n])


def test_the_reference_optimum_agrees_with_enumerating_all_cuts():
    rng = np.random.default_rng(0)
    for levels in (2, 3, 4):
        x = np.sort(rng.standard_normal(9))
        parts = (np.split(x, cut) for cut in combinations(range(1, 9), levels - 1))
        brute = min(sum(((p - p.mean()) ** 2).sum() for p in part) for part in parts)
        assert optimum(x, levels) == pytest.approx(brute, rel=1e-12)


def sample(name: str, d: int) -> np.ndarray:
    """Return entries of a distribution by its name."""
    rng = np.random.default_rng(7)
    sparse = rng.standard_t(2, d) * (rng.random(d) < 0.1)
    mixture = np.where(rng.random(d) < 0.99, 1e-4, 1.0) * rng.standard_normal(d)
    return {
        "normal": rng.standard_normal(d),
        "uniform": rng.random(d),
        "laplace": rng.laplace(size=d),
        "student-2": rng.standard_t(2, d),
        "cauchy": rng.standard_cauchy(d),
        "lognormal": rng.lognormal(sigma=3, size=d) * rng.choice([-1, 1], d),
        "sparse": sparse,
        "mixture": mixture,
        "shifted": 1000 + rng.standard_t(3, d),
    }[name]


NAMES = (
    "normal uniform laplace student-2 cauchy lognormal sparse mixture shifted".split()  # noqa: SIM905
)


@pytest.mark.parametrize("levels", [2, 5, 9, 16])
@pytest.mark.parametrize("name", NAMES)
def test_squeeze_is_within_one_percent_of_the_global_optimum(name, levels):
    x = sample(name, 1000)
    assert objective(x, restore(x, levels)) <= 1.01 * optimum(x, levels)


@pytest.mark.parametrize("name", ["cauchy", "lognormal", "sparse", "mixture"])
def test_squeeze_is_within_one_percent_on_heavy_tails_of_two_thousand_entries(name):
    x = sample(name, 2000)
    assert objective(x, restore(x, 9)) <= 1.01 * optimum(x, 9)


@pytest.fixture(scope="module")
def gradients(digits, federation):
    """The gradients of the clients at w_0, float32 [N, 3760]."""
    shards = [federation.shards[k] for k in federation.with_data]
    pool = engine.pool(digits.train_x, digits.train_y, shards)
    module = digits.model(0)
    rows = engine.client_gradients(module, models.flatten(module), pool)
    return np.stack([row.numpy() for row in rows])


def test_squeeze_of_a_real_gradient_is_within_one_percent_of_the_optimum(gradients):
    for row in gradients[:3]:
        assert objective(row, restore(row, 9)) <= 1.01 * optimum(row, 9)


@pytest.mark.slow
def test_squeeze_of_100_gradients_of_39760_parameters_is_within_one_percent(digits):
    images = digits.train_x.repeat_interleave(3, 2).repeat_interleave(3, 3)
    images = torch.nn.functional.pad(images, (2, 2, 2, 2))  # 28 x 28
    shards = partition.dirichlet(digits.train_y, 110, 0.3, seed=0).shards
    data = engine.pool(images, digits.train_y, [s for s in shards if len(s)][:100])
    module = models.Perceptron(784, 10)
    rows = [g.numpy() for g in engine.client_gradients(module, models.flatten(module), data)]
    squeezed = squeeze(np.stack(rows), 9)
    assert squeezed.codes.shape == (100, 39_760)
    for row, restored in zip(rows, squeezed.restore(), strict=True):
        assert objective(row, restored) <= 1.01 * optimum(row, 9)


@pytest.mark.parametrize("name", NAMES)
def test_squeeze_is_at_least_as_good_as_one_start_of_scikit_learn(name):
    x = sample(name, 1500)
    error = objective(x, restore(x, 9))
    for seed in range(3):
        k_means = KMeans(9, n_init=1, random_state=seed, max_iter=1000, tol=0).fit(x[:, None])
        assert error <= k_means.inertia_ * (1 + 1e-9)


def test_squeeze_of_real_gradients_is_at_least_as_good_as_one_start_of_scikit_learn(gradients):
    for row in gradients[:5]:
        k_means = KMeans(9, n_init=1, random_state=0).fit(np.float64(row)[:, None])
        assert objective(row, restore(row, 9)) <= k_means.inertia_ * (1 + 1e-6)


def test_squeeze_is_deterministic_and_treats_rows_independently(gradients):
    together, second = squeeze(gradients, 9), squeeze(gradients.copy(), 9)
    np.testing.assert_array_equal(together.levels, second.levels)
    np.testing.assert_array_equal(together.codes, second.codes)
    one_row = squeeze(gradients[4], 9)
    np.testing.assert_array_equal(one_row.levels[0], together.levels[4])
    np.testing.assert_array_equal(one_row.codes[0], together.codes[4])


def test_squeeze_does_not_depend_on_the_order_of_the_entries(gradients):
    order = np.random.default_rng(1).permutation(gradients.shape[1])
    in_order, mixed = squeeze(gradients[0], 9), squeeze(gradients[0][order], 9)
    np.testing.assert_array_equal(mixed.levels, in_order.levels)
    np.testing.assert_array_equal(mixed.codes[0], in_order.codes[0][order])


def test_squeeze_is_a_local_optimum_and_each_level_is_the_mean_of_its_entries(gradients):
    row = np.float64(gradients[1])
    squeezed = squeeze(row, 9)
    for code, level in enumerate(squeezed.levels[0]):
        entries = row[squeezed.codes[0] == code]
        assert len(entries)
        assert level == pytest.approx(entries.mean(), rel=1e-9, abs=1e-15)


def test_norms_are_those_of_the_restored_gradients(gradients):
    squeezed = squeeze(gradients, 9)
    expected = np.linalg.norm(squeezed.restore().astype(float), axis=1)
    np.testing.assert_allclose(squeezed.norms(), expected, rtol=1e-12)


vectors = st.one_of(
    st.lists(st.integers(-3, 3), min_size=1, max_size=40),
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40),
    st.tuples(st.floats(-1e3, 1e3, width=32), st.integers(1, 40)).map(lambda t: [t[0]] * t[1]),
)


@given(vectors, st.integers(2, 12), st.sampled_from(["float32", "float64"]))
def test_squeeze_has_sorted_levels_nearest_codes_and_a_near_optimal_error(values, levels, dtype):
    x = np.array(values, dtype=dtype)
    squeezed = squeeze(x, levels)
    centres, codes = squeezed.levels[0], squeezed.codes[0]
    assert squeezed.levels.shape == (1, levels)
    assert squeezed.codes.shape == (1, len(x))
    assert squeezed.codes.dtype == np.uint8
    assert squeezed.levels.dtype == x.dtype
    assert (np.diff(centres) >= 0).all()
    assert codes.max() < levels
    gaps = np.abs(x[:, None].astype(float) - centres.astype(float))
    scale = np.abs(x).max().astype(float) * np.finfo(dtype).eps
    assert (gaps[np.arange(len(x)), codes] <= gaps.min(axis=1) + 4 * scale).all()
    if len(np.unique(x)) <= levels:
        np.testing.assert_array_equal(squeezed.restore()[0], x)
    else:
        slack = 8 * len(x) * scale * (np.abs(x).max() + 1e-30)
        assert objective(x, squeezed.restore()[0]) <= 1.01 * optimum(x, levels) + slack


@given(vectors, st.integers(2, 12))
def test_squeeze_is_idempotent(values, levels):
    restored = squeeze(np.array(values, dtype="float32"), levels).restore()
    np.testing.assert_array_equal(squeeze(restored, levels).restore(), restored)


def test_with_few_distinct_entries_levels_repeat_and_codes_use_the_first():
    squeezed = squeeze(np.array([2.0, -1.0, 2.0, 2.0]), 4)
    np.testing.assert_array_equal(squeezed.levels, [[-1.0, 2.0, 2.0, 2.0]])
    np.testing.assert_array_equal(squeezed.codes, [[1, 0, 1, 1]])
    constant = squeeze(np.zeros((2, 5), dtype="float32"), 9)
    assert not constant.levels.any()
    assert not constant.codes.any()


def test_an_entry_midway_between_two_levels_gets_the_lower_one_in_lloyd_steps_and_in_codes():
    x = np.zeros((1, compression.BLOCK))
    x[0, :3] = 0, 2, 3  # from the cells {0, 2} and {3} the middle of the means is 2
    prefix, cuts = compression.PrefixSums(x), np.array([[0, 2, 3]])
    np.testing.assert_array_equal(compression._iterate_lloyd(cuts, prefix, x[:, :3]), [[1, 3]])
    far = np.array([False])
    assert (
        compression._round_midpoints(np.array([[1.0, 3.0]]), far) == 2.0
    )  # codes: greater than it


@pytest.mark.parametrize(("levels", "bound"), [(4, 1.01), (9, 1.03), (32, 1.5)])
@pytest.mark.parametrize("outliers", [[], [0, 1, -2]])
@pytest.mark.parametrize("offset", [1e6, -1e6])
def test_far_from_zero_the_entries_are_centred_first(levels, bound, offset, outliers):
    # float32 has steps of 1/16 there, and levels are as fine as that: hence the bounds.
    x = (offset + np.random.default_rng(0).standard_normal(4000)).astype(np.float32)
    x[: len(outliers)] = outliers
    assert objective(x, restore(x, levels)) <= bound * optimum(x, levels)


@pytest.mark.parametrize("levels", [2, 9, 32])
@pytest.mark.parametrize(
    ("dtype", "exponent"),
    [
        ("float32", 125),
        ("float32", -147),
        ("float64", 990),
        ("float64", 400),
        ("float64", -600),
        ("float64", -1050),
    ],
)
def test_levels_scale_with_the_entries_for_all_exponents_of_floats(dtype, exponent, levels):
    # Whole numbers up to 7, with a few of them: 2^exponent times them is exact, denormals too.
    x = np.clip(np.round(2 * np.random.default_rng(1).standard_normal(3000)), -7, 7).astype(dtype)
    in_order, scaled = squeeze(x, levels), squeeze(np.ldexp(x, exponent), levels)
    assert np.isfinite(scaled.levels).all() and scaled.levels.dtype == dtype
    restored = np.ldexp(scaled.restore()[0].astype(float), -exponent)
    step = np.ldexp(float(np.finfo(dtype).smallest_subnormal), -exponent)  # of the levels
    assert objective(x, restored) <= 1.001 * optimum(x, levels) + 3000 * (step / 2) ** 2 + 1e-6
    expected = np.ldexp(in_order.norms(), exponent)
    np.testing.assert_allclose(scaled.norms(), expected, rtol=0.01)


def test_few_distinct_entries_of_any_magnitude_are_restored_exactly():
    x = np.array([3e38, -3e38, 1e-45, 0, 1], dtype=np.float32)
    np.testing.assert_array_equal(restore(x, 5), x)
    x = np.array([1e300, -5e-324, 1e-200, 1e6])
    np.testing.assert_array_equal(restore(x, 9), x)


def test_256_levels_fit_the_codes():
    x = np.random.default_rng(3).standard_normal(3000)
    squeezed = squeeze(x, 256)
    assert squeezed.codes.max() == 255
    assert objective(x, squeezed.restore()[0]) < 1e-3 * objective(x, 0)


def test_bits_are_levels_as_floats_and_codes_as_whole_bits():
    x = np.arange(100.0)
    assert [squeeze(x, k).bits for k in (2, 3, 4, 9, 256)] == [
        32 * k + 100 * bits for k, bits in ((2, 1), (3, 2), (4, 2), (9, 4), (256, 8))
    ]


def test_integers_are_squeezed_too():
    np.testing.assert_array_equal(squeeze([1, 1, 5], 2).restore(), [[1.0, 1.0, 5.0]])


@pytest.mark.parametrize(
    ("bad_gradients", "levels", "message"),
    [
        (np.array([1.0, np.nan]), 9, "finite"),
        (np.array([1.0, -np.inf]), 9, "finite"),
        (np.array([1.0, -1.1e300]), 9, r"beyond 1e\+300"),
        (["1", "2"], 9, "gradients are"),
        (np.array(["1", "2"]), 9, "gradients are"),
        (np.ones(3), 1, "levels is 1"),
        (np.ones(3), 257, "levels is 257"),
        (np.ones(3), 2.5, "levels is 2.5"),
        (np.ones(0), 9, "not empty"),
        (np.ones((2, 2, 2)), 9, r"\[d\] or \[N, d\]"),
    ],
)
def test_bad_gradients_and_levels_are_refused(bad_gradients, levels, message):
    with pytest.raises(InputError, match=message):
        squeeze(bad_gradients, levels)
