"""The messages that are sent: only what the design requests, and no size if the method is private."""

import math
import tomllib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not in .venv: `make test-flower` runs this")

from flwr.app import Context, Message, RecordDict

from fedstas import compression, methods, models, partition, simulation
from fedstas.errors import InputError
from fedstas.flower import Privacy, TooFew, client_app, is_private, messages

PRIVATE = {
    "fedstas-dp": {"n_star": 100},
    "fedstas-unbiased-dp": {},
    "fedstas-unbiased-dp n*": {"n_star": 200},
    "fedsampling": {},
    "fedstas-least-variance": {"equal_clients": True},
    "fedstas-least-variance updates": {"equal_clients": True, "features": "updates"},
}


def message_kinds(grid) -> set:
    """Return the kinds of all messages that were sent."""
    return {kind for _, _, kind, _, _ in grid.wire}


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
        ("fedstas-least-variance", {"query.sketch", "query.size"}),
        ("optimal-client-sampling", {"query.norm", "query.size"}),
        ("poisson", {"query.size"}),
        ("k-vib", {"query.size"}),
        ("cube", {"query.gradient", "query.size"}),
        ("power-of-choice", {"query.loss", "query.size"}),
        ("mifa", {"query.size"}),
    ],
)
def test_the_server_sends_only_the_requests_of_the_design(name, expected, nodes, train):
    method = methods.get(name)
    grid = nodes(method)
    train(grid, method, rounds=3, total=1438)
    assert message_kinds(grid) == expected | {"query.hello", "train"}
    assert not [w for w in grid.wire if "num-examples" in str(w.message.content)]


def list_numbers(message) -> list:
    """Return all numbers of a message with their names, except those of models and gradients."""
    pairs = []
    for name, record in message.content.config_records.items():
        for key, value in record.items():
            for number in value if isinstance(value, list) else [value]:
                pairs.append((f"{name}/{key}", number))
    for name, record in message.content.array_records.items():
        for key, array in record.items():
            if key not in ("model", "models", "levels", "codes", "sketch"):
                pairs.extend((f"{name}/{key}", v) for v in array.numpy().ravel().tolist())
    for name, record in message.content.metric_records.items():
        pairs.extend((f"{name}/{k}", v) for k, v in record.items())
    return pairs


@pytest.mark.parametrize("case", PRIVATE)
def test_no_true_size_is_on_the_wire_of_a_private_method(case, digits, nodes, train):
    """Search all numbers and shapes of all messages for the clients' sizes, which are primes that occur nowhere else."""
    method = methods.get(case.split()[0], **PRIVATE[case])
    assert is_private(method)
    sizes = [131, 137, 139, 149, 151, 157, 163, 167]
    rng, order = np.random.default_rng(0), np.arange(len(digits.train_y))
    shards = np.split(rng.permutation(order)[: sum(sizes)], np.cumsum(sizes)[:-1])
    federation = partition.federation(digits.train_y, shards)
    grid = nodes(method, federation=federation, reproducible=False)
    train(grid, method, rounds=5, total=sum(sizes))
    replies = [w for w in grid.wire if w.direction == "up"]
    # A hello of each node, and a participant in each of five rounds.
    assert len(replies) >= len(sizes) + 5
    allowed = {
        "query.hello": {"settings/version", "settings/client", "settings/data"},
        "query.gradient": {"settings/version"},
        "query.sketch": {"settings/version"},
        "query.report": {"settings/version", "settings/reports"},
        "train": {"settings/version"},
    }
    reports = []
    for _, _, kind, _, message in replies:
        pairs = list_numbers(message)
        assert {name for name, _ in pairs} <= allowed[kind], (kind, pairs)
        values = [v for name, v in pairs if name != "settings/client"]
        assert not set(values) & set(sizes), "a size, or a report that is not clipped"
        reports += [v for name, v in pairs if name == "settings/reports"]
        arrays = message.content.array_records.get("arrays", {})
        names = {
            "train": {"models"},
            "query.gradient": {"levels", "codes"},
            "query.sketch": {"sketch"},
        }
        expected = names.get(kind, set())
        assert set(arrays) == expected
        for size in sizes:  # no example weight, no array of that length
            assert not [a for a in arrays.values() if size in a.shape]
    assert bool(reports) == any(kind == "query.report" for _, _, kind, _, _ in replies)
    assert all(1 <= r < 100 for r in reports)


