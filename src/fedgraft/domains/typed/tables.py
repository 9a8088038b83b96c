"""Reads a user's own typed graph from tables of nodes and of edges, with errors that name file, row and column.

Tables are CSV or Parquet files or DataFrames: one for each type of node and one for each pair of types with edges; or
one of all nodes, whose column "type" says which type each is, and one of all edges, with "source_type" and
"target_type". Ids and classes are kept as text, as written ("007" is not "7").
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.dealing import Collection
from fedgraft.domains.edge_data.edge_columns import EDGE_COLUMNS
from fedgraft.domains.edge_data.graph_form import GraphForm
from fedgraft.domains.labels.class_notes import class_notes
from fedgraft.domains.tables.columns import ColumnReader, read_columns
from fedgraft.domains.tables.labels import read_labels, read_split
from fedgraft.domains.tables.reader import check_there, read
from fedgraft.domains.tables.rows import Rows, as_numbers, ascending, places_of, repeated
from fedgraft.domains.tables.schema import ALL_OTHERS, Column, Names, Table
from fedgraft.domains.typed.carried_edges import CARRYING, Relation, gathered, numbered, relations
from fedgraft.domains.typed.shards import JOIN, EdgeType, TypedGraph, metapath_types, shortest_metapaths
from fedgraft.errors import InputError, require_one_of, unknown
from fedgraft.tables.table_files import Given

TYPE = "type"
"""Column of a table of all nodes."""
ENDS = ("source_type", "target_type")
"""Columns of a table of all edges."""

NODES = Table(
    "nodes",
    (
        Column("node"),
        Column(TYPE, option="a table of all nodes says the type of each; or give {type: table}"),
        Column("label", "class"),
        Column("client", needed=False),
        Column("split", "split", needed=False),
        Column("features", "features"),
    ),
    rest=True,
)
"""One row per node; all but its id and its type is said of target nodes."""
EDGES = Table(
    "edges",
    (
        Column("ends[0]", usual="source"),
        Column("ends[1]", usual="target"),
        *(Column(end, option=end) for end in ENDS),
        *EDGE_COLUMNS,
    ),
)
"""One row per edge, listed one way or both, by the ids of its ends, in the order of the types."""
ASKED_NODES = Table("nodes", (Column("node"), Column("client", needed=False)), rest=True)
ASKED_ENDS = ("source", "target")
ASKED_EDGES = Table("edges", tuple(map(Column, ("source_type", "source", "target_type", "target"))), may_be_empty=True)
"""Of questions: the type and the id of each end."""
ASKED_CARRIED = replace(ASKED_EDGES, columns=(*ASKED_EDGES.columns, *EDGE_COLUMNS))
"""Likewise, with what edges carry."""

BOTH = ("ends[0]", "ends[1]")
"""Roles of the ids of both ends."""

Texts = NDArray[np.str_]
Tables = Given | Mapping[str, Given]
"""One table of all, or one for each type or pair of types."""


def read_typed_graph(
    nodes: Tables,
    edges: Tables,
    target: str,
    form: GraphForm,
    metapaths: Sequence[str],
    known_classes: tuple[str, ...] | None = None,
    columns_of: ColumnReader = read_columns,
) -> Collection[TypedGraph]:
    """Read a graph of a row per node and a row per edge, listed one way or both; nodes are in the order of their ids.

    Nodes of the type `target` are classified. `metapaths` are those that the graph suggests; none = the shortest. The
    table may lack some of `known_classes`; () = those that it has, if any; None = likewise, but there must be one.
    `columns_of` reads columns of features.
    """
    owner = form.owner
    kinds, ids = _node_tables(nodes, target, form.names, owner)
    require_one_of(f"{owner}.target", target, kinds)
    for kind, rows in kinds.items():
        _check_once(kind, ids[kind], rows)
    links = gathered(_edge_tables(edges, ids, kinds, form), form.reader)
    _check_joined(list(kinds), links.ends, target, owner)
    own = kinds[target]
    label, classes = read_labels(own["label"], known_classes, form.na_labels)
    split, client, clients = read_split(own, label), np.zeros(len(own), np.int64), np.array([], str)
    if "client" in own:
        # Of rows of other types nothing is read, whatever stands there: what is left may be of a simpler type.
        cells = own["client"]
        simpler = pd.api.types.infer_dtype(cells.values) in ("integer", "floating", "mixed-integer-float")
        client, clients = (replace(cells, values=cells.values.infer_objects()) if simpler else cells).codes()
    columns = columns_of(own, _features(own))
    whole = TypedGraph(
        name=own.where,
        target=target,
        ids={kind: known.astype(object) for kind, known in ids.items()},
        features=np.zeros((len(own), 0), np.float32),
        label=label,
        classes=classes,
        split=split,
        edges=links.ends,
        metapaths=tuple(metapaths) or shortest_metapaths(target, list(links.ends)),
        edge_rows=links.edge_rows,
    )
    for metapath in whole.metapaths:
        metapath_types(metapath, whole, f"{owner}.metapaths")
    class_said = class_notes(label, classes, own.where, form.na_labels)
    told = (*_not_read(kinds, target, columns.names), *links.notes, *class_said)
    more: dict[str, Any] = {"columns": columns, "edges": links.carried}
    named = tuple(clients.tolist())
    return in_order(Collection(whole, client, named, "split" in own, told, columns.names, **more), metapaths)


def _check_joined(kinds: Sequence[str], links: Mapping[EdgeType, object], target: str, owner: str) -> None:
    """Raise `InputError` for a type without edges."""
    for kind in kinds:
        if not any(kind in pair for pair in links):
            other = target if kind != target else next((each for each in kinds if each != kind), kind)
            raise InputError(
                f"{owner}.edges: node type {kind!r} has no edges; a table {JOIN.join((kind, other))!r}, or of edges to "
                f"another type, is needed, or {owner}.nodes must leave it out."
            )


def in_order(collection: Collection[TypedGraph], metapaths: Sequence[str]) -> Collection[TypedGraph]:
    """Return a graph whose types are in the order of their names, and nodes and edges in that of ids, not of rows.

    `metapaths` are those that it suggests; none = the shortest.
    """
    whole = collection.whole
    orders = {kind: ascending(whole.ids[kind]) for kind in sorted(whole.ids)}
    ids = {kind: whole.ids[kind] for kind in orders}
    suggested = tuple(metapaths) or shortest_metapaths(whole.target, sorted(whole.edges))
    by_name = {pair: whole.edges[pair] for pair in sorted(whole.edges)}
    carried = whole.edge_rows and {pair: whole.edge_rows[pair] for pair in by_name}
    arranged = replace(whole, ids=ids, edges=by_name, metapaths=suggested, edge_rows=carried)
    if any((order[1:] < order[:-1]).any() for order in orders.values()):
        arranged = arranged.induced(whole.name, orders)
    arranged, every_row = arranged.tidy(), collection.edges
    if arranged.edge_rows:
        in_turn = {pair: every_row.take(rows.number) for pair, rows in arranged.edge_rows.items()}
        carried, every_row = numbered(in_turn)
        arranged = replace(arranged, edge_rows=carried)
    own, columns = orders[whole.target], collection.columns
    return replace(
        collection,
        whole=arranged,
        client=collection.client[own],
        columns=None if columns is None else columns.take(own),
        edges=every_row,
    )


# --- nodes ------------------------------------------------------------------------------------------------------------


def _node_tables(nodes: Tables, target: str, names: Names, owner: str) -> tuple[dict[str, Rows], dict[str, Texts]]:
    """({type: its nodes}, {type: their ids}), in the order in which types are named."""
    kinds: dict[str, Rows] = {}
    ids: dict[str, Texts] = {}
    if isinstance(nodes, Mapping):
        for kind, table in nodes.items():
            kinds[kind] = read(table, NODES, names, owner, f"{owner}.nodes.{kind}", needed=("node",))
            ids[kind] = kinds[kind]["node"].texts()
    else:
        every = read(nodes, NODES, names, owner, needed=("node", TYPE))
        code, named = every[TYPE].codes()
        known = every["node"].texts()
        for number in dict.fromkeys(code.tolist()):
            rows = np.flatnonzero(code == number)
            kinds[str(named[number])], ids[str(named[number])] = every.take(rows), known[rows]
    for kind in kinds:
        if JOIN in kind or not kind:
            raise InputError(f"{owner}.nodes: a type's name must be without {JOIN!r}, which joins types; got {kind!r}.")
    if target in kinds:
        wanted, _ = NODES.wanted(owner, names, only={*NODES.roles} - {"node", TYPE})
        check_there(list(kinds[target]), wanted, kinds[target].where)
    return kinds, ids


def _not_read(kinds: Mapping[str, Rows], target: str, features: Sequence[str]) -> list[str]:
    """Notes on what was found out about files of nodes, and on columns that are not read."""
    notes = [note for rows in kinds.values() for note in rows.found]
    for kind, rows in kinds.items():
        roles = [rows.names[role] for role in NODES.roles if role != "features"]
        own = {*roles, *features} if kind == target else {rows.names["node"], TYPE}
        unread = [name for name in rows if name not in own and rows.frame[name].notna().any()]
        why = "data.features would read one" if kind == target else f"those of type {target!r} alone are"
        if unread:
            notes.append(f"Columns of nodes of type {kind!r} that are not read: {', '.join(unread)}; {why}.")
    return list(dict.fromkeys(notes))


def _check_once(kind: str, ids: Texts, rows: Rows) -> None:
    """Raise `InputError` for a node that is listed twice."""
    if not len(again := repeated(ids)):
        return
    place = again[0]
    what = f"node {str(ids[place])!r} of type {kind!r}, column {rows.names['node']!r}, is"
    if "client" in rows:
        one, other = (rows["client"].text(each) for each in (int((ids == ids[place]).argmax()), place))
        if one != other:
            raise rows.error(again, f"{what} at two clients, {one!r} and {other!r}; each must be at one", noun="")
    raise rows.error(again, f"{what} listed twice")


def _features(own: Rows) -> tuple[str, ...]:
    """Names of the columns of features of the target nodes; those that have numbers unless they are named."""
    names = own.names["features"]
    if names is not ALL_OTHERS:
        return tuple(names)
    others = [own.names[role] for role in NODES.roles if role != "features"]
    return tuple(name for name in own if name not in others and np.isfinite(as_numbers(own.frame[name])).any())


# --- edges ------------------------------------------------------------------------------------------------------------


def _edge_tables(edges: Tables, ids: Mapping[str, Texts], kinds: Mapping[str, Rows], form: GraphForm) -> list[Relation]:
    """Edges between each two types, in the order in which they are named."""
    pairs: list[EdgeType] = []
    tables: list[Rows] = []
    named: list[list[Texts]] = []
    if isinstance(edges, Mapping):
        for name, table in edges.items():
            pair = tuple(name.split(JOIN))
            if len(pair) != 2:
                allowed = f"two types joined by {JOIN!r}, such as {JOIN.join((*kinds, *kinds)[:2])!r}"
                raise InputError(f"{form.owner}.edges: a name must be {allowed}; got {name!r}.")
            for kind in pair:
                if kind not in kinds:
                    raise InputError(f"{form.owner}.edges, {name!r}: {unknown('node type', kind, kinds)}")
            pairs.append((pair[0], pair[1]))
            tables.append(edges_between(table, form, f"{form.owner}.edges.{name}"))
        named = [[rows[role].texts() for role in BOTH] for rows in tables]
    else:
        every = read(edges, EDGES, form.names, form.owner)
        types = [every[role].texts() for role in ENDS]
        for role, of in zip(ENDS, types, strict=True):
            if len(lost := np.flatnonzero(~np.isin(of, list(kinds)))):
                raise InputError(f"{every.row(lost[0])}: {role!r}: {unknown('node type', of[lost[0]], kinds)}")
        texts = [every[role].texts() for role in BOTH]
        pairs = list(dict.fromkeys(zip(types[0].tolist(), types[1].tolist(), strict=True)))
        which = [np.flatnonzero((types[0] == one) & (types[1] == other)) for one, other in pairs]
        tables, named = [every.take(rows) for rows in which], [[of[rows] for of in texts] for rows in which]
    found = relations(pairs, tables, form)
    placed = [
        replace(each, ends=_places(each.pair, each.rows, both, ids, kinds))
        for each, both in zip(found, named, strict=True)
    ]
    orders = {each.pair for each in placed}  # named in both orders it is one
    return [each.turned() if each.pair[::-1] in orders and each.pair > each.pair[::-1] else each for each in placed]


def edges_between(table: Given, form: GraphForm, where: str, may_be_empty: bool = False) -> Rows:
    """Return the rows of a table of edges between two types, with all its columns where a reader looks for some."""
    if not form.reader:
        return read(table, EDGES, form.names, form.owner, where, only=BOTH)
    every = {**form.names, "edge_features": ALL_OTHERS}
    schema = replace(EDGES, may_be_empty=may_be_empty)
    return read(table, schema, every, form.owner, where, needed=BOTH, only=(*BOTH, *CARRYING))


def _places(
    pair: EdgeType, rows: Rows, named: Sequence[Texts], ids: Mapping[str, Texts], kinds: Mapping[str, Rows]
) -> Indices:
    """int64 [2, edges], the places of both ends within their types. Raises `InputError` for an end that is no node."""
    fits = [places_of(ids[kind], names) for kind, names in zip(pair, named, strict=True)]
    for role, kind, names, place in zip(BOTH, pair, named, fits, strict=True):
        if (place < 0).any():
            swapped = pair[0] != pair[1] and all(np.isin(named[end], ids[pair[1 - end]]).all() for end in (0, 1))
            hint = " The ids fit the other way round: the columns, or the types, are swapped." if swapped else ""
            must, got = f"a node of type {kind!r}, one of {kinds[kind].where}", str(names[int((place < 0).argmax())])
            raise rows[role].error(place < 0, must, repr(got), hint=hint)
    return np.stack(fits)
