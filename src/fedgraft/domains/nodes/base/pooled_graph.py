"""Put all clients' nodes in one place for yardsticks, make rows alike, count what is right."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.nodes.base.shards import NodeShard, merge_shards
from fedgraft.errors import InputError


def pooled(shards: Sequence[NodeShard]) -> NodeShard:
    """All clients' nodes as one client's. Raises `InputError` if none of them is for training."""
    graph = merge_shards(shards)
    if not len(graph.rows("train")):
        raise InputError(f"The {graph.own:,} nodes of {len(shards):,} clients have no training node among them.")
    return graph


def judges(graph: NodeShard) -> Indices:
    """int64 [n], the nodes on which settings are chosen: those for validation, without any those for training."""
    rows = graph.rows("validation")
    return rows if len(rows) else graph.rows("train")


def likeliest(shares: NDArray[np.floating]) -> Indices:
    """Return the likeliest class of each node, int64 [nodes], from [nodes, classes]; of equals the first."""
    return np.asarray(shares.argmax(axis=1))
