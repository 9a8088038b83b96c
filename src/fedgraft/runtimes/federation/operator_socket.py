"""The server's interface for its own machine: a Unix socket in the federation's folder, for its owner alone.

By it a run reaches the nodes of the federation: `ServerLink`.
"""

import json
import os
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Final

from fedgraft.errors import MachineError
from fedgraft.runtimes.federation.folders import FederationFolder
from fedgraft.runtimes.federation.members import Arrived, Link
from fedgraft.runtimes.federation.signed_requests import LOST, MESSAGE, NODE

NAME: Final = "operator.sock"
_PRIVATE: Final = 0o600


@contextmanager
def _place(folder: FederationFolder) -> Iterator[str]:
    """A path of the socket that is short: the system takes 107 bytes at most."""
    handle = os.open(folder.server, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{NAME}"
    finally:
        os.close(handle)


def listener(folder: FederationFolder) -> socket.socket:
    """Return the socket, listening; an older one, of a server that was killed, makes room."""
    (folder.server / NAME).unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX)
    with _place(folder) as path:
        made.bind(path)
    (folder.server / NAME).chmod(_PRIVATE)
    return made


class OperatorConnection(HTTPConnection):
    """A connection to a federation's server, on its own machine."""

    def __init__(self, folder: FederationFolder) -> None:
        super().__init__("localhost")
        self._folder = folder

    def connect(self) -> None:
        """Connect."""
        self.sock = socket.socket(socket.AF_UNIX)
        with _place(self._folder) as path:
            self.sock.connect(path)

    def ask(self, method: str, path: str, body: bytes = b"") -> HTTPResponse:
        """Return what the server answers, its content not read yet. Raises `MachineError` where it is not there."""
        try:
            self.request(method, path, body)
            return self.getresponse()
        except (OSError, HTTPException) as error:
            self.close()
            start = f"start it with 'fedgraft federation start {self._folder.path}'"
            raise MachineError(f"No server answers at {self._folder.address}; {start}.") from error


def status(folder: FederationFolder) -> Mapping[str, Any]:
    """Return "nodes", {id: state and since}, and "runs". Raises `MachineError` where no server answers."""
    with closing(OperatorConnection(folder)) as connection:
        found: Mapping[str, Any] = json.loads(connection.ask("GET", "/status").read())
        return found


def read_keys(folder: FederationFolder) -> None:
    """Have a server that runs know the keys of the folder, and no others."""
    with suppress(MachineError), closing(OperatorConnection(folder)) as connection:
        connection.ask("POST", "/keys").read()


class ServerLink(Link):
    """Orders to a federation's nodes. The run goes on at the server as long as the link, or this process.

    Args:
        folder: of the federation.
        run: its name.
    """

    def __init__(self, folder: FederationFolder, run: str) -> None:
        self._connection, self._kept = OperatorConnection(folder), OperatorConnection(folder)
        self._path = f"/runs/{run}"
        self._began = self._kept.ask("POST", self._path)
        if self._began.status != 200:
            why = self._began.read().decode()
            self.close()
            raise MachineError(f"The server at {folder.address} says: {why}.")

    def nodes(self) -> Collection[int]:
        """Return the ids of the nodes that are connected."""
        return [int(node) for node in json.loads(_read(self._ask("GET", "/nodes")))]

    def send(self, node: int, content: bytes) -> str | None:
        """Send a message and return its id; None where its node has never been there."""
        response = self._ask("POST", f"{self._path}/nodes/{node}", content)
        text = _read(response).decode()
        return text if response.status == 200 else None

    def receive(self, messages: Collection[str], seconds: float = 0.0) -> Sequence[Arrived]:
        """Return what has come back."""
        left, arrived = list(messages), list[Arrived]()
        while left:
            asked = {"messages": left, "seconds": 0.0 if arrived else seconds}
            response = self._ask("POST", f"{self._path}/answers", json.dumps(asked).encode())
            content = _read(response)
            if response.status != 200:
                break
            message = response.headers[MESSAGE]
            left.remove(message)
            lost = LOST in response.headers
            arrived.append(Arrived(message, int(response.headers[NODE]), None if lost else content))
        return arrived

    def close(self) -> None:
        """End the run at the server."""
        self._connection.close()
        self._began.close()
        self._kept.close()

    def _ask(self, method: str, path: str, body: bytes = b"") -> HTTPResponse:
        response = self._connection.ask(method, path, body)
        if response.status == 410:
            raise MachineError(f"The federation's server was started again: {_read(response).decode()}.")
        return response


def _read(response: HTTPResponse) -> bytes:
    try:
        return response.read()
    except (OSError, HTTPException) as error:
        raise MachineError("The federation's server has ended.") from error
