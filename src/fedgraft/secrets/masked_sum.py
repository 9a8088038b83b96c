"""One round of SecAgg+: what a client does, and what the server does with it, without messages."""

import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fedgraft.errors import ClientError
from fedgraft.secrets.agreement import agreed, derived, encrypted, opened, public_of
from fedgraft.secrets.masks import Lanes, lane_type, mask
from fedgraft.secrets.shamir import PRIME, rebuilt, shares
from fedgraft.secrets.sizes import CONFIRM_BYTES, KEY_BYTES, SHARE_BYTES

_WIDE: Final = 2 * KEY_BYTES
"""Bytes that a number of the field is made of, so that it is as good as uniform."""


@dataclass(frozen=True)
class Member:
    """A client in one round of sums.

    All its secrets are functions of its root secret and of the round: it keeps none, and the same requests have the
    same answers. That it answers no others is its journal's part.

    Args:
        client: its number.
        round: its number.
        segment: which sum of the round.
        root: of this run, 32 bytes that nobody else has.
    """

    client: int
    round: int
    segment: int
    root: bytes

    @property
    def public(self) -> bytes:
        """Both public keys."""
        return public_of(self._secret("mask key")) + public_of(self._secret("share key"))

    def boxes(self, peers: Mapping[int, bytes], threshold: int) -> dict[int, bytes]:
        """Return {neighbour: a share of each of two secrets, sealed for it}, given {neighbour: its public keys}.

        `threshold` shares rebuild a secret. One is that of the own mask, the other the key of masks in common.
        """
        places = [peer + 1 for peer in peers]
        own = self._shares("own mask", places, threshold)
        key = self._shares("mask key", places, threshold)
        return {
            peer: encrypted(self._box_key(keys, self.client, peer), _share(one) + _share(other))
            for (peer, keys), one, other in zip(peers.items(), own, key, strict=True)
        }

    def masked(self, codes: Lanes, bits: int, peers: Mapping[int, bytes]) -> Lanes:
        """Return codes of so many bits with all masks on; `peers` are {neighbour that is alive: its public keys}."""
        values = codes.astype(lane_type(bits))
        private = self._secret("mask key")
        place = self.round, self.segment
        common = {peer: _mask_key(private, keys, place, self.client, peer) for peer, keys in peers.items()}
        added = [key for peer, key in common.items() if peer > self.client]
        mask(values, [self._secret("own mask"), *added], [key for peer, key in common.items() if peer < self.client])
        values &= values.dtype.type(2**bits - 1)
        return values

    def revealed(
        self, peers: Mapping[int, bytes], boxes: Mapping[int, bytes], alive: Collection[int]
    ) -> dict[int, bytes]:
        """Return a share for each neighbour: of its own mask where it is `alive`, else of its key. Never both.

        Args:
            peers: {neighbour: its public keys}.
            boxes: {neighbour: what it has sealed for this client}.
            alive: those whose masked codes have arrived.
        """
        found = {}
        for peer, box in boxes.items():
            pair = opened(self._box_key(peers[peer], peer, self.client), box)
            found[peer] = pair[:SHARE_BYTES] if peer in alive else pair[SHARE_BYTES:]
        return found

    def confirmation(self, peer: int, keys: bytes, order: bytes = b"") -> bytes:
        """Return the code by which this client confirms to a neighbour that it counts that one among the living.

        `order` is a digest of what this client was told to do, which the neighbour must have been told, too.

        Nobody but the two can make it: it follows from the key that they have in common, of the sum and direction.
        """
        return self._code(keys, self.client, peer, order)

    def is_confirmed(self, peer: int, keys: bytes, order: bytes, code: bytes) -> bool:
        """Return whether a code is a neighbour's confirmation that this client is among the living."""
        return hmac.compare_digest(self._code(keys, peer, self.client, order), code)

    def _code(self, keys: bytes, sender: int, receiver: int, order: bytes) -> bytes:
        place = self.round, self.segment, sender, receiver
        return agreed(self._secret("share key"), keys[KEY_BYTES:], f"alive {order.hex()}", *place)[:CONFIRM_BYTES]

    def _secret(self, purpose: str) -> bytes:
        return derived(self.root, purpose, self.round, self.segment, self.client)

    def _box_key(self, keys: bytes, sender: int, receiver: int) -> bytes:
        return agreed(self._secret("share key"), keys[KEY_BYTES:], "share", self.round, self.segment, sender, receiver)

    def _shares(self, purpose: str, places: list[int], threshold: int) -> list[int]:
        numbers = np.zeros(_WIDE * (threshold - 1), np.uint8)
        mask(numbers, [self._secret(f"shares of {purpose}")], [])
        drawn = numbers.tobytes()
        coefficients = [int.from_bytes(drawn[at : at + _WIDE], "little") % PRIME for at in range(0, len(drawn), _WIDE)]
        return shares(int.from_bytes(self._secret(purpose), "little"), coefficients, places)


