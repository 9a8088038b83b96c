"""The way from a run to nodes, by the federation's server on this machine."""

import json
from collections.abc import Collection, Sequence
from http.client import HTTPException, HTTPResponse

from fedgraft.errors import MachineError
from fedgraft.runtimes.federation.folders import FederationFolder
from fedgraft.runtimes.federation.members import Arrived, Link
from fedgraft.runtimes.federation.operator_socket import OperatorConnection
from fedgraft.runtimes.federation.signed_requests import LOST, MESSAGE, NODE


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
