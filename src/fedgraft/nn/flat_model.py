"""A model whose parameters and gradients are two flat vectors.

A worker has one; every client's parameters are loaded into it. Nothing is copied deep, no module and no optimiser is
made per client.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedgraft.wire.layouts import Arrays, Layout


@dataclass(frozen=True, eq=False)
class Parked:
    """All arrays of a model, put aside: its vector and copies of its buffers."""

    vector: torch.Tensor
    buffers: dict[str, torch.Tensor]


class FlatModel:
    """A module seen as one parameter vector and one gradient vector, float32 on the device of the module.

    Its arrays are the module's parameters and then its float32 buffers (running statistics), by name; some of them
    begin with those of `start`, {name: array}. `loaded` tells what was loaded last, for those who know that nothing has
    been trained since.
    """

    def __init__(self, module: torch.nn.Module, start: Mapping[str, np.ndarray] | None = None) -> None:
        self.module = module
        self.parameters = dict(module.named_parameters())
        sizes = [parameter.numel() for parameter in self.parameters.values()]
        device = next(iter(self.parameters.values())).device
        self.vector = torch.empty(sum(sizes), device=device)
        self.gradient = torch.zeros_like(self.vector)
        self._gradients: dict[str, torch.Tensor] = {}
        self._frozen: frozenset[str] = frozenset()
        self._spans: list[slice] = []
        self._spare: list[torch.Tensor] = []
        self.loaded: Mapping[str, np.ndarray] = {}
        self._buffers = {name: buffer for name, buffer in module.named_buffers() if buffer.dtype == torch.float32}
        offset = 0
        for (name, parameter), size in zip(self.parameters.items(), sizes, strict=True):
            part = slice(offset, offset + size)
            view = self.vector[part].view(parameter.shape)
            view.copy_(parameter.detach())
            parameter.data = view
            self._gradients[name] = parameter.grad = self.gradient[part].view(parameter.shape)
            offset += size
        self.gradients: Mapping[str, torch.Tensor] = self._gradients
        self._look_at()
        self.load(start or {})
        self.loaded = {}
        self.initial = self.read()

    @property
    def layout(self) -> Layout:
        """`Layout` of all arrays of the model."""
        return Layout.of(self.initial)

    def freeze(self, names: Collection[str]) -> None:
        """Leave these parameters, and no others, out of `gradients` and of what is `moving` from now on."""
        frozen = frozenset(names)
        if frozen == self._frozen:
            return
        self._frozen, self._spans, offset = frozen, [], 0
        self.gradients = {name: gradient for name, gradient in self._gradients.items() if name not in frozen}
        for name, parameter in self.parameters.items():
            end = offset + parameter.numel()
            if name not in frozen:  # neighbours are one span
                begin = self._spans.pop().start if self._spans and self._spans[-1].stop == offset else offset
                self._spans.append(slice(begin, end))
            offset = end

    def moving(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """Return views of the parts of a vector, float32 [parameters], that are not frozen."""
        return [vector[span] for span in self._spans] if self._frozen else [vector]

    def park(self) -> "Parked":
        """Put all arrays aside as they are and go on with others, whose values mean nothing."""
        parked = Parked(self.vector, {name: buffer.clone() for name, buffer in self._buffers.items()})
        self._use(self._spare.pop() if self._spare else torch.empty_like(self.vector))
        return parked

    def unpark(self, parked: "Parked") -> None:
        """Take up what was put aside, once."""
        self._spare.append(self.vector)
        self._use(parked.vector)
        for name, values in parked.buffers.items():
            self._buffers[name].copy_(values)

    def _use(self, vector: torch.Tensor) -> None:
        """Make the parameters views of another vector."""
        self.vector = vector
        offset = 0
        for parameter in self.parameters.values():
            parameter.data = vector[offset : offset + parameter.numel()].view(parameter.shape)
            offset += parameter.numel()
        self._look_at()

    def _look_at(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {
            **{name: parameter.detach() for name, parameter in self.parameters.items()},
            **self._buffers,
        }
        # On the CPU the same memory as NumPy sees it, asked for once: a client's round reads and writes every array.
        self._arrays = {name: tensor.numpy() for name, tensor in self.tensors.items()} if self.vector.is_cpu else {}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Overwrite the named arrays of the model."""
        self.loaded = arrays
        for name, array in arrays.items():
            if name in self._arrays:
                np.copyto(self._arrays[name], array)
            else:
                self.tensors[name].copy_(torch.from_numpy(array.copy()))

    def difference(self, start: Mapping[str, np.ndarray]) -> Arrays:
        """The named arrays less what is given for each."""
        if self._arrays:
            return {name: self._arrays[name] - array for name, array in start.items()}
        return {name: array - start[name] for name, array in self.read(list(start)).items()}

    def read(self, names: Sequence[str] | None = None) -> Arrays:
        """Copies of the named arrays, all by default."""
        wanted = self.tensors if names is None else names
        if self._arrays:
            return {name: self._arrays[name].copy() for name in wanted}
        return {name: self.tensors[name].cpu().numpy() for name in wanted}
