"""What a model makes of all of a client's nodes: values by which the structure of a graph takes part in training."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray


class Structure(NamedTuple):
    """What a model makes of all of a client's nodes, those without a label among them, and which are neighbours.

    Args:
        hidden: float32 [nodes, width], the last hidden layer.
        examples: int64 [examples], which node each training example is; it does not change.
        edges: int64 [2, edges], to each node from its neighbours: senders and receivers. They do not change, and an
            augmentation leaves them whole.
    """

    hidden: NDArray[np.float32]
    examples: NDArray[np.int64]
    edges: NDArray[np.int64]


class LocalGraph(NamedTuple):
    """A client's own part of a graph, and what a model makes of it; nothing of nodes elsewhere.

    Args:
        probabilities: float32 [nodes, classes], of each own node, whether it has a label or not.
        features: float32 [nodes, features], an array or a `scipy.sparse.csr_matrix`; of a `GraphNetworkTask` as its
            model reads them.
        edges: int64 [2, edges], nodes that are joined, each pair once either way; none is joined to itself.
        examples: int64 [examples], which nodes the training examples are.
        label: int64 [examples], their classes.
    """

    probabilities: NDArray[np.float32]
    features: Any
    edges: NDArray[np.int64]
    examples: NDArray[np.int64]
    label: NDArray[np.int64]


class Augmentation(NamedTuple):
    """What is left out of a client's graph, drawn anew each time, where a model looks at it: another view of the same.

    Args:
        edges: share of them, in [0, 1); each end of an edge is drawn by itself.
        features: share of the columns that are 0 for all nodes, in [0, 1).
    """

    edges: float = 0.0
    features: float = 0.0


WHOLE: Final = Augmentation()
"""The graph as it is."""


class StructurePenalty(NamedTuple):
    """A differentiable term that joins every step's loss, of the last hidden layer over all of a client's nodes.

    Args:
        term: from float32 [nodes, width], as `Structure` has them, to a scalar.
        left_out: of the graph where the model looks at it, in each step.
    """

    term: Callable[[torch.Tensor], torch.Tensor]
    left_out: Augmentation = WHOLE
