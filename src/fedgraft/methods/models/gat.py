"""GAT: attention over neighbours, scored from both ends and from what edges carry."""

import itertools
from dataclasses import dataclass
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from fedgraft.contracts.encoder import EdgeEncoder, EdgeLayeredEncoder
from fedgraft.contracts.ranges import PositiveInt, ProperFraction
from fedgraft.errors import require
from fedgraft.nn import edge_attention
from fedgraft.nn.edge_attention import Ends, attention
from fedgraft.nn.layers import MakeLinear, linear, normal
from fedgraft.nn.propagate import Block, GraphView, Sparse, States, end_sums, spmm

SCORE_LIMIT: Final = 8.0
"""exp(8) keeps sums of thousands of neighbours well within float32."""


@dataclass(frozen=True)
class GAT(EdgeEncoder, EdgeLayeredEncoder):
    """GAT: attention over neighbours, scored from both ends and from what edges carry.

    Layer: e_uv = leaky_relu(a . W h_u + b . W h_v + c . z_uv); the message of v is (1 + d . z_uv) W h_v, weighted by
    the softmax of e over u's edges; heads are concatenated, and a linear map of h_u is added. z are columns of edges;
    in the task `rating` transition probabilities, for which c and d begin at zero. Edges of the same two nodes each
    have a score; which way an edge goes does not matter.

    Source: Velickovic et al., ICLR 2018; with edge features as FedACS (Xu et al., IEEE TMC 2025), Eq. (1)-(2).
    Differs: scores are clamped to [-8, 8] instead of being shifted by their maximum per node, which
        needs no pass over segments and is exact within that range; FedACS does not say how z enters. Outputs that heads
        do not divide, such as classes, are means over heads, each as wide.

    Args:
        hidden: width of the inner layers, a multiple of `heads` (FedACS: 32).
        embedding: width of the output, a multiple of `heads` (FedACS: 64).
        layers: >= 1 (FedACS: 2).
        heads: attention heads, >= 1 (FedACS: 2).
        slope: of leaky_relu below 0, in [0, 1) (GAT: 0.2).
    """

    stochastic: ClassVar[bool] = False
    reads_direction: ClassVar[bool] = False
    hidden: int = 32
    embedding: int = 64
    layers: PositiveInt = 2
    heads: PositiveInt = 2
    slope: ProperFraction = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hidden", "embedding"):
            value = getattr(self, name)
            fits = value >= 1 and value % self.heads == 0
            require(fits, f"GAT.{name}", f"a positive multiple of heads = {self.heads}", value)

    @property
    def widths(self) -> tuple[int, ...]:
        """Tuple of int, the width of each layer."""
        return (*(self.hidden,) * (self.layers - 1), self.embedding)

    def edge_convolution(
        self, inputs: int, outputs: int, edge_width: int, g: torch.Generator, make: MakeLinear = linear
    ) -> nn.Module:
        """One layer over listed edges."""
        return Convolution(self, inputs, outputs, edge_width, g, make)

    def build(self, node_width: int, edge_width: int, g: torch.Generator) -> nn.Module:
        """Return the stack of layers."""
        pairs = itertools.pairwise(self._widths(node_width))
        return Layers([Attention(self, a, b, edge_width, g) for a, b in pairs])

    def _widths(self, node_width: int) -> list[int]:
        return [node_width, *self.widths]


class Layers(nn.Module):
    """The module of `GAT`."""

    def __init__(self, layers: list["Attention"]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, view: GraphView) -> Tensor:
        """Return embeddings [nodes, embedding]."""
        state = view.nodes
        for number, layer in enumerate(self.layers):
            state = layer(state, view)
            if number < len(self.layers) - 1:
                state = torch.relu(state)
        return state


