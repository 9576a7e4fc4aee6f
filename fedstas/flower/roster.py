"""The roster of a round: the clients that are present, those that stopped answering, those that came back.

A client that does not answer a question is taken off the roster of this round, and the design draws again over
the clients that are left.
"""

import time
from collections.abc import Iterable
from logging import WARNING

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


class Struck(Exception):
    """Clients did not answer a question of the design, which must draw again without them."""


def exchange(grid: Grid, asked: list[Message], patience: float) -> dict[int, Message]:
    """Send messages, one to a node; return the replies that came in time, by node id."""
    if asked:
        grid.push_messages(asked)
    open_ = {m.metadata.message_id: m.metadata.dst_node_id for m in asked}
    end, replies = time.monotonic() + patience, {}
    while open_:
        for reply in grid.pull_messages(list(open_)):
            node = open_.pop(reply.metadata.reply_to_message_id, None)
            if node is not None:
                replies[node] = reply
        if time.monotonic() > end:  # after a look, however long this process was held up
            break
        if open_:
            time.sleep(POLL)
    return replies


class Roster:
    """The clients of a round, ascending by the numbers that the nodes gave themselves."""

    def __init__(self, expected: int, patience: float):
        self.memory = ServerMemory()  # of the clients on this roll
        self.roll: tuple[int, ...] = ()
        self.events: list[str] = []
        self._expected, self._patience = expected, patience
        self._client_of: dict[int, int | None] = {}  # node id -> client; None: it has no data
        # Nodes that are not on the roll until they have answered a hello -> that hello; None: its
        # answer was bad, and the next round asks anew.
        self._silent: dict[int, str | None] = {}

    def begin(self, t: int, params: torch.Tensor, grid: Grid) -> None:
        """Start round t with w_t = params [P]: find the clients that are present."""
        self.round, self._params, self._grid = t, params, grid
        self._find(wait=not self._client_of)
        self._call()
        if not self.roll:
            raise TooFew(f"round {t}: no node with data is there")

    def resume(self, roll: Iterable[int]) -> None:
        """Set the clients to which the restored memory belongs."""
        self.roll = tuple(roll)

    def _hello(self, ids: Iterable[int]) -> list[Message]:
        return [self.message(node, "query.hello", messages.content()) for node in ids]

    def _find(self, wait: bool) -> None:
        """Hear who is there. Only at the start are nodes waited for: later ones are greeted, and are in
        the federation from the first round at whose start their answer is there."""
        end = time.monotonic() + self._patience
        again = {node for node, hello in self._silent.items() if hello is None}
        while True:
            self._present = set(self._grid.get_node_ids())
            self._greet(
                self._present - set(self._client_of) - set(self._silent) | again & self._present
            )
            again -= self._present
            waiting = {m: node for node, m in self._silent.items() if m is not None}
            for reply in self._grid.pull_messages(list(waiting)) if waiting else ():
                node = waiting.get(reply.metadata.reply_to_message_id)
                if node is not None:
                    self._hear(node, reply)
            bad = {node for node, hello in self._silent.items() if hello is None}
            known = len(self._present & (set(self._client_of) | bad))
            if not wait or known >= self._expected:
                return
            if time.monotonic() > end:
                raise TooFew(
                    f"{known} of {self._expected} nodes were there after {self._patience:g} s"
                )
            time.sleep(POLL)

    def _greet(self, ids: Iterable[int]) -> None:
        """Send a hello to these nodes, which count as silent until they answer; do not wait for it."""
        hellos = self._hello(ids)
        if hellos:
            self._grid.push_messages(hellos)
        self._silent |= {m.metadata.dst_node_id: m.metadata.message_id for m in hellos}

    def _hear(self, node: int, reply: Message) -> None:
        """Read the answer to a hello: the node is on the roster, or off it for this round."""
        try:
            client = messages.read("query.hello", reply, self._patience)
        except InputError as error:
            self._silent[node] = None
            if not (reply.has_error() and reply.error.code in GONE):
                self._note(f"node {node}: query.hello: {error}")
            return
        del self._silent[node]
        for other, same in list(self._client_of.items()):
            if client is not None and same == client and other != node:
                self._note(f"client {client} is now node {node}, no longer node {other}")
                self._client_of.pop(other)
                self._silent.pop(other, None)
        self._client_of[node] = client

    def _call(self) -> None:
        """Set the roster: clients that are present, with data, not silent. If it has changed, the designs' states are
        dropped, and rows of last updates follow their clients."""
        there = {
            c: n
            for n, c in self._client_of.items()
            if n in self._present and c is not None and n not in self._silent
        }
        roll = tuple(sorted(there))
        if roll != self.roll and self.roll:
            gone, came = set(self.roll) - set(roll), set(roll) - set(self.roll)
            changes = [f"{w} {sorted(x)}" for w, x in (("without", gone), ("with", came)) if x]
            self._note(f"the federation changes: {', '.join(changes)}; strata are made anew")
            self.memory.designs = {}
            for state in (self.memory, self.memory.optimizer):
                move_clients(state, self.roll, roll)
        self.roll, self.node = roll, [there[c] for c in roll]
        self.clients = len(roll)

    def _note(self, what: str) -> None:
        log(WARNING, "round %s: %s", self.round, what)
        self.events.append(f"round {self.round}: {what}")

    def strike(self, reasons: dict[int, str], late: Iterable[int]) -> None:
        """These nodes (by id, with what was wrong) are off the roll for this round; the `late` ones
        until they have answered a hello."""
        for node, reason in reasons.items():
            self._note(f"client {self._client_of[node]}: {reason}")
        self._greet([n for n in late if n not in self._silent])

    def _off(self, wrong: dict) -> None:
        """Take these nodes off the roster and make the design draw again."""
        self._present -= set(wrong)
        self._call()
        if not self.roll:
            raise TooFew(
                f"round {self.round}: no node answers any more ({'; '.join(wrong.values())})"
            )
        raise Struck

    def message(self, node: int, kind: str, content, ttl: float | None = None) -> Message:
        """Make a message of this round."""
        return Message(content, node, kind, ttl=ttl, group_id=str(self.round))
