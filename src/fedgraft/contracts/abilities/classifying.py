"""Ability of a task: tell what its test examples are and what a model takes them for."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from fedgraft.contracts.abilities.tasks import PredictingTask
from fedgraft.contracts.task import Prepared, Shard
from fedgraft.contracts.values import Indices
from fedgraft.wire.layouts import Array


class Classified(NamedTuple):
    """The test examples of a client.

    Args:
        classes: names of the client's classes.
        label: int64 [examples], the class of each, by its place in `classes`.
        answer: int64 [examples], what the model takes each for, likewise.
        shares: float32 [examples, classes], probabilities; None where they are not told.
    """

    classes: tuple[str, ...]
    label: Indices
    answer: Indices
    shares: Array | None = None

    def decided(self, rare: str, least: float) -> "Classified":
        """Return answers by a threshold: the class `rare` where its probability is at least so much."""
        if self.shares is None or rare not in self.classes or len(self.classes) != 2:
            return self
        place = self.classes.index(rare)
        return self._replace(answer=np.where(self.shares[:, place] >= least, place, 1 - place).astype(np.int64))


class ClassifyingTask(PredictingTask[Shard, Prepared]):
    """Ability: tell what test examples are and what a model takes them for, pair by pair.

    It is asked where the data are, after a run; sums that clients send tell no pairs.
    """

    @abstractmethod
    def classified(
        self, model: torch.nn.Module, shard: Shard, data: Prepared, remembered: Mapping[str, Any]
    ) -> Classified:
        """Return the test examples of a client with the answers of `predict`, by a model in evaluation mode.

        `data` is what `prepare` made of the shard, opened.
        """
