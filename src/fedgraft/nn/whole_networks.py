"""Whole networks over (x, edge_index), as PyTorch Geometric's models are: called once on a graph, layers and all.

What such a network does is seen by trying it: how wide its states are, how far it looks, and which arguments it uses.
"""

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from fedgraft.errors import InputError
from fedgraft.nn import flops
from fedgraft.nn.edge_modules import columns_of, repeated
from fedgraft.nn.propagate import Block, GraphView, States

FURTHER: Final = ("edge_weight", "edge_attr", "batch")
"""Arguments behind x and edge_index that a network is given, by name, where it has them."""
_CARRIED: Final = {"edge_weight": "weights", "edge_attr": "columns"}
FARTHEST: Final = 16
"""Edges that a network is tried over: one that looks further is taken to look so far."""
_TRIES, _NOISE = 3, 0.1
"""How often gradients are looked at, and by how much weights are shaken before: some begin at zero."""


@dataclass(frozen=True, eq=False)
class Subgraph(Block):
    """All edges among some nodes at once, in `matrix` [nodes, nodes]; `place` says which nodes are asked for.

    Args:
        graph: int64 [nodes], the number of the graph that each node is of, ascending.
        graphs: int64 [graphs], numbers of those that are asked for, any times each.
    """

    graph: Tensor = field(kw_only=True)
    graphs: Tensor = field(kw_only=True)


@dataclass(frozen=True)
class Tried:
    """What a network does: the width of its states, and whether it gives one for each graph in place of each node.

    `reach` says how many edges away a node may be that matters to a node's state; `takes` are those of `FURTHER` that
    it is given, and `reads` says whether "weights" and "columns" of edges matter.
    """

    width: int
    reach: int
    pools: bool
    takes: frozenset[str]
    reads: frozenset[str] = frozenset()


class WholeNetwork(nn.Module):
    """A network that is called once, on all edges among some nodes.

    How many times an edge counts goes into `edge_weight` where the network uses it; else each edge is given so many
    times, rounded, once at least.

    Args:
        module: called as module(x, edge_index), x float32 [nodes, inputs], edge_index int64 [2, edges], from senders to
            receivers; with `edge_weight` float32 [edges], `edge_attr` float32 [edges, any] and `batch` int64 [nodes],
            which graph each node is of, ascending, where it takes them. Gives float32 [nodes, width], or [graphs,
            width].
        tried: what it does.
        edge_width: columns of edges, of which it is given zeros where a graph's edges carry nothing.

    Attributes:
        width: of what it gives.
        pools: whether that is of graphs.
        takes: names of further arguments that it is given.
        edge_width: columns of edges among these.
    """

    def __init__(self, module: nn.Module, tried: Tried, edge_width: int = 0) -> None:
        super().__init__()
        self.module = module
        self.width, self.pools, self.takes = tried.width, tried.pools, tried.takes
        self.edge_width = edge_width if "edge_attr" in tried.takes else 0
        self._weights = sum(parameter.numel() for parameter in module.parameters())

    def forward(self, states: States, block: Subgraph) -> Tensor:
        """Return float32 [receivers, width]; of a network that pools, float32 [graphs, width]."""
        x = states if isinstance(states, Tensor) else states.dense
        numbers, graph = torch.unique_consecutive(block.graph, return_inverse=True)
        times = block.edge_weight if "edge_weight" in self.takes else block.edge_times
        edge_attr = columns_of(block, self.edge_width)
        output = self.called(x, block.edge_index, times, graph, edge_attr)
        return output[torch.searchsorted(numbers, block.graphs)] if self.pools else block.own(output)

    def called(
        self, x: Tensor, edge_index: Tensor, times: Tensor, graph: Tensor, edge_attr: Tensor | None = None
    ) -> Tensor:
        """Return what the network gives for `x`, float32 [nodes, inputs], and `edge_index`, int64 [2, edges].

        `times`, float32 [edges], says how many times each edge counts; `graph` is int64 [nodes], ascending from 0,
        without gaps; `edge_attr` is float32 [edges, any].
        """
        if "edge_weight" not in self.takes:
            edge_index, edge_attr = repeated(edge_index, times, edge_attr)
        arguments = {"edge_weight": times, "edge_attr": edge_attr, "batch": graph}
        output: Tensor = self.module(x, edge_index, **{name: arguments[name] for name in self.takes})
        products = 3 if torch.is_grad_enabled() else 1  # the one, and one for each gradient
        flops.count(products * (len(x) * self._weights + edge_index.shape[1] * self.width))
        return output


class ViewNetwork(nn.Module):
    """A whole network over a graph whose edges have features."""

    def __init__(self, network: WholeNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, view: GraphView) -> Tensor:
        """Return embeddings, float32 [nodes, width]."""
        there = view.norm > 0  # other edges are those of another graph that shares the structure
        edge_index = torch.stack([view.graph.columns, view.graph.rows])[:, there]
        graph = torch.zeros(len(view.nodes), dtype=torch.int64, device=view.nodes.device)
        return self.network.called(
            view.nodes, edge_index, view.norm.new_ones(edge_index.shape[1]), graph, view.edges[there]
        )


