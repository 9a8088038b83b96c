"""Reads a user's own typed graph from tables of nodes and of edges, with errors that name file, row and column.

Tables are CSV or Parquet files or DataFrames: one for each type of node and one for each pair of types with edges; or
one of all nodes, whose column "type" says which type each is, and one of all edges, with "source_type" and
"target_type". Ids and classes are kept as text, as written ("007" is not "7").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.table_files import Given, table_of
from fedgraft.contracts.values import Indices
from fedgraft.domains.node_tables import feature, labels_among, read_labels, read_split, texts_of
from fedgraft.domains.tables.columns import Source, as_numbers, encode, read_table, row_of
from fedgraft.domains.typed.edges import once
from fedgraft.domains.typed.features import compact
from fedgraft.domains.typed.shards import (
    JOIN,
    EdgeType,
    Features,
    TypedGraph,
    metapath_types,
    shortest_metapaths,
)
from fedgraft.errors import InputError, nearest, require_one_of, unknown

TYPE = "type"
"""Column of a table of all nodes."""
ENDS = ("source_type", "target_type")
"""Columns of a table of all edges."""

OFFSET = 100.0
"""A column of features whose mean is more than so many times what it differs by, such as years, is noted."""

Tables = Given | Mapping[str, Given]
"""One table of all, or one for each type or pair of types."""


@dataclass(frozen=True)
class Columns:
    """Names of columns. `client` and `split` may be missing in the table unless they are renamed here.

    Args:
        node: of nodes, the id.
        label: of target nodes, the class, empty = unknown; client: who holds it.
        split: of target nodes, "train", "validation" or "test", empty = none.
        features: of target nodes, numeric columns; None = every other column with numbers.
        ends: of edges, the ids of both ends, in the order of the types.
    """

    node: str = "node"
    label: str = "label"
    client: str = "client"
    split: str = "split"
    features: tuple[str, ...] | None = None
    ends: tuple[str, str] = ("source", "target")


@dataclass(frozen=True, eq=False)
class Collection:
    """A typed graph as it was given, before it is dealt to clients.

    Args:
        whole: the graph; in no split where none was given, its features without columns where it has none.
        client: int64 [targets]; client_names: one per client; none where the data name no clients.
        split: whether a split was given.
        feature_names: of the columns of features.
        notes: what was left out, for people to read.
        parts: of the clients, where each came in a file of its own; else none.
    """

    whole: TypedGraph
    client: Indices
    client_names: tuple[str, ...]
    split: bool
    feature_names: tuple[str, ...]
    notes: tuple[str, ...]
    parts: tuple[TypedGraph, ...] = ()


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a table.

    Args:
        table: all of it.
        source: where its rows come from.
        rows: int64 [some], which of them.
        where: what errors call it.
    """

    table: pd.DataFrame
    source: Source
    rows: Indices
    where: str


def read_typed_graph(
    nodes: Tables,
    edges: Tables,
    target: str,
    columns: Columns,
    metapaths: Sequence[str],
    owner: str,
    known_classes: tuple[str, ...] = (),
) -> Collection:
    """Read a graph.

    Args:
        nodes: one row per node.
        edges: one row per edge, listed one way or both.
        target: the type whose nodes are classified.
        columns: their names.
        metapaths: that the graph suggests; none = the shortest.
        owner: what errors call the parameters: "TypedGraph" for TypedGraph.nodes ...
        known_classes: names of the classes, of which the table may lack some; none = those that it has.
    """
    kinds = _node_tables(nodes, target, columns, owner)
    require_one_of(f"{owner}.target", target, kinds)
    ids = {kind: _ids(some, columns.node) for kind, some in kinds.items()}
    for kind, some in kinds.items():
        _check_once(kind, ids[kind], some, columns)
    links, notes = _edges(_edge_tables(edges, list(kinds), columns, owner), ids, kinds, columns.ends)
    for kind in kinds:
        if not any(kind in pair for pair in links):
            other = target if kind != target else next((each for each in kinds if each != kind), kind)
            raise InputError(
                f"{owner}.edges: node type {kind!r} has no edges; a table {JOIN.join((kind, other))!r}, or of edges to "
                f"another type, is needed, or {owner}.nodes must leave it out."
            )
    own = kinds[target]
    label, classes, split, client, names = _of_target(own, columns, known_classes)
    features, feature_names, remarks = _features(own, columns, owner)
    whole = TypedGraph(
        name=own.where,
        target=target,
        ids={kind: known.astype(object) for kind, known in ids.items()},
        features=features,
        label=label,
        classes=classes,
        split=split,
        edges=links,
        metapaths=tuple(metapaths) or shortest_metapaths(target, list(links)),
    )
    for metapath in whole.metapaths:
        metapath_types(metapath, whole, f"{owner}.metapaths")
    return Collection(whole, client, names, columns.split in own.table, feature_names, (*notes, *remarks))


