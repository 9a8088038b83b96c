"""The way to nodes over a Flower grid: messages of Flower's with one string of bytes in each."""

import time
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

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
