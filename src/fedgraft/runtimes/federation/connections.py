"""Connections that a server does not wait for without end: handshakes, heads of requests, how many of an address.

uvicorn alone waits for ever for the first request of a connection and for the end of a head.
"""

import asyncio
from collections import Counter
from typing import Any, ClassVar, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from fedgraft.runtimes.federation.folders import HERE

HANDSHAKE_SECONDS: Final = 10.0
"""How long a TLS handshake may take."""
SHUTDOWN_SECONDS: Final = 2.0
"""How long the end of a TLS connection may take; what comes meanwhile is dropped."""
HEAD_SECONDS: Final = 10.0
"""How long the head of a request may take, of the first one from the handshake on."""
HEAD_BYTES: Final = 1 << 14
"""Most bytes of a head that has not come to its end; a node's has less than 2 kB."""
CONNECTIONS: Final = 256
"""Most connections from one address that is not this machine's; a node has one."""


class HastyProtocol(H11Protocol):
    """uvicorn's connection, which ends where its head takes too long, or its address has too many."""

    _from: ClassVar[Counter[str]] = Counter()
    """Connections by address."""
    _address = ""
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, whose handshake is done."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._from[self._address] += 1
        if self._from[self._address] > CONNECTIONS and self._address not in HERE:
            transport.abort()
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._have_head()
        self._from[self._address] -= 1
        if not self._from[self._address]:
            del self._from[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; it may be a part of a head."""
        if self._late is None:
            self._await_head()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._have_head()

    def _await_head(self) -> None:
        self._late = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _have_head(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late = None


class HastyLoop(asyncio.SelectorEventLoop):
    """An event loop whose servers wait for no TLS handshake or its end for long."""

    async def create_server(self, *arguments: Any, **options: Any) -> asyncio.Server:
        """Make a server."""
        if options.get("ssl") is not None:
            options |= {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": SHUTDOWN_SECONDS}
        return await super().create_server(*arguments, **options)
