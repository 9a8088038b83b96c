"""The contract of graph encoders, and their abilities; a task names those it can use as the type of its `encoder`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from fedgraft.contracts.ranges import Checked
from fedgraft.errors import require
from fedgraft.nn.layers import MakeLinear, linear
from fedgraft.nn.whole_networks import WholeNetwork

CARRIED: Final = ("columns", "weights")
"""What edges may carry beside their direction."""


class Encoder(Checked):
    """Turn a graph into an embedding per node; a task builds its model around one."""

    reads_neighbours: ClassVar[bool] = True
    """Whether a node's embedding depends on its neighbours; a perceptron's does not."""

    @property
    def width(self) -> int:
        """int, the width of an embedding; 0 of a whole network."""
        return 0

    def reads(self, inputs: int, edge_width: int) -> frozenset[str]:
        """Return what it reads of edges that have it, of `CARRIED`; by default neighbours count by weights.

        `inputs` is the width of nodes' states, `edge_width` the number of columns.
        """
        return frozenset({"weights"})

    @classmethod
    def options_from(cls, path: str, found: Any, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return this encoder's options for a class of torch that was named in place of an encoder.

        It was found at `path`, "package.module:Class", with options beside it. None (default) for what it is not for:
        one encoder at most takes it.
        """
        return None


class EdgeEncoder(Encoder, ABC):
    """Ability: read features of edges."""

    @abstractmethod
    def build(self, node_width: int, edge_width: int, g: torch.Generator) -> torch.nn.Module:
        """Draw a module from `g`: from a `propagate.GraphView` to float32 [nodes, width]."""


@dataclass(frozen=True, eq=False)
class Paths:
    """What the edges of a metapath carry, between each two nodes that it joins.

    Args:
        matrix: [nodes, nodes], in order; entry (i, j), above 0, is how much j counts to i. A node is joined to itself
            where a path leads back to it.
        values: float32 [entries, any], the means over the paths between the two of what their edges carry, first to
            last from i.
    """

    matrix: scipy.sparse.csr_matrix
    values: NDArray[np.float32]


class MetapathEncoder(Encoder, ABC):
    """Ability: read nodes of one type that metapaths join, each in a graph of its own, and perhaps what edges carry."""

    def reads(self, inputs: int, edge_width: int) -> frozenset[str]:
        """Return nothing, or what `carried_graph` makes something of."""
        return frozenset()

    @abstractmethod
    def graph(self, matrix: scipy.sparse.csr_matrix) -> Any:
        """Return a graph as the module reads it: made once, of which nodes each attends to, itself among them.

        `matrix` is [nodes, nodes]; its values do not matter. What is returned has `to(device)`.
        """

    def carried_graph(self, paths: Paths) -> Any:
        """Return a graph as `graph` does, of edges that carry something, if only weights; by default without these."""
        return self.graph(paths.matrix)

    @abstractmethod
    def build(self, node_width: int, path_widths: Sequence[int], g: torch.Generator) -> torch.nn.Module:
        """Draw a module from `g`.

        It goes from the nodes' features, `propagate.States` [nodes, node_width], and one graph for each metapath to
        float32 [nodes, width]. `path_widths` are the widths of the values of their `Paths`; 0 = none.
        """


class LayeredEncoder(Encoder, ABC):
    """Ability: be a stack of convolutions, which a task may also put together itself."""

    by_degree: ClassVar[bool] = False
    """Whether what a node sends depends on its degree: whether its convolutions read `degree_from`."""
    stochastic: ClassVar[bool] = True
    """Whether its convolutions may draw from torch's own generators, as dropout does."""

    reads_direction: ClassVar[bool] = False
    """Whether it matters which way an edge goes; else each counts alike at both of its ends."""

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        """Widths of the states behind each convolution, first to last."""

    @property
    def depth(self) -> int:
        """int, the number of convolutions."""
        return len(self.widths)

    @property
    def width(self) -> int:
        """Width of the last convolution's states."""
        return self.widths[-1]

    @abstractmethod
    def convolution(self, inputs: int, outputs: int, g: torch.Generator, make: MakeLinear = linear) -> torch.nn.Module:
        """Draw a convolution from `g`: from float32 [senders, inputs] and a `propagate.Block` to [receivers, outputs].

        What comes between two convolutions, such as a ReLU, is the task's. `make` makes the linear layers. With
        `layers.row_linear` a convolution also takes a `propagate.Sparse` for the senders' states, if the receivers are
        the first of the senders.
        """

    def edge_convolution(
        self, inputs: int, outputs: int, edge_width: int, g: torch.Generator, make: MakeLinear = linear
    ) -> torch.nn.Module:
        """Draw a convolution as `convolution` does, which may read `Block.edges`, so many numbers an edge; 0 = none."""
        return self.convolution(inputs, outputs, g, make)


