"""The linear model of tasks about nodes, whose inputs are a node's own features."""

import numpy as np
from torch import Tensor

from fedgraft.contracts.abilities.linear import Linear
from fedgraft.contracts.labels import Labels
from fedgraft.contracts.values import Indices, Regression
from fedgraft.domains.nodes.training.client_graph import NodeData

WEIGHT, BIAS = "convolutions.0.own.weight", "convolutions.0.own.bias"
"""Parameters of a single layer that looks at a node alone; its weights are [features, outputs]."""


def linear_of(features: int, labels: Labels) -> Linear:
    """Return the linear model of so many features."""
    return Linear(WEIGHT, BIAS, features, labels.width, labels.numbers is None, by_features=True)


def regression_of(data: NodeData, examples: Indices, labels: Labels, weights: Tensor | None) -> Regression:
    """Return some training nodes; `weights` are of classes, float32 [classes], None for 1."""
    nodes = data.rows["train"][examples]
    label = data.label[nodes]
    if labels.numbers is None:
        targets = np.eye(labels.width, dtype=np.float32)[label]
        counts = np.ones(len(nodes), np.float32) if weights is None else weights.numpy()[label]
    else:
        targets, counts = label.astype(np.float32).reshape(len(nodes), -1), np.ones(len(nodes), np.float32)
    return Regression(data.features.filled(nodes), targets, counts)
