"""The way to nodes over a Flower grid: one array of bytes a message."""

from collections.abc import Collection, Sequence
from typing import Final

import httpx
from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from fedgraft.errors import MachineError
from fedgraft.runtimes.federation.link import Arrived, Link
from fedgraft.runtimes.flower_simulation.record import bytes_in, record_of

DAY_SECONDS: Final = 86400.0
"""How long a message may wait for its node."""


class GridLink(Link):
    """Orders to Flower's nodes over the grid of a ServerApp."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def nodes(self) -> Collection[int]:
        """Return the ids of the nodes that are connected."""
        try:
            return list(self._grid.get_node_ids())
        except httpx.HTTPError as error:
            raise _cut(error) from error

    def send(self, node: int, content: bytes) -> str | None:
        """Push a message; None where Flower does not take it, such as for a node that has just gone."""
        message = Message(record_of(content), node, MessageType.QUERY, ttl=DAY_SECONDS)
        try:
            sent = list(self._grid.push_messages([message]))
        except httpx.HTTPError as error:
            raise _cut(error) from error
        return sent[0] if sent and sent[0] else None

    def receive(self, messages: Collection[str]) -> Sequence[Arrived]:
        """Pull what has come back; an error of Flower's is a message that will not be answered."""
        try:
            replies = list(self._grid.pull_messages(list(messages)))
        except httpx.HTTPError as error:
            raise _cut(error) from error
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


def _cut(error: httpx.HTTPError) -> MachineError:
    return MachineError(f"Flower's SuperLink does not answer: {str(error) or type(error).__name__}.")
