"""All data in one place, or one client's alone: the ability of a task that can be trained so, as a baseline."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic

from fedgraft.contracts.task import Prepared, Shard


class PooledTask(ABC, Generic[Shard, Prepared]):
    """Ability: train in one place on all clients' data, or at one client without the others, as a baseline."""

    @abstractmethod
    def pooled(self, shards: Sequence[Shard]) -> Shard:
        """Return all shards as one, splits kept: what training in one place would see."""

    def alone(self, shard: Shard) -> Shard:
        """Return a client's shard without what joins it to others'; the shard itself by default."""
        return shard

    def side_by_side(self, shards: Sequence[Shard]) -> Shard:
        """Return all shards as one in which no edge goes from one client to another: the clients' cut in one place."""
        return self.pooled([self.alone(shard) for shard in shards])
