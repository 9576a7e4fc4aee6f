"""The round loop: reproducible, resumable, with costs checked by hand, and equal to a plain implementation."""

import math
import os
import subprocess
import sys
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import chi2
from sklearn.metrics import accuracy_score, f1_score
from torch.nn import functional as F

from fedstas import (
    autograd,
    engine,
    methods,
    models,
    partition,
    privacy,
    server,
    simulation,
    sketch,
    tasks,
)
from fedstas.aggregation import Average, UpdateMemoryServer
from fedstas.client_sampling import Cohort, Uniform
from fedstas.data_sampling import FixedSize
from fedstas.errors import Diverged, InputError
from fedstas.sim import run_file
from fedstas.views import sketch_signs

POISSON_SAMPLING = ("poisson", "optimal-client-sampling", "k-vib")  # no fixed cohort size
P = 64 * 50 + 50 + 50 * 10 + 10  # number of parameters of the digits perceptron
NAMES = methods.names()


def run(task, federation, method, **options):
    """Run a method for four rounds with five clients each, unless `options` say otherwise."""
    method = methods.get(method) if isinstance(method, str) else method
    options = {"rounds": 4, "clients_per_round": 5, "seed": 1, "device": "cpu"} | options
    return simulation.run(task, federation, method, **{"initial_model": "sent"} | options)


def assert_same_histories(first, second):
    """Check that two runs are equal bit for bit: values (but seconds), parameters and cohorts."""
    without_seconds = {"columns": "seconds"}
    pd.testing.assert_frame_equal(
        first.frame.drop(**without_seconds), second.frame.drop(**without_seconds), check_exact=True
    )
    np.testing.assert_array_equal(first.params, second.params)
    assert [c.tolist() for c in first.cohorts] == [c.tolist() for c in second.cohorts]


def make_method(name):
    """Return a method with all its parts in use: three strata, made anew in round 4, and samples of the data."""
    parameters = methods.parameters(name)
    settings = {"strata": 3, "restratify_every": 3, "lr": 0.1}
    settings |= {"n_star": 200} if "n_star" in parameters else {"rate": 0.5}
    return methods.get(name, **{k: v for k, v in settings.items() if k in parameters})


@pytest.fixture(scope="module")
def histories(digits, federation):
    """Five rounds of every method."""
    return {name: run(digits, federation, make_method(name), rounds=5) for name in NAMES}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_equal_arguments_give_equal_histories_bit_for_bit(digits, federation, histories, name):
    torch.manual_seed(99)  # the global generators have no say
    np.random.seed(99)  # noqa: NPY002
    before = torch.get_rng_state()
    assert_same_histories(run(digits, federation, make_method(name), rounds=5), histories[name])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_another_history(digits, federation, histories, name):
    other = run(digits, federation, make_method(name), rounds=5, seed=2)
    assert not np.array_equal(other.params, histories[name].params)


@pytest.mark.slow
@pytest.mark.parametrize("r", [1, 3, 4])
@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_equals_an_uninterrupted_one(digits, federation, histories, name, r):
    first = run(digits, federation, make_method(name), rounds=r)
    resumed = run(digits, federation, make_method(name), rounds=5, resume=first)
    assert_same_histories(resumed, histories[name])
    assert (np.diff(resumed.frame.seconds) > 0).all()


@pytest.mark.slow
def test_a_history_can_be_resumed_twice(digits, federation, histories):
    first = run(digits, federation, make_method("fedstas"), rounds=1)
    for _ in range(2):
        resumed = run(digits, federation, make_method("fedstas"), rounds=5, resume=first)
        assert_same_histories(resumed, histories["fedstas"])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_cohorts_and_model_do_not_depend_on_when_they_are_evaluated(
    digits, federation, histories, name
):
    every_third_round = run(digits, federation, make_method(name), rounds=5, eval_every=3)
    every_round = histories[name]
    assert every_third_round.frame["round"].tolist() == [3, 5]  # the last is always evaluated
    same_rounds = every_round.frame[every_round.frame["round"].isin([3, 5])].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        every_third_round.frame.drop(columns="seconds"),
        same_rounds.drop(columns="seconds"),
        check_exact=True,
    )
    assert [c.tolist() for c in every_third_round.cohorts] == [
        c.tolist() for c in every_round.cohorts
    ]
    np.testing.assert_array_equal(every_third_round.params, every_round.params)


@pytest.mark.parametrize("name", NAMES)
def test_the_frame_has_a_row_for_each_round_and_plausible_values(histories, name):
    frame = histories[name].frame
    assert tuple(frame.columns) == tuple(simulation.COLUMNS)
    assert frame["round"].tolist() == [1, 2, 3, 4, 5]
    for column in ("examples", "bytes_down", "bytes_up", "seconds"):
        assert (np.diff(frame[column]) > 0).all(), column
    for column in ("test_accuracy", "client_accuracy", "macro_f1"):
        assert frame[column].between(0, 1).all()
    assert histories[name].params.dtype == np.float32
    assert histories[name].params.shape == (P,)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "centralised"])
def test_cohorts_are_clients_with_data(federation, histories, name):
    assert (federation.sizes == 0).any()
    frame = histories[name].frame
    everyone = len(federation.with_data)
    for cohort, participants in zip(histories[name].cohorts, frame.participants, strict=True):
        sizes = {"fedsampling": [everyone], "cyclic": [5, 4]} | dict.fromkeys(
            POISSON_SAMPLING, range(20)
        )
        assert len(cohort) in sizes.get(name, [5])
        assert (federation.sizes[cohort] > 0).all()
        assert len(np.unique(cohort)) == participants


