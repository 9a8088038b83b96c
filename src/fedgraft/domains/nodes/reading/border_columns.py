"""Whose the ends of edges are, as options and columns of a table say it."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import numpy as np

from fedgraft.contracts.values import Indices
from fedgraft.domains.tables.rows import Rows, places_of
from fedgraft.domains.tables.schema import Column
from fedgraft.errors import InputError, nearest

AUTO: Final[Literal["auto"]] = "auto"
"""In place of the name of a column of clients: ids are looked for among all."""
ENDS: Final = ("source", "target")
SIDES: Final = ("source_client", "target_client")
"""Roles of the columns that say whose an end is."""
SIDE_COLUMNS: Final = tuple(Column(side, needed=False, silent=True, option=f"data.{side}") for side in SIDES)
"""These columns."""
UNSAID, NOBODY = -2, -3
"""In place of a client: a table does not say whose an end is; it names somebody who is no client."""
Borders: TypeAlias = Literal["", "columns", "auto"]
"""How edges between clients are known: not at all, by columns that say whose ends are, or by ids among all."""
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


def borders_of(owner: str, source_client: str, target_client: str) -> Borders:
    """Return how options say that edges between clients are known; `owner` is what errors call them.

    Raises `InputError` where one says that ids are looked for, and the other names a column.
    """
    said_by = {"source_client": source_client, "target_client": target_client}
    if AUTO not in said_by.values():
        return "columns" if source_client or target_client else ""
    for option, name in said_by.items():
        if name not in (AUTO, ""):
            raise InputError(f"{owner}.{option} must be left out, or {AUTO!r} as the other one; got {name!r}.")
    return AUTO
