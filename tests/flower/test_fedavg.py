"""Flower's FedAvg with a design, over clients that know nothing of this package.

Node 1000 + k is client k.
"""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not in .venv: `make test-flower` runs this")

import flwr.simulation
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from memory import Memory

from fedstas import Cohorts, methods
from fedstas.errors import InputError
from fedstas.flower import FedAvgWithDesign, plain_methods

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower" / "plain_clients.py"
SIZES = [2, 3, 5, 8, 13, 21, 34]  # ascending, so that clients are numbered as the nodes are
START = {"w": np.zeros((2, 3), np.float32), "b": np.ones(2, np.float32)}


class Grid(Memory):
    """Nodes of a plain ClientApp in one process; `recipients` are, by sending of messages, the clients that got one.

    In a round the model is sent for training first, and then for evaluation.
    """

    def __init__(self, app, nodes, fault=None):
        super().__init__(None, nodes, fault)
        self.app, self.recipients = app, []

    def send_and_receive(self, messages, *, timeout=None):
        self.recipients.append([m.metadata.dst_node_id - 1000 for m in messages])
        return [*self.pull_messages(self.push_messages(messages))]


def train_client(k: int, w: dict) -> dict:
    """Return the model that client k trains from w."""
    return {name: v + (k + 1) * np.float32(0.25) + v * k / 8 for name, v in w.items()}


def make_client(sizes=SIZES, train=train_client):
    """Return a plain ClientApp, whose node k trains with `train(k, w)` and reports `sizes[k]` examples."""
    app = ClientApp()

    @app.train()
    def answer(message, context):
        k = context.node_config["partition-id"]
        w = {name: a.numpy() for name, a in message.content["arrays"].items()}
        assert message.content["config"]["server-round"] >= 1
        arrays = {n: Array(np.asarray(v, w[n].dtype)) for n, v in train(k, w).items()}
        metrics = MetricRecord({"num-examples": sizes[k], "loss": float(k)})
        content = {"arrays": ArrayRecord(arrays), "metrics": metrics}
        return Message(RecordDict(content), reply_to=message)

    return app


def run(strategy, grid, rounds, start=START):
    """Run rounds and return the final model and Flower's result."""
    arrays = ArrayRecord({name: Array(v) for name, v in start.items()})
    result = strategy.start(grid, arrays, num_rounds=rounds)
    return {name: a.numpy() for name, a in result.arrays.items()}, result


def make_strategy(method, m=3, known_sizes=True, **settings):
    """Return the strategy; with `known_sizes` no round is spent on asking for them."""
    sizes = {1000 + k: n for k, n in enumerate(SIZES)} if known_sizes else None
    settings = {"fraction_evaluate": 0.0, "sizes": sizes} | settings
    return FedAvgWithDesign(method, clients_per_round=m, **settings)


def simulate_loop(method, m, rounds, silent=lambda t, k: False, seed=0):
    """Return the model and the cohorts of the loop that `Cohorts` documents; `silent(t, k)`: no answer in round t."""
    chooser, cohorts = Cohorts(method, sizes=SIZES, m=m, seed=seed), []
    w = {name: v.astype(np.float64) for name, v in START.items()}
    for t in range(1, rounds + 1):
        cohort = chooser.sample()
        cohorts.append(cohort.clients.tolist())
        new = [None if silent(t, k) else train_client(k, w) for k in cohort.clients]
        updates = [each and [each[n] - w[n] for n in w] for each in new]
        for weight, update in zip(chooser.report(cohort, updates), updates, strict=True):
            if update is not None:
                w = {n: v + weight * u for (n, v), u in zip(w.items(), update, strict=True)}
    return w, cohorts


@pytest.mark.parametrize("name", plain_methods())
def test_a_run_is_that_of_cohorts_in_a_loop(name):
    rounds = 6
    fedavg = make_strategy(name)
    grid = Grid(make_client(), len(SIZES))
    w, _ = run(fedavg, grid, rounds)
    expected_model, cohorts = simulate_loop(name, 3, rounds)
    assert [[node - 1000 for node in each] for each in fedavg.cohorts] == cohorts
    # A client that is drawn twice gets one message; every second sending is that of an evaluation.
    assert grid.recipients[::2] == [[*dict.fromkeys(each)] for each in cohorts]
    for key, value in w.items():
        np.testing.assert_allclose(value, expected_model[key], rtol=1e-4)
    assert not fedavg.events


def test_methods_that_ask_clients_for_no_more_than_sizes_and_updates_run_with_plain_clients():
    names = {"fedavg", "fedavg-unbiased", "md", "clustered-size", "clustered-similarity", "cyclic"}
    assert names <= {*plain_methods()}
    # By default it needs gradients, and is refused.
    make_strategy(methods.get("fedstas-least-variance", features="updates"))