class Attention(nn.Module):
    """One layer of `GAT`, all heads."""

    def __init__(self, options: GAT, inputs: int, outputs: int, edge_width: int, g: torch.Generator) -> None:
        super().__init__()
        self.heads, self.slope = options.heads, options.slope
        heads, width = options.heads, outputs // options.heads
        self.linear = linear(inputs, outputs, g)
        self.own = linear(inputs, outputs, g, bias=False)
        self.receiver = normal(heads, width, std=0.1, g=g)
        self.sender = normal(heads, width, std=0.1, g=g)
        self.edge_score = nn.Parameter(torch.zeros(heads, edge_width))
        self.edge_scale = nn.Parameter(torch.zeros(heads, edge_width))

    def forward(self, state: Tensor, view: GraphView) -> Tensor:
        """Return new states [nodes, outputs]."""
        heads = self.heads
        mapped = self.linear(state).view(len(state), heads, -1)
        receiver = torch.einsum("nhw,hw->hn", mapped, self.receiver)
        sender = torch.einsum("nhw,hw->hn", mapped, self.sender)
        ends = end_sums(receiver, sender, view.graph)
        scores = nn.functional.leaky_relu(ends + self.edge_score @ view.edges.t(), self.slope)
        weights = scores.clamp(-SCORE_LIMIT, SCORE_LIMIT).exp() * (view.norm > 0)  # one contiguous row per head
        scaled = weights * (1 + self.edge_scale @ view.edges.t())
        ones = mapped.new_ones(len(state), 1)
        outputs = []
        for head in range(heads):
            total = spmm(weights[head], ones, view.graph)
            total = total + (total == 0)  # a node without edges gets 0 / 1: a tiny divisor would blow its gradient up
            outputs.append(spmm(scaled[head], mapped[:, head].contiguous(), view.graph) / total)
        mixed: Tensor = torch.cat(outputs, 1) + self.own(state)
        return mixed


class Convolution(nn.Module):
    """One layer of `GAT` over the edges of a block."""

    def __init__(
        self, options: GAT, inputs: int, outputs: int, edge_width: int, g: torch.Generator, make: MakeLinear
    ) -> None:
        super().__init__()
        heads = options.heads
        self.heads, self.slope = heads, options.slope
        self._joins = outputs % heads == 0
        width = outputs // heads if self._joins else outputs
        self.linear = make(inputs, heads * width, g)
        self.own = make(inputs, outputs, g, bias=False)
        self.receiver = normal(heads, width, std=0.1, g=g)
        self.sender = normal(heads, width, std=0.1, g=g)
        self.edge_score = normal(heads, edge_width, std=0.1, g=g) if edge_width else None
        self.edge_scale = normal(heads, edge_width, std=0.1, g=g) if edge_width else None

    def forward(self, state: States, block: Block) -> Tensor:
        """Return float32 [receivers, outputs]."""
        heads, ends = self.heads, ends_of(block)
        mapped = self.linear(state)
        values = _headed(mapped, heads)
        received, sent = _headed(block.own(mapped), heads) @ self.receiver[:, :, None], values @ self.sender[:, :, None]
        scores = edge_attention.end_sums(received[:, :, 0], sent[:, :, 0], ends)
        columns = None if block.edges is None or not block.edges.values.shape[1] else block.edges.values.t()
        scaling = None
        if columns is not None and self.edge_score is not None and self.edge_scale is not None:
            scores, scaling = scores + self.edge_score @ columns, 1 + self.edge_scale @ columns
        scores = nn.functional.leaky_relu(scores, self.slope).clamp(-SCORE_LIMIT, SCORE_LIMIT)
        heard = attention(values, scores, block.edge_weight, scaling, ends)
        joined = heard.transpose(0, 1).flatten(1) if self._joins else heard.mean(0)
        own = state.head(block.receivers) if isinstance(state, Sparse) else block.own(state)
        mixed: Tensor = joined + self.own(own)
        return mixed


_ENDS: WeakKeyDictionary[Block, Ends] = WeakKeyDictionary()
"""The edges of blocks as attention takes them: whoever keeps a block finds them again in the next step."""


def ends_of(block: Block) -> Ends:
    """Return a block's edges; made once."""
    if block not in _ENDS:
        _ENDS[block] = Ends(block.edge_index[0], block.edge_index[1], block.matrix.shape)
    return _ENDS[block]


def _headed(rows: Tensor, heads: int) -> Tensor:
    """[rows, heads x width] as [heads, rows, width], in one piece."""
    return rows.view(len(rows), heads, -1).transpose(0, 1).contiguous()
