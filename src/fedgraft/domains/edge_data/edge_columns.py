"""Reads what edges carry from their table: columns, weights and times, and brings together those of the same two ends.

It knows nothing of nodes but the numbers of ends, so that data sets whose labels are on edges read them alike.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.boundary_columns import ENDS, SIDE_COLUMNS, SIDES
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.examples import Parallel
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.columns import Columns, check_present, read_columns
from fedgraft.domains.tables.own_tables import Repeats
from fedgraft.domains.tables.reader import OWNER, named_once, read
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.tables.schema import ALL_OTHERS, Column, Names, Table
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array

Floats: TypeAlias = NDArray[np.float64]
Values: TypeAlias = NDArray[np.float32]

EDGE_COLUMNS: Final = (
    Column("edge_features", "features"),
    Column("weight", "number", silent=True),
    Column("time", "time", silent=True),
    Column("edge_label", "class", silent=True, option="data.label"),
)
"""Columns of what edges carry, and of what is to be told of them."""
NO_COLUMNS: Final = {"edge_features": (), "weight": "", "time": "", "edge_label": ""}
"""Their names where none is read."""
ASKED_CARRIED: Final = Table("edges", (Column("source"), Column("target"), *EDGE_COLUMNS), may_be_empty=True)
"""Edges of one client's own nodes, or of new ones, with what they carry."""


@dataclass(frozen=True, eq=False)
class EdgeLabels(Parallel):
    """What is to be told of edges, a row for each, as it is read.

    Args:
        label: int64 [edges], index into `classes`, -1 = unknown; or float64 [edges], numbers, nan = unknown.
        classes: their names; () for numbers.
        hashes: uint64 [edges], of the ids of both ends and of how often these were there before; None if not asked for.
        source: int64 [edges], the source's place among the nodes of the client whose table it is, -1 = it has none
            there; None = all sources are its own.
    """

    label: Array
    classes: tuple[str, ...]
    hashes: NDArray[np.uint64] | None = None
    source: Indices | None = None


@dataclass(frozen=True, eq=False)
class CarriedRows(Parallel):
    """What edges carry, a row for each, as it is read.

    Args:
        columns: of numbers and texts; the time is the last one, if it is read.
        weight: float32 [edges], how many edges each stands for, finite and at least 0; None = one each.
        time: float64 [edges], as its column counts, or seconds of dates since 1970; None where it is not read.
        number: int64 [edges], the row of the table.
        labels: what is to be told of them; None where it is nothing.
    """

    columns: Columns
    weight: Values | None
    time: Floats | None
    number: Indices
    labels: EdgeLabels | None = None

    def __len__(self) -> int:
        return len(self.number)

    @property
    def carried(self) -> "CarriedRows":
        """These rows, as of `StoredEdges`."""
        return self

    @property
    def edge_labels(self) -> EdgeLabels:
        """What is to be told of edges that were read with their labels."""
        assert self.labels is not None, "read by a reader of labels"
        return self.labels

    def outgoing(self) -> "CarriedRows":
        """Return those whose source is at the client whose table it is."""
        source = self.edge_labels.source
        return self if source is None else self.take(np.flatnonzero(source >= 0))

    def edge_rows(self, values: Values, row: Indices, along: NDArray[np.bool_]) -> EdgeRows:
        """Return what stored edges carry: `row`, int64 [stored], is whose they are; `values`, of all rows.

        One of row -1 carries nothing: its values are 0, and it stands for one edge.
        """
        weight = None if self.weight is None else _of_rows(self.weight, row, 1)
        return EdgeRows(_of_rows(values, row, 0), along, self.numbers(row), weight)

    def numbers(self, row: Indices) -> Indices:
        """Return the rows of the table, int64 [stored]; -1 for none."""
        return _of_rows(self.number, row, -1)


def _of_rows(values: Array, row: Indices, blank: int) -> Array:
    """Values of some rows, [stored, ...], and a number where there is none."""
    made = np.full((len(row), *values.shape[1:]), blank, values.dtype)
    made[row >= 0] = values[row[row >= 0]]
    return made


Make: TypeAlias = Callable[[CarriedRows], Values]
"""What a model reads of rows, float32 [edges, width]."""
LabelReader: TypeAlias = Callable[[Rows], EdgeLabels]
"""What reads labels of edges from a table."""


