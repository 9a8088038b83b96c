"""Flower's SuperLink as a child of the server's own process."""

import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fedgraft.errors import MachineError
from fedgraft.runtimes.federation import control
from fedgraft.runtimes.federation.child import UNKNOWN_KEY, Child, environment, last_line
from fedgraft.runtimes.federation.folders import FederationFolder
from fedgraft.runtimes.federation.making import write_connection

START_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 0.1
PROGRAM: Final = "fedgraft.runtimes.federation.patched.guarded_superlink"


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
        self._read = 0  # bytes of the log
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

    def strangers(self) -> list[str]:
        """Return a line for each key that was refused since the last such call; each is told of once."""
        with open(self._folder.log, "rb") as log:
            log.seek(self._read)
            new, end, _ = log.read().rpartition(b"\n")
        self._read += len(new + end)
        lines = new.decode(errors="replace").splitlines()
        marks = [line.removeprefix(UNKNOWN_KEY).strip() for line in lines if line.startswith(UNKNOWN_KEY)]
        names = _names_of_refused(self._folder) if marks else {}
        return [f"{UNKNOWN_KEY} {mark}: {names.get(mark, 'no site has it')}; refused." for mark in marks]

    def close(self) -> None:
        """End it, and with it all that it has started."""
        self._process.close()


def _names_of_refused(folder: FederationFolder) -> dict[str, str]:
    """Return {fingerprint: whose key it was} of keys that were removed."""
    from fedgraft.runtimes.federation.certificates import fingerprint

    lines = folder.refused.read_bytes().splitlines() if folder.refused.is_file() else []
    return {fingerprint(line): f"it was {b' '.join(line.split()[2:]).decode()}'s, and was removed" for line in lines}


def listens(folder: FederationFolder) -> bool:
    """Return whether something listens on this machine where the federation's SuperLink does."""
    with suppress(OSError), socket.create_connection((folder.own_host, folder.port), timeout=1.0):
        return True
    return False


def register_all(folder: FederationFolder, stop: Callable[[], object]) -> int:
    """Make the SuperLink know the keys of the folder, and no others, until `stop()`; return how many there are.

    Nodes are told apart by their keys, so that this may be ended and done again at any time. A run that is under way
    goes on. Raises `MachineError` for a key that was removed before: Flower never takes it again.
    """
    known = {each.key: node for node, each in control.nodes(folder).items() if each.status != "unregistered"}
    ids: dict[str, int] = {}
    for name in folder.clients:
        if stop():
            return len(ids)
        if folder.public_key(name).is_file():
            node = known.get(control.key_of(folder, name))
            ids[name] = _registered(folder, name) if node is None else node
    folder.note_node_ids(ids)
    for node in sorted({*known.values()} - {*ids.values()}):
        control.unregister(folder, node)
    return len(ids)


def _registered(folder: FederationFolder, name: str) -> int:
    try:
        return control.register(folder, name)
    except MachineError as error:
        if control.KNOWN_KEY not in str(error):
            raise
        raise MachineError(
            f"The key of {name} was removed before, and stays refused: make it another one with 'fedgraft federation "
            f"rotate {folder.path} {name}'."
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
