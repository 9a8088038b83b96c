"""Ability of a task: tell what its test examples are and what a model takes them for."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from fedgraft.contracts.task import Prepared, Shard
from fedgraft.contracts.task_abilities import PredictingTask
from fedgraft.contracts.values import Indices


class Classified(NamedTuple):
    """The test examples of a client.

    Args:
        classes: names of the client's classes.
        label: int64 [examples], the class of each, by its place in `classes`.
        answer: int64 [examples], what the model takes each for, likewise.
    """

    classes: tuple[str, ...]
    label: Indices
    answer: Indices


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
