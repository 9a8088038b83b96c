"""GCN: graph convolutions whose edge weights are learnt from transition probabilities."""

import itertools
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import EdgeEncoder, LayeredEncoder, check_widths
from fedgraft.contracts.ranges import PositiveInt
from fedgraft.nn.layers import MakeLinear, linear
from fedgraft.nn.manual_gradients import Back
from fedgraft.nn.propagate import Block, GraphView, Sparse, States, spmm


@dataclass(frozen=True)
class GCN(EdgeEncoder, LayeredEncoder):
    """GCN: graph convolutions whose edge weights are learnt from transition probabilities.

    Layer: h <- relu(W (h_u / (d_u + 1) + sum over neighbours v of h_v / sqrt((d_u + 1) (d_v + 1)))), that is, each node
    is a neighbour of itself; no relu after the last. On graphs with edge features z, layer l: h <- relu(W_l (h + sum
    over neighbours v of a_l(z_uv) h_v / sqrt(d_u d_v))), a_l linear.

    Source: Kipf and Welling, ICLR 2017; with edge features as FedACS (Xu et al., IEEE TMC 2025), Eq. (1)-(2).
    Differs: FedACS does not say how z enters; here it scales each message, and the own state, whose edge to itself has
        no features, joins by a sum.

    Args:
        hidden: width of the inner layers, >= 1 (FedACS: 32); or a list of widths, one a layer, the last included.
        embedding: width of the output, >= 1 (FedACS: 64), and of all layers without edge features.
        layers: >= 1 (FedACS: 5). Neither this nor `embedding` is used where `hidden` is a list.
    """

    by_degree: ClassVar[bool] = True
    stochastic: ClassVar[bool] = False

    hidden: int | tuple[int, ...] = 32
    embedding: PositiveInt = 64
    layers: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_widths("GCN", self.hidden, self.layers)

    @property
    def widths(self) -> tuple[int, ...]:
        """Tuple of int, the width of each layer without edge features."""
        return self.hidden if isinstance(self.hidden, tuple) else (self.embedding,) * self.layers

    def convolution(self, inputs: int, outputs: int, g: torch.Generator, make: MakeLinear = linear) -> nn.Module:
        """One layer without edge features."""
        return Convolution(inputs, outputs, g, make)

    def build(self, node_width: int, edge_width: int, g: torch.Generator) -> nn.Module:
        """Return the stack of layers."""
        return Layers([node_width, *self._edge_widths], edge_width, g)

    @property
    def _edge_widths(self) -> tuple[int, ...]:
        """The width of each layer with edge features."""
        if isinstance(self.hidden, tuple):
            return self.hidden
        return (self.hidden,) * (self.layers - 1) + (self.embedding,)


class Convolution(nn.Module):
    """W (h_u / (d_u + 1) + sum over neighbours v of h_v / sqrt((d_u + 1) (d_v + 1)))."""

    def __init__(self, inputs: int, outputs: int, g: torch.Generator, make: MakeLinear) -> None:
        super().__init__()
        self.linear = make(inputs, outputs, g)

    def forward(self, state: States, block: Block) -> Tensor:
        """Return float32 [receivers, outputs]."""
        if self._maps_first(state):
            return self._mapped_first(state, block)
        mapped: Tensor = self.linear(block.smoothed(state))
        return mapped

    def with_back(self, state: States, block: Block) -> tuple[Tensor, Back]:
        """Return float32 [receivers, outputs], and a function that takes its gradient back."""
        if self._maps_first(state):
            return self._mapped_first(state, block), partial(self._mapped_first_back, block, state)  # type: ignore[arg-type]
        gathered = block.smoothed(state)
        return self.linear(gathered), partial(self._back, block, gathered)

    def _maps_first(self, state: States) -> bool:
        """Whether states are added up behind the map: narrower ones, but not rows that never change, too many."""
        narrower = self.linear.weight.numel() < state.shape[1] ** 2
        return isinstance(state, Sparse) or (isinstance(state, Tensor) and narrower)

    def _mapped_first(self, state: States, block: Block) -> Tensor:
        """Return float32 [receivers, outputs]; the bias joins once."""
        return block.smoothed(state, self.linear.product).add_(cast(Tensor, self.linear.bias))

    def _mapped_first_back(
        self, block: Block, state: Tensor | Sparse, gradient: Tensor, further: bool
    ) -> Tensor | None:
        """Add gradients to the parameters; return the states' gradient if it goes `further`."""
        self.linear.bias_back(gradient)
        return self.linear.product_back(state, block.smoothed_back(gradient), further)

    def _back(self, block: Block, gathered: Tensor, gradient: Tensor, further: bool) -> Tensor | None:
        """Do the same where states are added up before they are mapped."""
        before = self.linear.back(gathered, gradient, further)
        return before if before is None else block.smoothed_back(before)


class Layers(nn.Module):
    """The module of `GCN`; messages start with the plain symmetric normalisation."""

    def __init__(self, widths: list[int], edge_width: int, g: torch.Generator) -> None:
        super().__init__()
        self.linear = nn.ModuleList(linear(a, b, g) for a, b in itertools.pairwise(widths))
        self.scale = nn.Parameter(torch.ones(len(widths) - 1))
        self.edge = nn.Parameter(torch.zeros(len(widths) - 1, edge_width))

    def forward(self, view: GraphView) -> Tensor:
        """Return embeddings [nodes, embedding]."""
        weights = view.norm * (self.scale[:, None] + self.edge @ view.edges.t())  # one contiguous row per layer
        state = view.nodes
        for number, layer in enumerate(self.linear):
            state = layer(state + spmm(weights[number], state, view.graph))
            if number < len(self.linear) - 1:
                state = torch.relu(state)
        return state
