"""Edges of typed graphs that carry something: columns of several tables as those of one, and edges of questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_columns import CarriedRows, EdgeReader, asked_columns, names_carried
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.edge_data.graph_form import GraphForm
from fedgraft.domains.tables.columns import Columns
from fedgraft.domains.tables.reader import OWNER, check_there, named_once, read
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.tables.schema import ALL_OTHERS, Names, Table, form_of
from fedgraft.domains.typed.shards import JOIN, EdgeType, Ends, distinct, once

CARRYING = ("edge_features", "weight", "time")
"""Roles of columns that say what edges carry."""


@dataclass(frozen=True, eq=False)
class Relation:
    """Edges that one table lists: the types that they join, the rows, and what these carry, if it is read.

    `ends` are int64 [2, rows], places of both ends within their types.
    """

    pair: EdgeType
    rows: Rows
    carried: CarriedRows | None = None
    ends: Indices = field(default_factory=lambda: np.zeros((2, 0), np.int64))

    def turned(self) -> "Relation":
        """Return the same with the types in the other order."""
        return replace(self, pair=self.pair[::-1], ends=self.ends[::-1])


@dataclass(frozen=True, eq=False)
class Relations:
    """The edges of all pairs of types, each once; `carried` are the rows of all, as `edge_rows` number them.

    Both are None where edges carry nothing.
    """

    ends: dict[EdgeType, Ends]
    edge_rows: dict[EdgeType, EdgeRows] | None
    carried: CarriedRows | None
    notes: Sequence[str]


def relations(pairs: Sequence[EdgeType], tables: Sequence[Rows], form: GraphForm) -> list[Relation]:
    """Return tables of edges, one for each pair of types, with what they carry."""
    if not (form.reader and tables):
        return [Relation(pair, rows) for pair, rows in zip(pairs, tables, strict=True)]
    tables, carried = read_carried(tables, form.names, form.reader, form.owner)
    return [Relation(*each) for each in zip(pairs, tables, carried, strict=True)]


def gathered(
    listed: Sequence[Relation], reader: EdgeReader | None, where: str = "", are_counted: bool = True
) -> Relations:
    """Return the edges of all tables, each once; notes count what was left out, if `are_counted` also what repeats.

    `where` is what notes call all tables; "" = each by its own name.
    """
    of_pairs: dict[EdgeType, list[Relation]] = {}
    for each in listed:
        of_pairs.setdefault(each.pair, []).append(each)
    ends, kept, notes = {}, {}, [note for each in listed for note in each.rows.notes if are_counted]
    for pair, parts in of_pairs.items():
        within, origins = pair[0] == pair[1], dict.fromkeys(each.rows.where for each in parts)
        told: Sequence[str] = ()
        if reader:
            ends[pair], kept[pair], told = chosen_edges(parts, within, reader)
        else:
            every = np.concatenate([each.ends for each in parts], axis=1)
            ends[pair] = once(every, within)
            loops = int((every[0] == every[1]).sum()) if within else 0
            repeated = every.shape[1] - loops - ends[pair].shape[1]
            counts = {"edges from a node to itself": loops, "repeated edges": repeated}
            told = [f"{count:,} {what} left out." for what, count in counts.items() if count and are_counted]
        notes += [f"{where or ' and '.join(origins)}: {JOIN.join(pair)}: {note}" for note in told]
    edge_rows, carried = numbered(kept) if kept else (None, None)
    return Relations(ends, edge_rows, carried, list(dict.fromkeys(notes)))


def read_carried(
    tables: Sequence[Rows], names: Names, reader: EdgeReader, owner: str
) -> tuple[list[Rows], list[CarriedRows]]:
    """(rows of edges with the columns that they carry, what they carry, with the columns of all) of several tables.

    What is empty in all of a table, or no column of it, is missing there, or a weight of 1. A column that holds texts
    in one does in all. Raises `InputError`, also for a column that is named and that no table has; `owner` as of
    `reader.read`.
    """
    there = list(dict.fromkeys(name for rows in tables for name in rows))
    wanted = {f"{owner}.{role}": names[role] for role in ("weight", "time") if names[role]}
    wanted |= {f"{owner}.edge_features: {name}": name for name in names["edge_features"] or ()}
    check_there(there, wanted, " and ".join(dict.fromkeys(rows.where for rows in tables)))
    if names["edge_features"] is ALL_OTHERS:
        names = {**names, "edge_features": _others(tables, owner)}
    own = [_filled(rows, names) for rows in tables]
    parts = [reader.read(rows, owner) for rows in own]
    texts = {name for part in parts for name in part.columns.texts}
    if any(texts.intersection(part.columns.numeric) for part in parts):
        parts = [replace(reader, texts=tuple(texts)).read(rows, owner) for rows in own]
    return own, alike(parts, names)


def _others(tables: Sequence[Rows], owner: str) -> tuple[str, ...]:
    """All columns that say nothing else of edges, of any table; where none has one, errors are of the first."""
    having = [rows for rows in tables if len(rows.frame.columns) > len(_taken(rows).intersection(rows))]
    return tuple(dict.fromkeys(name for rows in having or tables[:1] for name in names_carried(rows, owner)))


def _taken(rows: Rows) -> set[str]:
    """Columns that say something else of edges."""
    return {rows.names[column.role] for column in rows.table.columns if column.kind != "features"}


def _filled(rows: Rows, names: Names) -> Rows:
    """The rows with the columns that are read of them and hold something."""
    features, ends = names["edge_features"], (rows.names[column.role] for column in rows.table.columns[:4])
    read = {*features, *_taken(rows)}
    kept = [name for name in rows if name in read and (name in {*ends} or rows.frame[name].notna().any())]
    own = {**names, "edge_features": tuple(name for name in features if name in kept)}
    unread = (*rows.unread, *(name for name in rows if name not in read))
    return replace(rows, names={**rows.names, **own}, frame=rows.frame[kept], unread=unread)


def alike(parts: Sequence[CarriedRows], names: Names) -> list[CarriedRows]:
    """Return rows of several tables, each with the columns of all, in the order of `names` where these list them."""
    texts = {name for part in parts for name in part.columns.texts}
    there = [name for part in parts for name in part.columns.names if name != names["time"]]
    every = dict.fromkeys([*(names["edge_features"] or there), *([names["time"]] if names["time"] else [])])
    return [_with_all(part, tuple(every), texts, names) for part in parts]


def _with_all(part: CarriedRows, every: tuple[str, ...], texts: set[str], names: Names) -> CarriedRows:
    """The rows with all columns."""
    count, columns = len(part), part.columns
    given = dict(zip(columns.numeric, np.asarray(columns.numbers).T, strict=True))
    lost, nothing = np.full(count, np.nan), np.full(count, None, object)
    numbers = [given.get(name, lost) for name in every if name not in texts]
    return replace(
        part,
        columns=Columns(
            every,
            np.stack(numbers, axis=1) if numbers else np.zeros((count, 0)),
            {name: columns.texts.get(name, nothing) for name in every if name in texts},
        ),
        weight=np.ones(count, np.float32) if names["weight"] and part.weight is None else part.weight,
        time=np.full(count, -np.inf) if names["time"] and part.time is None else part.time,
    )


def chosen_edges(parts: Sequence[Relation], within: bool, reader: EdgeReader) -> tuple[Ends, CarriedRows, list[str]]:
    """(each edge once, what it carries, notes on rows that are none) of a pair of types, or `within` one.

    Tables that fill more columns come later: of one that lists only the way back nothing is kept where another says
    what an edge carries.
    """
    in_turn = sorted(parts, key=lambda part: len(part.rows.frame.columns))
    listed = np.concatenate([part.ends for part in in_turn], axis=1)
    carried = CarriedRows.stacked([part.carried for part in in_turn if part.carried is not None])
    apart = listed if within else listed + np.array([[0], [int(listed[0].max(initial=0)) + 1]])
    rows, kept, notes = reader.chosen(apart, carried)
    ends, first = distinct(listed[:, rows], within)
    return ends, kept.take(first), notes


def numbered(carried: Mapping[EdgeType, CarriedRows]) -> tuple[dict[EdgeType, EdgeRows], CarriedRows]:
    """({types: a row for each edge, of which nothing is made yet}, the rows of all, as they are numbered there)."""
    every, begin, edge_rows = CarriedRows.stacked(list(carried.values())), 0, {}
    for pair, rows in carried.items():
        number = np.arange(begin, begin + len(rows))
        along = np.ones(len(rows), bool)
        edge_rows[pair] = EdgeRows(np.zeros((len(rows), 0), np.float32), along, number, rows.weight)
        begin += len(rows)
    return edge_rows, replace(every, number=np.arange(begin))


def listed(ends: pd.DataFrame, carried: CarriedRows, names: Names) -> pd.DataFrame:
    """Return a table of edges, whose ends are given, that is read as they were."""
    columns = carried.columns.frame()
    if names["time"] and form_of(names, "edges").time_format:
        columns[names["time"]] = pd.to_datetime(columns[names["time"]], unit="s")
    if names["weight"]:
        columns[names["weight"]] = carried.weight
    table = pd.concat([ends, columns], axis=1)
    if carried.weight is None or names["weight"]:
        return table
    # Rows without weights were added up: as many rows, of which the last has the sums.
    row = np.repeat(np.arange(len(table)), carried.weight.astype(np.int64))
    is_last = np.append(row[1:] != row[:-1], True)
    summed = [name for name in columns if name != names["time"]]
    table = table.iloc[row].reset_index(drop=True)
    table.loc[~is_last, summed] = np.nan
    return table


def asked_links(given: pd.DataFrame, table: Table, names: Names, reader: EdgeReader) -> pd.DataFrame:
    """Return a table of edges of new nodes as tasks read it: what a model reads is in columns "0" ..., and "weight".

    The first four columns of `table` are the type and the id of one end, and of the other.
    """
    where, ends = f"{OWNER}.edges", table.roles[:4]
    rows = read(named_once(given, where), table, {**names, **{end: end for end in ends}}, "data", where)
    kinds, ids = ([rows[ends[place]].texts().tolist() for place in side] for side in ((0, 2), (1, 3)))
    keys = [f"{kind}{JOIN}{name}" for end in (0, 1) for kind, name in zip(kinds[end], ids[end], strict=True)]
    numbers = np.unique(np.array(keys, str), return_inverse=True)[1].reshape(2, -1)
    of_types = np.array([JOIN.join(pair) for pair in zip(*kinds, strict=True)])
    places = [np.flatnonzero(of_types == pair) for pair in np.unique(of_types)] or [np.zeros(0, np.int64)]
    _, parts = read_carried([rows.take(some) for some in places], names, reader, "data")
    carried = CarriedRows.stacked(parts).take(np.argsort(np.concatenate(places)))
    return asked_columns(rows, numbers, carried, reader, ends)
