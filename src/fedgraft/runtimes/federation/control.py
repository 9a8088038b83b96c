"""Ask the SuperLink to register nodes, to list them, to run, stop and show."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from fedgraft.errors import InputError, MachineError
from fedgraft.runtimes.federation.child import environment, last_of, programs
from fedgraft.runtimes.federation.folders import SUPERLINK, FederationFolder

CALL_SECONDS: Final = 120.0
MISSING: Final = "A federation needs the package flwr: pip install 'fedgraft[flower]'."
UNREACHABLE: Final = "Connection to the SuperLink is unavailable"
"""What Flower's commands say where nothing answers."""
KNOWN_KEY: Final = "Public key already in use"
"""What they say of a key that is registered, or was once."""


class Standing(NamedTuple):
    """What the SuperLink knows of a node or of a run: its id at Flower and its status, since a time in UTC.

    A status is such as "online", or "finished:failed". A node has a public key, as `key_of` has it.
    """

    id: str
    status: str
    since: str | None
    key: bytes = b""


def register(folder: FederationFolder, name: str) -> int:
    """Make a node's public key known to the SuperLink; return the node's id."""
    with _asking(folder) as api:
        return int(api.registered(folder, name))


def unregister(folder: FederationFolder, node: int) -> None:
    """Have the SuperLink refuse a node and its key, for ever."""
    with _asking(folder) as api:
        api.unregister(folder, node)


def key_of(folder: FederationFolder, name: str) -> bytes:
    """Return a node's public key as the SuperLink has it. Raises `InputError` for a file that is no key."""
    with _asking(folder) as api:
        return bytes(api.key_of(folder, name))


def nodes(folder: FederationFolder) -> dict[int, Standing]:
    """Return what the SuperLink knows of nodes, by id."""
    with _asking(folder) as api:
        return {node: Standing(str(node), *known) for node, *known in api.nodes(folder)}


def runs(folder: FederationFolder) -> list[Standing]:
    """Return the SuperLink's runs, the newest first."""
    with _asking(folder) as api:
        return [Standing(*known) for known in api.runs(folder)]


def stop(folder: FederationFolder, run: str) -> None:
    """Stop a run at once."""
    with _asking(folder) as api:
        if not api.stopped(folder, run):
            raise _failed(folder, f"Run {run} could not be stopped.")


def status_of(folder: FederationFolder, run: str) -> str:
    """Return a run's status; "" for a run that is not known."""
    return next((each.status for each in runs(folder) if each.id == run), "")


def submit(folder: FederationFolder, config: Mapping[str, str]) -> str:
    """Have the federation's app run; return the id of the run at Flower."""
    settings = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
    return str(_json(folder, "run", str(folder.app), SUPERLINK, "--run-config", settings)["run-id"])


def log_of(folder: FederationFolder, run: str) -> str:
    """Return the last line of a run's log."""
    return last_of(_call(folder, "log", run, SUPERLINK, "--show"))


@contextmanager
def _asking(folder: FederationFolder) -> Iterator[Any]:
    """Yield what asks the control interface. Raises `MachineError` where that refuses."""
    try:
        from fedgraft.runtimes.federation.patched import control_api
    except ModuleNotFoundError as error:
        raise InputError(MISSING) from error
    try:
        yield control_api
    except control_api.Refused as error:
        raise _failed(folder, str(error)) from error


def _json(folder: FederationFolder, *arguments: str) -> dict[str, Any]:
    output = _call(folder, *arguments, "--format", "json")
    try:
        response: dict[str, Any] = json.loads(output[output.index("{") :])
    except ValueError as error:
        raise MachineError(f"'flwr {arguments[0]}' said something unexpected: {output.strip()[:200]!r}.") from error
    if response.get("success") is False:
        # what it was about to do, an empty line, and what went wrong
        raise _failed(folder, " ".join(str(response.get("error-message", "")).partition("\n\n")[2].split()))
    return response


def _call(folder: FederationFolder, *arguments: str) -> str:
    command = [str(programs() / "flwr"), *arguments]
    try:
        done = subprocess.run(
            command,
            env=environment(folder.home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,  # Ctrl-C is for the command of ours, which waits for this one
            text=True,
            timeout=CALL_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise InputError(MISSING) from error
    except subprocess.TimeoutExpired as error:
        raise MachineError(f"The SuperLink at {folder.address} does not answer.") from error
    if done.returncode and "{" not in done.stdout:
        stripped = [line.strip(" │╭╰─╮╯") for line in (done.stderr or done.stdout).splitlines()]
        raise _failed(folder, next((line for line in reversed(stripped) if line and line != "Error"), "no word"))
    return done.stdout


def _failed(folder: FederationFolder, why: str) -> MachineError:
    """Return the error for what Flower's command says."""
    if UNREACHABLE in why:
        start = f"start it with 'fedgraft federation start {folder.path}'"
        return MachineError(f"No SuperLink answers at {folder.address}; {start}.")
    return MachineError(f"The SuperLink at {folder.address} says: {why}")
