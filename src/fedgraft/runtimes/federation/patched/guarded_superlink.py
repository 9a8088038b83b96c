"""Flower's SuperLink: nodes see their part of it alone, and wait there for messages; a program of its own.

One port has all of a SuperLink's interfaces. Flower lets anybody who reaches it register nodes and start runs, that is,
run programs at the server and at every site. Here only this very machine may; others get the interface of nodes, at
which they show their keys before more than a few kilobytes of theirs are read.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from flwr.superlink import main as superlink
from flwr.superlink.cli import flower_superlink
from flwr.superlink.servicer.fleet import fleet_handlers

from fedgraft.runtimes.federation.patched.gate import Gate, refuse
from fedgraft.runtimes.federation.patched.hasty_server import HastyProtocol, hasty_loop
from fedgraft.runtimes.federation.patched.known_keys import telling
from fedgraft.runtimes.federation.patched.long_polls import NODE, Asgi, Content, LongPolls, Receive, Send

HERE: Final = frozenset(("127.0.0.1", "::1"))
"""Addresses of callers who may do everything."""
LOOK_SECONDS: Final = 0.2
ENDING_SECONDS: Final = 5.0
OPTIONS: Final[Mapping[str, Any]] = {
    "timeout_graceful_shutdown": 1,  # of requests that are open; nodes that wait are among them
    "timeout_keep_alive": 600,  # a new connection is 4 kB
    "http": HastyProtocol,
    "ws": "none",  # Flower's application has none
    "loop": f"{hasty_loop.__module__}:{hasty_loop.__name__}",
    "server_header": False,
    "date_header": False,
}
"""Of the server: what Flower leaves as it is."""


def guarded(app: Asgi) -> Asgi:
    """Return an application that others than this machine reach by the nodes' interface alone."""

    async def answer(scope: Content, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or _allowed(scope):
            await app(scope, receive, send)
        elif scope["type"] == "http":
            await refuse(send, 403)
        else:
            await send({"type": "websocket.close"})

    return answer


def _allowed(scope: Content) -> bool:
    caller = scope.get("client")
    return str(scope["path"]).startswith(NODE) or bool(caller and caller[0] in HERE)


def _known_in(app: Any) -> Callable[[bytes], bool] | None:
    """Return what says whether a public key is a node's; None where nodes have none."""
    if not app.state.enable_supernode_auth:
        return None
    return lambda key: app.state.linkstate_factory.state().get_node_id_by_public_key(key) is not None


def main() -> None:
    """Run the SuperLink with the arguments of `flower-superlink`, until it is told to end or its parent is gone."""
    parent, create_app = os.getppid(), superlink.create_app

    def create_guarded(*arguments: Any, **options: Any) -> Asgi:
        app = create_app(*arguments, **options)
        return guarded(Gate(LongPolls(app), _known_in(app)))

    fleet_handlers.activate_node = telling(fleet_handlers.activate_node)  # type: ignore[assignment]
    superlink.create_app = create_guarded  # type: ignore[assignment]
    of_flower = flower_superlink.__globals__
    of_flower["uvicorn"] = SimpleNamespace(run=partial(of_flower["uvicorn"].run, **OPTIONS))
    os.environ["FORWARDED_ALLOW_IPS"] = "127.0.0.1"  # nobody elsewhere is believed to speak for another
    logging.getLogger("uvicorn.access").addFilter(lambda record: False)  # a line a request fills disks
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    flower_superlink()


def _end_with(parent: int) -> None:
    """End this process once its parent has ended, however that was."""
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    signal.raise_signal(signal.SIGTERM)
    time.sleep(ENDING_SECONDS)
    os._exit(1)  # it waits for requests that are open, which no one needs any more


if __name__ == "__main__":
    main()
