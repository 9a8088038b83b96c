"""A ServerApp and a ClientApp: our messages, by Flower's public interface, wherever it runs them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedgraft.errors import WireError
from fedgraft.runtimes.federation import envelope
from fedgraft.runtimes.flower_apps.grid_link import bytes_in, record_of

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
