"""Questions about target nodes of typed graphs: whose they are, which are new, and a client's graph with these."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices, Questions
from fedgraft.domains.examples import Features, stacked
from fedgraft.domains.tables.asked import feature_columns, ids_near, places_known
from fedgraft.domains.tables.features import new_features
from fedgraft.domains.tables.reader import OWNER, read_asked
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.typed.edges import once
from fedgraft.domains.typed.features import structural_features
from fedgraft.domains.typed.new_nodes import Newcomers, Node, owners_of, placed, read_links
from fedgraft.domains.typed.shards import EdgeType, TypedGraph
from fedgraft.domains.typed.tables import ASKED_NODES
from fedgraft.errors import InputError, nearest

LOG = logging.getLogger("fedgraft.data")


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

    A row whose id no client has is a new node and needs features, which are not read of other rows: in columns that
    `feature_names` names, or else the table "features", or "0", "1" ...; in none where they are made of what a client
    holds. The table "edges" has edges of new nodes, and of nodes of other types that come with them.

    Raises `InputError` for whatever is missing, unknown or without a client.
    """
    rows = read_asked(tables, ASKED_NODES)
    ids = rows["node"].texts().astype(object)
    target, names = shards[0].target, [shard.name for shard in shards]
    pairs, edges = read_links(tables, shards[0])
    ends = [node for pair in pairs for node in pair]
    owners = owners_of(shards, [*((target, name) for name in ids), *ends])
    client, place = places_known(rows, ids, lambda name: owners.get((target, name), {}), names)
    new = np.flatnonzero(place < 0)
    listed: dict[str, int] = {}
    for row in new.tolist():
        if listed.setdefault(ids[row], row) != row:
            raise InputError(f"{rows.row(listed[ids[row]])}: new node {ids[row]!r} is listed twice.")
    columns = feature_columns(tables, shards[0].width) if feature_names is None else list(feature_names)
    values = _features(shards, rows.take(new), ids[new], client[new], columns, {*ends})
    said = {ids[row]: int(client[row]) for row in new.tolist() if client[row] >= 0}
    newcomers = Newcomers(shards, owners, listed, said, rows, pairs, edges)
    for kind, new_ids in newcomers.others.items():
        LOG.warning(f"{OWNER}.edges: {len(new_ids):,} new nodes of type {kind!r}, such as {new_ids[0]!r}.")
    client[new] = [newcomers.client((target, ids[row])) for row in new.tolist()]
    found = {}
    for number in np.unique(client).tolist():
        here, mine = np.flatnonzero(client == number), np.flatnonzero(client[new] == number)
        place[new[mine]] = shards[number].targets + np.arange(len(mine))
        first, own = ids[new[mine]].tolist(), newcomers.edges_of(number)
        added, joined = placed(shards[number], owners, number, first, own)
        asked = Asked(ids[here], place[here], added, None if values is None else values[mine], joined)
        found[number] = Questions(here, asked)
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
        features=stacked([graph.features, features]),
        label=np.concatenate([graph.label, np.full(new, -1)]),
        split=np.concatenate([graph.split, np.full(new, -1, np.int8)]),
        edges=edges,
    )
    if asked.features is None:
        extended = replace(extended, features=structural_features(extended))
    return extended, asked.nodes


def _features(
    shards: Sequence[TypedGraph],
    new: Rows,
    ids: NDArray[np.object_],
    client: Indices,
    columns: Sequence[str],
    linked: Collection[Node],
) -> "Features | None":
    """Float32 [new, f], of new target nodes; None where they are made of what a client holds.

    Raises `InputError` for a new node without features, or where these are made without edges: its id is taken for
    wrong.
    """
    target = shards[0].target
    near = ids_near([shard.ids[target] for shard in shards], client)
    if columns:
        return new_features(new, columns, shards[0].features[:0], ids, near)
    if lonely := [row for row, name in enumerate(ids) if (target, name) not in linked]:
        name = ids[lonely[0]]
        end = f".{nearest(name, near(lonely[0]))} A new node needs edges, in the table of edges."
        raise new.error(lonely, f"no client has a {target} {name!r}", end=end)
    return None
