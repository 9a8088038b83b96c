"""How much an example of each class counts in training: by a table, or so that all classes count alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedgraft.contracts.labels import Floats
from fedgraft.contracts.loss import ClassObjective, ClassShares, ClassWeights, Objective
from fedgraft.contracts.values import Indices
from fedgraft.errors import InputError, WireError, nearest, require
from fedgraft.wire.layouts import Array, Arrays, Layout, Spec

BALANCED = "balanced"
COUNTS, WEIGHTS = "class_counts", "class_weights"
"""float64 [classes], what a client publishes, how many training examples it has; what all get back."""


@dataclass(frozen=True)
class PublishedCounts:
    """Publish how many training examples each of so many `classes` has; get back weights by which all count alike.

    Where an example has so many `labels`, counts and weights are [labels, classes].
    """

    classes: int
    labels: int = 0

    @property
    def statistics_layout(self) -> Layout:
        """How many training examples each class has."""
        return self._of(COUNTS)

    def statistics(self, shard: Any) -> Arrays:
        """Return what a client publishes."""
        return {COUNTS: counts_of(shard, self.classes).astype(np.float64)}

    def check(self, statistics: Arrays) -> None:
        """Whole numbers, none negative."""
        check_counts(statistics[COUNTS])

    @property
    def combined_layout(self) -> Layout:
        """A weight for each class."""
        return self._of(WEIGHTS)

    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Return the weights by which all classes of all clients count alike."""
        weights = balanced(np.sum([each[COUNTS] for each in statistics.values()], axis=0))
        return {client: {WEIGHTS: weights} for client in statistics}

    def _of(self, name: str) -> Layout:
        shape = (*([self.labels] if self.labels else []), self.classes)
        return Layout((Spec(name, "float64", shape, "class_counts"),))


def weights_of(said: ClassWeights, shard: Any, shared: Arrays, names: tuple[str, ...], classes: int) -> Tensor | None:
    """Return float32 [classes] or [labels, classes]; None for none.

    They are by the client's own examples where nothing is known of others.
    """
    if said == BALANCED and WEIGHTS in shared:
        return torch.from_numpy(shared[WEIGHTS].astype(np.float32))
    return own_weights(said, shard, names, classes)


def shares_of(objective: Objective, shard: Any, classes: int) -> ClassShares | None:
    """Return the shares of classes among a client's training examples; None for a loss that reads none."""
    reads = isinstance(objective, ClassObjective) and objective.reads_shares
    return ClassShares.of(counts_of(shard, classes)) if reads else None


def check_counts(counts: Floats) -> None:
    """Raise `WireError` for numbers of examples, [classes] or [labels, classes], that no client can have."""
    if not ((counts >= 0) & (counts < 2**53) & (counts == np.floor(counts))).all():
        raise WireError(f"{counts.tolist()} training examples of the classes")


def own_weights(said: ClassWeights, shard: Any, names: tuple[str, ...], classes: int) -> Tensor | None:
    """Return weights of classes, float32 [classes], by what is said and one client's own examples; None for none.

    Of several labels they are [labels, classes].
    """
    if not said:
        return None
    if isinstance(said, str):
        return torch.from_numpy(balanced(counts_of(shard, classes)).astype(np.float32))
    weights = torch.tensor([float(said.get(name, 1.0)) for name in names], dtype=torch.float32)
    return weights.expand(*shard.label.shape[1:], -1)


def balanced(counts: Indices | Floats) -> Floats:
    """Return float64 [classes], examples / (classes x those of the class): all classes count alike, a mean one is 1.

    A class without an example has the weight of one with a single one; no weight is infinite. Counts of several labels
    are [labels, classes], and so are weights.
    """
    total = counts.sum(axis=-1, keepdims=True)
    weights: Floats = total / (counts.shape[-1] * np.maximum(counts, 1.0))
    return np.where(total > 0, weights, 1.0)


def counts_of(shard: Any, classes: int) -> Indices:
    """Return how many training examples each class has, int64 [classes]; of several labels [labels, classes]."""
    label = shard.label[shard.rows("train")]
    if label.ndim == 1:
        return np.bincount(label, minlength=classes)
    return np.stack([np.bincount(column[column >= 0], minlength=classes) for column in label.T])


def weighted(losses: Tensor, label: Tensor, weights: Tensor | None) -> Tensor:
    """Return losses, float32 [n], each times the weight of its class."""
    return losses if weights is None else losses * weights.to(losses.device)[label.to(losses.device)]


def check_weights(name: str, class_weights: ClassWeights) -> None:
    """Raise `InputError` for weights that there cannot be."""
    if isinstance(class_weights, str):
        wanted = "'' (none), 'balanced' or a table {class = weight}"
        sound = class_weights in ("", BALANCED)
        hint = "" if sound else nearest(class_weights, [BALANCED])
        if not sound:
            raise InputError(f"{name}.class_weights must be {wanted}; got {class_weights!r}.{hint}")
    else:
        for each, weight in class_weights.items():
            sound = isinstance(weight, int | float) and np.isfinite(weight) and weight >= 0
            require(bool(sound), f"{name}.class_weights.{each}", "a number >= 0", weight)


def check_names(name: str, class_weights: ClassWeights, names: tuple[str, ...]) -> None:
    """Raise `InputError` for weights of classes that the data do not have."""
    for each in [] if isinstance(class_weights, str) or not names else class_weights:
        if each not in names:
            listed = ", ".join(map(repr, names[:10]))
            raise InputError(f"{name}.class_weights: the data have no class {each!r}; {listed}.{nearest(each, names)}")


# --- cross-entropies with their gradients -----------------------------------------------------------------------------


def entropies_of(
    label: Array, weights: Tensor | None, objective: ClassObjective
) -> Callable[[Tensor], tuple[Tensor, Callable[[Tensor], Tensor]]]:
    """Return what makes losses of logits, as `nn.clipped_gradients` takes it.

    Args:
        label: int64 [examples].
        weights: float32 [classes], by which losses are multiplied; None for 1.
        objective: the loss of training.
    """

    def losses_of(logits: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        own = torch.from_numpy(label).to(logits.device)
        losses, back = objective.with_gradient(logits, own, None)
        if weights is None:
            return losses, back
        each = weights.to(logits)[own]
        return losses * each, lambda gradient: back(gradient * each)

    return losses_of
