"""`fedstas.Cohorts`: the designs in a loop of one's own."""

import importlib.util
import io
import json
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedstas
from fedstas import Cohorts, engine, methods, models, partition, privacy, simulation, tasks
from fedstas.aggregation import Average
from fedstas.biased import PowerOfChoice
from fedstas.client_sampling import Cohort, StrataState, Stratified, Uniform
from fedstas.clustered import Clustered
from fedstas.errors import InputError
from fedstas.nonresponse import reweight
from fedstas.streams import stream

ROOT = Path(__file__).resolve().parents[1]
N, D, M = 12, 80, 4
POINTS = np.random.default_rng(0).normal(size=(N, D))  # client k minimises |w - POINTS[k]|^2 / 2
SIZES = [3, 9, 4, 7, 5, 8, 6, 5, 4, 9, 2, 6]
COUNTS = [np.bincount(np.arange(n) % (k % 3 + 1), minlength=10) for k, n in enumerate(SIZES)]


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with simulation.limited_threads(1):  # else each of many small clusterings starts threads
        yield


def answers(w: np.ndarray) -> dict:
    """Return a function of a client's number for each argument of `sample`, at the model w."""
    return {
        "gradients": lambda k: w - POINTS[k],
        "losses": lambda k: np.square(w - POINTS[k]).sum() / 2,
        "norms": lambda k: np.linalg.norm(w - POINTS[k]),
        "labels": lambda k: COUNTS[k],
        "output_gradients": lambda k: (w - POINTS[k])[-10:],
        "spreads": lambda k: 1.0 + k % 2,
        "output_bias": slice(-10, None),
    }


def play(chooser: Cohorts, rounds: int, w=None, silent=()) -> tuple[list, np.ndarray]:
    """Train `rounds` rounds with steps of 0.1; return clients and weights of each round, and the model."""
    w, record = np.zeros(D) if w is None else w, []
    for _ in range(rounds):
        cohort = chooser.sample(**answers(w))
        updates = [None if k in silent else 0.1 * (POINTS[k] - w) for k in cohort.clients]
        weights = chooser.report(cohort, updates)
        record.append((cohort.clients.tolist(), weights.tolist()))
        w = w + sum(a * u for a, u in zip(weights, updates, strict=True) if u is not None)
    return record, w


def play_rounds(chooser: Cohorts, rounds: int) -> list:
    """Train as `play` does; return clients and weights of each round."""
    record, _ = play(chooser, rounds)
    return record


def allowed() -> list[str]:
    """List the methods that weights can express."""
    return [name for name in methods.names() if isinstance(methods.get(name).server, Average)][:-1]


@pytest.mark.parametrize("name", methods.names())
def test_every_method_runs_in_a_loop_and_resumes_bit_for_bit_or_is_refused_in_a_sentence(name):
    try:
        chooser = Cohorts(name, sizes=SIZES, m=M, seed=3)
    except InputError as error:
        assert name not in allowed() and str(error).startswith(name) and "\n" not in str(error)
        return
    straight, end = play(chooser, 5)
    again = Cohorts(name, sizes=SIZES, m=M, seed=3)
    first, w = play(again, 2)
    for dump, load in (
        (json.dumps, json.loads),
        (pickle.dumps, pickle.loads),
        (save_torch, lambda data: torch.load(io.BytesIO(data), weights_only=True)),
    ):
        resumed = Cohorts(name, sizes=SIZES, m=M, seed=3)
        resumed.load_state_dict(load(dump(again.state_dict())))
        rest, resumed_end = play(resumed, 3, w)
        assert first + rest == straight
        np.testing.assert_array_equal(resumed_end, end)
    assert resumed.state_dict() == chooser.state_dict()


