"""Edges of whole graphs that carry something, as a shard stores them."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.edge_columns import CarriedRows, EdgeReader, StoredEdges, each_both_ways, stored
from fedgraft.domains.graphs.shards import Edges, check_inside


def carried_edges(
    ends: Indices, sizes: Indices, carried: CarriedRows, reader: EdgeReader, where: str, base: int = 0
) -> tuple[Edges, StoredEdges, tuple[str, ...]]:
    """Return edges as a `GraphShard` holds them, what they carry, and a note for each kind of row that is no edge.

    An undirected edge may be listed one way or both: listed both ways it has each way what its row there says, so that
    it is one edge. Several rows of one direction are several edges, or what `reader.repeats` makes of them. The other
    arguments are as of `tidy_edges`.
    """
    check_inside(ends, sizes, where, base)
    rows, carried, notes = replace(reader, directed=True).chosen(ends, carried)
    ends, nodes = ends[:, rows], int(sizes.sum())
    ways = each_both_ways(ends, True) if reader.directed else _each_way(ends, nodes)
    pointers, senders, kept = stored(nodes, *ways, carried)
    receivers = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(pointers))
    return np.stack([receivers, senders]), kept, tuple(notes)


def _each_way(ends: Indices, nodes: int) -> tuple[Indices, Indices, Indices, NDArray[np.bool_]]:
    """(receiver, sender, row, along) of undirected edges, all [stored]: those listed one way alone go back, too."""
    alone = np.flatnonzero(~np.isin(ends[1] * nodes + ends[0], ends[0] * nodes + ends[1]))
    receiver, sender = np.concatenate([ends[1], ends[0, alone]]), np.concatenate([ends[0], ends[1, alone]])
    row = np.concatenate([np.arange(ends.shape[1]), alone])
    return receiver, sender, row, np.ones(len(row), bool)
