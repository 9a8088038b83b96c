"""Read how? The contract of what a model reads of nodes' features; a recipe's section [inputs] names one."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from fedgraft.contracts.ranges import Checked

Features: TypeAlias = Any
"""Features of nodes, float32 [nodes, f], an array or a CSR matrix."""


class Inputs(Checked):
    """What a model reads of features; by default they are read as they are.

    Each task has `read` make it once, before training, of a client's nodes, or of the nodes of its graphs. A graph of
    nodes has one path along which means are made, its edges; one of several types metapaths.

    Attributes:
        scale: length, or root mean square, that a node's features are brought to before; 0 = as they are.
    """

    scale: float = 0.0

    @property
    def hops(self) -> int:
        """How many means over neighbours are made, each of the one before."""
        return 0

    @property
    def raw(self) -> bool:
        """Whether, but for their length, features are read as they are."""
        return False

    @property
    def attends(self) -> bool:
        """Whether the model weighs features and hops, which are side by side, by what it learns."""
        return False

    @property
    def sums_neighbours(self) -> bool:
        """Whether every node is given, once, the sum of all its neighbours' features, wherever these are."""
        return False

    def blocks(self, paths: int = 1) -> int:
        """Return how many times as wide as features the rows are that are put together."""
        return 1

    def width(self, features: int, paths: int = 1) -> int:
        """Return the number of columns that a model's first layer reads, of so many features."""
        return features if self.attends else self.blocks(paths) * features

    def together(self, features: Features, paths: Sequence[Sequence[Features]]) -> Features:
        """Return rows [nodes, `blocks` x f] of features and of their means over hops, path by path."""
        return features

    def read(self, features: Features, means: Sequence[Callable[[Features], Features]] = ()) -> Features:
        """Return what a model reads of features of the right length.

        Each path has a function that returns the mean over every node and its neighbours there, inside the client.
        """
        paths = [[features] for _ in means if self.hops]
        for made, mean in zip(paths, means, strict=False):
            for _ in range(self.hops):
                made.append(mean(made[-1]))
        return self.together(features, [made[1:] for made in paths])

    @property
    def pooling(self) -> str:
        """How a model that is exported puts hops together: "concatenate", "last" or "mean"; "" where it cannot."""
        return ""


class OwnInputs(Inputs):
    """Ability: depend on a node's own features alone."""
