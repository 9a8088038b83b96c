"""Prototypes: FedAvg whose clients keep their embeddings near the mean embedding of a client like them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts import Indices, MovableSharing, ObservedTask, TaskFacts, Trainer, Update
from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt, PositiveInt, PositiveProportion
from fedgraft.errors import require
from fedgraft.methods.one_model import moved
from fedgraft.wire.layouts import Arrays, Layout, Spec, Tree

PROTOTYPES, WHOSE, SHARE = SENT = "prototypes", "prototypes_of", "prototypes_share"
"""Names of what is sent down: prototypes, whose they are, and the share of the penalty that is left."""
OWN = "prototype"
"""Name of what is sent up: a client's own."""
NOBODY = -1


class State(TypedDict):
    """State at the server.

    model: the global model; prototypes: float32 [N, width], the last of each client; heard: int64 [N], the merge in
    which it came, 0 = none yet; merges: so many.
    """

    model: Arrays
    prototypes: NDArray[np.float32]
    heard: NDArray[np.int64]
    merges: int


@dataclass(frozen=True)
class Prototypes(MovableSharing[State]):
    """Prototypes: FedAvg whose clients keep their embeddings near the mean embedding of a client like them.

    A client's prototype C_k is the mean of the last hidden layer over its training examples. The server keeps the last
    of each client, and sends those of the clients that it heard of last. With i the other client whose prototype is
    nearest to C_k, every step's loss gets

        weight * fade^t * mean over the step's examples of ||hidden - C_i||^2

    where t counts the merges before.

    Source: Wang et al., "RAFHGL", AAAI 2025, Eq. (3)-(5).
    Differs: a mean in place of Eq. (4)'s sum, so that the weight does not depend on how many examples a step has. The
        paper sends the prototypes of all clients, of which there are at most 30; it does not give lambda. It has no
        `fade`: a prototype is of all classes, and what speeds up the first rounds holds classes together in the last.

    Args:
        weight: lambda, >= 0.
        fade: factor of the weight from merge to merge, in (0, 1]; 1 = as printed.
        most: prototypes that are sent, >= 1; 30 is the paper's largest number of clients.
        width: of the model's last hidden layer; 0 = as it is.

    State: see `State`.
    Needs: a task that tells its hidden layer.
    Cost: `most` prototypes and a number down, one prototype up, per selected client: as many numbers each as the hidden
        layer is wide.
    """

    needs: ClassVar[tuple[type[Any], ...]] = (ObservedTask,)

    weight: NonNegativeFloat = 0.01
    fade: PositiveProportion = 0.95
    most: PositiveInt = 30
    width: NonNegativeInt = 0

    def fitted(self, facts: TaskFacts) -> Self:
        """With the width of the hidden layer."""
        width = facts.hidden_width
        require(self.width in (0, width), "Prototypes.width", f"{width} as the model has, or 0", self.width)
        return replace(self, width=width)

    def init(self, model: Arrays, clients: int) -> State:
        """The drawn model, no prototypes."""
        prototypes = np.zeros((clients, self.width), np.float32)
        return {"model": model, "prototypes": prototypes, "heard": np.zeros(clients, np.int64), "merges": 0}

    def model(self, state: State, group: int = 0) -> Arrays:
        """The global model, and the prototypes of the clients that were heard of last."""
        whose = np.full(self.most, NOBODY, np.int32)
        prototypes = np.zeros((self.most, self.width), np.float32)
        order = np.argsort(-state["heard"], kind="stable")[: self.most]
        last = np.sort(order[state["heard"][order] > 0])
        whose[: len(last)], prototypes[: len(last)] = last, state["prototypes"][last]
        share = np.full(1, self.fade ** state["merges"], np.float32)
        return {**state["model"], PROTOTYPES: prototypes, WHOSE: whose, SHARE: share}

    def downloads(self, model: Layout) -> Layout:
        """The model, prototypes, whose they are, and the share of the penalty."""
        sent = Spec(PROTOTYPES, "float32", (self.most, self.width))
        return Layout((*model, sent, Spec(WHOSE, "int32", (self.most,)), Spec(SHARE, "float32", (1,))))

    def uploads(self, model: Layout) -> Layout:
        """The update, and one prototype."""
        return Layout((*model, Spec(OWN, "float32", (self.width,), "prototypes")))

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Steps with the penalty; the difference, and what the prototype is now."""
        start = {name: array for name, array in received.items() if name not in SENT}
        trainer.load(start)
        others = received[PROTOTYPES][(received[WHOSE] != NOBODY) & (received[WHOSE] != trainer.client)]
        weight = self.weight * float(received[SHARE][0])
        if weight and len(others):
            target = torch.from_numpy(nearest(others, prototype(trainer.observe().hidden)))

            def penalty(hidden: Tensor, examples: Indices) -> Tensor:
                return weight * (hidden - target.to(hidden.device)).square().sum(1).mean()

            trainer.run(hidden_penalty=penalty)
        else:
            trainer.run()
        return {**trainer.difference(start), OWN: prototype(trainer.observe().hidden)}, memory

    def merge(self, state: State, updates: Sequence[Update]) -> State:
        """The mean of updates; new prototypes in place of old ones."""
        prototypes, heard, merges = state["prototypes"].copy(), state["heard"].copy(), state["merges"] + 1
        for update in updates:
            prototypes[update.client], heard[update.client] = update.arrays[OWN], merges
        return {"model": moved(state["model"], updates), "prototypes": prototypes, "heard": heard, "merges": merges}

    def with_model(self, state: State, group: int, model: Arrays) -> State:
        """Put a model in place of the global one."""
        return {**state, "model": model}


def nearest(prototypes: NDArray[np.float32], own: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the row that is nearest to a client's own prototype, Eq. (5), float32 [width]."""
    closest: NDArray[np.float32] = prototypes[np.square(prototypes - own).sum(1).argmin()]
    return closest


def prototype(hidden: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean of the rows, Eq. (3), float32 [width]; zeros of none."""
    return hidden.mean(0) if len(hidden) else np.zeros(hidden.shape[1], np.float32)