@pytest.mark.slow
def test_all_methods_start_from_the_same_model(digits, federation, monkeypatch):
    starts, local_updates = [], engine.local_updates

    def record_start(module, params, *args, **kw):
        starts.append(params.clone())
        return local_updates(module, params, *args, **kw)

    monkeypatch.setattr(engine, "local_updates", record_start)
    for name in NAMES:
        run(digits, federation, name, rounds=1)
    expected = models.flatten(digits.model(1))
    assert len(starts) == len(NAMES)
    assert all(torch.equal(start, expected) for start in starts)


def train_by_pytorch(task, federation, history, *, rounds, steps, lr, weights):
    """Return the parameters of federated training with deep copies, PyTorch's optimiser and full local batches."""
    model = task.model(1)
    for t in range(rounds):
        cohort = history.cohorts[t]
        start, total = models.flatten(model), 0
        for k, weight in zip(cohort, weights(cohort), strict=True):
            local = deepcopy(model)
            optimizer = torch.optim.SGD(local.parameters(), lr=lr)
            x, y = task.train_x[federation.shards[k]], task.train_y[federation.shards[k]]
            for _ in range(steps):
                optimizer.zero_grad()
                F.cross_entropy(local(x), y).backward()
                optimizer.step()
            total = total + weight * (models.flatten(local) - start)
        torch.nn.utils.vector_to_parameters(start + total, model.parameters())
    return models.flatten(model)


def test_fedavg_agrees_with_a_plain_implementation(digits, federation):
    method = methods.get("fedavg", batch=10_000, lr=0.2, steps=3)
    history = run(digits, federation, method, rounds=3)
    sizes = federation.sizes
    expected = train_by_pytorch(
        digits,
        federation,
        history,
        rounds=3,
        steps=3,
        lr=0.2,
        weights=lambda cohort: sizes[cohort] / sizes[cohort].sum(),
    )
    start = models.flatten(digits.model(1))
    assert (expected - start).abs().max() > 0.01
    np.testing.assert_allclose(history.params, expected, rtol=0, atol=2e-6)


def test_md_averages_with_equal_weights_and_a_client_may_count_twice(digits, federation):
    history = run(digits, federation, methods.get("md", batch=10_000, lr=0.2), rounds=5)
    assert any(len(set(c.tolist())) < len(c) for c in history.cohorts)
    expected = train_by_pytorch(
        digits,
        federation,
        history,
        rounds=5,
        steps=3,
        lr=0.2,
        weights=lambda cohort: np.full(len(cohort), 1 / len(cohort)),
    )
    np.testing.assert_allclose(history.params, expected, rtol=0, atol=2e-6)


def test_expansion_weights_apply_to_updates(digits, federation):
    history = run(digits, federation, methods.get("fedavg-unbiased", batch=10_000), rounds=2)
    n, sizes = len(federation.with_data), federation.sizes
    expected = train_by_pytorch(
        digits,
        federation,
        history,
        rounds=2,
        steps=3,
        lr=0.01,
        weights=lambda cohort: n / 5 * sizes[cohort] / sizes.sum(),
    )
    np.testing.assert_allclose(history.params, expected, rtol=0, atol=2e-6)


def test_centralised_is_sgd_on_all_data(digits, federation):
    history = run(digits, federation, methods.get("centralised", batch=10_000, lr=0.2), rounds=2)
    model = digits.model(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(6):
        optimizer.zero_grad()
        F.cross_entropy(model(digits.train_x), digits.train_y).backward()
        optimizer.step()
    np.testing.assert_allclose(history.params, models.flatten(model), rtol=0, atol=2e-6)
    assert history.frame.participants.tolist() == [1, 1]
    all_examples, steps = len(digits.train_y), 3  # a round, each on all examples
    assert history.frame.examples.tolist() == [steps * all_examples, 2 * steps * all_examples]


def test_the_server_steps_by_its_rate(digits, federation):
    full = run(digits, federation, methods.get("fedavg", lr=0.2), rounds=1)
    half = run(digits, federation, methods.get("fedavg", lr=0.2, server=Average(0.5)), rounds=1)
    start = models.flatten(digits.model(1)).numpy()
    np.testing.assert_allclose(half.params - start, (full.params - start) / 2, atol=1e-7)


def test_metrics_are_those_of_scikit_learn(digits, federation, histories):
    history, module = histories["fedavg"], digits.model(0)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(history.params), module.parameters())
    with torch.no_grad():
        predicted = module(digits.test_x).argmax(1)
        loss = F.cross_entropy(module(digits.train_x), digits.train_y).item()
    metrics, labels = history.frame.iloc[-1], digits.test_y
    assert metrics.test_accuracy == pytest.approx(accuracy_score(labels, predicted), abs=1e-12)
    f1 = f1_score(labels, predicted, average="macro", zero_division=0)
    assert metrics.macro_f1 == pytest.approx(f1, abs=1e-12)
    assert metrics.train_loss == pytest.approx(loss, rel=1e-5)
    client_accuracies = []
    for k in federation.with_data:
        correct = (predicted == labels).numpy()
        shares = federation.label_counts[k] / federation.sizes[k]
        client_accuracies.append(
            sum(s * correct[labels.numpy() == c].mean() for c, s in enumerate(shares))
        )
    assert metrics.client_accuracy == pytest.approx(np.mean(client_accuracies), abs=1e-12)


def bytes_of_rounds(history):
    """Return the cumulative bytes down and up after each round."""
    frame = history.frame
    return frame.bytes_down.tolist(), frame.bytes_up.tolist()


