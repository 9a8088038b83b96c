"""Layers drawn from a generator that is handed in, where torch would draw from the global one."""

import math

import torch
from torch import nn


def linear(inputs: int, outputs: int, g: torch.Generator, bias: bool = True) -> nn.Linear:
    """A linear layer, uniform within 1/sqrt(inputs) as torch's own (He et al. 2015 with a = sqrt 5)."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs, bias=bias)  # type: ignore[no-untyped-call]
    bound = 1.0 / math.sqrt(max(1, inputs))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=g)
    return layer


def normal(*shape: int, std: float, g: torch.Generator) -> nn.Parameter:
    """A parameter of independent normal entries."""
    return nn.Parameter(torch.randn(*shape, generator=g) * std)
