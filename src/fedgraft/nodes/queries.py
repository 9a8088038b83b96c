"""Questions about nodes: whose they are, and what their client makes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.errors import InputError
from fedgraft.nodes.sets import NodeShard
from fedgraft.values import Indices, Questions


@dataclass(frozen=True, eq=False)
class Asked:
    """What one client is asked.

    Args:
        ids: object [asked], the nodes' ids.
        nodes: int64 [asked], own nodes, those added last.
        new: how many nodes are added.
    """

    ids: NDArray[np.object_]
    nodes: Indices
    new: int = 0


def split_nodes_asked(shards: Sequence[NodeShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
    """{client: its nodes}."""
    if "nodes" not in tables:
        raise InputError("predict: a table of nodes is needed, one row each; give --nodes.")
    nodes = tables["nodes"]
    found = {}
    for number, shard in enumerate(shards):
        position = {str(name): place for place, name in enumerate(shard.ids)}
        rows = np.flatnonzero(nodes["node"].astype(str).isin(position))
        if len(rows):
            ids = nodes["node"].iloc[rows].astype(str).to_numpy(object)
            found[number] = Questions(rows, Asked(ids, np.array([position[name] for name in ids], np.int64)))
    return found


def with_new_nodes(shard: NodeShard, asked: Asked) -> NodeShard:
    """The client's part with the nodes that are added."""
    return shard
