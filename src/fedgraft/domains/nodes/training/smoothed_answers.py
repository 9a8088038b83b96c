"""What the task `node` does to smooth answers over the graph, given its options."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedgraft.contracts.smoothing import Border, Means, SmoothingTask, means_in
from fedgraft.contracts.values import SCORED_SPLITS, Sums
from fedgraft.domains.labels.classes import CountedClasses
from fedgraft.domains.labels.judged import JudgedClasses
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.smoothing import Neighbours, Singles, Smoothing


class SmoothedAnswers(SmoothingTask[NodeShard, NodeData]):
    """Smooth answers over all edges, those of its own and those to nodes of others.

    Source: Gasteiger et al., "Predict then Propagate", ICLR 2019 (APPNP), Eq. (5): answers; Huang et al., "Combining
        Label Propagation and Simple Models Out-performs Graph Neural Networks", ICLR 2021: errors of training nodes.
    Differs: both are propagated in the same hops, and what they weigh is chosen at the end: Huang et al. first correct
        and then smooth, in twice as many hops. Neighbours count alike (D^-1 A); neither their degrees nor an edge of a
        node to itself has a part in it.
    """

    smoothing: int
    share_labels: bool
    classes: int

    @property
    @abstractmethod
    def labels(self) -> CountedClasses | JudgedClasses:
        """The kind, which sums probabilities."""

    @property
    def hops(self) -> int:
        """`smoothing`."""
        return self.smoothing

    @property
    def row_width(self) -> int:
        """A number per class but the last; with `share_labels` as many again."""
        return self._smoothing.row_width

    @property
    def choices(self) -> int:
        """How many shares of the own answer and of errors there are to choose from."""
        return len(self._smoothing.choices)

    def border(self, data: NodeData) -> Border:
        """Return the edges to nodes of others, all of them: `halo` has no part in it."""
        return _neighbours(data).border

    def answers(self, model: torch.nn.Module, data: NodeData) -> Singles:
        """Return probabilities, [own, classes]."""
        return self.scored(model, data)

    def told(self, data: NodeData, answers: Singles, means: Sequence[Means]) -> Singles:
        """Return probabilities after so many hops, with `share_labels` beside the errors, [border, row_width]."""
        return self._smoothing.rows(_neighbours(data), answers, means)

    def tallies(self, data: NodeData, answers: Singles, means: Sequence[Means]) -> NDArray[np.uint32]:
        """Return how many validation nodes each choice answers rightly, [choices].

        Judged by another measure than accuracy it is that measure, in [0, 1], times the client's nodes; to leave
        answers alone counts half a standard error more.
        """
        if self.labels.metric == "accuracy" or self.labels.better == "lower":
            return self._smoothing.right(_neighbours(data), answers, means)
        label, every = self._smoothing.validated(_neighbours(data), answers, means)
        scores = np.clip(np.nan_to_num([self.labels.agreement(each, label) for each in every]), 0, 1)
        fewest = max(1, int(np.bincount(label, minlength=self.labels.width).min()))
        scores[0] += np.sqrt(scores[0] * (1 - scores[0]) / fewest) / 2  # what luck alone may bring
        return np.asarray((np.minimum(scores, 1) * data.own).astype(np.uint32))

    def evaluate_smoothed(
        self, data: NodeData, answers: Singles, means: Sequence[Means], choice: int
    ) -> dict[str, Sums]:
        """Return the sums by smoothed answers."""
        smoothing = self._smoothing
        return self.sums_of(data, smoothing.smoothed(_neighbours(data), answers, means, smoothing.choices[choice]))

    def sums_of(self, data: NodeData, shares: Singles) -> dict[str, Sums]:
        """Return sums by the probabilities of all own nodes, float32 [own, classes]."""
        rows = {split: data.rows[split] for split in SCORED_SPLITS}
        return {split: self.labels.sums_by(shares[of], data.label[of]) for split, of in rows.items()}

    @abstractmethod
    def scored(self, model: torch.nn.Module, data: NodeData) -> Singles:
        """Return the model's probabilities of all own nodes, float32 [own, classes]."""

    def smoothed_as_remembered(self, data: NodeData, answers: Singles, remembered: Mapping[str, Any]) -> Singles:
        """Return answers, [own, classes], smoothed as a client remembers of the run; as they are where it does not.

        Nodes that it had then keep what the model said of them; others may have come behind them.
        """
        kept = remembered.get("smoothing")
        if not self.smoothing or kept is None or "choice" not in kept:
            return answers
        if (then := kept.get("answers")) is not None:
            answers = np.concatenate([then, answers[len(then) :]])
        choice = self._smoothing.choices[int(kept["choice"])]
        return self._smoothing.smoothed(_neighbours(data), answers, means_in(kept), choice)

    @cached_property
    def _smoothing(self) -> Smoothing:
        return Smoothing(self.smoothing, self.classes or 2, self.share_labels)


def _neighbours(data: NodeData) -> Neighbours:
    assert data.neighbours is not None, "it was prepared by a task that smooths"
    return data.neighbours
