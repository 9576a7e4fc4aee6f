"""What a file of a run can hold, and the sentence for what it cannot."""

from collections import namedtuple

import numpy as np
import pytest
import torch

from fedstas.authors import Frozen
from fedstas.client_sampling import Strata
from fedstas.compression import Squeezed
from fedstas.errors import InputError
from fedstas.sim import run_file

ONE = np.arange(3)


def through(value):
    """The value after a state file."""
    arrays = {}
    plain = run_file.encode(value, arrays)
    return run_file.decode(run_file.json.loads(run_file.json.dumps(plain)), arrays)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**70),
        0.1 + 0.2,
        float("inf"),
        "é",
        [],
        (1, [2, (3, None)], {}),
        {"a": 1, 2: ("b",), (0, 1): {None: False}},
    ],
    ids=str,
)
def test_plain_values_come_back_as_they_were(value):
    assert repr(through(value)) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        ONE,
        np.float32(0.1),
        np.zeros((2, 0)),
        np.array(["a", "bc"]),
        np.array([np.nan, -0.0]),
        torch.arange(4.0).reshape(2, 2),
        torch.tensor(0.5),
    ],
    ids=str,
)
def test_arrays_and_tensors_come_back_with_their_type(value):
    found = through({"x": value})["x"]
    assert type(found) is type(value) and found.dtype == value.dtype
    np.testing.assert_array_equal(np.asarray(found), np.asarray(value))


@pytest.mark.parametrize(
    "value", [Strata(ONE, ONE / 2, ONE), Frozen(ONE, ONE, ONE), Squeezed(ONE[None] / 7, ONE[None])]
)
def test_what_the_packages_designs_remember_comes_back(value):
    found = through(("since", value))[1]
    assert type(found) is type(value)
    for name, own in vars(value).items():
        np.testing.assert_array_equal(getattr(found, name), own)


@pytest.mark.parametrize(
    "value, said",
    [
        (np.random.default_rng(0), "a Generator"),
        (namedtuple("Pair", "a b")(1, 2), "a Pair"),
        ({1, 2}, "a set"),
        (np.array([None, {}]), "a ndarray"),
        (lambda: 0, "a function"),
    ],
    ids=["generator", "namedtuple", "set", "objects", "function"],
)
def test_anything_else_is_said(value, said):
    with pytest.raises(InputError, match=f"remembers {said}, which a state file cannot hold"):
        run_file.encode({"kept": [value]}, {})
