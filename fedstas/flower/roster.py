"""The roster of a round: which nodes take part, and which of them stopped answering or came back.

A node is on the roster, or silent (the server waits for its answer to a hello), or has no data. A node that does not
answer a question of the design is taken off the roster of this round, and the design draws again among the other
clients.
"""

import time
from collections.abc import Iterable
from logging import WARNING
from typing import NoReturn

import torch
from flwr.app import Message
from flwr.common import log
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from fedstas.errors import InputError
from fedstas.flower import messages
from fedstas.sim.server import ServerMemory
from fedstas.state import move_clients

POLL = 0.2  # s between two requests for replies
# Error codes of Flower's SuperLink for a node that is not connected.
GONE = (
    ErrorCode.MESSAGE_UNAVAILABLE,
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE,
    ErrorCode.NODE_UNAVAILABLE,
)


class TooFew(RuntimeError):
    """Too few nodes answered to continue; the state file, if there is one, holds the rounds so far."""


class RosterChanged(Exception):
    """Clients were taken off the roster while a design drew its cohort: it must draw again without them."""


def exchange(grid: Grid, questions: list[Message], patience: float) -> dict[int, Message]:
    """Send messages, at most one to each node, and return the replies by node id.

    A node without an entry did not reply within `patience` seconds.
    """
    if questions:
        grid.push_messages(questions)
    unanswered = {m.metadata.message_id: m.metadata.dst_node_id for m in questions}
    end, replies = time.monotonic() + patience, {}
    while unanswered:
        for reply in grid.pull_messages(list(unanswered)):
            node = unanswered.pop(reply.metadata.reply_to_message_id, None)
            if node is not None:
                replies[node] = reply
        if time.monotonic() > end:  # checked after a request, so that at least one is made
            break
        if unanswered:
            time.sleep(POLL)
    return replies


