"""Modules over (x, edge_index), as PyTorch Geometric's convolutions are, in the place of ours.

A module is called with one graph, each node of which both sends and receives. A `Block` has receivers that may be other
nodes than its senders; `EdgeModule` makes one graph of it and takes the receivers' rows of what comes out.
"""

import inspect
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fedgraft.errors import InputError
from fedgraft.nn import flops
from fedgraft.nn.propagate import Block, GraphView, States, divisor


class EdgeModule(nn.Module):
    """A convolution that calls a module over (x, edge_index[, edge_weight][, edge_attr]).

    How many times a sender is a neighbour goes into `edge_weight` where the module takes it; else each edge is given so
    many times, rounded, once at least. A `GCNConv` divides by degrees in the whole graph, of which a block shows a
    part: it gets them within `edge_weight`, with the loops, and its own normalisation is off.

    Args:
        module: called as module(x, edge_index), x float32 [nodes, inputs], edge_index int64 [2, edges], from senders to
            receivers; gives float32 [nodes, outputs].
        edge_width: columns of edges that it is given as `edge_attr`, if it takes some; zeros where edges carry nothing.
    """

    def __init__(self, module: nn.Module, edge_width: int = 0) -> None:
        super().__init__()
        self.module, self._edge_width = module, edge_width
        self._takes = frozenset(inspect.signature(module.forward).parameters)
        self._loop = _taken_loop(module)
        self._weights = sum(parameter.numel() for parameter in module.parameters())

    def forward(self, states: States, block: Block) -> Tensor:
        """Return float32 [receivers, outputs]."""
        x = states if isinstance(states, Tensor) else states.dense
        (sender, receiver), place, degree = block.edge_index, block.place, block.degree_from
        times = block.edge_weight if "edge_weight" in self._takes else block.edge_times
        edge_attr = columns_of(block, self._edge_width)
        if len(torch.unique(place)) < len(place):
            # Two colours of nodes may have one colour before: each receiver gets a row of its own, before the senders'.
            x, degree = torch.cat([block.own(x), x]), torch.cat([block.degree, degree])
            sender, place = sender + len(place), torch.arange(len(place), device=place.device)
        return self.called(x, torch.stack([sender, place[receiver]]), times, degree, edge_attr)[place]

    def called(
        self, x: Tensor, edge_index: Tensor, times: Tensor, degree: Tensor, edge_attr: Tensor | None = None
    ) -> Tensor:
        """Return float32 [nodes, outputs] of `x`, float32 [nodes, inputs], and `edge_index`, int64 [2, edges].

        `times`, float32 [edges], says how many times each edge counts, and `degree`, float32 [nodes], how many
        neighbours each has. Features of edges, float32 [edges, any], are ignored where the module takes none.
        """
        arguments = {}
        if self._loop is not None:
            edge_index, times = _smoothing(edge_index, times, degree, self._loop)
        if "edge_weight" in self._takes:
            arguments["edge_weight"] = times
        else:
            edge_index, edge_attr = repeated(edge_index, times, edge_attr)
        if "edge_attr" in self._takes and edge_attr is not None:
            arguments["edge_attr"] = edge_attr
        output: Tensor = self.module(x, edge_index, **arguments)
        products = 3 if torch.is_grad_enabled() else 1  # the one, and one for each gradient
        flops.count(products * (len(x) * self._weights + edge_index.shape[1] * output.shape[1]))
        return output


class EdgeStack(nn.Module):
    """Convolutions over a graph whose edges have features, a ReLU between them."""

    def __init__(self, layers: Sequence[EdgeModule]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, view: GraphView) -> Tensor:
        """Return embeddings, float32 [nodes, width]."""
        there = view.norm > 0  # other edges are those of another graph that shares the structure
        edge_index = torch.stack([view.graph.columns, view.graph.rows])[:, there]
        edges, times = view.edges[there], view.norm.new_ones(edge_index.shape[1])
        degree = torch.bincount(edge_index[1], minlength=len(view.nodes)).to(times.dtype)
        state = view.nodes
        for number, layer in enumerate(self.layers):
            state = layer.called(torch.relu(state) if number else state, edge_index, times, degree, edges)  # type: ignore[operator]
        return state


def columns_of(block: Block, width: int) -> Tensor | None:
    """Return so many columns of a block's edges, float32 [edges, width], zeros where they carry nothing; None for 0."""
    if not width:
        return None
    edges = block.edges
    carried = edges is not None and edges.values.shape[1]
    return edges.values if edges is not None and carried else block.degree.new_zeros(block.edge_index.shape[1], width)


def repeated(edge_index: Tensor, times: Tensor, edge_attr: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return edges [2, repeated], and features, each as often as `times` [edges] says, rounded, once at least."""
    count = times.round().long().clamp(min=1)
    attributes = None if edge_attr is None else edge_attr.repeat_interleave(count, 0)
    return edge_index.repeat_interleave(count, 1), attributes


def check_one_hop(module: nn.Module, inputs: int, outputs: int, name: str, edge_width: int = 0) -> None:
    """Raise `InputError` unless a module gives [nodes, outputs] of (x, edge_index) and looks at neighbours alone.

    It is tried on three nodes in a row; `name` is told.
    """
    x = torch.randn(3, inputs).requires_grad_()
    row = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    parameters = inspect.signature(module.forward).parameters
    weighs = "edge_weight" in parameters and parameters["edge_weight"].default is inspect.Parameter.empty
    more = {"edge_weight": torch.ones(4)} if weighs else {}
    more |= {"edge_attr": torch.randn(4, edge_width)} if edge_width and "edge_attr" in parameters else {}
    was_training = module.training
    try:
        output = module.eval()(x, row, **more)
    except Exception as error:  # whatever a class of the user's raises
        called = ", ".join(["x", "edge_index", *more])
        lacks = " (edges carry no columns here)" if "edge_attr" in parameters.keys() - more.keys() else ""
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{name} cannot be called as module({called}){lacks}: {reason}") from error
    module.train(was_training)
    if not isinstance(output, Tensor) or output.shape != (3, outputs):
        shape = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise InputError(f"{name} must give [nodes, {outputs}] of (x, edge_index); got {shape} for 3 nodes.")
    (far,) = torch.autograd.grad(output[0].square().sum(), x)
    if far[2].any():
        raise InputError(
            f"{name} must be one convolution, which looks at neighbours alone; it looks further, as a whole network "
            "does: model.name = 'network' takes those. Or give its convolution; model.layers says how many there are."
        )


def _taken_loop(module: nn.Module) -> float | None:
    """Turn a `GCNConv`'s own normalisation off; return its loops' weight. None for any other module."""
    from torch_geometric.nn import GCNConv  # takes seconds

    if not (isinstance(module, GCNConv) and module.normalize):
        return None
    module.normalize = False
    return (2.0 if module.improved else 1.0) if module.add_self_loops else 0.0


def _smoothing(edge_index: Tensor, times: Tensor, degree: Tensor, loop: float) -> tuple[Tensor, Tensor]:
    """Return edges with loops, int64 [2, edges + nodes], and each one's weight by the root of both ends' degrees."""
    root = divisor(degree + loop).rsqrt()
    sender, receiver = edge_index
    each = torch.arange(len(degree), device=degree.device)
    weight = torch.cat([times * root[sender] * root[receiver], loop * root.square()])
    return torch.cat([edge_index, each.expand(2, -1)], 1), weight
