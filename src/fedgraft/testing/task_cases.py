"""A task with shards to try it on, and what the engine makes of its abilities."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from fedgraft.contracts import Draw, Indices, Task
from fedgraft.contracts.abilities.tasks import BlockedTask, HaloTask, PublishingTask, VariantTask
from fedgraft.contracts.detailed_scores import DetailedScores
from fedgraft.contracts.task import Loss, example_losses
from fedgraft.contracts.values import Losses
from fedgraft.wire.layouts import Arrays


@dataclass(frozen=True, eq=False)
class TaskCase:
    """A task fitted to shards, two at least and each with training examples; `poolable` could be one client's."""

    task: Task[Any, Any]
    shards: Sequence[Any]
    poolable: Sequence[Any]
    _prepared: dict[int, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def published(self) -> dict[int, Arrays]:
        """{client: what it publishes}; {} where nothing is published."""
        task = self.task
        if not isinstance(task, PublishingTask) or not task.statistics_layout.specs:
            return {}
        return {client: task.statistics(shard) for client, shard in enumerate(self.shards)}

    def afresh(self, client: int = 0) -> Any:
        """Prepare a client's data as if nothing had been published; halo states are none yet."""
        return opened(self.task, self.task.prepare(self.shards[client], {}))

    def prepared(self, client: int = 0) -> Any:
        """Return what was prepared `afresh` once, with halo states of its own."""
        if client not in self._prepared:
            self._prepared[client] = self.afresh(client)
        return opened(self.task, self._prepared[client])

    def set_up(self, client: int = 0) -> Any:
        """Prepare a client's data afresh, with what it gets back of what all publish."""
        return self.task.prepare(self.shards[client], self.told.get(client, {}))

    @cached_property
    def told(self) -> Mapping[int, Arrays]:
        """{client: what it gets back in the end}; {} where nothing is published."""
        if not self.published or not isinstance(self.task, PublishingTask):
            return {}
        return self.task.combine(self.published)

    def drawn(self, data: Any, seed: int = 1) -> torch.nn.Module:
        """Draw a client's model, and move every parameter so that it matters."""
        g = torch.Generator().manual_seed(seed)
        model = self.task.model(g, variant(self.task, data)).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=g))
        return model


def opened(task: Task[Any, Any], data: Any) -> Any:
    """Return prepared data with no halo states yet, of a task that has any."""
    return task.opened(data, None) if isinstance(task, HaloTask) else data


def variant(task: Task[Any, Any], data: Any) -> Hashable:
    """Return what shapes of personal parameters depend on."""
    return task.variant(data) if isinstance(task, VariantTask) else None


def personal(task: Task[Any, Any], name: str) -> bool:
    """Return whether a parameter never travels."""
    return task.personal(name) if isinstance(task, VariantTask) else False


def blocks(task: Task[Any, Any], data: Any) -> Sequence[Indices]:
    """Return the training examples that may share a step; one block of all by default."""
    return task.blocks(data) if isinstance(task, BlockedTask) else [np.arange(task.examples(data), dtype=np.int64)]


def encoded(task: Task[Any, Any], model: torch.nn.Module, data: Any, block: Indices) -> torch.Tensor | None:
    """Return what all draws of a block share."""
    return task.encode(model, data, block) if isinstance(task, BlockedTask) else None


def losses(
    task: Task[Any, Any], model: torch.nn.Module, data: Any, draw: Draw, shared: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the losses of a draw's examples, float [examples], given an encoding of their block."""
    return example_losses(task.loss(model, data, draw, shared))


def objective(loss: Loss) -> torch.Tensor:
    """Return what a step of equal weights minimises, float scalar."""
    mean = example_losses(loss).mean()
    return mean + loss.shared if isinstance(loss, Losses) and loss.shared is not None else mean


def choice(task: Task[Any, Any], sums: dict[str, float]) -> float:
    """Return what a model is chosen by."""
    return task.choice(sums) if isinstance(task, DetailedScores) else task.score(sums)
