"""Nodes that several clients have: each keeps its own copy, and an edge joins copies of every two of these clients.

Such an edge carries nothing. It is claimed like an edge to another client's node (`borders`), by the names of both
clients and the id: what exactly both claim is joined.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.border_columns import AUTO, SHOWN
from fedgraft.domains.nodes.reading.borders import Border
from fedgraft.domains.tables.rows import Cells, Rows
from fedgraft.errors import InputError, nearest
from fedgraft.wire.layouts import Array

SHARED_WITH: Final = "shared_with"
"""Role of the column of nodes that says which other clients have a node, too."""
DOMAIN: Final = "copies"
"""Last of the texts by which such an edge is claimed, so that it is none that is listed."""
SEPARATOR: Final = ";"
"""Between names of clients in a cell."""
Sharing: TypeAlias = Literal["", "column", "auto"]
"""How it is known which nodes several clients have: there are none, a column says it, or by ids among all."""


def sharing_of(shared_with: str) -> Sharing:
    """Return how the option says it."""
    return AUTO if shared_with == AUTO else "column" if shared_with else ""


@dataclass(frozen=True, eq=False)
class Copies:
    """Which nodes are said to be others', too: by the cells of a column, one for each node; None = all by everybody."""

    cells: Cells | None

    @classmethod
    def of(cls, sharing: Sharing, rows: Rows) -> "Copies | None":
        """Return those of rows of nodes; None where there are none. Raises `InputError` where there is no column."""
        if sharing != "column":
            return cls(None) if sharing else None
        if SHARED_WITH not in rows:
            column = rows.names[SHARED_WITH]
            raise InputError(f"{rows.where}: no column {column!r} (data.{SHARED_WITH}).{nearest(column, rows)}")
        return cls(rows[SHARED_WITH])

    def check(self, names: Sequence[str]) -> None:
        """Raise `InputError` for a column that names somebody, but no client."""
        if self.cells is None or not len(self.cells.filled):
            return
        named = {name for cell in self.cells.filled.tolist() for name in _names(self.cells, cell)}
        if named.isdisjoint(names):
            raise self.cells.error(
                self.cells.filled[:1], "the name of a client", hint=nearest(min(named, default=""), names)
            )

    def added(self, border: Border, nodes: Indices, ids: Array, client: int, names: Sequence[str]) -> Border:
        """Return a client's border with edges to copies of its nodes behind the others.

        Args:
            border: of the client.
            nodes: int64 [own], which of all nodes its own are.
            ids: texts of these.
            client: its number.
            names: of all clients.
        """
        if self.cells is None:
            others = np.array([each for each in range(len(names)) if each != client], np.int64)
            place, other = np.repeat(np.arange(len(nodes)), len(others)), np.tile(others, len(nodes))
            notes: list[str] = []
        else:
            place, other, notes = _said(self.cells.take(nodes), client, names)
        sides = [sorted((names[client], names[whose])) for whose in other.tolist()]
        pairs = [(low, name, high, name, DOMAIN) for (low, high), name in zip(sides, ids[place].tolist(), strict=True)]
        first = np.array([names[client] < names[whose] for whose in other.tolist()], bool)
        more = None if border.row is None else np.full(len(place), -1)  # such an edge carries nothing
        return replace(
            border,
            place=np.concatenate([border.place, place]),
            other=np.concatenate([border.other, other]),
            pairs=[*border.pairs, *pairs],
            first=np.concatenate([border.first, first]),
            row=None if border.row is None else np.concatenate([border.row, more]),
            along=None if border.along is None else np.concatenate([border.along, np.ones(len(place), bool)]),
            copies=len(place),
            guessed=self.cells is None,
            remarks=notes,
        )


def _names(cells: Cells, cell: int) -> list[str]:
    """The names in a cell."""
    return [name for name in map(str.strip, cells.text(cell).split(SEPARATOR)) if name]


def _said(cells: Cells, client: int, names: Sequence[str]) -> tuple[Indices, Indices, list[str]]:
    """(place of each node, which other client has it, too, notes on names of nobody and of the client itself)."""
    number = {name: each for each, name in enumerate(names)}
    said: set[tuple[int, int]] = set()
    strangers: list[str] = []
    own = 0
    for place in cells.filled.tolist():
        for name in _names(cells, place):
            if name not in number:
                strangers.append(name)
            elif number[name] == client:
                own += 1
            else:
                said.add((place, number[name]))
    notes = []
    if own:
        notes.append(
            f"{own:,} nodes that column {cells.name!r} says {names[client]!r} itself shares are its own alone."
        )
    if strangers:
        shown, like = (
            ", ".join(map(repr, strangers[:SHOWN])),
            nearest(strangers[0], [name for name in names if name != names[client]]),
        )
        notes.append(f"{len(strangers):,} names in column {cells.name!r} are no client's, such as {shown}.{like}")
    found = np.array(sorted(said), np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1], notes
