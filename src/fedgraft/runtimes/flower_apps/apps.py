"""A ServerApp and a ClientApp: our messages, by Flower's public interface, wherever it runs them.

`GridLink` reaches nodes over a Flower grid: messages of Flower's with one string of bytes in each.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedgraft.errors import WireError
from fedgraft.runtimes.federation import envelope
from fedgraft.runtimes.federation.members import Arrived, Link

DAY_SECONDS: Final = 86400.0
"""How long a message may wait for its node."""
POLL_SECONDS: Final = 0.05
"""Seconds between two looks for answers."""
KEY: Final = "message"
"""Name of the record, and of the bytes in it."""
LONG_BYTES: Final = 1 << 22
"""From this length on a message travels as an array, which Flower cuts into chunks. As one value it takes two requests
less each way, but is sent again as a whole where the link breaks."""


class GridLink(Link):
    """Orders to Flower's nodes over the grid of a ServerApp."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def nodes(self) -> Collection[int]:
        """Return the ids of the nodes that are connected."""
        return list(self._grid.get_node_ids())

    def send(self, node: int, content: bytes) -> str | None:
        """Push a message; None where Flower does not take it, such as for a node that has just gone."""
        message = Message(record_of(content), node, MessageType.QUERY, ttl=DAY_SECONDS)
        sent = list(self._grid.push_messages([message]))
        return sent[0] if sent and sent[0] else None

    def receive(self, messages: Collection[str], seconds: float = 0.0) -> Sequence[Arrived]:
        """Pull what has come back; an error of Flower's is a message that will not be answered."""
        until = time.monotonic() + seconds
        while not (replies := list(self._grid.pull_messages(list(messages)))) and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        return [
            Arrived(
                reply.metadata.reply_to_message_id,
                reply.metadata.src_node_id,
                None if reply.has_error() else bytes_in(reply.content),
            )
            for reply in replies
        ]

    def close(self) -> None:
        """Leave the grid to its ServerApp."""


def record_of(content: bytes) -> RecordDict:
    """Return a message's content for Flower."""
    if len(content) < LONG_BYTES:
        return RecordDict({KEY: ConfigRecord({KEY: bytes(content)})})
    return RecordDict({KEY: ArrayRecord({KEY: Array(np.frombuffer(content, np.uint8))})})


def bytes_in(content: RecordDict) -> bytes:
    """Return the bytes in a message's content; b"" where it holds anything else."""
    try:
        if KEY in content.config_records:
            value = content.config_records[KEY][KEY]
            return value if isinstance(value, bytes) else b""
        array = content.array_records[KEY][KEY]
        return array.numpy().tobytes() if array.dtype == "uint8" else b""
    except Exception:  # it is what the other end has sent, and NumPy reads it
        return b""


JOINED: Final = "fedgraft-joined"
"""Name of the record, in what Flower keeps of a run at a node, with the order by which that has joined."""


def server_app(run: Callable[[Grid, Context], None]) -> ServerApp:
    """Return a ServerApp that calls a function with the way to the nodes, for a `GridLink`, and Flower's context."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run(grid, context)

    return app


def client_app(answer: Callable[[Mapping[str, Any], bytes, bytes], bytes]) -> ClientApp:
    """Return a ClientApp that answers an order by a function.

    It is called with the configuration of the node, the order by which the node has joined the run before, b"" for
    none, and the order.
    """
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        order, known = bytes_in(message.content), context.state.config_records.get(JOINED)
        joined = known["order"] if known is not None else b""
        content = answer(dict(context.node_config), joined if isinstance(joined, bytes) else b"", order)
        if _joins(order):
            context.state[JOINED] = ConfigRecord({"order": order})
        return Message(record_of(content), reply_to=message)

    return app


def _joins(order: bytes) -> bool:
    try:
        return envelope.opened(envelope.Order, order).kind == "join"
    except WireError:
        return False
