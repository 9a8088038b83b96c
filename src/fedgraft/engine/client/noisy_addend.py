"""A client's part in a sum, with its share of the noise."""

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedgraft.contracts.abilities.summing import Words
from fedgraft.engine.client.addend import AddedPart, Addend
from fedgraft.engine.client.client_memory import Memory
from fedgraft.engine.client.clipped_gradients import shortened
from fedgraft.engine.client.own_secrets import noise_of
from fedgraft.engine.plan import Plan
from fedgraft.errors import BeyondLimitError, memory_shortage, printable
from fedgraft.wire import Message
from fedgraft.wire.layouts import Array, Arrays

if TYPE_CHECKING:
    from fedgraft.engine.client.masking import Masking

LOG = logging.getLogger("fedgraft.client")


class NoisyPart(AddedPart):
    """A part that is clipped, with noise; a client that cannot train adds noise alone."""

    def sent(self, upload: Arrays, memory: Memory) -> Arrays:
        """Return an update as it is added; gradients of examples are clipped already (docs/adr/0016)."""
        privacy = self.addend.plan.privacy
        return super().sent(upload if privacy.of_examples else shortened(upload, privacy.clip), memory)

    def ran(self, train: Callable[[], Message], memory: Memory) -> Message:
        """Train; whatever goes wrong, return noise: an error would tell for nothing what noise hides."""
        try:
            return train()
        except Exception as error:
            if memory_shortage(error):
                raise
            who, round = self.client, self.message.round
            LOG.info("Client %s, round %s adds noise alone: %s", who, round, printable(str(error)))
            nothing = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in self.addend.plan.upload_layout}
            return Message("train", round, arrays=self.sent(nothing, memory))


class NoisyAddend(Addend):
    """Add what a client makes to what others make, with noise.

    Args:
        plan: what both ends agreed on.
        masking: puts masks on codes; None leaves them as they are.
        root: of the client's secrets, see `own_secrets.root_of`.
    """

    parts: ClassVar[type[AddedPart]] = NoisyPart

    def __init__(self, plan: Plan, masking: "Masking | None", root: bytes) -> None:
        super().__init__(plan, masking)
        self._root = root

    def secret(self, client: int, round: int, hidden: Iterable[Array]) -> Words:
        """Return the source of the noise."""
        return noise_of(self.plan, self._root, client, round, hidden)

    def _count(self, memory: Memory) -> None:
        """Note another round with noise. Raises `BeyondLimitError` where there were as many as noise lasts for."""
        rounds, done = self.plan.rounds, int(memory.get("noised", 0))
        if done >= rounds:
            raise BeyondLimitError(f"noise lasts for {rounds} rounds, of which the client has taken part in all")
        memory["noised"] = done + 1
