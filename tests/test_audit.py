"""The audit of designs: extreme cohort sizes, who is unbiased, and which faults it reports."""

import re
from dataclasses import dataclass

import numpy as np
import pytest

from fedstas import client_sampling, methods
from fedstas.client_sampling import MD, Cohort, draw_cohort
from fedstas.errors import InputError
from fedstas.methods import Method
from fedstas.sim import audit
from fedstas.sim.rng import stream

QUICK = ("md", "fedavg", "cyclic", "mifa", "fedvarp", "k-vib", "power-of-choice")
# `hcsfed` draws by norms of levels, which differ little: 1,000 cohorts do not show its bias.
DRAWS = {"hcsfed": 20_000}
WITHOUT_COHORT_SIZE = ("fedsampling", "centralised")  # they ignore the number of participants
WITH_REPLACEMENT = (
    "md",
    "fedprox",
    "clustered-size",
    "clustered-similarity",
    "target",
    *WITHOUT_COHORT_SIZE,
)
WITH_REPLACEMENT += ("fednova", "fedstas-unbiased", "fedstas-unbiased-dp", "fedstas-least-variance")


def audit_by_check(method, **options) -> dict:
    """Return the findings of the audit by the name of the check."""
    return {finding.check: finding for finding in audit.audit(method, **options)}


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in methods.names()]
)
def test_every_method_passes_the_audit_and_is_unbiased_for_its_documented_target(name):
    findings = audit_by_check(methods.get(name), draws=DRAWS.get(name, 1000))
    assert [each for each in findings.values() if each.verdict == "FAILS"] == []
    weights = methods.unbiased_for(name)
    assert findings["unbiased"].verdict == ("biased" if weights == "none" else "ok")
    assert ("plain mean" in findings["unbiased"].message) == (weights == "1/N")


def cohort_sizes(name, m, sizes=audit.SIZES, zero_gradient_clients=()):
    """Return the sizes of five cohorts of a method, whose weights must be finite."""
    bench = audit.Bench(methods.get(name), sizes, zero_gradient_clients, m)
    view, lengths = bench.server(), []
    for i in range(5):
        cohort, weights = bench.draw(view, i)
        assert np.isfinite(weights).all()
        lengths.append(len(cohort.clients))
    return lengths


@pytest.mark.parametrize("name", methods.names())
def test_no_participants_and_more_than_there_are_clients_are_refused_or_drawn_with_replacement(
    name,
):
    if name not in WITHOUT_COHORT_SIZE:
        with pytest.raises(InputError, match="is 0: it must be a whole number of at least 1"):
            cohort_sizes(name, 0)
    if name in WITH_REPLACEMENT:
        pooled = {"centralised": 1, "fedsampling": 6, "fedstas-least-variance": 6}
        assert cohort_sizes(name, 7) == [pooled.get(name, 7)] * 5
    else:
        with pytest.raises(InputError, match=r"^7 clients per round are more than the 6 clients"):
            cohort_sizes(name, 7)


@pytest.mark.parametrize("name", methods.names())
def test_cohorts_have_m_clients_with_full_participation_one_client_or_zero_gradients(name):
    any_size = name in ("optimal-client-sampling", "poisson", "k-vib")  # a cohort of any size
    full_size = {"centralised": 1}.get(name, 6)
    size = {"centralised": 1, "fedsampling": 6}.get(name, 3)
    for expected, m, options in (
        (full_size, 6, {}),
        (1, 1, {"sizes": (4,)}),
        (size, 3, {"zero_gradient_clients": (2,)}),
        (size, 3, {"zero_gradient_clients": range(6)}),
    ):
        sizes = cohort_sizes(name, m, **options)
        one_stratum = name.endswith("-authors-2025")
        if one_stratum and len(options.get("zero_gradient_clients", ())) == 6:
            assert sizes == [1] * 5  # equal gradients: one stratum, with one draw
        else:
            assert all(n <= 6 for n in sizes) if any_size else sizes == [expected] * 5


def test_the_simulation_refuses_the_cohort_sizes_that_the_design_refuses(digits, federation):
    from fedstas import simulation

    options = {"rounds": 1, "clients_per_round": 40, "seed": 0, "device": "cpu"}
    history = simulation.run(digits, federation, methods.get("md"), **options)
    assert len(history.cohorts[0]) == 40 and history.frame["participants"][0] <= 19
    with pytest.raises(InputError, match="40 clients per round are more than the 19"):
        simulation.run(digits, federation, methods.get("fedavg"), **options)
    with pytest.raises(InputError, match="is 0: it must be a whole number of at least 1"):
        simulation.run(digits, federation, methods.get("md"), **options | {"clients_per_round": 0})


INVALID_COHORTS = {
    "not a number": (
        lambda rng, m: Cohort(np.arange(m), np.full(m, np.nan)),
        "not a finite number",
    ),
    "too few weights": (lambda rng, m: Cohort(np.arange(m), np.ones(m - 1)), r"of shape \(2,\)"),
    "too few strata": (
        lambda rng, m: Cohort(np.arange(m), np.ones(m), np.zeros(m + 1)),
        r"strata of shape \(4,\): give one for each client, or None",
    ),
    "a client that is not there": (
        lambda rng, m: Cohort(np.arange(m) + 5, np.ones(m)),
        "the cohort names client 6: clients are numbered 0 to 5",
    ),
    "half a client": (lambda rng, m: Cohort(np.arange(m) / 2, np.ones(m)), "whole numbers"),
    "a pair": (
        lambda rng, m: (np.arange(m), np.ones(m)),
        r"InvalidDesign.draw returned a tuple: it must return a Cohort\(clients, weights\)",
    ),
    "nothing": (lambda rng, m: None, "InvalidDesign.draw returned a NoneType"),
}