def test_fedavg_pays_for_models_and_once_for_sizes(digits, federation, histories):
    n = len(federation.with_data)
    down, up = bytes_of_rounds(histories["fedavg"])
    assert down == [t * 5 * P * 4 for t in range(1, 6)]
    assert up == [8 * n + t * 5 * P * 4 for t in range(1, 6)]


def test_md_sends_the_model_once_to_a_client_drawn_twice(federation, histories):
    n, history = len(federation.with_data), histories["md"]
    distinct = np.cumsum([len(set(c.tolist())) for c in history.cohorts])
    down, up = bytes_of_rounds(history)
    assert down == (distinct * P * 4).tolist()
    assert distinct[-1] < 5 * 5  # draws in five rounds
    assert up == [8 * n + t * 5 * P * 4 for t in range(1, 6)]


@pytest.mark.parametrize("name", ["md", "fedstas"])
def test_a_first_model_that_clients_make_costs_a_seed_and_changes_nothing_else(
    digits, federation, name
):
    downloaded = run(digits, federation, name, rounds=2)
    from_seed = run(digits, federation, name, rounds=2, initial_model="seed")
    needed = len(np.unique(downloaded.cohorts[0])) if name == "md" else len(federation.with_data)
    saved = downloaded.frame.bytes_down - from_seed.frame.bytes_down
    assert saved.tolist() == [needed * (4 * P - 8)] * 2  # later models are downloaded either way
    columns = [c for c in downloaded.frame if c not in ("bytes_down", "seconds")]
    pd.testing.assert_frame_equal(
        downloaded.frame[columns], from_seed.frame[columns], check_exact=True
    )
    np.testing.assert_array_equal(downloaded.params, from_seed.params)


def test_a_first_model_from_a_file_is_downloaded(digits, federation, tmp_path):
    file, sent = str(tmp_path / "start.npy"), run(digits, federation, "md", rounds=2)
    np.save(file, models.flatten(digits.model(1)).numpy())
    assert_same_histories(run(digits, federation, "md", rounds=2, initial_model=file), sent)
    np.save(file, models.flatten(digits.model(2)).numpy())
    other = run(digits, federation, "md", rounds=2, initial_model=file)
    assert other.frame.bytes_down.tolist() == sent.frame.bytes_down.tolist()
    assert not np.array_equal(other.params, sent.params)
    np.save(file, models.flatten(digits.model(3)).numpy())
    with pytest.raises(
        InputError, match="another task, federation, method, seed, average or initial model"
    ):
        run(digits, federation, "md", rounds=3, initial_model=file, resume=other)
    with pytest.raises(
        InputError, match="another task, federation, method, seed, average or initial model"
    ):
        run(digits, federation, "md", rounds=3, initial_model="seed", resume=sent)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"start.npy cannot be read \(No such file or directory\)"),
        (np.zeros(P - 1, np.float32), rf"float32 \[{P - 1}\]: it must be float32 \[{P}\]"),
        (np.zeros(P), rf"float64 \[{P}\]: it must be float32 \[{P}\]"),
        (np.full(P, np.inf, np.float32), "a number that is not finite"),
        (b"no array", "holds no array: write it by numpy.save"),
    ],
)
def test_a_first_model_that_does_not_fit_is_refused_in_one_sentence(
    digits, federation, tmp_path, content, message
):
    file = tmp_path / "start.npy"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        np.save(file, content)
    with pytest.raises(InputError, match=message):
        run(digits, federation, "md", initial_model=str(file))


@pytest.mark.parametrize("wrong", ["random", "", 3, None])
def test_an_initial_model_is_one_of_two_words_or_a_file(digits, federation, wrong):
    with pytest.raises(InputError, match=r"use seed, sent, or a file FILE.npy"):
        run(digits, federation, "md", initial_model=wrong)


@pytest.mark.parametrize(("every", "times"), [(1, [1, 2, 3, 4, 5]), (3, [1, 1, 1, 2, 2])])
def test_fedstas_pays_for_a_gradient_of_every_client_when_it_stratifies(
    digits, federation, every, times
):
    method = methods.get("fedstas", restratify_every=every, levels=9, n_star=10**9)
    history = run(digits, federation, method, rounds=5)
    n, total = len(federation.with_data), int(federation.sizes.sum())
    gradient = math.ceil((9 * 32 + P * 4) / 8)  # bytes of 9 floats and a code of 4 bits per entry
    requests = np.array(times)
    stratifies = np.diff(requests, prepend=0) == 1
    down, up = bytes_of_rounds(history)
    # In a stratifying round everybody has w_t already; in the others the participants fetch it.
    assert down == np.cumsum(np.where(stratifies, n, 5) * P * 4).tolist()
    rounds = np.arange(1, 6)
    assert up == (8 * n + requests * n * gradient + rounds * 5 * P * 4).tolist()
    # n* is beyond all data, so that each participant keeps everything.
    local = np.cumsum([3 * np.minimum(federation.sizes[c], 128).sum() for c in history.cohorts])
    assert history.frame.examples.tolist() == (requests * total + local).tolist()


def test_private_reports_cost_eight_bytes_each_and_replace_the_sizes(digits, federation):
    history = run(digits, federation, methods.get("fedstas-dp", restratify_every=9), rounds=2)
    n, gradient = len(federation.with_data), math.ceil((9 * 32 + P * 4) / 8)
    _, up = bytes_of_rounds(history)
    assert up == [n * gradient + t * (5 * 8 + 5 * P * 4) for t in (1, 2)]


