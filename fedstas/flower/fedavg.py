"""FedAvg of Flower with a client design, for clients that know nothing of this package: who trains, and how much it counts."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from logging import INFO, WARNING
from typing import Any, cast

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.common import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from flwr.serverapp.strategy.strategy_utils import sample_nodes

from fedstas import methods
from fedstas.client_sampling import ClientDesign, Cohort, has_flag
from fedstas.cohorts import ANSWERS, Cohorts
from fedstas.data_sampling import AllData, FixedRate
from fedstas.errors import InputError, check_int, format_value
from fedstas.flower.client import is_private
from fedstas.flower.messages import MOST, short_repr
from fedstas.methods import Method

# The last part of the names of arrays that are statistics of the data and not trained: batch norm's, in PyTorch and Keras.
STATISTICS = (
    "running_mean",
    "running_var",
    "num_batches_tracked",
    "moving_mean",
    "moving_variance",
)
WEIGHT = "design-weight"  # the entry of a participant's metrics by which they are averaged


class FedAvgWithDesign(FedAvg):
    """Flower's FedAvg, but that a client design chooses the cohort and the weights of its updates.

    The clients are plain ClientApps, with their own optimiser, loaders and network: they reply to `train` as FedAvg wants it,
    with one ArrayRecord (the model) and one MetricRecord (`num-examples` in it). The design is one that asks for sizes
    and updates alone; for the others there is `Designs`, whose clients are made with `client_app`. `Cohorts` draws and weighs.

    Where `sizes` are not given, a node is asked to train once before it can be drawn, and its first `num-examples` is its size
    from then on. So round 1 is one of all nodes, and the next model the mean of theirs by size, as of FedAvg. A node that comes
    later is asked in its first round, beside the cohort, without a weight; who fails is asked again in rounds 2, 4, 8, ...

    A participant that does not answer in time, fails, or replies with a model of another shape or with numbers that are not
    finite is left out, with a warning that has the reason, and the others stand for it (`reweight`). One that is
    drawn twice trains once, and its update counts twice. When nodes come or go, strata are made anew. Clients are numbered by size,
    then by node id, so that a seed gives the same cohorts of sizes again.

    A server that is started anew draws the first cohorts again and knows nothing of earlier updates, unless it loads the
    state of its predecessor: store `state_dict()` beside the model at the end of each round, as in an `evaluate_fn`, and call
    `load_state_dict` before `start`. Flower counts rounds from 1 again then.

    Args:
        method: as of `Cohorts`: a name of `plain_methods()`, or another one whose settings ask clients for nothing, as
            "fedstas-least-variance features=updates"; a `Method`, or a client design.
        clients_per_round: the number of participants m, of all nodes with data if there are fewer.
        seed: of the draws.
        sizes: the numbers of examples by node id, as a dict or function; a node without one (None) is asked.
        statistics: last parts of names of arrays that are no parameters, such as batch norm's running variance: the next ones
            are weighted means, since a sum of updates whose weights do not add up to one could be below zero. So are whole
            numbers, rounded.
        settings: of Flower's FedAvg: `fraction_evaluate`, `min_available_nodes` (each round waits for them; by default
            `clients_per_round`), `weighted_by_key`, ... Metrics of training are averaged by the design's weights.

    Attributes:
        cohorts: the node ids of each round's participants, several times if drawn several times.
        sizes: the known sizes, by node id.
        events: one sentence for each answer that was left out.

    Raises:
        InputError: the method cannot be used with plain clients; the sentence says why, and which can.
    """

    def __init__(
        self,
        method: str | Method | ClientDesign,
        *,
        clients_per_round: int,
        seed: int = 0,
        sizes: Mapping[int, int] | Callable[[int], int | None] | None = None,
        statistics: Iterable[str] = STATISTICS,
        **settings: Any,
    ):
        for name in ("fraction_train", "min_train_nodes"):
            if name in settings:
                raise InputError(f"leave out {name}: clients_per_round says how many clients train")
        self.m = check_int("the number of participants (clients per round)", clients_per_round, 1)
        super().__init__(**{"min_available_nodes": self.m} | settings)
        # With clients of equal sizes, until the nodes are there.
        cohorts = Cohorts(method, sizes=np.ones(self.m, dtype=np.int64), m=self.m, seed=seed)
        self.method, self.seed = cohorts.method, cohorts.seed
        if reason := _find_obstacle(cohorts):
            raise InputError(
                f"{self.method.name} {reason}: take a method that asks for nothing more ({', '.join(plain_methods())}), "
                "or fedstas.flower.Designs with clients of fedstas.flower.client_app"
            )
        self.statistics = frozenset(statistics)
        self.sizes: dict[int, int] = {}
        self.cohorts: list[list[int]] = []
        self.events: list[str] = []
        self._given_size = _size_function(sizes)
        self._cohorts: Cohorts | None = None
        self._nodes: list[int] = []  # of the clients of `_cohorts`, in their order
        self._failed: set[int] = set()  # nodes that did not tell their size when asked

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next cohorts and weights depend on, as numbers, text, lists and dicts, which `json` can store.

        It is to be taken at the end of a round. The model is not part of it.
        """
        return {
            "sizes": [[node, size] for node, size in self.sizes.items()],  # JSON's keys are text
            "nodes": [*self._nodes],
            "failed": sorted(self._failed),
            "participants": [[*each] for each in self.cohorts],
            "cohorts": None if self._cohorts is None else self._cohorts.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of `state_dict`; `InputError` if it is of another method, seed or number of participants."""
        try:
            sizes = {int(node): int(size) for node, size in state["sizes"]}
            nodes, failed = [*map(int, state["nodes"])], {*map(int, state["failed"])}
            participants = [[*map(int, each)] for each in state["participants"]]
            inner, node_sizes = state["cohorts"], [sizes[node] for node in nodes]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"the state is {format_value(state)}: it must be one of FedAvgWithDesign.state_dict()"
            ) from error
        cohorts = None
        if inner is not None:
            cohorts = self._make_cohorts(node_sizes)
            cohorts.load_state_dict(inner)
        self.sizes, self._nodes, self._failed = sizes, nodes, failed
        self.cohorts, self._cohorts = participants, cohorts

    def _count_participants(self, clients: int) -> int:
        """Return the number of participants of a round with so many clients."""
        return self.m if has_flag(self.method.clients, "replaces") else min(self.m, clients)

    def _make_cohorts(self, sizes: list[int]) -> Cohorts:
        """Make the object that draws cohorts of clients with these sizes."""
        m = self._count_participants(len(sizes))
        return Cohorts(self.method, sizes=sizes, m=m, seed=self.seed)

    def summary(self) -> None:
        """Log one line about the run."""
        text = "\t└──> %s, %d participants a round, seed %d, for clients as they are"
        log(INFO, text, self.method.name, self.m, self.seed)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Draw the cohort of the round among the connected nodes, and make the message to each participant, as FedAvg's."""
        _, connected = sample_nodes(grid, self.min_available_nodes, 0)  # waits for them
        new = self._find_new(connected, server_round)
        nodes = sorted(
            (node for node in connected if self.sizes.get(node)),
            key=lambda node: (self.sizes[node], node),
        )
        self._set_nodes(nodes)
        self._cohort: Cohort | None = None
        participants = new
        if self._cohorts is not None and nodes:
            self._cohort = self._cohorts.sample()
            participants = [nodes[k] for k in self._cohort.clients]
        self.cohorts.append(participants)
        self._round, self._arrays = server_round, {k: v.numpy() for k, v in arrays.items()}
        log(INFO, "configure_train: drew %d of %d nodes", len({*participants}), len(connected))
        config["server-round"] = server_round
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        asked = [*dict.fromkeys([*participants, *new])]
        self._questions = [*self._construct_messages(record, asked, MessageType.TRAIN)]
        return self._questions

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Compute the next model from the models that arrived, by the design's weights; None, None if none did."""
        # Replies are matched by question, since Flower's error reply for a node that is gone names no node.
        replies_by_question = {reply.metadata.reply_to_message_id: reply for reply in replies}
        contents: dict[int, RecordDict] = {}
        trained: dict[int, dict[str, np.ndarray]] = {}
        for question in self._questions:
            node = question.metadata.dst_node_id
            try:
                content, model = self._read(
                    node, replies_by_question.get(question.metadata.message_id)
                )
            except InputError as error:
                if node not in self.sizes:
                    self._failed.add(node)
                self._log_event(f"node {node}: {error}")
            else:
                contents[node], trained[node] = content, model
        weights = self._weigh(trained)
        if not sum(weights.values()):
            if self.cohorts[-1]:
                self._log_event("no update came that could be used: the model stays as it is")
            return None, None
        return self._combine(weights, trained), self._average_metrics(weights, contents)

    def _find_new(self, connected: list[int], server_round: int) -> list[int]:
        """Return the connected nodes that are to be asked for their sizes in this round, after reading the given ones."""
        unknown = [node for node in connected if node not in self.sizes]
        for node in unknown:
            size = self._given_size(node)
            if size is not None:
                self.sizes[node] = check_int(f"the size of node {node}", size, 0, MOST)
        again = server_round.bit_count() == 1 or not any(self.sizes.get(n) for n in connected)
        return [n for n in unknown if n not in self.sizes and (again or n not in self._failed)]

    def _set_nodes(self, nodes: list[int]) -> None:
        """Make these nodes, all with data, the clients from whom cohorts are drawn."""
        if not nodes or nodes == self._nodes:
            return
        sizes = [self.sizes[node] for node in nodes]
        if self._cohorts is None:
            self._cohorts = self._make_cohorts(sizes)
        else:
            m = self._count_participants(len(nodes))
            place = {node: k for k, node in enumerate(self._nodes)}
            self._cohorts.resize(sizes, m=m, clients=[place.get(node) for node in nodes])
        self._nodes = nodes

    def _read(self, node: int, reply: Message | None) -> tuple[RecordDict, dict[str, np.ndarray]]:
        """Return the content of a reply and its model; `InputError` if it cannot be used. Sets the node's size if it is new."""
        if reply is None:
            raise InputError("no answer in time")
        if reply.has_error():
            raise InputError(f"{reply.error.reason!s:.500}")
        records = [*reply.content.array_records.values()]
        metrics = [*reply.content.metric_records.values()]
        if len(records) != 1 or len(metrics) != 1:
            raise InputError(
                f"its reply has {len(records)} ArrayRecords and {len(metrics)} MetricRecords: it must have one of each"
            )
        if node not in self.sizes:
            size = metrics[0].get(self.weighted_by_key)
            if not isinstance(size, int | float) or size != size // 1 or not 0 <= size <= MOST:
                raise InputError(
                    f"its {self.weighted_by_key} is {short_repr(size)}: it must be the number of its examples"
                )
            self.sizes[node] = int(size)
        if {*records[0]} != {*self._arrays}:
            raise InputError(
                f"its model has the arrays {short_repr([*records[0]])}, and was sent {short_repr([*self._arrays])}"
            )
        return reply.content, {
            name: _read_array(name, records[0][name], sent) for name, sent in self._arrays.items()
        }

    def _weigh(self, trained: dict[int, dict[str, np.ndarray]]) -> dict[int, float]:
        """Return the weights of the updates by node: the design's, or sizes in a round that asks all nodes for theirs."""
        if self._cohort is not None:
            assert self._cohorts is not None
            updates: dict[int, list[np.ndarray]] = {}
            for k in {*self._cohort.clients.tolist()}:
                model = trained.get(self._nodes[k])
                if model is not None:
                    updates[k] = [
                        new - self._arrays[name]
                        for name, new in model.items()
                        if not self._is_statistic(name)
                    ]
            pairs = zip(
                self._cohort.clients, self._cohorts.report(self._cohort, updates), strict=True
            )
            weights = dict.fromkeys((self._nodes[k] for k in updates), 0.0)
            for k, weight in pairs:
                if k in updates:
                    weights[self._nodes[k]] += float(weight)
            return weights
        equal = has_flag(self.method.clients, "equal_clients")
        shares = {n: float(self.sizes[n] if not equal else self.sizes[n] > 0) for n in trained}
        rate = self.method.server.rate  # type: ignore[attr-defined]  # `Cohorts` has checked that it is an Average
        return {n: rate * share / max(sum(shares.values()), 1) for n, share in shares.items()}

    def _is_statistic(self, name: str) -> bool:
        """Return whether an array is no parameter, and so averaged."""
        whole = self._arrays[name].dtype.kind in "iub"
        return whole or re.split(r"[./]", name)[-1] in self.statistics

    def _combine(
        self, weights: dict[int, float], trained: dict[int, dict[str, np.ndarray]]
    ) -> ArrayRecord:
        """Return the current model plus the weighted sum of updates.

        Of arrays that are no parameters (batch norm's statistics, counters in whole numbers) it is the weighted mean of
        the participants' arrays, rounded where the type is of whole numbers.
        """
        total, result = sum(weights.values()), {}
        for name, now in self._arrays.items():
            start = now.astype(np.float64)
            factor = 1 / total if self._is_statistic(name) else 1.0
            value = start + sum(
                factor * weight * (trained[node][name] - start) for node, weight in weights.items()
            )
            whole = now.dtype.kind in "iub"
            result[name] = Array(np.asarray(np.rint(value) if whole else value).astype(now.dtype))
        return ArrayRecord(result)

    def _average_metrics(
        self, weights: dict[int, float], contents: dict[int, RecordDict]
    ) -> MetricRecord:
        """Return the participants' metrics, averaged by the design's weights, which stand among them."""
        weighted = []
        for node, weight in weights.items():
            (name, metrics), *_ = contents[node].metric_records.items()
            (key, arrays), *_ = contents[node].array_records.items()
            weighted.append(
                RecordDict({key: arrays, name: MetricRecord({**metrics, WEIGHT: weight})})
            )
        return self.train_metrics_aggr_fn(weighted, WEIGHT)

    def _log_event(self, event: str) -> None:
        """Log an event of this round as a warning, and add it to `events`."""
        log(WARNING, "round %s: %s", self._round, event)
        self.events.append(f"round {self._round}: {event}")


def plain_methods() -> list[str]:
    """Return the names of the methods that `FedAvgWithDesign` takes with their default settings."""
    names = []
    for name in methods.names():
        try:
            if not _find_obstacle(Cohorts(name, sizes=[1, 1], m=2)):
                names.append(name)
        except InputError:  # its server does more than add weighted updates
            pass
    return names


def _find_obstacle(cohorts: Cohorts) -> str:
    """Return why a method cannot be used with plain clients, as the end of a clause; "" if it can."""
    method, needs = cohorts.method, cohorts.needs
    if is_private(method):
        return "hides the clients' sizes, which a plain client sends with its model"
    if needs:
        words = " and ".join(ANSWERS.get(name, name) for name in needs)
        instead, design = "", cast(Any, method.clients)
        if hasattr(design, "features"):
            try:
                other = replace(design, features="updates")
                if not Cohorts(other, sizes=[1, 1], m=2).needs:
                    instead = "; with features='updates' it does not"
            except (InputError, TypeError):  # it has no such setting, or is no dataclass
                pass
        return f"needs {words}, which a plain client does not send{instead}"
    if not isinstance(method.data, AllData) and method.data != FixedRate():
        return "trains on some of a client's examples, and a plain client on all"
    return ""


def _size_function(sizes) -> Callable[[int], int | None]:
    """Return the function that gives a node's size, or None where it is to be asked."""
    if sizes is None:
        return lambda node: None
    if isinstance(sizes, Mapping):
        return sizes.get
    if callable(sizes):
        return sizes
    raise InputError(
        f"sizes are {short_repr(sizes)}: give a dict {{node id: size}}, or a function of a node id"
    )


def _read_array(name: str, array: Array, sent: np.ndarray) -> np.ndarray:
    """Return an array of a trained model; `InputError` unless it has the shape of the one sent and is finite.

    The messages begin with "its", for a sentence about a node's reply.
    """
    try:
        value = array.numpy()
    except Exception as error:  # bytes that are no array
        raise InputError(f"its {name} cannot be read ({type(error).__name__})") from None
    if value.shape != sent.shape or value.dtype.kind not in "fiub":
        raise InputError(
            f"its {name} is {value.dtype} {list(value.shape)}, not {sent.dtype} {list(sent.shape)}"
        )
    if not np.isfinite(value).all():
        raise InputError(f"its {name} holds a number that is not finite")
    return value
