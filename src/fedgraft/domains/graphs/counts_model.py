"""A linear model of graphs: of counts of subtrees alone."""

from torch import Tensor, nn

from fedgraft.contracts.labels import Labels
from fedgraft.contracts.loss import ClassShares
from fedgraft.domains.graphs.batches import GraphBatch
from fedgraft.domains.graphs.model import Subtrees


class CountsModel(nn.Module):
    """From counts of subtrees to what is told of graphs, by one linear layer; it begins with zeros.

    Args:
        buckets: width of the counts.
        outputs: classes, or numbers that are told of a graph.
        loud: factor of the counts, > 0.
        labels: what is told of a graph.
    """

    def __init__(self, buckets: int, outputs: int, loud: float, labels: Labels) -> None:
        super().__init__()
        self.labels, self.subtrees = labels, Subtrees(buckets, outputs, loud)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return logits, float32 [graphs, classes]."""
        outputs: Tensor = self.subtrees(batch)
        return outputs

    def represent(self, batch: GraphBatch) -> Tensor:
        """The logits: there is no hidden layer."""
        return self.forward(batch)

    def classify(self, hidden: Tensor, batch: GraphBatch) -> Tensor:
        """Return logits as they are."""
        return hidden

    def losses(self, hidden: Tensor, batch: GraphBatch, shares: ClassShares | None = None) -> Tensor:
        """Return the losses of graphs, float32 [graphs]."""
        return self.labels.losses(hidden, batch.label, shares)
