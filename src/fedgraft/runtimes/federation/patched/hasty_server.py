"""Connections that a SuperLink does not wait for without end: handshakes, heads of requests, how many of an address.

uvicorn, which serves Flower's application, waits for ever for the first request of a connection and for the end of a
head, however long that is.
"""

import asyncio
from collections import Counter
from functools import wraps
from typing import Any, ClassVar, Final

from uvicorn.loops.auto import auto_loop_factory
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fedgraft.runtimes.federation.child import HERE

HANDSHAKE_SECONDS: Final = 10.0
"""How long a TLS handshake may take."""
SHUTDOWN_SECONDS: Final = 2.0
"""How long the end of a TLS connection may take; what comes meanwhile is dropped."""
HEAD_SECONDS: Final = 10.0
"""How long the head of a request may take, of the first one from the handshake on."""
HEAD_BYTES: Final = 1 << 14
"""Most bytes of a head that has not come to its end; a node's has less than 2 kB."""
CONNECTIONS: Final = 256
"""Most connections from one address that is not this machine's; a node has up to three."""


class HastyProtocol(HttpToolsProtocol):
    """uvicorn's connection, which ends where its head takes too long, or its address has too many."""

    _from: ClassVar[Counter[str]] = Counter()
    """Connections by address."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_ends: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, whose handshake is done."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._from[self._address] += 1
        if self._from[self._address] > CONNECTIONS and self._address not in HERE:
            transport.abort()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._have_head()
        self._from[self._address] -= 1
        if not self._from[self._address]:
            del self._from[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        super().data_received(data)
        self._head_bytes += len(data)
        if self._head_ends is not None and self._head_bytes > HEAD_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """A head begins."""
        self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head has come to its end."""
        self._have_head()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._have_head()
        self._head_bytes = 0
        self._head_ends = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _have_head(self) -> None:
        if self._head_ends is not None:
            self._head_ends.cancel()
        self._head_ends = None


def hasty_loop() -> asyncio.AbstractEventLoop:
    """Return uvicorn's usual event loop, whose servers wait for no TLS handshake or its end for long."""
    loop = auto_loop_factory()()
    create_server = loop.create_server

    @wraps(create_server)
    async def create(*arguments: Any, **options: Any) -> asyncio.Server:
        if options.get("ssl") is not None:
            options |= {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": SHUTDOWN_SECONDS}
        server: asyncio.Server = await create_server(*arguments, **options)
        return server

    loop.create_server = create  # type: ignore[method-assign]
    return loop