def save_torch(state: dict) -> bytes:
    """Return what `torch.save` writes of a state."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("name", allowed())
def test_a_method_asks_for_what_it_needs_and_nothing_else(name):
    chooser, asked = Cohorts(name, sizes=SIZES, m=M), set()

    def recorded(key, answer):
        return lambda k: asked.add(key) or answer(k)

    given = {k: recorded(k, a) if callable(a) else a for k, a in answers(np.zeros(D)).items()}
    chooser.report(chooser.sample(**given), [POINTS[0]] * len(chooser.cohort.clients))
    chooser.sample(**given)
    assert asked == set(chooser.needs) - {"output_bias"}
    if chooser.needs:
        # Without one of them it says what is missing, and the round can be sampled again.
        other = Cohorts(name, sizes=SIZES, m=M)
        missing = answers(np.zeros(D)) | dict.fromkeys(chooser.needs[-1:])
        missing |= {"gradients": None} if chooser.needs == ("norms",) else {}
        with pytest.raises(InputError, match=rf"^{name} needs .*sample\({chooser.needs[-1]}="):
            other.sample(**missing)
        cohort = other.sample(**answers(np.zeros(D)))
        np.testing.assert_array_equal(
            cohort.clients, play_rounds(Cohorts(name, sizes=SIZES, m=M), 1)[0][0]
        )


@pytest.fixture(scope="module")
def digits():
    return tasks.load("digits")


@pytest.mark.parametrize(
    "name",
    [
        "fedavg",
        "md",
        "fedstas",
        "fedstas-dp",
        "fedstas-unbiased",
        "fedstas-least-variance",
        "fedstas-least-variance features=updates",
        "fedstas-least-variance features=labels epsilon=1",
        "clustered-similarity",
        "power-of-choice",
        "k-vib",
        "hics-fl",
        "fed-cbs",
        "cyclic",
        "fedsampling",
    ],
)
def test_a_loop_of_ones_own_draws_the_cohorts_and_finds_the_model_of_the_simulator(digits, name):
    """The loop is written with the engine's arithmetic, so that the models are equal up to the order of a sum."""
    federation = partition.dirichlet(digits.train_y.numpy(), 16, 0.1, 1)
    method, seed, rounds = methods.parse(name, lr=0.3), 5, 4
    history = simulation.run(
        digits, federation, method, rounds=rounds, clients_per_round=4, seed=seed
    )
    setup = simulation.prepare(digits, federation, method, 4, seed)
    _, params = setup.start()
    module, data = digits.model(seed), setup.data
    place = {int(k): i for i, k in enumerate(setup.clients)}  # among the clients with data
    chooser = Cohorts(method, sizes=federation.sizes, m=4, seed=seed)
    with simulation.limited_threads(1):
        for t in range(1, rounds + 1):
            gradients = None  # of all clients, if they are asked for

            def gradient(k, params=params):
                nonlocal gradients
                gradients = gradients or [*engine.client_gradients(module, params, data)]
                return gradients[place[k]]

            cohort = chooser.sample(
                gradients=gradient,
                losses=lambda k, w=params: engine.evaluate(module, w, *data.of(place[k]))[0],
                labels=federation.label_counts,
                output_bias=slice(-10, None),
            )
            np.testing.assert_array_equal(cohort.clients, history.cohorts[t - 1])
            inner = replace(cohort, clients=np.array([place[k] for k in cohort.clients], int))
            idx, weight, counts = simulation.draw_batches(
                method, data, inner, chooser._rates, seed, t
            )
            assert [len(x) for x in chooser.examples(cohort)] == counts.tolist()
            trained = simulation.train_cohort(
                module, params, data, method.local, idx, weight, seed, t
            )
            weights = torch.from_numpy(chooser.report(cohort, trained - params)).to(params)
            params = params + weights @ (trained - params)
    np.testing.assert_allclose(params, history.params, rtol=0, atol=1e-6)
    assert chooser.round == rounds and models.flatten(module).shape == params.shape


def test_answers_may_be_arrays_tensors_lists_or_functions_of_any_precision():
    gradients = np.round(POINTS * 16) / 16  # exact in bfloat16
    tensor = torch.from_numpy(gradients).requires_grad_()
    parts = [[row[:20], {"rest": row[20:].reshape(6, 10)}] for row in gradients]
    made = Cohorts("fedstas-least-variance", sizes=SIZES, m=M)
    forms = [
        {"gradients": gradients.astype(np.float32)},
        {"gradients": tensor},
        {"gradients": tensor.bfloat16()},
        {"gradients": [*tensor]},
        {"gradients": pd.DataFrame(gradients, index=range(12, 0, -1))},
        {"gradients": parts},
        {"gradients": lambda k: tensor[k].float()},
        {"gradients": lambda k: tensor[k].detach().to_sparse()},
        {"sketches": [made.sketch(g) for g in tensor]},
    ]
    expected = made.sample(gradients=gradients)
    for form in forms:
        chooser = Cohorts("fedstas-least-variance", sizes=SIZES, m=M)
        for _ in range(2):  # asked once: the second round needs nothing
            cohort = chooser.sample(**form)
            form = {}
        strata = [c.state_dict()["memory"] for c in (chooser, made)]
        assert strata[0] == strata[1]
    assert len(cohort.clients) == len(expected.clients) == M


def test_a_sketch_with_an_epsilon_has_noise_of_its_own_in_each_call():
    private = Cohorts("fedstas-least-variance", sizes=SIZES, m=M, epsilon=0.5, clip=1.0)
    plain = Cohorts("fedstas-least-variance", sizes=SIZES, m=M)
    first, second = private.sketch(POINTS[0]), private.sketch(POINTS[0])
    assert (first != second).all() and first.shape == plain.sketch(POINTS[0]).shape
    sigma = privacy.gaussian_sigma(0.5, 1e-5, 2.0)
    assert np.std(first - second) > sigma / 2  # sqrt(2) sigma is expected, over 64 numbers
    assert len(private.sample(sketches=[private.sketch(g) for g in POINTS]).clients) == M


