"""Baselines that answer each example; those that say one label of all, the mean or the most frequent class."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.labels import Labels
from fedgraft.contracts.task import Shard
from fedgraft.contracts.values import SCORED_SPLITS, SPLITS
from fedgraft.wire.layouts import Array


class Answering(Baseline[Shard]):
    """Answer each example, and be scored as a kind of label says."""

    labels: ClassVar[Labels]
    """The kind that is usual."""

    def kind(self, shards: Sequence[Shard]) -> Labels:
        """Return the kind of label, that of the class by default."""
        return self.labels

    def score(self, shards: Sequence[Shard]) -> dict[str, float]:
        """Return the labels' metric over all clients' validation and test examples."""
        return self.judged(shards, self.kind(shards))

    def judged(self, shards: Sequence[Shard], labels: Labels) -> dict[str, float]:
        """Return the metric of a kind of labels."""
        views = self.views(shards)
        return agreement(labels, views, self.answered(views, labels))

    def views(self, shards: Sequence[Shard]) -> Sequence[Any]:
        """Return what holds `label` and `split` of each client's examples, by default the shards themselves."""
        return shards

    def answered(self, views: Sequence[Any], labels: Labels) -> Sequence[Array]:
        """Return what is answered to the examples of each view."""
        return [self.answers(view, labels) for view in views]

    def answers(self, view: Any, labels: Labels) -> Array:
        """Return what is answered to the examples of one view, such as probabilities of classes."""
        raise NotImplementedError(f"{type(self).__name__} answers all views at once.")


class Constant(Answering[Shard]):
    """Say one label of everything; a baseline of a task is a row that names the task and its kind of label."""

    default: ClassVar[bool] = True
    constant: ClassVar[bool] = True
    own: ClassVar[bool] = False
    """Whether each client has its own constant, and one without training examples that of all."""

    def answered(self, views: Sequence[Any], labels: Labels) -> Sequence[Array]:
        """Return the constant of each view, as often as it has examples."""
        train = [view.label[view.split == 0] for view in views]
        own = self.own and all(map(len, train))
        every = np.zeros(0) if own else labels.constant(np.concatenate(train))
        constants = [labels.constant(each) if self.own and len(each) else every for each in train]
        return [np.broadcast_to(each, view.label.shape) for each, view in zip(constants, views, strict=True)]


def agreement(labels: Labels, views: Sequence[Any], predicted: Sequence[Array]) -> dict[str, float]:
    """Return {"validation": metric, "test": metric} over all clients' examples, of what is predicted of each.

    Of classes it may be probabilities, [examples, classes].
    """
    guess, label = np.concatenate(predicted), np.concatenate([view.label for view in views])
    split = np.concatenate([view.split for view in views])
    parts = {name: split == SPLITS.index(name) for name in SCORED_SPLITS}
    return labels.agreements({name: (guess[part], label[part]) for name, part in parts.items()})
