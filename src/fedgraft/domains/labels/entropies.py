"""Losses of examples that weigh by their classes, with their gradient."""

from collections.abc import Callable

import torch
from torch import Tensor

from fedgraft.contracts.loss import ClassObjective
from fedgraft.wire.layouts import Array


def entropies_of(
    label: Array, weights: Tensor | None, objective: ClassObjective
) -> Callable[[Tensor], tuple[Tensor, Callable[[Tensor], Tensor]]]:
    """Return what makes losses of logits, as `nn.clipped_gradients` takes it.

    Args:
        label: int64 [examples].
        weights: float32 [classes], by which losses are multiplied; None for 1.
        objective: the loss of training.
    """

    def losses_of(logits: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        own = torch.from_numpy(label).to(logits.device)
        losses, back = objective.with_gradient(logits, own, None)
        if weights is None:
            return losses, back
        each = weights.to(logits)[own]
        return losses * each, lambda gradient: back(gradient * each)

    return losses_of