@dataclass(frozen=True)
class EdgeReader:
    """How a table of edges is read that carry something.

    Args:
        make: what is made of their columns.
        directed: whether an edge goes from its source to its target alone.
        duplicate_edges: of several of the same two ends, if directed in the same direction: "keep"; "sum" adds
            numbers and weights, or counts, and has times and texts of the last; "last" keeps that one, by time, else by
            row.
        texts: columns that hold texts; None = found out.
        labels: what reads labels of edges, and then the time is no column that they carry; None = there are none.
    """

    make: Make
    directed: bool = False
    duplicate_edges: Repeats = "keep"
    texts: Collection[str] | None = None
    labels: LabelReader | None = None

    def read(self, rows: Rows, owner: str) -> CarriedRows:
        """Return what each row of a table carries. Raises `InputError`; `owner` as of `reader.read`."""
        names, time = names_carried(rows, owner), rows.read("time")
        hint = f" Columns that are none of edges' data are left out by naming the others in {owner}.edge_features."
        columns = read_columns(rows, names, hint, None if self.texts is None else tuple(self.texts))
        if time is not None and self.labels is None:
            numbers = np.column_stack([np.asarray(columns.numbers), time])
            columns = Columns((*columns.names, rows.names["time"]), numbers, columns.texts)
        labels = self.labels(rows) if self.labels else None
        return CarriedRows(columns, _weights(rows), time, np.arange(len(rows)), labels)

    def chosen(self, ends: Indices, carried: CarriedRows) -> tuple[Indices, CarriedRows, list[str]]:
        """(which rows are edges of the graph, int64 ascending; what these carry; notes on others).

        `ends` are int64 [2, rows], numbers of the two nodes.
        """
        loops = ends[0] == ends[1]
        nothing = np.zeros(len(carried), bool) if carried.weight is None else carried.weight == 0
        rows = np.flatnonzero(~loops & ~nothing)
        counts = {"edges from a node to itself": loops.sum(), "edges of weight 0": (nothing & ~loops).sum()}
        notes = [f"{count:,} {what} left out." for what, count in counts.items() if count]
        carried, ends = carried.take(rows), ends[:, rows]
        if self.duplicate_edges == "sum" and carried.weight is None:
            carried = replace(carried, weight=np.ones(len(rows), np.float32))
        if self.duplicate_edges == "keep" or not len(rows):
            return rows, carried, notes
        one, other = ends if self.directed else np.sort(ends, axis=0)
        _, group = np.unique(one * (int(ends.max()) + 1) + other, return_inverse=True)
        order = np.lexsort((np.arange(len(rows)), *([] if carried.time is None else [carried.time]), group))
        ends_of_groups = np.flatnonzero(np.diff(group[order], append=-1))
        last = order[ends_of_groups]  # by group
        kept = np.argsort(last)
        if repeats := len(rows) - len(last):
            notes.append(f"{repeats:,} repeated edges {'added up' if self.duplicate_edges == 'sum' else 'left out'}.")
        lasts = carried.take(last[kept])
        if self.duplicate_edges == "sum":
            lasts = _added(carried, group, lasts, kept)
        return rows[last[kept]], lasts, notes


Carried: TypeAlias = tuple[EdgeReader, CarriedRows]
"""How edges are read that carry something, and what the rows of a table carry."""


def names_carried(rows: Rows, owner: str) -> tuple[str, ...]:
    """Return the columns that edges carry, but for their time. Raises `InputError`; `owner` as of `reader.read`."""
    names = rows.names["edge_features"]
    if names is not ALL_OTHERS:
        return tuple(names)
    taken = {rows.names[column.role] for column in rows.table.columns if column.kind != "features"}
    others = tuple(name for name in rows if name not in taken)
    if not others and not rows.names["edge_label"]:
        raise InputError(f"{rows.where}: no other column that edges could carry ({owner}.edge_features = 'all').")
    if unnamed := [name for name in others if name.startswith("Unnamed: ")]:  # as pandas calls a file's
        raise InputError(
            f"{rows.where}: column {int(unnamed[0][9:]) + 1} has no name, such as an index written along; name it in "
            f"the header, leave it out, or name those that edges carry in {owner}.edge_features."
        )
    return others


