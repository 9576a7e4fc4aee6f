"""Rounds in which nodes die, are late, join, or send invalid messages.

Node 1000 + k has the data of client k.
"""

import itertools
import json
import re

import numpy as np
import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not in .venv: `make test-flower` runs this")

from flwr.app import Array, ArrayRecord, Error, Message
from memory import Memory

from fedstas import methods, models, partition, simulation
from fedstas.aggregation import UpdateMemoryServer
from fedstas.client_sampling import Cohort
from fedstas.errors import InputError
from fedstas.flower import Designs, Local, TooFew, reweight


def fault_in_model(value):
    """Return a fault: node 1001 sends `value(models)` in the place of its trained models."""

    def fault(node, message, reply):
        """Put `value(models)` in the place of the models of node 1001."""
        if message.metadata.message_type == "train" and node == 1001:
            models = reply.content.array_records["arrays"]["models"].numpy().copy()
            record = ArrayRecord({"models": Array(value(models))})
            reply.content.array_records["arrays"] = record
        return reply

    return fault


@pytest.mark.parametrize(
    "value, reason",
    [
        (lambda w: w * np.float32(np.nan), "not finite"),
        (lambda w: np.where(w > 0, np.float32(np.inf), w), "not finite"),
        (lambda w: w[:, :-1], r"float32 \[1, 3759\], not float32 \[1, 3760\]"),
        (lambda w: w.astype(np.float64), "float64"),
        (lambda w: w[:0], r"\[0, 3760\]"),
    ],
)
def test_invalid_models_are_left_out_and_the_others_are_weighted_up(value, reason, nodes, train):
    method = methods.get("fedavg")
    params, strategy = train(nodes(method, fault=fault_in_model(value)), method, rounds=4, m=6)
    took_part = [t for t, c in enumerate(strategy.cohorts, 1) if 1 in c]
    assert took_part
    events = [e for e in strategy.view.events if "client 1: train" in e]
    assert len(events) == len(took_part)
    assert np.isfinite(params).all()
    assert all(re.search(reason, e) for e in events)


def test_leaving_a_model_out_equals_a_cohort_without_its_client(digits, federation, nodes, train):
    """fedavg without one participant is fedavg over the others, exactly."""
    method = methods.get("fedavg")
    grid = nodes(method, fault=fault_in_model(lambda w: w * np.float32(np.nan)))
    params, strategy = train(grid, method, rounds=1, m=11)
    others = [k for k in strategy.cohorts[0] if k != 1]
    models_by_client = {
        n - 1000: m.content.array_records["arrays"]["models"].numpy()[0]
        for direction, n, kind, _, m in grid.wire
        if direction == "up" and kind == "train" and n != 1001
    }
    sizes = federation.sizes[others]
    expected = (
        sum(n * models_by_client[k] for n, k in zip(sizes, others, strict=True)) / sizes.sum()
    )
    np.testing.assert_allclose(params, expected, rtol=1e-5, atol=1e-6)


def test_a_client_with_an_invalid_answer_is_left_out_for_the_round(nodes, train):
    def fault(node, message, reply):
        """Reverse the levels of the gradient of node 1002, which must ascend."""
        if message.metadata.message_type == "query.gradient" and node == 1002:
            levels = reply.content.array_records["arrays"]["levels"].numpy()[::-1]
            reply.content.array_records["arrays"]["levels"] = Array(np.ascontiguousarray(levels))
        return reply

    method = methods.get("fedstas")
    _, strategy = train(nodes(method, fault=fault), method, rounds=2)
    assert not any(2 in c for c in strategy.cohorts)
    assert sum("levels out of order" in e for e in strategy.view.events) == 2


def test_after_a_node_dies_the_run_is_that_of_the_other_clients(digits, federation, nodes, train):
    """From the round after its death the run is the one that the others make by themselves."""
    method = methods.get("fedstas-unbiased", restratify_every=1)
    dead_client, grid = int(np.argmax(federation.sizes)), None

    def fault(node, message, reply):
        if node == 1000 + dead_client:
            grid.online.discard(node)
            return None
        return reply

    shards = [s if k != dead_client else s[:0] for k, s in enumerate(federation.shards)]
    expected = simulation.run(
        digits,
        partition.federation(digits.train_y, shards),
        method,
        rounds=6,
        clients_per_round=4,
        seed=0,
    )
    grid = nodes(method)
    grid.fault = lambda node, m, r: (
        fault(node, m, r) if "hello" not in m.metadata.message_type else r
    )
    params, strategy = train(grid, method, rounds=6, patience=0.3)
    assert [c.tolist() for c in strategy.cohorts] == [c.tolist() for c in expected.cohorts]
    np.testing.assert_allclose(params, expected.params, rtol=1e-4, atol=2e-6)
    assert any(
        f"client {dead_client}: query.gradient: no answer within" in e for e in strategy.view.events
    )


