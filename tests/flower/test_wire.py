"""What is sent, message by message: only what the design asks for, and of private methods no size."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not in .venv: `make test-flower` runs this")

from flwr.app import Context, Message, RecordDict

from fedstas import compression, methods, partition, simulation
from fedstas.flower import client_app, is_private, messages

PRIVATE = {
    "fedstas-dp": {"n_star": 100},
    "fedstas-unbiased-dp": {},
    "fedstas-unbiased-dp n*": {"n_star": 200},
    "fedsampling": {},
}


def asked(grid) -> set:
    return {w[2] for w in grid.wire}


@pytest.mark.parametrize(
    "name, expected",
    [
        ("fedavg", {"query.size"}),
        ("md", {"query.size"}),
        ("strat", {"query.gradient"}),
        ("fedstas", {"query.gradient", "query.size"}),
        ("fedstas-dp", {"query.gradient", "query.report"}),
        ("fedstas-unbiased", {"query.gradient", "query.size"}),
        ("fedstas-unbiased-dp", {"query.gradient"}),
        ("clustered-similarity", {"query.size"}),
        ("fedsampling", {"query.report"}),
        ("fedsts-authors-dec", {"query.centres", "query.size"}),
    ],
)
def test_a_method_asks_for_nothing_but_what_its_design_asks_for(name, expected, nodes, train):
    method = methods.get(name)
    grid = nodes(method)
    train(grid, method, rounds=3, total=1438)
    assert asked(grid) == expected | {"query.hello", "train"}
    assert not [w for w in grid.wire if "num-examples" in str(w[4].content)]


def numbers(message) -> list:
    """Every number of a message, by name, but those of models and gradients."""
    found = []
    for name, record in message.content.config_records.items():
        for key, value in record.items():
            for each in value if isinstance(value, list) else [value]:
                found.append((f"{name}/{key}", each))
    for name, record in message.content.array_records.items():
        for key, array in record.items():
            if key not in ("model", "models", "levels", "codes"):
                found.extend((f"{name}/{key}", v) for v in array.numpy().ravel().tolist())
    for name, record in message.content.metric_records.items():
        found.extend((f"{name}/{k}", v) for k, v in record.items())
    return found


@pytest.mark.parametrize("case", PRIVATE)
def test_no_true_size_is_on_the_wire_of_a_private_method(case, digits, nodes, train):
    """Sizes that no other number takes: they are looked for among all numbers and all shapes of every message."""
    method = methods.get(case.split()[0], **PRIVATE[case])
    assert is_private(method)
    sizes = [131, 137, 139, 149, 151, 157, 163, 167]
    rng, order = np.random.default_rng(0), np.arange(len(digits.train_y))
    shards = np.split(rng.permutation(order)[: sum(sizes)], np.cumsum(sizes)[:-1])
    federation = partition.federation(digits.train_y, shards)
    grid = nodes(method, federation=federation, reproducible=False)
    train(grid, method, rounds=5, total=sum(sizes))
    sent = [w for w in grid.wire if w[0] == "up"]
    assert len(sent) >= 8 + 5
    allowed = {
        "query.hello": {"settings/client", "settings/data"},
        "query.gradient": set(),
        "query.report": {"settings/reports"},
        "train": set(),
    }
    reports = []
    for _, _, kind, _, message in sent:
        found = numbers(message)
        assert {name for name, _ in found} <= allowed[kind], (kind, found)
        values = [v for name, v in found if name != "settings/client"]
        assert not set(values) & set(sizes), "a size, or a report that is not clipped"
        reports += [v for name, v in found if name == "settings/reports"]
        arrays = message.content.array_records.get("arrays", {})
        expected = {"train": {"models"}, "query.gradient": {"levels", "codes"}}.get(kind, set())
        assert set(arrays) == expected
        for size in sizes:  # no example weight, no array of that length
            assert not [a for a in arrays.values() if size in a.shape]
    assert all(1 <= r < 100 for r in reports)


def test_an_unprivate_method_would_be_caught_by_that(nodes, train, federation):
    method = methods.get("fedavg")
    grid = nodes(method)
    train(grid, method, rounds=1)
    sizes = {w[1] - 1000: dict(numbers(w[4])) for w in grid.wire if w[0] == "up" and "size" in w[2]}
    assert {k: v["settings/size"] for k, v in sizes.items()} == {
        k: n for k, n in enumerate(federation.sizes.tolist()) if n
    }


@pytest.mark.parametrize("name", ["fedstas", "fedstas-unbiased-dp"])
def test_gradients_travel_squeezed(name, digits, nodes, train):
    """A gradient's message holds nine floats and four bits an entry, never the gradient."""
    method = methods.get(name)
    grid = nodes(method)
    train(grid, method, rounds=1)
    answers = [w for w in grid.wire if w[0] == "up" and w[2] == "query.gradient"]
    assert len(answers) == 11
    for _, _, _, raw, message in answers:
        arrays = message.content.array_records["arrays"]
        assert arrays["levels"].numpy().shape == (9,)
        assert arrays["codes"].numpy().nbytes == 3760 // 2
        assert len(raw) < 1.5 * 3760 / 2


