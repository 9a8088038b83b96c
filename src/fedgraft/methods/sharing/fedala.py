"""FedALA: every client learns, number by number, how much of the received model it takes over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict, cast

import numpy as np
import torch
from torch import Tensor

from fedgraft.contracts import PersonalSharing, PositiveFloat, PositiveInt, Trainer
from fedgraft.methods.one_model import ModelState, OneModel
from fedgraft.wire.layouts import Arrays, Tree

_FLOOR: Final = 1e-6  # of the size of two numbers (ours): nearer ones tell no weight between them


class Memory(TypedDict):
    """A client's own: its adaptive layers as it trained them last, and its weights, {} before they are learnt."""

    own: Arrays
    weights: Arrays


@dataclass(frozen=True)
class FedALA(OneModel, PersonalSharing[ModelState]):
    """FedALA: every client learns, number by number, how much of the received model it takes over.

    Layers named here are not overwritten by the received model, Theta, but begin a round as

        own + (Theta - own) W,     W <- clip(W - eta dL/dW, 0, 1),     dL/dW = (Theta - own) dL/dTheta'

    with a weight in [0, 1] for each number, learnt by gradient descent on the client's own loss, all else frozen. Then
    the client trains all layers and sends their difference to Theta, which is averaged as in FedAvg. It is scored, and
    answers, with what it makes of its own layers and of the Theta that it has.

    Source: Zhang et al., "FedALA: Adaptive Local Aggregation for Personalized Federated Learning", AAAI 2023, Algorithm
        1; the authors' code (TsingZ0/FedALA; clients and server read, not copied).
    Differs: weights are learnt on all training examples; in the code on a random 80 %. The first time they are learnt
        for `first_epochs`; the code goes on until the losses of ten epochs hardly differ. A client answers by the
        weights of its last training; the code learns them anew before each score. A round moves the layers themselves
        (by eta (Theta - own)^2 dL/dTheta', kept between both), which is the same; where both are as good as equal, a
        weight stays.

    Args:
        adaptive: layers that are merged: parameters whose names begin like one of these; "" are all. By default what
            models here end with: "convolutions.1." and "head." (task `graph`: the last of two convolutions) and "out."
            (task `rating`); the paper takes the last layer, p = 1. Names that no shared parameter begins with do
            nothing; where none does this is FedAvg.
        rate: eta, of the weights, > 0; 1 (paper).
        first_epochs: epochs on the weights the first time, which is a client's second round, >= 1; 11 (the fewest that
            the code takes). From then on it is one a round (paper).

    State:
        model: the global model's arrays.
    Memory:
        own: the adaptive layers as trained; weights: W, float32 in [0, 1] of the same shapes, {} before it is learnt.
    Needs: nothing.
    Cost: the model down and its difference up, per selected client, as in FedAvg; an epoch more of computing.
    """

    adaptive: tuple[str, ...] = ("convolutions.1.", "head.", "out.")
    rate: PositiveFloat = 1.0
    first_epochs: PositiveInt = 11

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Learn the weights, then train all layers from the merged ones."""
        mine = {name: array for name, array in trainer.read().items() if name not in received}
        upper = [name for name in received if name.startswith(self.adaptive)]
        start, weights = dict(received), {}
        if upper and memory is not None:
            own = cast(Memory, memory)
            merged = self._learn(trainer, received, own, upper, [*mine])
            weights = {name: _weights(own, received, merged, name) for name in upper}
            start |= merged
        elif upper:
            trainer.run(epochs=0)  # so that moments that are kept are those of the same run in each round
        trainer.load({**start, **mine})
        trainer.run()
        new: Memory = {"own": trainer.read(upper) if upper else {}, "weights": weights}
        return trainer.difference(received), cast(Tree, new)

    def runs(self, epochs: int) -> Sequence[int]:
        """Return the most on weights, then those on layers."""
        return (self.first_epochs, epochs)

    def personalise(self, received: Arrays, memory: Tree) -> Arrays:
        """Return the received model, merged with the client's own layers."""
        return received if memory is None else {**received, **_merged(received, cast(Memory, memory))}

    def inherited(self, memory: Tree) -> Tree:
        """Return all of it: own layers and weights go on, with another global model."""
        return memory

    def _learn(
        self, trainer: Trainer, received: Arrays, own: Memory, upper: Sequence[str], private: Sequence[str]
    ) -> Arrays:
        """The merged layers once their weights are learnt; nothing else has moved but running statistics."""
        ends = {
            name: (torch.from_numpy(own["own"][name].copy()), torch.from_numpy(received[name].copy())) for name in upper
        }
        after: dict[str, Tensor] = {}

        def step(parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
            for name, (mine, theirs) in ends.items():
                if name in gradients:
                    mine, theirs = mine.to(gradients[name].device), theirs.to(gradients[name].device)
                    moved = parameters[name].detach() - self.rate * (theirs - mine) ** 2 * gradients[name]
                    after[name] = torch.clamp(moved, torch.minimum(mine, theirs), torch.maximum(mine, theirs))

        def project(parameters: Mapping[str, Tensor]) -> None:
            for name, value in after.items():
                parameters[name].copy_(value)

        trainer.load({**received, **_merged(received, own)})
        frozen = [name for name in (*received, *private) if name not in ends]
        epochs = 1 if own["weights"] else self.first_epochs
        trainer.run(correct_gradient=step, project=project, epochs=epochs, frozen=frozen)
        return trainer.read(upper)


def _merged(received: Arrays, own: Memory) -> Arrays:
    """The adaptive layers between a client's own and the received ones, by its weights."""
    return {
        name: own["own"][name] + (received[name] - own["own"][name]) * weight for name, weight in own["weights"].items()
    }


def _weights(own: Memory, received: Arrays, merged: Arrays, name: str) -> np.ndarray:
    """The weights of a layer by which it is `merged`, float32; those before where it cannot be told."""
    mine, theirs, found = (each[name].astype(np.float64) for each in (own["own"], received, merged))
    before = own["weights"].get(name, np.ones_like(received[name]))
    told = np.abs(theirs - mine) > _FLOOR * (np.abs(mine) + np.abs(theirs))
    share = np.divide(found - mine, theirs - mine, out=before.astype(np.float64), where=told)
    return np.clip(share, 0, 1).astype(np.float32)