def test_a_late_node_misses_its_round_and_comes_back(nodes, train):
    method, late_nodes = methods.get("md"), []

    def fault(node, message, reply):
        if message.metadata.message_type == "train" and not late_nodes:
            late_nodes.append(node)
            return None
        return reply

    _, strategy = train(nodes(method, fault=fault), method, rounds=8, patience=0.3)
    events = "\n".join(strategy.view.events)
    client = late_nodes[0] - 1000
    assert f"round 1: client {client}: train: no answer within 0.3 s" in events
    # It answered the hello of round 2, so the federation did not change.
    assert "without" not in events
    assert any(client in c for c in strategy.cohorts[1:])


@pytest.mark.parametrize("code, noted", [(2, True), (5, False)], ids=["failed", "gone"])
def test_a_node_whose_hello_failed_is_greeted_again_in_the_next_round(code, noted, nodes, train):
    """The SuperLink answers for a node that is gone; the node is asked again all the same.

    In Flower's `ErrorCode`, 2 says that the node's program raised an exception, and 5 that the node is unavailable. There
    are 11 clients with data, and a hello is the first message to a node.
    """
    method = methods.get("fedavg")

    def fault(node, message, reply):
        if node == 1001 and message.metadata.group_id == "1":  # round 1
            return Message(Error(code, "no data"), reply_to=message)
        return reply

    _, strategy = train(nodes(method, fault=fault), method, rounds=3, m=11)
    assert [len(c) for c in strategy.cohorts] == [10, 11, 11]
    *first, last = strategy.view.events
    assert first == ["round 1: node 1001: query.hello: no data"] * noted
    assert "round 2: the federation changes: with [1]" in last


def test_an_error_from_the_superlink_counts_as_the_answer_of_its_node(nodes, train):
    """The SuperLink signs as itself: a reply belongs to the node to which its question went."""
    method = methods.get("fedavg")

    def fault(node, message, reply):
        if node == 1001 and message.metadata.message_type == "train":
            reply = Message(Error(5, "node unavailable"), reply_to=message)
            reply.metadata.__dict__["_src_node_id"] = 1
        return reply

    _, strategy = train(nodes(method, fault=fault), method, rounds=1, m=11)
    assert strategy.view.events == ["round 1: client 1: train: node unavailable"]


def test_an_answer_that_has_arrived_is_read_after_the_patience_too(nodes, train):
    method = methods.get("fedavg")
    grid = nodes(method)
    _, strategy = train(grid, method, rounds=2, patience=1e-9)
    assert not strategy.view.events


def test_a_node_that_joins_is_drawn_from_the_next_round_on(nodes, train):
    method = methods.get("clustered-similarity")
    grid = nodes(method)
    grid.online.discard(1004)

    def fault(node, message, reply):
        if message.metadata.group_id == "3":
            grid.online.add(1004)
        return reply

    grid.fault = fault
    _, strategy = train(grid, method, rounds=20, m=5)
    assert "round 4: the federation changes: with [4]; strata are made anew" in strategy.view.events
    assert not any(4 in c for c in strategy.cohorts[:3])
    assert any(4 in c for c in strategy.cohorts[3:])


def test_a_restarted_node_replaces_its_old_node(nodes, train, federation):
    method = methods.get("md")
    grid, old_node = nodes(method), 1000 + int(np.argmax(federation.sizes))
    new_node, client = old_node + 1000, old_node - 1000

    def fault(node, message, reply):
        """In round 2, put a new node in the place of the old one, with the same client."""
        if message.metadata.group_id == "2" and old_node in grid.online:
            grid.online.discard(old_node)
            grid.contexts[new_node] = grid.contexts[old_node]
            grid.online.add(new_node)
        return reply

    grid.fault = fault
    _, strategy = train(grid, method, rounds=10, patience=0.3)
    assert any(
        f"client {client} is now node {new_node}, no longer node {old_node}" in e
        for e in strategy.view.events
    )
    assert sum(n == new_node and k == "train" for _, n, k, *_ in grid.wire) > 0


