"""Sketches: a few signed sums in place of a vector, so that a client sends 64 numbers and not its gradient.

With signs s_j in {-1, 1}^d, j = 1..size, the sketch of x is (s_1 x, ..., s_size x) / sqrt(size). Over the signs, the
inner product of two sketches has the mean x y and the variance (|x|^2 |y|^2 + (x y)^2 - 2 sum x_i^2 y_i^2) / size: a
random projection (Johnson and Lindenstrauss 1984) with the signs of Achlioptas 2003, doi:10.1016/S0022-0000(03)00025-4.
"""

import math

import numpy as np

from fedstas.errors import InputError, check_int

BLOCK = 4096  # coordinates whose signs exist at once


def check_size(size: int, d: int) -> int:
    """Return the number of signed sums, if it is in 1..d for vectors of d numbers."""
    return check_int("sketch_size (numbers of a sketch)", size, 1, d)


def signed_sums(vectors, size: int, rng: np.random.Generator) -> np.ndarray:
    """Sketch vectors [N, d]: float32 [N, size], or [size] of one vector [d].

    Vectors are sketched alike, by a server or by their clients, with fresh generators of one seed. Signs are drawn and
    used block by block, and sums are of float64.

    Args:
        vectors: finite numbers.
        size: numbers of a sketch, 1..d.
        rng: draws the signs, d * size of them.
    """
    vectors = np.asarray(vectors)
    if vectors.ndim not in (1, 2) or vectors.dtype.kind not in "fiu" or not vectors.shape[-1]:
        raise InputError(
            f"the vectors to sketch are {vectors.dtype} {list(vectors.shape)}: give numbers [N, d] or [d]"
        )
    d, rows = vectors.shape[-1], np.atleast_2d(vectors)
    size = check_size(size, d)
    sums = np.zeros((len(rows), size))
    for start in range(0, d, BLOCK):
        block = rows[:, start : start + BLOCK].astype(np.float64)
        count = block.shape[1] * size
        random_bytes = np.frombuffer(rng.bytes(math.ceil(count / 8)), np.uint8)
        bits = np.unpackbits(random_bytes, count=count)  # one for each sign
        sums += block @ (1.0 - 2.0 * bits.reshape(-1, size))
    if not np.isfinite(sums).all():
        raise InputError("the vectors to sketch hold a number that is not finite")
    return (sums / np.sqrt(size)).astype(np.float32).reshape(*vectors.shape[:-1], size)
