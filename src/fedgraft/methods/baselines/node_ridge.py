"""Ridge regression on the features of nodes and of their neighbours, in one place: no network."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import MinLen
from scipy import sparse

from fedgraft.contracts.labels import Floats, Labels
from fedgraft.contracts.ranges import NonNegativeInt, PositiveFloat
from fedgraft.domains.closed_form import RIDGE_GRID, Parts, chosen_ridge
from fedgraft.domains.labels.constant import Answering
from fedgraft.domains.labels.numbers import Numbers
from fedgraft.domains.nodes.base.shards import NodeShard, judges, pooled


@dataclass(frozen=True)
class NodeRidge(Answering[NodeShard]):
    """Ridge regression on nodes' features and the means of their neighbours', at one place; tuned on validation.

    Columns are a node's own features, the means over its neighbours, the means of these means, and so on; every number
    of hops and every penalty is tried.

    Source: Hoerl and Kennard, "Ridge Regression", Technometrics 1970; smoothed features as Wu et al., "SGC", ICML 2019.
    Differs: features of all hops side by side; SGC takes those of the last.

    Args:
        hops: most hops, >= 0; all from 0 on are tried.
        penalties: grid of the penalty of squared weights, each > 0.
    Needs: all features, edges and training labels at one place: not federated.
    Cost: none counted, as nothing is sent.
    """

    task: ClassVar[str] = "node_regression"
    labels: ClassVar[Labels] = Numbers()
    default: ClassVar[bool] = True

    hops: NonNegativeInt = 2
    penalties: Annotated[tuple[PositiveFloat, ...], MinLen(1)] = RIDGE_GRID

    def views(self, shards: Sequence[NodeShard]) -> Sequence[NodeShard]:
        """Return all nodes as one client's. Raises `InputError` if none of them is for training."""
        return [pooled(shards)]

    def answers(self, graph: NodeShard, labels: Labels) -> Floats:
        """Return the predicted number of every node, float64 [nodes]."""
        parts, chosen = Parts(graph.rows("train"), judges(graph)), judges(graph)
        shares = graph.edge_weight / np.repeat(graph.weighted_degree.astype(np.float64), graph.degree)
        means = sparse.csr_matrix((shares, graph.senders, graph.pointers), (graph.own, graph.own))
        columns: list[Any] = [graph.features]
        predictions: list[Floats] = []
        for hop in range(self.hops + 1):
            if hop:
                columns.append(means @ columns[-1])
            dense = isinstance(graph.features, np.ndarray)
            rows = np.hstack(columns) if dense else sparse.csr_matrix(sparse.hstack(columns, format="csr"))
            predictions.append(chosen_ridge(rows, graph.label, parts, self.penalties))
        errors = [np.square(each[chosen] - graph.label[chosen]).mean() for each in predictions]
        return predictions[int(np.argmin(errors))]
