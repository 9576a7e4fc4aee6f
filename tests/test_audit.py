"""The audit of designs: every method where little is left to choose, who is unbiased, what is caught."""

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
DRAWS = {
    "hcsfed": 20_000
}  # cohorts that show a bias, where 1,000 do not: norms of levels differ little
WITHOUT_M = ("fedsampling", "centralised")  # they do not go by m
BEYOND = ("md", "fedprox", "clustered-size", "clustered-similarity", "target", *WITHOUT_M)
BEYOND += ("fedstas-unbiased", "fedstas-unbiased-dp", "fedstas-least-variance")


def verdicts(method, **how) -> dict:
    return {each.check: each for each in audit.audit(method, **how)}


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in methods.names()]
)
def test_every_method_is_unbiased_for_what_its_entry_says_and_passes(name):
    found = verdicts(methods.get(name), draws=DRAWS.get(name, 1000))
    assert [each for each in found.values() if each.verdict == "FAILS"] == []
    weights = methods.unbiased_for(name)
    assert found["unbiased"].verdict == ("biased" if weights == "none" else "ok")
    assert ("plain mean" in found["unbiased"].message) == (weights == "1/N")


def sizes_of_cohorts(name, m, sizes=audit.SIZES, zero_gradient_clients=()):
    bench = audit.Bench(methods.get(name), sizes, zero_gradient_clients, m)
    view, draws = bench.server(), []
    for i in range(5):
        cohort, weights = bench.draw(view, i)
        assert np.isfinite(weights).all()
        draws.append(len(cohort.clients))
    return draws


@pytest.mark.parametrize("name", methods.names())
def test_no_participants_and_more_than_there_are(name):
    if name not in WITHOUT_M:
        with pytest.raises(InputError, match="is 0: it must be a whole number of at least 1"):
            sizes_of_cohorts(name, 0)
    if name in BEYOND:
        pooled = {"centralised": 1, "fedsampling": 6, "fedstas-least-variance": 6}
        assert sizes_of_cohorts(name, 7) == [pooled.get(name, 7)] * 5
    else:
        with pytest.raises(InputError, match=r"^7 clients per round are more than the 6 clients"):
            sizes_of_cohorts(name, 7)


@pytest.mark.parametrize("name", methods.names())
def test_all_clients_one_client_and_gradients_of_zero(name):
    coins = name in ("optimal-client-sampling", "poisson", "k-vib")  # a cohort of any size
    everyone = {"centralised": 1}.get(name, 6)
    own = {"centralised": 1, "fedsampling": 6}.get(name, 3)
    for expected, m, more in (
        (everyone, 6, {}),
        (1, 1, {"sizes": (4,)}),
        (own, 3, {"zero_gradient_clients": (2,)}),
        (own, 3, {"zero_gradient_clients": range(6)}),
    ):
        found = sizes_of_cohorts(name, m, **more)
        if name == "fedstas-least-variance" and len(more.get("zero_gradient_clients", ())) == 6:
            assert found == [1] * 5  # nothing to tell apart: one stratum
        else:
            assert all(n <= 6 for n in found) if coins else found == [expected] * 5


def test_the_simulation_follows_the_design(digits, federation):
    from fedstas import simulation

    how = {"rounds": 1, "clients_per_round": 40, "seed": 0, "device": "cpu"}
    history = simulation.run(digits, federation, methods.get("md"), **how)
    assert len(history.cohorts[0]) == 40 and history.frame["participants"][0] <= 19
    with pytest.raises(InputError, match="40 clients per round are more than the 19"):
        simulation.run(digits, federation, methods.get("fedavg"), **how)
    with pytest.raises(InputError, match="is 0: it must be a whole number of at least 1"):
        simulation.run(digits, federation, methods.get("md"), **how | {"clients_per_round": 0})


SPOILED = {
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
        r"Spoiled.draw returned a tuple: it must return a Cohort\(clients, weights\)",
    ),
    "nothing": (lambda rng, m: None, "Spoiled.draw returned a NoneType"),
}


@dataclass(frozen=True)
class Spoiled:
    """Draws what is asked of it."""

    how: str

    def draw(self, view, m, rng):
        return SPOILED[self.how][0](rng, m)