@dataclass(frozen=True)
class InvalidDesign:
    """A design that returns the invalid cohort of this name."""

    kind: str

    def draw(self, view, m, rng):
        return INVALID_COHORTS[self.kind][0](rng, m)


@pytest.mark.parametrize("kind", INVALID_COHORTS)
def test_an_invalid_cohort_is_refused_alike_by_draw_cohort_and_by_the_audit(
    kind, digits, federation
):
    """`draw_cohort`, which the simulation, `fedstas variance` and Flower's strategy call, and the audit give one message."""
    method, message = Method("invalid", InvalidDesign(kind)), INVALID_COHORTS[kind][1]
    view = audit.Bench(method).server()
    with pytest.raises(InputError, match=message):
        draw_cohort(method.clients, view, 3, stream(0, "test"))
    findings = audit_by_check(method)
    assert findings["draw"].verdict == "FAILS"
    assert re.search(message, findings["draw"].message)


def test_an_invalid_cohort_is_refused_alike_by_a_run_and_by_one_round_errors(digits, federation):
    from fedstas import one_round, simulation

    method = Method("invalid", InvalidDesign("a pair"))
    with pytest.raises(InputError, match="returned a tuple"):
        simulation.run(
            digits, federation, method, rounds=1, clients_per_round=3, seed=0, device="cpu"
        )
    state = one_round.state_after(digits, federation, clients_per_round=3, device="cpu")
    with pytest.raises(InputError, match="returned a tuple"):
        one_round.errors(state, method, draws=2)


def test_a_cohort_may_be_made_of_lists_and_be_empty():
    cohort = Cohort([2, 1], [0.5, -0.5])  # a negative weight takes away, and is allowed
    assert cohort.clients.tolist() == [2, 1] and cohort.weights.dtype == float
    assert Cohort([], []).clients.dtype == np.int64


@dataclass(frozen=True)
class GlobalRandomState:
    """Draws from numpy's global state."""

    def draw(self, view, m, rng):
        return Cohort(np.random.permutation(view.clients)[:m], np.full(m, 1 / m))  # noqa: NPY002


class CountsInItself:
    """Counts its draws in itself: other cohorts the second time."""

    def __init__(self):
        self.count = 0

    def draw(self, view, m, rng):
        self.count += 1
        return Cohort((self.count + np.arange(m)) % view.clients, np.full(m, 1 / m))


@dataclass(frozen=True)
class DividesByZero:
    """p by norms alone: 0/0 where all gradients vanish."""

    def draw(self, view, m, rng):
        norms = view.norms()
        p = norms / norms.sum()
        chosen = rng.choice(view.clients, m, p=p)
        return Cohort(chosen, view.sizes[chosen] / view.total / (m * p[chosen]))


@dataclass(frozen=True)
class WeightsTooSmall:
    """MD with a fifth of the weight taken away."""

    def draw(self, view, m, rng):
        cohort = MD().draw(view, m, rng)
        return Cohort(cohort.clients, 0.8 * cohort.weights)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_the_audit_reports_the_faults_of_designs():
    findings = audit_by_check(Method("mine", GlobalRandomState()))
    assert findings["own generator"].message == "uses a global random state: draw from rng"
    assert {findings[c].verdict for c in ("own generator", "same seed")} == {"FAILS"}
    findings = audit_by_check(Method("mine", CountsInItself()))
    assert findings["record"].message == "put @dataclass(frozen=True) above class CountsInItself"
    assert findings["same seed"].verdict == "FAILS" and findings["own generator"].verdict == "ok"
    findings = audit_by_check(Method("mine", DividesByZero()), draws=1000)
    assert findings["unbiased"].verdict == "ok" and findings["m = N"].verdict == "ok"
    assert findings["all gradients zero"].verdict == "FAILS"
    assert "ValueError" in findings["all gradients zero"].message
    assert (
        "asks for norms, sizes: 96 bytes up, 6 of 6 models down, 28 of 28"
        in findings["cost"].message
    )
    findings = audit_by_check(Method("mine", WeightsTooSmall()), draws=2000)
    assert (
        findings["unbiased"].verdict == "biased"
        and "in a first round client" in findings["unbiased"].message
    )
    assert findings["weights' sum"].message == "0.800 on average, 0.8"


def test_the_audit_raises_no_false_alarm_on_rare_clients_and_detects_a_bias():
    """A client of weight 5 in one of fifty cohorts is unbiased for 0.1: its distance is like that of a normal, below 5.

    `z_scores` gives a client's distance in one direction, and 0 in the other: the positive ones are those of half a
    normal, whose standard deviation is 0.6.
    """
    rng = stream(0, "test")
    weights = (rng.random((2000, 400)) < 0.02) * 5.0
    distances = audit.z_scores(weights, np.full(400, 0.1))
    assert 0.5 < distances[distances > 0].std() * 2 < 2 and distances.max() < 5
    assert audit.z_scores(weights, np.full(400, 0.3)).min() > 5


def test_designs_that_draw_with_replacement_have_the_flag_replaces():
    with_flag = {
        n for n in methods.names() if client_sampling.has_flag(methods.get(n).clients, "replaces")
    }
    assert with_flag == set(WITH_REPLACEMENT) - {"centralised"}
