"""Layers drawn from a generator that is handed in, where torch would draw from the global one."""

import math
from collections.abc import Callable
from typing import TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from fedgraft.nn import flops
from fedgraft.nn.manual_gradients import gradient_of
from fedgraft.nn.propagate import Sparse, Stacked, States


def linear(inputs: int, outputs: int, g: torch.Generator, bias: bool = True) -> "Linear":
    """A linear layer, uniform within 1/sqrt(inputs) as torch's own (He et al. 2015 with a = sqrt 5)."""
    layer = Linear(inputs, outputs, bias)
    _draw(layer, inputs, g)
    return layer


def row_linear(inputs: int, outputs: int, g: torch.Generator, bias: bool = True) -> "RowLinear":
    """Return a layer for inputs that may be sparse or stacked; its weights are [inputs, outputs], as products want."""
    layer = RowLinear(inputs, outputs, bias)
    _draw(layer, inputs, g)
    return layer


def normal(*shape: int, std: float, g: torch.Generator) -> nn.Parameter:
    """A parameter of independent normal entries."""
    return nn.Parameter(torch.randn(*shape, generator=g) * std)


_FIRST: WeakKeyDictionary[nn.Module, nn.Parameter] = WeakKeyDictionary()
"""A parameter of each model that was asked about: to find one takes a walk over its layers."""


def device_of(model: nn.Module) -> torch.device:
    """Return where a model's parameters are; every step asks."""
    first = _FIRST.get(model)
    if first is None:
        first = _FIRST[model] = next(model.parameters())
    return first.device


class Maskable(nn.Module):
    """What linear layers have in common: weights, and once they are `masked` a mask of the same shape.

    A mask multiplies the weights. It is kept less 1, so that weight decay draws it to 1, where it does nothing.
    """

    weight: Tensor
    mask: nn.Parameter
    masked = False

    @property
    def used(self) -> Tensor:
        """The weights as they are used, times their mask if they have one."""
        return self.weight * (1 + self.mask) if self.masked else self.weight


class Linear(nn.Linear, Maskable):
    """A linear layer of torch whose operations are counted; what it holds before `linear` draws it is undefined."""

    def reset_parameters(self) -> None:
        """Draw nothing, where torch would draw from the global generator."""

    def forward(self, input: Tensor) -> Tensor:
        """Return float32 [..., outputs]."""
        _count(input, self.weight)
        return nn.functional.linear(input, self.used, self.bias) if self.masked else super().forward(input)

    def product(self, input: Tensor | Sparse) -> Tensor:
        """Return [rows, outputs] without the bias; a sparse input needs the transposed weights in one piece."""
        if isinstance(input, Sparse):
            return input @ self.used.t().contiguous()
        _count(input, self.weight)
        return input @ self.used.t()

    def back(self, input: Tensor | Sparse, gradient: Tensor, further: bool) -> Tensor | None:
        """Set the parameters' gradients, return that of `input`, [rows, inputs]; see `manual_gradients.Back`."""
        self.bias_back(gradient)
        return self.product_back(input, gradient, further)

    def product_back(self, input: Tensor | Sparse, gradient: Tensor, further: bool) -> Tensor | None:
        """Set the gradient of the weights, return that of the input, [rows, inputs]; None for a sparse input."""
        if isinstance(input, Sparse):
            gradient_of(self.weight).copy_(input.back(gradient).t())
            return None
        weight = self.weight
        _count_back(input, weight, further)
        torch.mm(gradient.t(), input, out=gradient_of(weight))
        return gradient @ weight if further else None

    def bias_back(self, gradient: Tensor) -> None:
        """Set the gradient of the bias, if there is one, from that of the output [rows, outputs]."""
        _bias_back(self.bias, gradient)


class RowLinear(Maskable):
    """A linear layer for rows that may be sparse; see `row_linear`."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None

    def forward(self, input: States) -> Tensor:
        """Return float32 [rows, outputs]."""
        product = self.product(input)
        return product if self.bias is None else product.add_(self.bias)

    def product(self, input: States) -> Tensor:
        """Return the product with the weights, without the bias, float32 [rows, outputs]."""
        if not isinstance(input, Sparse):
            _count(input, self.weight)
        return input @ self.used

    def back(self, input: Tensor | Sparse, gradient: Tensor, further: bool) -> Tensor | None:
        """Set the parameters' gradients, return that of `input`, [rows, inputs]; see `manual_gradients.Back`."""
        self.bias_back(gradient)
        return self.product_back(input, gradient, further)

    def product_back(self, input: Tensor | Sparse, gradient: Tensor, further: bool) -> Tensor | None:
        """Set the gradient of the weights, return that of the input, [rows, inputs]; None for a sparse input."""
        if isinstance(input, Sparse):
            input.back_into(gradient_of(self.weight), gradient)
            return None
        weight = self.weight
        _count_back(input, weight, further)
        torch.mm(input.t(), gradient, out=gradient_of(weight))
        return gradient @ weight.t() if further else None

    def bias_back(self, gradient: Tensor) -> None:
        """Set the gradient of the bias, if there is one, from that of the output [rows, outputs]."""
        _bias_back(self.bias, gradient)


def mask(module: nn.Module) -> None:
    """Give the weights of every linear layer of a module a mask of ones; gradients by hand do not know of it."""
    for layer in module.modules():
        if isinstance(layer, Maskable):
            layer.mask, layer.masked = nn.Parameter(torch.zeros_like(layer.weight)), True


def unmask(module: nn.Module) -> None:
    """Multiply the weights of masked layers by their masks, which are gone then."""
    for layer in module.modules():
        if isinstance(layer, Maskable) and layer.masked:
            layer.weight.data, layer.masked = layer.used.detach(), False
            del layer.mask


MakeLinear: TypeAlias = Callable[..., Linear | RowLinear]
"""`linear` or `row_linear`."""


def _draw(layer: nn.Module, inputs: int, g: torch.Generator) -> None:
    bound = 1.0 / math.sqrt(max(1, inputs))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=g)


def _count(input: Tensor | Stacked, weight: Tensor) -> None:
    """The product, and behind it the one for the weights' gradient and the one for the inputs' where these are made."""
    learns = isinstance(input, Tensor) and input.requires_grad
    products = 1 + torch.is_grad_enabled() * (weight.requires_grad + learns)
    flops.count(products * math.prod(input.shape[:-1]) * weight.numel())


def _count_back(input: Tensor, weight: Tensor, further: bool) -> None:
    flops.count((1 + further) * input.shape[0] * weight.numel())


def _bias_back(bias: nn.Parameter | None, gradient: Tensor) -> None:
    if bias is not None:
        torch.sum(gradient, 0, out=gradient_of(bias))
