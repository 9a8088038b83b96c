"""What is asked of the SuperLink: to register nodes, to list them, to run, stop and show."""

import json
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from fedgraft.errors import InputError, MachineError
from fedgraft.runtimes.flower_federation.child import environment, programs
from fedgraft.runtimes.flower_federation.folders import SUPERLINK, FederationFolder

CALL_SECONDS: Final = 120.0
UNREACHABLE: Final = "Connection to the SuperLink is unavailable"
"""What Flower's commands say where nothing answers."""
KNOWN_KEY: Final = "Public key already in use"
"""What they say of a key that is registered, or was once."""


def register(folder: FederationFolder, name: str) -> int:
    """Make a node's public key known to the SuperLink; return the node's id."""
    key = str(folder.public_key(name))
    return int(_json(folder, "supernode", "register", key, SUPERLINK, "--name", name)["node-id"])


def nodes(folder: FederationFolder) -> list[dict[str, Any]]:
    """Return what the SuperLink knows of nodes: "node-id", "status" and times."""
    found: list[dict[str, Any]] = _json(folder, "supernode", "list", SUPERLINK).get("nodes", [])
    return found


def runs(folder: FederationFolder) -> list[dict[str, Any]]:
    """Return the SuperLink's runs: "run-id", "status" and times."""
    found: list[dict[str, Any]] = _json(folder, "ls", SUPERLINK).get("runs", [])
    return found


def submit(folder: FederationFolder, config: Mapping[str, str]) -> str:
    """Have the federation's app run; return the id of the run at Flower."""
    given = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
    return str(_json(folder, "run", str(folder.app), SUPERLINK, "--run-config", given)["run-id"])


def stop(folder: FederationFolder, run: str) -> None:
    """Stop a run at once."""
    _json(folder, "stop", run, SUPERLINK)


def status_of(folder: FederationFolder, run: str) -> str:
    """Return a run's status, such as "running" or "finished:failed"; "" for a run that is not known."""
    return next((str(each["status"]) for each in runs(folder) if str(each["run-id"]) == run), "")


def log_of(folder: FederationFolder, run: str) -> str:
    """Return the last line of a run's log."""
    lines = [line for line in _call(folder, "log", run, SUPERLINK, "--show").splitlines() if line.strip()]
    return lines[-1] if lines else "no word"


def _json(folder: FederationFolder, *arguments: str) -> dict[str, Any]:
    said = _call(folder, *arguments, "--format", "json")
    try:
        found: dict[str, Any] = json.loads(said[said.index("{") :])
    except ValueError as error:
        raise MachineError(f"'flwr {arguments[0]}' said something unexpected: {said.strip()[:200]!r}.") from error
    if found.get("success") is False:
        # what it was about to do, an empty line, and what went wrong
        raise _failed(folder, " ".join(str(found.get("error-message", "")).partition("\n\n")[2].split()))
    return found


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
        raise InputError("A federation needs the package flwr: pip install 'fedgraft[flower]'.") from error
    except subprocess.TimeoutExpired as error:
        raise MachineError(f"The SuperLink at {folder.address} does not answer.") from error
    if done.returncode and "{" not in done.stdout:
        said = [line.strip(" │╭╰─╮╯") for line in (done.stderr or done.stdout).splitlines()]
        lines = [line for line in said if line and line != "Error"] or ["no word"]
        raise _failed(folder, lines[-1])
    return done.stdout


def _failed(folder: FederationFolder, why: str) -> MachineError:
    """Return the error for what Flower's command says."""
    if UNREACHABLE in why:
        start = f"start it with 'fedgraft federation start {folder.path}'"
        return MachineError(f"No SuperLink answers at {folder.address}; {start}.")
    return MachineError(f"The SuperLink at {folder.address} says: {why}")