# --- nodes ------------------------------------------------------------------------------------------------------------


def _node_tables(nodes: Tables, target: str, columns: Columns, owner: str) -> dict[str, _Rows]:
    """{type: its nodes}, in the order in which types are named."""
    if not isinstance(nodes, Mapping):
        wanted = {
            f"{owner}.node": columns.node,
            "a table of all nodes says the type of each; or give {type: table}": TYPE,
        }
        table, source, where = _all_columns(nodes, f"{owner}.nodes", wanted)
        code, named = encode(table, TYPE, source)
        first = [int((code == number).argmax()) for number in range(len(named))]
        order = sorted(range(len(named)), key=first.__getitem__)
        kinds = {str(named[k]): _Rows(table, source, np.flatnonzero(code == k), where) for k in order}
    else:
        kinds = {}
        for kind, given in nodes.items():
            wanted = {f"{owner}.node": columns.node}
            table, source, where = _all_columns(given, f"{owner}.nodes.{kind}", wanted)
            kinds[kind] = _Rows(table, source, np.arange(len(table)), where)
    for kind in kinds:
        if JOIN in kind or not kind:
            raise InputError(f"{owner}.nodes: a type's name must be without {JOIN!r}, which joins types; got {kind!r}.")
    if target in kinds:
        _check_columns(kinds[target], columns, owner)
    return kinds


def _all_columns(given: Given, parameter: str, wanted: Mapping[str, str]) -> tuple[pd.DataFrame, Source, str]:
    """(a table with all columns, where its rows come from, what errors call it)."""
    if not isinstance(given, pd.DataFrame):
        where, read = str(given), table_of(given, parameter)
    else:
        where, read = parameter, given
    table, ((_, count),) = read_table(read, where, wanted, [str(column) for column in read.columns])
    return table, [(where, count)], where


def _check_columns(own: _Rows, columns: Columns, owner: str) -> None:
    """Raise `InputError` where the table of target nodes lacks a column."""
    named = [("label", columns.label)]
    named += [
        (option, getattr(columns, option)) for option in ("client", "split") if getattr(columns, option) != option
    ]
    named += [(f"features: {column}", column) for column in columns.features or ()]
    for option, column in named:
        if column not in own.table:
            hint = nearest(column, own.table.columns)
            there = ", ".join(own.table.columns)
            raise InputError(f"{own.where}: no column {column!r} ({owner}.{option}).{hint} Columns: {there}.")


def _ids(some: _Rows, column: str) -> NDArray[np.str_]:
    return texts_of(some.table, column, some.source)[some.rows]


def _check_once(kind: str, ids: NDArray[np.str_], some: _Rows, columns: Columns) -> None:
    """Raise `InputError` for a node that is listed twice."""
    order = np.argsort(ids, kind="stable")
    again = order[1:][ids[order[1:]] == ids[order[:-1]]]
    if not len(again):
        return
    place = int(again.min())
    row, before = some.rows[place], some.rows[int((ids == ids[place]).argmax())]
    why = f"is listed twice ({len(again)} such rows)"
    if columns.client in some.table:
        one, other = (str(some.table[columns.client].iloc[each]) for each in (before, row))
        why = f"is at two clients, {one!r} and {other!r}; each must be at one" if one != other else why
    raise InputError(
        f"{row_of(some.source, row)}: node {str(ids[place])!r} of type {kind!r}, column {columns.node!r}, {why}."
    )