def test_norms_cost_every_client_a_pass_over_its_data_and_eight_bytes(
    digits, federation, histories
):
    n, total = len(federation.with_data), int(federation.sizes.sum())
    history, rounds = histories["optimal-client-sampling"], np.arange(1, 6)
    down, up = bytes_of_rounds(history)
    trained = np.cumsum([len(c) for c in history.cohorts])
    assert down == (rounds * n * P * 4).tolist()  # participants have w_t already
    assert up == (8 * n + rounds * 8 * n + trained * P * 4).tolist()
    local = np.cumsum([3 * np.minimum(federation.sizes[c], 128).sum() for c in history.cohorts])
    assert history.frame.examples.tolist() == (rounds * total + local).tolist()


def test_losses_cost_every_candidate_a_pass_over_its_data_and_eight_bytes(
    digits, federation, histories
):
    server, params = make_server(federation, digits)
    server.begin(1, params)
    losses = server.losses(np.array([3, 5]))
    data = make_pool(federation, digits)
    for k, loss in zip((3, 5), losses, strict=True):
        rows = slice(data.offsets[k], data.offsets[k + 1])
        expected = F.cross_entropy(server.module(data.x[rows]), data.y[rows]).item()
        assert loss == pytest.approx(expected, rel=1e-5)
    examples = int(data.sizes[[3, 5]].sum())
    assert server.cost == {"examples": examples, "bytes_down": 2 * P * 4, "bytes_up": 16}
    n, rounds = len(federation.with_data), np.arange(1, 6)  # ten candidates of which five train
    down, up = bytes_of_rounds(histories["power-of-choice"])
    assert down == (rounds * 10 * P * 4).tolist()
    assert up == (8 * n + rounds * (10 * 8 + 5 * P * 4)).tolist()


def test_sketches_and_output_gradients_are_those_of_the_gradients(digits, federation):
    server, params = make_server(federation, digits)
    server.begin(1, params)
    gradients = torch.stack([*engine.client_gradients(server.module, params, server._data)]).numpy()
    n, total = len(federation.with_data), int(federation.sizes.sum())
    sketches = server.sketches(16)
    assert sketches.dtype == np.float32 and sketches.shape == (n, 16)
    # A client makes its own from its gradient and the seed, up to the rounding that the server does.
    sketch_of_client = sketch.signed_sums(gradients[3], 16, sketch_signs(0))
    np.testing.assert_allclose(
        sketches[3], sketch_of_client, atol=2.0**-16 * np.abs(sketches).max()
    )
    assert server.cost == {"examples": total, "bytes_down": n * P * 4, "bytes_up": n * 4 * 16}
    layer = server.output_layer
    assert (layer.start, layer.stop) == (64 * 50 + 50, P)  # 50 x 10 weights and 10 biases
    np.testing.assert_array_equal(server.output_gradients(), gradients[:, layer])
    sketches += 1  # what a design does with its answer does not change the next one
    assert not np.array_equal(server.sketches(16), sketches)
    up = n * 4 * (16 + 510)  # one pass over the examples answers both questions, once
    assert server.cost == {"examples": total, "bytes_down": n * P * 4, "bytes_up": up}
    for size in (0, P + 1, 1.5):
        with pytest.raises(InputError, match=f"at least 1 and at most {P}"):
            server.sketches(size)


def test_noise_of_sketches_is_drawn_once_a_round(digits, federation):
    server, params = make_server(federation, digits)
    noise, answers = {"clip": 0.1, "epsilon": 4.0}, []
    for t in (1, 2):
        server.begin(t, params)
        answers += [server.sketches(8, **noise), server.sketches(8, **noise)]
    np.testing.assert_array_equal(answers[0], answers[1])
    assert not np.isclose(answers[0], answers[2]).any()  # the same sketch, other noise
    sigma = privacy.gaussian_sigma(4.0, 1e-5, 0.2)
    difference = (answers[0] - answers[2]) / (np.sqrt(2) * sigma)
    # Its mean square is chi-squared's over its degrees of freedom, here beyond these ends once in a million.
    ends = chi2(difference.size).ppf([5e-7, 1 - 5e-7]) / difference.size
    assert ends[0] < np.square(difference).mean() < ends[1]


@pytest.mark.parametrize("backend", ["batched", "loop"])
def test_sketches_agree_between_backends(digits, federation, backend, monkeypatch):
    """Two ways to the same gradients, which differ in their last bits: rounded sketches differ by a step at most."""
    server, params = make_server(federation, digits)
    server.begin(1, params)
    expected = server.sketches(64)
    server.begin(1, params)
    if backend == "loop":
        monkeypatch.setattr(engine, "kernels_of", lambda module: autograd)
    result = server.sketches(64)
    # The grid of rounding. Few sums lie so near to a midpoint that last bits decide between two steps.
    step = 2.0**-15 * np.abs(expected).max()
    assert np.abs(result - expected).max() <= step and (result == expected).mean() > 0.9


def test_label_counts_cost_a_number_for_each_class_once(digits, federation):
    server, params = make_server(federation, digits)
    n = len(federation.with_data)
    for t in (1, 2):
        server.begin(t, params)
        counts = server.label_counts()
        np.testing.assert_array_equal(counts, federation.label_counts[federation.with_data])
        assert server.cost == {"examples": 0, "bytes_down": 0, "bytes_up": 4 * 10 * n}
    noisy = server.label_counts(0.5)
    assert server.cost["bytes_up"] == 2 * 4 * 10 * n
    np.testing.assert_array_equal(noisy, server.label_counts(0.5))  # drawn once
    assert server.cost["bytes_up"] == 2 * 4 * 10 * n
    # Another epsilon has noise of its own: of the same at two scales the counts could be solved for.
    other = server.label_counts(1.0)
    assert np.abs((other - counts) - (noisy - counts) / 2).min() > 0
    for epsilon in (0, -1, np.inf, "1"):
        with pytest.raises(InputError, match=r"epsilon is .*: it must be a number above 0"):
            server.label_counts(epsilon)
    with pytest.raises(InputError, match="the task has no classes"):
        simulation.Server(make_pool(federation, digits), server.module, 0).label_counts()


