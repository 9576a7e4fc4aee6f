"""Configuration classes, the parts of a method: settings that are checked, and their form in a run's record."""

import dataclasses
import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from companion.runs import records
from fedstas import client_sampling, config, methods
from fedstas.errors import InputError
from fedstas.methods import LocalSGD

RESULTS = Path(__file__).resolve().parents[1] / "results"
# By module, the names that DESIGN.md marks as API: called from outside, so an old name stays as an alias.
API = {
    "fedstas.allocation": "proportional neyman neyman_real largest_remainder",
    "fedstas.clustered": "by_size by_groups similarity_groups",
    "fedstas.compression": "squeeze Squeezed",
    "fedstas.methods": "get names Method",
    "fedstas.privacy": "truth_probability epsilon report estimate_total estimate_variance composed_epsilon",
    "fedstas.stratification": "stratify spread",
    "fedstas.theory": "design_moments inclusion_probabilities size_estimator_moments srs_covariance "
    "bernoulli_covariance paper_lemma4 ldp_ratio",
    "fedstas.sim.engine": "pool local_updates",
    "fedstas.sim.models": "flatten",
    "fedstas.sim.partition": "iid dirichlet dirichlet_fixed_size by_class lognormal natural Federation",
    "fedstas.sim.server": "Server",
    "fedstas.sim.simulation": "run History",
    "fedstas.sim.tasks": "load names Task",
    "companion.runs.records": "load rerun",
    "companion.claims.ledger": "claims",
}


