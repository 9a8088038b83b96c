"""A client's part in masked sums: keys, sealed shares, masks on its codes, and shares that it reveals."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedgraft.engine.client.client_memory import Memory
from fedgraft.engine.plan import Plan
from fedgraft.engine.secure_sum import ALIVE, BOXES, COUNT, KEYS, PEERS, PRESENT, SHARES
from fedgraft.errors import BeyondLimitError, ClientError
from fedgraft.secrets.masked_sum import Member
from fedgraft.secrets.neighbours import expected, threshold
from fedgraft.wire import Message
from fedgraft.wire.layouts import Array
from fedgraft.wire.packing import Codes


class Masking:
    """Serve the requests around a masked sum.

    Secrets are made anew from the root whenever they are needed. What a client remembers of a round, until it has
    revealed shares, is who its neighbours are, their public keys, and what they have sealed for it.

    Args:
        plan: what both ends agreed on.
        root: of all secrets of this run's masks, see `root_of`.
    """

    def __init__(self, plan: Plan, root: bytes) -> None:
        self._plan, self._root = plan, root

    def served(self, client: int, message: Message, memory: Memory) -> Message:
        """Answer a request of one of the kinds of `purposes.MASKING_KINDS`."""
        member = Member(client, message.round, message.segment, self._root)
        if message.kind == "keys":
            return Message("keys", message.round, segment=message.segment, arrays={KEYS: _array(member.public)})
        if message.kind == "shares":
            return self._shares(member, message, memory)
        return self._revealed(member, message, memory)

    def taken_up(
        self, client: int, message: Message, memory: Memory, bits: int, segment: int
    ) -> Callable[[Codes], Codes]:
        """Return what puts masks on codes of so many bits, in a sum of the round; keep what is sealed for it.

        `message` is the order to train, or to score.
        """
        kept, arrays = self._kept(message, memory, segment), message.arrays or {}
        peers, present = kept["peers"].tolist(), _marked(arrays[PRESENT], len(kept["peers"]))
        if len(arrays[BOXES]) != len(peers):
            raise ClientError(f"{len(arrays[BOXES])} sealed shares of {len(peers)} neighbours")
        self._check_enough(sum(present), len(peers), "have sealed shares")
        memory["sum"] = {**kept, "present": np.array(present, np.uint8), "boxes": arrays[BOXES]}
        keys = {peer: kept["keys"][at].tobytes() for at, peer in enumerate(peers) if present[at]}
        member = Member(client, message.round, segment, self._root)
        return lambda codes: member.masked(codes, bits, keys)

    def _shares(self, member: Member, message: Message, memory: Memory) -> Message:
        arrays, options = message.arrays or {}, self._plan.secure_sum
        peers, keys = arrays[PEERS].tolist(), arrays[KEYS]
        if len({*peers, member.client}) != len(peers) + 1 or len(keys) != len(peers):
            raise ClientError(f"neighbours that are none: {len(peers)}, with {len(keys)} keys")
        count = self._counted(message)
        if len(peers) < (needed := expected(count, options.neighbours, options.threshold)):
            raise BeyondLimitError(f"{len(peers)} neighbours among {count} clients, of which {needed} are needed")
        memory["sum"] = {"round": message.round, "segment": message.segment, "peers": arrays[PEERS], "keys": keys}
        known = {peer: keys[at].tobytes() for at, peer in enumerate(peers)}
        boxes = member.boxes(known, threshold(len(peers), self._plan.secure_sum.threshold))
        sealed = {BOXES: _rows([boxes[peer] for peer in peers])}
        return Message("shares", message.round, segment=message.segment, arrays=sealed)

    def _revealed(self, member: Member, message: Message, memory: Memory) -> Message:
        """Reveal a share for each neighbour that had sealed any, and forget the round."""
        kept = self._kept(message, memory, message.segment)
        if "boxes" not in kept:
            raise ClientError("asked to reveal shares before it has sent anything")
        self._counted(message)
        peers = kept["peers"].tolist()
        alive = _marked((message.arrays or {})[ALIVE], len(peers))
        self._check_enough(sum(alive), len(peers), "are in the sum")
        there = [at for at in range(len(peers)) if kept["present"][at]]
        found = member.revealed(
            {peers[at]: kept["keys"][at].tobytes() for at in there},
            {peers[at]: kept["boxes"][at].tobytes() for at in there},
            {peer for at, peer in enumerate(peers) if alive[at]},
        )
        memory.pop("sum")
        revealed = {SHARES: _rows([found[peers[at]] for at in there])}
        return Message("unmask", message.round, segment=message.segment, arrays=revealed)

    def _counted(self, message: Message) -> int:
        """How many clients are in the sum, as the server says. Raises `BeyondLimitError` for fewer than must be."""
        count, least = message.report[COUNT], self._plan.least_cohort
        if not least <= count < 2**24:
            raise BeyondLimitError(f"a sum of {count:g} clients, of whom {least} are the fewest")
        return int(count)

    def _kept(self, message: Message, memory: Memory, segment: int) -> dict[str, Any]:
        kept: dict[str, Any] = memory.get("sum") or {}
        if (kept.get("round"), kept.get("segment")) != (message.round, segment):
            raise ClientError(f"asked for {message.kind!r} of a sum that it has no part in, or no longer")
        return kept

    def _check_enough(self, count: int, peers: int, what: str) -> None:
        least = threshold(peers, self._plan.secure_sum.threshold)
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