class Roster:
    """The clients of a round. A design sees them as 0..N-1, in the order of the numbers that the nodes sent.

    Args:
        expected: the number of nodes for which the first round waits.
        patience: seconds to wait for an answer.

    Attributes:
        memory: what the server remembers, for the clients on the roster.
        client_ids: the numbers that the clients on the roster sent, ascending [N].
        node_ids: Flower's ids of their nodes, in the same order [N].
        events: one sentence for each client that failed, and each change of the roster.
    """

    def __init__(self, expected: int, patience: float):
        self.memory = ServerMemory()
        self.client_ids: tuple[int, ...] = ()
        self.events: list[str] = []
        self._expected, self._patience = expected, patience
        # Node id -> client number; None: it has no data.
        self._client_of: dict[int, int | None] = {}
        # Silent nodes: node id -> message id of the hello that they have not answered yet. None: the answer was
        # wrong, and the next round sends another hello.
        self._silent: dict[int, str | None] = {}

    def begin(self, t: int, params: torch.Tensor, grid: Grid) -> None:
        """Start round t with w_t = params [P]: find the clients that are present."""
        self.round, self._params, self._grid = t, params, grid
        self._find_clients(wait=not self._client_of)
        self._update_roster()
        if not self.client_ids:
            raise TooFew(f"round {t}: no node with data is there")

    def resume(self, client_ids: Iterable[int]) -> None:
        """Set the clients to which the rows of a restored memory belong."""
        self.client_ids = tuple(client_ids)

    def _find_clients(self, wait: bool) -> None:
        """Send a hello to every new node, and register the nodes that have answered one.

        With `wait`, in the first round, wait until the expected number of nodes has answered. Later nodes take part
        from the first round that starts after their answer.
        """
        end = time.monotonic() + self._patience
        # In `_silent` None is in place of a message: the node has answered wrongly. Those of an earlier round are asked once
        # more in this one.
        retry = {node for node, hello in self._silent.items() if hello is None}
        while True:
            self._present = set(self._grid.get_node_ids())
            new = self._present - set(self._client_of) - set(self._silent)
            self._send_hellos(new | retry & self._present)
            retry -= self._present
            waiting = {m: node for node, m in self._silent.items() if m is not None}
            for reply in self._grid.pull_messages(list(waiting)) if waiting else ():
                node = waiting.get(reply.metadata.reply_to_message_id)
                if node is not None:
                    self._register(node, reply)
            invalid = {node for node, hello in self._silent.items() if hello is None}
            answered = len(self._present & (set(self._client_of) | invalid))
            if not wait or answered >= self._expected:
                return
            if time.monotonic() > end:
                raise TooFew(
                    f"{answered} of {self._expected} nodes were there after {self._patience:g} s"
                )
            time.sleep(POLL)

    def _send_hellos(self, ids: Iterable[int]) -> None:
        """Send a hello to these nodes without waiting for answers; until they answer they count as silent."""
        hellos = [self.message(node, "query.hello", messages.make_content()) for node in ids]
        if hellos:
            self._grid.push_messages(hellos)
        self._silent |= {m.metadata.dst_node_id: m.metadata.message_id for m in hellos}

    def _register(self, node: int, reply: Message) -> None:
        """Register a node by its answer to a hello; if the answer is wrong, the node stays silent in this round.

        A client that was on another node, which was restarted, is on this node from now on.
        """
        try:
            client = messages.read("query.hello", reply, self._patience)
        except InputError as error:
            self._silent[node] = None
            if not (reply.has_error() and reply.error.code in GONE):
                self._log_event(f"node {node}: query.hello: {error}")
            return
        del self._silent[node]
        for other, other_client in list(self._client_of.items()):
            if client is not None and other_client == client and other != node:
                self._log_event(f"client {client} is now node {node}, no longer node {other}")
                self._client_of.pop(other)
                self._silent.pop(other, None)
        self._client_of[node] = client

    def _update_roster(self) -> None:
        """Set the roster to the clients with data whose nodes are present and not silent.

        If it has changed, the designs' states are dropped, and rows of last updates follow their clients.
        """
        node_of = {
            client: node
            for node, client in self._client_of.items()
            if node in self._present and client is not None and node not in self._silent
        }
        client_ids = tuple(sorted(node_of))
        if client_ids != self.client_ids and self.client_ids:
            left, joined = (
                set(self.client_ids) - set(client_ids),
                set(client_ids) - set(self.client_ids),
            )
            changes = [f"{w} {sorted(x)}" for w, x in (("without", left), ("with", joined)) if x]
            self._log_event(f"the federation changes: {', '.join(changes)}; strata are made anew")
            self.memory.move_clients(self.client_ids, client_ids)
            move_clients(self.memory.optimizer, self.client_ids, client_ids)
        self.client_ids, self.node_ids = client_ids, [node_of[c] for c in client_ids]
        self.clients = len(client_ids)

    def _log_event(self, event: str) -> None:
        """Log an event of this round as a warning, and add it to `events`."""
        log(WARNING, "round %s: %s", self.round, event)
        self.events.append(f"round {self.round}: {event}")

    def record_failures(self, reasons: dict[int, str], late: Iterable[int]) -> None:
        """Log why nodes failed, and treat the late ones as silent until they answer a hello.

        Args:
            reasons: what was wrong with each node's answer, by node id.
            late: those of these nodes that did not answer in time.
        """
        for node, reason in reasons.items():
            self._log_event(f"client {self._client_of[node]}: {reason}")
        self._send_hellos([n for n in late if n not in self._silent])

    def _exclude(self, reasons: dict[int, str], late: Iterable[int]) -> NoReturn:
        """Take nodes that failed off the roster, and make the design draw again; arguments as in `record_failures`.

        Raises:
            RosterChanged: the design must draw again.
            TooFew: no node is left.
        """
        self.record_failures(reasons, late)
        self._present -= set(reasons)
        self._update_roster()
        if not self.client_ids:
            raise TooFew(
                f"round {self.round}: no node answers any more ({'; '.join(reasons.values())})"
            )
        raise RosterChanged

    def message(self, node: int, kind: str, content, ttl: float | None = None) -> Message:
        """Make a message of this round."""
        return Message(content, node, kind, ttl=ttl, group_id=str(self.round))
