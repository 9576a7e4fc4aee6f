"""A federation in one process: every message is converted to bytes and back, and recorded."""

from typing import NamedTuple
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as Proto
from flwr.serverapp import Grid

from fedstas.flower import client_app

RUN_ID, FIRST_NODE = 7, 1000  # node 1000 + k has the data of client k


class Transmitted(NamedTuple):
    """A message as it was sent: "up" from a node or "down" to it."""

    direction: str
    node: int
    kind: str
    content: bytes
    message: Message


class Memory(Grid):
    """A grid whose nodes answer at once. `wire` holds all messages, each a `Transmitted`.

    `fault(node, message, reply)` may change a reply or withhold it (None); `online` are the nodes that answer.
    """

    def __init__(self, load, clients, fault=None):
        self.app = client_app(load)
        self.contexts = {
            FIRST_NODE + k: Context(RUN_ID, FIRST_NODE + k, {"partition-id": k}, RecordDict(), {})
            for k in range(clients)
        }
        self.online = set(self.contexts)
        self.wire, self.replies, self.fault = [], {}, fault

    def set_run(self, run):
        pass

    run = None

    def create_message(self, *args, **kwargs):
        raise AssertionError(
            "the strategy makes its messages itself (the grid's maker is deprecated)"
        )

    def get_node_ids(self):
        return sorted(self.online)

    def _transmit(self, direction, node, message):
        """Record a message's bytes and return it as the other side reads it."""
        content = message_to_proto(message).SerializeToString()
        proto = Proto()
        proto.ParseFromString(content)
        received = message_from_proto(proto)
        kind = message.metadata.message_type
        self.wire.append(Transmitted(direction, node, kind, content, received))
        return received

    def push_messages(self, messages):
        """Let each node that is online answer its message at once; return the messages' ids."""
        ids = []
        for message in messages:
            node, message_id = message.metadata.dst_node_id, str(uuid4())
            message.metadata.__dict__["_message_id"] = message_id
            ids.append(message_id)
            if node not in self.online:
                continue
            received = self._transmit("down", node, message)
            try:
                reply = self.app(received, self.contexts[node])
            except Exception as error:
                reason = f"{type(error)}:<'{error}'>"  # as Flower has it
                reply = Message(
                    Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=received
                )
            if self.fault is not None:
                reply = self.fault(node, received, reply)
            if reply is not None:
                self.replies[message_id] = self._transmit("up", node, reply)
        return ids

    def pull_messages(self, message_ids):
        return [self.replies.pop(i) for i in list(message_ids) if i in self.replies]

    def send_and_receive(self, messages, *, timeout=None):
        raise AssertionError("the strategy looks for replies by itself")
