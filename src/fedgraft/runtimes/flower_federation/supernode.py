"""Flower's SuperNode as a child of the node's own process."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

ENDING_SECONDS: Final = 10.0
ENVIRONMENT: Final = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
    "OMP_NUM_THREADS": "1",
}
"""What Flower's processes are told: nothing is sent to others or installed, and tasks are looked for often."""


class SuperNode:
    """A process that fetches messages from the SuperLink and starts ClientApps; it ends with this process.

    Args:
        address: of the SuperLink, "host:port".
        trust: Flower's options for TLS and authentication.
        config: of the node, for its ClientApp.
        log: where its output goes.
        home: Flower's own folder, where it installs apps.
    """

    def __init__(
        self, address: str, trust: Sequence[str], config: Mapping[str, Any], log: IO[bytes], home: Path
    ) -> None:
        said = " ".join(f"{key}={_quoted(value)}" for key, value in config.items())
        program = Path(sys.executable).parent / "flower-supernode"
        port = ["--host", "127.0.0.1", "--port", str(_free_port())]
        command = [str(program), "--superlink", address, *trust, *port, "--node-config", said]
        path = os.pathsep.join([str(program.parent), os.environ.get("PATH", "")])
        environment = {**os.environ, **ENVIRONMENT, "PATH": path, "FLWR_HOME": str(home)}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )

    def ended(self) -> bool:
        """Return whether it has ended by itself."""
        return self._process.poll() is not None

    def wait(self) -> int:
        """Wait until it ends; return its exit code."""
        return self._process.wait()

    def close(self) -> None:
        """End it with all that it has started; it says goodbye to the SuperLink."""
        if not self.ended():
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDING_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _quoted(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"'{value}'"


def _free_port() -> int:
    """Return a port of this machine that is free now, for the SuperNode's own API."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
