"""Losses of nodes in training: as autograd sees them, and with a gradient written by hand."""

from typing import Any

from torch import Tensor

from fedgraft.contracts.loss import ClassObjective
from fedgraft.contracts.task import LossesAndBackward
from fedgraft.contracts.values import Losses
from fedgraft.domains.labels.class_weights import weighted
from fedgraft.domains.nodes.training.client_graph import Computed, NodeData
from fedgraft.nn.layers import device_of


def losses_of(model: Any, data: NodeData, computed: Computed, objective: ClassObjective) -> Losses:
    """Losses of a `NodeModel` on what the nodes are computed from; in training, fresh states are remembered."""
    hidden, logits = data.observed(model, computed, model.training)
    return Losses(example_losses_of(logits, data, computed, objective), hidden=hidden)


def example_losses_of(logits: Tensor, data: NodeData, computed: Computed, objective: ClassObjective) -> Tensor:
    """Losses [nodes], given the logits [nodes, classes]."""
    label = computed.label.to(logits.device)
    return weighted(objective.losses(logits, label, data.shares), label, data.weights)


def by_hand(model: Any, data: NodeData) -> bool:
    """Return whether there is `losses_with_back`: not where sums are given, which are no products."""
    return data.sums is None and bool(model.by_hand)


def losses_with_back(model: Any, data: NodeData, computed: Computed, objective: ClassObjective) -> LossesAndBackward:
    """Return the same losses without autograd, and a function that sets all gradients, given that of the losses."""
    note = data.note if data.exchanges and model.training else None
    computed = computed.on(device_of(model))
    logits, back = model.with_back(computed.inputs, computed.hops, data.stored, note)
    losses, to_logits = objective.with_gradient(logits, computed.label, data.shares)
    if data.weights is None:
        return losses, lambda gradient: back(to_logits(gradient))
    weights = data.weights.to(losses.device)[computed.label]
    return losses * weights, lambda gradient: back(to_logits(gradient * weights))
