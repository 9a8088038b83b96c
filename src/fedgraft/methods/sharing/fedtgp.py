"""FedTGP: prototypes of classes that the server learns, far from each other, in place of means of clients'."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from fedgraft.contracts import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Update
from fedgraft.methods.class_prototypes import COUNTS, PROTOTYPES, ClassPrototypes, means
from fedgraft.wire.layouts import Arrays

TINY = 1e-12
"""Added to squared distances, so that their roots have a gradient."""


class State(TypedDict):
    """State at the server.

    network: the parameters that prototypes are made by; counts: int32 [classes], of how many examples the last merge
    that knew a class heard, 0 = none yet; merges: so many.
    """

    network: Arrays
    counts: NDArray[np.int32]
    merges: int


@dataclass(frozen=True)
class FedTGP(ClassPrototypes[State]):
    """FedTGP: prototypes of classes that the server learns, far from each other, in place of means of clients'.

    Clients learn and tell as in FedProto. The server has a vector for each class and a perceptron of one hidden layer
    that makes prototypes P of them. After each round it minimises, over clients' prototypes p of classes c,

        -log( exp(-||p - P_c|| - margin) / (exp(-||p - P_c|| - margin) + sum over other classes d of exp(-||p - P_d||)))

    where the margin is the largest distance between two classes' mean prototypes, and at most `most`.

    Source: Zhang et al., "FedTGP: Trainable Global Prototypes with Adaptive-Margin-Enhanced Contrastive Learning for
        Data and Model Heterogeneity in Federated Learning", AAAI 2024; its "TGP" and "ACL", and Algorithm 1.
    Differs: all clients have the model of the recipe. The margin is the printed one; the code takes the largest of the
        classes' distances to the class that is nearest to each. What the server begins with, and the order of its
        batches, are the same for every seed of a run. Answers are the model's own, as the task gives them; the code
        takes the class whose global prototype is nearest.

    Args:
        weight: lambda, >= 0; 10, as in the authors' script, of the same distance as ours.
        most: tau, largest margin, >= 0; 100 (the paper).
        passes: S, of the server over clients' prototypes after each round, >= 0; 100 (the paper).
        rate: the server's learning rate, > 0; 0.01, as in the authors' script.
        batch: clients' prototypes in a step of the server, >= 1; 10, as in the authors' script.
        width: of the model's last hidden layer; 0 = as it is.
        classes: how many there are; 0 = as the data have.

    State: see `State`.
    Needs: a task that tells its hidden layer, and classes that all clients have in common.
    Cost: a prototype and a count for each class, down and up, per selected client.
    """

    weight: NonNegativeFloat = 10.0
    most: NonNegativeFloat = 100.0
    passes: NonNegativeInt = 100
    rate: PositiveFloat = 0.01
    batch: PositiveInt = 10

    def init(self, model: Arrays, clients: int) -> State:
        """Drawn vectors and weights; no class is known."""
        counts = self.empty()[1]
        return {"network": drawn(self.classes, self.width), "counts": counts, "merges": 0}

    def model(self, state: State, group: int = 0) -> Arrays:
        """What the server makes of its vectors, of the classes that it heard of."""
        with torch.no_grad():
            made = prototypes({name: torch.from_numpy(array) for name, array in state["network"].items()}).numpy()
        known = state["counts"] > 0
        return {PROTOTYPES: made * known[:, None], COUNTS: state["counts"]}

    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """Vectors and weights after some passes over what clients sent."""
        average, counts = means(updates, count=False)
        told = np.concatenate([update.arrays[COUNTS] > 0 for update in updates])
        sent = np.concatenate([update.arrays[PROTOTYPES] for update in updates])[told]
        labels = np.tile(np.arange(self.classes), len(updates))[told]
        reach = margin(average[counts > 0], self.most)
        g = np.random.default_rng(state["merges"])
        batches = [
            rows
            for _ in range(self.passes if len(sent) else 0)
            for rows in np.split(g.permutation(len(sent)), range(self.batch, len(sent), self.batch))
        ]
        return {
            "network": self._learnt(state["network"], torch.from_numpy(sent), torch.from_numpy(labels), batches, reach),
            "counts": np.where(counts > 0, counts, state["counts"]).astype(np.int32),
            "merges": state["merges"] + 1,
        }

    def _learnt(
        self, network: Arrays, sent: Tensor, labels: Tensor, batches: Sequence[NDArray[np.int64]], reach: float
    ) -> Arrays:
        """Return the network after a step of gradient descent for each batch."""
        parameters = {name: torch.tensor(array, requires_grad=True) for name, array in network.items()}
        for rows in batches:
            with torch.enable_grad():
                loss = contrast(sent[rows], labels[rows], prototypes(parameters), reach)
            slopes = torch.autograd.grad(loss, list(parameters.values()))
            with torch.no_grad():
                for parameter, slope in zip(parameters.values(), slopes, strict=True):
                    parameter -= self.rate * slope
        return {name: parameter.detach().numpy() for name, parameter in parameters.items()}


def drawn(classes: int, width: int) -> Arrays:
    """Draw normal vectors [classes, width] and the weights of two linear layers, as torch's layers are drawn."""
    g, bound = torch.Generator().manual_seed(0), width**-0.5
    shapes = {"inner.weight": (width, width), "inner.bias": (width,), "outer.weight": (width, width)}
    weights = {
        name: torch.empty(shape).uniform_(-bound, bound, generator=g)
        for name, shape in {**shapes, "outer.bias": (width,)}.items()
    }
    vectors = torch.randn(classes, width, generator=g)
    return {name: value.numpy() for name, value in {"vectors": vectors, **weights}.items()}


def prototypes(network: dict[str, Tensor]) -> Tensor:
    """Return what a network makes of its vectors, float32 [classes, width]."""
    inner = torch.relu(network["vectors"] @ network["inner.weight"].T + network["inner.bias"])
    return inner @ network["outer.weight"].T + network["outer.bias"]


def margin(average: NDArray[np.float64], most: float) -> float:
    """Return the largest distance between two rows, at most `most`; 0 of fewer than two."""
    distances = np.sqrt(np.square(average[:, None] - average[None]).sum(2))
    return float(min(distances.max(initial=0.0), most))


def contrast(sent: Tensor, labels: Tensor, made: Tensor, reach: float) -> Tensor:
    """Return the mean loss over clients' prototypes [sent, width] of classes `labels`.

    `made` are the server's, [classes, width], and `reach` is the margin.
    """
    distances = ((sent[:, None] - made[None]).square().sum(2) + TINY).sqrt()
    return cross_entropy(-distances - reach * one_hot(labels, len(made)), labels)
