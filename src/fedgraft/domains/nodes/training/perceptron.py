"""A perceptron over all nodes in one place, by their features alone: what yardsticks begin with."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgraft.domains.nodes.base.pooled_graph import judges, of_length
from fedgraft.domains.nodes.base.shards import NodeShard


@dataclass(frozen=True)
class Perceptron:
    """scikit-learn's `MLPClassifier`, its penalty and its epochs tuned on validation nodes.

    Args:
        hidden: widths of the hidden layers; none is logistic regression.
        alphas: grid of the penalty of squared weights.
        length: to which rows of features are scaled.
        epochs: most of a fit.
        patience: epochs without a better validation score that end a fit.
        batch_size: nodes per step; all training nodes where they are fewer.
        learning_rate: of Adam.
        seed: of weights and batches.
    """

    hidden: tuple[int, ...] = (128,)
    alphas: tuple[float, ...] = (0.01, 0.1, 1.0)
    length: float = 4.0
    epochs: int = 60
    patience: int = 10
    batch_size: int = 256
    learning_rate: float = 0.001
    seed: int = 0

    def probabilities(self, graph: NodeShard) -> NDArray[np.float64]:
        """Return those of every node, [nodes, classes]; of equally good settings the first."""
        from sklearn.neural_network import MLPClassifier  # takes a second, which only those who want it should wait for

        train, chosen_on = graph.rows("train"), judges(graph)
        label, wanted = graph.label[train], graph.label[chosen_on]
        classes = np.unique(label)
        best, best_right = np.zeros((graph.own, len(graph.classes))), -1
        if len(classes) == 1:
            best[:, classes[0]] = 1
            return best
        features = of_length(graph.features, self.length)
        inputs, judged = features[train], features[chosen_on]
        for alpha in self.alphas:
            model = MLPClassifier(
                self.hidden,
                alpha=alpha,
                batch_size=min(self.batch_size, len(train)),
                learning_rate_init=self.learning_rate,
                random_state=self.seed,
            )
            own_best, best_epoch = -1, 0
            for epoch in range(self.epochs):
                model.partial_fit(inputs, label, classes=classes)
                right = int((model.predict(judged) == wanted).sum())
                if right > own_best:
                    own_best, best_epoch = right, epoch
                if right > best_right:
                    best[:, classes], best_right = model.predict_proba(features), right
                if epoch - best_epoch >= self.patience:
                    break
        return best