def test_the_sizes_of_a_method_that_is_not_private_are_found_on_the_wire(nodes, train, federation):
    method = methods.get("fedavg")
    grid = nodes(method)
    train(grid, method, rounds=1)
    sizes = {
        w.node - 1000: dict(list_numbers(w.message))
        for w in grid.wire
        if w.direction == "up" and "size" in w.kind
    }
    assert {k: v["settings/size"] for k, v in sizes.items()} == {
        k: n for k, n in enumerate(federation.sizes.tolist()) if n
    }


@pytest.mark.parametrize("name", ["fedstas", "fedstas-unbiased-dp"])
def test_gradients_are_sent_squeezed(name, digits, nodes, train):
    """A gradient's message holds nine floats and four bits an entry, never the gradient."""
    method = methods.get(name)
    grid = nodes(method)
    train(grid, method, rounds=1)
    answers = [w for w in grid.wire if w.direction == "up" and w.kind == "query.gradient"]
    assert len(answers) == 11
    for _, _, _, raw, message in answers:
        arrays = message.content.array_records["arrays"]
        assert arrays["levels"].numpy().shape == (9,)
        assert arrays["codes"].numpy().nbytes == 3760 // 2
        assert len(raw) < 1.5 * 3760 / 2


def refusal_reason(grid, kind, content) -> str:
    """Return the reason that node 1001 gives for not answering a question."""
    question = Message(content, 1001, kind)
    grid.push_messages([question])
    (reply,) = grid.pull_messages([question.metadata.message_id])
    return reply.error.reason


def test_a_client_of_a_private_method_refuses_to_send_its_size(nodes):
    message = refusal_reason(
        nodes(methods.get("fedstas-unbiased-dp")), "query.size", messages.make_content()
    )
    assert "fedstas-unbiased-dp never sends its size" in message


def test_a_node_with_an_epsilon_refuses_to_send_its_size_for_any_method(nodes):
    grid = nodes(methods.get("fedavg"), privacy=Privacy(3.0))
    assert "never sends its size" in refusal_reason(grid, "query.size", messages.make_content())


def test_a_node_without_an_epsilon_gives_no_reports(nodes):
    grid = nodes(methods.get("fedstas-dp"), privacy=None)
    message = refusal_reason(
        grid,
        "query.report",
        messages.make_content(**privacy_terms(Privacy(3.0)), round=1, slots=[0]),
    )
    assert "has no epsilon of its own" in message


@pytest.mark.parametrize("kind", ["norm", "spread", "loss"])
def test_a_node_with_an_epsilon_answers_questions_that_reveal_no_size(kind, digits, nodes):
    """Means over its examples: the same for twice the same ones."""
    shard = np.flatnonzero(digits.train_y.numpy() < 3)[:24]
    federation = partition.federation(digits.train_y, [shard, np.tile(shard, 2)])
    grid = nodes(methods.get("fedavg"), federation=federation, privacy=Privacy(3.0))
    w, answers = {"model": models.flatten(digits.model(0)).numpy()}, []
    for node in (1000, 1001):
        question = Message(messages.make_content(w, round=1), node, f"query.{kind}")
        grid.push_messages([question])
        (reply,) = grid.pull_messages([question.metadata.message_id])
        answers.append(messages.read(f"query.{kind}", reply, 1.0))
    assert answers[0] > 0 and answers[0] == pytest.approx(answers[1], rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "question", "sentence"),
    [
        ("train", {"slots": [0], "rates": [1.0], "scaled": True}, "which an update times a number"),
        ("query.centres", {"batch": 7, "levels": 9, "place": 0}, "centres of usual batches only"),
    ],
)
def test_a_node_with_an_epsilon_refuses_questions_whose_answers_tell_its_size(
    kind, question, sentence, digits, nodes
):
    grid = nodes(methods.get("fedstas-unbiased-dp"), privacy=Privacy(3.0))
    model = {"model": models.flatten(digits.model(0)).numpy()}
    content = messages.make_content(model, round=1, **question)
    assert sentence in refusal_reason(grid, kind, content)


def test_a_server_of_another_version_is_refused(nodes):
    content = messages.make_content(round=1)
    content.config_records["settings"]["version"] = 1
    message = refusal_reason(nodes(methods.get("fedavg")), "query.hello", content)
    assert "its version is 1" in message


