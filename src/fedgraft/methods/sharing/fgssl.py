"""FGSSL: FedAvg whose clients learn from the global model which nodes are alike: by class, and among neighbours."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fedgraft.contracts import Augmentation, StructurePenalty, Trainer
from fedgraft.contracts.abilities.graphs import StructuredTask
from fedgraft.contracts.ranges import NonNegativeFloat, PositiveFloat, ProperFraction
from fedgraft.methods.one_model import OneModel
from fedgraft.wire.layouts import Arrays, Tree

GLOBAL = Augmentation(0.3, 0.3)
"""Shares of edges and of columns of features that the view of the received model lacks (the authors' code)."""


@dataclass(frozen=True)
class FGSSL(OneModel):
    """FGSSL: FedAvg whose clients learn from the global model which nodes are alike: by class, and among neighbours.

    With z the last hidden layer over all of a client's nodes and g what the received model makes of them, every step's
    loss gets `semantic` times the mean over training nodes i of

        -1 / |P_i| sum over p in P_i of log( exp(cos(z_i, g_p) / tau) / sum over a of exp(cos(z_i, g_a) / tau) )

    where P_i are the training nodes of i's class, itself among them, and a goes over all training nodes; and
    `structural` times the mean over nodes i of KL(G_i || Z_i), where Z_i is the softmax of cos(z_i, z_j) / omega over
    i's neighbours j, and G_i the same of g. Both models look at views of the graph, with edges and features left out,
    of which the received model's has lost less.

    Source: Huang et al., "Federated Graph Semantic and Structural Learning", IJCAI 2023: node semantic contrast and
        graph structure distillation. Views, and tau of 0.1, as in the authors' code.
    Differs: the received model looks at one view a round, and not at one a step. The weights, tau and omega are ours,
        chosen on validation. In the code, clients' loss has a distillation of edges' differences in logits, and no
        contrast; ours is what the paper describes.

    Args:
        semantic: weight of the contrast, >= 0.
        structural: weight of the distillation, >= 0.
        tau: temperature of the contrast, > 0.
        omega: temperature of the distillation, > 0.
        edges: share of edges left out of the view of the model that trains, in [0, 1).
        features: share of its columns of features that are 0, in [0, 1).

    State:
        model: the model's arrays.
    Needs: a task that tells its hidden layer over all nodes: "node".
    Cost: the model down and its difference up, per selected client. A step computes all of a client's nodes once more,
        and the likeness of each training node to each other.
    """

    needs: ClassVar[tuple[type[Any], ...]] = (StructuredTask,)

    semantic: NonNegativeFloat = 1.0
    structural: NonNegativeFloat = 1.0
    tau: PositiveFloat = 0.2
    omega: PositiveFloat = 0.5
    edges: ProperFraction = 0.8
    features: ProperFraction = 0.5

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Steps with both terms; the difference."""
        trainer.load(received)
        if self.semantic or self.structural:
            view = Augmentation(self.edges, self.features)
            trainer.run(structure_penalty=StructurePenalty(self._term(trainer), view))
        else:
            trainer.run()
        return trainer.difference(received), memory

    def _term(self, trainer: Trainer) -> Callable[[Tensor], Tensor]:
        """Return both terms of a step, given z of all nodes."""
        labels = torch.from_numpy(trainer.observe().labels)
        seen = trainer.structure(GLOBAL)
        hidden, examples, edges = (torch.from_numpy(each) for each in seen)
        alike, anchors, likeness = labels[:, None] == labels, hidden[examples], shares(hidden, edges, self.omega)

        def term(states: Tensor) -> Tensor:
            there, (same, global_, known, ends) = states.device, (alike, anchors, likeness, edges)
            total = states.new_zeros(())
            if self.semantic:
                total = total + self.semantic * contrast(states[examples], global_.to(there), same.to(there), self.tau)
            if self.structural:
                total = total + self.structural * divergence(known.to(there), states, ends.to(there), self.omega)
            return total

        return term


def contrast(hidden: Tensor, anchors: Tensor, alike: Tensor, tau: float) -> Tensor:
    """Return the mean contrast of rows with all anchors, both [nodes, width]; `alike` is bool [nodes, nodes]."""
    logs = torch.log_softmax(normalize(hidden) @ normalize(anchors).T / tau, 1)
    return -((logs * alike).sum(1) / alike.sum(1)).mean()


def shares(hidden: Tensor, edges: Tensor, omega: float) -> Tensor:
    """Return logs of the softmax over each node's neighbours, float [edges]; `edges` is int64 [2, edges]."""
    unit, (sender, receiver) = normalize(hidden), edges
    near = (unit[sender] * unit[receiver]).sum(1) / omega
    highest = near.new_full((len(hidden),), -1 / omega).scatter_reduce(0, receiver, near.detach(), "amax")
    raised = near - highest[receiver]
    total = near.new_zeros(len(hidden)).scatter_add(0, receiver, raised.exp())
    return raised - total.log()[receiver]


def divergence(known: Tensor, hidden: Tensor, edges: Tensor, omega: float) -> Tensor:
    """Return the mean over nodes of KL(known || shares of `hidden`); `known` are logs, one for each edge."""
    return (known.exp() * (known - shares(hidden, edges, omega))).sum() / max(1, len(hidden))
