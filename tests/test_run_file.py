"""What a file of a run can store, and the sentence for what it cannot or was written by another version."""

import json
from collections import namedtuple
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from fedstas import methods, simulation
from fedstas.authors import FrozenState, FrozenStrata
from fedstas.balanced import BalancedState
from fedstas.client_sampling import Cohort, Strata, StrataState
from fedstas.compression import Squeezed
from fedstas.errors import InputError
from fedstas.independent import KVibState, Scores
from fedstas.least_variance import LeastVarianceState
from fedstas.sim import run_file
from fedstas.state import Renewed, classes_of_parts, declared_classes

ARRAY = np.arange(3)


def write_and_read_back(value, classes=()):
    """Return a value as read back after it is written to a file."""
    arrays = {}
    plain = json.loads(json.dumps(run_file.encode(value, arrays, classes)))
    return run_file.decode(plain, arrays, classes)


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
def test_plain_values_are_restored(value):
    assert repr(write_and_read_back(value)) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        ARRAY,
        np.float32(0.1),
        np.zeros((2, 0)),
        np.array(["a", "bc"]),
        np.array([np.nan, -0.0]),
        torch.arange(4.0).reshape(2, 2),
        torch.tensor(0.5),
    ],
    ids=str,
)
def test_arrays_and_tensors_are_restored_with_their_type(value):
    result = write_and_read_back({"x": value})["x"]
    assert type(result) is type(value) and result.dtype == value.dtype
    np.testing.assert_array_equal(np.asarray(result), np.asarray(value))


STATES = [
    StrataState(Renewed(Strata(ARRAY, ARRAY / 2, ARRAY), 3)),
    FrozenState(Renewed(FrozenStrata(ARRAY, ARRAY, ARRAY), 1)),
    LeastVarianceState(
        Renewed(Squeezed(ARRAY[None] / 7, ARRAY[None]), 1), Renewed((ARRAY, ARRAY / 2), 2)
    ),
    BalancedState(),
    KVibState(Renewed(Scores(ARRAY / 3, 0.5, ARRAY / 4), 2), ARRAY),
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: type(state).__name__)
def test_the_states_of_the_packages_designs_are_restored(state):
    kind = type(state)
    result = write_and_read_back({kind: state}, declared_classes(kind))[kind]
    assert type(result) is kind
    assert repr(result) == repr(state)


@pytest.mark.parametrize("name", methods.names())
def test_every_method_resumes_from_a_file_as_from_its_history(name, digits, federation, tmp_path):
    # Their autoencoder of gradients takes a minute; its state is among those above.
    if "authors" in name:
        return
    method, file = methods.get(name), tmp_path / "run"
    settings = {"clients_per_round": 5, "seed": 0, "device": "cpu"}
    first = simulation.run(digits, federation, method, rounds=2, **settings)
    run_file.save_history(file, {}, first)
    loaded = run_file.load_history(file, {}, method)
    results = [
        simulation.run(digits, federation, method, rounds=3, resume=history, **settings)
        for history in (first, loaded)
    ]
    np.testing.assert_array_equal(results[0].params, results[1].params)
    for one, other in zip(*(r.cohorts for r in results), strict=True):
        np.testing.assert_array_equal(one, other)


@dataclass
class Undeclared:
    """A class that no design declares."""

    x: int = 0


@pytest.mark.parametrize(
    "value, message",
    [
        (np.random.default_rng(0), "a Generator"),
        (namedtuple("Pair", "a b")(1, 2), "a Pair"),
        ({1, 2}, "a set"),
        (np.array([None, {}]), "a ndarray"),
        (lambda: 0, "a function"),
        (Undeclared(), "a Undeclared, .* name it in the annotation of its field"),
    ],
    ids=["generator", "namedtuple", "set", "objects", "function", "dataclass"],
)
def test_values_of_other_types_are_refused(value, message):
    with pytest.raises(InputError, match=f"a state holds {message}"):
        run_file.encode({"key": [value]}, {})


@dataclass
class Counts:
    """The state of `Counting`: the draws by round, and the latest round."""

    draws: dict[int, int] = field(default_factory=dict)
    latest: list[Undeclared] = field(default_factory=list)


@dataclass(frozen=True)
class Counting:
    """A user's design with a state."""

    State = Counts

    def draw(self, view, m, rng):
        counts = view.state_of(self)
        counts.draws[view.round] = m
        counts.latest = [Undeclared(view.round)]
        return Cohort(np.arange(m), np.full(m, 1 / m))


def test_a_users_state_is_stored_with_the_classes_that_its_annotations_name():
    assert classes_of_parts(Counting()) == {Counts, Undeclared}
    state = Counts({1: 5}, [Undeclared(2)])
    assert write_and_read_back(state, classes_of_parts(Counting())) == state


def test_a_state_of_an_undeclared_class_or_with_other_fields_is_reported_as_another_version():
    arrays = {}
    plain = run_file.encode(Counts(), arrays, declared_classes(Counts))
    with pytest.raises(InputError, match=r"another version .*holds a .*Counts, which its method"):
        run_file.decode(plain, arrays)
    ((name, content),) = plain.items()
    content["dict"].append(["more", 1])
    with pytest.raises(InputError, match=r"another version .*Counts has other fields"):
        run_file.decode({name: content}, arrays, declared_classes(Counts))


@pytest.mark.parametrize("version", [None, 2, "new"])
def test_a_file_of_another_version_is_refused(version, tmp_path):
    file = tmp_path / "run"
    run_file.write(file, {"asked": {}, "version": version}, {})
    with pytest.raises(InputError, match="run: it was written by another version of fedstas"):
        run_file.load_history(file, {}, methods.get("md"))


@pytest.mark.parametrize(
    "owner_state, message",
    [
        (None, "declares none: give it a class attribute `State`"),
        (dict, "declares none"),
        (dataclass(type("S", (), {"__annotations__": {"x": int}})), "no default for x"),
    ],
)
def test_a_design_without_a_usable_state_is_refused_in_one_sentence(
    owner_state, message, digits, federation
):
    @dataclass(frozen=True)
    class Design:
        State = owner_state

        def draw(self, view, m, rng):
            view.state_of(self)

    with pytest.raises(InputError, match=message):
        simulation.run(
            digits,
            federation,
            methods.Method("own", Design()),
            rounds=1,
            clients_per_round=2,
            seed=0,
        )