def test_the_error_of_a_client_names_its_kind_but_not_its_text(digits):
    """A traceback of PyTorch names shapes, and with them a size."""

    def load(context):
        raise RuntimeError("shapes (137x64 and 63x50) cannot be multiplied")

    app = client_app(load)
    message = Message(messages.make_content(), 1001, "query.hello")
    with pytest.raises(RuntimeError, match=r"^the client failed \(RuntimeError\)$") as exc_info:
        app(message, Context(7, 1001, {}, RecordDict(), {}))
    assert "137" not in str(exc_info.value)


def privacy_terms(privacy) -> dict:
    """Return the privacy parameters that a question for reports must name."""
    return {"size_cap": privacy.size_cap, "alpha": privacy.alpha, "memoised": privacy.memoised}


FRESH, MEMOISED = Privacy(3.0, reports=50), Privacy(3.0, memoised=True)


def request_reports(grid, t, slots, privacy):
    """Ask node 1001 for the reports of these places of the cohort in round t."""
    content = messages.make_content(round=t, slots=slots, place=3, **privacy_terms(privacy))
    message = Message(content, 1001, "query.report")
    grid.push_messages([message])
    (reply,) = grid.pull_messages([message.metadata.message_id])
    return messages.read_settings(reply.content)["reports"]


@pytest.mark.parametrize("privacy", [FRESH, MEMOISED], ids=["fresh", "memoised"])
@pytest.mark.parametrize(
    "changes",
    [
        {"alpha": 1.0},
        {"alpha": 0.999},
        {"alpha": float("nan")},
        {"alpha": "1"},
        {"size_cap": 1000},
        {"size_cap": 3},
        {"memoised": None},
    ],
    ids=str,
)
def test_a_message_cannot_change_the_privacy_of_a_report(privacy, changes, nodes):
    """If alpha came from the message, alpha = 1 would reveal the true size."""
    if changes == {"memoised": None}:
        changes = {"memoised": not privacy.memoised}
    (name,) = changes
    grid = nodes(methods.get("fedstas-dp"), privacy=privacy, reproducible=False)
    settings = privacy_terms(privacy) | changes | {"slots": [0], "place": 3, "round": 1}
    message = refusal_reason(grid, "query.report", messages.make_content(**settings))
    assert f"this node reports with {name} {getattr(privacy, name)!r}, not with" in message
    assert not grid.contexts[1001].state.config_records.get("reports")
    assert len(request_reports(grid, 1, [0], privacy)) == 1


def test_a_node_refuses_more_reports_than_its_limit_in_a_run(nodes):
    privacy = Privacy(3.0, reports=3)
    grid = nodes(methods.get("fedstas-dp"), privacy=privacy, reproducible=False)
    question_for_two = messages.make_content(round=2, slots=[0, 1], **privacy_terms(privacy))
    assert len(request_reports(grid, 1, [0, 1], privacy)) == 2
    message = refusal_reason(grid, "query.report", question_for_two)
    assert "at most 3 reports in a run: 2 are given, and 2 more are asked for" in message
    assert len(request_reports(grid, 3, [4], privacy)) == 1
    assert "3 are given, and 2 more" in refusal_reason(grid, "query.report", question_for_two)


def test_a_run_that_needs_more_reports_than_the_nodes_limit_ends_with_their_message(nodes, train):
    method = methods.get("fedsampling")
    grid = nodes(method, privacy=Privacy(3.0, reports=2))
    with pytest.raises(TooFew, match=r"round 3: no node answers.*at most 2 reports in a run"):
        train(grid, method, rounds=3, total=1438)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"epsilon": 0.0}, "epsilon is 0.0"),
        ({"epsilon": float("inf")}, "epsilon is inf"),
        ({"epsilon": 1.0, "size_cap": 2}, "size_cap is 2"),
        ({"epsilon": 1.0, "reports": 0}, "reports is 0"),
        ({"epsilon": 1.0, "memoised": 1}, "memoised is 1"),
    ],
)
def test_invalid_privacy_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Privacy(**options)