def test_a_design_may_change_the_sizes_that_it_asked_for():
    @dataclass(frozen=True)
    class Capped:
        """Draw by sizes that are capped in place."""

        unbiased: ClassVar[bool] = False

        def draw(self, view, m, rng):
            """Draw m clients by their capped sizes."""
            sizes = view.sizes
            sizes[sizes > 4] = 4
            clients = rng.choice(view.clients, m, p=sizes / sizes.sum())
            return Cohort(clients, np.full(m, 1 / m))

    chooser = Cohorts(methods.get("md", clients=Capped()), sizes=SIZES, m=M)
    chooser.sample()
    assert chooser.sizes.tolist() == SIZES == chooser._view.sizes.tolist()


@pytest.mark.parametrize(
    "sizes",
    [tuple(SIZES), np.array(SIZES, np.int32), torch.tensor(SIZES), dict(enumerate(SIZES)).values()],
)
def test_sizes_are_any_sequence(sizes):
    chooser = Cohorts("md", sizes=sizes, m=M, seed=2)
    assert play_rounds(chooser, 2) == play_rounds(Cohorts("md", sizes=SIZES, m=M, seed=2), 2)


def test_a_generator_gives_a_seed():
    first, second = (Cohorts("md", sizes=SIZES, m=M, seed=np.random.default_rng(1)) for _ in "ab")
    assert first.seed == second.seed
    assert play_rounds(first, 2) == play_rounds(second, 2)


def test_a_client_without_examples_is_never_drawn_nor_asked():
    sizes = [0 if k in (0, 5) else n for k, n in enumerate(SIZES)]
    for name in ("fedavg", "fedstas-least-variance", "power-of-choice", "k-vib"):
        chooser = Cohorts(name, sizes=sizes, m=M)
        w = answers(np.zeros(D))
        for _ in range(10):
            cohort = chooser.sample(
                **w | {"gradients": lambda k: POINTS[k] if k not in (0, 5) else 1 / 0}
            )
            assert not {0, 5} & {*cohort.clients}
            chooser.report(cohort, POINTS[cohort.clients])


@pytest.mark.parametrize(
    "name", ["fedavg", "md", "fedstas-least-variance", "fedstas", "fedsampling"]
)
def test_who_does_not_answer_is_stood_for_by_the_others(name):
    chooser = Cohorts(name, sizes=SIZES, m=M)
    cohort = chooser.sample(**answers(np.zeros(D)))
    answered = cohort.clients != cohort.clients[0]
    updates = [POINTS[k] if yes else None for k, yes in zip(cohort.clients, answered, strict=True)]
    weights = chooser.report(cohort, updates)
    expected = reweight(cohort, answered) * (
        [len(x) for x in chooser.examples(cohort)] if name == "fedsampling" else 1
    )
    np.testing.assert_array_equal(weights, expected)
    assert not weights[~answered].any()
    cohort = chooser.sample(**answers(np.zeros(D)))
    assert not chooser.report(cohort, [None] * len(cohort.clients)).any()


def test_weights_of_a_loop_are_unbiased():
    """The mean of 1,500 rounds lies within 5 standard errors of full participation in all of 80 coordinates: by chance
    it does not once in 20,000 tests."""
    target = np.array(SIZES) / sum(SIZES) @ POINTS
    chooser, sums, rounds = Cohorts("fedstas-least-variance", sizes=SIZES, m=M), [], 1500
    for _ in range(rounds):
        cohort = chooser.sample(gradients=-POINTS)
        sums.append(chooser.report(cohort, POINTS[cohort.clients]) @ POINTS[cohort.clients])
    error = np.abs(np.mean(sums, axis=0) - target) / (np.std(sums, axis=0) / rounds**0.5)
    assert error.max() < 5


def test_updates_may_be_a_dict_by_client_and_of_other_kinds():
    chooser, other = (Cohorts("k-vib", sizes=SIZES, m=M) for _ in "ab")
    for _ in range(4):
        cohort, same = chooser.sample(), other.sample()
        np.testing.assert_array_equal(cohort.clients, same.clients)
        by_client = {
            int(k): torch.from_numpy(POINTS[k]).requires_grad_() for k in cohort.clients[:-1]
        }
        weights = chooser.report(cohort, by_client)
        vectors = [POINTS[k] for k in same.clients[:-1]] + [None] * (len(same.clients) > 0)
        np.testing.assert_array_equal(weights, other.report(same, vectors))
    assert chooser.state_dict() == other.state_dict()


@given(
    st.sampled_from(
        ["fedstas-least-variance", "clustered-similarity", "fed-cbs", "cyclic", "k-vib"]
    ),
    st.lists(st.integers(0, 9), min_size=5, max_size=15).filter(lambda s: np.count_nonzero(s) >= M),
)
@settings(max_examples=10, deadline=None)
def test_after_resize_all_clients_can_be_drawn_and_the_round_goes_on(name, sizes):
    chooser = Cohorts(name, sizes=SIZES, m=M)
    play(chooser, 2)
    chooser.resize(sizes)
    points = np.random.default_rng(1).normal(size=(len(sizes), D))
    drawn = set()
    for _ in range(60):
        cohort = chooser.sample(gradients=points, labels=np.eye(10)[np.arange(len(sizes)) % 10])
        drawn |= {*cohort.clients.tolist()}
        chooser.report(cohort, points[cohort.clients])
    assert chooser.round == 62
    # Who holds a fifth of all examples is missed by 60 cohorts of 4 with a probability below (4/5)^60 = 2e-6.
    assert {k for k in drawn if not sizes[k]} == set()
    assert drawn >= {k for k, n in enumerate(sizes) if n >= sum(sizes) / 5}


