"""Losses of nodes in training: as autograd sees them, and with a gradient written by hand."""

from typing import Any

import torch
from torch import Tensor, nn

from fedgraft.gradients import cross_entropies
from fedgraft.nodes.generator import generator_of
from fedgraft.nodes.mending import Part
from fedgraft.nodes.prepared import Computed, NodeData
from fedgraft.task_parts import LossesAndBack
from fedgraft.types import Array
from fedgraft.values import Indices


def losses_among(logits: Tensor, label: Indices, nodes: Indices) -> Array:
    """Cross-entropies of some nodes, float32 [nodes], from everybody's logits and labels."""
    return nn.functional.cross_entropy(logits[nodes], torch.from_numpy(label[nodes]), reduction="none").numpy()


def learning(model: nn.Module, data: NodeData) -> Part | None:
    """What a step trains the model's generator on; None without one, and once that has learnt."""
    return data.part if data.part is not None and generator_of(model).learns else None


def losses_of(model: Any, data: NodeData, computed: Computed, adjustment: float) -> Tensor:
    """Cross-entropies [nodes]; in training, fresh states are remembered.

    Args:
        model: a `NodeModel`.
        data: the client's.
        computed: what the nodes are computed from.
        adjustment: by how many times the log shares of the client's classes logits are raised.
    """
    logits = data.logits(model, computed, model.training)
    return nn.functional.cross_entropy(_raised(logits, data, adjustment), computed.label, reduction="none")


def by_hand(model: Any, data: NodeData) -> bool:
    """Whether there is `losses_with_back`: not where sums are given, which are no products."""
    return data.sums is None and bool(model.by_hand)


def losses_with_back(model: Any, data: NodeData, computed: Computed, adjustment: float) -> LossesAndBack:
    """The same without autograd, and what adds to all gradients, given that of the losses."""
    note = data.note if data.tells and model.training else None
    logits, back = model.with_back(computed.inputs, computed.hops, data.stored, note)
    losses, to_logits = cross_entropies(_raised(logits, data, adjustment), computed.label)
    return losses, lambda gradient: back(to_logits(gradient))


def _raised(logits: Tensor, data: NodeData, adjustment: float) -> Tensor:
    return logits + adjustment * data.log_shares if adjustment else logits