def test_below_the_quorum_the_run_ends_with_the_reason(nodes, train):
    method = methods.get("md")

    def fault(node, message, reply):
        if message.metadata.message_type == "train":
            return Message(Error(0, "out of memory"), reply_to=message)
        return reply

    with pytest.raises(TooFew, match=r"round 1: 0 of 4 updates came.*quorum of 50%.*out of memory"):
        train(nodes(method, fault=fault), method)


def test_missing_nodes_at_the_start_are_reported(nodes, train):
    method = methods.get("md")
    grid = nodes(method, fault=lambda n, m, r: None if n == 1000 else r)
    with pytest.raises(TooFew, match=r"of 12 nodes were there after 0\.3 s"):
        train(grid, method, patience=0.3)


@pytest.mark.parametrize(
    "name", ["fedstas-unbiased", "clustered-similarity", "fedadam", "fedstas-authors-dec"]
)
def test_a_run_resumes_after_its_last_complete_round(
    name, tmp_path, digits, federation, nodes, train
):
    """Interrupted twice, it is the run that was never interrupted."""
    method, state = methods.get(name), tmp_path / "run.npz"
    uninterrupted, expected = train(nodes(method), method, rounds=7)
    train(nodes(method), method, rounds=2, state=state)
    grid = nodes(method)
    grid.fault = lambda n, m, r: (
        None if m.metadata.group_id == "5" and "train" in m.metadata.message_type else r
    )
    with pytest.raises(TooFew):
        train(grid, method, rounds=7, state=state, patience=0.2)
    params, strategy = train(nodes(method), method, rounds=7, state=state)
    assert [c.tolist() for c in strategy.cohorts] == [c.tolist() for c in expected.cohorts]
    np.testing.assert_array_equal(params, uninterrupted)
    with pytest.raises(InputError, match="has 7 rounds already"):
        train(nodes(method), method, rounds=7, state=state)
    with pytest.raises(InputError, match="of another method, seed"):
        train(nodes(method), method, rounds=9, seed=1, state=state)
    state.write_bytes(b"PK")
    with pytest.raises(InputError, match="damaged"):
        train(nodes(method), method, rounds=9, state=state)


def test_a_state_file_of_another_run_or_model_is_refused_and_one_without_a_name_is_continued(
    tmp_path, nodes, train
):
    method, state = methods.get("fedavg"), tmp_path / "run.npz"
    uninterrupted, _ = train(nodes(method), method, rounds=3)
    train(nodes(method), method, rounds=1, state=state, run="digits, iid")
    with pytest.raises(InputError, match=r"run\.npz is of the run 'digits, iid', not 'mnist, iid'"):
        train(nodes(method), method, rounds=2, state=state, run="mnist, iid")
    short = models.Linear(2, 2)
    strategy = Designs(method, clients_per_round=4, seed=0, nodes=2, state=state)
    with pytest.raises(InputError, match=r"run\.npz has a model of 3760 numbers, and .* has 6"):
        strategy.start(None, ArrayRecord([models.flatten(short).numpy()]))
    with np.load(state) as data:
        arrays = dict(data)
    plain = json.loads(str(arrays.pop("plain")))
    assert plain.pop("run") == "digits, iid"  # as in a file from before it was stored
    np.savez(state, plain=np.array(json.dumps(plain)), **arrays)
    params, _ = train(nodes(method), method, rounds=3, state=state, run="mnist, iid")
    np.testing.assert_array_equal(params, uninterrupted)


LEAST_VARIANCE = "fedstas-least-variance"


@pytest.mark.parametrize(
    "name, settings",
    [
        (LEAST_VARIANCE, {}),
        (LEAST_VARIANCE, {"features": "gradients"}),
        (LEAST_VARIANCE, {"features": "sketch+updates"}),
        (LEAST_VARIANCE, {"draws": "norm", "noise": True}),
        (LEAST_VARIANCE, {"features": "updates", "equal_clients": True}),
        *(
            (n, {})
            for n in ("optimal-client-sampling", "poisson", "k-vib", "cube", "local-pivotal")
        ),
        *((n, {}) for n in ("power-of-choice", "divfl", "cyclic", "fedvarp", "mifa")),
    ],
    ids=str,
)
def test_a_resumed_run_of_each_method_equals_the_uninterrupted_one(
    name, settings, tmp_path, nodes, train
):
    """The state of designs and servers is restored from the file."""
    method, state = methods.get(name, **settings), tmp_path / "run.npz"
    uninterrupted, expected = train(nodes(method), method, rounds=4)
    _, first = train(nodes(method), method, rounds=2, state=state)
    params, strategy = train(nodes(method), method, rounds=4, state=state)
    assert [c.tolist() for c in strategy.cohorts] == [c.tolist() for c in expected.cohorts]
    np.testing.assert_array_equal(params, uninterrupted)
    assert {*strategy.view.memory.designs} == {*expected.view.memory.designs}
    assert {*first.view.memory.designs} == {*expected.view.memory.designs}


