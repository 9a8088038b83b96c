"""What a task has clients publish before training, made of several things that are published side by side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedgraft.contracts.abilities.tasks import PublishingTask
from fedgraft.wire.layouts import Arrays, Layout
from fedgraft.wire.lazy import Made


def itself(shard: Any) -> tuple[Any, ...]:
    """Return the shard alone; a function of the module, since plans travel to other processes."""
    return (shard,)


class Published(NamedTuple):
    """One of these things.

    Args:
        by: as a `PublishingTask`, but that its `statistics` take what `look` returns.
        look: returns what is published of, of a shard; by default the shard.
    """

    by: Any
    look: Callable[[Any], tuple[Any, ...]] = itself


@dataclass(frozen=True, eq=False)
class Publications(PublishingTask[Any]):
    """Publish what each of these does; names of their arrays differ."""

    each: tuple[Published, ...]

    @property
    def statistics_layout(self) -> Layout:
        """Layouts one after the other."""
        return Layout(tuple(spec for each in self.each for spec in each.by.statistics_layout))

    def statistics(self, shard: Any) -> Arrays:
        """Return what a client publishes."""
        return {name: array for by, look in self.each for name, array in by.statistics(*look(shard)).items()}

    def check(self, statistics: Arrays) -> None:
        """Check one after the other."""
        for each in self.each:
            each.by.check(statistics)

    @property
    def combined_layout(self) -> Layout:
        """Layouts one after the other."""
        return Layout(tuple(spec for each in self.each for spec in each.by.combined_layout))

    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Return all that each client gets back."""
        told = [each.by.combine(statistics) for each in self.each]
        return Made(statistics, lambda client: {name: array for one in told for name, array in one[client].items()})

    def common(self, shared: Arrays) -> Arrays:
        """Return what all got alike."""
        return {
            k: array for each in self.each if hasattr(each.by, "common") for k, array in each.by.common(shared).items()
        }
