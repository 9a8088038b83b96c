"""Batch normalisation of rows that stand for several equal ones."""

from typing import Any

import torch
from torch import Tensor, nn


class SharedNorm(nn.Module):
    """Batch normalisation, where a row stands for all nodes of its colour.

    With equal shares it is torch's `BatchNorm1d`: in training with mean and variance of the batch, whose running means
    are used in evaluation. A batch's weight in these (`momentum`) and what is
    added to variances (`epsilon`) are torch's.

    Source: Ioffe and Szegedy, ICML 2015, Algorithm 1.
    Differs: the running variance is of the batch itself, not of what it is a sample of.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int, momentum: float = 0.1, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.epsilon = momentum, epsilon
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, rows: Tensor, share: Tensor) -> Tensor:
        """Rows float32 [colours, width] with shares [colours], which sum to one; likewise [colours, width]."""
        if not self.training:
            scale = self.weight * (self.running_var + self.epsilon).rsqrt()
            return rows * scale + (self.bias - self.running_mean * scale)
        normalised, mean, var = _Normalised.apply(rows, share, self.weight, self.bias, self.epsilon)  # type: ignore[no-untyped-call]
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var, self.momentum)
        return normalised  # type: ignore[no-any-return]


class _Normalised(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, share: Tensor, weight: Tensor, bias: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean = share @ rows
        centred = rows - mean
        var = share @ centred.square()
        inverse = (var + epsilon).rsqrt()
        ctx.save_for_backward(centred.mul_(inverse), share, weight, inverse)
        ctx.mark_non_differentiable(mean, var)
        return torch.addcmul(bias, centred, weight), mean, var

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor, None, Tensor, Tensor, None]:
        unit, share, weight, inverse = ctx.saved_tensors
        to_bias = gradient.sum(0)
        to_weight = (gradient * unit).sum(0)
        to_rows = torch.addcmul(gradient, share[:, None], torch.addcmul(to_bias, unit, to_weight), value=-1)
        return to_rows.mul_(weight * inverse), None, to_weight, to_bias, None
