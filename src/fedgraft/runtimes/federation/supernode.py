"""Flower's SuperNode as a child of the node's own process, which executes its tasks."""

import os
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from fedgraft.runtimes.federation.child import UNANSWERED, Child, environment

PROGRAM: Final = "fedgraft.runtimes.federation.patched.quick_supernode"
_PRIVATE: Final = 0o600


class SuperNode:
    """A process that fetches messages from the SuperLink, and brings the answers there.

    Args:
        address: of the SuperLink, "host:port".
        trust: Flower's options for TLS and authentication.
        home: Flower's own folder.
        log: where its output goes.
        unanswered: seconds that it holds a message which nobody is answering, before it ends to be begun anew; 0 = for
            ever.
    """

    def __init__(self, address: str, trust: Sequence[str], home: Path, log: IO[bytes], unanswered: int = 0) -> None:
        self._port, self._secret = _free_port(), secrets.token_hex(32).encode()
        home.mkdir(parents=True, exist_ok=True)
        self._file = home / "secret"
        with suppress(FileNotFoundError):
            self._file.unlink()
        with open(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
            file.write(self._secret)
        own = ["--host", "127.0.0.1", "--port", str(self._port), "--isolation", "process"]
        own += ["--superexec-auth-secret-file", str(self._file)]
        command = [sys.executable, "-m", PROGRAM, "--superlink", address, *trust, *own]
        self._child = Child(command, {**environment(home), UNANSWERED: str(unanswered)}, log)

    def serve(self, answer: Callable[[bytes], bytes], stop: Callable[[], bool]) -> None:
        """Answer messages until told to stop, or until the SuperNode ends."""
        from fedgraft.runtimes.federation.patched.executor import execute_tasks

        execute_tasks(self._port, self._secret, answer, lambda: stop() or self._child.ended())

    def wait(self) -> int:
        """Wait until it ends; return its exit code."""
        return self._child.wait()

    def close(self) -> None:
        """End it; it says goodbye to the SuperLink."""
        self._child.close()
        self._file.unlink(missing_ok=True)


def _free_port() -> int:
    """Return a port of this machine that is free now, for the SuperNode's own interface."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