def test_norms_are_those_of_the_gradients(digits, federation):
    server, params = make_server(federation, digits)
    server.begin(1, params)
    gradients = engine.client_gradients(server.module, params, make_pool(federation, digits))
    norms = [float(g.norm()) for g in gradients]
    np.testing.assert_allclose(server.norms(), norms, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("optimal-client-sampling", "norm"),
        ("power-of-choice", "loss"),
        ("divfl", "gradient"),
    ],
)
def test_an_answer_that_is_not_finite_is_reported_as_a_divergence(digits, federation, name, answer):
    server, params = make_server(federation, digits)
    server.begin(7, params * float("nan"))
    with pytest.raises(Diverged, match=f"round 7: .*{answer}"):
        methods.get(name).clients.draw(server, 5, np.random.default_rng(0))


@dataclass
class Draws:
    """The state of `EverySecondRound`: how often it was called."""

    count: int = 0


@dataclass(frozen=True)
class EverySecondRound:
    """A design whose cohort is empty in every second round, though it asks all clients for a norm."""

    State = Draws

    def draw(self, view, m, rng):
        draws = view.state_of(self)
        draws.count += 1
        view.norms()
        if draws.count % 2 == 0:
            return Cohort(np.zeros(0, dtype=int), np.zeros(0))
        return Uniform("expansion").draw(view, m, rng)


def test_an_empty_cohort_leaves_the_model_unchanged(digits, federation):
    method = methods.Method("sometimes", EverySecondRound())
    one_round, two_rounds = (run(digits, federation, method, rounds=r) for r in (1, 2))
    np.testing.assert_array_equal(one_round.params, two_rounds.params)
    assert two_rounds.frame.participants.tolist() == [5, 0]
    assert len(two_rounds.cohorts[1]) == 0
    n, (down, up) = len(federation.with_data), bytes_of_rounds(two_rounds)
    assert np.diff(down).tolist() == [n * P * 4]  # the norms are paid for
    assert np.diff(up).tolist() == [8 * n]
    assert np.diff(two_rounds.frame.examples).tolist() == [federation.sizes.sum()]
    three_rounds = run(digits, federation, method, rounds=3)
    assert not np.array_equal(three_rounds.params, two_rounds.params)
    assert_same_histories(
        run(digits, federation, method, rounds=3, resume=two_rounds), three_rounds
    )


@pytest.mark.parametrize("kind", ["fedvarp", "mifa"])
def test_a_server_with_update_memory_steps_even_with_an_empty_cohort(digits, federation, kind):
    method = methods.Method("sometimes", EverySecondRound(), server=UpdateMemoryServer(kind))
    one_round, two_rounds = (run(digits, federation, method, rounds=r) for r in (1, 2))
    omega = federation.sizes[federation.with_data] / federation.sizes.sum()
    remembered = two_rounds.state.server.optimizer.updates.numpy()
    assert (np.abs(remembered).max(1) > 0).sum() == 5
    np.testing.assert_allclose(two_rounds.params, one_round.params + omega @ remembered, atol=1e-7)
    assert np.abs(two_rounds.params - one_round.params).max() > 1e-5


def test_fedvarp_begins_like_averaging_and_stores_the_last_updates(digits, federation):
    averaging, fedvarp = (
        run(digits, federation, n, rounds=1) for n in ("fedavg-unbiased", "fedvarp")
    )
    np.testing.assert_allclose(fedvarp.params, averaging.params, atol=1e-7)
    assert fedvarp.frame.bytes_up.tolist() == averaging.frame.bytes_up.tolist()
    remembered = fedvarp.state.server.optimizer.updates.numpy()
    took_part = np.isin(federation.with_data, fedvarp.cohorts[0])
    np.testing.assert_array_equal(np.abs(remembered).max(1) > 0, took_part)
    mifa = run(digits, federation, "mifa", rounds=1)  # zero for those who were not there
    omega = federation.sizes[federation.with_data] / federation.sizes.sum()
    start = models.flatten(digits.model(1)).numpy()
    np.testing.assert_allclose(mifa.params, start + omega @ remembered, atol=1e-7)


def test_a_server_with_update_memory_reads_no_size_if_its_method_reads_none(
    digits, federation, reports_without_sizes
):
    method = methods.get("fedstas-unbiased-dp", server=UpdateMemoryServer("mifa"))
    history = run(digits, federation, method, rounds=1)
    remembered = history.state.server.optimizer.updates.numpy()
    start = models.flatten(digits.model(1)).numpy()  # its omega is 1/N
    np.testing.assert_allclose(history.params, start + remembered.mean(0), atol=1e-7)


def test_centralised_pays_for_one_model_down_and_up_per_round(digits, federation, histories):
    down, up = bytes_of_rounds(histories["centralised"])
    assert down == up == [t * P * 4 for t in range(1, 6)]


def test_the_model_stays_unchanged_if_every_sample_is_empty(digits, federation):
    method = methods.get("fedstas-unbiased", rate=1e-12)
    history = run(digits, federation, method, rounds=3)
    np.testing.assert_array_equal(history.params, models.flatten(digits.model(1)).numpy())
    assert history.frame.examples.nunique() == 1  # the gradients of round 1, and no step