def test_resize_moves_last_updates_with_their_clients():
    chooser = Cohorts("clustered-similarity", sizes=SIZES, m=M)
    play(chooser, 6)
    before = chooser._view.memory.last_updates.copy()
    chooser.resize([5, 5, 9, 9], m=2, clients=[7, None, 0, 3])
    np.testing.assert_array_equal(
        chooser._view.memory.last_updates, [before[7], np.zeros(D), before[0], before[3]]
    )
    assert (chooser.m, chooser.round, len(chooser.sizes)) == (2, 6, 4)
    for clients in ([3, None, 0], [3, 3, 0, 1]):
        with pytest.raises(InputError, match="none twice, or None for a new client"):
            chooser.resize([1, 2, 3, 4], clients=clients)
    with pytest.raises(InputError, match="5 clients per round are more than the 4"):
        Cohorts("fedavg", sizes=SIZES, m=M).resize([1, 2, 3, 4], m=5)


@dataclass(frozen=True)
class Asking:
    """All clients take part; what they answered privately, in order, is in `tables` and `reports`."""

    tables: ClassVar[list] = []
    reports: ClassVar[list] = []

    def draw(self, view, m, rng):
        clients = np.arange(view.clients)
        self.tables.append(view.label_counts(epsilon=0.5))
        options = {"size_cap": 50, "alpha": 0.3, "memoised": True}
        self.reports.append(view.reports(clients, **options).tolist())
        return Cohort(clients, np.full(len(clients), 1 / len(clients)))


@pytest.fixture
def ask():
    """Return a function of `Cohorts` and label counts: the private counts, and memoised reports, of the next round."""

    def answer(chooser: Cohorts, labels) -> tuple[np.ndarray, list[int]]:
        chooser.sample(labels=labels)
        return Asking.tables[-1], Asking.reports[-1]

    yield answer
    Asking.tables.clear()
    Asking.reports.clear()


def test_private_answers_of_a_loop_that_is_not_resized_have_the_streams_of_places(ask):
    sizes = [0, 4, 0, 9]
    noisy, reports = ask(Cohorts(Asking(), sizes=sizes, m=2, seed=3), np.eye(4) * sizes)
    for place, k in enumerate([1, 3]):
        rng = stream(3, "label counts, epsilon 0.5", place)
        np.testing.assert_array_equal(
            noisy[place], privacy.noisy_counts((np.eye(4) * sizes)[k].astype(int), 0.5, rng)
        )
        rng = stream(3, "memoised report", place)
        assert reports[place] == privacy.report(sizes[k], size_cap=50, alpha=0.3, rng=rng)


def test_after_resize_no_client_has_the_noise_or_the_coin_of_another(ask):
    chooser = Cohorts(Asking(), sizes=[20] * 30, m=30)
    counts = np.tile([12, 8], (30, 1))
    noisy, reports = ask(chooser, counts)
    chooser.resize([20] * 30, clients=[*range(1, 30), None])
    again, repeated = ask(chooser, counts)
    np.testing.assert_array_equal(again[:-1], noisy[1:])  # whoever stays repeats its answer
    assert repeated[:-1] == reports[1:]
    assert not np.isin(again[-1], noisy).any()  # and who is new has noise that nobody had
    chooser.resize([20] * 31, clients=[*range(29), None, None])
    last, _ = ask(chooser, np.tile([12, 8], (31, 1)))
    assert len(np.unique(np.concatenate([noisy, again[-1:], last[-2:]]))) == 2 * 33


def test_a_client_repeats_its_private_answers_when_its_data_have_changed(ask):
    chooser = Cohorts(Asking(), sizes=[20] * 30, m=30)
    noisy, reports = ask(chooser, np.tile([12, 8], (30, 1)))
    more = np.tile([13, 8], (30, 1))
    np.testing.assert_array_equal(ask(chooser, more)[0], noisy)  # without resize, too
    chooser.resize([0] + [21] * 29, m=29)
    resumed = Cohorts(Asking(), sizes=chooser.sizes, m=29)
    resumed.load_state_dict(json.loads(json.dumps(chooser.state_dict())))
    for each in (chooser, resumed):
        again, repeated = ask(each, more)
        np.testing.assert_array_equal(again, noisy[1:])
        assert repeated == reports[1:]
        each.resize([40] * 30 + [5], m=30)  # client 0 is back
        again, repeated = ask(each, np.tile([30, 10], (31, 1)))
        np.testing.assert_array_equal(again[:30], noisy)
        assert repeated[:30] == reports
        with pytest.raises(
            InputError, match=r"of 3 classes, and those that clients have sent .* of 2"
        ):
            each.sample(labels=np.ones((31, 3)))


