"""Trees and messages whose bytes are others: read or refused, in bounded memory and time."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from attacks.mutations import bytes_changed, items_changed, message_changed, one_of, tree
from attacks.outcomes import Outcome, outcome
from attacks.small_runs import RECIPES, conversation
from fedgraft import wire
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.errors import WireError

LIMIT = 1 << 20
BESIDE = 16_384
"""Bytes that reading a message may take beside the message twice: Python's own objects, and an error's text."""


def trees(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """`wire.unpack` of packed trees, with mistakes in bytes and in items of the header."""
    while True:
        seeds = [wire.pack(tree(g)) for _ in range(8)]
        for _ in range(64):
            blob = items_changed(one_of(seeds, g), g) if g.random() < 0.6 else bytes_changed(seeds, g)
            yield outcome(partial(_unpacked, blob), (WireError,), LIMIT)


def _unpacked(blob: bytes) -> str:
    found = wire.unpack(blob, LIMIT)
    again = wire.pack(found)
    return "" if wire.pack(wire.unpack(again, LIMIT)) == again else "a tree that packs to other bytes"


def messages(g: np.random.Generator, folder: Path) -> Iterator[Outcome]:
    """`wire.decode` and its kin of requests and replies of whole runs."""
    while True:
        for name in RECIPES:
            said = conversation(name)
            plan = said.plan
            requests, replies = [*said.heard.requests, *said.heard.scored], said.heard.replies
            sides = [
                (requests, Protocol.of(plan).request_layouts, Protocol.of(plan).request_names),
                (replies, Protocol.of(plan).reply_layouts, said.reply_names),
            ]
            for _ in range(200):
                seeds, layouts, known = sides[int(g.integers(2))]
                blob = message_changed(one_of(seeds, g), seeds, layouts, known, g)
                yield outcome(partial(_decoded, blob, layouts, known), (WireError,), 2 * len(blob) + BESIDE)


def _decoded(blob: bytes, layouts: object, names: object) -> str:
    header, (kind, _, _) = wire.header_bytes(blob), wire.place_of(blob)
    message = wire.decode(blob, layouts, names, LIMIT * 64)  # type: ignore[arg-type]
    return "" if kind == message.kind == wire.kind_of(blob) and header <= len(blob) else "it is read in two ways"