def test_without_sizes_all_nodes_train_first_and_the_model_is_that_of_fedavg():
    fedavg, grid = make_strategy("md", known_sizes=False), Grid(make_client(), len(SIZES))
    w, result = run(fedavg, grid, 1)
    flower_model, flower_result = run(
        FedAvg(fraction_evaluate=0.0), Grid(make_client(), len(SIZES)), 1
    )
    for key, value in w.items():
        np.testing.assert_allclose(value, flower_model[key], rtol=1e-6)
    metrics, flower_metrics = (r.train_metrics_clientapp[1] for r in (result, flower_result))
    assert metrics["loss"] == pytest.approx(flower_metrics["loss"])
    assert fedavg.sizes == {1000 + k: n for k, n in enumerate(SIZES)}
    run(fedavg, grid, 1)
    assert len(fedavg.cohorts[-1]) == 3 and {*grid.recipients[-2]} == {
        n - 1000 for n in fedavg.cohorts[-1]
    }


def test_metrics_are_averaged_by_the_weights_of_the_design():
    """md's weights are 1/m, whatever the sizes."""
    fedavg = make_strategy("md", m=5)
    _, result = run(fedavg, Grid(make_client(), len(SIZES)), 1)
    assert result.train_metrics_clientapp[1]["loss"] == pytest.approx(
        np.mean([node - 1000 for node in fedavg.cohorts[0]])
    )


FAULTS = {
    "no answer in time": lambda reply: None,
    "its w holds a number that is not finite": lambda reply: with_array(reply, np.nan * START["w"]),
    r"its w is float32 \[3, 2\], not float32 \[2, 3\]": lambda reply: with_array(
        reply, START["w"].T
    ),
    "its model has the arrays": lambda reply: with_array(reply, START["b"], "other"),
}


def with_array(reply, value, name="w"):
    """Return the reply with another array."""
    reply.content["arrays"][name] = Array(np.ascontiguousarray(value))
    return reply


@pytest.mark.parametrize(
    "name", ["fedavg", "fedavg-unbiased", "clustered-size", "clustered-similarity"]
)
@pytest.mark.parametrize("reason", FAULTS)
def test_others_stand_for_a_participant_without_a_usable_answer(name, reason):
    def fault(node, message, reply):
        return FAULTS[reason](reply) if node == 1006 else reply

    fedavg = make_strategy(name)
    w, _ = run(fedavg, Grid(make_client(), len(SIZES), fault), 8)
    expected_model, cohorts = simulate_loop(name, 3, 8, silent=lambda t, k: k == 6)
    assert any(6 in each for each in cohorts)
    for key, value in w.items():
        np.testing.assert_allclose(value, expected_model[key], rtol=1e-4)
    rounds = [t for t, each in enumerate(cohorts, 1) if 6 in each]
    assert [each.split(":")[0] for each in fedavg.events if "node 1006" in each] == [
        f"round {t}" for t in rounds
    ]
    assert all(re.search(reason, each) for each in fedavg.events if "node 1006" in each)


def test_the_reason_of_a_client_that_fails_is_shown_and_it_is_asked_again_in_rounds_2_4_8():
    def train(k, w):
        if k == 3:
            raise ValueError("labels.csv has 40 rows and 30 labels")
        return train_client(k, w)

    fedavg, grid = (
        make_strategy("md", known_sizes=False),
        Grid(make_client(train=train), len(SIZES)),
    )
    run(fedavg, grid, 9)
    assert [t for t, asked in enumerate(grid.recipients[::2], 1) if 3 in asked] == [1, 2, 4, 8]
    assert all("labels.csv has 40 rows and 30 labels" in each for each in fedavg.events)
    assert len(fedavg.events) == 4 and 1003 not in fedavg.sizes


def test_if_nobody_answers_the_model_stays():
    fedavg = make_strategy("md")
    w, _ = run(fedavg, Grid(make_client(), len(SIZES), lambda *_: None), 1, START)
    assert not w  # Flower has no model to return
    assert (
        fedavg.events[-1] == "round 1: no update came that could be used: the model stays as it is"
    )


def test_nodes_come_and_go():
    """A node without examples is never drawn; one that comes later is asked for its size beside the cohort."""
    sizes = [*SIZES, 0, 55]
    grid = Grid(make_client(sizes), len(sizes))
    grid.online -= {1008}
    fedavg = make_strategy("fedavg", m=4, known_sizes=False)
    run(fedavg, grid, 3)
    grid.online |= {1008}
    run(fedavg, grid, 1)
    training = grid.recipients[-2]
    assert training[-1] == 8 and 1008 not in fedavg.cohorts[-1]
    grid.online -= {1000, 1001, 1002, 1003}
    run(fedavg, grid, 3)
    assert [sorted(each) for each in fedavg.cohorts[-3:]] == [[1004, 1005, 1006, 1008]] * 3
    grid.online -= {1004}  # three are left, of whom four cannot be drawn
    fedavg.min_available_nodes = 3
    run(fedavg, grid, 1)
    assert sorted(fedavg.cohorts[-1]) == [1005, 1006, 1008]
    assert not any(1007 in each for each in fedavg.cohorts[1:])


