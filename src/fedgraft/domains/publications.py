"""What a task has clients publish before training, made of several things that are published side by side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedgraft.contracts.abilities.tasks import PublishingTask
from fedgraft.wire.layouts import Arrays, Layout
from fedgraft.wire.lazy import Made


@dataclass(frozen=True, eq=False)
class Publications(PublishingTask[Any]):
    """Publish what each of these does; names of their arrays differ."""

    each: tuple[PublishingTask[Any], ...]

    @property
    def statistics_layout(self) -> Layout:
        """Layouts one after the other."""
        return Layout(tuple(spec for each in self.each for spec in each.statistics_layout))

    def statistics(self, shard: Any) -> Arrays:
        """Return what a client publishes."""
        return {name: array for each in self.each for name, array in each.statistics(shard).items()}

    def check(self, statistics: Arrays) -> None:
        """Check one after the other."""
        for each in self.each:
            each.check(statistics)

    @property
    def combined_layout(self) -> Layout:
        """Layouts one after the other."""
        return Layout(tuple(spec for each in self.each for spec in each.combined_layout))

    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Return all that each client gets back."""
        told = [each.combine(statistics) for each in self.each]
        return Made(statistics, lambda client: {name: array for one in told for name, array in one[client].items()})

    def common(self, shared: Arrays) -> Arrays:
        """Return what all got alike of each."""
        return {name: array for each in self.each for name, array in each.common(shared).items()}


@dataclass(frozen=True, eq=False)
class Looked(PublishingTask[Any]):
    """Publish what an exchange makes of a shard as it is looked at.

    Args:
        exchange: takes what `look` returns in place of a shard.
        look: returns the exchange's arguments, of a shard.
    """

    exchange: Any
    look: Callable[[Any], tuple[Any, ...]]

    @property
    def statistics_layout(self) -> Layout:
        """As the exchange has it."""
        layout: Layout = self.exchange.statistics_layout
        return layout

    def statistics(self, shard: Any) -> Arrays:
        """Return what a client publishes."""
        published: Arrays = self.exchange.statistics(*self.look(shard))
        return published

    def check(self, statistics: Arrays) -> None:
        """Check as the exchange does."""
        self.exchange.check(statistics)

    @property
    def combined_layout(self) -> Layout:
        """As the exchange has it."""
        layout: Layout = self.exchange.combined_layout
        return layout

    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Return what each client gets back."""
        combined: Mapping[int, Arrays] = self.exchange.combine(statistics)
        return combined
