"""Updates and scores that leave by themselves: the uplink's codec is all that is between."""

from dataclasses import dataclass
from typing import Any

from fedgraft.contracts import randomness
from fedgraft.engine import checked_codec, unchanged
from fedgraft.engine.client.client_memory import Memory
from fedgraft.engine.client.contribution import Contribution, Part
from fedgraft.engine.plan import Plan
from fedgraft.errors import UnknownRequestError
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays


@dataclass(frozen=True)
class OwnPart(Part):
    """An update behind the uplink's codec.

    Args:
        plan: what both ends agreed on.
        client: who sends it.
        round: of the update, from 1.
    """

    plan: Plan
    client: int
    round: int

    def sent(self, upload: Arrays, memory: Memory) -> Arrays:
        """Return the update as the codec has it; its state is remembered."""
        plan, state = self.plan, memory.get("uplink")
        if state is None:
            state = plan.uplink.init(plan.upload_layout)
        g = randomness.lazy(plan.seed, "uplink", self.round, self.client)
        encoded, memory["uplink"] = plan.uplink.encode(upload, state, g)
        checked_codec.check(plan.uplink, encoded, plan.upload_layout)
        return unchanged.shortened_upload(plan, encoded)


class OwnUpdate(Contribution):
    """Send each update by itself.

    Args:
        plan: what both ends agreed on.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def ordered(self, client: int, message: Message, memory: Memory, examples: int) -> Part:
        """Return an update of its own."""
        return OwnPart(self._plan, client, message.round)

    def statistics(self, client: int, message: Message, memory: Memory, shard: Any) -> Message:
        """Raise `UnknownRequestError`: nothing is added up."""
        raise UnknownRequestError("these options have no statistics that are added up")

    def scores(self, client: int, message: Message, memory: Memory, reply: Message) -> Message:
        """Return the reply."""
        return reply

    def smoothed(self, client: int, message: Message, memory: Memory, told: Arrays) -> Arrays:
        """Return what is told."""
        return told
