"""Questions about target nodes of typed graphs: whose they are, which are new, and a client's graph with these."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.values import Indices, Questions
from fedgraft.domains.node_tables import answers, check_given, clients_said, feature_rows, named_once, texts_of
from fedgraft.domains.tables.columns import Source, read_table, row_of
from fedgraft.domains.typed.edges import once
from fedgraft.domains.typed.features import structural_features
from fedgraft.domains.typed.new_nodes import Newcomers, Node, Owners, owners_of, placed, read_links
from fedgraft.domains.typed.shards import EdgeType, Features, TypedGraph
from fedgraft.errors import InputError, nearest
from fedgraft.wire.layouts import Array

LOG = logging.getLogger("fedgraft.data")

OWNER = "predict"


@dataclass(frozen=True, eq=False)
class Asked:
    """Questions about target nodes to one client.

    Args:
        ids: object [asked], the nodes' ids.
        nodes: int64 [asked], their places: the client's target nodes first, then new ones.
        new: {type: object [new], ids} of nodes that the client has not.
        features: float32 [new target nodes, f]; None where features are made of what a client holds.
        edges: {types: int64 [2, edges]}, edges of new nodes, by places, the client's nodes first.
    """

    ids: NDArray[np.object_]
    nodes: Indices
    new: Mapping[str, NDArray[np.object_]]
    features: "Features | None"
    edges: Mapping[EdgeType, Indices]


def split_typed_nodes_asked(
    shards: Sequence[TypedGraph], tables: Mapping[str, pd.DataFrame], feature_names: Sequence[str] | None = None
) -> dict[int, Questions]:
    """Return {client: its target nodes}, every row of the table "nodes" with one client.

    Args:
        shards: all clients' own parts.
        tables: "nodes" with a column "node" and perhaps "client"; a row whose id no client has is a new node and needs
            features, which are not read of other rows. "edges" with columns "source_type", "source", "target_type" and
            "target": edges of new nodes, and of nodes of other types that come with them. And "features", in a column
            "name" the names of columns of features, none where features are made of what a client holds.
        feature_names: the same as the table "features"; None = as it says, or "0", "1" ... without it.

    Raises `InputError` for whatever is missing, unknown or without a client.
    """
    where = f"{OWNER}.nodes"
    if "nodes" not in tables:
        raise InputError(f"{OWNER}: a table of nodes is needed, one row each; give --nodes.")
    table = named_once(tables["nodes"], where)
    table, source = read_table(table, where, {f"{OWNER}.node": "node"}, list(table.columns))
    ids = texts_of(table, "node", source).astype(object)
    target = shards[0].target
    links = read_links(tables.get("edges"), f"{OWNER}.edges", shards[0])
    ends = [node for pair in links.pairs for node in pair]
    owners = owners_of(shards, [*((target, name) for name in ids), *ends])
    client, place = _known(shards, ids, clients_said(table, [shard.name for shard in shards], source), owners, source)
    new = np.flatnonzero(place < 0)
    listed: dict[str, int] = {}
    for row in new.tolist():
        if listed.setdefault(ids[row], row) != row:
            raise InputError(f"{row_of(source, listed[ids[row]])}: new node {ids[row]!r} is listed twice.")
    values = _features(shards, table, ids, new, client, _names(shards, tables, feature_names), source, {*ends})
    said = {ids[row]: int(client[row]) for row in new.tolist() if client[row] >= 0}
    newcomers = Newcomers(shards, owners, listed, said, source, links)
    for kind, names in newcomers.others.items():
        LOG.warning(f"{OWNER}.edges: {len(names):,} new nodes of type {kind!r}, such as {names[0]!r}.")
    client[new] = [newcomers.client((target, ids[row])) for row in new.tolist()]
    found = {}
    for number in np.unique(client).tolist():
        rows, mine = np.flatnonzero(client == number), np.flatnonzero(client[new] == number)
        place[new[mine]] = shards[number].targets + np.arange(len(mine))
        pairs = newcomers.edges_of(number)
        added, edges = placed(shards[number], owners, number, ids[new[mine]].tolist(), pairs)
        asked = Asked(ids[rows], place[rows], added, None if values is None else values[mine], edges)
        found[number] = Questions(rows, asked)
    return found


def with_new_nodes(graph: TypedGraph, asked: Asked) -> tuple[TypedGraph, Indices]:
    """Return the client's graph with new nodes behind its own, and the places of the target nodes that are asked about.

    Features that are made of what the client holds are made anew, of all its target nodes.
    """
    if not asked.new:
        return graph, asked.nodes
    new = len(asked.new.get(graph.target, ()))
    edges = dict(graph.edges)
    for pair, ends in asked.edges.items():
        edges[pair] = once(np.concatenate([edges[pair], ends], axis=1), pair[0] == pair[1])
    features = np.zeros((new, graph.width), np.float32) if asked.features is None else asked.features
    extended = replace(
        graph,
        ids={kind: np.concatenate([known, asked.new.get(kind, known[:0])]) for kind, known in graph.ids.items()},
        features=_stacked(graph.features, features),
        label=np.concatenate([graph.label, np.full(new, -1)]),
        split=np.concatenate([graph.split, np.full(new, -1, np.int8)]),
        edges=edges,
    )
    if asked.features is None:
        extended = replace(extended, features=structural_features(extended))
    return extended, asked.nodes


def answered(asked: Asked, classes: Sequence[str], shares: Array) -> dict[str, Array]:
    """Return the likeliest class of each node that was asked for, and how likely the model takes it to be.

    Args:
        asked: which nodes.
        classes: names.
        shares: float32 [asked, classes], predicted probabilities.
    """
    return answers(asked.ids, classes, shares)


def _names(
    shards: Sequence[TypedGraph], tables: Mapping[str, pd.DataFrame], feature_names: Sequence[str] | None
) -> list[str]:
    """Columns of features; none where they are made of what a client holds."""
    if feature_names is not None:
        return list(feature_names)
    if "features" in tables:
        return list(map(str, tables["features"]["name"]))
    return [str(number) for number in range(shards[0].width)]


def _known(
    shards: Sequence[TypedGraph], ids: NDArray[np.object_], said: Indices, owners: Owners, source: Source
) -> tuple[Indices, Indices]:
    """(client, place among its target nodes) of each row; for a new node what the row says of the client, and -1."""
    client, place = said.copy(), np.full(len(ids), -1)
    for row, name in enumerate(ids):
        whose = owners.get((shards[0].target, name), {})
        mine = [number for number in whose if said[row] in (-1, number)]
        if len(mine) == 1:
            client[row], place[row] = mine[0], whose[mine[0]]
        elif whose:
            every = " and ".join(repr(shards[number].name) for number in whose)
            why = f"of client {every}, not of {shards[said[row]].name!r}"
            if mine:
                why = f"of clients {every}; a column 'client' must say whose is meant"
            raise InputError(f"{row_of(source, row)}: node {name!r} is {why}.")
    return client, place


def _features(
    shards: Sequence[TypedGraph],
    table: pd.DataFrame,
    ids: NDArray[np.object_],
    new: Indices,
    client: Indices,
    columns: Sequence[str],
    source: Source,
    linked: Collection[Node],
) -> "Features | None":
    """Float32 [new, f], of new target nodes; None where they are made of what a client holds.

    Raises `InputError` for a new node without features, or where these are made without edges: its id is taken for
    wrong.
    """
    target = shards[0].target

    def ids_near(row: int) -> list[str]:
        among = shards if client[row] < 0 else [shards[client[row]]]
        return [str(name) for shard in among for name in shard.ids[target]]

    if not columns:
        lonely = [row for row in new.tolist() if (target, ids[row]) not in linked]
        if lonely:
            raise InputError(
                f"{row_of(source, lonely[0])}: no client has a {target} {ids[lonely[0]]!r} ({len(lonely)} such rows)."
                f"{nearest(ids[lonely[0]], ids_near(lonely[0]))} A new node needs edges, in the table of edges."
            )
        return None
    first: Features = shards[0].features[:0]
    if not len(new):
        return first
    check_given(table, ids, new, columns, source, ids_near)
    values = table.drop(columns=["node", "client"], errors="ignore")
    is_sparse = not isinstance(first, np.ndarray)
    return feature_rows(values, new, columns, is_sparse, source, f"a feature of new node {ids[new[0]]!r}")


def _stacked(known: Features, new: Features) -> Features:
    if isinstance(known, np.ndarray):
        return np.concatenate([known, np.asarray(new)])
    return sparse.csr_matrix(sparse.vstack([known, new], format="csr"))
