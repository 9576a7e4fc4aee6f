"""Which values of single clients each method requests, and the mean weights of its cohorts."""

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
def test_the_requests_of_a_method_decide_whether_secure_sums_are_enough(name):
    """`methods.secure` looks up what `audit.secure` derives, since that takes half a minute for all methods."""
    assert audit.secure(methods.get(name)) == methods.secure(name)


def test_whether_secure_sums_are_enough_depends_on_settings_and_parts():
    assert audit.secure(methods.get("fedsampling", epsilon=None)) == "yes"
    assert audit.secure(Method("mine", Uniform(), server=UpdateMemoryServer())) == "no"
    assert audit.secure(Method("mine", Uniform(), data=Optimal())) == "with scalars"


def test_a_users_design_is_judged_by_its_requests():
    @dataclass(frozen=True)
    class Largest:
        def draw(self, view, m, rng):
            chosen = np.argsort(-view.sizes)[:m]
            return Cohort(chosen, np.full(m, 1 / m))

    @dataclass
    class Draws:
        count: int = 0

    @dataclass(frozen=True)
    class Late:  # requests a vector only in the last of its rounds
        State = Draws

        def draw(self, view, m, rng):
            draws = view.state_of(self)
            draws.count += 1
            if draws.count == audit.ROUNDS:
                view.last_updates()
            return Cohort(np.arange(m), np.full(m, 1 / m))

    assert audit.secure(Method("largest", Largest())) == "with scalars"
    assert audit.secure(Method("late", Late())) == "no"


def test_the_audit_records_requests_but_not_those_for_unknown_values():
    view = audit.Bench(methods.get("md")).server()
    assert (view.clients, view.total, list(view.questions)) == (6, 28, [])
    assert view.sizes.tolist() == list(audit.SIZES) and view.gradients(3).levels.shape == (6, 3)
    assert list(view.questions) == ["sizes", "gradients"]
    with pytest.raises(AttributeError):
        _ = view.passwords
    assert list(view.questions) == ["sizes", "gradients"]


class RandomView:
    """A view of clients of these sizes with random gradients, from which cohorts are drawn quickly."""

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

    def sketches(self, size):
        return self.vectors[:, :size]

    def centres(self, make, batch, levels):
        return self.vectors[:, :levels]

    def last_updates(self):
        return self.vectors

    def class_updates(self):
        return self.vectors[:, :3]

    def last_respondents(self):
        return None

    def output_gradients(self, share=1.0, cap=None):
        return self.vectors[:, :6]

    def label_counts(self, epsilon=None):
        shares = np.abs(self.vectors[:, :3])
        return self.sizes[:, None] * shares / shares.sum(1, keepdims=True)

    def reports(self, clients, **options):
        return np.ones(len(clients), dtype=int)

    def state_of(self, design):
        return state_of(self.states, design)


def mean_weights(method, draws):
    """Return the mean and standard error of each client's weight over many cohorts of one round, and the sizes."""
    view, rng = RandomView([1, 9, 2, 7, 3, 4, 4, 2]), np.random.default_rng(5)
    weights = np.zeros((draws, view.clients))
    for i in range(draws):
        cohort = method.clients.draw(view, 3, rng)
        examples = np.ones(len(cohort.clients))
        if cohort.per_example:
            rates = method.data.rates(view, cohort)
            pairs = zip(view.sizes[cohort.clients], rates, strict=True)
            examples = np.array([len(method.data.sample(int(n), q, rng)) for n, q in pairs])
        np.add.at(weights[i], cohort.clients, cohort.on_updates(examples))
    return weights.mean(0), weights.std(0) / np.sqrt(draws) + 1e-12, view.sizes


@pytest.mark.parametrize("name", methods.names())
def test_each_method_is_unbiased_for_the_documented_target_only(name):
    documented, method = methods.unbiased_for(name), methods.get(name)
    if name in (
        "centralised",
        "mifa",
        "fednova",
    ):  # one client; biased by their servers, see test_audit
        assert documented == {"centralised": "-"}.get(name, "none")
        return
    draws = 20 if name == "divfl" else 1000  # DivFL is deterministic
    mean, error, sizes = mean_weights(method, draws)
    targets = {"n_k/n": sizes / sizes.sum(), "1/N": np.full(8, 1 / 8)}
    distances = {target: np.abs((mean - w) / error).max() for target, w in targets.items()}
    assert documented in (*targets, "none")
    for target, distance in distances.items():
        # In standard errors; of eight clients one is beyond 5 by chance in one of 200,000 seeds.
        assert (distance < 5) == (target == documented), (name, distances)


def test_an_unknown_method_is_refused():
    with pytest.raises(InputError, match="unknown method 'fedfoo'"):
        methods.unbiased_for("fedfoo")
