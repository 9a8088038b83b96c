"""Models of nodes with networks that refine their answers: losses in training, and answers."""

import numpy as np
import torch
from torch import nn

from fedgraft.contracts.values import Indices, Losses
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.refinement import Refinement, losses, refined
from fedgraft.domains.nodes.training.topology import Topology, topology
from fedgraft.nn import flops
from fedgraft.nn.layers import device_of
from fedgraft.nn.propagate import States
from fedgraft.wire.layouts import Array

PREFIX = "refinement."
"""Names of the networks' parameters begin like this."""


def refining(model: nn.Module) -> Refinement | None:
    """Return the networks that answer in a model's place; None for none, and before they do."""
    networks = getattr(model, "refinement", None)
    return networks if isinstance(networks, Refinement) and networks.answers else None


def refining_losses(networks: Refinement, model: nn.Module, data: NodeData, nodes: Indices) -> Losses:
    """Return losses of some own nodes, and beside them how far the networks are from what the model says."""
    inputs, seen = _seen(model, data)
    where, label = (torch.from_numpy(each).to(device_of(model)) for each in (nodes, data.label[nodes]))
    each, shared = losses(networks(inputs, seen), seen, where, label)
    return Losses(each, shared)


def refined_answers(networks: Refinement, model: nn.Module, data: NodeData) -> Array:
    """Return probabilities of all own nodes, float32 [own, classes]."""
    inputs, seen = _seen(model, data)
    with torch.no_grad():
        answers: Array = refined(networks(inputs, seen), seen).numpy(force=True)
    return answers


def _seen(model: nn.Module, data: NodeData) -> tuple[States, Topology]:
    """Features of all own nodes, and what the client makes of its part by the model's answers.

    Both are kept; the latter is made anew once the model has changed.
    """
    view = data.view
    assert view is not None, "it was prepared by a task whose models have such networks"
    device = device_of(model)
    if view.inputs is None:
        view.inputs = data.features.rows(np.arange(data.own)).to(device)
    here = [each.detach() for name, each in model.named_parameters() if not name.startswith(PREFIX)]
    if view.topology is None or not all(map(torch.equal, here, view.model)):
        training = model.training
        with flops.Meter():  # else what a round takes would depend on what the process remembers
            answers = data.scored(model.eval())[: data.own].softmax(1)
        model.train(training)
        found = topology(answers, view.edges, data.label, data.rows["train"])
        view.model, view.topology = [each.clone() for each in here], found.to(device)
    return view.inputs, view.topology
