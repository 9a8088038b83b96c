"""Prototypes of classes: mean hidden states that clients with models of their own send in place of a model.

What is shared by methods that differ in what the server makes of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts import Indices, Sharing, TaskFacts, Trainer, Update
from fedgraft.contracts.abilities.tasks import ObservedTask
from fedgraft.contracts.ranges import NonNegativeFloat, NonNegativeInt
from fedgraft.contracts.values import State
from fedgraft.errors import InputError, require
from fedgraft.wire.layouts import Arrays, Layout, Spec, Tree

PROTOTYPES, COUNTS = "prototypes", "prototypes_count"
"""Names of what is sent, down and up: float32 [classes, width], and int32 [classes], of how many examples each is the
mean; those of 0 are not known."""


@dataclass(frozen=True)
class ClassPrototypes(Sharing[State]):
    """Send prototypes of classes and nothing of the model, and learn to be near those that the server sends.

    With z the last hidden layer over an example and P what was received of its class, every step's loss gets

        weight * mean over the step's examples of ||z - P||^2 / width

    where the term of an example is 0 if nothing was received of its class.
    """

    needs: ClassVar[tuple[type[Any], ...]] = (ObservedTask,)

    uploads_steps: ClassVar[bool] = False

    weight: NonNegativeFloat = 1.0
    width: NonNegativeInt = 0
    classes: NonNegativeInt = 0

    def fitted(self, facts: TaskFacts) -> Self:
        """With the width of the hidden layer, and how many classes there are."""
        name, width, classes = type(self).__name__, facts.hidden_width, facts.common_classes
        for option, known in (("width", width), ("classes", classes)):
            told = getattr(self, option)
            require(not known or told in (0, known), f"{name}.{option}", f"{known} as the task has, or 0", told)
        return replace(self, width=width or self.width, classes=classes)

    def shares(self, name: str) -> bool:
        """Return False: no parameter travels."""
        return False

    def empty(self) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Return prototypes of which none is known. Raises `InputError` without classes that all have in common."""
        if not self.classes:
            name = type(self).__name__
            raise InputError(f"sharing {name} needs classes that all clients have in common; these data have none.")
        return np.zeros((self.classes, self.width), np.float32), np.zeros(self.classes, np.int32)

    def downloads(self, model: Layout) -> Layout:
        """Prototypes of all classes, and of how many examples each is."""
        return Layout(
            (
                *model,
                Spec(PROTOTYPES, "float32", (self.classes, self.width), "prototypes"),
                Spec(COUNTS, "int32", (self.classes,), "class_counts"),
            )
        )

    def uploads(self, model: Layout) -> Layout:
        """The same, the client's own."""
        return self.downloads(model)

    def local_update(self, trainer: Trainer, received: Arrays, memory: Tree) -> tuple[Arrays, Tree]:
        """Steps with the penalty; the prototypes that the client has now."""
        known = received[COUNTS] > 0
        if self.weight and known.any():
            labels = trainer.observe().labels
            targets, told = torch.from_numpy(received[PROTOTYPES][labels]), torch.from_numpy(known[labels])

            def penalty(hidden: Tensor, examples: Indices) -> Tensor:
                near = targets[examples].to(hidden.device), told[examples].to(hidden.device)
                return self.weight * distance(hidden, *near)

            trainer.run(hidden_penalty=penalty)
        else:
            trainer.run()
        seen = trainer.observe()
        prototypes, counts = prototypes_of(seen.hidden, seen.labels, self.classes)
        return {PROTOTYPES: prototypes, COUNTS: counts}, memory


def distance(hidden: Tensor, prototypes: Tensor, known: Tensor) -> Tensor:
    """Return the mean over rows, all [examples, width], of squared distances / width; 0 where `known` is False."""
    return ((hidden - prototypes).square().mean(1) * known).mean()


def prototypes_of(
    hidden: NDArray[np.float32], labels: Indices, classes: int
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return the mean of each class's rows, float32 [classes, width], 0 of none, and how many these are, int32."""
    sums = np.zeros((classes, hidden.shape[1]))
    np.add.at(sums, labels, hidden)
    counts = np.bincount(labels, minlength=classes)
    return (sums / np.maximum(counts, 1)[:, None]).astype(np.float32), counts.astype(np.int32)


def means(updates: Sequence[Update], count: bool) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the mean of each class's prototypes, [classes, width], and of how many examples it is, [classes].

    Over the clients that have the class, by examples if they `count`, else plain.
    """
    counts = np.stack([np.maximum(update.arrays[COUNTS], 0) for update in updates]).astype(np.int64)
    weights: NDArray[Any] = counts if count else (counts > 0).astype(np.int64)
    sums = np.einsum("kc,kcw->cw", weights, np.stack([update.arrays[PROTOTYPES] for update in updates]))
    return sums / np.maximum(weights.sum(0), 1)[:, None], counts.sum(0)
