"""Streams: a draw is a function of its name."""

import numpy as np
import pytest
from scipy.stats import kstest

from fedstas.sim.rng import stream


def test_a_stream_is_a_function_of_seed_purpose_and_ids():
    first = stream(3, "data", 5, 2).random(4)
    stream(3, "clients", 5).random(1000)  # another draw in between changes nothing
    np.testing.assert_array_equal(stream(3, "data", 5, 2).random(4), first)
    np.testing.assert_array_equal(stream(3, "data", np.int64(5), 2).random(4), first)


def test_different_names_give_different_streams():
    names = [
        (0, "data"),
        (1, "data"),
        (0, "clients"),
        (0, "data", 1),
        (0, "data", 1, 2),
        (0, "data", 2, 1),
        (0, "data", 12),
        (0, "data", 1, 2, 0),
        (10, "data", 1),
        (1, "data", 0, 1),
    ]
    assert len({stream(*name).integers(2**63) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ((0, "partition"), [3022730021, 3016914066, 2289200184]),
        ((7, "data", 3, 1), [1835857408, 1247320832, 1231705047]),
    ],
)
def test_streams_give_the_recorded_numbers(name, first):
    """Recorded runs can be made again only as long as these numbers stay."""
    assert stream(*name).integers(2**32, size=3).tolist() == first


def test_first_draws_of_neighbouring_streams_are_uniform_and_unrelated(false_alarm):
    draws = np.array([stream(0, "data", t, k).random() for t in range(40) for k in range(50)])
    assert kstest(draws, "uniform").pvalue > false_alarm
    table = draws.reshape(40, 50)
    # Correlations of neighbours over 2,000 pairs: the bound is 6 standard errors.
    for a, b in ((table[:, :-1], table[:, 1:]), (table[:-1], table[1:])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 6 / np.sqrt(a.size)