def test_a_client_with_an_empty_sample_returns_the_model_while_others_train(
    digits, federation, monkeypatch
):
    distances, local_updates = [], engine.local_updates

    def record_distance(module, params, *args, **kw):
        result = local_updates(module, params, *args, **kw)
        distances.append((result - params).abs().amax(1))
        return result

    monkeypatch.setattr(engine, "local_updates", record_distance)
    method = methods.get("fedstas", n_star=6, prox=0.1)
    history = run(digits, federation, method, rounds=4)
    all_distances = torch.cat(distances)
    assert (all_distances == 0).any()
    assert (all_distances > 0).any()
    assert np.isfinite(history.frame.train_loss).all()


def make_pool(federation, digits):
    """Return the data of the clients that have any."""
    shards = [federation.shards[k] for k in federation.with_data]
    return engine.pool(digits.train_x, digits.train_y, shards)


def test_batches_come_from_the_clients_sample_without_repetition(digits, federation):
    data = make_pool(federation, digits)
    cohort = Cohort(np.array([3, 0, 3, 5]), np.ones(4))
    method = methods.get("fedstas-unbiased", rate=0.5, batch=16, steps=4)
    idx, weight, sample_sizes = simulation.draw_batches(
        method, data, cohort, np.full(4, 0.5), seed=0, t=1
    )
    assert idx.shape == weight.shape
    samples = []
    assert (sample_sizes >= (weight > 0).sum((1, 2)) / 4).all() and (
        sample_sizes <= data.sizes[cohort.clients]
    ).all()
    for slot, k in enumerate(cohort.clients):
        used = weight[slot] > 0
        examples = idx[slot][used]
        assert ((examples >= data.offsets[k]) & (examples < data.offsets[k + 1])).all()
        for rows, in_batch, w in zip(idx[slot], used, weight[slot], strict=True):
            assert len(set(rows[in_batch])) == in_batch.sum() <= 16
            if in_batch.any():
                assert w.sum() == pytest.approx(1, abs=1e-12)
                assert len(set(w[in_batch])) == 1
        samples.append(set(examples.tolist()))
    assert samples[0] != samples[2]  # a client drawn twice has two samples


def test_the_sample_of_a_place_in_the_cohort_does_not_depend_on_the_other_places(
    digits, federation
):
    data, method = make_pool(federation, digits), methods.get("fedstas-unbiased", rate=0.5)
    *first, first_sizes = simulation.draw_batches(
        method, data, Cohort(np.array([3, 0]), np.ones(2)), [0.5, 0.5], seed=0, t=2
    )
    *second, second_sizes = simulation.draw_batches(
        method, data, Cohort(np.array([3, 7]), np.ones(2)), [0.5, 1e-9], seed=0, t=2
    )
    assert first_sizes[0] == second_sizes[0]
    for a, b in zip(first, second, strict=True):
        width = min(a.shape[2], b.shape[2])
        np.testing.assert_array_equal(a[0, :, :width], b[0, :, :width])
        assert not a[0, :, width:].any()
        assert not b[0, :, width:].any()


def test_a_client_with_fewer_examples_than_a_batch_uses_them_all(digits, federation):
    data, small = make_pool(federation, digits), int(np.argmin(make_pool(federation, digits).sizes))
    cohort = Cohort(np.array([small]), np.ones(1))
    size = int(data.sizes[small])
    idx, weight, sample_sizes = simulation.draw_batches(
        methods.get("md"), data, cohort, [1.0], seed=0, t=1
    )
    assert size < 128 and sample_sizes.tolist() == [size]
    assert idx.shape == (1, 3, size)
    assert (np.sort(idx[0]) == data.offsets[small] + np.arange(size)).all()
    np.testing.assert_allclose(weight, 1 / size)


def test_samples_of_fixed_size_cost_their_number_of_examples(digits, federation):
    history = run(digits, federation, methods.get("fedstas", data=FixedSize(50)), rounds=2)
    total = federation.sizes.sum()
    local = np.cumsum([3 * np.minimum(federation.sizes[c], 10).sum() for c in history.cohorts])
    assert history.frame.examples.tolist() == (total * np.array([1, 2]) + local).tolist()


@pytest.fixture
def reports_without_sizes(monkeypatch):
    """Make reading true sizes an error; return the list of reports made, as (size, report)."""

    def refuse(self):
        raise AssertionError("a true size was asked for")

    answers, report = [], privacy.report

    def record_report(sizes, **kw):
        answers.append((int(sizes), int(report(sizes, **kw))))
        return np.int64(answers[-1][1])

    monkeypatch.setattr(simulation.Server, "sizes", property(refuse))
    monkeypatch.setattr(privacy, "report", record_report)
    return answers


def test_the_corrected_private_method_needs_no_size_at_all(
    digits, federation, reports_without_sizes
):
    history = run(digits, federation, methods.get("fedstas-unbiased-dp", rate=0.5), rounds=4)
    assert len(history.frame) == 4
    assert reports_without_sizes == []  # not even a randomised report


def test_the_corrected_private_method_memoises_reports_of_the_mechanism(
    digits, federation, reports_without_sizes
):
    method = methods.get("fedstas-unbiased-dp", n_star=100, epsilon=1.0, restratify_every=2)
    run(digits, federation, method, rounds=6)
    assert len(reports_without_sizes) == 6 * 5
    by_size = pd.DataFrame(reports_without_sizes, columns=["size", "report"]).groupby("size").report
    clients_by_size = pd.Series(federation.sizes).value_counts()
    sizes_of_one_client = [
        size
        for size in by_size.groups
        if clients_by_size[size] == 1 and len(by_size.get_group(size)) > 1
    ]
    assert sizes_of_one_client
    assert all(by_size.get_group(size).nunique() == 1 for size in sizes_of_one_client)