@pytest.fixture
def config_classes(monkeypatch):
    """Return two configuration classes, the first a field of the second, registered for one test."""
    monkeypatch.setattr(config, "CONFIG_CLASSES", dict(config.CONFIG_CLASSES))

    @config.config
    class Inner:
        """A part with a setting of each form."""

        count: int = config.int_field(3, 1, 9)
        share: float | None = config.float_field(None, 0, 1, optional=True)
        voice: str = config.choice_field("low", "high")
        loud: bool = config.bool_field(False)

    @config.config
    class Outer:
        """A part around another one."""

        inner: Inner = Inner()
        scale: float = config.float_field(1.0, 0)

    return Inner, Outer


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "count is 0.*at least 1"),
        ({"count": 10}, "count is 10.*at most 9"),
        ({"count": "3"}, "count is '3'"),
        ({"share": 0}, "share is 0.*above 0"),
        ({"share": 1.5}, "share is 1.5.*at most 1"),
        ({"voice": "loud"}, "unknown voice 'loud': use one of low, high"),
        ({"voice": ["low"]}, r"unknown voice \['low'\]"),
        ({"voice": np.array(["low", "high"])}, r"unknown voice \['low', 'high'\]"),
        ({"count": True}, "count is True"),
        ({"count": np.True_}, "count is np.True_"),
        ({"count": np.array([1, 2])}, r"count is \[1, 2\]"),
        ({"share": "0.5"}, "share is '0.5': it must be a number above 0"),
        ({"share": b"1"}, "share is b'1'"),
        ({"share": True}, "share is True"),
        ({"share": np.True_}, "share is np.True_"),
        ({"share": 10**400}, "share is 1000"),
        ({"loud": "yes"}, "loud is 'yes': it must be True or False"),
        ({"loud": 1}, "loud is 1: it must be True or False"),
        ({"loud": None}, "loud is None"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_its_name(config_classes, values, message):
    with pytest.raises(InputError, match=message):
        config_classes[0](**values)


def test_a_missing_required_number_is_reported(config_classes):
    assert config_classes[0]().share is None
    with pytest.raises(InputError, match="scale is None"):
        config_classes[1](scale=None)
    with pytest.raises(InputError, match="inner is 3: it must be of kind Inner"):
        config_classes[1](3)


def test_the_identity_of_a_run_does_not_depend_on_the_types_of_its_numbers(config_classes):
    """Plain, so that they can be recorded; `1` and `1.0` of a share are the same, and so is `-0.0`."""
    inner, _ = config_classes
    plain = inner(count=3, share=1.0, voice="high", loud=True)
    for values in (
        {"count": np.int64(3), "share": 1, "voice": np.str_("high"), "loud": np.True_},
        {"count": 3.0, "share": np.float32(1), "voice": "high", "loud": True},
    ):
        plain_data = config.to_dict(inner(**values))
        assert json.dumps(plain_data) == json.dumps(config.to_dict(plain))
        assert [type(v) for v in plain_data.values()] == [str, int, float, str, bool]
    assert repr(LocalSGD(prox=-0.0).prox) == "0.0"


def test_a_config_is_frozen_and_equal_to_one_of_the_same_settings(config_classes):
    inner, _ = config_classes
    assert inner(count=4) == inner(4) != inner()
    assert hash(inner(4)) == hash(inner(count=4))
    with pytest.raises(dataclasses.FrozenInstanceError):
        inner().count = 5


def test_a_config_with_a_part_inside_is_restored_from_plain_data(config_classes):
    inner, outer = config_classes
    plain_data = outer(inner(count=5, voice="high"), scale=2.0)
    inside = {"count": 5, "share": None, "voice": "high", "loud": False}
    data = {"is": "Outer", "inner": inside, "scale": 2.0}
    assert config.to_dict(plain_data) == data
    assert config.from_dict(data) == plain_data
    with pytest.raises(InputError, match="unknown part 'Nobody'"):
        config.from_dict(data | {"is": "Nobody"})


def test_settings_of_a_part_inside_are_listed_and_changed(config_classes):
    inner, outer = config_classes
    usual = {"count": 3, "share": None, "voice": "low", "loud": False}
    assert config.settings(outer()) == usual | {"scale": 1.0}
    changed = config.with_settings(outer(), {"count": 7, "scale": 3.0, "elsewhere": 1})
    assert changed == outer(inner(count=7), scale=3.0)


def test_a_later_setting_enters_an_identity_only_where_it_differs_from_its_default(config_classes):
    @config.config
    class Inner:  # the same kind, a version later
        """With one more setting."""

        count: int = config.int_field(3, 1, 9)
        share: float | None = config.float_field(None, 0, 1, optional=True)
        voice: str = config.choice_field("low", "high")
        loud: bool = config.bool_field(False)
        speed: float = config.float_field(1.0, 0, later=True)

    before = config.to_dict(config_classes[0](count=4))
    assert config.to_dict(Inner(count=4)) == before
    assert config.from_dict(before) == Inner(count=4)
    assert config.to_dict(Inner(speed=2.0))["speed"] == 2.0


def test_a_check_that_a_config_defines_is_run():
    @config.config
    class Range:
        """A part whose check relates two settings, which the bounds of a field cannot express."""

        low: float = config.float_field(1.0, 0)
        high: float = config.float_field(4.0, 0)

        def __post_init__(self):
            if self.low > self.high:
                raise InputError(f"low is {self.low}: it must be at most high, {self.high}")

    assert Range(2.0).low == 2.0
    with pytest.raises(InputError, match=r"low is 5\.0: it must be at most high, 4\.0"):
        Range(5.0)
    with pytest.raises(InputError, match="low is 0"):  # the bounds of the fields are checked, too
        Range(0)
    del config.CONFIG_CLASSES["Range"]


def test_a_class_name_registered_by_another_module_is_refused(config_classes):
    class Uniform:
        """As the package's design."""

    with pytest.raises(
        InputError, match=f"{client_sampling.__name__} has a configuration class Uniform already"
    ):
        config.config(Uniform)


@pytest.fixture(scope="module")
def recorded_methods() -> list[dict]:
    """The distinct methods of all recorded runs, as plain data of their identities."""
    identities = records.identities(RESULTS).values()
    return [
        json.loads(text) for text in {json.dumps(identity["method"]) for identity in identities}
    ]


def test_every_recorded_method_is_read_and_written_back_equal(recorded_methods):
    assert len(recorded_methods) > 300
    for data in recorded_methods:
        assert methods.to_dict(methods.from_dict(data)) == data


def test_every_recorded_method_is_rebuilt_from_its_name_and_settings(recorded_methods):
    """A changed entry of `methods` that would change recorded runs fails here."""
    for data in recorded_methods:
        recorded, entry = methods.from_dict(data), methods.get(data["name"])
        own = config.settings(recorded.clients)
        values = own | config.settings(recorded.data)
        # One setting goes to all parts; where the share of the weights is another than that drawn, the part is given.
        parts = {"clients": recorded.clients} if any(values[k] != v for k, v in own.items()) else {}
        values |= config.settings(recorded.local)
        values["server_rate"] = getattr(recorded.server, "rate", None)
        if (switch := entry.switch) and switch.setting not in values:
            usual = all(type(getattr(recorded, p)) is type(getattr(entry, p)) for p in switch.parts)
            values[switch.setting] = switch.default if usual else not switch.default
        settings = {k: values[k] for k in methods.parameters(data["name"]) if k in values}
        assert methods.get(data["name"], **settings, **parts) == recorded


def class_names(value) -> set[str]:
    """Return the class names anywhere in recorded data."""
    inside = value.values() if isinstance(value, dict) else ()
    name = {value["is"]} if isinstance(value, dict) and "is" in value else set()
    return name.union(*map(class_names, inside))


def test_recorded_class_names_are_registered_and_renamed_ones_are_read(recorded_methods):
    recorded = set().union(*map(class_names, recorded_methods))
    assert recorded <= set(config.CONFIG_CLASSES)
    current_names = {kind.__name__ for kind in config.CONFIG_CLASSES.values()}
    for new, old in config.PERSISTED_NAMES.items():
        kind = config.CONFIG_CLASSES[old]
        assert kind.__name__ == new and config.persisted_name(kind) == old
        assert new not in config.CONFIG_CLASSES and old not in current_names
        assert config.to_dict(kind())["is"] == old
        assert config.from_dict({"is": old}) == kind()


@pytest.mark.parametrize("module", API)
def test_names_marked_as_api_resolve(module):
    for name in API[module].split():
        assert hasattr(importlib.import_module(module), name), name
