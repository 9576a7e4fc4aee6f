"""Randomised response on client sizes, the estimate of their total, the privacy loss epsilon; noisy label counts and
sketches.

FedSTaS Sec. 5.2 and 6.4. A client of size n answers min(n, M-1) with probability alpha, and a
uniform number of 1..M-1 otherwise; the support 1..M-1 is the only one that agrees with both
eq. 5.7 and Lemma 5.

Each mechanism is local: a client draws its own noise. What an epsilon protects is its unit: the whole size for a
report; one example, added to or removed from the client's data, for label counts (`noisy_counts`); the client, all its
data at once, for a sketch (`noisy_sketch`).
"""

import math

import numpy as np

from fedstas.arrays import MAX_COUNT, as_float_array, as_int_array
from fedstas.errors import check_float, check_int
from fedstas.theory import reports as theory

MAX_EXPONENT = 700  # of e, up to which the result is a float
MIN_ALPHA = 1e-100  # its square is still a normal float, by which a variance can be divided


def truth_probability(epsilon: float, size_cap: int) -> float:
    """Compute the largest alpha that is epsilon-LDP, (e^eps - 1) / (e^eps + M - 2) (Lemma 5, eq. 6.13).

    `InputError` beyond 36 + log(M - 1): there alpha rounds to 1, and every report would be a true size.
    """
    size_cap = _check_cap(size_cap)
    epsilon = check_float("epsilon", epsilon, 0, 36 + math.log(size_cap - 1))
    return -math.expm1(-epsilon) / (1 + (size_cap - 2) * math.exp(-epsilon))


def _check_cap(size_cap) -> int:
    """Return the size cap M as an int of at least 3, or raise an `InputError`."""
    return check_int("size_cap", size_cap, 3, MAX_COUNT)


def epsilon(alpha: float, size_cap: int) -> float:
    """Compute the epsilon of one report, log(1 + (M-1) alpha / (1 - alpha)); infinite for alpha = 1."""
    alpha, size_cap = check_float("alpha", alpha, 0, 1, open_low=False), _check_cap(size_cap)
    return math.inf if alpha == 1 else math.log1p((size_cap - 1) * alpha / (1 - alpha))


def clip(sizes, size_cap: int) -> np.ndarray:
    """Clip sizes to 1..M-1. The paper clips above only, so that a true report 0 would reveal an empty client."""
    return np.clip(as_int_array("client sizes", sizes, ndim=None), 1, _check_cap(size_cap) - 1)


def report(sizes, *, size_cap: int, alpha: float, rng: np.random.Generator) -> np.ndarray:
    """Draw reports r_k in 1..M-1 of clients with these sizes (eq. 5.6), int of the shape of `sizes`."""
    true, alpha = clip(sizes, size_cap), check_float("alpha", alpha, 0, 1, open_low=False)
    fake = rng.integers(1, int(size_cap), size=true.shape)
    return np.where(rng.random(true.shape) < alpha, true, fake).astype(np.int64)


def estimate_total(reports, *, size_cap: int, alpha: float) -> float:
    """Estimate the total of the clipped sizes from m reports in 1..M-1 (eq. 5.7), as printed: it may be negative."""
    alpha, size_cap = (
        check_float("alpha", alpha, MIN_ALPHA, 1, open_low=False),
        _check_cap(size_cap),
    )
    reports = as_int_array("reports", reports, 1, size_cap - 1, ndim=None)
    return float((reports.sum() - (1 - alpha) * size_cap * reports.size / 2) / alpha)


def estimate_variance(sizes, *, size_cap: int, alpha: float, times=1) -> float:
    """Compute the variance of `estimate_total`: the sum over clients of
    t^2 [(1-a) s2 + a (1-a) (n_c - M/2)^2] / a^2 with a = alpha and s2 = M(M-2)/12.

    `times` t [m]: how often the report of each client counts, where one that is drawn again repeats it.
    """
    true, alpha = clip(sizes, size_cap), check_float("alpha", alpha, MIN_ALPHA, 1, open_low=False)
    fake_variance = size_cap * (size_cap - 2) / 12
    terms = (1 - alpha) * fake_variance + alpha * (1 - alpha) * (true - size_cap / 2) ** 2
    return float((terms * np.square(times)).sum() / alpha**2)


def composed_epsilon(alpha: float, size_cap: int, reports: int, delta: float = 0.0) -> float:
    """Compute the epsilon of `reports` fresh reports of one client, exactly (`theory.reports`)."""
    return theory.composed_epsilon(alpha, size_cap, reports, delta)


