"""Generated edges with labels, for the laws of tasks and baselines of edges."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts.data import Data
from fedgraft.contracts.randomness import generator
from fedgraft.domains.edge_data.edge_rows import both_ways
from fedgraft.domains.edges.order_of_time import order_of
from fedgraft.domains.edges.shards import EdgeShard, deal_edges
from fedgraft.domains.nodes.base.shards import WholeGraph


@dataclass(frozen=True)
class ToyEdges(Data[EdgeShard]):
    """Edges in the order of time, of which those to a few nodes are nearly all of the class "bad".

    Earlier labels are a column of messages; of an edge that is scored one column of noise is known.

    Args:
        nodes: how many there are; an eighth of them are bad.
        edges: how many there are.
        clients: over which nodes are dealt, one after the other.
    """

    task: ClassVar[str] = "edge"

    nodes: int = 40
    edges: int = 600
    clients: int = 3

    def load(self, seed: int) -> list[EdgeShard]:
        """Load one shard per client, drawn by `seed`."""
        g = generator(seed, "edges")
        source, step = g.integers(self.nodes, size=self.edges), g.integers(1, self.nodes, size=self.edges)
        target = (source + step) % self.nodes
        label = ((target % 8 == 0) & (g.random(self.edges) < 0.9)).astype(np.int64)
        order = order_of(np.sort(g.integers(self.edges // 2, size=self.edges)).astype(np.float64))
        ends, told = np.stack([source, target]), label.astype(np.float32)[:, None]
        pointers, senders, rows = both_ways(ends, told, self.nodes, directed=True, order=order)
        graph = WholeGraph(
            name="toy",
            ids=np.arange(self.nodes).astype(str).astype(object),
            features=g.standard_normal((self.nodes, 2)).astype(np.float32),
            label=np.full(self.nodes, -1),
            classes=(),
            split=np.full(self.nodes, -1, np.int8),
            pointers=pointers,
            senders=senders,
            edge_rows=rows,
        )
        columns = g.standard_normal((self.edges, 1)).astype(np.float32)
        owner, names = np.arange(self.nodes) % self.clients, [f"toy-{k}" for k in range(self.clients)]
        return deal_edges(graph, ends, columns, label, ("good", "bad"), owner, names, timed=True)
