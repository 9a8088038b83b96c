"""Networks that refine a model's answers inside a client (AdaFGL, Li et al., ICDE 2024)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedgraft.contracts.task import Loss
from fedgraft.contracts.values import Indices, Losses
from fedgraft.domains.nodes.base.memory_check import check_matrices
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.extensions.extension import NodeExtension
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.domains.nodes.training.refinement import Refinement, Topology, View, losses, refined, topology
from fedgraft.domains.nodes.training.smoothed_inputs import Within
from fedgraft.nn import flops
from fedgraft.nn.layers import device_of
from fedgraft.nn.propagate import States
from fedgraft.wire.layouts import Array, Arrays

PREFIX = "refinement."
"""Names of the networks' parameters begin like this."""


@dataclass(frozen=True)
class Refined(NodeExtension):
    """Networks that take the model's answers over once a sharing method says so.

    Args:
        inputs: columns that they read of a node.
        width: of their hidden layers.
        classes: how many there are.
        dropout: share of each hidden layer dropped in training.
    """

    inputs: int
    width: int
    classes: int
    dropout: float

    def check(self, shards: Sequence[NodeShard]) -> None:
        """Raise for matrices of nodes that no memory of this machine holds."""
        check_matrices(shards)

    def extend(self, model: NodeModel, g: torch.Generator) -> None:
        """Add the networks."""
        model.refinement = Refinement(self.inputs, self.width, self.classes, self.dropout, g)

    def prepare(self, data: NodeData, shard: NodeShard, seen: NodeShard, shared: Arrays) -> None:
        """Add the client's own edges."""
        data.view = View(Within.of(shard).edges)

    def losses(self, model: nn.Module, data: NodeData, nodes: Indices, most: tuple[int, ...], seed: int) -> Loss | None:
        """Return losses of the networks, and beside them how far these are from what the model says."""
        if not self.answers(model):
            return None
        inputs, seen = _seen(model, data)
        where, label = (torch.from_numpy(each).to(device_of(model)) for each in (nodes, data.label[nodes]))
        each, shared = losses(networks_of(model)(inputs, seen), seen, where, label)
        return Losses(each, shared)

    def scored(self, model: nn.Module, data: NodeData) -> Array | None:
        """Return probabilities of all own nodes, float32 [own, classes]."""
        if not self.answers(model):
            return None
        inputs, seen = _seen(model, data)
        with torch.no_grad():
            answers: Array = refined(networks_of(model)(inputs, seen), seen).numpy(force=True)
        return answers

    def answers(self, model: nn.Module) -> bool:
        """Return whether the networks answer by now."""
        return networks_of(model).answers


def networks_of(model: nn.Module) -> Refinement:
    """Return the networks of a model that has them."""
    networks = model.refinement
    assert isinstance(networks, Refinement)
    return networks


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
