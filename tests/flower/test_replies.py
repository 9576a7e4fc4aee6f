"""A reply of a node is valid or an `InputError`: then the node is left out for the round, and the run goes on."""

import re

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not in .venv: `make test-flower` runs this")

from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedstas import methods
from fedstas.errors import InputError
from fedstas.flower import messages

# Entries of a model; levels of a gradient, and the length of every other array; the cap of reported sizes.
D, LEVELS, CAP = 11, 3, 100
REQUESTS = {
    "query.hello": {},
    "query.size": {},
    "query.gradient": {"d": D, "levels": LEVELS},
    "query.sketch": {"size": LEVELS},
    "query.labels": {"classes": LEVELS},
    "query.centres": {"levels": LEVELS},
    "query.spread": {},
    "query.norm": {},
    "query.loss": {},
    "query.report": {"size_cap": CAP, "count": 2},
    "train": {"shape": (2, D)},
}
VALID = {  # settings and arrays of a valid reply
    "query.hello": ({"client": 3, "data": True}, {}),
    "query.size": ({"size": 12}, {}),
    "query.gradient": (
        {},
        {"levels": np.float32([-1, 0, 1]), "codes": np.uint8([0b01001001, 0, 0])},
    ),
    "query.sketch": ({}, {"sketch": np.float32([1, -1, 0])}),
    "query.labels": ({}, {"counts": np.int64([4, 0, 2])}),
    "query.centres": ({}, {"centres": np.float32([1, -1, 0])}),
    "query.spread": ({"spread": 0.5}, {}),
    "query.norm": ({"norm": 0.5}, {}),
    "query.loss": ({"loss": 0.5}, {}),
    "query.report": ({"reports": [1, 99]}, {}),
    "train": ({}, {"models": np.zeros((2, D), dtype=np.float32)}),
}


def make_reply(arrays, fields) -> Message:
    """Return a reply with these arrays and settings, of this version unless the settings name another."""
    content = messages.make_content(arrays or None)
    content.config_records["settings"] = ConfigRecord({"version": messages.VERSION} | fields)
    return Message(content, 1, "train")


def read(kind, message):
    """Read a reply to a question of this kind."""
    return messages.read(kind, message, 1.0, **REQUESTS[kind])


def is_valid(kind, value) -> bool:
    """Whether the strategy can use a value that was read from a reply.

    Requested are two reports and two models (`REQUESTS`); no number may exceed 1e15 (`messages.LARGEST`).
    """
    if kind in ("query.hello", "query.size"):
        none = kind == "query.hello" and value is None
        return none or (type(value) is int and 0 <= value <= messages.MOST)
    if kind in ("query.spread", "query.norm", "query.loss"):
        return type(value) is float and 0 <= value <= 1e15
    if kind == "query.report":
        return len(value) == 2 and all(type(r) is int and 1 <= r < CAP for r in value)
    if kind == "query.labels" and (value.min() < 0 or not value.any()):
        return False
    shapes = {key: [(LEVELS,)] for key in ("query.sketch", "query.labels", "query.centres")}
    shapes |= {"train": [(2, D)], "query.gradient": [(LEVELS,), (D,)]}
    parts = value if isinstance(value, tuple) else (value,)
    return [p.shape for p in parts] == shapes[kind] and all(np.abs(p).max() <= 1e15 for p in parts)


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_valid_reply_is_read(kind):
    fields, arrays = VALID[kind]
    value = read(kind, make_reply(arrays, fields))
    assert is_valid(kind, value)
    if kind == "query.gradient":
        assert [v.tolist() for v in value] == [[-1, 0, 1], [1, 0, 2, 1, *[0] * 7]]


SCALARS = [
    st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, 99, 100, 10**12, 10**12 + 1]),
    st.floats() | st.sampled_from([0.0, 1.0, 1e15, 2e15]),
    st.booleans(),
    st.text(max_size=5),
    st.binary(max_size=5),
]
VALUES = st.one_of(*SCALARS, *(st.lists(s, max_size=3) for s in SCALARS))
DTYPES = st.sampled_from(["float32", "float64", "uint8", "int64", "bool", ">f4", "S3"])
SHAPES = st.sampled_from([(), (0,), (3,), (LEVELS,), (D,), (2, D), (1, D), (D, 2), (1, 1, 1)])
NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 255.0, 1e14, 3e38, np.inf, -np.inf, np.nan])


@st.composite
def draw_array(draw):
    """Draw an array of any kind, shape and content, or bytes that are no array."""
    if draw(st.integers(0, 4)) == 0:
        return Array(dtype="float32", shape=(D,), stype="numpy.ndarray", data=draw(st.binary()))
    shape = draw(SHAPES)
    filled = np.array([draw(NUMBERS) for _ in range(int(np.prod(shape)))]).reshape(shape)
    with np.errstate(all="ignore"):
        return Array(np.ascontiguousarray(filled.astype(draw(DTYPES)).reshape(shape)))


