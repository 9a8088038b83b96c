"""Pyg: a stack of any convolution over (x, edge_index), PyTorch Geometric's or the user's own."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import nn

from fedgraft.contracts import given_networks, randomness
from fedgraft.contracts.encoder import EdgeEncoder, EdgeLayeredEncoder, check_widths, widths_of
from fedgraft.errors import InputError
from fedgraft.nn.edge_modules import EdgeModule, EdgeStack, check_one_hop
from fedgraft.nn.layers import MakeLinear, linear


@dataclass(frozen=True)
class Pyg(EdgeEncoder, EdgeLayeredEncoder):
    """Pyg: a stack of any convolution over (x, edge_index), PyTorch Geometric's or the user's own.

    A layer is made as Class(inputs, outputs, **options) and called as layer(x, edge_index), with `edge_weight` and
    `edge_attr`, columns of edges, where it takes them; a class with an option `edge_dim` is told how many there are. A
    class that is made around a network `nn`, as `GINEConv` and `NNConv`, gets a perceptron of two layers, or for what
    edges carry a linear layer. A layer may look at a node and its neighbours alone. Slower than the encoders here.

    Source: Fey and Lenssen, "Fast Graph Representation Learning with PyTorch Geometric", ICLR workshop 2019 (the call);
        default `GCNConv`: Kipf and Welling, ICLR 2017.
    Differs: a `GCNConv` divides by degrees in the whole graph, not in a batch's part of it; where neighbours are drawn,
        each counts as often as makes up for the others.

    Args:
        module: "package.module:Class" of the layer; "__main__:Class" for one of a notebook, without workers.
        options: of the class, {option: value}. Heads that are concatenated have a width of outputs / heads each; where
            heads do not divide outputs they are averaged, as GAT's last layer has it.
        hidden: width of every layer, >= 1 (ours: 64, as `sage`), or a list of widths, one a layer.
        layers: >= 1 (ours: 2); not used where `hidden` is a list.
    """

    by_degree: ClassVar[bool] = True
    reads_direction: ClassVar[bool] = False

    module: str = "torch_geometric.nn:GCNConv"
    options: dict[str, Any] = field(default_factory=dict)
    hidden: int | tuple[int, ...] = 64
    layers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_widths("Pyg", self.hidden, self.layers)
        _ = self._class  # other processes get it with this, or are told that they cannot

    @classmethod
    def options_from(cls, path: str, found: Any, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the options for a class of one convolution: the class, and those of a stack."""
        layer = isinstance(found, type) and issubclass(found, nn.Module) and given_networks.is_convolution(found)
        return {"module": path, **options} if layer else None

    @property
    def widths(self) -> tuple[int, ...]:
        """Tuple of int, the width of each layer."""
        return widths_of(self.hidden, self.layers)

    def reads(self, inputs: int, edge_width: int) -> frozenset[str]:
        """What the layer's class takes."""
        taken = {"columns": "edge_attr", "weights": "edge_weight"}
        return frozenset(what for what, name in taken.items() if name in signature(self._class.forward).parameters)

    def edge_convolution(
        self, inputs: int, outputs: int, edge_width: int, g: torch.Generator, make: MakeLinear = linear
    ) -> nn.Module:
        """Return one layer, from `inputs` to `outputs`; it has linear layers of its own kind."""
        return self._drawn(inputs, outputs, edge_width if "columns" in self.reads(inputs, edge_width) else 0, g)

    def build(self, node_width: int, edge_width: int, g: torch.Generator) -> nn.Module:
        """Return the stack of layers; those whose class has an option `edge_dim` read the edges' features."""
        read = edge_width if "edge_dim" in signature(self._class).parameters else 0
        widths = itertools.pairwise([node_width, *self.widths])
        return EdgeStack([self._drawn(inputs, outputs, read, g) for inputs, outputs in widths])

    def _drawn(self, inputs: int, outputs: int, edge_width: int, g: torch.Generator) -> EdgeModule:
        """Draw a layer: from torch's own generator, which is seeded from `g` and put back."""
        seed = int(torch.randint(2**62, (1,), generator=g))
        with randomness.seeded_torch(seed, "pyg"):
            layer = self._made(inputs, outputs, edge_width)
            check_one_hop(layer, inputs, outputs, f"model.module = {self.module!r}", edge_width)
        return EdgeModule(layer, edge_width)

    def _made(self, inputs: int, outputs: int, edge_width: int) -> nn.Module:
        names = list(signature(self._class).parameters)
        options = {**self.options, **({"edge_dim": edge_width} if edge_width and "edge_dim" in names else {})}
        heads, width = options.get("heads", 1), outputs
        if heads != 1 and options.get("concat", True):
            width, left = divmod(outputs, heads)
            if left:
                width, options["concat"] = outputs, False
        try:
            if names[:1] == ["nn"]:
                return self._class(_perceptron(inputs, width), **options)
            if "nn" in names and edge_width:
                options = {"nn": nn.Linear(edge_width, inputs * width), **options}
            return self._class(inputs, width, **options)
        except Exception as error:  # whatever a class of the user's raises
            called = ", ".join([str(inputs), str(width), *(f"{key}={value!r}" for key, value in options.items())])
            raise InputError(
                f"model.module = {self.module!r} cannot be made as Class({called}): {type(error).__name__}: {error}"
            ) from error

    @cached_property
    def _class(self) -> type[nn.Module]:
        """Import the layer's class."""
        imported = given_networks.imported(self.module, "Pyg.module")
        if not (isinstance(imported, type) and issubclass(imported, nn.Module)):
            raise InputError(f"Pyg.module must be a class of torch.nn.Module; {self.module!r} is {imported!r}.")
        return imported


def _perceptron(inputs: int, outputs: int) -> nn.Module:
    """As GIN has it."""
    return nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs))
