"""Matching of ids that several clients name: what it takes where all data are here, and the server's part at sites."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from fedgraft import wire
from fedgraft.contracts.abilities.matching import MatchedData
from fedgraft.contracts.data import PeerClients
from fedgraft.contracts.values import Halo
from fedgraft.errors import InputError, WireError
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.discovery import named_as_in_recipes
from fedgraft.experiment.storage import disk
from fedgraft.wire.layouts import Arrays
from fedgraft.wire.masking import (
    ORDER,
    check_answer,
    check_masked,
    check_names_masked,
    matched_masked,
    numbered_masked,
    order_for,
)
from fedgraft.wire.tokens import check_claims, check_names, matched, numbered

Ask: TypeAlias = Callable[[Mapping[int, bytes]], Mapping[int, bytes]]
"""Has clients mask points, and returns what they answer, {client: packed}."""


class _Way(NamedTuple):
    """How claims are checked, (claims, client, how many clients), and joined, (claims, answers of who masks them)."""

    check: Callable[[Arrays, int, int], None]
    joined: Callable[[Mapping[int, Arrays], Mapping[int, Arrays]], dict[int, Arrays]]


_WAYS: Final = {
    (False, False): _Way(check_claims, lambda claims, answers: matched(claims)),
    (False, True): _Way(lambda names, client, clients: check_names(names), lambda names, answers: numbered(names)),
    (True, False): _Way(check_masked, matched_masked),
    (True, True): _Way(lambda names, client, clients: check_names_masked(names), numbered_masked),
}
"""By whether they are masked, and whether things are claimed, which get numbers, or edges."""

CLAIMED: Final = "claimed"
"""What a site calls, of what it says of itself, its edges to others."""


def matched_here(experiment: Job) -> Job:
    """Return the experiment with what it takes to match ids where the data of all are here."""
    data = experiment.data
    if not isinstance(data, MatchedData) or not data.matches:
        return experiment
    with named_as_in_recipes({"data": type(data)}):
        return experiment.after(matching=data.matching)


def matched_at_sites(
    experiment: Job, claimed: Mapping[int, bytes], clients: int, ask: Ask = lambda orders: {}
) -> tuple[Job, dict[int, bytes]]:
    """Return the experiment with what matching took, and what each of so many clients is told, packed.

    `claimed` is what clients have told of their edges, packed. Who has told nothing is told that nothing was joined.
    Where claims are masked, `ask` has the other sides mask them, too. Raises `InputError` for what no client can have
    claimed or answered.
    """
    data = experiment.data
    kind = (data.is_private, data.is_numbered) if isinstance(data, MatchedData) else (False, False)
    check, joined = _WAYS[kind]
    what = "users" if kind[1] else "edges to others"
    claims = _checked(claimed, what, lambda client, arrays: check(arrays, client, clients))
    orders: dict[int, bytes] = {}
    answered: Mapping[int, bytes] = {}
    answers: Mapping[int, Arrays] = {}
    if kind[0]:
        points = {client: order_for(client, claims, clients) for client in claims}
        orders = {client: wire.pack({**each}) for client, each in points.items()}
        answered = {client: each for client, each in ask(orders).items() if client in orders}
        answers = _checked(answered, what, lambda client, arrays: check_answer(arrays, points[client]))
    told = {client: wire.pack({**each}) for client, each in joined(claims, answers).items()}
    sizes = {
        client: (len(told[client]) + len(orders.get(client, b"")), len(each) + len(answered.get(client, b"")))
        for client, each in claimed.items()
    }
    nothing = dict.fromkeys(range(clients), wire.pack({}))
    return experiment.after(matching=sizes), {**nothing, **told}


def _checked(packed: Mapping[int, bytes], what: str, check: Callable[[int, Arrays], None]) -> dict[int, Arrays]:
    """What clients have sent, such as their edges to others. Raises `InputError` for what does not pass."""
    checked: dict[int, Arrays] = {}
    for client, each in packed.items():
        try:
            checked[client] = _arrays(each)
            check(client, checked[client])
        except WireError as error:
            raise InputError(f"Client {client} has told what are no {what}: {error}.") from error
    return checked


def cross_client_nodes(told: Mapping[int, bytes]) -> dict[int, Halo]:
    """Return {client: the nodes of others that its edges were joined to}, of what clients were told."""
    joined = {}
    for client, each in told.items():
        addresses = _arrays(each)
        owner, place = (addresses.get(name, np.zeros(0, np.int64)).astype(np.int64) for name in ("owner", "place"))
        joined[client] = Halo(owner[owner >= 0], place[owner >= 0])
    return joined


def order_in(told: bytes) -> Arrays | None:
    """Return the points that a client is to mask; None where it is told something else.

    Raises `InputError` for what no server can have told.
    """
    if not told:
        return None
    try:
        arrays = _arrays(told)
    except WireError as error:
        raise InputError(f"The server has sent something that is no answer to edges to others: {error}.") from error
    return arrays if arrays.keys() == ORDER.names else None


def neighbours_of(clients: tuple[str, ...], told: bytes) -> PeerClients:
    """Return what a site knows of the others; `told` is what the server made of its claims, b"" for nothing yet.

    Raises `InputError` for what no server can have made.
    """
    try:
        return PeerClients(clients, _arrays(told) if told else None)
    except WireError as error:
        raise InputError(f"The server has sent something that is no answer to edges to others: {error}.") from error


def write_told(path: Path, told: Mapping[int, bytes]) -> None:
    """Keep what clients of a run are told of their edges to others, for who takes the run up; {} leaves no file."""
    if told:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = wire.pack({str(client): each for client, each in told.items()})
        disk.replace(path.parent, {path.name: disk.encrypted(content)}, disk.PRIVATE)


def read_told(path: Path) -> dict[int, bytes]:
    """Return what `write_told` has kept; {} where it has nothing. Raises `InputError` for a file that is damaged."""
    if not path.is_file():
        return {}
    try:
        tree: Any = wire.unpack(disk.unsealed(disk.read_bytes(path)))
    except WireError as error:
        raise InputError(f"{path} is damaged: {error}.") from error
    return {int(client): bytes(each) for client, each in tree.items()}


def _arrays(packed: bytes) -> Arrays:
    tree: Any = wire.unpack(packed)
    if not isinstance(tree, dict) or not all(isinstance(each, np.ndarray) for each in tree.values()):
        raise WireError("it holds no arrays")
    return tree
