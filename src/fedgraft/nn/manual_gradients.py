"""Gradients written by hand, for models whose step is so short that autograd takes longer than their products.

A layer that has them offers `with_back`: what `forward` gives, and a `Back`, which is called once, without autograd.
Products are those of autograd, in its order, so that both give the same bits; what either counts is the same too.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import torch
from torch import Tensor

Back: TypeAlias = Callable[[Tensor, bool], Tensor | None]
"""Given the gradient of an output, writes those of a layer's parameters over what is there; each has one place in it.

Gives that of its input if the second argument asks for it, else None.
"""
Inputs_contra = TypeVar("Inputs_contra", contravariant=True)
Block_contra = TypeVar("Block_contra", contravariant=True)


@runtime_checkable
class WithBack(Protocol[Inputs_contra, Block_contra]):
    """A convolution with a gradient written by hand."""

    def with_back(self, state: Inputs_contra, block: Block_contra) -> tuple[Tensor, Back]:
        """Return the result of `forward`, [receivers, outputs], and its `Back`."""


def gradient_of(parameter: Tensor) -> Tensor:
    """Return the tensor, [shape of the parameter], that its gradient is written to."""
    assert parameter.grad is not None, "a gradient is written over, and must be there: see FlatModel"
    return parameter.grad


def relu_back(output: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of a relu's input, given its output and the output's gradient, all [rows, width]."""
    before: Tensor = _RELU_BACK(gradient, output, 0.0)
    return before


def cross_entropies(
    logits: Tensor, label: Tensor, spread: Tensor | None = None, focal: float = 0.0
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return the cross-entropy of each row, and a function from its gradient to that of the logits.

    Args:
        logits: float32 [rows, classes].
        label: int64 [rows].
        spread: float32 [classes], what every class has of every label, less than 1 in all, or None for nothing; the
            label's own class has the rest.
        focal: the exponent of 1 - p by which a loss shrinks, p being the probability of the label's class; not with
            `spread`. 0 = off.
    """
    logs = torch.log_softmax(logits, 1)
    losses, weight = _NLL(logs, label, None, 0, _NO_LABEL)
    rest = 1.0 if spread is None else 1.0 - float(spread.sum())
    if spread is not None:
        losses = losses * rest - logs @ spread

    slope = None
    if focal:
        share = (-losses).exp()
        rest_of = (1.0 - share).clamp(min=_TINY)
        slope = rest_of**focal + focal * share * rest_of ** (focal - 1.0) * losses * (share < 1.0 - _TINY)
        losses = losses * rest_of**focal

    def back(gradient: Tensor) -> Tensor:
        gradient = gradient if slope is None else gradient * slope
        to_nll = gradient if spread is None else gradient * rest
        to_logs = _NLL_BACK(to_nll, logs, label, None, 0, _NO_LABEL, weight)
        if spread is not None:
            to_logs = to_logs - torch.outer(gradient, spread)
        to_logits: Tensor = _LOG_SOFTMAX_BACK(to_logs, logs, 1, logits.dtype)
        return to_logits

    return losses, back


_NLL = torch.ops.aten.nll_loss_forward.default
_NLL_BACK = torch.ops.aten.nll_loss_backward.default
_LOG_SOFTMAX_BACK = torch.ops.aten._log_softmax_backward_data.default
_RELU_BACK = torch.ops.aten.threshold_backward.default
_TINY = 1e-6
"""The least that 1 - p is taken for, of which a power is taken."""
_NO_LABEL = -100
"""What torch takes for no label; no node has it."""
