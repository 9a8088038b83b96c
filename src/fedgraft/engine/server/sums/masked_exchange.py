"""The exchanges around a masked sum: keys and shares before the order to train, shares that unmask the sum after it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

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
from fedgraft.engine.protocol import masking_kinds
from fedgraft.engine.protocol.masking_kinds import MaskLayouts
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.server.exchange import Exchange, Replies, Traffic, together
from fedgraft.secrets import neighbours
from fedgraft.secrets.masked_sum import Collector
from fedgraft.secrets.masks import lane_type
from fedgraft.secrets.sizes import BOX_BYTES, CONFIRM_BYTES, PUBLIC_BYTES, SIGNATURE_BYTES
from fedgraft.wire import TEXT_BYTES, Message, encode, message_bytes
from fedgraft.wire.layouts import Array, Arrays
from fedgraft.wire.packing import Codes


@dataclass(frozen=True)
class Masked:
    """What a cohort has agreed on before it trains.

    Args:
        round: its number.
        segment: which sum of it.
        threshold: shares that rebuild a secret.
        keys: {client: its public keys}.
        peers: {client that has sealed shares: its neighbours}, in the order of its shares.
        boxes: {client: {neighbour: what the client has sealed for it}}.
        before: the replies so far: who has failed, and all bytes.
    """

    round: int
    segment: int
    threshold: int
    keys: Mapping[int, bytes]
    peers: Mapping[int, list[int]]
    boxes: Mapping[int, Mapping[int, bytes]]
    before: Replies

    def order(self, client: int) -> Arrays:
        """Return what goes to a client with the order to train, or to score: what its neighbours have sealed for it."""
        peers = self.peers[client]
        boxes = [self.boxes[peer][client] if peer in self.boxes else bytes(BOX_BYTES) for peer in peers]
        return {PRESENT: _marks(peers, self.boxes), BOXES: _rows(boxes, BOX_BYTES)}

    def there(self, client: int) -> list[int]:
        """Return the neighbours of a client that have sealed shares."""
        return [peer for peer in self.peers[client] if peer in self.boxes]


class MaskedExchange:
    """Have a cohort agree on masks, and its sum unmasked.

    Args:
        plan: what both ends agreed on.
        exchange: sends requests.
        clients: how many there are in all.
    """

    def __init__(self, plan: Plan, exchange: Exchange, clients: int) -> None:
        self._plan, self._exchange, self._options, self._clients = plan, exchange, plan.secure_sum, clients

    @property
    def most_bytes(self) -> Traffic:
        """The most bytes of a client's messages for the masks of a sum."""
        peers = min(self._clients - 1, self._options.neighbours or self._most_degree)
        layouts = MaskLayouts(self._options.signed, max(0, peers))
        kinds = [row.name for row in masking_kinds.KINDS if row.asked(self._plan)]
        requests = [*map(layouts.request, kinds), layouts.encrypted]
        down = sum(message_bytes(layout, (), layout) for layout in requests)
        up = sum(message_bytes(layout, (), layout) for layout in map(layouts.reply, kinds))
        dims = 4 * 12  # of dimensions that only the sender knows
        return Traffic(down + dims + 3 * 4, up + dims)  # and of how many are in the sum, thrice

    def agreed(self, clients: list[int], round: int, segment: int) -> Masked:
        """Return what comes of two exchanges: public keys, and shares sealed for neighbours."""
        first = self._sent("keys", round, dict.fromkeys(clients, Message("keys", round, segment=segment)), 0)
        keys = {client: _bytes(message, KEYS) for client, message in sorted(first.messages.items())}
        if len(keys) < self._plan.collection.least:
            return Masked(round, segment, 0, keys, {}, {}, first)
        stays = self._plan.collection.staying(len(keys))
        k = neighbours.expected(len(keys), self._options.neighbours, stays)
        peers = neighbours.graph(list(keys), k, ((self._plan.seed << 32 | round) << 16) | segment)
        share = neighbours.threshold(k, stays)
        told: dict[int, Arrays] = {
            client: {PEERS: np.array(mine, np.uint32), KEYS: _rows([keys[peer] for peer in mine], PUBLIC_BYTES)}
            for client, mine in peers.items()
        }
        if self._options.signed:
            signatures = {client: _bytes(message, SIGNATURES) for client, message in first.messages.items()}
            for client, mine in peers.items():
                told[client][SIGNATURES] = _rows([signatures[peer] for peer in mine], SIGNATURE_BYTES)
        count = {COUNT: float(len(keys))}
        requests = {client: Message("shares", round, count, mine, segment=segment) for client, mine in told.items()}
        second = self._sent("shares", round, requests, k)
        found = {client: len(_array(message, BOXES)) for client, message in second.messages.items()}
        wrong = [client for client, count in found.items() if count != len(peers[client])]
        second = second.without(dict.fromkeys(wrong, "sealed shares for others than its neighbours"))
        boxes = {
            client: {peer: row.tobytes() for peer, row in zip(peers[client], _array(message, BOXES), strict=True)}
            for client, message in sorted(second.messages.items())
        }
        sealing = {client: peers[client] for client in boxes}
        return Masked(round, segment, share, keys, sealing, boxes, together(first, second))

    def unmasked(self, masked: Masked, codes: Mapping[int, Codes], bits: int) -> tuple[Codes, Replies]:
        """Return the sum of the codes that have arrived, {client: masked codes}, and the replies that unmasked it.

        Raises `ClientError` where there are too few shares.
        """
        there = {client: masked.there(client) for client in masked.peers}
        total = np.zeros(len(next(iter(codes.values()))), lane_type(bits))
        collector = Collector(masked.round, masked.segment, bits, masked.threshold, masked.keys, there, total)
        for client, each in codes.items():
            collector.add(client, each)
        told: dict[int, Arrays] = {client: {ALIVE: _marks(masked.peers[client], codes)} for client in codes}
        before = Replies()
        if self._options.signed:
            before = self._asked("confirm", masked, told, len(codes))
            confirmed = _confirmations(masked, before)
            told = {client: {**told[client], CONFIRMED: made} for client, made in confirmed.items()}
        replies = self._asked("unmask", masked, told, len(codes))
        revealed = {
            client: {peer: row.tobytes() for peer, row in zip(there[client], rows, strict=True)}
            for client, message in replies.messages.items()
            if len(rows := _array(message, SHARES)) == len(there[client])
        }
        return collector.unmasked(revealed).astype(np.uint64), together(before, replies)

    def _asked(self, kind: str, masked: Masked, told: Mapping[int, Arrays], count: int) -> Replies:
        """Send requests of a kind, {client: what it is told}; `count` clients are in the sum."""
        requests = {
            client: Message(kind, masked.round, {COUNT: float(count)}, arrays, segment=masked.segment)
            for client, arrays in told.items()
        }
        return self._sent(kind, masked.round, requests, max(map(len, masked.peers.values())))

    @property
    def _most_degree(self) -> int:
        """How many of so many clients or fewer: by formula it falls by two at most."""
        return neighbours.degree(max(3, self._clients), self._plan.collection.staying(max(3, self._clients))) + 2

    def _sent(self, kind: str, round: int, messages: Mapping[int, Message], peers: int) -> Replies:
        layout, names = (
            Protocol.of(self._plan).request_layouts[kind],
            Protocol.of(self._plan).request_names.get(kind, ()),
        )
        requests = {client: encode(message, layout, names) for client, message in messages.items()}
        bound = MaskLayouts(self._options.signed, peers).reply(kind)
        limit = max(message_bytes(Protocol.of(self._plan).reply_layouts[kind], (), bound), message_bytes() + TEXT_BYTES)
        return self._exchange.send(kind, round, requests, dict.fromkeys(requests, limit))


def _marks(peers: list[int], those: Mapping[int, object]) -> Array:
    """Which neighbours are among those, as bits."""
    return np.packbits([peer in those for peer in peers])


def _confirmations(masked: Masked, replies: Replies) -> dict[int, Array]:
    """{client that has confirmed: what its neighbours confirm to it, in their order; zeros of those that do not}."""
    confirmed = {
        peer: dict(zip(masked.peers[peer], _array(message, CONFIRMED), strict=False))
        for peer, message in replies.messages.items()
    }
    nothing = np.zeros(CONFIRM_BYTES, np.uint8)
    return {
        client: np.stack([confirmed.get(peer, {}).get(client, nothing) for peer in masked.peers[client]])
        for client in confirmed
    }


def _rows(contents: list[bytes], width: int) -> Array:
    return np.frombuffer(b"".join(contents), np.uint8).reshape(len(contents), width)


def _array(message: Message, name: str) -> Array:
    return (message.arrays or {})[name]


def _bytes(message: Message, name: str) -> bytes:
    return _array(message, name).tobytes()
