"""Whose the ends of edges are, as options and columns of a table say it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from fedgraft.contracts.option_groups import OptionGroup
from fedgraft.contracts.values import Indices
from fedgraft.domains.tables.rows import Coded, Rows, places_of
from fedgraft.domains.tables.schema import Column
from fedgraft.errors import InputError, nearest
from fedgraft.wire.layouts import Array

AUTO: Final[Literal["auto"]] = "auto"
"""In place of the name of a column of clients: ids are looked for among all."""
ENDS: Final = ("source", "target")
SIDES: Final = ("source_client", "target_client")
"""Roles of the columns that say whose an end is."""
SHARED_WITH: Final = "shared_with"
"""Role of the column of nodes that says who else has one."""
SIDE_COLUMNS: Final = tuple(Column(side, needed=False, silent=True, option=f"data.{side}") for side in SIDES)
"""These columns."""
UNSAID, NOBODY = -2, -3
"""In place of a client: a table does not say whose an end is; it names somebody who is no client."""
Boundaries: TypeAlias = Literal["", "columns", "auto"]
"""How edges between clients are known: not at all, by columns that say whose ends are, or by ids among all."""
Sharing: TypeAlias = Literal["", "column", "auto"]
"""How it is known which nodes several clients have: there are none, a column says it, or by ids among all."""
SHOWN: Final = 3
"""Names of strangers that a note lists."""


def said(links: Rows, clients: Sequence[str]) -> tuple[Indices, tuple[str, ...]]:
    """Return whose the ends are as columns say it, int64 [2, rows], and notes; `UNSAID` where they say nothing.

    Raises `InputError` for a column that is not there, or names no client at all.
    """
    whose = np.full((2, len(links)), UNSAID, np.int64)
    notes = []
    for end, role in enumerate(SIDES):
        if not (column := links.names[role]):
            continue
        if role not in links:
            raise InputError(f"{links.where}: no column {column!r} (data.{role}).{nearest(column, links)}")
        if not len(filled := links[role].filled):
            continue
        code, names = links[role].take(filled).codes()
        number = places_of(np.array(clients), names)
        if strangers := names[number < 0].tolist():
            if len(strangers) == len(names):
                raise links[role].error(filled[:1], "the name of a client", hint=nearest(strangers[0], clients))
            shown = ", ".join(map(repr, strangers[:SHOWN]))
            count, like = np.count_nonzero(number[code] < 0), nearest(strangers[0], clients)
            notes.append(f"{count:,} rows of column {column!r} name no client, such as {shown}.{like}")
        whose[end, filled] = np.where(number < 0, NOBODY, number)[code]
    return whose, tuple(notes)


def owners_said(links: Rows, nodes: Rows, code: Indices, ids: Array) -> Coded | None:
    """Return whose nodes are as the ends of edges say it, as `Rows.clients` does; None where they say it of none.

    Args:
        links: rows of edges.
        nodes: rows of nodes.
        code: int64 [nodes], which of `ids` each node has.
        ids: texts, all different.

    Raises `InputError` for a node of which nothing is said, or two things.
    """
    told = [(end, role) for end, role in zip(ENDS, SIDES, strict=True) if role in links and len(links[role].filled)]
    if not told:
        return None
    parts = []
    for end, role in told:
        rows = links[role].filled
        parts.append((links[end].take(rows).among(ids), links[role].take(rows).texts(), rows))
    place, name, row = (np.concatenate(each) for each in zip(*parts, strict=True))
    names, client = np.unique(name, return_inverse=True)
    owner = np.full(len(ids) + 1, -1)
    owner[place] = client
    if (other := (place >= 0) & (owner[place] != client)).any():
        one, two = names[owner[place[other][0]]], names[client[other][0]]
        said_twice = f"node {str(ids[place[other][0]])!r} is of client {str(two)!r} here, and of {str(one)!r} elsewhere"
        raise links.error(
            np.sort(row[other]), said_twice, end="; a column of clients in nodes (data.client) says whose."
        )
    whose = owner[code]
    if (lost := whose < 0).any():
        name_of = str(ids[code[lost][0]])
        hint = "; a column of clients (data.client) is needed."
        raise nodes.error(lost, f"no edge says whose node {name_of!r} is", "nodes", end=hint)
    return whose, names


@dataclass(frozen=True)
class BoundaryOptions(OptionGroup):
    """Options of edges between clients, and of nodes that several have.

    Args:
        source_client: column of `edges`, the name of the client whose node the source is, empty for the one whose table
            it is; or "auto": whoever has the id. "" (default) = as `target_client` says.
        target_client: the same of the target. With neither (default) edges at sites are inside clients. With one of
            them an edge between clients counts where both list it, and is else left out, with a note.
        match: how sites then match ids, which the server learns in neither way: "hashes" (default), keyed by a secret
            of all sites, by which who has it and the hashes can try ids; or "psi", private set intersection, in which
            nobody can try ids by himself, for more bytes. Both join the same edges.
        shared_with: column of `nodes`, names of other clients that have a node, too, with ";" between them; or "auto":
            all that have its id. Each keeps its own copy, with its own features and label, and an edge joins every two
            copies of which both say so. "" (default) = nodes of one id are different ones. Needs `source_client` or
            `target_client`.
    """

    source_client: str = ""
    target_client: str = ""
    match: Literal["hashes", "psi"] = "hashes"
    shared_with: str = ""

    def check(self, owner: str) -> None:
        """Raise `InputError` for options that cannot be; `owner` is what errors call them."""
        if self.match == "psi" and not self.boundaries(owner):
            raise InputError(
                f"{owner}.match = 'psi' needs {owner}.source_client or {owner}.target_client, which match ids."
            )
        if self.shared_with and not self.boundaries(owner):
            raise InputError(
                f"{owner}.shared_with = {self.shared_with!r} needs {owner}.source_client or {owner}.target_client, "
                "which say whose the ends of edges are."
            )

    def boundaries(self, owner: str) -> Boundaries:
        """Return how edges between clients are known; `owner` as of `check`.

        Raises `InputError` where one option says that ids are looked for, and the other names a column.
        """
        said_by = {side: getattr(self, side) for side in SIDES}
        if AUTO not in said_by.values():
            return "columns" if self.source_client or self.target_client else ""
        for option, name in said_by.items():
            if name not in (AUTO, ""):
                raise InputError(f"{owner}.{option} must be left out, or {AUTO!r} as the other one; got {name!r}.")
        return AUTO

    @property
    def sharing(self) -> Sharing:
        """How it is known which nodes several clients have."""
        return AUTO if self.shared_with == AUTO else "column" if self.shared_with else ""

    @property
    def names(self) -> dict[str, str]:
        """{role: name} of the columns; ids that are looked for have no column of clients."""
        return {role: "" if (name := getattr(self, role)) == AUTO else name for role in (*SIDES, SHARED_WITH)}
