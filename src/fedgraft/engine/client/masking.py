"""A client's part in masked sums: keys, sealed shares, masks on its codes, and shares that it reveals."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedgraft.engine.client.client_memory import Memory
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.secure_sum import (
    ALIVE,
    BOXES,
    CONFIRMED,
    COUNT,
    KEYS,
    PEERS,
    PRESENT,
    SHARES,
    SIGNATURES,
)
from fedgraft.engine.protocol.protocol import digest_of
from fedgraft.errors import BeyondLimitError, ClientError
from fedgraft.secrets.masked_sum import Member
from fedgraft.secrets.neighbours import expected, threshold
from fedgraft.secrets.sizes import CONFIRM_BYTES
from fedgraft.wire import Message
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.packing import Codes

if TYPE_CHECKING:
    from fedgraft.secrets.signing import Signatures


REVEALED: Final = "revealed"
"""Name of what a client remembers of the last order at which it has revealed shares of a sum of updates."""


class Masking:
    """Serve the requests around a masked sum.

    Where keys are signed, clients confirm each other in a sum with a digest of the order: the model, its scales, the
    total of weights. Two rounds at one model whose cohorts differ by one client would tell that one's codes, so who has
    revealed shares at an order does not train at it again. A model that differs by a hair is another one: what
    differences of sums tell is bounded by noise alone. The mark is part of the memory, which a server names at sites:
    there the node's log has the orders, too.

    Secrets are made anew from the root whenever they are needed. What a client remembers of a round, until it has
    revealed shares, is who its neighbours are, their public keys, and what they have sealed for it.

    Args:
        plan: what both ends agreed on.
        root: of all secrets of this run's masks, see `own_secrets.root_of`.
        signatures: by which keys are signed, and those of neighbours checked; None where they are not.
    """

    def __init__(self, plan: Plan, root: bytes, signatures: "Signatures | None" = None) -> None:
        self._plan, self._root, self._signatures = plan, root, signatures

    def served(self, client: int, message: Message, memory: Memory) -> Message:
        """Answer a request of one of the kinds of `protocol.masking_kinds`."""
        answers = {
            "keys": self._keys,
            "shares": self._shares,
            "confirm": self._confirmed,
            "unmask": self._revealed,
        }
        arrays = answers[message.kind](Member(client, message.round, message.segment, self._root), message, memory)
        return Message(message.kind, message.round, segment=message.segment, arrays=arrays)

    def taken_up(
        self, client: int, message: Message, memory: Memory, bits: int, segment: int
    ) -> Callable[[Codes], Codes]:
        """Return what puts masks on codes of so many bits, in a sum of the round; keep what is encrypted for it.

        `message` is the order to train, or to score.
        """
        kept, arrays = self._kept(message, memory, segment), message.arrays or {}
        peers, present = kept["peers"].tolist(), _marked(arrays[PRESENT], len(kept["peers"]))
        if len(arrays[BOXES]) != len(peers):
            raise ClientError(f"{len(arrays[BOXES])} sealed shares of {len(peers)} neighbours")
        self._check_enough(sum(present), kept, "have sealed shares")
        memory["sum"] = {**kept, "present": np.array(present, np.uint8), "boxes": arrays[BOXES]}
        if self._signatures:
            memory["sum"] |= {"order": digest_of(self._plan, message), "kind": message.kind}
            if message.kind == "train" and memory.get(REVEALED) == memory["sum"]["order"]:
                raise BeyondLimitError("a sum at a model and scales at which it has revealed shares: another cohort's")
        keys = {peer: kept["keys"][at].tobytes() for at, peer in enumerate(peers) if present[at]}
        member = Member(client, message.round, segment, self._root)
        return lambda codes: member.masked(codes, bits, keys)

    def _keys(self, member: Member, message: Message, memory: Memory) -> Arrays:
        public = member.public
        if self._signatures is None:
            return {KEYS: _array(public)}
        signature = self._signatures.signed(member.client, member.round, member.segment, public)
        return {KEYS: _array(public), SIGNATURES: _array(signature)}

    def _shares(self, member: Member, message: Message, memory: Memory) -> Arrays:
        arrays, options = message.arrays or {}, self._plan.secure_sum
        peers, keys = arrays[PEERS].tolist(), arrays[KEYS]
        if len({*peers, member.client}) != len(peers) + 1 or len(keys) != len(peers):
            raise ClientError(f"neighbours that are none: {len(peers)}, with {len(keys)} keys")
        count = self._counted(message)
        share = self._plan.collection.staying(count)
        if len(peers) < (needed := expected(count, options.neighbours, share)):
            raise BeyondLimitError(f"{len(peers)} neighbours among {count} clients, of which {needed} are needed")
        if self._signatures:
            if len(signatures := arrays[SIGNATURES]) != len(peers):
                raise ClientError(f"{len(signatures)} signatures of {len(peers)} neighbours")
            for peer, key, signature in zip(peers, keys, signatures, strict=True):
                self._signatures.check(peer, member.round, member.segment, key.tobytes(), signature.tobytes())
        place = {"round": message.round, "segment": message.segment, "share": share}
        memory["sum"] = {**place, "peers": arrays[PEERS], "keys": keys}
        known = {peer: keys[at].tobytes() for at, peer in enumerate(peers)}
        boxes = member.boxes(known, threshold(len(peers), share))
        return {BOXES: _rows([boxes[peer] for peer in peers])}

    def _confirmed(self, member: Member, message: Message, memory: Memory) -> Arrays:
        """Confirm to each neighbour whose codes have arrived, as the server says, that it counts that one."""
        kept = self._sent(message, memory)
        alive = self._alive(message, kept)
        memory["sum"] = {**kept, "alive": np.array(alive, np.uint8)}
        nothing, peers = bytes(CONFIRM_BYTES), kept["peers"].tolist()
        codes = [
            member.confirmation(peer, kept["keys"][at].tobytes(), kept["order"]) if alive[at] else nothing
            for at, peer in enumerate(peers)
        ]
        return {CONFIRMED: _rows(codes)}

    def _revealed(self, member: Member, message: Message, memory: Memory) -> Arrays:
        """Reveal a share for each neighbour that had sealed any, and forget the round."""
        kept = self._sent(message, memory)
        peers, alive = kept["peers"].tolist(), self._alive(message, kept)
        if self._signatures:
            self._check_confirmed(member, message, kept, alive)
        there = [at for at in range(len(peers)) if kept["present"][at]]
        found = member.revealed(
            {peers[at]: kept["keys"][at].tobytes() for at in there},
            {peers[at]: kept["boxes"][at].tobytes() for at in there},
            {peer for at, peer in enumerate(peers) if alive[at]},
        )
        memory.pop("sum")
        if kept.get("kind") == "train":
            memory[REVEALED] = kept["order"]
        return {SHARES: _rows([found[peers[at]] for at in there])}

    def _check_confirmed(
        self, member: Member, message: Message, kept: Mapping[str, Any], alive: Sequence[bool]
    ) -> None:
        """Raise an error unless this client has confirmed the same list, and enough neighbours confirm that it lives.

        Then too few of them are left who could have been told that it is dead: nobody rebuilds the key of its masks.

        Source: Bell et al., CCS 2020, algorithm 3, lines 10 to 13. Differs: codes by keys in common in place of
            signatures, since nobody but the two checks them.
        """
        if "alive" not in kept or kept["alive"].tolist() != list(alive):
            raise ClientError("asked to reveal shares for another list than it has confirmed")
        codes = (message.arrays or {})[CONFIRMED]
        if len(codes) != len(alive):
            raise ClientError(f"{len(codes)} confirmations of {len(alive)} neighbours")
        confirmed = sum(
            alive[at] and member.is_confirmed(peer, kept["keys"][at].tobytes(), kept["order"], codes[at].tobytes())
            for at, peer in enumerate(kept["peers"].tolist())
        )
        self._check_enough(confirmed, kept, "confirm that it is in the sum", self._plan.collection.least - 1)

    def _sent(self, message: Message, memory: Memory) -> dict[str, Any]:
        """What is kept of a sum to which the client has sent its part."""
        kept = self._kept(message, memory, message.segment)
        if "boxes" not in kept:
            raise ClientError("asked to reveal shares before it has sent anything")
        return kept

    def _alive(self, message: Message, kept: Mapping[str, Any]) -> list[bool]:
        """Which neighbours are in the sum, as the server says. Raises `BeyondLimitError` for too few.

        Raises `ClientError` for one with whom this client has no mask in common: it would hide nothing.
        """
        self._counted(message)
        alive = _marked((message.arrays or {})[ALIVE], len(kept["peers"]))
        if any(there and not encrypted for there, encrypted in zip(alive, kept["present"], strict=True)):
            raise ClientError("a neighbour is said to be in the sum that has sealed no shares")
        self._check_enough(sum(alive), kept, "are in the sum")
        return alive

    def _counted(self, message: Message) -> int:
        """How many clients are in the sum, as the server says. Raises `BeyondLimitError` for fewer than must be."""
        count, least = message.report[COUNT], self._plan.collection.least
        if not least <= count < 2**24:
            raise BeyondLimitError(f"a sum of {count:g} clients, of whom {least} are the fewest")
        return int(count)

    def _kept(self, message: Message, memory: Memory, segment: int) -> dict[str, Any]:
        kept: dict[str, Any] = memory.get("sum") or {}
        if (kept.get("round"), kept.get("segment")) != (message.round, segment):
            raise ClientError(f"asked for {message.kind!r} of a sum that it has no part in, or no longer")
        return kept

    @staticmethod
    def _check_enough(count: int, kept: Mapping[str, Any], what: str, others: int = 0) -> None:
        """Raise `BeyondLimitError` for fewer neighbours than the sum's threshold, or than `others`, or all."""
        peers = len(kept["peers"])
        least = max(threshold(peers, kept["share"]), min(peers, others))
        if count < least:
            raise BeyondLimitError(f"{count} of {peers} neighbours {what}, of which {least} must")


def _marked(bits: Array, count: int) -> list[bool]:
    """Which of so many places are marked. Raises `ClientError` for bits of another number."""
    if len(bits) != -(-count // 8):
        raise ClientError(f"{len(bits)} bytes of marks of {count} neighbours")
    return [bool(bit) for bit in np.unpackbits(bits, count=count)]


def _array(content: bytes) -> Array:
    return np.frombuffer(content, np.uint8)


def _rows(contents: Sequence[bytes]) -> Array:
    return _array(b"".join(contents)).reshape(len(contents), -1)
