"""The server of a federation, in a thread of the process: one port for nodes, and a socket for its own machine."""

import asyncio
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fedgraft.errors import MachineError
from fedgraft.runtimes.federation import operator_socket
from fedgraft.runtimes.federation.certificates import fingerprint
from fedgraft.runtimes.federation.folders import HERE, FederationFolder
from fedgraft.runtimes.federation.hub import Hub, keys_of
from fedgraft.runtimes.federation.signed_requests import bare
from fedgraft.runtimes.federation.web import for_nodes, for_operator

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


START_SECONDS: Final = 60.0
ENDING_SECONDS: Final = 20.0
UNKNOWN_KEY: Final = "unknown key"
"""What is said, at both ends, of a node that is not let in."""
OPTIONS: Final[Mapping[str, Any]] = {
    "http": HastyProtocol,
    "h11_max_incomplete_event_size": HEAD_BYTES,
    "ws": "none",
    "lifespan": "off",
    "log_level": "critical",
    "access_log": False,
    "server_header": False,
    "date_header": False,
    "proxy_headers": False,
    "timeout_keep_alive": 600,  # a new connection is 4 kB
    "timeout_graceful_shutdown": 1,  # nodes that wait for an order are among those who ask
}
"""Of uvicorn."""


class Server:
    """A server that nodes and runs connect to, from now on.

    Raises `MachineError` where its port is in use, or its certificate is none.
    """

    def __init__(self, folder: FederationFolder) -> None:
        self._folder = folder
        self._hub = Hub(lambda: _keys(folder.path))
        self._servers = uvicorn.Server(_config(folder, self._hub)), uvicorn.Server(_plain(self._hub))
        port = _bound(folder)
        try:
            self._sockets = port, operator_socket.listener(folder)
        except OSError as error:
            port.close()
            raise MachineError(f"{folder.server} has no room for a socket: {error.strerror or error}.") from error
        self._failed: list[BaseException] = []
        self._loop = HastyLoop()
        self._thread = threading.Thread(target=self._run, name="federation-server", daemon=True)
        self._thread.start()

    def wait_until_ready(self, stop: Callable[[], object]) -> None:
        """Wait until it answers, or until `stop()`. Raises `MachineError` where it ends, or takes too long."""
        until = time.monotonic() + START_SECONDS
        while not stop() and not all(server.started for server in self._servers):
            self.check()
            if time.monotonic() > until:
                raise MachineError(f"The server has not begun after {START_SECONDS:g} s.")
            time.sleep(0.02)

    def check(self) -> None:
        """Raise `MachineError` where it has ended by itself."""
        if not self._thread.is_alive():
            why = f": {self._failed[0]}" if self._failed else ""
            raise MachineError(f"The server has ended{why}.")

    def strangers(self) -> list[str]:
        """Return a line for each key that was refused since the last such call; each is told of once."""
        keys = self._hub.strangers()
        names = _names_of_refused(self._folder) if keys else {}
        return [f"{UNKNOWN_KEY} {_mark(key)}: {names.get(key, 'no site has it')}; refused." for key in keys]

    def close(self) -> None:
        """End it."""
        with suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._hub.close)
        for server in self._servers:
            server.should_exit = True
        self._thread.join(ENDING_SECONDS)
        (self._folder.server / operator_socket.NAME).unlink(missing_ok=True)

    def _run(self) -> None:
        async def serve() -> None:
            await asyncio.gather(*(each.serve([one]) for each, one in zip(self._servers, self._sockets, strict=True)))
            for connection in [each for server in self._servers for each in server.server_state.connections]:
                connection.transport.abort()  # whose other end does not say goodbye
            await asyncio.sleep(0.05)

        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(serve())
        except BaseException as error:
            self._failed.append(error)


def _plain(hub: Hub) -> uvicorn.Config:
    return uvicorn.Config(for_operator(hub), **OPTIONS)


def _config(folder: FederationFolder, hub: Hub) -> uvicorn.Config:
    if folder.insecure:
        return uvicorn.Config(for_nodes(hub), **OPTIONS)
    config = uvicorn.Config(
        for_nodes(hub),
        ssl_certfile=str(folder.certificate),
        ssl_keyfile=str(folder.key),
        ssl_ca_certs=str(folder.authority),
        ssl_cert_reqs=ssl.CERT_REQUIRED,
        **OPTIONS,
    )
    try:
        config.load()
    except (ssl.SSLError, OSError) as error:
        raise MachineError(f"The certificate {folder.certificate}, or its key, cannot be used: {error}.") from error
    return config


def _bound(folder: FederationFolder) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in folder.listens_at else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((folder.listens_at, folder.port))
        made.listen()
    except OSError as error:
        made.close()
        raise MachineError(
            f"Port {folder.port} cannot be listened at: {error.strerror}. Is the federation started already? Another "
            f"port is named in {folder.path / 'federation.toml'} and in every node.toml."
        ) from error
    return made


def _keys(path: Path) -> Mapping[str, str] | None:
    """Return {public key: name} of the sites; None where nodes have no keys."""
    folder = FederationFolder.read(path)
    return None if folder.insecure else keys_of(folder.public_keys())


def _mark(key: str) -> str:
    try:
        return fingerprint(key.encode())
    except (ValueError, IndexError):
        return "that is none"


def _names_of_refused(folder: FederationFolder) -> dict[str, str]:
    """Return {key: whose it was} of keys that were removed."""
    lines = folder.refused.read_text().splitlines() if folder.refused.is_file() else []
    return {bare(line): f"it was {' '.join(line.split()[2:])}'s, and was removed" for line in lines}