def _weights(rows: Rows) -> Values | None:
    if "weight" not in rows:
        return None
    cells = rows["weight"]
    weights = cells.numbers()
    if (wrong := ~((weights >= 0) & (weights <= np.finfo(np.float32).max))).any():
        raise cells.error(wrong, "a finite number and at least 0, as a weight")
    return weights.astype(np.float32)


def _added(carried: CarriedRows, group: Indices, last: CarriedRows, kept: Indices) -> CarriedRows:
    """The last edges of groups, with the sums of all; `kept`, int64 [groups], are their groups."""
    count = len(kept)
    numbers = np.array(last.columns.numbers, np.float64)
    given = np.asarray(carried.columns.numbers)
    for column in range(given.shape[1] - (carried.time is not None)):
        known = ~np.isnan(given[:, column])
        sums = np.bincount(group[known], given[known, column], minlength=count)
        some = np.bincount(group[known], minlength=count) > 0
        numbers[:, column] = np.where(some, sums, np.nan)[kept]
    weight = np.bincount(group, carried.weight, minlength=count)[kept].astype(np.float32)
    return replace(last, columns=replace(last.columns, numbers=numbers), weight=weight)


def repeats_before(edges: Indices) -> Indices:
    """Return how many columns before each of [keys, edges] are the same, int64 [edges]."""
    order = np.lexsort(edges)
    begins = np.ones(len(order), bool)
    begins[1:] = (edges[:, order[1:]] != edges[:, order[:-1]]).any(axis=0)
    starts = np.flatnonzero(begins)
    before = np.empty(len(order), np.int64)
    before[order] = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    return before


# --- as a graph stores them -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StoredEdges:
    """Edges as a graph stores them, by receiver and sender, before something is made of what they carry.

    Args:
        carried: rows of edges.
        row: int64 [stored], which of them each stored one is of; -1 = none.
        along: bool [stored], whether it goes from the sender to the receiver.
        counted: {client: its rows} where an edge may be of two tables; None: a row is of the clients of its ends.
    """

    carried: CarriedRows
    row: Indices
    along: NDArray[np.bool_]
    counted: dict[int, Indices] | None = None

    def take(self, places: Indices) -> "StoredEdges":
        """Return some of the stored edges."""
        return replace(self, row=self.row[places], along=self.along[places])

    def edge_rows(self, values: Values) -> EdgeRows:
        """Return what they carry, by what was made of the rows, float32 [rows, width]."""
        return self.carried.edge_rows(values, self.row, self.along)

    def from_client(self, client: int, owner: Indices) -> CarriedRows:
        """Return the rows whose sources are a client's; `owner` as of `of_client`."""
        if self.counted is None:
            return self.carried.take(np.unique(self.row[(owner == client) & ~self.along]))
        return self.carried.take(self.counted[client]).outgoing()

    def of_client(self, client: int, owner: Indices) -> CarriedRows:
        """Return a client's rows; `owner`, int64 [stored], is whose the receivers are."""
        rows = np.unique(self.row[owner == client]) if self.counted is None else self.counted[client]
        return self.carried.take(rows)


def each_both_ways(ends: Indices, directed: bool) -> tuple[Indices, Indices, Indices, NDArray[np.bool_]]:
    """(receiver, sender, row, along) of edges at both ends, all [2 edges]; `ends` are int64 [2, edges]."""
    count = ends.shape[1]
    along = np.ones(2 * count, bool)
    along[count:] = not directed
    return np.concatenate([ends[1], ends[0]]), np.concatenate(ends), np.tile(np.arange(count), 2), along


def stored(
    nodes: int,
    receiver: Indices,
    sender: Indices,
    row: Indices,
    along: NDArray[np.bool_],
    carried: CarriedRows,
    counted: dict[int, Indices] | None = None,
) -> tuple[Indices, NDArray[np.int32], StoredEdges]:
    """(pointers, senders, edges) of a graph of so many nodes; edges of the same two are in the order of their table."""
    order = np.lexsort((carried.numbers(row), sender, receiver))
    pointers = np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=nodes))])
    return pointers, sender[order].astype(np.int32), StoredEdges(carried, row[order], along[order], counted)