class EdgeLayeredEncoder(LayeredEncoder):
    """Ability: read in each convolution what edges carry, and perhaps which way they go."""

    reads_direction: ClassVar[bool] = True

    def reads(self, inputs: int, edge_width: int) -> frozenset[str]:
        """Both."""
        return frozenset(CARRIED)

    @abstractmethod
    def edge_convolution(
        self, inputs: int, outputs: int, edge_width: int, g: torch.Generator, make: MakeLinear = linear
    ) -> torch.nn.Module:
        """Draw a convolution as `convolution` does, which reads `Block.edges`, so many numbers an edge; 0 = none."""

    def convolution(self, inputs: int, outputs: int, g: torch.Generator, make: MakeLinear = linear) -> torch.nn.Module:
        """Draw a convolution for edges that carry no numbers."""
        return self.edge_convolution(inputs, outputs, 0, g, make)


@dataclass(frozen=True)
class StackEncoder(LayeredEncoder):
    """A stack of convolutions of one width, or of a list of widths.

    Args:
        hidden: width of every layer, >= 1, or a list of widths, one a layer.
        layers: >= 1; not used where `hidden` is a list.
    """

    hidden: int | tuple[int, ...] = 64
    layers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_widths(type(self).__name__, self.hidden, self.layers)

    @property
    def widths(self) -> tuple[int, ...]:
        """Tuple of int, the width of each layer."""
        return widths_of(self.hidden, self.layers)


def widths_of(hidden: int | tuple[int, ...], layers: int) -> tuple[int, ...]:
    """Return `LayeredEncoder.widths` for one width and a number of layers, or for a width of each."""
    return hidden if isinstance(hidden, tuple) else (hidden,) * layers


class NetworkEncoder(Encoder, ABC):
    """Ability: be a whole network, which is called once on a graph; nobody sees the states of its layers."""

    stochastic: ClassVar[bool] = True
    """Whether it may draw from torch's own generators, as dropout does."""

    @property
    @abstractmethod
    def inputs(self) -> int:
        """int, the width of the nodes' states that it takes; 0 where it is made for any."""

    @abstractmethod
    def reach(self, inputs: int, edge_width: int = 0) -> int:
        """Return how many edges away a node may be that matters to a node; widths are as of `network`."""

    @abstractmethod
    def network(self, inputs: int, g: torch.Generator, edge_width: int = 0) -> WholeNetwork:
        """Make the network for states of width `inputs`, and features of edges, if any, of width `edge_width`.

        What is not given is drawn from `g`. Raises `InputError` where it cannot be called.
        """

    @abstractmethod
    def source(self, inputs: int) -> tuple[str, str]:
        """Return source text: a line that imports the class, and what makes the network, such as "Net(16)".

        Raises `InputError` where no text can.
        """


def check_widths(name: str, hidden: int | tuple[int, ...], layers: int) -> None:
    """Raise `InputError` unless the number of layers and all widths are >= 1; `name` is the encoder's."""
    require(layers >= 1, f"{name}.layers", ">= 1", layers)
    widths = widths_of(hidden, layers)
    allowed = ">= 1, in a list one for each layer" if isinstance(hidden, tuple) else ">= 1"
    require(len(widths) >= 1 and min(widths) >= 1, f"{name}.hidden", allowed, hidden)