def test_a_change_of_the_federation_keeps_only_the_last_updates_of_clients_that_stay(
    nodes, train, tmp_path
):
    """Client 11, of the first cohort, leaves in round 2 and is back in round 5, in a new strategy."""
    method = methods.get(
        LEAST_VARIANCE, features="gradients", draws="norm", server=UpdateMemoryServer()
    )
    grid, state = nodes(method), tmp_path / "run.npz"

    def fault(node, message, reply):
        if message.metadata.group_id == "2":
            grid.online.discard(1011)
        return reply if node in grid.online else None

    grid.fault = fault
    _, strategy = train(grid, method, rounds=4, m=6, state=state, patience=0.3)
    rounds_of_gradients = [
        sent.message.metadata.group_id
        for sent in grid.wire
        if (sent.direction, sent.kind) == ("up", "query.gradient")
    ]
    assert {t: rounds_of_gradients.count(t) for t in set(rounds_of_gradients)} == {"1": 11, "3": 10}
    gradients = strategy.view.state_of(method.clients).gradients
    assert gradients.round == 3 and gradients.value.codes.shape == (10, 3760)
    updates, roll = {}, strategy.view.client_ids
    assert len(roll) == 10 and 11 not in roll
    models_by_round = {}  # the server's model
    for direction, node, kind, _, message in grid.wire:
        arrays = message.content.array_records.get("arrays", {})
        if direction == "down" and "model" in arrays:
            models_by_round[message.metadata.group_id] = arrays["model"].numpy()
        if direction == "up" and kind == "train" and "models" in arrays:
            updates[node - 1000] = (
                arrays["models"].numpy()[0] - models_by_round[message.metadata.group_id]
            )
    assert 11 in updates
    last = np.stack([updates.get(c, np.zeros(3760, dtype=np.float32)) for c in roll])
    assert last.any(axis=1).sum() >= 6
    np.testing.assert_array_equal(strategy.view.memory.optimizer.updates.numpy(), last)
    np.testing.assert_array_equal(strategy.view.memory.last_updates, last)
    new_grid = nodes(method)
    _, strategy = train(new_grid, method, rounds=5, m=6, state=state)
    assert "round 5: the federation changes: with [11]" in strategy.view.events[0]
    assert {
        sent.message.metadata.group_id for sent in new_grid.wire if sent.kind == "query.gradient"
    } == {"5"}
    cohort = set(strategy.cohorts[4])
    for k, c in enumerate(strategy.view.client_ids):
        expected = last[roll.index(c)] if c in roll else np.zeros(3760)
        unchanged = np.array_equal(strategy.view.memory.optimizer.updates[k].numpy(), expected)
        assert unchanged == (c not in cohort)


def test_data_are_checked_when_the_server_first_asks_and_the_reason_is_shown_there(
    digits, federation, train, monkeypatch
):
    """Labels that count from one, too few of them, a network with batch norm; each of a node that is left out."""
    method, checks = methods.get("md"), []
    high_labels, short_labels, batch_norm = (int(k) for k in federation.with_data[:3])
    check = models.find_data_defect
    monkeypatch.setattr(models, "find_data_defect", lambda *x: checks.append(1) or check(*x))

    def load(context):
        k = context.node_config["partition-id"]
        x, y = (each[federation.shards[k]] for each in (digits.train_x, digits.train_y))
        module = digits.model(0)
        if k == high_labels:
            y = y + 10
        if k == short_labels:
            y = y[:-1]
        if k == batch_norm:
            module = torch.nn.Sequential(module, torch.nn.BatchNorm1d(10))
        return Local(k, x, y, module, method, 0)

    grid = Memory(load, len(federation.shards))
    _, strategy = train(grid, method, rounds=1)
    reasons = {
        high_labels: r"a label is not in 0\.\.9, the classes of the network: number them from 0 on",
        short_labels: "x and y differ in length: there must be one label for each example",
        batch_norm: "the network mixes the examples of a batch in its layer 1",
    }
    for k, reason in reasons.items():
        (event,) = (each for each in strategy.view.events if f"node {1000 + k}:" in each)
        assert re.search(f"round 1: .*client {k}: {reason}", event)
    assert {*reasons}.isdisjoint(strategy.view.client_ids)
    assert len(checks) == len(federation.shards)  # once a node, and not in each of its messages