@dataclass
class Collector:
    """The server's part in one round of sums.

    Args:
        round: its number.
        segment: which sum of the round.
        bits: of a code in the sum.
        threshold: shares that rebuild a secret.
        keys: {client: its public keys}.
        neighbours: {client: its neighbours}, of those that have sealed shares.
        total: sum of all masked codes that have arrived, of `lane_type(bits)`.
        alive: those whose they are.
    """

    round: int
    segment: int
    bits: int
    threshold: int
    keys: Mapping[int, bytes]
    neighbours: Mapping[int, Collection[int]]
    total: Lanes
    alive: set[int] = field(default_factory=set)

    def add(self, client: int, masked: Lanes) -> None:
        """Take in the masked codes of a client."""
        self.total += masked.astype(self.total.dtype)
        self.alive.add(client)

    def unmasked(self, revealed: Mapping[int, Mapping[int, bytes]]) -> Lanes:
        """Return the sum of codes, modulo 2**bits, given {client: {neighbour: the share that it reveals}}.

        Raises `ClientError` where shares of a secret are too few, or none of it.
        """
        own = [self._secret(client, revealed) for client in sorted(self.alive)]
        added: list[bytes] = []
        subtracted: list[bytes] = []
        for dead in sorted(self.neighbours.keys() - self.alive):
            living = [peer for peer in self.neighbours[dead] if peer in self.alive]
            if not living:
                continue
            private = self._secret(dead, revealed)
            if public_of(private) != self.keys[dead][:KEY_BYTES]:
                raise ClientError(f"shares of the key of client {dead} that are none")
            for peer in living:
                key = _mask_key(private, self.keys[peer], (self.round, self.segment), dead, peer)
                (subtracted if dead > peer else added).append(key)
        total = self.total.copy()
        mask(total, added, [*subtracted, *own])
        total &= total.dtype.type(2**self.bits - 1)
        return total

    def _secret(self, client: int, revealed: Mapping[int, Mapping[int, bytes]]) -> bytes:
        """A secret of a client, from the shares that its neighbours reveal."""
        known = {
            peer + 1: int.from_bytes(revealed[peer][client], "little")
            for peer in self.neighbours[client]
            if client in revealed.get(peer, {})
        }
        secret = rebuilt(known, self.threshold)
        if secret >= 2 ** (8 * KEY_BYTES):
            raise ClientError(f"shares of a secret of client {client} that are none")
        return secret.to_bytes(KEY_BYTES, "little")


def _mask_key(private: bytes, public: bytes, place: tuple[int, int], *pair: int) -> bytes:
    """The key of the mask of two clients, in a sum by its round and segment.

    `private` is the key of one, `public` both keys of the other.
    """
    return agreed(private, public[:KEY_BYTES], "mask", *place, *sorted(pair))


def _share(number: int) -> bytes:
    return number.to_bytes(SHARE_BYTES, "little")
