"""What each method asks of single clients, and what its cohorts' mean weights are."""

from dataclasses import dataclass

import numpy as np
import pytest

from fedstas import methods
from fedstas.aggregation import UpdateMemoryServer
from fedstas.client_sampling import Cohort, Uniform
from fedstas.compression import squeeze
from fedstas.data_sampling import Optimal
from fedstas.errors import InputError
from fedstas.methods import Method
from fedstas.sim import audit
from fedstas.sim.rng import stream
from fedstas.state import state_of


@pytest.mark.parametrize("name", methods.names())
def test_what_a_method_asks_decides_whether_sums_are_enough(name):
    """The list that `fedstas methods` prints, since to find it out takes half a minute."""
    assert audit.secure(methods.get(name)) == methods.secure(name)


def test_the_answer_follows_the_settings_and_parts():
    assert audit.secure(methods.get("fedsampling", epsilon=None)) == "yes"
    assert audit.secure(Method("mine", Uniform(), server=UpdateMemoryServer())) == "no"
    assert audit.secure(Method("mine", Uniform(), data=Optimal())) == "with scalars"


def test_own_designs_are_judged_by_what_they_do():
    @dataclass(frozen=True)
    class Largest:
        def draw(self, view, m, rng):
            chosen = np.argsort(-view.sizes)[:m]
            return Cohort(chosen, np.full(m, 1 / m))

    @dataclass
    class Draws:
        count: int = 0

    @dataclass(frozen=True)
    class Late:  # asks for a vector in the last of its rounds alone
        State = Draws

        def draw(self, view, m, rng):
            draws = view.state_of(self)
            draws.count += 1
            if draws.count == audit.ROUNDS:
                view.last_updates()
            return Cohort(np.arange(m), np.full(m, 1 / m))

    assert audit.secure(Method("largest", Largest())) == "with scalars"
    assert audit.secure(Method("late", Late())) == "no"


def test_a_question_is_heard_and_what_nobody_can_ask_is_none():
    view = audit.Bench(methods.get("md")).server()
    assert (view.clients, view.total, list(view.questions)) == (6, 28, [])
    assert view.sizes.tolist() == list(audit.SIZES) and view.gradients(3).levels.shape == (6, 3)
    assert list(view.questions) == ["sizes", "gradients"]
    with pytest.raises(AttributeError):
        _ = view.passwords
    assert list(view.questions) == ["sizes", "gradients"]


class Rehearsal:
    """A `View` of made-up clients of these sizes, of which thousands of cohorts are drawn quickly."""

    def __init__(self, sizes):
        self.sizes, self.clients, self.total = np.array(sizes), len(sizes), sum(sizes)
        self.vectors = stream(0, "rehearsal").normal(size=(len(sizes), 12)).astype(np.float32)
        self.majority_labels, self.states = np.arange(len(sizes)) % 3, {}
        self.round = 1

    def norms(self):
        return np.linalg.norm(self.vectors, axis=1).astype(float)

    def losses(self, clients):
        return self.norms()[clients]

    def gradients(self, levels):
        return squeeze(self.vectors, levels)

    def centres(self, make, batch, levels):
        return self.vectors[:, :levels]

    def last_updates(self):
        return self.vectors

    def reports(self, clients, **how):
        return np.ones(len(clients), dtype=int)

    def state_of(self, design):
        return state_of(self.states, design)


def mean_weights(method, draws):
    """The mean and standard error of each client's weight, of many cohorts of one round."""
    view, rng = Rehearsal([1, 9, 2, 7, 3, 4, 4, 2]), np.random.default_rng(5)
    weights = np.zeros((draws, view.clients))
    for i in range(draws):
        cohort = method.clients.draw(view, 3, rng)
        drawn = np.ones(len(cohort.clients))
        if cohort.per_example:
            rates = method.data.rates(view, cohort)
            pairs = zip(view.sizes[cohort.clients], rates, strict=True)
            drawn = np.array([len(method.data.sample(int(n), q, rng)) for n, q in pairs])
        np.add.at(weights[i], cohort.clients, cohort.on_updates(drawn))
    return weights.mean(0), weights.std(0) / np.sqrt(draws) + 1e-12, view.sizes


@pytest.mark.parametrize("name", methods.names())
def test_methods_are_unbiased_for_what_they_are_said_to_be(name):
    told, method = methods.unbiased_for(name), methods.get(name)
    if name in ("centralised", "mifa"):  # one client; biased by its server, see test_aggregation
        assert told == {"centralised": "-", "mifa": "none"}[name]
        return
    mean, error, sizes = mean_weights(
        method, 20 if name == "divfl" else 1000
    )  # no chance is left in it
    targets = {"n_k/n": sizes / sizes.sum(), "1/N": np.full(8, 1 / 8)}
    far = {target: np.abs((mean - w) / error).max() for target, w in targets.items()}
    assert told in (*targets, "none")
    for target, distance in far.items():
        assert (distance < 5) == (target == told), (name, far)


def test_an_unknown_method_is_refused():
    with pytest.raises(InputError, match="unknown method 'fedfoo'"):
        methods.unbiased_for("fedfoo")