def test_a_state_of_a_version_without_keys_is_loaded(ask):
    chooser = Cohorts(Asking(), sizes=[0, 20, 20], m=2)
    noisy, reports = ask(chooser, np.full((3, 2), 10))
    state = chooser.state_dict()
    for name in ("keys", "next_key", "first_answers"):
        del state[name]
    resumed = Cohorts(Asking(), sizes=[0, 20, 20], m=2)
    resumed.load_state_dict(state)
    again, repeated = ask(resumed, np.full((3, 2), 10))
    np.testing.assert_array_equal(again, noisy)
    assert repeated == reports
    with pytest.raises(InputError, match=r"the state is damaged .* 1 keys of 3 clients"):
        resumed.load_state_dict(state | {"keys": [0]})


@pytest.mark.parametrize("clients", [3, np.array(3), 2.5, "123", {1: 1, 2: 2, 3: 3}])
def test_resize_refuses_clients_that_are_no_list_and_changes_nothing(clients):
    chooser = Cohorts("md", sizes=SIZES, m=2)
    with pytest.raises(InputError, match=r"clients are .*: give a list with each client's number"):
        chooser.resize([5, 5, 9], clients=clients)
    assert chooser.sizes.tolist() == SIZES


def test_resize_takes_the_clients_of_a_generator():
    chooser = Cohorts("md", sizes=SIZES, m=2)
    chooser.resize(SIZES[1:], clients=(k for k in range(1, N)))
    assert chooser.sizes.tolist() == SIZES[1:]


def test_a_state_is_taken_between_sample_and_report_too():
    chooser = Cohorts("k-vib", sizes=SIZES, m=M)
    play(chooser, 3)
    cohort = chooser.sample()
    while not len(cohort.clients):
        cohort = chooser.sample()
    resumed = Cohorts("k-vib", sizes=SIZES, m=M)
    resumed.load_state_dict(json.loads(json.dumps(chooser.state_dict())))
    for each in (chooser, resumed):
        each.report(cohort, POINTS[cohort.clients])
    assert play_rounds(chooser, 2) == play_rounds(resumed, 2)


@dataclass
class TurnState:
    next: int = 0


@dataclass(frozen=True)
class RoundRobin:
    """Clients in turn: the design of the docstring of `ClientDesign`."""

    State: ClassVar[type] = TurnState
    step: int = 1

    def draw(self, view, m, rng):
        turn = view.state_of(self)
        chosen = (turn.next + self.step * np.arange(m)) % view.clients
        turn.next += m
        assert len(view.losses(chosen)) == m
        return Cohort(chosen, np.full(m, 1 / m))


def test_a_design_of_ones_own_runs_and_its_needs_are_read_from_its_code():
    chooser = Cohorts(RoundRobin(), sizes=SIZES, m=M)
    assert chooser.needs == ("losses",)
    first, w = play(chooser, 2)
    assert [clients for clients, _ in first] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    resumed = Cohorts(RoundRobin(), sizes=SIZES, m=M)
    resumed.load_state_dict(chooser.state_dict())
    ((clients, _),), _ = play(resumed, 1, w)
    assert clients == [8, 9, 10, 11]
    with pytest.raises(InputError, match="RoundRobin with other settings"):
        Cohorts(RoundRobin(2), sizes=SIZES, m=M).load_state_dict(chooser.state_dict())


@dataclass
class OtherStrataState(StrataState):
    """A second state of strata."""


@dataclass(frozen=True)
class OtherStratified(Stratified):
    State: ClassVar[type] = OtherStrataState


