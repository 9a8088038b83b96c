"""To solve what? The contract of tasks. What only some tasks need is in `abilities`."""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Generic, TypeAlias, TypeVar

import torch

from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.values import Draw, Losses, Sums
from fedgraft.wire.layouts import Arrays

Shard = TypeVar("Shard")
"""One client's own data as the data set hands it over: plain NumPy values that can be sent to a worker process."""
Prepared = TypeVar("Prepared")
"""One client's data, ready to train on."""
Loss: TypeAlias = torch.Tensor | Losses
"""Losses of a step's examples, float [examples], perhaps beside a term that all of them share."""


def example_losses(losses: Loss) -> torch.Tensor:
    """Return the losses of the examples alone, float [examples]."""
    return losses.each if isinstance(losses, Losses) else losses


class Task(Checked, ABC, Generic[Shard, Prepared]):
    """Turn a client's shard into losses and scores of a model."""

    @property
    @abstractmethod
    def metric(self) -> str:
        """Name of the score, such as "accuracy"."""

    @property
    @abstractmethod
    def better(self) -> str:
        """Which scores are better: "lower" or "higher"."""

    @property
    @abstractmethod
    def sums(self) -> tuple[str, ...]:
        """Keys of `evaluate`'s sums, in the order in which they travel; no sum is negative."""

    @property
    def sums_tell(self) -> frozenset[str]:
        """What the sums of a client's held-out examples tell, by words of `contracts.capabilities`."""
        return frozenset({"scores"})

    @property
    def update_tells(self) -> frozenset[str]:
        """What changes of the model's parameters tell of a client, by the same words."""
        return frozenset({"update"})

    @property
    def stochastic(self) -> bool:
        """True where the model may draw from torch's own generators, as dropout does; these are seeded then."""
        return True

    @abstractmethod
    def prepare(self, shard: Shard, shared: Arrays) -> Prepared:
        """Prepare a client's own data for training: features, graphs, folds.

        Test examples appear in nothing that training sees. `shared` is what `PublishingTask.combine` sent the client;
        {} where nothing is published.
        """

    @abstractmethod
    def examples(self, data: Prepared) -> int:
        """Return the number of the client's training examples."""

    @abstractmethod
    def model(self, g: torch.Generator, variant: Hashable = None) -> torch.nn.Module:
        """Draw a model for clients of a `variant`; parameters that travel are laid out alike for all variants.

        Without a variant any will do: the server looks at what is shared and at nothing else.
        """

    @abstractmethod
    def loss(self, model: torch.nn.Module, data: Prepared, draw: Draw, encoded: torch.Tensor | None) -> Loss:
        """Return the losses of a draw's examples, float [examples]; `Losses` adds a term that all of them share.

        The draw lies within one block; `encoded` is what `BlockedTask.encode` made of that block, else None.
        """

    @abstractmethod
    def evaluate(self, model: torch.nn.Module, data: Prepared) -> dict[str, Sums]:
        """Return {"validation": sums, "test": sums}; sums of several clients add up key by key."""

    @abstractmethod
    def score(self, sums: Sums) -> float:
        """Return the metric, from added sums; nan where there was nothing to score."""
