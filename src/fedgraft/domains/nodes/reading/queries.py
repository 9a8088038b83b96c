"""Questions about nodes: whose they are, which are new, and what a client's part is with these."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.values import HaloRows, Indices, Questions
from fedgraft.domains.examples import Features, stacked
from fedgraft.domains.nodes.base.historical_embeddings import States
from fedgraft.domains.nodes.base.shards import NodeShard, Numbers, undirected
from fedgraft.domains.nodes.reading.new_nodes import Newcomers, ends_of
from fedgraft.domains.nodes.reading.tables import ASKED_EDGES, ASKED_NODES
from fedgraft.domains.tables.asked import feature_columns, ids_near, owners_of, places_known
from fedgraft.domains.tables.features import check_given, new_features
from fedgraft.domains.tables.reader import OWNER, read_asked
from fedgraft.wire.layouts import Tree

LOG = logging.getLogger("fedgraft.data")


@dataclass(frozen=True, eq=False)
class Asked:
    """Questions about nodes to one client.

    Args:
        ids: object [asked], the nodes' ids.
        nodes: int64 [asked], their numbers: 0 .. own - 1 are the client's, new ones follow.
        features: float32 [new, f], of new nodes.
        pointers: int64 [own + new + 1], of a CSR of the edges of new nodes, every edge both ways.
        senders: int32 [edges], its columns.
    """

    ids: NDArray[np.object_]
    nodes: Indices
    features: Features
    pointers: Indices
    senders: Numbers


def split_nodes_asked(shards: Sequence[NodeShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
    """{client: its nodes}, every row of the table "nodes" with one client.

    A row whose id no client has is a new node and needs features, which are not read of other rows, in columns that the
    table "features" names in its column "name", or "0", "1" ... The table "edges" has edges of new nodes, to each other
    or to nodes of the client that answers for them: the one that they name, or whose nodes they are joined to.

    Raises `InputError` for whatever is missing, unknown or without a client.
    """
    nodes = read_asked(tables, ASKED_NODES)
    ids = nodes["node"].texts().astype(object)
    edges = read_asked(tables, ASKED_EDGES)
    known = [shard.ids for shard in shards]
    owners = owners_of(known, {*ids, *ends_of(edges).ravel().tolist()})
    client, place = places_known(nodes, ids, lambda name: owners.get(name, {}), [shard.name for shard in shards])
    new = np.flatnonzero(place < 0)
    columns = feature_columns(tables, shards[0].width)
    listed, near = nodes.take(new), ids_near(known, client[new])
    check_given(listed, columns, ids[new], near)
    newcomers = Newcomers(shards, owners, ids[new], listed, edges)
    features = new_features(listed, columns, shards[0].features[:0], ids[new], near)
    client[new] = newcomers.clients(client[new])
    for number in np.unique(client[new]).tolist():
        mine = new[client[new] == number]
        place[mine] = shards[number].own + np.arange(len(mine))
    ends = newcomers.ends(client[new], place[new])
    found = {}
    for number in np.unique(client).tolist():
        rows, mine = np.flatnonzero(client == number), np.flatnonzero(client[new] == number)
        pairs = ends.get(number, np.zeros((2, 0), np.int64))
        pointers, senders, notes = undirected(pairs, shards[number].own + len(mine), f"{OWNER}.edges, row")
        for note in notes:
            LOG.warning(f"{OWNER}.edges, client {shards[number].name!r}: {note}")
        found[number] = Questions(rows, Asked(ids[rows], place[rows], features[mine], pointers, senders))
    return found


def test_nodes(shard: NodeShard) -> Asked:
    """Return the questions that stand for a client's test nodes."""
    nodes, nobody = shard.rows("test"), np.zeros(0, np.int32)
    return Asked(shard.ids[nodes], nodes, shard.features[:0], np.zeros(shard.own + 1, np.int64), nobody)


def with_new_nodes(shard: NodeShard, asked: Asked) -> NodeShard:
    """The client's part with new nodes behind its own; the halo stays as it is."""
    new = asked.features.shape[0]
    if not new:
        return shard
    own = shard.own + new
    receivers = [np.repeat(np.arange(shard.own), shard.degree), np.repeat(np.arange(own), np.diff(asked.pointers))]
    senders = [np.where(shard.senders < shard.own, shard.senders, shard.senders + new), asked.senders]
    ends = np.concatenate(receivers), np.concatenate(senders)
    edges = sparse.csr_matrix((np.ones(len(ends[0]), bool), ends), shape=(own, own + shard.halo))
    edges.sort_indices()
    is_new = asked.nodes >= shard.own
    ids = np.concatenate([shard.ids, np.full(new, "", dtype=object)])
    ids[asked.nodes[is_new]] = asked.ids[is_new]
    return replace(
        shard,
        ids=ids,
        features=stacked([shard.features, asked.features]),
        label=np.concatenate([shard.label, np.full(new, -1 if shard.classes else np.nan)]),
        split=np.concatenate([shard.split, np.full(new, -1, np.int8)]),
        pointers=edges.indptr.astype(np.int64),
        senders=edges.indices.astype(np.int32),
    )


def remembered_halo(remembered: Tree, own: int, halo: int, widths: Sequence[int]) -> list[HaloRows]:
    """Return the halo states that a client remembers: by now it may have more nodes of its own.

    `remembered` is what `States.to_tree` returned, or None, when it had `own` nodes, and a halo of so many.
    """
    states = States(own, halo, widths, remembered)
    slots = [np.flatnonzero(known[own:]) for known in states.known]
    return [HaloRows(slot, rows[own + slot]) for slot, rows in zip(slots, states.rows, strict=True)]
