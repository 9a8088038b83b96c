"""Boosted trees on nodes' features and on aggregates of their edges, all nodes in one place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedgraft.contracts.labels import Floats, Labels
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.constant import Answering
from fedgraft.domains.nodes.base.shards import NodeShard, pooled
from fedgraft.domains.nodes.training.boosted import Boosted


@dataclass(frozen=True)
class Boosting(Boosted, Answering[NodeShard]):
    """Boosted trees on features and on figures of each node's own edges, at one place; tuned on validation.

    Figures are, apart for edges in and out: how many, with how many others, and of each column that edges carry the
    sum, mean, least, largest and standard deviation.

    Source: scikit-learn's `HistGradientBoostingClassifier`, after Ke et al., "LightGBM", NeurIPS 2017.
    Differs: the number of trees is chosen by the task's metric on validation nodes, in tenths of the most.

    Args:
        rates: grid of learning rates, each > 0: ours.
        leaves: grid of the most leaves of a tree, each >= 2: 31 is scikit-learn's, 7 ours.
        trees: most trees, >= 1 (scikit-learn: 100).

    Needs: all features, edges and training labels at one place: not federated.
    Cost: none counted, as nothing is sent.
    """

    task: ClassVar[str] = "node"
    labels: ClassVar[Labels] = Classes()

    def views(self, shards: Sequence[NodeShard]) -> Sequence[NodeShard]:
        """Return all nodes as one client's. Raises `InputError` if none of them is for training."""
        return [pooled(shards)]

    def answers(self, graph: NodeShard, labels: Labels) -> Floats:
        """Return probabilities of classes, float64 [nodes, classes]."""
        return self.probabilities(graph, labels)
