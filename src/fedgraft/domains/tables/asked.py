"""Say whose what is asked is."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.tables.rows import Rows
from fedgraft.errors import InputError, unknown

Places: TypeAlias = dict[int, int]
"""{client that has a node: which of its nodes}."""


def clients_said(rows: Rows, names: Sequence[str]) -> Indices:
    """Return the number of the client that each row of questions names in a column "client"; -1 for none.

    Args:
        rows: of questions.
        names: of all clients, in order.
    """
    said = np.full(len(rows), -1)
    if "client" not in rows:
        return said
    number = {name: each for each, name in enumerate(names)}
    for row, value in enumerate(rows["client"].values.tolist()):
        if pd.isna(value):
            continue
        # Whole numbers become floats where a table lacks some of them.
        name = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        if name not in number:
            raise InputError(f"{rows.row(row)}: {unknown('client', name, number)}")
        said[row] = number[name]
    return said


def places_known(
    rows: Rows, ids: NDArray[np.object_], owners: Callable[[str], Mapping[int, int]], names: Sequence[str]
) -> tuple[Indices, Indices]:
    """Return (client, place among its nodes) of each row; for a new node what the row says of the client, and -1.

    Args:
        rows: of questions about nodes.
        ids: object [rows], theirs.
        owners: returns who has a node, and where.
        names: of all clients, in order.

    Raises `InputError` for a node of several clients of which the row names none, and of others than it names.
    """
    client, place = clients_said(rows, names), np.full(len(ids), -1)
    for row, name in enumerate(ids):
        every, said = owners(name), int(client[row])
        mine = [number for number in every if said in (-1, number)]
        if len(mine) == 1:
            client[row], place[row] = mine[0], every[mine[0]]
        elif every:
            whose = " and ".join(repr(names[number]) for number in every)
            why = f"of clients {whose}; a column 'client' must say whose is meant"
            why = why if mine else f"of client {whose}, not of {names[said]!r}"
            raise InputError(f"{rows.row(row)}: node {name!r} is {why}.")
    return client, place


def ids_near(ids: Sequence[NDArray[np.object_]], client: Indices) -> Callable[[int], list[str]]:
    """Return what returns the ids that a new node can be meant to have, given its number.

    Args:
        ids: of the nodes that each client has.
        client: int64 [new], whose each new node is; -1 where nothing says so.
    """
    return lambda new: [str(name) for each in (ids if client[new] < 0 else [ids[client[new]]]) for name in each]