def _of_target(
    own: _Rows, columns: Columns, known_classes: tuple[str, ...]
) -> tuple[Indices, tuple[str, ...], NDArray[np.int8], Indices, tuple[str, ...]]:
    """(label, classes, split, client, names of clients) of the target nodes."""
    mine = np.zeros(len(own.table), bool)
    mine[own.rows] = True
    # Of rows of other types nothing is read, whatever stands there.
    used = [column for column in (columns.label, columns.split, columns.client) if column in own.table]
    table = own.table[used].where(np.repeat(mine[:, None], len(used), axis=1))
    if known_classes:
        label, classes = labels_among(table, columns.label, own.source, known_classes), known_classes
    else:
        label, classes = read_labels(table, columns.label, own.source)
    split = read_split(table, columns.split, columns.label, own.source, label)[own.rows]
    client, names = np.zeros(len(own.rows), np.int64), ()
    if columns.client in table:
        lacking = own.rows[table[columns.client].iloc[own.rows].isna().to_numpy()]
        if len(lacking):
            raise InputError(
                f"{row_of(own.source, lacking[0])}: {columns.client!r} is empty ({len(lacking)} such rows); a name is "
                "needed."
            )
        some = table[[columns.client]].iloc[own.rows].reset_index(drop=True)
        client, found = encode(some.infer_objects(), columns.client, own.source)
        names = tuple(found.tolist())
    return label[own.rows], classes, split, client, names


def _features(own: _Rows, columns: Columns, owner: str) -> tuple[Features, tuple[str, ...], list[str]]:
    """(features of the target nodes, their names, notes); none where no column has numbers."""
    names = columns.features
    if names is None:
        others = (columns.node, columns.label, columns.client, columns.split, TYPE)
        mine = own.table.iloc[own.rows]
        names = tuple(name for name in map(str, mine) if name not in others and _has_numbers(mine[name]))
    hint = f" Columns that are no features are left out by naming the others in {owner}.features."
    values = np.zeros((len(own.rows), len(names)), np.float32)
    for place, name in enumerate(names):
        values[:, place] = feature(own.table[name].iloc[own.rows], own.source, own.rows, hint=hint)
    mean, spread = values.mean(axis=0, dtype=np.float64), values.std(axis=0, dtype=np.float64)
    # What is constant but for rounding is left alone.
    far = np.flatnonzero((spread > 1e-6 * np.abs(mean)) & (np.abs(mean) > OFFSET * spread))
    notes = [
        f"{own.where}: column {names[k]!r} is {mean[k]:.5g} on average and differs by {spread[k]:.2g}: as a feature it "
        f"drowns the others; take off its mean, or name the others in {owner}.features."
        for k in far
    ]
    return (compact(values) if names else values), names, notes


def _has_numbers(column: pd.Series) -> bool:
    return bool(np.isfinite(as_numbers(column)).any())


# --- edges ------------------------------------------------------------------------------------------------------------


def _edge_tables(edges: Tables, kinds: Sequence[str], columns: Columns, owner: str) -> list[tuple[EdgeType, _Rows]]:
    """Rows of edges between each two types, in the order in which they are named."""
    wanted = {f"{owner}.ends[{end}]": column for end, column in enumerate(columns.ends)}
    found: list[tuple[EdgeType, _Rows]] = []
    if isinstance(edges, Mapping):
        for name, given in edges.items():
            pair = tuple(name.split(JOIN))
            if len(pair) != 2:
                allowed = f"two types joined by {JOIN!r}, such as {JOIN.join((*kinds, *kinds)[:2])!r}"
                raise InputError(f"{owner}.edges: a name must be {allowed}; got {name!r}.")
            for kind in pair:
                if kind not in kinds:
                    raise InputError(f"{owner}.edges, {name!r}: {unknown('node type', kind, kinds)}")
            where = f"{owner}.edges.{name}" if isinstance(given, pd.DataFrame) else str(given)
            table, source = read_table(given, f"{owner}.edges.{name}", wanted)
            found.append(((pair[0], pair[1]), _Rows(table, source, np.arange(len(table)), where)))
        return found
    wanted |= {column: column for column in ENDS}
    where = f"{owner}.edges" if isinstance(edges, pd.DataFrame) else str(edges)
    table, source = read_table(edges, f"{owner}.edges", wanted)
    ends = [texts_of(table, column, source) for column in ENDS]
    for column, named in zip(ENDS, ends, strict=True):
        if len(lost := np.flatnonzero(~np.isin(named, list(kinds)))):
            raise InputError(f"{row_of(source, lost[0])}: {column!r}: {unknown('node type', named[lost[0]], kinds)}")
    pairs = dict.fromkeys(zip(ends[0].tolist(), ends[1].tolist(), strict=True))
    for one, other in pairs:
        rows = np.flatnonzero((ends[0] == one) & (ends[1] == other))
        found.append(((one, other), _Rows(table, source, rows, where)))
    return found


