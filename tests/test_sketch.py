"""Signed sums: the moments of their inner products by enumeration of all signs, and sketches of clients and server."""

from itertools import product

import numpy as np
import pytest

from fedstas import sketch
from fedstas.errors import InputError


class FixedSigns:
    """A generator whose bytes are given bits, a sign each."""

    def __init__(self, bits):
        self.bits = np.array(bits, np.uint8)

    def bytes(self, count: int) -> bytes:
        packed = np.packbits(self.bits).tobytes()
        assert len(packed) == count
        return packed


@pytest.mark.parametrize("size", [1, 2, 3])
def test_inner_products_have_the_mean_and_variance_of_the_docstring(size):
    x, y = np.array([1.0, -2.0, 3.0]), np.array([2.0, 0.5, -1.0])
    values = []
    for bits in product((0, 1), repeat=3 * size):  # every table of signs once
        a, b = sketch.signed_sums(np.stack([x, y]), size, FixedSigns(bits)).astype(float)
        values.append(a @ b)
    assert np.mean(values) == pytest.approx(x @ y, abs=1e-6)
    total = (x @ x) * (y @ y) + (x @ y) ** 2 - 2 * (x**2 * y**2).sum()
    assert np.var(values) == pytest.approx(total / size, rel=1e-5)


def test_a_client_makes_the_sketch_that_the_server_would():
    vectors = np.random.default_rng(0).normal(size=(5, 10_000)).astype(np.float32)
    by_server = sketch.signed_sums(vectors, 64, np.random.default_rng(7))
    assert by_server.shape == (5, 64) and by_server.dtype == np.float32
    for row, vector in zip(by_server, vectors, strict=True):
        by_client = sketch.signed_sums(vector, 64, np.random.default_rng(7))
        np.testing.assert_allclose(by_client, row, rtol=1e-5, atol=1e-4)
    other = sketch.signed_sums(vectors, 64, np.random.default_rng(8))
    assert np.abs(other - by_server).max() > 1


def test_a_sketch_does_not_depend_on_the_size_of_its_blocks(monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(3, 100))
    one_block = sketch.signed_sums(vectors, 12, np.random.default_rng(1))
    monkeypatch.setattr(sketch, "BLOCK", 16)
    small_blocks = sketch.signed_sums(vectors, 12, np.random.default_rng(1))
    np.testing.assert_allclose(small_blocks, one_block, rtol=1e-5, atol=1e-6)


def test_a_sketch_is_linear_and_that_of_zeros_is_zero():
    x, y = np.random.default_rng(0).normal(size=(2, 50))
    sums = [sketch.signed_sums(v, 8, np.random.default_rng(1)) for v in (x, y, x - 3 * y)]
    np.testing.assert_allclose(sums[2], sums[0] - 3 * sums[1], atol=1e-5)
    assert not sketch.signed_sums(np.zeros((2, 50)), 8, np.random.default_rng(1)).any()


@pytest.mark.parametrize("size", [0, -1, 5, 2.5, None, "8"])
def test_a_sketch_has_between_one_and_d_numbers(size):
    with pytest.raises(InputError, match="at least 1 and at most 4"):
        sketch.signed_sums(np.ones((2, 4)), size, np.random.default_rng(0))


@pytest.mark.parametrize("vectors", [np.ones((2, 2, 2)), np.array("x"), np.ones((2, 0)), ["a"]])
def test_vectors_are_numbers_in_rows(vectors):
    with pytest.raises(InputError, match=r"give numbers \[N, d\] or \[d\]"):
        sketch.signed_sums(vectors, 1, np.random.default_rng(0))


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(InputError, match="a number that is not finite"):
        sketch.signed_sums([1.0, np.nan], 1, np.random.default_rng(0))
