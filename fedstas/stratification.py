"""Strata of clients from their restored gradients (FedSTaS, Alg. 2)."""

import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from fedstas.arrays import as_array, as_float_array, as_int_array, rescale, rescale_exponent
from fedstas.compression import Squeezed
from fedstas.errors import InputError, check_int

LARGE = 2**26  # entries N d of all gradients, above which they are restored block by block
COLUMNS = 4096  # columns of a block


def coordinates(features) -> np.ndarray:
    """Return points [N, at most N] with the distances of features [N, d], rounded.

    k-means depends on distances only, and N points span at most N dimensions. Rounding to 2^-16 of the largest
    coordinate hides rounding errors, which differ between backends, so that they do not change a cohort.
    """
    features = as_array("features", features)
    if features.ndim != 2 or not features.size:
        raise InputError("features must have the shape [N, d], with at least one client")
    points = rescale(as_float_array("features", features, ndim=2))
    points -= points.mean(axis=0)
    points = rescale(points)
    if points.shape[1] > len(points):
        values, vectors = np.linalg.eigh(points @ points.T)
        points = vectors * np.sqrt(np.maximum(values, 0.0))
    return round_to_grid(points)


def restored_features(squeezed: Squeezed) -> np.ndarray:
    """Return the restored gradients [N, d], or points [N, at most N] with the same distances if N d is large.

    The Gram matrix of the centred Z is summed over blocks of columns; the rows of its pivoted Cholesky factor are such
    points. Beside the codes that takes 32 N^2 + 82,000 N bytes (20 for each entry of a block) instead of 12 N d.
    """
    count, d = squeezed.codes.shape
    if count * d <= LARGE:
        return squeezed.restore()
    from scipy.linalg.lapack import dpstrf

    gram = np.zeros((count, count))
    for start in range(0, d, COLUMNS):
        codes = squeezed.codes[:, start : start + COLUMNS]
        block = Squeezed(squeezed.levels, codes).restore().astype(np.float64)
        block -= block.mean(axis=0)
        gram += block @ block.T
    # LAPACK reads columns first: the upper triangle of a symmetric matrix is its lower one. Row i of the factor L, of
    # which the lower triangle alone is written, belongs to client pivots[i] - 1 (LAPACK counts from 1).
    factor, pivots, rank, _ = dpstrf(gram.T, lower=1, overwrite_a=True)
    points = np.zeros((count, rank))
    for column in range(rank):
        points[pivots[column:] - 1, column] = factor[column:, column]
    return points


def round_to_grid(points) -> np.ndarray:
    """Round points to multiples of 2^-16 of the largest coordinate (rounded up to a power of two), float64.

    So rounding errors, which differ between machines, do not change strata and cohorts.
    """
    points, e = rescale_exponent(as_float_array("points", points, ndim=None))
    largest = max(points.max(initial=0.0), -points.min(initial=0.0))
    if largest == 0.0:
        return points
    grid = 2.0 ** (np.ceil(np.log2(largest)) - 16)
    result = points / grid  # changed in place: [N, P] floats are the largest array of a run
    np.round(result, out=result)
    result *= grid
    result += 0.0  # no negative zeros
    return np.ldexp(result, e) if e else result


def draw_kmeans_seed(rng: np.random.Generator) -> int:
    """Draw a seed for scikit-learn, whose seeds are below 2^32; recorded runs have drawn below 2^31."""
    return int(rng.integers(2**31))


def kmeans(clusters: int, **settings):
    """Make a scikit-learn KMeans. The import takes seconds, and most commands cluster nothing."""
    from sklearn.cluster import KMeans

    return KMeans(clusters, **settings)


def stratify(features, strata: int, seed: int) -> np.ndarray:
    """Partition clients with features [N, d] into at most `strata` strata by k-means (Alg. 2): labels int [N].

    Ten starts of scikit-learn's KMeans. No stratum is empty: with fewer distinct clients than `strata` there are
    fewer strata. Labels are numbered in order of first appearance.
    """
    strata, seed = check_int("strata", strata, 1), check_int("seed", seed, 0, 2**32 - 1)
    points = coordinates(features)
    strata = min(strata, len(np.unique(points, axis=0)))
    if strata == 1:
        return np.zeros(len(points), dtype=np.int64)
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # With more threads sums round otherwise, and of starts that end alike another may win.
        with threadpool_limits(1):
            raw = kmeans(strata, n_init=10, random_state=seed).fit(points).labels_
    _, first, labels = np.unique(raw, return_index=True, return_inverse=True)
    # The rank of each stratum's first client replaces its label.
    return np.argsort(np.argsort(first))[labels].astype(np.int64)


def within_stratum_std(features, labels) -> np.ndarray:
    """Return S_h [H], the root of the mean squared distance of a stratum's features [N, d] to their centre.

    The journal version prints "sample variance" (Sec. 3.1); eq. 3.5 needs the standard deviation.
    """
    features = as_array("features", features)
    if features.ndim != 2 or len(features) != np.size(labels):
        raise InputError("features must have the shape [N, d], with one label for each client")
    labels = as_int_array("labels", labels, 0, max(0, len(features) - 1))
    result = np.zeros(labels.max() + 1)
    for h in range(len(result)):
        if (labels == h).sum() > 1:
            group, e = rescale_exponent(as_float_array("features", features[labels == h], ndim=2))
            group -= group.mean(axis=0)
            group, finer = rescale_exponent(group)
            mean = np.square(group, out=group).sum() / len(group)
            result[h] = np.ldexp(np.sqrt(mean), e + finer)
    return result


spread = within_stratum_std  # its name in the API