@torch.enable_grad()  # it may be asked for while a model is scored
def tried(module: nn.Module, inputs: int, name: str, edge_width: int = 0) -> Tried:
    """Return what a network does, which is seen on two paths, one longer than it should look; its own state stays.

    It takes states of width `inputs` and features of edges, if any, of width `edge_width`; errors call it `name`.

    Raises `InputError` where it cannot be called as `WholeNetwork` calls it, or learn as other models do.
    """
    _check_parameters(module, name)
    nodes = FARTHEST + 3
    path = torch.arange(nodes - 1)[torch.arange(nodes - 1) != FARTHEST]
    edge_index = torch.cat([torch.stack([path, path + 1]), torch.stack([path + 1, path])], 1)
    available = {
        "edge_weight": torch.ones(edge_index.shape[1]),
        "edge_attr": torch.randn(edge_index.shape[1], edge_width) if edge_width else None,
        "batch": (torch.arange(nodes) > FARTHEST).long(),
    }
    names = _names(module, name, edge_width)
    copied, reach, uses = copy.deepcopy(module).eval(), 0, set[str]()
    for _ in range(_TRIES):
        with torch.no_grad():
            for parameter in copied.parameters():
                parameter.add_(_NOISE * torch.randn_like(parameter))
        x, arguments = torch.randn(nodes, inputs).requires_grad_(), {key: available[key] for key in names}
        output = _called(copied, x, edge_index, arguments, name)
        if (
            not isinstance(output, Tensor)
            or output.ndim != 2
            or len(output) not in (nodes, 2)
            or not output.requires_grad
        ):
            shape = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise InputError(
                f"{name} must give [nodes, width] of (x, edge_index), or [graphs, width] of (x, edge_index, batch), "
                f"that depends on x and on its weights; got {shape} for {nodes} nodes in 2 graphs."
            )
        (slope,) = torch.autograd.grad(output[0].square().sum(), x, allow_unused=True)
        seen = torch.zeros(1) if slope is None else slope[: FARTHEST + 1].abs().amax(1).nonzero()
        reach = max(reach, int(seen.max()) if len(seen) else 0)
        for key in [each for each in _CARRIED if each in names]:
            drawn = 0.5 + torch.rand(len(path) * 2) if key == "edge_weight" else torch.randn(len(path) * 2, edge_width)
            other = _called(copied, x, edge_index, {**arguments, key: drawn}, name)
            uses |= set() if torch.equal(output, other) else {key}
    takes = names if "edge_weight" in uses else names - {"edge_weight"}
    reads = frozenset(_CARRIED[key] for key in uses)
    return Tried(int(output.shape[1]), reach, len(output) == 2, takes, reads)


def width_taken(module: nn.Module, name: str) -> int:
    """Return the width of the nodes' states that a network takes: of the sizes of its weights, the first that fits.

    Raises `InputError` where none does.
    """
    _check_parameters(module, name)
    sizes = dict.fromkeys(size for each in module.parameters() for size in reversed(each.shape))
    row, reason = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), "it has no weights"
    copied = copy.deepcopy(module).eval()
    available = {"edge_weight": torch.ones(4), "batch": torch.zeros(3, dtype=torch.int64)}
    arguments = {key: available[key] for key in _names(module, name, 0) if key in available}
    for size in sizes:
        try:
            _called(copied, torch.randn(3, size), row, arguments, name)
        except InputError as error:
            reason = str(error)
        else:
            return size
    raise InputError(f"{name} takes nodes' states of no width that its weights have: {reason}")


def _called(module: nn.Module, x: Tensor, edge_index: Tensor, arguments: Mapping[str, Any], name: str) -> Any:
    try:
        return module(x, edge_index, **arguments)
    except Exception as error:  # whatever a class of the user's raises
        called = ", ".join(["x", "edge_index", *arguments])
        raise InputError(
            f"{name} cannot be called as module({called}) with x float32 [nodes, {x.shape[1]}], the features here: "
            f"{type(error).__name__}: {error}"
        ) from error


def _names(module: nn.Module, name: str, edge_width: int) -> frozenset[str]:
    """Return those of `FURTHER` that a network has as arguments; features of edges where there are any."""
    parameters = inspect.signature(module.forward).parameters
    free = [each for each in parameters.values() if each.default is each.empty and each.kind < each.VAR_POSITIONAL][2:]
    keywords = [each for each in parameters.values() if each.default is each.empty and each.kind == each.KEYWORD_ONLY]
    for each in [*free, *keywords]:
        if each.name not in FURTHER:
            raise InputError(
                f"{name} needs {each.name!r}; a network is called as module(x, edge_index), with "
                f"{', '.join(FURTHER[:-1])} and {FURTHER[-1]} where it has arguments of these names."
            )
        if each.name == "edge_attr" and not edge_width:
            raise InputError(f"{name} needs 'edge_attr', and edges have no features in this task.")
    return frozenset(key for key in FURTHER if key in parameters and (edge_width or key != "edge_attr"))


def _check_parameters(module: nn.Module, name: str) -> None:
    for key, parameter in module.named_parameters():
        if isinstance(parameter, UninitializedParameter):
            raise InputError(f"{name}: {key} has no shape yet; call the network once before, or give it all widths.")
        if parameter.dtype != torch.float32:
            raise InputError(f"{name}: {key} must be float32; got {parameter.dtype}.")
        if not parameter.requires_grad:
            raise InputError(f"{name}: {key} has requires_grad = False, but every weight of a run's model learns.")
