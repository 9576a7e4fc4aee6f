"""The named methods and their settings."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from fedstas import methods
from fedstas.aggregation import Adaptive, Average, UpdateMemoryServer
from fedstas.balanced import Balanced
from fedstas.client_sampling import (
    MD,
    Uniform,
)
from fedstas.data_sampling import FedSampling, FixedSize, Requested
from fedstas.errors import InputError
from fedstas.methods import Method

# What DESIGN.md promises of a setting's default, whichever method has it; exceptions by method.
DEFAULTS = {
    "strata": 10,
    "levels": 9,
    "n_star": 2048,
    "size_cap": 100,
    "epsilon": 3.0,
    "rate": 1.0,
    "steps": 3,
    "batch": 128,
    "lr": 0.01,
    "prox": 0.0,
    "share": 0.1,
    "fraction": 1.0,
    "floor": 0.01,
}
EXCEPTIONS = {
    ("fedprox", "prox"): 0.1,
    ("fedstas-unbiased-dp", "n_star"): None,
    ("fedstas-least-variance", "epsilon"): None,
    # the values of that code
    **{(f"{m}-authors-2025", "n_star"): 2500 for m in ("fedstas", "fedstas-dp")},
    ("fedstas-dp-authors-2025", "size_cap"): 300,
}
CODE_OF_2025 = tuple(f"{m}-authors-2025" for m in ("fedsts", "fedstas", "fedstas-dp"))
RESTRATIFY_EVERY = (
    dict.fromkeys(("fedstas-unbiased", "fedstas-unbiased-dp", "cube", "local-pivotal"), 10)
    | dict.fromkeys(CODE_OF_2025, 20)
    | {"fedstas-least-variance": 0}
)


@pytest.mark.parametrize("name", methods.names())
def test_defaults_are_those_of_the_design_note(name):
    for setting, value in methods.parameters(name).items():
        if setting == "restratify_every":
            assert value == RESTRATIFY_EVERY.get(name, 1)
        elif setting in DEFAULTS:
            assert value == EXCEPTIONS.get((name, setting), DEFAULTS[setting]), setting


def test_methods_have_the_parts_of_the_design_note():
    assert {"fedavg", "md", "fedstas", "fedstas-least-variance", "centralised"} <= set(
        methods.names()
    )
    assert methods.get("fedadam") == Method("fedadam", Uniform("cohort"), server=Adaptive("adam"))
    assert methods.get("mifa").server == UpdateMemoryServer("mifa")
    assert methods.get("local-pivotal").clients == Balanced(
        how="pivotal", measure="size", levels=9, restratify_every=10
    )
    assert methods.get("fedstas-dp").data == Requested(2048, 3.0, 100)


@pytest.mark.parametrize("name", methods.names())
def test_a_method_is_read_back_from_plain_data(name):
    method = methods.get(name, steps=7, lr=0.5)
    data = json.loads(json.dumps(methods.to_dict(method)))
    assert methods.from_dict(data) == method
    assert hash(methods.from_dict(data)) == hash(method)


@pytest.mark.parametrize("name", methods.names())
def test_each_setting_changes_the_method_and_its_plain_data(name):
    """Each setting gets a value that is not its default, alone or with the settings that it needs."""
    changed_values = {
        "strata": 3,
        "levels": 5,
        "restratify_every": 7,
        "n_star": 99,
        "epsilon": 1.5,
        "processor": 4,
        "weights": "plain",
        "size_cap": 42,
        "spread": "variance",
        "rate": 0.5,
        "selection": "uniform",
        "floor": 0.5,
        "steps": 9,
        "batch": 8,
        "lr": 0.3,
        "prox": 0.7,
        "measure": "L1",
        "share": 0.3,
        "fraction": 0.4,
        "approximate": 2,
        "mix": 0.3,
        "candidates": 30,
        "draws": "norm",
        "features": "updates",
        "sketch_size": 16,
        "min_examples": 3,
        "delta": 1e-6,
        "clip": 0.5,
        "noise": True,
        "equal_clients": True,
        "linkage": "average",
        "server_rate": 0.5,
        "exploration": 1.0,
        "temperature": 0.1,
        "entropy_weight": 1.0,
        "gamma": 2.0,
        "horizon": 99,
        "epochs": 2,
        "momentum": 0.5,
        "optimizer": "adam",
        "decay_factor": 0.5,
    }
    measures = {"cube": "size", "local-pivotal": "size-norm"}
    changed_values["measure"] = measures.get(name, "L1")
    changed_values["features"] = "sketch" if name in measures else "updates"
    method = methods.get(name)
    needs_reports = {"epsilon", "size_cap"} if name == "fedstas-unbiased-dp" else set()
    settings = methods.parameters(name)
    del settings["schedule"], settings["decay_rounds"]  # each needs the other
    if name in ("scaffold", "fednova"):
        del settings["optimizer"]  # sgd alone
    if "replace" in settings:
        changed_values["replace"] = not settings["replace"]
    for key, default in settings.items():
        assert changed_values[key] != default
        # What the setting needs beside it to be of use.
        base = {"n_star": 10} if key in needs_reports else {}
        if (name, key) == ("fedstas-least-variance", "epsilon"):
            base = {"features": "labels"}
        if (name, key) == ("fedstas-least-variance", "levels"):
            base = {"features": "gradients"}
        if name == "fedstas-least-variance" and key in ("clip", "delta"):
            base = {"epsilon": 2.0, "clip": 1.0}
        changed = methods.get(name, **base | {key: changed_values[key]})
        method = methods.get(name, **base)
        assert changed != method, key
        assert methods.to_dict(changed) != methods.to_dict(method), key
        if key != "clip":  # which has no default where it is needed
            assert methods.get(name, **base | {key: default}) == method, key
    scheduled = [methods.get(name, schedule="step", decay_rounds=rounds) for rounds in (8, 9)]
    scheduled.append(methods.get(name, schedule="inverse", decay_rounds=9))
    records = [str(methods.to_dict(variant)) for variant in [methods.get(name), *scheduled]]
    assert len(set(records)) == len({methods.get(name), *scheduled}) == 4


def test_parts_of_a_method_can_be_replaced():
    method = methods.get("fedstas", data=FixedSize(100), server=Average(0.5), clients=MD(), lr=0.2)
    assert method.data == FixedSize(100)
    assert method.server == Average(0.5)
    assert method.clients == MD()
    assert method.local.lr == 0.2
    assert methods.from_dict(methods.to_dict(method)) == method


def test_the_server_rate_is_a_setting_of_adaptive_servers():
    assert methods.get("fedyogi", server_rate=0.1).server == Adaptive("yogi", rate=0.1)
    assert methods.parse("fedadam server_rate=0.3").server == Adaptive("adam", rate=0.3)


def test_private_reports_of_the_corrected_method_are_memoised():
    data = methods.get("fedstas-unbiased-dp", n_star=500, epsilon=2.0, size_cap=50).data
    assert data == Requested(500, 2.0, 50, memoised=True)
    assert not methods.get("fedstas-dp").data.memoised


def test_a_method_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        methods.get("md").name = "other"


@pytest.mark.parametrize("name", methods.names())
def test_each_method_is_described_in_one_line(name):
    assert 20 < len(methods.describe(name).splitlines()[0]) < 140


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: methods.get("fedfoo"), "unknown method 'fedfoo': use one of fedavg, .*md"),
        (lambda: methods.parameters("fedfoo"), "unknown method"),
        (lambda: methods.describe("fedfoo"), "unknown method"),
        (lambda: methods.get("md", strata=3), "md has no setting 'strata': it has steps"),
        (lambda: methods.get("fedstas", rate=0.5), "fedstas has no setting 'rate'.*n_star"),
        (lambda: methods.get("fedstas", strata=0), "strata is 0"),
        (lambda: methods.get("fedstas", strata="ten"), "strata is 'ten'"),
        (lambda: methods.get("fedstas", levels=300), "levels is 300.*at most 256"),
        (lambda: methods.get("fedstas", n_star=0), "n_star is 0"),
        (lambda: methods.get("fedstas-dp", epsilon=-1), "epsilon is -1"),
        (lambda: methods.get("fedstas-dp", size_cap=1), "size_cap is 1"),
        (lambda: methods.get("fedstas-unbiased", rate=1.5), "rate is 1.5.*at most 1"),
        (lambda: methods.get("fedstas-unbiased-dp", selection="size"), "selection 'size'"),
        (lambda: methods.get("md", steps=0), "steps is 0"),
        (lambda: methods.get("md", steps=True), "steps is True"),
        (lambda: methods.get("md", batch=0.5), "batch is 0.5"),
        (lambda: methods.get("md", lr=0), "lr is 0"),
        (lambda: methods.get("md", lr="0.5"), "lr is '0.5': it must be a number above 0"),
        (lambda: methods.get("fedstas", replace="yes"), "replace is 'yes': it must be True or"),
        (lambda: methods.get("fedstas-unbiased", replace="yes"), "replace is 'yes'"),
        (lambda: methods.get("fedstas-unbiased", replace=1), "replace is 1: it must be True or"),
        (lambda: methods.get("fedstas-unbiased-dp", n_star="9"), "n_star is '9'"),
        (
            lambda: methods.get("md", local={"lr": 0.1}),
            r"local is \{'lr': 0.1\}: it must have steps",
        ),
        (lambda: methods.get("md", clients=MD), "clients is <class.*it must have draw"),
        (lambda: methods.get("md", data=None), "data is None: it must have rates and sample"),
        (lambda: Method("mine", MD(), server="adam"), "server is 'adam': it must have step"),
        (lambda: methods.get("md", server_rate=1.0), "md has no setting 'server_rate'"),
        (lambda: methods.get("fedadam", server_rate=0), "rate is 0: it must be .* above 0"),
        (lambda: Average("fast"), "rate is 'fast'"),
        (lambda: methods.get("md", lr=float("nan")), "lr is nan"),
        (lambda: methods.get("md", prox=-0.1), "prox is -0.1.*at least 0"),
        (
            lambda: methods.from_dict(
                methods.to_dict(methods.get("md")) | {"clients": {"is": "Telepathy"}}
            ),
            "unknown part 'Telepathy'",
        ),
    ],
)
def test_unknown_methods_and_settings_out_of_range_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_settings_of_equal_value_have_equal_identities():
    method, half = methods.get("fedstas-unbiased", rate=1, lr=np.float64(1)), np.float32(0.5)
    assert json.dumps(methods.to_dict(method)) == json.dumps(
        methods.to_dict(methods.get("fedstas-unbiased", rate=1.0, lr=1, strata=np.int8(10)))
    )
    data = methods.to_dict(methods.get("fedstas-dp", epsilon=half, replace=np.True_, steps=3.0))
    assert (data["data"]["epsilon"], data["clients"]["replace"]) == (0.5, True)
    assert json.loads(json.dumps(data)) == data


def test_the_identity_of_a_method_that_squeezes_has_the_version_of_the_squeeze():
    second = {n for n in methods.names() if methods.version(methods.get(n)) == 2}
    assert second - {n for n in second if n.endswith("authors-dec")} == {
        "strat",
        "strat-neyman",
        "fedsts",
        "fedstas",
        "fedstas-dp",
        "fedstas-optimal-data",
        "fedstas-unbiased",
        "fedstas-unbiased-dp",
        "hcsfed",
        "cube",
        "local-pivotal",
    }
    assert methods.version(methods.get("fedstas-unbiased", replace=False)) == 2
    assert methods.version(methods.get("fedstas-least-variance", features="gradients")) == 2


def test_fedsampling_without_an_epsilon_uses_the_true_total():
    assert methods.get("fedsampling", epsilon=None).data == FedSampling(epsilon=None)


def test_the_readme_counts_the_client_designs_that_are_not_those_of_fedstas():
    """Of methods with the same client design one is counted, and pooled data are no design."""
    designs = {methods.get(name).clients for name in methods.names()}
    papers = {
        methods.get(x).clients for x in methods.names() if x.startswith(("fedsts", "fedstas"))
    }
    papers -= {methods.get("fedstas-least-variance").clients}  # the recommended one is not theirs
    others = [d for d in designs - papers if not getattr(d, "pooled", False)]
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    assert "these and more than twenty other ways to choose clients" in readme
    assert 20 < len(others) < 30, len(others)


@pytest.mark.parametrize(
    ("name", "part", "setting"),
    [
        ("md", {"local": methods.LocalSGD(lr=0.5)}, {"lr": 0.1}),
        ("fedstas", {"clients": methods.get("fedstas", strata=5).clients}, {"strata": 3}),
    ],
)
def test_a_part_and_a_setting_of_it_are_not_both_given(name, part, setting):
    (key,) = setting
    with pytest.raises(
        InputError,
        match=f"{key} and the {next(iter(part))} that it is a setting of are both given, and d",
    ):
        methods.get(name, **part, **setting)
    assert getattr(methods.get(name, **part), next(iter(part))) == next(iter(part.values()))