@st.composite
def draw_reply(draw, kind):
    """Draw a valid reply with some entries replaced, dropped or added."""
    fields, arrays = (dict(part) for part in VALID[kind])
    fields["version"] = messages.VERSION
    arrays = {k: Array(v) for k, v in arrays.items()}
    fields |= draw(st.dictionaries(st.sampled_from([*fields, "other"]), VALUES, max_size=2))
    arrays |= draw(st.dictionaries(st.sampled_from([*arrays, "other"]), draw_array(), max_size=2))
    for part in (fields, arrays):
        for name in draw(st.sets(st.sampled_from([*part, "none"]), max_size=1)):
            part.pop(name, None)
    records = {"settings": ConfigRecord(fields), "arrays": ArrayRecord(arrays)}
    record_names = draw(
        st.sampled_from([("settings", "arrays")] * 6 + [("settings",), ("arrays",), ()])
    )
    return RecordDict({name: records[name] for name in record_names})


@pytest.mark.parametrize("kind", REQUESTS)
@given(data=st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_reply_is_valid_or_an_input_error(kind, data):
    content = data.draw(draw_reply(kind))
    try:
        value = read(kind, Message(content, 1, "train"))  # node and type, which `read` ignores
    except InputError:
        return
    assert is_valid(kind, value)


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_missing_reply_and_an_error_are_input_errors(kind):
    with pytest.raises(InputError, match="no answer within 1 s"):
        read(kind, None)
    with pytest.raises(InputError, match="out of memory"):
        read(kind, Message(Error(0, "out of memory"), reply_to=Message(RecordDict(), 1, "train")))


INVALID = [
    ("fedavg", "query.hello", {"client": "abc", "data": True}, "its client is 'abc'"),
    ("fedavg", "query.hello", {"client": 3.0, "data": True}, "its client is 3.0"),
    ("fedavg", "query.hello", {"client": -1, "data": True}, "its client is -1"),
    ("fedavg", "query.hello", {"client": 3, "data": 1}, "its data is 1"),
    ("fedavg", "query.hello", {"client": 3, "data": True, "version": 1}, "its version is 1"),
    ("fedavg", "query.hello", None, "its version is None"),
    ("fedavg", "query.size", {"size": float("inf")}, "its size is inf"),
    ("fedavg", "query.size", {"size": 2**62}, f"its size is {2**62}"),
    ("fedavg", "query.size", {"size": 12.5}, r"its size is 12\.5"),
    ("fedavg", "query.size", None, "its version is None"),
    ("optimal-client-sampling", "query.norm", {"norm": float("nan")}, "its norm is nan"),
    ("optimal-client-sampling", "query.norm", {"norm": -0.5}, r"its norm is -0\.5"),
    ("optimal-client-sampling", "query.norm", {"norm": 1}, "its norm is 1: it must be a number"),
    ("optimal-client-sampling", "query.norm", {"loss": 1.0}, "its norm is None"),
    ("power-of-choice", "query.loss", {"loss": float("inf")}, "its loss is inf"),
    ("power-of-choice", "query.loss", {"loss": "1"}, "its loss is '1'"),
    ("power-of-choice", "query.loss", None, "its version is None"),
    ("fedsampling", "query.report", {"reports": [True]}, "a report of it is True"),
    ("fedsampling", "query.report", {"reports": [5, 5]}, r"its reports are \[5, 5\]"),
    ("fedsampling", "query.report", {"reports": "abc"}, "its reports are 'abc'"),
    ("fedsampling", "query.report", {"reports": [5], "version": 1.5}, r"its version is 1\.5"),
    ("fedsampling", "train", None, "its version is None"),
]


@pytest.mark.parametrize("name, kind, fields, reason", INVALID)
def test_a_node_with_a_malformed_reply_is_left_out_and_the_run_goes_on(
    name, kind, fields, reason, nodes, train
):
    def fault(node, message, answer):
        """Let node 1001 answer a question of this kind with these fields, or with none."""
        if message.metadata.message_type == kind and node == 1001:
            answer = Message(RecordDict(), reply_to=message)
            if fields is not None:
                record = ConfigRecord({"version": messages.VERSION} | fields)
                answer.content.config_records["settings"] = record
        return answer

    method = methods.get(name)
    params, strategy = train(nodes(method, fault=fault), method, rounds=2, m=11, total=1438)
    assert len(strategy.cohorts) == 2 and np.isfinite(params).all()
    events = [e for e in strategy.view.events if kind in e]
    assert len(events) == 2  # once a round
    assert all(re.search(reason, e) for e in events), events


@pytest.mark.parametrize("name", ["fedstas", "fedstas-dp"])
@given(data=st.data())
@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_run_goes_on_whatever_one_node_replies(name, nodes, train, data):
    def fault(node, message, answer):
        if node == 1001:
            content = data.draw(draw_reply(message.metadata.message_type))
            answer = Message(content, reply_to=message)
        return answer

    method = methods.get(name, levels=LEVELS)
    params, strategy = train(nodes(method, fault=fault), method, rounds=2, m=6)
    assert len(strategy.cohorts) == 2 and np.isfinite(params).all()