def test_the_example_takes_its_privacy_from_the_node_and_not_from_the_run(monkeypatch):
    """The run's configuration is the server's: `flwr run --run-config` sets it."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples" / "flower")
    from federation.client import load

    app = tomllib.loads(
        (Path(load.__globals__["__file__"]).parents[1] / "pyproject.toml").read_text(
            encoding="utf-8"
        )
    )
    run = app["tool"]["flwr"]["app"]["config"]
    privacy_of_run = {
        "epsilon": 9.0,
        "size-cap": 1000,
        "memoised": False,
        "reports": 99,
        "reproducible": True,
    }
    run = run | {"method": "fedstas-dp", "settings": "{}", **privacy_of_run}
    local = load(Context(7, 1, {"partition-id": 1}, RecordDict(), run))
    assert local.privacy is None and not local.reproducible
    node = {"partition-id": 1, "epsilon": 2.0, "size-cap": 50, "reports": 4, "memoised": True}
    local = load(Context(7, 1, node, RecordDict(), run))
    assert (
        local.privacy == Privacy(2.0, size_cap=50, memoised=True, reports=4)
        and not local.reproducible
    )


def test_a_memoised_report_is_repeated_and_others_are_drawn_anew(nodes):
    method = methods.get("fedstas-unbiased-dp", n_star=200)
    grid = nodes(method, reproducible=False, privacy=MEMOISED)
    first = request_reports(grid, 1, [0, 1], MEMOISED)
    assert len(set(first + request_reports(grid, 7, [2], MEMOISED))) == 1
    grid = nodes(methods.get("fedstas-dp"), reproducible=False, privacy=FRESH)
    assert len(set(request_reports(grid, 1, list(range(50)), FRESH))) > 10


def test_a_secret_of_the_node_makes_its_report_the_same_in_every_run(nodes):
    method = methods.get("fedstas-unbiased-dp", n_star=200)
    options = {"reproducible": False, "privacy": MEMOISED}
    runs = [request_reports(nodes(method, secret=5, **options), 1, [0], MEMOISED) for _ in range(5)]
    assert len({tuple(r) for r in runs}) == 1
    runs = [request_reports(nodes(method, **options), 1, [0], MEMOISED) for _ in range(40)]
    assert len({tuple(r) for r in runs}) > 5


def test_reports_depend_on_the_public_seed_only_if_reproducible_is_set(nodes):
    """The server knows the seed: from it, it would know which answers are true."""
    method = methods.get("fedstas-dp")
    public = [
        request_reports(nodes(method, privacy=FRESH), 1, list(range(30)), FRESH) for _ in range(2)
    ]
    assert public[0] == public[1]
    private = request_reports(
        nodes(method, reproducible=False, privacy=FRESH), 1, list(range(30)), FRESH
    )
    assert private != public[0]


@pytest.mark.parametrize("levels", [2, 3, 9, 16, 17, 256])
def test_unpack_inverts_pack(levels):
    gradient = np.random.default_rng(levels).normal(size=(1, 777)).astype(np.float32)
    squeezed = compression.squeeze(gradient, levels)
    packed = messages.pack(squeezed)
    assert packed["codes"].nbytes + packed["levels"].nbytes == math.ceil(squeezed.bits / 8)
    centres, codes = messages.unpack(messages.make_content(packed), 777, levels)
    np.testing.assert_array_equal(centres, squeezed.levels[0])
    np.testing.assert_array_equal(codes, squeezed.codes[0])


@pytest.mark.parametrize(
    "name",
    [
        *("fedavg", "md", "fedstas", "fedstas-unbiased-dp"),
        *("optimal-client-sampling", "power-of-choice", "fedvarp"),
    ],
)
def test_the_bytes_of_the_arrays_agree_with_the_simulations_accounting(
    name, digits, federation, nodes, train
):
    """Models and squeezed gradients, each once a round and client; the rest is a few numbers."""
    method = methods.get(name)
    grid = nodes(method)
    train(grid, method)
    options = {"rounds": 10, "clients_per_round": 4, "seed": 0, "eval_every": 10}
    history = simulation.run(digits, federation, method, initial_model="sent", **options)
    frame = history.frame.iloc[-1]
    for direction, accounted in (("down", frame.bytes_down), ("up", frame.bytes_up)):
        arrays = [
            a.numpy().nbytes
            for w in grid.wire
            if w.direction == direction
            for a in w.message.content.array_records.get("arrays", {}).values()
        ]
        assert sum(arrays) == pytest.approx(accounted, rel=0.002)