def test_the_private_method_as_written_draws_new_reports_each_round(
    digits, federation, reports_without_sizes
):
    run(digits, federation, methods.get("fedstas-dp", epsilon=1.0), rounds=8)
    by_size = pd.DataFrame(reports_without_sizes, columns=["size", "report"]).groupby("size").report
    reported_often = [group for _, group in by_size if len(group) >= 4]
    assert reported_often
    assert all(group.nunique() > 1 for group in reported_often)


@pytest.mark.parametrize("name", ["fedavg", "md", "fedstas", "fedstas-unbiased"])
def test_methods_that_are_not_private_read_true_sizes(
    digits, federation, reports_without_sizes, name
):
    with pytest.raises(AssertionError, match="true size"):
        run(digits, federation, name, rounds=1)


def make_server(federation, digits, seed=0):
    """Return a server before its first round, and the initial parameters."""
    module = digits.model(0)
    server = simulation.Server(make_pool(federation, digits), module, seed, classes=10)
    return server, models.flatten(module)


@pytest.mark.parametrize("memoised", [True, False])
def test_a_memoised_report_is_the_same_in_every_round_and_place(digits, federation, memoised):
    server, params = make_server(federation, digits)
    privacy = {"size_cap": 1000, "alpha": 0.2, "memoised": memoised}
    answers = []
    for t, clients in ((1, [4, 7, 9]), (2, [9, 4, 7]), (9, [7, 9, 4])):
        server.begin(t, params)
        reports = server.reports(np.array(clients), **privacy)
        answers.append(dict(zip(clients, reports.tolist(), strict=True)))
    assert (answers[0] == answers[1] == answers[2]) == memoised
    another_seed, params = make_server(federation, digits, seed=1)
    another_seed.begin(1, params)
    assert another_seed.reports(np.array([4, 7, 9]), **privacy).tolist() != list(
        answers[0].values()
    )


def test_a_federation_of_equal_gradients_trains(digits):
    shards = [np.arange(50)] * 8
    federation = partition.federation(digits.train_y, shards)
    for name in ("fedstas", "fedstas-unbiased", "strat-neyman"):
        history = run(digits, federation, name, rounds=2)
        assert np.isfinite(history.frame.train_loss).all()


def test_as_many_participants_as_clients_is_allowed(digits, federation):
    n = len(federation.with_data)
    for name in ("fedavg", "fedstas"):
        history = run(digits, federation, name, rounds=1, clients_per_round=n)
        np.testing.assert_array_equal(np.sort(history.cohorts[0]), federation.with_data)


def test_clients_without_data_do_not_change_a_run(digits, federation):
    """The federation without its empty clients trains alike."""
    shards = [federation.shards[k] for k in federation.with_data]
    without_empty = partition.federation(digits.train_y, shards)
    first, second = run(digits, federation, "fedstas"), run(digits, without_empty, "fedstas")
    pd.testing.assert_frame_equal(
        first.frame.drop(columns="seconds"), second.frame.drop(columns="seconds"), check_exact=True
    )


def test_the_limit_of_threads_holds_for_libraries_that_are_loaded_later():
    """k-means has threads of its own, and is imported where it is first used."""
    code = """
import numpy as np
from threadpoolctl import threadpool_info
from fedstas import simulation, stratification
with simulation.limited_threads(1):
    stratification.stratify(np.random.default_rng(0).normal(size=(30, 4)), 3, 0)
    print(sorted({pool["num_threads"] for pool in threadpool_info()}))
"""
    two_threads = os.environ | {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=two_threads
    )
    assert process.stdout.strip() == "[1]", process.stderr


def test_the_number_of_threads_is_restored_after_a_run(digits, federation):
    before = torch.get_num_threads()
    run(digits, federation, "md", rounds=1, threads=2)
    with pytest.raises(Diverged):
        run(digits, federation, methods.get("md", lr=1e30), rounds=3)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("name", ["md", "fedstas", "fedstas-unbiased"])
def test_a_diverged_run_keeps_its_history(digits, federation, name):
    method = methods.get(name, lr=1e12)
    with pytest.raises(Diverged, match=r"not finite.*round \d") as exc_info:
        run(digits, federation, method, rounds=50)
    frame = exc_info.value.history.frame
    assert tuple(frame.columns) == tuple(simulation.COLUMNS)
    assert len(frame) < 50
    assert np.isfinite(frame.train_loss.astype(float)).all()
    if len(frame):
        rounds = len(frame)
        shorter = run(digits, federation, method, rounds=rounds)
        pd.testing.assert_frame_equal(
            frame.drop(columns="seconds"), shorter.frame.drop(columns="seconds"), check_exact=True
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "rounds is 0"),
        ({"rounds": 2.5}, "rounds is 2.5"),
        ({"clients_per_round": 0}, "participants.*is 0"),
        ({"clients_per_round": 20}, "20 clients per round are more than the 19"),
        ({"eval_every": 0}, "eval_every is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"threads": 0}, "threads is 0"),
        ({"device": "tpu"}, "unknown device 'tpu'"),
    ],
)
def test_bad_arguments_of_a_run_are_refused(digits, federation, options, message):
    with pytest.raises(InputError, match=message):
        # Not of md, which may draw a client twice and so takes 20 per round of 19.
        run(digits, federation, "fedavg", **options)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_rounds_that_are_not_finite_are_refused(digits, federation, value):
    with pytest.raises(InputError, match="rounds is"):
        run(digits, federation, "md", rounds=value)


