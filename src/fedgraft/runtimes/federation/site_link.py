"""The way from a node to its server: one connection, by which it asks for orders and brings answers.

A thread asks, so that the node's own, in which orders are answered, can be told to end at any time. While an order is
answered the thread says every few seconds that the node is at work.
"""

import io
import json
import logging
import random
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from queue import Empty, Queue
from typing import Final, NamedTuple
from urllib.request import getproxies, proxy_bypass

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fedgraft.errors import FedgraftError, InputError, MachineError, printable
from fedgraft.runtimes.federation.audit import load_private
from fedgraft.runtimes.federation.folders import NodeFolder
from fedgraft.runtimes.federation.signed_requests import MESSAGE, VERSION, Signer

LOG = logging.getLogger("fedgraft.node")
BEAT_SECONDS: Final = 5.0
"""Seconds between two signs of life of a node at work."""
LOOK_SECONDS: Final = 0.1
SILENCE_SECONDS: Final = 60.0
"""How long nothing may come, or go, until a connection counts as lost; three times as long as a server holds it."""
AGAIN_SECONDS: Final = (0.5, 10.0)
"""Seconds until a lost connection is tried again: at first, and at most."""
FREE_SECONDS: Final = 120.0
"""How long to try to join where the server holds another process with this key for connected."""
KEY_HINT: Final = "It was removed, has been given another one, or was not added yet: ask the server's operator."
MOST_ORDER: Final = 1 << 31
"""Most bytes of an order."""
_PART: Final = 1 << 16


class _Order(NamedTuple):
    message: str
    content: bytes


