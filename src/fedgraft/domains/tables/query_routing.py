"""Say whose what is asked is."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fedgraft.contracts.values import Indices
from fedgraft.domains.tables.rows import Rows
from fedgraft.errors import InputError, unknown

Places: TypeAlias = dict[int, int]
"""{client that has a node: which of its nodes}."""


def owners_of(ids: Sequence[Iterable[object]], wanted: Collection[str]) -> dict[str, Places]:
    """Return who has which of the wanted ids, of those of each client; compared as text, as files hold them."""
    owners: dict[str, Places] = {}
    for number, own in enumerate(ids):
        for place, name in enumerate(map(str, own)):
            if name in wanted:
                owners.setdefault(name, {})[number] = place
    return owners


def groups_of(new: Sequence[Hashable], pairs: Iterable[tuple[Hashable, Hashable]]) -> list[int]:
    """Return the group of each new node: those that edges between new nodes join are one."""
    number = {node: each for each, node in enumerate(new)}
    inner = [[number[end] for end in pair] for pair in pairs if {*pair} <= number.keys()]
    ends = np.array(inner, np.int64).reshape(-1, 2).T
    joined = sparse.coo_matrix((np.ones(len(inner)), (ends[0], ends[1])), shape=(len(number), len(number)))
    groups: list[int] = connected_components(joined, directed=False)[1].tolist()
    return groups


def feature_columns(tables: Mapping[str, pd.DataFrame], width: int) -> list[str]:
    """Return the columns of features: those that the table "features" names, else "0", "1" ..."""
    return [str(name) for name in (tables["features"]["name"] if "features" in tables else range(width))]


def clients_said(rows: Rows, names: Sequence[str], role: str = "client", nobody: int | None = None) -> Indices:
    """Return the number of the client that each row's column of a role says, by its name, int64 [rows]; -1 for none.

    Of equal names the first one counts. A name of no client is `nobody`; None raises `InputError`.
    """
    client = np.full(len(rows), -1)
    if role not in rows:
        return client
    number = {name: each for each, name in reversed([*enumerate(names)])}
    for row, value in enumerate(rows[role].values.tolist()):
        if pd.isna(value):
            continue
        # Whole numbers become floats where a table lacks some of them.
        name = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        if name not in number and nobody is None:
            raise InputError(f"{rows.row(row)}: {unknown('client', name, number)}")
        client[row] = number.get(name, nobody)
    return client


def places_known(
    rows: Rows, ids: NDArray[np.object_], owners: Callable[[str], Mapping[int, int]], names: Sequence[str]
) -> tuple[Indices, Indices]:
    """Return (client, place among its nodes) of each row; for a new node what the row says of the client, and -1.

    The rows' ids are object [rows]. `owners` returns who has a node, and where; `names` are all clients', in order.
    Raises `InputError` for a node of several clients of which the row names none, and of others than it names.
    """
    client, place = clients_said(rows, names), np.full(len(ids), -1)
    for row, name in enumerate(ids):
        every, named = owners(name), int(client[row])
        mine = [number for number in every if named in (-1, number)]
        if len(mine) == 1:
            client[row], place[row] = mine[0], every[mine[0]]
        elif every:
            whose = " and ".join(repr(names[number]) for number in every)
            why = f"of clients {whose}; a column 'client' must say whose is meant"
            why = why if mine else f"of client {whose}, not of {names[named]!r}"
            raise InputError(f"{rows.row(row)}: node {name!r} is {why}.")
    return client, place


def ids_near(ids: Sequence[NDArray[np.object_]], client: Indices) -> Callable[[int], list[str]]:
    """Return what tells the ids that a new node, by its number, can be meant to have: all that its client has.

    `ids` are those of each client; `client`, int64 [new], is whose each new node is, -1 where nothing says so.
    """
    return lambda new: [str(name) for each in (ids if client[new] < 0 else [ids[client[new]]]) for name in each]