def _edges(
    tables: Sequence[tuple[EdgeType, _Rows]],
    ids: Mapping[str, NDArray[np.str_]],
    kinds: Mapping[str, _Rows],
    columns: tuple[str, str],
) -> tuple[dict[EdgeType, NDArray[np.int32]], tuple[str, ...]]:
    """({types: int32 [2, edges]}, notes): each edge once; what is named in both orders is one."""
    order = {kind: np.argsort(known, kind="stable") for kind, known in ids.items()}
    ends: dict[EdgeType, list[Indices]] = {}
    origins: dict[EdgeType, list[str]] = {}
    for pair, some in tables:
        named = [_ids(some, column) for column in columns]
        fits = [_places(known, ids[kind], order[kind]) for known, kind in zip(named, pair, strict=True)]
        for end, (kind, found) in enumerate(zip(pair, fits, strict=True)):
            if len(lost := np.flatnonzero(found < 0)):
                raise _no_node(
                    some, columns[end], named[end], lost, kind, kinds[kind].where, _swapped(named, pair, ids)
                )
        both = np.stack(fits)
        known = pair[::-1] in ends and pair not in ends
        ends.setdefault(pair[::-1] if known else pair, []).append(both[::-1] if known else both)
        origins.setdefault(pair[::-1] if known else pair, []).append(some.where)
    links, notes = {}, []
    for pair, some_ends in ends.items():
        listed = np.concatenate(some_ends, axis=1)
        links[pair] = once(listed, pair[0] == pair[1])
        loops = int((listed[0] == listed[1]).sum()) if pair[0] == pair[1] else 0
        repeated = listed.shape[1] - loops - links[pair].shape[1]
        counts = {"edges from a node to itself": loops, "repeated edges": repeated}
        where = f"{' and '.join(dict.fromkeys(origins[pair]))}: {JOIN.join(pair)}"
        notes += [f"{where}: {count:,} {what} left out." for what, count in counts.items() if count]
    return links, tuple(notes)


def _places(named: NDArray[np.str_], ids: NDArray[np.str_], order: Indices) -> Indices:
    """int64 [named]: the place of each among the ids; -1 for none."""
    if not len(named):
        return np.zeros(0, np.int64)
    place = order[np.minimum(np.searchsorted(ids, named, sorter=order), len(ids) - 1)]
    found: Indices = np.where(ids[place] == named, place, -1)
    return found


def _swapped(named: Sequence[NDArray[np.str_]], pair: EdgeType, ids: Mapping[str, NDArray[np.str_]]) -> bool:
    """Whether all ends are nodes of the other type."""
    return pair[0] != pair[1] and all(np.isin(named[end], ids[pair[1 - end]]).all() for end in (0, 1))


def _no_node(
    some: _Rows, column: str, named: NDArray[np.str_], lost: Indices, kind: str, where: str, swapped: bool
) -> InputError:
    """The error for the first end of an edge that is no node."""
    hint = " The ids fit the other way round: the columns, or the types, are swapped." if swapped else ""
    return InputError(
        f"{row_of(some.source, some.rows[lost[0]])}: {column!r} must be a node of type {kind!r}, one of {where}; got "
        f"{str(named[lost[0]])!r} ({len(lost)} such rows).{hint}"
    )