class _Refused(Exception):
    """The server refuses a request.

    Args:
        status: of HTTP.
        why: in its words.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class SiteLink:
    """A node's way to the server; arguments as of `NodeFolder`.

    A server that is not there is tried again without end, and so is a connection that is lost: what was not answered
    is answered then.
    """

    def __init__(self, folder: NodeFolder) -> None:
        self._folder = folder
        self._connection: HTTPConnection | None = None
        self._given: Queue[_Order | FedgraftError] = Queue()
        self._answers: Queue[bytes] = Queue()
        self._message, self._answer = "", b""
        self._has_answer = self._ended = self._is_lost = False
        self._join_until = 0.0
        self._load()

    def serve(self, answer: Callable[[bytes], bytes], stop: Callable[[], bool]) -> None:
        """Answer orders until told to stop. Raises `MachineError` where the server lets this node not in."""
        threading.Thread(target=self._carry, name="federation-node", daemon=True).start()
        try:
            while not stop():
                with suppress(Empty):
                    given = self._given.get(timeout=LOOK_SECONDS)
                    if isinstance(given, FedgraftError):
                        raise given
                    self._answers.put(_answered(answer, given.content))
        finally:
            self._ended = True
            self._leave()

    # --- in the thread -----------------------------------------------------------------------------------------------

    def _carry(self) -> None:
        pause = AGAIN_SECONDS[0]
        while not self._ended:
            try:
                self._step()
                pause = AGAIN_SECONDS[0]
                continue
            except _Refused as error:
                end = self._refused(error)
            except ssl.SSLCertVerificationError as error:
                why = f"it is not known by {self._folder.certificate}"
                end = MachineError(f"{self._folder.address} is not this federation's server: {why} ({error.reason}).")
            except FedgraftError as error:
                end = error
            except (OSError, HTTPException) as error:
                end = None
                self._say_lost(str(error) or type(error).__name__)
            except Exception as error:  # the node must not wait for a thread that is gone
                end = MachineError(f"{self._folder.address} says something unexpected: {error!r}.")
            self._close()
            if end is not None:
                self._given.put(end)
                return
            time.sleep(pause * (0.5 + random.random() / 2))
            pause = min(2 * pause, AGAIN_SECONDS[1])
        self._close()

    def _step(self) -> None:
        """Ask the next thing."""
        if not self._joined:
            self._join()
        elif not self._message:
            response = self._ask("/next")
            if response.status == 200:
                self._message = response.headers[MESSAGE]
                self._given.put(_Order(self._message, _read(response)))
        elif self._has_answer or self._is_answered():
            with suppress(_Gone):
                self._ask(f"/answer/{self._message}", self._answer)
            self._message, self._answer, self._has_answer = "", b"", False
        else:
            self._ask("/alive")

    def _is_answered(self) -> bool:
        """Wait a while for the answer to the order at hand; return whether it is there."""
        with suppress(Empty):
            self._answer = self._answers.get(timeout=BEAT_SECONDS)
            self._has_answer = True
        return self._has_answer

    def _join(self) -> None:
        response = self._requested("GET", "/hello", b"", {})
        said = json.loads(_read(response))
        if said["version"] != VERSION:
            here = f"of version {VERSION} and the server's of {said['version']}"
            raise MachineError(f"{self._folder.address} has another version of fedgraft: its interface here is {here}.")
        self._signer.session = said["nonce"]
        self._signer.session = _read(self._ask("/join")).decode()
        self._joined, self._join_until = True, 0.0
        if self._is_lost:
            LOG.warning("The server at %s is there again.", self._folder.address)
        self._is_lost = False

    def _refused(self, error: _Refused) -> FedgraftError | None:
        """Return what a refusal ends this node with; None where it is tried again."""
        self._joined = False
        if error.status == 401:
            before = self._signer.public
            self._load()
            if self._signer.public != before:
                return None  # it was given a new key meanwhile
            return MachineError(f"{error}: {self._folder.address} does not know {self._folder.key}. {KEY_HINT}")
        self._join_until = self._join_until or time.monotonic() + FREE_SECONDS
        if error.status == 423 and time.monotonic() > self._join_until:
            return MachineError(f"{self._folder.address} does not let this node in: {error}.")
        if error.status != 409:
            self._say_lost(str(error))
        return None

    def _say_lost(self, why: str) -> None:
        """Say once that this node waits, and for what."""
        if not self._is_lost:
            LOG.warning("The server at %s is tried again and again: %s", self._folder.address, printable(why))
        self._is_lost = True

    # --- requests ----------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Read the key; the server does not know this process by it yet."""
        self._signer = Signer(None if self._folder.insecure else self._folder.key.read_bytes())
        self._joined = False

    def _ask(self, path: str, body: bytes = b"") -> HTTPResponse:
        """Return what the server answers to a signed request. Raises `_Refused` where it refuses."""
        return self._requested("POST", path, body, self._signer.headers(path, body))

    def _requested(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> HTTPResponse:
        if self._connection is None:
            self._connection = connection_of(self._folder)
        content = io.BytesIO(body) if body else None  # in parts, each of which may take its time
        self._connection.request(method, path, content, {**headers, "Content-Length": str(len(body))})
        response = self._connection.getresponse()
        if response.status == 410:
            response.read()
            raise _Gone
        if response.status >= 400:
            raise _Refused(response.status, response.read(_PART).decode(errors="replace"))
        if not int(response.headers.get("Content-Length", 0)):
            response.read()
        return response

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _leave(self) -> None:
        """Say goodbye, by another connection: the thread waits at its own."""
        if self._joined:
            with (
                suppress(OSError, HTTPException, FedgraftError),
                closing(connection_of(self._folder, seconds=2.0)) as connection,
            ):
                connection.request("POST", "/leave", None, self._signer.headers("/leave", b""))
                connection.getresponse().read()


class _Gone(Exception):
    """Nobody waits for an answer any more."""


def connection_of(folder: NodeFolder, seconds: float = SILENCE_SECONDS) -> HTTPConnection:
    """Return a connection to a node's server, by the proxy that the environment names, not opened yet.

    Raises `InputError` where the node's key or its certificate cannot be used.
    """
    host, port = folder.host, folder.port
    kind = "http" if folder.insecure else "https"
    proxy = None if proxy_bypass(f"{host}:{port}") else getproxies().get(kind)
    at = (host, port)
    if proxy:
        name, _, number = proxy.rpartition("//")[2].rpartition("@")[2].rstrip("/").partition(":")
        at = (name, int(number or 80))
    if folder.insecure:
        connection = HTTPConnection(*at, timeout=seconds, blocksize=_PART)
    else:
        connection = HTTPSConnection(*at, timeout=seconds, blocksize=_PART, context=_context(folder))
    if proxy:
        connection.set_tunnel(host, port)
    return connection


def _context(folder: NodeFolder) -> ssl.SSLContext:
    """Return how a node knows its server, and is known."""
    key = load_private(folder.key.read_bytes()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        context = ssl.create_default_context(cafile=str(folder.certificate))
        with tempfile.NamedTemporaryFile(dir=folder.path) as file:  # OpenSSL reads keys from files alone; this is 0600
            file.write(key)
            file.flush()
            context.load_cert_chain(folder.key_certificate, file.name)
    except (ssl.SSLError, OSError) as error:
        files = f"{folder.certificate}, {folder.key_certificate} and {Path(folder.key).name}"
        raise InputError(f"{files} do not fit each other, or are none: {error}.") from error
    return context


def _answered(answer: Callable[[bytes], bytes], content: bytes) -> bytes:
    """Return the answer to an order; nothing for what is no order."""
    try:
        return answer(content)
    except FedgraftError as error:
        LOG.warning("A message is refused: %s", printable(str(error)))
        return b""


def _read(response: HTTPResponse) -> bytes:
    """Return a response's content. Raises `HTTPException` where it is cut short or too long."""
    if int(response.headers.get("Content-Length", 0)) > MOST_ORDER:
        raise HTTPException("an order is too long")
    return response.read()
