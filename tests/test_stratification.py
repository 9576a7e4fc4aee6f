"""Stratification of clients by k-means on their gradients, and the spread within strata."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans

from fedstas import stratification
from fedstas.compression import squeeze
from fedstas.errors import InputError
from fedstas.stratification import coordinates, restored_features, stratify, within_stratum_std


def inertia(features, labels) -> float:
    """Return the k-means objective: squared distances to the centre of each stratum, summed."""
    groups = [features[labels == h] for h in np.unique(labels)]
    return sum(float(np.square(g - g.mean(axis=0)).sum()) for g in groups)


@pytest.fixture(scope="module")
def clear_groups():
    """Return features [12, 500] of clients in three clear groups of 3, 4 and 5, and the groups [12]."""
    rng = np.random.default_rng(0)
    truth = np.array([0, 1, 1, 2, 0, 2, 2, 1, 2, 0, 1, 2])
    return 10 * rng.standard_normal((3, 500))[truth] + rng.standard_normal((12, 500)), truth


@pytest.mark.parametrize("shape", [(12, 500), (40, 3), (7, 7)])
def test_coordinates_keep_the_distances(shape):
    features = np.random.default_rng(1).standard_normal(shape)
    points = coordinates(features)
    assert points.shape == (shape[0], min(shape))
    np.testing.assert_allclose(pdist(points), pdist(features), rtol=1e-3)


def test_clear_groups_are_found_and_numbered_by_first_appearance(clear_groups):
    features, truth = clear_groups
    np.testing.assert_array_equal(stratify(features, 3, seed=0), truth)
    assert stratify(features, 3, seed=0).dtype == np.int64


def test_strata_are_the_best_of_all_partitions_of_few_clients():
    features = np.random.default_rng(5).standard_normal((7, 4))
    best = min(inertia(features, np.array(labels)) for labels in product(range(3), repeat=7))
    assert inertia(features, stratify(features, 3, seed=0)) == pytest.approx(best, rel=1e-3)


def test_strata_depend_on_the_seed_alone_and_not_on_the_last_bit(clear_groups):
    features = np.random.default_rng(2).standard_normal((30, 100))
    labels = stratify(features, 6, seed=3)
    np.testing.assert_array_equal(labels, stratify(features, 6, seed=3))
    noise = 1 + 1e-13 * np.random.default_rng(4).standard_normal(features.shape)
    np.testing.assert_array_equal(labels, stratify(features * noise, 6, seed=3))


def test_the_seed_determines_the_starts_of_k_means():
    features = np.random.default_rng(2).standard_normal((40, 5))
    labels_by_seed = [stratify(features, 8, seed) for seed in range(5)]
    for seed, labels in enumerate(labels_by_seed):
        raw = KMeans(8, n_init=10, random_state=seed).fit(coordinates(features)).labels_
        assert len(set(zip(raw, labels, strict=True))) == 8  # the same strata, numbered otherwise
    assert len({tuple(labels) for labels in labels_by_seed}) > 1  # and some seeds end elsewhere


@pytest.mark.parametrize("exponent", [-1072, -800, 500, 1018])
def test_strata_and_relative_spreads_do_not_depend_on_the_unit(exponent):
    # Denormal numbers, and such whose squares are 0 or infinite: exactly as for the numbers themselves.
    features = np.random.default_rng(2).integers(-5, 6, (20, 6)).astype(float)
    scaled = np.ldexp(features, exponent)
    np.testing.assert_array_equal(stratify(scaled, 4, 0), labels := stratify(features, 4, 0))
    expected = np.ldexp(within_stratum_std(features, labels), exponent)
    np.testing.assert_allclose(
        within_stratum_std(scaled, labels), expected, rtol=1e-15, atol=5e-324
    )
    grid = stratification.round_to_grid(features)
    np.testing.assert_array_equal(stratification.round_to_grid(scaled), np.ldexp(grid, exponent))


def test_coordinates_are_equal_bit_for_bit_under_rounding_noise():
    features = np.random.default_rng(2).standard_normal((30, 20))
    noise = 1 + 1e-13 * np.random.default_rng(4).standard_normal(features.shape)
    np.testing.assert_array_equal(coordinates(features), coordinates(features * noise))


@given(
    st.lists(st.lists(st.integers(-2, 2), min_size=2, max_size=2), min_size=1, max_size=12),
    st.integers(1, 15),
)
def test_no_stratum_is_empty_and_there_are_at_most_as_many_as_distinct_clients(rows, strata):
    features = np.array(rows, dtype=float)
    labels = stratify(features, strata, seed=0)
    distinct = len(np.unique(features, axis=0))
    assert labels.shape == (len(rows),)
    count = labels.max() + 1
    assert count <= min(strata, distinct)
    assert set(labels) == set(range(count))
    _, first = np.unique(labels, return_index=True)
    assert (np.diff(first) > 0).all()  # in order of first appearance
    if strata >= distinct:  # every distinct client can have a stratum of its own
        assert inertia(features, labels) == pytest.approx(0.0, abs=1e-12)


def test_equal_gradients_make_one_stratum():
    np.testing.assert_array_equal(stratify(np.ones((6, 50)), 4, seed=0), np.zeros(6))
    np.testing.assert_array_equal(stratify(np.zeros((1, 50)), 4, seed=0), [0])


def test_within_stratum_std_is_the_root_mean_squared_distance_to_the_centre():
    features = np.array([[0.0, 0.0], [2.0, 0.0], [5.0, 1.0], [7.0, 7.0], [7.0, 9.0], [10.0, 8.0]])
    labels = np.array([0, 0, 1, 2, 2, 2])
    std_of_third = np.sqrt((1 + 1 + 1 + 1 + 4) / 3)
    np.testing.assert_allclose(
        within_stratum_std(features, labels), [1.0, 0.0, std_of_third], rtol=1e-15
    )


def test_within_stratum_std_scales_with_the_features_and_ignores_a_shift(clear_groups):
    features, truth = clear_groups
    expected = [
        np.sqrt(inertia(features, np.where(truth == h, 0, 1 + np.arange(12))) / n)
        for h, n in enumerate(np.bincount(truth))
    ]
    np.testing.assert_allclose(within_stratum_std(features, truth), expected, rtol=1e-12)
    np.testing.assert_allclose(
        within_stratum_std(3 * features - 1, truth), 3 * np.array(expected), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("features", "strata", "message"),
    [
        (np.ones(3), 2, r"\[N, d\]"),
        (np.ones((0, 3)), 2, "at least one client"),
        (np.array([[1.0], [np.nan]]), 2, "finite"),
        (np.ones((3, 2)), 0, "strata is 0"),
        (np.ones((3, 2)), "2", "strata is '2'"),
    ],
)
def test_bad_features_and_strata_are_refused(features, strata, message):
    with pytest.raises(InputError, match=message):
        stratify(features, strata, seed=0)


@pytest.mark.parametrize("count", [30, 3])
def test_many_gradients_are_stratified_without_being_restored_at_once(count, monkeypatch):
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((4, 300))[rng.integers(4, size=count)]
    rows += 0.3 * rng.standard_normal((count, 300))
    squeezed = squeeze(np.concatenate([rows, rows[:2]]).astype(np.float32), 9)  # two of them twice
    restored = restored_features(squeezed)
    np.testing.assert_array_equal(restored, squeezed.restore())
    monkeypatch.setattr(stratification, "LARGE", 100)
    monkeypatch.setattr(stratification, "COLUMNS", 64)
    points = restored_features(squeezed)
    assert points.shape == (count + 2, count - 1)
    np.testing.assert_allclose(pdist(points), pdist(restored), rtol=1e-9, atol=1e-6)
    labels = stratify(restored, 4, seed=0)
    np.testing.assert_array_equal(stratify(points, 4, seed=0), labels)
    np.testing.assert_allclose(
        within_stratum_std(points, labels), within_stratum_std(restored, labels), rtol=1e-6
    )