@dataclass(frozen=True)
class Halves:
    """Half of the cohort is drawn by each of two designs."""

    first: Stratified
    second: Stratified

    def draw(self, view, m, rng):
        halves = [part.draw(view, m // 2, rng) for part in (self.first, self.second)]
        clients, weights = (
            np.concatenate([getattr(each, name) for each in halves])
            for name in ("clients", "weights")
        )
        return Cohort(clients, weights / 2)


def test_two_parts_of_a_design_with_other_settings_do_not_share_a_state():
    chooser = Cohorts(Halves(Stratified(2), Stratified(5)), sizes=SIZES, m=10)
    with pytest.raises(
        InputError,
        match=r"Stratified\(strata=2, .* and Stratified\(strata=5, .* same StrataState: make one",
    ):
        chooser.sample(gradients=POINTS)
    equal = Cohorts(Halves(Stratified(2), Stratified(2)), sizes=SIZES, m=10)
    assert len(equal.sample(gradients=POINTS).clients) == 10
    apart = Cohorts(Halves(Stratified(2), OtherStratified(5)), sizes=SIZES, m=10)
    apart.sample(gradients=POINTS)
    labels = [each.strata.value.labels for each in apart._view.memory.designs.values()]
    assert [len(np.unique(each)) for each in labels] == [2, 5]
    again = Cohorts(Halves(Stratified(2), OtherStratified(5)), sizes=SIZES, m=10)
    again.load_state_dict(json.loads(json.dumps(apart.state_dict())))
    assert again.state_dict() == apart.state_dict()


def test_designs_that_draw_one_after_another_may_share_a_state():
    view = Cohorts("md", sizes=SIZES, m=M)._view
    assert view.state_of(Stratified(2)) is view.state_of(Stratified(5))


@dataclass(frozen=True)
class Child(RoundRobin):
    """A round robin whose `draw` is inherited."""


@dataclass(frozen=True)
class Outside:
    """A design whose question stands in a function outside of the class, and which says so."""

    needs: ClassVar[tuple[str, ...]] = ("losses", "norms")

    def draw(self, view, m, rng):
        return RoundRobin.draw(self, view, m, rng)


@dataclass(frozen=True)
class Similar(Clustered):
    """A design of the package that asks for losses beside what it asks for itself."""

    @property
    def largest(self):
        return lambda view: view.losses(np.arange(view.clients)).argmax()


@dataclass(frozen=True)
class Largest(PowerOfChoice):
    """A design of the package that says what it needs, to which a question is added."""

    @staticmethod
    def longest(view):
        return view.norms().argmax()


def test_needs_are_also_read_from_the_classes_that_a_design_inherits_from():
    found = [Cohorts(x, sizes=SIZES, m=M).needs for x in (Child(), Similar(), Largest())]
    assert found == [("losses",), ("losses",), ("losses", "norms")]
    clients, _ = play(Cohorts(Child(), sizes=SIZES, m=M), 1)[0][0]
    assert clients == [0, 1, 2, 3]


def test_a_design_may_say_itself_what_it_needs():
    assert Cohorts(Outside(), sizes=SIZES, m=M).needs == ("losses", "norms")


def test_a_server_that_is_refused_can_be_made_in_ones_own_loop_as_the_sentence_says(digits):
    with pytest.raises(InputError, match="fedavgm has the server ServerMomentum") as refusal:
        Cohorts("fedavgm", sizes=SIZES, m=M)
    assert "Cohorts(methods.get('fedavgm').clients, ...)" in str(refusal.value)
    method = methods.get("fedavgm")
    chooser, w, state = (
        Cohorts(method.clients, sizes=SIZES, m=M),
        np.zeros(D),
        method.server.State(),
    )
    for _ in range(300):
        cohort = chooser.sample()
        weights = chooser.report(cohort, 0.01 * (POINTS[cohort.clients] - w))
        w = method.server.step(w, weights @ (0.01 * (POINTS[cohort.clients] - w)), state)
    target = np.array(SIZES) / sum(SIZES) @ POINTS
    assert np.linalg.norm(w - target) < 0.6 * np.linalg.norm(target)


LONG, NAN = [np.zeros(D)] * 11 + [np.zeros(D + 1)], [np.zeros(D)] * 11 + [np.full(D, np.nan)]
SAMPLES = {
    "of 10 clients, and there are 12: call resize": ("fedstas", {"gradients": POINTS[:10]}),
    "losses are of 3 clients": ("md", {"losses": [1, 2, 3]}),  # though md asks for none
    "client 11 has 81 numbers, and that of client 0 80: all must have the same length, so give for each client the gradient": (
        "fedstas",
        {"gradients": LONG},
    ),
    "client 11 holds a number that is not finite": ("divfl", {"gradients": NAN}),
    "gradients are 5: give an array": ("fedstas", {"gradients": 5}),
    "gradients are {0: 1}: give an array": ("fedstas", {"gradients": {0: 1}}),
    "the gradient of client 0 is 'a': it must be numbers": ("fedstas", {"gradients": ["a"] * 12}),
    "the loss of client .* is None, and every client .* resize, with 0": (
        "power-of-choice",
        {"losses": lambda k: None},
    ),
    "the gradient of client 0 is None, and every": ("fedstas", {"gradients": [None] * 12}),
    "a part of the gradient of client 3 is None, as of a parameter without": (
        "fedstas",
        {"gradients": lambda k: [POINTS[k], None if k == 3 else POINTS[k]]},
    ),
    "client 1 has the parts .'w', 'c'., and the gradient of client 0 .'w', 'b'.": (
        "fedstas",
        {"gradients": lambda k: {"w": POINTS[k], "c" if k else "b": POINTS[k]}},
    ),
    "client 0 is {0: 3, 1: 4}: give the counts of all classes": (
        "fed-cbs",
        {"labels": lambda k: {0: 3, 1: 4}},
    ),
    "the norm of client 0 is .*at least 0": ("optimal-client-sampling", {"norms": [-1] * 12}),
    "labels are the classes of the clients' examples": (
        "fed-cbs",
        {"labels": np.full((12, 7), 2)},
    ),
    "sketches have 5 numbers, .* sketch_size=64": (
        "fedstas-least-variance",
        {"sketches": POINTS[:, :5]},
    ),
}


@pytest.mark.parametrize("sentence", SAMPLES)
def test_wrong_answers_are_refused_in_a_sentence(sentence):
    name, arguments = SAMPLES[sentence]
    sizes = [7] * 12 if name == "fed-cbs" else SIZES
    chooser = Cohorts(name, sizes=sizes, m=M)
    with pytest.raises(InputError, match=sentence):
        chooser.sample(**arguments)
    assert chooser.round == 0


def test_wrong_reports_are_refused_in_a_sentence_and_can_be_given_again():
    chooser = Cohorts("fedavg", sizes=SIZES, m=M)
    with pytest.raises(InputError, match="no cohort is drawn: call sample first"):
        chooser.report(Cohort([0], [1.0]), [POINTS[0]])
    cohort = chooser.sample()
    clients, weights, updates = cohort.clients, cohort.weights, [*POINTS[cohort.clients]]
    absent = next(k for k in range(N) if k not in clients)
    twice = Cohort(np.append(clients, clients[0]), np.append(weights, 0.5))
    by_tensor = {
        k: POINTS[k] for k in torch.from_numpy(clients)
    }  # equal to the numbers, but other keys
    wrong = {
        r"a dict with the key tensor": (cohort, by_tensor),
        f"client {absent} was not drawn in round 1: give": (Cohort([absent], [1.0]), [POINTS[0]]),
        "not that of round 1": (twice, [*updates, POINTS[0]]),
        f"client {clients[0]} has the weight": (Cohort(clients, weights * 2), updates),
        "the cohort is 3: give the Cohort": (3, updates),
        "3 updates of 4 participants": (cohort, updates[:3]),
        "updates are 1.5: give a list": (cohort, 1.5),
        f"client {clients[2]} has 3 numbers, and that of client {clients[1]} 80": (
            cohort,
            [*updates[:2], POINTS[0, :3], updates[3]],
        ),
        f"client {clients[3]} holds a number that is not finite": (
            cohort,
            [*updates[:3], torch.full((D,), torch.inf)],
        ),
        f"client {absent} was not drawn in round 1: leave out": (cohort, {absent: POINTS[0]}),
        f"with the key '{clients[0]}': its keys must be clients' numbers": (
            cohort,
            {str(clients[0]): POINTS[0]},
        ),
        f"client {clients[3]} has the parts .'b', 'w'., and the update of client {clients[0]} .'w', 'b'.": (
            cohort,
            [*({"w": POINTS[0], "b": POINTS[1]},) * 3, {"b": POINTS[1], "w": POINTS[0]}],
        ),
        f"the update of client {clients[0]} is 'x'": (cohort, ["x", *updates[1:]]),
    }
    for sentence, arguments in wrong.items():
        with pytest.raises(InputError, match=sentence):
            chooser.report(*arguments)
    cohort.clients.sort()  # whoever has the cohort may change its arrays
    with pytest.raises(InputError, match="not that of round 1"):
        chooser.report(cohort, updates)
    chooser.report(chooser.cohort, updates)
    with pytest.raises(InputError, match="round 1 has been reported already"):
        chooser.report(chooser.cohort, updates)


@pytest.mark.parametrize("place", [3, slice(90, 95), [90], "bias"])
def test_a_place_of_the_bias_that_no_update_has_is_refused(place):
    chooser = Cohorts("hics-fl", sizes=SIZES, m=M)
    cohort = chooser.sample(output_bias=place)
    chooser.report(cohort, POINTS[cohort.clients])
    with pytest.raises(InputError, match=r"output_bias is .*: it must be a slice or a list"):
        chooser.sample(output_bias=place)


def test_a_method_that_learns_from_updates_wants_a_report_and_updates_of_one_length():
    chooser = Cohorts("clustered-similarity", sizes=SIZES, m=M)
    cohort = chooser.sample()
    with pytest.raises(InputError, match="learns from updates: call report"):
        chooser.sample()
    chooser.report(cohort, POINTS[cohort.clients])
    cohort = chooser.sample()
    with pytest.raises(
        InputError,
        match="has 5 numbers, and earlier ones 80: updates must have one length, so give",
    ):
        chooser.report(cohort, POINTS[cohort.clients, :5])


STATES = {
    "of Cohorts with method='md', and not method='fedavg'": {"method": "md"},
    "of Cohorts with seed=1, and not seed=0": {"seed": 1},
    "of Cohorts with m=5, and not m=4": {"m": 5},
    "of 5 clients, whose sizes are not those of these 12": {"sizes": [9] * 5},
}


def test_states_of_other_arguments_are_refused_in_a_sentence():
    base = {"method": "fedavg", "sizes": SIZES, "m": M, "seed": 0}
    chooser = Cohorts(**base)
    for sentence, change in STATES.items():
        with pytest.raises(InputError, match=sentence):
            chooser.load_state_dict(Cohorts(**base | change).state_dict())
    with pytest.raises(InputError, match="fedstas-least-variance with other settings"):
        Cohorts("fedstas-least-variance", sizes=SIZES, m=M).load_state_dict(
            Cohorts("fedstas-least-variance", sizes=SIZES, m=M, sketch_size=8).state_dict()
        )
    for state in (None, {}, {"round": 3}, "text"):
        with pytest.raises(InputError, match=r"must be one of Cohorts.state_dict\(\)"):
            chooser.load_state_dict(state)
    damaged = chooser.state_dict()
    with pytest.raises(InputError, match="another version of fedstas"):
        chooser.load_state_dict(damaged | {"format": 99})
    with pytest.raises(InputError, match="the round of the state is -3"):
        chooser.load_state_dict(damaged | {"round": -3})
    del damaged["memory"]
    with pytest.raises(InputError, match="the state is damaged"):
        chooser.load_state_dict(damaged)


ARGUMENTS = {
    "unknown method 'mdd' .did you mean md": ("mdd", {}),
    "the settings strata are for a method's name": (Uniform(), {"strata": 3}),
    "has no setting 'strta'": ("fedstas", {"strta": 3}),
    "has no setting 'spec'": ("md", {"spec": 3}),
    "'features' after md is no setting: write KEY=VALUE": ("md features", {}),
    "strata is given twice": ("fedstas strata=3", {"strata": 4}),
    "the method is 3: give a name": (3, {}),
    "the method is <class": (Uniform, {}),
    "sizes are a dict: give a list": ("md", {"sizes": {"a": 3}}),
    "13 clients per round are more than the 12": ("fedavg", {"m": 13}),
    "clients per round. is 0": ("fedavg", {"m": 0}),
    "client sizes are all zero, for each of 2 clients: at least one must be above 0, so give": (
        "md",
        {"sizes": [0, 0]},
    ),
    r"client sizes are .0.25, 0.75.: they must be whole .*; give each client's number of examples": (
        "md",
        {"sizes": [0.25, 0.75]},
    ),
    "sizes are .'a', 'b'.: give how many examples": ("md", {"sizes": ["a", "b"]}),
    "sizes are .'7', '8'.: give how many examples": ("md", {"sizes": ["7", "8"]}),
    "sizes are 12: give how many examples": ("md", {"sizes": 12}),
    "sizes are None: give how many examples": ("md", {"sizes": None}),
    "sizes are .array.*: give how many examples": ("md", {"sizes": [np.zeros(3), np.zeros(5)]}),
    "rng is not an argument: give the Generator as seed": (
        "md",
        {"rng": np.random.default_rng(0)},
    ),
    "seed is -1": ("md", {"seed": -1}),
}


@pytest.mark.parametrize("sentence", ARGUMENTS)
def test_wrong_arguments_are_refused_in_a_sentence(sentence):
    method, arguments = ARGUMENTS[sentence]
    with pytest.raises(InputError, match=sentence):
        Cohorts(method, **{"sizes": SIZES, "m": M} | arguments)


@pytest.mark.parametrize(
    ("words", "settings"),
    [("features=labels epsilon=1", {}), ("features=labels", {"epsilon": 1})],
)
def test_settings_may_stand_behind_the_name_as_on_the_command_line(words, settings):
    name, arguments = "fedstas-least-variance", {"sizes": SIZES, "m": M, "seed": 2}
    by_name = Cohorts(f"{name} {words}", **arguments, **settings)
    by_keywords = Cohorts(name, **arguments, features="labels", epsilon=1)
    assert by_name.method == by_keywords.method and by_name.needs == ("labels",)
    for _ in range(3):
        cohorts = [each.sample(labels=COUNTS) for each in (by_name, by_keywords)]
        assert cohorts[0].clients.tolist() == cohorts[1].clients.tolist()
    by_keywords.load_state_dict(by_name.state_dict())  # one identity


def test_a_file_with_a_design_may_have_settings_and_lie_in_a_folder_with_a_space(
    tmp_path, monkeypatch
):
    folder = tmp_path / "my designs"
    folder.mkdir()
    code = (ROOT / "examples" / "own" / "my_design.py").read_text(encoding="utf-8")
    (folder / "my_design.py").write_text(code, encoding="utf-8")
    by_path = Cohorts(str(folder / "my_design.py"), sizes=SIZES, m=M, power=0.3)
    monkeypatch.chdir(folder)
    by_words = Cohorts("my_design.py power=0.3", sizes=SIZES, m=M)
    assert by_path.method.clients == by_words.method.clients


def test_the_package_offers_it_by_name_without_torch():
    code = "import fedstas, sys; fedstas.Cohorts('md', sizes=[3, 4], m=1).sample(); print('torch' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.stdout == "False\n", process.stderr
    assert {"Cohorts", "cohorts", "simulation", "methods"} <= set(dir(fedstas))


def load_example(name: str):
    """Load a file of examples/own as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / "own" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_loop_in_numpy_of_the_examples_runs_as_it_stands():
    file = ROOT / "examples" / "own_loop.py"
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 45
    process = subprocess.run([sys.executable, file], capture_output=True, text=True, cwd=ROOT)
    assert process.returncode == 0, process.stderr
    assert float(process.stdout.split()[-1]) > 0.7


def test_the_loop_with_data_loaders_learns_and_goes_on_from_its_checkpoint(tmp_path):
    main, file = load_example("my_loaders").main, tmp_path / "run.pt"
    main(1, file)
    assert main(3, file) == main(3) > 0.15  # ten classes
