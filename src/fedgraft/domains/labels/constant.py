"""One label said of every example, as a baseline: the mean, or the most frequent class."""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.labels import Labels
from fedgraft.contracts.task import Shard
from fedgraft.contracts.values import SCORED_SPLITS, SPLITS
from fedgraft.wire.layouts import Array


class View(Protocol):
    """The part of a client's data that scores are made of."""

    @property
    def label(self) -> Any:
        """Labels, [examples] or [examples, labels]."""

    @property
    def split(self) -> NDArray[Any]:
        """Index into `SPLITS` of each example, [examples]; -1 = in none."""


class Constant(Baseline[Shard]):
    """Say one label of everything; a baseline of a task is a row that names the task and its kind of label."""

    default: ClassVar[bool] = True
    constant: ClassVar[bool] = True
    labels: ClassVar[Labels]
    """The kind."""
    own: ClassVar[bool] = False
    """Whether each client has its own constant, and one without training examples that of all."""

    def score(self, shards: Sequence[Shard]) -> dict[str, float]:
        """Return the labels' metric over all clients' validation and test examples."""
        return self.judged(shards, self.kind(shards))

    def judged(self, shards: Sequence[Shard], labels: Labels) -> dict[str, float]:
        """Return the metric of a kind of labels."""
        views = self.views(shards)
        train = [view.label[view.split == 0] for view in views]
        own = self.own and all(map(len, train))
        every = np.zeros(0) if own else labels.constant(np.concatenate(train))
        constants = [labels.constant(each) if self.own and len(each) else every for each in train]
        pairs = zip(constants, views, strict=True)
        return agreement(labels, views, [np.broadcast_to(each, view.label.shape) for each, view in pairs])

    def kind(self, shards: Sequence[Shard]) -> Labels:
        """Return the kind of label, that of the class by default."""
        return self.labels

    def views(self, shards: Sequence[Shard]) -> Sequence[View]:
        """Return what holds the labels of each client, by default the shards themselves."""
        return shards  # type: ignore[return-value]


def agreement(labels: Labels, views: Sequence[View], predicted: Sequence[Array]) -> dict[str, float]:
    """Return {"validation": metric, "test": metric} over all clients' examples, of what is predicted of each.

    Of classes it may be probabilities, [examples, classes].
    """
    guess, label = np.concatenate(predicted), np.concatenate([view.label for view in views])
    split = np.concatenate([view.split for view in views])
    parts = {name: split == SPLITS.index(name) for name in SCORED_SPLITS}
    return labels.agreements({name: (guess[part], label[part]) for name, part in parts.items()})
