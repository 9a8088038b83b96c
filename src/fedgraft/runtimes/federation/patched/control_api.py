"""The SuperLink's control interface, asked from this process: a command of Flower's takes a second to start."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeVar

import click
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.cli.utils import flwr_cli_exc_handler
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StopRunRequest,
    UnregisterNodeRequest,
)
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.run_pb2 import Run
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from fedgraft.errors import InputError
from fedgraft.runtimes.federation.child import no_proxy
from fedgraft.runtimes.federation.folders import FederationFolder

Answer = TypeVar("Answer")


class Refused(Exception):
    """The SuperLink does not answer, or refuses; in Flower's words."""


def registered(folder: FederationFolder, name: str) -> int:
    """Make a node's public key known; return the node's id. Raises `InputError` for a file that is no key."""
    request = RegisterNodeRequest(public_key=key_of(folder, name), name=name)
    return int(_asked(folder, lambda client: client.RegisterNode(request)).node_id)


def unregister(folder: FederationFolder, node: int) -> None:
    """Have a node refused from now on."""
    _asked(folder, lambda client: client.UnregisterNode(UnregisterNodeRequest(node_id=node)))


def key_of(folder: FederationFolder, name: str) -> bytes:
    """Return a node's public key as Flower has it. Raises `InputError` for a file that is no key."""
    path = folder.public_key(name)
    try:
        key = load_ssh_public_key(path.read_bytes())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path} is no public key of OpenSSH: {error}.") from error
    if not isinstance(key, EllipticCurvePublicKey):
        raise InputError(f"{path} must be a key on an elliptic curve; got {type(key).__name__}.")
    return public_key_to_bytes(key)


def nodes(folder: FederationFolder) -> list[tuple[int, str, str | None, bytes]]:
    """Return the nodes: id, status, when they came to have it, and public key."""
    listed = _asked(folder, lambda client: client.ListNodes(ListNodesRequest())).nodes_info
    return [(node.node_id, node.status, _since(_change(node)), node.public_key) for node in listed]


def runs(folder: FederationFolder) -> list[tuple[str, str, str | None]]:
    """Return the runs, the newest first: id, status such as "finished:failed", and when they came to have it."""
    listed = _asked(folder, lambda client: client.ListRuns(ListRunsRequest())).run_dict.values()
    newest = sorted(listed, key=lambda run: run.pending_at, reverse=True)
    return [(str(run.run_id), _status(run), _since(_step(run))) for run in newest]


def stopped(folder: FederationFolder, run: str) -> bool:
    """Stop a run; return whether it was running."""
    return _asked(folder, lambda client: client.StopRun(StopRunRequest(run_id=int(run)))).success


def _asked(folder: FederationFolder, ask: Callable[[ControlHttpClient], Answer]) -> Answer:
    try:
        with flwr_cli_exc_handler(), _client(folder) as client:
            return ask(client)
    except click.ClickException as error:
        raise Refused(error.format_message()) from error


@contextmanager
def _client(folder: FederationFolder) -> Iterator[ControlHttpClient]:
    os.environ.update(no_proxy())  # a proxy leads away from this machine
    trust = None if folder.insecure else folder.authority.read_bytes()
    version = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
    client = ControlHttpClient.from_server_address(folder.own_address, folder.insecure, trust, [version])
    try:
        yield client
    finally:
        client.close()


def _change(node: NodeInfo) -> str:
    changes = {"online": node.last_activated_at, "offline": node.last_deactivated_at}
    return changes.get(node.status, node.registered_at)


def _step(run: Run) -> str:
    return run.finished_at or run.running_at or run.starting_at or run.pending_at


def _status(run: Run) -> str:
    return ":".join(filter(None, (run.status.status, run.status.sub_status)))


def _since(time: str) -> str | None:
    """Return a time to the second, in UTC."""
    return f"{datetime.fromisoformat(time).astimezone(UTC):%Y-%m-%d %H:%M:%SZ}" if time else None
