"""A perceptron over all clients' nodes together, by their features alone, as if there were no edges."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedgraft.contracts.labels import Floats, Labels
from fedgraft.domains.labels.classes import Classes
from fedgraft.domains.labels.constant import Answering
from fedgraft.domains.nodes.base.shards import NodeShard, pooled
from fedgraft.domains.nodes.training.perceptron import Perceptron


@dataclass(frozen=True)
class Mlp(Perceptron, Answering[NodeShard]):
    """A perceptron on features alone, at one place; regularisation and epochs tuned on validation.

    Source: the baseline "MLP" of Shchur et al., "Pitfalls of Graph Neural Network Evaluation", arXiv:1811.05868, sec.
        3; fitted as by scikit-learn's `MLPClassifier` (relu, Adam), bit for bit; its are the defaults named below.
    Differs: no dropout, which scikit-learn lacks; rows of features are scaled to one length; nodes for validation
        stop it, never a part of those for training.

    Args:
        hidden: widths of the hidden layers, each >= 1; none is logistic regression. Ours, as all without a source:
            about the best of a few on validation nodes of PubMed and Coauthor CS.
        alphas: grid of the penalty of squared weights, each >= 0, around the best there.
        length: of a row of features, > 0, which sets how fast Adam's steps of fixed size change outputs.
        epochs: most of a fit, >= 1.
        patience: epochs without a better validation score that end a fit, >= 1.
        batch_size: nodes per step, >= 1; all training nodes where they are fewer.
        learning_rate: of Adam, > 0 (scikit-learn).
        seed: of weights and batches, >= 0.

    Needs: all features and training labels at one place: not federated. The encoder `mlp` can be trained federated.
    Cost: none counted, as nothing is sent.
    """

    task: ClassVar[str] = "node"
    labels: ClassVar[Labels] = Classes()
    default: ClassVar[bool] = True

    def views(self, shards: Sequence[NodeShard]) -> Sequence[NodeShard]:
        """Return all nodes as one client's. Raises `InputError` if none of them is for training."""
        return [pooled(shards)]

    def answers(self, graph: NodeShard, labels: Labels) -> Floats:
        """Return probabilities of classes, float64 [nodes, classes]."""
        return self.probabilities(graph, labels)