def test_a_client_of_a_private_run_refuses_to_tell_its_size(digits, nodes):
    method = methods.get("fedstas-unbiased-dp")
    grid = nodes(method)
    question = Message(messages.content(round=1), 1001, "query.size")
    grid.push_messages([question])
    (reply,) = grid.pull_messages([question.metadata.message_id])
    assert "never sends its size" in reply.error.reason


def test_an_error_tells_its_kind_and_not_its_text(digits):
    """A traceback of PyTorch names shapes, and with them a size."""

    def load(context):
        raise RuntimeError("shapes (137x64 and 63x50) cannot be multiplied")

    app = client_app(load)
    message = Message(messages.content(), 1001, "query.hello")
    with pytest.raises(RuntimeError, match=r"^the client failed \(RuntimeError\)$") as caught:
        app(message, Context(7, 1001, {}, RecordDict(), {}))
    assert "137" not in str(caught.value)


def ask(grid, node, t, slots, memoised, alpha=0.2):
    settings = {"size_cap": 100, "alpha": alpha, "memoised": memoised, "slots": slots, "place": 3}
    message = Message(messages.content(round=t, **settings), node, "query.report")
    grid.push_messages([message])
    (reply,) = grid.pull_messages([message.metadata.message_id])
    return messages.settings_of(reply.content)["reports"]


def test_a_memoised_report_is_one_for_good_and_a_fresh_one_is_fresh(nodes):
    method = methods.get("fedstas-unbiased-dp", n_star=200)
    grid = nodes(method, reproducible=False)
    first = ask(grid, 1001, 1, [0, 1], True)
    assert len(set(first + ask(grid, 1001, 7, [2], True))) == 1
    assert len(set(ask(grid, 1001, 1, list(range(50)), False))) > 10


def test_a_secret_of_the_node_makes_its_report_the_same_in_every_run(nodes):
    method = methods.get("fedstas-unbiased-dp", n_star=200)
    runs = [ask(nodes(method, reproducible=False, secret=5), 1001, 1, [0], True) for _ in range(5)]
    assert len({tuple(r) for r in runs}) == 1
    runs = [ask(nodes(method, reproducible=False), 1001, 1, [0], True) for _ in range(40)]
    assert len({tuple(r) for r in runs}) > 5


def test_reports_do_not_come_from_the_public_seed_unless_that_is_wanted(nodes):
    """The server knows the seed: from it, it would know which answers are true."""
    method = methods.get("fedstas-dp")
    public = [ask(nodes(method), 1001, 1, list(range(30)), False) for _ in range(2)]
    assert public[0] == public[1]
    own = ask(nodes(method, reproducible=False), 1001, 1, list(range(30)), False)
    assert own != public[0]


@pytest.mark.parametrize("levels", [2, 3, 9, 16, 17, 256])
def test_packing_and_unpacking_give_the_squeezed_gradient_again(levels):
    gradient = np.random.default_rng(levels).normal(size=(1, 777)).astype(np.float32)
    squeezed = compression.squeeze(gradient, levels)
    packed = messages.pack(squeezed)
    assert packed["codes"].nbytes + packed["levels"].nbytes == -(-squeezed.bits // 8)
    centres, codes = messages.unpack(messages.content(packed), 777, levels)
    np.testing.assert_array_equal(centres, squeezed.levels[0])
    np.testing.assert_array_equal(codes, squeezed.codes[0])


@pytest.mark.parametrize("name", ["fedavg", "md", "fedstas", "fedstas-unbiased-dp"])
def test_the_arrays_that_are_sent_are_the_bytes_that_the_simulation_accounts(
    name, digits, federation, nodes, train
):
    """Models and squeezed gradients, each once a round and client; the rest is a few numbers."""
    method = methods.get(name)
    grid = nodes(method)
    train(grid, method)
    frame = simulation.run(
        digits, federation, method, rounds=10, clients_per_round=4, seed=0, eval_every=10
    ).frame.iloc[-1]
    for way, accounted in (("down", frame.bytes_down), ("up", frame.bytes_up)):
        arrays = [
            a.numpy().nbytes
            for w in grid.wire if w[0] == way
            for a in w[4].content.array_records.get("arrays", {}).values()
        ]  # fmt: skip
        assert sum(arrays) == pytest.approx(accounted, rel=0.002)