@pytest.mark.parametrize("how", SPOILED)
def test_what_is_no_cohort_is_one_sentence_wherever_it_is_drawn(how, digits, federation):
    """By the simulation, by `fedstas variance` and by the audit; Flower's strategy calls `draw_cohort`, too."""
    method, named = Method("spoiled", Spoiled(how)), SPOILED[how][1]
    view = audit.Bench(method).server()
    with pytest.raises(InputError, match=named):
        draw_cohort(method.clients, view, 3, stream(0, "test"))
    found = verdicts(method)
    assert found["draw"].verdict == "FAILS"
    with pytest.raises(InputError, match=named):
        raise InputError(found["draw"].message)


def test_no_cohort_stops_a_run_and_a_table_in_the_same_words(digits, federation):
    from fedstas import one_round, simulation

    method = Method("spoiled", Spoiled("a pair"))
    with pytest.raises(InputError, match="returned a tuple"):
        simulation.run(
            digits, federation, method, rounds=1, clients_per_round=3, seed=0, device="cpu"
        )
    state = one_round.state_after(digits, federation, clients_per_round=3, device="cpu")
    with pytest.raises(InputError, match="returned a tuple"):
        one_round.errors(state, method, draws=2)


def test_lists_are_cohorts_and_so_is_nobody():
    cohort = Cohort([2, 1], [0.5, -0.5])  # a negative weight takes away, and is allowed
    assert cohort.clients.tolist() == [2, 1] and cohort.weights.dtype == float
    assert Cohort([], []).clients.dtype == np.int64


@dataclass(frozen=True)
class Elsewhere:
    """Draws from numpy's global state."""

    def draw(self, view, m, rng):
        return Cohort(np.random.permutation(view.clients)[:m], np.full(m, 1 / m))  # noqa: NPY002


class Remembers:
    """Counts its draws in itself: other cohorts the second time."""

    def __init__(self):
        self.count = 0

    def draw(self, view, m, rng):
        self.count += 1
        return Cohort((self.count + np.arange(m)) % view.clients, np.full(m, 1 / m))


@dataclass(frozen=True)
class Divides:
    """p by norms alone: 0/0 where all gradients vanish."""

    def draw(self, view, m, rng):
        norms = view.norms()
        p = norms / norms.sum()
        chosen = rng.choice(view.clients, m, p=p)
        return Cohort(chosen, view.sizes[chosen] / view.total / (m * p[chosen]))


@dataclass(frozen=True)
class Slightly:
    """MD with a tenth of the weight taken away."""

    def draw(self, view, m, rng):
        cohort = MD().draw(view, m, rng)
        return Cohort(cohort.clients, 0.8 * cohort.weights)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_faults_are_found_and_said():
    found = verdicts(Method("mine", Elsewhere()))
    assert found["own generator"].message == "uses a global random state: draw from rng"
    assert {found[c].verdict for c in ("own generator", "same seed")} == {"FAILS"}
    found = verdicts(Method("mine", Remembers()))
    assert found["record"].message == "put @dataclass(frozen=True) above class Remembers"
    assert found["same seed"].verdict == "FAILS" and found["own generator"].verdict == "ok"
    found = verdicts(Method("mine", Divides()), draws=1000)
    assert found["unbiased"].verdict == "ok" and found["m = N"].verdict == "ok"
    assert found["all gradients zero"].verdict == "FAILS"
    assert "ValueError" in found["all gradients zero"].message
    assert (
        "asks for norms, sizes: 96 bytes up, 6 of 6 models down, 28 of 28" in found["cost"].message
    )
    found = verdicts(Method("mine", Slightly()), draws=2000)
    assert (
        found["unbiased"].verdict == "biased"
        and "in a first round client" in found["unbiased"].message
    )
    assert found["weights' sum"].message == "0.800 on average, 0.8"


def test_the_alarm_is_as_rare_as_it_says():
    """Distances of an unbiased weight that is there once in fifty cohorts, against a normal's tails."""
    rng = stream(0, "test")
    weights = (rng.random((2000, 400)) < 0.02) * 5.0
    away = audit.distances(weights, np.full(400, 0.1))
    assert 0.5 < away[away > 0].std() * 2 < 2 and away.max() < 5
    assert audit.distances(weights, np.full(400, 0.3)).min() > 5


def test_what_a_design_says_of_itself_is_read_by_the_traits():
    beyond = {
        n for n in methods.names() if client_sampling.has_flag(methods.get(n).clients, "replaces")
    }
    assert beyond == set(BEYOND) - {"centralised"}
