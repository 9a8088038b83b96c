"""A node's own process, which lives on between messages, behind a socket that only its owner can open.

Flower starts a process for every message. It hands the message on to the node's process, where the data are prepared
and a round may wait, and takes the answer back.
"""

import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

_LENGTH: Final = struct.Struct(">Q")
MOST_BYTES: Final = 1 << 31
"""Most bytes of a message; more is refused before it is read."""


def ask(path: str, message: bytes) -> bytes:
    """Send a message to the process behind a socket and return its answer.

    Raises `OSError` where nobody listens, and `EOFError` where there is no answer.
    """
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        _send(link, message)
        return _receive(link)


def listen(path: Path, answer: Callable[[bytes], bytes], stop: Callable[[], bool]) -> None:
    """Answer messages, one at a time, until told to stop. What `answer` raises ends that connection alone.

    Args:
        path: of the socket; made anew.
        answer: returns the answer to a message.
        stop: says when to end; asked every second.
    """
    path.unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
    finally:
        os.umask(before)
    with server:
        server.listen()
        server.settimeout(1.0)
        while not stop():
            try:
                link, _ = server.accept()
            except TimeoutError:
                continue
            with link:
                link.settimeout(None)
                try:
                    _send(link, answer(_receive(link)))
                except (OSError, EOFError):
                    continue
    path.unlink(missing_ok=True)


def _send(link: socket.socket, message: bytes) -> None:
    link.sendall(_LENGTH.pack(len(message)))
    link.sendall(message)


def _receive(link: socket.socket) -> bytes:
    (size,) = _LENGTH.unpack(_exactly(link, _LENGTH.size))
    if size > MOST_BYTES:
        raise EOFError(f"a message of {size} bytes; at most {MOST_BYTES} are taken")
    return _exactly(link, size)


def _exactly(link: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = link.recv(min(1 << 20, size - len(found)))
        if not part:
            raise EOFError("the connection ended")
        found += part
    return bytes(found)
