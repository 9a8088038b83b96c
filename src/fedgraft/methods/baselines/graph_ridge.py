"""Ridge regression inside each client on what its graphs are made of: no network, no message."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import MinLen
from scipy import sparse

from fedgraft.contracts.labels import Floats, Labels
from fedgraft.contracts.ranges import NonNegativeInt, PositiveFloat, PositiveInt
from fedgraft.domains.closed_form import RIDGE_GRID, Parts, chosen_ridge
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.graphs.weisfeiler_lehman import subtree_counts
from fedgraft.domains.labels.constant import Answering
from fedgraft.domains.labels.numbers import Numbers


@dataclass(frozen=True)
class GraphRidge(Answering[GraphShard]):
    """Ridge regression on mean features and counts of subtrees, at each client by itself; tuned on its validation.

    A graph is told by the mean of its nodes' attributes, by how many nodes and edges it has, and by how often each
    Weisfeiler-Lehman colour occurs in it, in buckets. Every number of rounds and every penalty is tried.

    Source: Hoerl and Kennard, "Ridge Regression", Technometrics 1970; Shervashidze et al., "Weisfeiler-Lehman Graph
        Kernels", JMLR 2011, sec. 3.2 (the counts). Differs: colours share buckets.

    Args:
        hops: most rounds of colouring, >= 0; all from 0 on are tried.
        buckets: that colours are hashed into, >= 1.
        penalties: grid of the penalty of squared weights, each > 0.
    Needs: each client's own graphs and labels.
    Cost: none, as nothing is sent.
    """

    task: ClassVar[str] = "graph_regression"
    labels: ClassVar[Labels] = Numbers()
    default: ClassVar[bool] = True
    local: ClassVar[bool] = True

    hops: NonNegativeInt = 3
    buckets: PositiveInt = 4096
    penalties: Annotated[tuple[PositiveFloat, ...], MinLen(1)] = RIDGE_GRID

    def answers(self, shard: GraphShard, labels: Labels) -> Floats:
        """Return the predicted number of every graph of a client, float64 [graphs]."""
        parts = Parts(shard.rows("train"), shard.rows("validation"))
        plain = sparse.csr_matrix(_composition(shard, parts))
        predictions = [chosen_ridge(plain, shard.label, parts, self.penalties)]
        for hops in range(self.hops + 1):
            counts = subtree_counts(shard, hops, self.buckets) * np.sqrt(shard.sizes.mean())
            rows = sparse.csr_matrix(sparse.hstack([plain, counts], format="csr"))
            predictions.append(chosen_ridge(rows, shard.label, parts, self.penalties))
        judges = parts.judges if len(parts.judges) else parts.train
        errors = [np.square(each[judges] - shard.label[judges]).mean() for each in predictions]
        return predictions[int(np.argmin(errors))]


def _composition(shard: GraphShard, parts: Parts) -> Floats:
    """Return standardised means of attributes, numbers of nodes and edges, shares of kinds, [graphs, columns]."""
    graph = np.repeat(np.arange(shard.graphs), shard.sizes)
    kinds = np.zeros((shard.graphs, shard.kinds + 1))
    np.add.at(kinds, (graph, shard.kind), 1.0)  # of no kind is -1, the last column
    sums = np.zeros((shard.graphs, shard.attributes.shape[1]))
    np.add.at(sums, graph, shard.attributes)
    edges = np.diff(shard.edge_starts)[:, None]
    rows = np.hstack([sums / shard.sizes[:, None], kinds / shard.sizes[:, None], shard.sizes[:, None], edges])
    rows = rows - rows[parts.train].mean(axis=0)
    spread = rows[parts.train].std(axis=0)
    scaled: Floats = rows / np.where(spread > 0, spread, 1.0)
    return scaled