def noisy_counts(counts, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Add Laplace noise of scale 1/epsilon to each of a client's label counts: float of the shape of `counts`.

    The unit is one example, added or removed: it changes one count by one, so that the counts are epsilon-locally
    differentially private (Dwork et al. 2006, doi:10.1007/11681878_14). To replace an example changes two counts, at
    2 epsilon. A client must answer a repeated question with the same numbers, or their mean reveals the counts.
    """
    counts = as_int_array("label counts", counts, ndim=None)
    epsilon = check_float("epsilon", epsilon, 0)
    return counts + rng.laplace(scale=1 / epsilon, size=counts.shape)


def gaussian_delta(sigma: float, epsilon: float, sensitivity: float) -> float:
    """Compute the least delta at which Gaussian noise of standard deviation sigma is (epsilon, delta)-differentially
    private for answers that are `sensitivity` apart in L2 (Balle and Wang 2018, arXiv:1805.06530, Theorem 8).

    Args:
        sigma: above 0.
        epsilon: at least 0.
        sensitivity: above 0.

    Raises:
        InputError: an argument is out of range.
    """
    sigma, epsilon = (
        check_float("sigma", sigma, 0),
        check_float("epsilon", epsilon, 0, open_low=False),
    )
    return max(0.0, _gaussian_delta(sigma, epsilon, check_float("sensitivity", sensitivity, 0)))


def _gaussian_delta(sigma: float, epsilon: float, sensitivity: float) -> float:
    """Compute `gaussian_delta` of arguments that are in range, up to a rounding error that may make it negative."""
    half, shift = sensitivity / (2 * sigma), epsilon * sigma / sensitivity

    def normal_cdf(x: float) -> float:  # by erfc, which is exact in the tail
        return math.erfc(-x / math.sqrt(2)) / 2

    if (
        epsilon > MAX_EXPONENT
    ):  # the second factors are inverse, and far outside the range of floats
        from scipy.special import erfcx

        density = math.exp(-(min(abs(half - shift), 100.0) ** 2) / 2)
        return normal_cdf(half - shift) - density * float(erfcx((half + shift) / math.sqrt(2))) / 2
    return normal_cdf(half - shift) - math.exp(epsilon) * normal_cdf(-half - shift)


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Compute the least standard deviation of Gaussian noise that is (epsilon, delta)-differentially private for
    answers that are `sensitivity` apart in L2: the analytic Gaussian mechanism of Balle and Wang 2018."""
    from scipy.optimize import brentq

    epsilon = check_float("epsilon", epsilon, 0, 100)
    delta = check_float("delta", delta, 1e-15, 1, open_low=False, open_high=True)
    sensitivity = check_float("sensitivity", sensitivity, 0)
    # The logarithm of sigma for a sensitivity of 1. For the epsilon and delta that are allowed it is inside -20..40.
    log_sigma = brentq(
        lambda x: _gaussian_delta(math.exp(x), epsilon, 1) - delta, -20, 40, xtol=1e-13
    )
    return sensitivity * math.exp(log_sigma)


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float) -> float:
    """Compute the least epsilon at which Gaussian noise of standard deviation sigma is (epsilon, delta)-differentially
    private for answers that are `sensitivity` apart in L2: the inverse of `gaussian_sigma`, for any epsilon."""
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    ratio = check_float("sensitivity", sensitivity, 0) / check_float("sigma", sigma, 0)
    delta = check_float("delta", delta, 1e-15, 1, open_low=False, open_high=True)

    def excess(epsilon: float) -> float:  # `gaussian_delta`, whose exp would overflow, minus delta
        log_second = epsilon + log_ndtr(-ratio / 2 - epsilon / ratio)
        return math.exp(log_ndtr(ratio / 2 - epsilon / ratio)) - math.exp(log_second) - delta

    if excess(0.0) <= 0:
        return 0.0
    # Beyond this the first term alone is below delta >= 1e-15, which is so from 8 standard deviations on.
    return float(brentq(excess, 0.0, ratio * (ratio / 2 + 8), xtol=1e-12, rtol=1e-12))


def noisy_sketch(sketch, clip: float, epsilon: float, delta: float, rng) -> np.ndarray:
    """Shorten a client's sketch [size] to at most `clip` in L2 and add Gaussian noise: float [size].

    The unit is the client: the sketches of any two are at most 2 clip apart, so that one answer is (epsilon, delta)-
    locally differentially private. Answers of several rounds compose: T of them are (T epsilon, T delta)-private.
    """
    sketch, clip = as_float_array("a sketch", sketch), check_float("clip", clip, 0)
    length = np.linalg.norm(sketch)
    sketch = sketch * min(1.0, clip / length) if length else sketch
    return sketch + gaussian_sigma(epsilon, delta, 2 * clip) * rng.normal(size=sketch.shape)