def test_a_federation_without_data_or_of_other_data_is_refused(digits):
    nobody = partition.federation(digits.train_y, [[], []])
    with pytest.raises(InputError, match="none of its clients has data"):
        run(digits, nobody, "md")
    other = partition.iid(np.arange(5000) % 10, 10, 0)
    with pytest.raises(
        InputError, match="the federation names examples that task digits does not have"
    ):
        run(digits, other, "md")


def test_a_history_of_another_run_is_not_resumed(digits, federation, histories):
    history = histories["md"]
    for change in ({"seed": 2}, {"clients_per_round": 4}):
        with pytest.raises(InputError, match="history is of another"):
            run(digits, federation, make_method("md"), rounds=9, resume=history, **change)
    with pytest.raises(InputError, match="history is of another"):
        run(digits, federation, "md", rounds=9, resume=history)
    elsewhere = partition.dirichlet(digits.train_y, 20, 0.1, seed=5)
    with pytest.raises(InputError, match="history is of another"):
        run(digits, elsewhere, make_method("md"), rounds=9, resume=history)
    with pytest.raises(InputError, match="has 5 rounds already: rounds is 5"):
        run(digits, federation, make_method("md"), rounds=5, resume=history)


def test_training_on_digits_reaches_90_percent(digits):
    federation = partition.iid(digits.train_y, 10, 0)
    method = methods.get("fedavg", lr=0.3, steps=10, batch=64)
    history = run(digits, federation, method, rounds=15, eval_every=15)
    assert history.frame.test_accuracy.iloc[-1] > 0.9


def test_a_run_on_mnist_is_repeated_bit_for_bit(real_data):
    task = real_data("mnist")
    federation = partition.dirichlet(task.train_y, 100, 0.01, seed=0)
    histories = [
        run(task, federation, "fedstas-unbiased", rounds=2, clients_per_round=10, eval_every=2)
        for _ in range(2)
    ]
    assert_same_histories(*histories)
    assert histories[0].params.shape == (39_760,)
    assert tasks.data_folder().exists()


def test_a_history_of_an_older_layout_is_refused(digits, federation):
    """Resumed without its server's memory, the run would silently differ."""
    first = run(digits, federation, make_method("md"), rounds=1)
    first.state = vars(first.state) | {"server": {"memory": {}, "optimizer": {}}}
    with pytest.raises(InputError, match="resume: the history is of another version"):
        run(digits, federation, make_method("md"), rounds=2, resume=first)


def test_a_round_pays_for_one_pass_over_the_examples_whatever_it_requests(digits, federation):
    """Gradients of each number of levels and norms are sent once a round, for one pass over the examples."""
    shards = [federation.shards[k] for k in federation.with_data]
    data = engine.pool(digits.train_x, digits.train_y, shards)
    module = digits.model(0)
    view = server.Server(data, module, 0)
    n, total, bytes_of_9_levels = (
        len(shards),
        len(data.y),
        P // 2 + 36,
    )  # 9 levels: codes of 4 bits and 9 floats
    for t in (1, 2):
        view.begin(t, models.flatten(module))
        gradients = view.gradients(9)
        cost_of_gradients = dict(view.cost)
        assert view.gradients(9) is gradients and view.cost == cost_of_gradients
        assert cost_of_gradients == {
            "examples": t * total,
            "bytes_down": t * n * 4 * P,
            "bytes_up": cost_of_gradients["bytes_up"],
        }
        norms = view.norms()
        assert view.cost == cost_of_gradients | {"bytes_up": cost_of_gradients["bytes_up"] + 8 * n}
        norms *= 0  # the caller's copy may be changed
        assert view.norms().min() > 0
        assert view.cost["bytes_up"] == cost_of_gradients["bytes_up"] + 8 * n
        assert len(view.gradients(4).levels[0]) == 4  # other levels: another message
        bytes_of_4_levels = view.cost["bytes_up"] - cost_of_gradients["bytes_up"] - 8 * n
        assert (
            bytes_of_4_levels == n * math.ceil(view.gradients(4).bits / 8)
            and view.cost["examples"] == t * total
        )
    assert n * bytes_of_9_levels == n * math.ceil(gradients.bits / 8)


def test_a_history_is_resumed_only_with_the_same_shards_where_it_has_their_hash(digits):
    """The clients of both federations have the same sizes, and other examples."""
    labels = digits.train_y.numpy()
    ours, theirs = (
        partition.federation(labels, [s[:60] for s in partition.iid(labels, 20, seed).shards])
        for seed in (0, 1)
    )
    first = run(digits, ours, "md", rounds=2)
    with pytest.raises(InputError, match="resume: the history is of another task, federation"):
        run(digits, theirs, "md", rounds=3, resume=first)
    plain, arrays = run_file.encode_history(first)
    del plain["shards_digest"]  # as in a file from before there was the hash
    old = run_file.decode_history(plain, arrays, methods.get("md"))
    uninterrupted = run(digits, ours, "md", rounds=3)
    for history in (first, old):
        assert_same_histories(run(digits, ours, "md", rounds=3, resume=history), uninterrupted)


def test_label_shares_are_those_of_the_task_also_if_the_federation_was_made_from_other_labels(
    digits, federation
):
    made_from_others = partition.federation(np.arange(len(digits.train_y)) % 3, federation.shards)
    for name in ("target", "md"):
        assert_same_histories(
            *(run(digits, f, name, rounds=2) for f in (federation, made_from_others))
        )