# --- of new nodes -----------------------------------------------------------------------------------------------------

LEFT_OUT, DIRECTED = "left_out", "directed"
"""Columns of a table of questions: rows that are no edges of the graph; whether edges go one way."""


def asked_carried(table: pd.DataFrame, names: Names, reader: EdgeReader, by_graph: bool = False) -> pd.DataFrame:
    """Return a table of edges of new nodes as tasks read it, with its rows: what a model reads is in columns "0" ...

    Those of several graphs have a column "graph", and may be listed each way; those of one may say whose ends are.
    """
    where, of = f"{OWNER}.edges", ("graph",) * by_graph
    sides = [] if by_graph else [side for side in SIDES if names[side]]
    usual = {**names, **{role: role for role in (*of, *ENDS, *sides)}}
    columns_read = (*map(Column, of), *ASKED_CARRIED.columns, *(() if by_graph else SIDE_COLUMNS))
    rows = read(named_once(table, where), replace(ASKED_CARRIED, columns=columns_read), usual, "data", where)
    carried = reader.read(rows, "data")
    ends = _end_numbers(rows) if len(rows) else np.zeros((2, 0), np.int64)
    if by_graph and len(rows):
        ends = rows["graph"].codes()[0] * (int(ends.max()) + 1) + ends
    return asked_columns(rows, ends, carried, reader, (*of, *ENDS, *sides), both_listed=by_graph)


def asked_columns(
    rows: Rows,
    ends: Indices,
    carried: CarriedRows,
    reader: EdgeReader,
    roles: Sequence[str],
    both_listed: bool = False,
) -> pd.DataFrame:
    """Return rows of questions with the columns of `roles`, and what a model reads of them in columns "0" ...

    Args:
        rows: edges of new nodes.
        ends: int64 [2, rows], numbers of the two nodes.
        carried: what they carry.
        reader: how they were read.
        roles: of columns that say what an edge is.
        both_listed: whether an edge may be listed each way.
    """
    kept, carried, notes = (replace(reader, directed=True) if both_listed else reader).chosen(ends, carried)
    tell(notes, f"{OWNER}.edges: ")
    values = reader.make(carried)
    left_out, made = np.ones(len(rows), bool), np.zeros((len(rows), values.shape[1]), np.float32)
    left_out[kept], made[kept] = False, values
    columns: dict[str, Any] = {role: rows.frame[role] for role in roles if role in rows}
    columns |= {LEFT_OUT: left_out, DIRECTED: np.full(len(rows), reader.directed)}
    if carried.weight is not None:
        columns["weight"] = np.zeros(len(rows), np.float32)
        columns["weight"][kept] = carried.weight
    return pd.DataFrame({**columns, **{str(place): made[:, place] for place in range(made.shape[1])}})


def asked_values(rows: Rows, known: EdgeRows, roles: Collection[str]) -> tuple[Values, Values | None]:
    """Return what edges carry by columns "0", "1" ... and "weight", where those that are known have these.

    `roles` are other columns. Raises `InputError` for a column that is not there.
    """
    names, weight = [str(place) for place in range(known.width)], ["weight"] * (known.weight is not None)
    values = np.zeros((len(rows), len(names)), np.float32)
    if not len(rows):
        return values, np.zeros(0, np.float32) if weight else None
    check_present(rows, [*names, *weight], "which edges of the run's data carry", roles)
    for place, name in enumerate(names):
        values[:, place] = rows.column(name).numbers()
    return values, rows.column("weight").numbers().astype(np.float32) if weight else None


def _end_numbers(rows: Rows) -> Indices:
    """Numbers of both ends, int64 [2, rows]: those of one id are one node unless columns say that they are not."""
    whose = [
        rows.frame[side].fillna("").astype(str) if side in rows else pd.Series("", index=rows.frame.index)
        for side in SIDES
    ]
    named = [
        f"{who} {name}"
        for role, each in zip(ENDS, whose, strict=True)
        for who, name in zip(each, rows[role].texts(), strict=True)
    ]
    return pd.factorize(np.array(named, object))[0].astype(np.int64).reshape(2, -1)
