"""The client's part in `privacy.collection`: the way from what is learnt to what leaves, of updates and of scores."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedgraft.engine.client.client_memory import Memory
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays

if TYPE_CHECKING:
    from fedgraft.engine.client.masking import Masking


class Part(ABC):
    """A client's part in the outcome of one round."""

    @abstractmethod
    def sent(self, upload: Arrays, memory: Memory) -> Arrays:
        """Return the arrays that are sent of an update; `memory` is changed."""

    def ran(self, train: Callable[[], Message], memory: Memory) -> Message:
        """Train, and return the reply."""
        return train()


class Contribution(ABC):
    """What a client sends of what it has made.

    Args:
        masking: serves the requests around masks; None where there are none.
    """

    masking: "Masking | None" = None

    @abstractmethod
    def ordered(self, client: int, message: Message, memory: Memory, examples: int) -> Part:
        """Take an order to train: return the client's part in the round; it has so many examples.

        Raises `BeyondLimitError` for an order that asks for more than it may.
        """

    @abstractmethod
    def statistics(self, client: int, message: Message, memory: Memory, shard: Any) -> Message:
        """Return what a client publishes of its data to be added up before training."""

    @abstractmethod
    def scores(self, client: int, message: Message, memory: Memory, reply: Message) -> Message:
        """Return the reply with a client's sums over its held-out examples as they leave."""

    @abstractmethod
    def smoothed(self, client: int, message: Message, memory: Memory, told: Arrays) -> Arrays:
        """Return what is told in a hop of smoothing as it leaves."""
