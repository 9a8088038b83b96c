"""The client's part in `privacy.collection`: the way from what is learnt to what leaves, of updates and of scores."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from fedgraft.contracts import randomness
from fedgraft.engine import coded_arrays
from fedgraft.engine.client.addend import AddedPart, Addend, NoisyAddend
from fedgraft.engine.client.client_memory import Memory
from fedgraft.engine.client.own_secrets import root_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import Assurance
from fedgraft.errors import UnknownRequestError
from fedgraft.wire import Message
from fedgraft.wire.layouts import Arrays

if TYPE_CHECKING:
    from fedgraft.engine.client.masking import Masking


@dataclass(frozen=True)
class RegisteredKeys:
    """By what a node signs its keys of a run, and knows those of others.

    Args:
        run: its name.
        private: the node's private key, as OpenSSH writes it.
        public: returns the public key by which a client is registered, as OpenSSH writes it; raises `ClientError` where
            the node knows none.
    """

    run: str
    private: bytes
    public: Callable[[int], bytes]


@dataclass(frozen=True)
class OwnPart:
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
        coded_arrays.check(plan.uplink, encoded, plan.upload_layout)
        return coded_arrays.shortened_upload(plan, encoded)

    def ran(self, train: Callable[[], Message], memory: Memory) -> Message:
        """Train, and return the reply."""
        return train()


class OwnUpdate:
    """Send each update by itself.

    Args:
        plan: what both ends agreed on.
    """

    masking: None = None

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def ordered(self, client: int, message: Message, memory: Memory, examples: int) -> OwnPart:
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


Part: TypeAlias = OwnPart | AddedPart
"""A client's part in the outcome of one round."""
Contribution: TypeAlias = OwnUpdate | Addend
"""What a client sends of what it has made, by itself or in a sum."""


def contribution_of(plan: Plan, root: bytes = b"", keys: RegisteredKeys | None = None) -> Contribution:
    """Return a client's part.

    `root` is the root of its secrets, see `root_of`. `keys` are a node's; None = those of a simulation.
    """
    if plan.collection.single:
        return OwnUpdate(plan)
    masking = masking_of(plan, root, keys)
    return NoisyAddend(plan, masking, root) if plan.collection.noisy else Addend(plan, masking)


def masking_of(plan: Plan, root: bytes, keys: RegisteredKeys | None) -> "Masking | None":
    """Return the client's part in masked sums, if there are any: its cryptography takes its time to import."""
    assurance = plan.collection.assurance
    if assurance == Assurance.NONE:
        return None
    from fedgraft.engine.client.masking import Masking

    if assurance == Assurance.MASKED:
        return Masking(plan, root_of(plan, root))
    from fedgraft.secrets.signing import Signatures

    own = root_of(plan, root)
    known = Signatures.registered(keys.run, keys.private, keys.public) if keys else Signatures.simulated(own)
    return Masking(plan, own, known)