def test_batch_norm_has_statistics_that_are_means():
    """Weights of fedavg-unbiased add up to more than one in some rounds; a sum of updates would give variances below zero."""
    start = START | {
        "0.running_var": np.full(2, 100, np.float32),
        "0.num_batches_tracked": np.array(7),
    }

    def train(k, w):
        return train_client(k, w) | {
            "0.running_var": np.full(2, k + 1, np.float32),
            "0.num_batches_tracked": w["0.num_batches_tracked"] + 10 * k,
        }

    def weights_of(seed):
        return Cohorts("fedavg-unbiased", sizes=SIZES, m=3, seed=seed).sample().weights

    seed = next(seed for seed in range(100) if weights_of(seed).sum() > 1.2)
    fedavg = make_strategy("fedavg-unbiased", seed=seed)
    w, _ = run(fedavg, Grid(make_client(train=train), len(SIZES)), 1, start)
    cohort, weights = [node - 1000 for node in fedavg.cohorts[0]], weights_of(seed)
    mean = np.average(cohort, weights=weights)
    np.testing.assert_allclose(w["0.running_var"], mean + 1, rtol=1e-6)
    assert 100 + (weights * (np.array(cohort) - 99)).sum() < 0  # the sum of updates
    assert w["0.num_batches_tracked"] == round(7 + 10 * mean)
    assert w["0.num_batches_tracked"].dtype == np.int64


REFUSED = {
    "fedstas-least-variance": r"needs the clients' gradients, which a plain client does not send; with features='updates' it does not: .*md",
    "strat": r"needs the clients' gradients, which a plain client does not send: take a method .*fedstas\.flower\.Designs",
    "power-of-choice": "needs the clients' losses",
    "fed-cbs": "needs the clients' label counts",
    "fedsampling": "hides the clients' sizes",
    "fedadam": "has the server Adaptive",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_plain_clients_cannot_answer_is_refused_in_a_sentence(name):
    with pytest.raises(InputError, match=f"^{name} {REFUSED[name]}"):
        make_strategy(name)
    assert name not in plain_methods()


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="trains on some of a client's examples"):
        make_strategy(methods.get("fedstas-least-variance", features="updates", rate=0.5))
    with pytest.raises(InputError, match="leave out fraction_train: clients_per_round"):
        make_strategy("md", fraction_train=0.5)
    with pytest.raises(InputError, match="sizes are 3: give a dict"):
        make_strategy("md", sizes=3)
    fedavg = make_strategy("md", sizes=lambda node: -1)
    with pytest.raises(InputError, match="the size of node 1000"):
        run(fedavg, Grid(make_client(), len(SIZES)), 1)


@pytest.mark.parametrize("size", [2.5, -1, float("nan"), [3]])
def test_a_number_of_examples_must_be_one(size):
    fedavg = make_strategy("md", known_sizes=False)
    run(fedavg, Grid(make_client([size, *SIZES[1:]]), len(SIZES)), 1)
    (event,) = fedavg.events
    assert event.startswith("round 1: node 1000: its num-examples is ") and 1000 not in fedavg.sizes


@pytest.mark.parametrize("known_sizes", [True, False])
def test_a_server_that_loads_the_state_of_its_predecessor_makes_the_run_that_did_not_stop(
    known_sizes,
):
    method = "clustered-similarity"
    uninterrupted = make_strategy(method, known_sizes=known_sizes)
    expected, _ = run(uninterrupted, Grid(make_client(), len(SIZES)), 6)
    first = make_strategy(method, known_sizes=known_sizes)
    half, _ = run(first, Grid(make_client(), len(SIZES)), 3)
    state = json.loads(json.dumps(first.state_dict()))
    second = make_strategy(method, known_sizes=known_sizes)
    second.load_state_dict(state)
    w, _ = run(second, Grid(make_client(), len(SIZES)), 3, half)
    assert second.cohorts == uninterrupted.cohorts
    for key, value in w.items():
        np.testing.assert_array_equal(value, expected[key])


def test_a_state_before_the_first_round_is_loaded_and_one_of_other_settings_is_refused():
    new = make_strategy("md")
    new.load_state_dict(make_strategy("md").state_dict())
    run(new, Grid(make_client(), len(SIZES)), 1)
    for other in (make_strategy("md", m=2), make_strategy("fedavg"), make_strategy("md", seed=1)):
        with pytest.raises(InputError, match="the state is of Cohorts with"):
            other.load_state_dict(new.state_dict())
    with pytest.raises(InputError, match=r"must be one of FedAvgWithDesign.state_dict\(\)"):
        new.load_state_dict({"sizes": 3})


def test_the_example_trains_a_network_with_batch_norm(monkeypatch, capsys):
    """On nodes of one process, with the client and server of the example."""

    def simulate(server, client, num_supernodes):
        grid = Grid(client, num_supernodes)
        server(grid, None)

    monkeypatch.setattr(flwr.simulation, "run_simulation", simulate)
    torch.manual_seed(0)
    runpy.run_path(str(EXAMPLE))
    assert float(capsys.readouterr().out.split()[-1]) > 0.3  # one class in ten by chance


def test_the_example_runs_in_flowers_simulation_engine():
    output = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=600
    )
    assert output.returncode == 0, output.stderr[-3000:]
    assert float(output.stdout.split("accuracy:")[1].split()[0]) > 0.3
