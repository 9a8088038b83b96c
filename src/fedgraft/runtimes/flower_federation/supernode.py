"""Flower's SuperNode as a child of the node's own process."""

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from fedgraft.runtimes.flower_federation.child import Child, environment, programs


def supernode(address: str, trust: Sequence[str], config: Mapping[str, Any], log: IO[bytes], home: Path) -> Child:
    """Start a process that fetches messages from the SuperLink and starts ClientApps.

    Args:
        address: of the SuperLink, "host:port".
        trust: Flower's options for TLS and authentication.
        config: of the node, for its ClientApp.
        log: where its output goes.
        home: Flower's own folder, where it installs apps.
    """
    said = " ".join(f"{key}={_quoted(value)}" for key, value in config.items())
    port = ["--host", "127.0.0.1", "--port", str(_free_port())]
    command = [str(programs() / "flower-supernode"), "--superlink", address, *trust, *port, "--node-config", said]
    return Child(command, environment(home), log)


def _quoted(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"'{value}'"


def _free_port() -> int:
    """Return a port of this machine that is free now, for the SuperNode's own API."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