def test_a_run_without_nodes_ends_with_the_reason(nodes, train):
    """The method has a server with update memory, of which nothing can be kept."""
    method, trained = methods.get("fedvarp"), []
    grid = nodes(method)

    def fault(node, message, reply):
        trained.extend([node] if message.metadata.message_type == "train" else [])
        if len(trained) == 4:  # all participants of round 1, as many as `train` has by default
            grid.online.clear()
        return reply

    grid.fault = fault
    with pytest.raises(TooFew, match="round 2: no node with data is there"):
        train(grid, method, rounds=2)


def test_the_stored_update_of_a_silent_participant_is_kept(digits, nodes, train):
    """fedvarp over all clients, one of which does not answer: its row stays, the others are weighted up."""
    method = methods.get("fedvarp")
    grid = nodes(method, fault=fault_in_model(lambda w: w * np.float32(np.nan)))
    params, strategy = train(grid, method, rounds=1, m=11)
    last, sizes = strategy.view.memory.optimizer.updates.numpy(), strategy.view.sizes
    assert last.any(axis=1).tolist() == [c != 1 for c in strategy.view.client_ids]
    answered = last.any(axis=1)
    up = len(answered) / answered.sum()  # m / r, as where fewer take part
    omega = up * sizes / sizes.sum()
    step = params - models.flatten(digits.model(0)).numpy()
    np.testing.assert_allclose(step, omega @ last, rtol=1e-3, atol=1e-7)


def test_reweighting_keeps_hansen_hurwitz_unbiased_if_clients_are_silent_at_random():
    """Enumerate all draws and all answers in which no stratum is silent as a whole."""
    values, omega = np.array([3.0, -1.0, 5.0, 2.0, 8.0]), np.full(5, 0.2)
    members, draws = [[0, 1], [2, 3, 4]], 2  # of each stratum
    p = [np.array([0.3, 0.7]), np.array([0.2, 0.5, 0.3])]
    mean = total = 0.0
    pairs = [list(itertools.product(range(len(k)), repeat=draws)) for k in members]
    for first, second in itertools.product(*pairs):
        p_draw = np.prod([p[0][i] for i in first]) * np.prod([p[1][i] for i in second])
        clients = np.array([members[0][i] for i in first] + [members[1][i] for i in second])
        selection = np.array([p[0][i] for i in first] + [p[1][i] for i in second])
        cohort = Cohort(clients, omega[clients] / (draws * selection), np.array([0, 0, 1, 1]))
        for answered in itertools.product([False, True], repeat=4):
            answered = np.array(answered)
            if not (answered[:2].any() and answered[2:].any()):
                continue
            p_answers = np.prod(np.where(answered, 0.6, 0.4))
            mean += p_draw * p_answers * (reweight(cohort, answered) @ values[clients])
            total += p_draw * p_answers
    assert mean / total == pytest.approx(omega @ values, abs=1e-12)


def test_reweighting_changes_nothing_if_all_answer_and_fails_if_nobody_does():
    cohort = Cohort(np.arange(3), np.array([0.2, 0.3, 0.9]))
    np.testing.assert_array_equal(reweight(cohort, [True] * 3), cohort.weights)
    with pytest.raises(InputError, match="nobody"):
        reweight(cohort, [False] * 3)


def test_the_weight_of_a_silent_stratum_goes_to_the_others():
    """Each stratum has the weight 1/2. With one silent the other's weights double; within a stratum the one who
    answers stands for both."""
    cohort = Cohort(np.arange(4), np.array([0.25, 0.25, 0.3, 0.2]), np.array([0, 0, 1, 1]))
    weights = reweight(cohort, [True, True, False, False])
    np.testing.assert_allclose(weights, [0.5, 0.5, 0, 0])
    np.testing.assert_allclose(reweight(cohort, [True, False, True, True]), [0.5, 0, 0.3, 0.2])
