"""Network: a whole network of torch over (x, edge_index), PyTorch Geometric's or the user's own."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from inspect import Parameter, signature
from typing import Any

import torch
from torch import nn

from fedgraft.contracts import NetworkEncoder, NonNegativeInt, given_networks, randomness
from fedgraft.errors import InputError, require
from fedgraft.nn.whole_networks import Tried, WholeNetwork, tried, width_taken


@dataclass(frozen=True)
class Network(NetworkEncoder):
    """Network: a whole network of torch over (x, edge_index), PyTorch Geometric's or the user's own.

    A class is made as Class(**options); the first argument that has no default and is no option is the width of the
    nodes' features. An instance is taken as it is: every client begins with its weights. The network is called as
    network(x, edge_index), with `edge_weight`, `edge_attr` and `batch` by name where it has them, once on all that a
    step needs: the client's own nodes and, where features are shared, the neighbours elsewhere whose features it knows,
    as many edges away as the network looks, over all edges that the client knows. No client tells another a hidden
    state. What it gives is read out by the task's head. Slower than the encoders here.

    Source: the call and the subgraphs of a step are those of Fey and Lenssen, "Fast Graph Representation Learning with
        PyTorch Geometric", ICLR workshop 2019, and its `NeighborLoader`.
    Differs: neighbours elsewhere receive from the client's own nodes, too; where neighbours are drawn, each counts as
        often as makes up for the others.

    Args:
        module: "package.module:Class", or a function that returns a network; of an instance, "network.pt:" and the
            digest of that file, which the run's folder holds.
        options: of the class, {argument: value}.
        hops: edges that the network looks far, >= 0; 0 = found by trying it on a path, at most 16.
    """

    module: str
    options: dict[str, Any] = field(default_factory=dict)
    hops: NonNegativeInt = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if given_networks.is_given(self.module):
            require(not self.options, "Network.options", "{} with an instance, which is made already", self.options)
        _ = self._stored, self._classes  # other processes get these with it, or are told that they cannot

    @classmethod
    def options_from(cls, path: str, found: Any, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the options for any class of torch.nn.Module but one convolution, all given ones its own."""
        network = isinstance(found, type) and issubclass(found, nn.Module) and not given_networks.is_convolution(found)
        return {"module": path, "options": dict(options)} if network else None

    @cached_property
    def inputs(self) -> int:
        """int, the width of the nodes' states that it takes; 0 where it is made for any."""
        if not self._stored and self._width_argument():
            return 0
        with randomness.seeded_torch(0, "network"):
            return width_taken(self._made(0), self._name)

    def reach(self, inputs: int, edge_width: int = 0) -> int:
        """Return how many edges away a node may be that matters to a node."""
        return self.hops or self._trial(inputs, edge_width).reach

    def reads(self, inputs: int, edge_width: int) -> frozenset[str]:
        """What the network uses, as it is seen."""
        return self._trial(inputs, edge_width).reads

    def network(self, inputs: int, g: torch.Generator, edge_width: int = 0) -> WholeNetwork:
        """Make the network: an instance anew with its weights, a class by torch's generator, seeded from `g`."""
        seed = int(torch.randint(2**62, (1,), generator=g))
        with randomness.seeded_torch(seed, "network"):
            made = self._made(inputs)
        return WholeNetwork(made, self._trial(inputs, edge_width), edge_width)

    def source(self, inputs: int) -> tuple[str, str]:
        """Return the import of the class, and its call. Raises `InputError` for an instance, and a notebook's class."""
        if self._stored:
            raise InputError(
                f"{self._name} cannot be written as source text: nothing tells how its class made it. torch.save "
                'stores run.model, the network in it; or give its class: model={"name": "package.module:Class", ...}.'
            )
        package, _, name = self.module.partition(":")
        if package == "__main__":
            raise InputError(
                f"{self._name} cannot be imported elsewhere; give the class a module, and train with that."
            )
        arguments = [
            *([str(inputs)] if self._width_argument() else []),
            *(f"{k}={v!r}" for k, v in self.options.items()),
        ]
        return f"from {package} import {name}", f"{name}({', '.join(arguments)})"

    @cached_property
    def _stored(self) -> bytes:
        """The stored instance; b"" for a class."""
        return given_networks.kept(self.module) if given_networks.is_given(self.module) else b""

    @cached_property
    def _classes(self) -> tuple[Any, ...]:
        """What the network is made by: the class that is named, or all classes in an instance."""
        if self._stored:
            return tuple(dict.fromkeys(type(part) for part in self._made(0).modules()))
        imported = given_networks.imported(self.module, "Network.module")
        if not callable(imported):
            raise InputError(f"Network.module must be a class of torch.nn.Module; {self.module!r} is {imported!r}.")
        return (imported,)

    @cached_property
    def _tried(self) -> dict[tuple[int, int], Tried]:
        """What the network does, by the widths of nodes' states and of edges' features."""
        return {}

    @cached_property
    def _name(self) -> str:
        """How errors call the network."""
        label = f"model (an instance of {self._classes[0].__name__})"
        return label if self._stored else f"model.module = {self.module!r}"

    def _trial(self, inputs: int, edge_width: int) -> Tried:
        """Return what the network does with nodes' states of this width; tried once."""
        if (inputs, edge_width) not in self._tried:
            with randomness.seeded_torch(0, "network"):
                self._tried[inputs, edge_width] = self._seen(inputs, edge_width)
        return self._tried[inputs, edge_width]

    def _seen(self, inputs: int, edge_width: int) -> Tried:
        try:
            return tried(self._made(inputs), inputs, self._name, edge_width)
        except InputError as error:
            taken = 0
            with suppress(InputError):  # of one that fits no width the first error tells more
                taken = self.inputs
            if taken in (0, inputs):
                raise
            raise InputError(
                f"{self._name} takes nodes' features of width {taken}; here they are {inputs} wide."
            ) from error

    def _made(self, inputs: int) -> nn.Module:
        """Return the network, drawn from torch's own generator if it is drawn."""
        if self._stored:
            return given_networks.loaded(self._stored)
        width = [inputs] if self._width_argument() else []
        try:
            made = self._classes[0](*width, **self.options)
        except Exception as error:  # whatever a class of the user's raises
            call = ", ".join([*map(str, width), *(f"{key}={value!r}" for key, value in self.options.items())])
            reason = f"{type(error).__name__}: {error}"
            raise InputError(f"{self._name} cannot be made as Class({call}): {reason}") from error
        if not isinstance(made, nn.Module):
            raise InputError(f"{self._name} must make a torch.nn.Module; it made a {type(made).__name__}.")
        return made

    def _width_argument(self) -> bool:
        """Return whether the class is told the width of the nodes' states."""
        kinds = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
        first = next(iter(signature(self._classes[0]).parameters.values()), None)
        return (
            first is not None
            and first.kind in kinds
            and first.default is first.empty
            and first.name not in self.options
        )
