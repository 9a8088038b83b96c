"""The server's interface for its own machine: a Unix socket in the federation's folder, for its owner alone."""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Final

from fedgraft.errors import MachineError
from fedgraft.runtimes.federation.folders import FederationFolder

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
