"""Flower's SuperLink as a child of the server's own process."""

import socket
import sys
import time
from collections.abc import Callable, Set
from contextlib import suppress
from typing import Final

from fedgraft.errors import MachineError
from fedgraft.runtimes.flower_federation import control
from fedgraft.runtimes.flower_federation.child import Child, environment, last_line
from fedgraft.runtimes.flower_federation.folders import FederationFolder
from fedgraft.runtimes.flower_federation.making import write_connection

START_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 0.1
PROGRAM: Final = "fedgraft.runtimes.flower_federation.patched.guarded_superlink"


class SuperLink:
    """A process that nodes connect to; it starts ServerApps, and ends with this process, however that ends.

    Raises `MachineError` where its port is in use.
    """

    def __init__(self, folder: FederationFolder) -> None:
        self._folder = folder
        _check_free(folder)
        write_connection(folder)  # the folder may have been moved
        if folder.log.exists():
            folder.log.replace(folder.log.with_suffix(".log.1"))
        trust = [
            "--ssl-ca-certfile",
            str(folder.authority),
            "--ssl-certfile",
            str(folder.certificate),
            "--ssl-keyfile",
            str(folder.key),
            "--enable-supernode-auth",
        ]
        command = [sys.executable, "-m", PROGRAM, *(["--insecure"] if folder.insecure else trust)]
        command += ["--database", str(folder.state), "--disable-runtime-dependency-installation"]
        command += ["--host", folder.listens_at, "--port", str(folder.port)]
        with open(folder.log, "wb") as log:
            self._process = Child(command, environment(folder.home), log)

    def wait_until_ready(self, stop: Callable[[], object]) -> None:
        """Wait until it answers, or until `stop()`. Raises `MachineError` where it ends, or takes too long."""
        until = time.monotonic() + START_SECONDS
        while not stop():
            self.check()
            if listens(self._folder):
                return
            if time.monotonic() > until:
                raise MachineError(
                    f"Flower's SuperLink does not answer after {START_SECONDS:g} s: {last_line(self._folder.log)}"
                )
            time.sleep(LOOK_SECONDS)

    def check(self) -> None:
        """Raise `MachineError` where it has ended by itself."""
        if self._process.ended():
            raise MachineError(
                f"Flower's SuperLink has ended (exit code {self._process.wait()}): {last_line(self._folder.log)} More "
                f"is in {self._folder.log}."
            )

    def close(self) -> None:
        """End it, and with it all that it has started."""
        self._process.close()


def listens(folder: FederationFolder) -> bool:
    """Return whether something listens on this machine where the federation's SuperLink does."""
    with suppress(OSError), socket.create_connection((folder.own_host, folder.port), timeout=1.0):
        return True
    return False


def register_all(folder: FederationFolder, stop: Callable[[], object]) -> int:
    """Make every key known that is not yet, until `stop()`; return how many nodes are registered.

    Each id is noted before the next key, so that at most one is not where the server was killed in between.
    Raises `MachineError` where a key is known under an id that cannot be told.
    """
    known = {node for node, standing in control.nodes(folder).items() if standing.status != "unregistered"}
    ids = {name: node for name, node in folder.node_ids().items() if node in known}
    for name in folder.clients:
        if stop():
            break
        if name not in ids and folder.public_key(name).is_file():
            ids[name] = _registered(folder, name, known - set(ids.values()))
            folder.note_node_ids(ids)
    return len(ids)


def _registered(folder: FederationFolder, name: str, unnoted: Set[int]) -> int:
    """Register a node and return its id, also where that was done already and its id is the only unnoted one."""
    try:
        return control.register(folder, name)
    except MachineError as error:
        if control.KNOWN_KEY not in str(error):
            raise
        if len(unnoted) == 1:
            return next(iter(unnoted))
        raise MachineError(
            f"The key of {name} is registered, but nobody noted as which node. End the server, delete {folder.state} "
            "and start it again: all nodes are then registered anew."
        ) from error


def _check_free(folder: FederationFolder) -> None:
    family = socket.AF_INET6 if ":" in folder.listens_at else socket.AF_INET
    try:
        with socket.socket(family) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((folder.listens_at, folder.port))
    except OSError as error:
        raise MachineError(
            f"Port {folder.port} cannot be listened at: {error.strerror}. Is the federation started already? Another "
            f"port is named in {folder.path / 'federation.toml'} and in every node.toml."
        ) from error
