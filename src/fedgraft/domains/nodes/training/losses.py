"""Losses of nodes in training: as autograd sees them, and with a gradient written by hand."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from fedgraft.contracts.abilities.tasks import LossesAndBackward
from fedgraft.contracts.values import Losses
from fedgraft.domains.labels.class_weights import weighted
from fedgraft.domains.labels.classes import TINY
from fedgraft.domains.nodes.training.client_graph import Computed, NodeData
from fedgraft.domains.nodes.training.mended_graph import Part
from fedgraft.domains.nodes.training.neighgen import generator_of
from fedgraft.nn.layers import device_of
from fedgraft.nn.manual_gradients import cross_entropies


@dataclass(frozen=True)
class Objective:
    """In what the losses of training differ from cross-entropies.

    Logits are raised by `adjustment` times the log shares of the client's classes; the share `smoothing` of each label
    is spread over the client's classes as they share its nodes. A loss shrinks by 1 - p to the power `focal`, p being
    the probability of the label's class. Each is multiplied by the weight of its class where the data have these.
    """

    adjustment: float
    smoothing: float
    focal: float = 0.0

    def raised(self, logits: Tensor, data: NodeData) -> Tensor:
        """Logits as the losses see them, float32 [nodes, classes]."""
        return logits + self.adjustment * data.log_shares.to(logits.device) if self.adjustment else logits

    def spread(self, data: NodeData, device: torch.device) -> Tensor | None:
        """Return the share of every label that every class gets, float32 [classes]; None for nothing."""
        return self.smoothing * data.shares.to(device) if self.smoothing else None


objective_of = cache(Objective)
"""The objective of some options, made once: a step asks for it."""


def learning(model: nn.Module, data: NodeData) -> Part | None:
    """Return what a step trains the model's generator on; None without one, and once that has learnt."""
    return data.part if data.part is not None and generator_of(model).learns else None


def losses_of(model: Any, data: NodeData, computed: Computed, objective: Objective) -> Losses:
    """Losses of a `NodeModel` on what the nodes are computed from; in training, fresh states are remembered."""
    hidden, logits = data.observed(model, computed, model.training)
    return Losses(example_losses_of(logits, data, computed, objective), hidden=hidden)


def example_losses_of(logits: Tensor, data: NodeData, computed: Computed, objective: Objective) -> Tensor:
    """Losses [nodes], given the logits [nodes, classes]."""
    logits = objective.raised(logits, data)
    logs, spread = torch.log_softmax(logits, 1), objective.spread(data, logits.device)
    label = computed.label.to(logits.device)
    losses = nn.functional.nll_loss(logs, label, reduction="none")
    if objective.focal:
        losses = losses * (1 - (-losses).exp()).clamp(min=TINY) ** objective.focal
    if spread is not None:
        losses = losses * (1.0 - float(spread.sum())) - logs @ spread
    return weighted(losses, label, data.weights)


def by_hand(model: Any, data: NodeData) -> bool:
    """Return whether there is `losses_with_back`: not where sums are given, which are no products."""
    return data.sums is None and bool(model.by_hand)


def losses_with_back(model: Any, data: NodeData, computed: Computed, objective: Objective) -> LossesAndBackward:
    """Return the same losses without autograd, and a function that sets all gradients, given that of the losses."""
    note = data.note if data.exchanges and model.training else None
    computed = computed.on(device_of(model))
    logits, back = model.with_back(computed.inputs, computed.hops, data.stored, note)
    spread = objective.spread(data, logits.device)
    raised = objective.raised(logits, data)
    losses, to_logits = cross_entropies(raised, computed.label, spread, objective.focal)
    if data.weights is None:
        return losses, lambda gradient: back(to_logits(gradient))
    weights = data.weights.to(losses.device)[computed.label]
    return losses * weights, lambda gradient: back(to_logits(gradient * weights))
