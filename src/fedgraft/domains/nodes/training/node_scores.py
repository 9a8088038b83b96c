"""How answers about nodes are scored: by their classes, as any classification."""

from fedgraft.contracts.task_abilities import Accuracy
from fedgraft.contracts.values import SCORED_SPLITS, Sums
from fedgraft.domains.nodes.base import classification_metrics
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.wire.layouts import Array


class NodeScores(Accuracy[NodeShard, NodeData]):
    """Accuracy; mean cross-entropy, macro-F1 and AUC beside it."""

    classes: int

    @property
    def sums(self) -> tuple[str, ...]:
        """Right answers, examples, cross-entropy; counts for macro-F1 and AUC."""
        return classification_metrics.names(self.classes or 2)

    def sums_of(self, data: NodeData, shares: Array) -> dict[str, Sums]:
        """Return sums by the probabilities of all own nodes, float32 [own, classes]."""
        return {
            split: classification_metrics.sums_of(shares[data.rows[split]], data.label[data.rows[split]])
            for split in SCORED_SPLITS
        }

    def mean_loss(self, sums: Sums) -> float:
        """Return the mean cross-entropy; nan without examples."""
        return sums["loss"] / sums["count"] if sums.get("count") else float("nan")

    def measures(self, sums: Sums) -> dict[str, float]:
        """Return accuracy, macro-F1, AUC."""
        return classification_metrics.measures(sums)
