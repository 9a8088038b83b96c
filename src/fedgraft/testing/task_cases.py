"""A task with shards to try it on, and what the engine makes of its abilities."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from fedgraft.contracts import Draw, Task
from fedgraft.contracts.abilities.tasks import HaloTask, PublishingTask, VariantTask
from fedgraft.contracts.task import Ability, Loss, example_losses
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
        publishing = self.task.ability(PublishingTask)
        if publishing is None or not publishing.statistics_layout.specs:
            return {}
        return {client: publishing.statistics(shard) for client, shard in enumerate(self.shards)}

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
        return self.able(PublishingTask).combine(self.published) if self.published else {}

    def able(self, kind: type[Ability]) -> Ability:
        """Return what answers an ability that the task has."""
        found = self.task.ability(kind)
        assert found is not None, f"{kind.__name__} is no ability of {type(self.task).__name__}"
        return found

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
    halo = task.ability(HaloTask)
    return halo.opened(data, None) if halo else data


def variant(task: Task[Any, Any], data: Any) -> Hashable:
    """Return what shapes of personal parameters depend on."""
    variants = task.ability(VariantTask)
    return variants.variant(data) if variants else None


def personal(task: Task[Any, Any], name: str) -> bool:
    """Return whether a parameter never travels."""
    variants = task.ability(VariantTask)
    return variants.personal(name) if variants else False


def losses(
    task: Task[Any, Any], model: torch.nn.Module, data: Any, draw: Draw, shared: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the losses of a draw's examples, float [examples], given an encoding of their block."""
    return example_losses(task.loss(model, data, draw, shared))


def objective(loss: Loss) -> torch.Tensor:
    """Return what a step of equal weights minimises, float scalar."""
    mean = example_losses(loss).mean()
    return mean + loss.shared if isinstance(loss, Losses) and loss.shared is not None else mean
