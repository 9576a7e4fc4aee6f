"""Whatever a node replies, it is what was asked for or an `InputError`; the node is struck, the run goes on."""

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

D, LEVELS, CAP = 11, 3, 100
ABOUT = {
    "query.hello": {},
    "query.size": {},
    "query.gradient": {"d": D, "levels": LEVELS},
    "query.centres": {"levels": LEVELS},
    "query.spread": {},
    "query.norm": {},
    "query.loss": {},
    "query.report": {"size_cap": CAP, "count": 2},
    "train": {"shape": (2, D)},
}
SOUND = {  # settings and arrays of a reply that is as asked for
    "query.hello": ({"client": 3, "data": True}, {}),
    "query.size": ({"size": 12}, {}),
    "query.gradient": (
        {},
        {"levels": np.float32([-1, 0, 1]), "codes": np.uint8([0b01001001, 0, 0])},
    ),
    "query.centres": ({}, {"centres": np.float32([1, -1, 0])}),
    "query.spread": ({"spread": 0.5}, {}),
    "query.norm": ({"norm": 0.5}, {}),
    "query.loss": ({"loss": 0.5}, {}),
    "query.report": ({"reports": [1, 99]}, {}),
    "train": ({}, {"models": np.zeros((2, D), dtype=np.float32)}),
}


def reply(arrays, given) -> Message:
    """A reply with these settings, of this version unless they say otherwise."""
    content = messages.content(arrays or None)
    content.config_records["settings"] = ConfigRecord({"version": messages.VERSION} | given)
    return Message(content, 1, "train")


def read(kind, message):
    return messages.read(kind, message, 1.0, **ABOUT[kind])


def sound(kind, value) -> bool:
    """Whether a value is one that the strategy can go on with."""
    if kind in ("query.hello", "query.size"):
        none = kind == "query.hello" and value is None
        return none or (type(value) is int and 0 <= value <= messages.MOST)
    if kind in ("query.spread", "query.norm", "query.loss"):
        return type(value) is float and 0 <= value <= 1e15
    if kind == "query.report":
        return len(value) == 2 and all(type(r) is int and 1 <= r < CAP for r in value)
    shapes = {"query.centres": [(LEVELS,)], "train": [(2, D)], "query.gradient": [(LEVELS,), (D,)]}
    parts = value if isinstance(value, tuple) else (value,)
    return [p.shape for p in parts] == shapes[kind] and all(np.abs(p).max() <= 1e15 for p in parts)


@pytest.mark.parametrize("kind", ABOUT)
def test_a_sound_reply_is_read(kind):
    given, arrays = SOUND[kind]
    value = read(kind, reply(arrays, given))
    assert sound(kind, value)
    if kind == "query.gradient":
        assert [v.tolist() for v in value] == [[-1, 0, 1], [1, 0, 2, 1, *[0] * 7]]


scalars = [
    st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, 99, 100, 10**12, 10**12 + 1]),
    st.floats() | st.sampled_from([0.0, 1.0, 1e15, 2e15]),
    st.booleans(),
    st.text(max_size=5),
    st.binary(max_size=5),
]
values = st.one_of(*scalars, *(st.lists(s, max_size=3) for s in scalars))
dtypes = st.sampled_from(["float32", "float64", "uint8", "int64", "bool", ">f4", "S3"])
shapes = st.sampled_from([(), (0,), (3,), (LEVELS,), (D,), (2, D), (1, D), (D, 2), (1, 1, 1)])
numbers = st.sampled_from([0.0, 1.0, -1.0, 255.0, 1e14, 3e38, np.inf, -np.inf, np.nan])


@st.composite
def arrays_(draw):
    """An array that may be anything: of any kind, shape and content, or bytes that are none."""
    if draw(st.integers(0, 4)) == 0:
        return Array(dtype="float32", shape=(D,), stype="numpy.ndarray", data=draw(st.binary()))
    shape = draw(shapes)
    filled = np.array([draw(numbers) for _ in range(int(np.prod(shape)))]).reshape(shape)
    with np.errstate(all="ignore"):
        return Array(np.ascontiguousarray(filled.astype(draw(dtypes)).reshape(shape)))


@st.composite
def replies(draw, kind):
    """A sound reply of which fields are replaced, dropped and added."""
    given, arrays = (dict(part) for part in SOUND[kind])
    given["version"] = messages.VERSION
    arrays = {k: Array(v) for k, v in arrays.items()}
    given |= draw(st.dictionaries(st.sampled_from([*given, "other"]), values, max_size=2))
    arrays |= draw(st.dictionaries(st.sampled_from([*arrays, "other"]), arrays_(), max_size=2))
    for part in (given, arrays):
        for name in draw(st.sets(st.sampled_from([*part, "none"]), max_size=1)):
            part.pop(name, None)
    records = {"settings": ConfigRecord(given), "arrays": ArrayRecord(arrays)}
    kept = draw(st.sampled_from([("settings", "arrays")] * 6 + [("settings",), ("arrays",), ()]))
    return RecordDict({name: records[name] for name in kept})


@pytest.mark.parametrize("kind", ABOUT)
@given(data=st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_other_reply_is_an_input_error(kind, data):
    content = data.draw(replies(kind))
    try:
        value = read(kind, Message(content, 1, "train"))
    except InputError:
        return
    assert sound(kind, value)


@pytest.mark.parametrize("kind", ABOUT)
def test_a_missing_reply_and_an_error_are_input_errors(kind):
    with pytest.raises(InputError, match="no answer within 1 s"):
        read(kind, None)
    with pytest.raises(InputError, match="out of memory"):
        read(kind, Message(Error(0, "out of memory"), reply_to=Message(RecordDict(), 1, "train")))


BAD = [
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


@pytest.mark.parametrize("name, kind, given, said", BAD)
def test_a_malformed_reply_strikes_its_node_and_the_run_goes_on(
    name, kind, given, said, nodes, train
):
    def fault(node, message, answer):
        if message.metadata.message_type == kind and node == 1001:
            answer = Message(RecordDict(), reply_to=message)
            if given is not None:
                record = ConfigRecord({"version": messages.VERSION} | given)
                answer.content.config_records["settings"] = record
        return answer

    method = methods.get(name)
    params, strategy = train(nodes(method, fault=fault), method, rounds=2, m=11, total=1438)
    assert len(strategy.cohorts) == 2 and np.isfinite(params).all()
    struck = [e for e in strategy.view.events if kind in e]
    assert len(struck) == 2  # once a round
    assert all(re.search(said, e) for e in struck), struck


@pytest.mark.parametrize("name", ["fedstas", "fedstas-dp"])
@given(data=st.data())
@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_run_outlives_a_node_that_replies_anything(name, nodes, train, data):
    def fault(node, message, answer):
        if node == 1001:
            content = data.draw(replies(message.metadata.message_type))
            answer = Message(content, reply_to=message)
        return answer

    method = methods.get(name, levels=LEVELS)
    params, strategy = train(nodes(method, fault=fault), method, rounds=2, m=6)
    assert len(strategy.cohorts) == 2 and np.isfinite(params).all()
