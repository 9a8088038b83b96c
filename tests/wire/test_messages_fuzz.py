"""Bytes with mistakes in them are decoded or refused, and nothing else happens."""

import struct
import sys

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.errors import WireError
from fedgraft.wire import Message
from helpers.wire_examples import LAYOUT, NAMES, example, extension, tree_bytes

MUTATIONS = 100_000


def _mutations(seeds, count, g):
    """Bit flips, bytes, header edits, truncations, splices, insertions and noise."""
    for _ in range(count):
        blob = bytearray(seeds[int(g.random() * len(seeds))])
        for _ in range(1 + int(g.random() * 3)):
            what, place = int(g.random() * 8), int(g.random() * (len(blob) + 1))
            if what == 0 and place < len(blob):
                blob[place] ^= 1 << int(g.random() * 8)
            elif what == 1 and place < len(blob):
                blob[place] = int(g.random() * 256)
            elif what == 2 and blob:
                blob[int(g.random() * min(len(blob), 40))] = (0, 1, 2, 127, 128, 255)[int(g.random() * 6)]
            elif what == 3:
                del blob[place:]
            elif what == 4:
                other = seeds[int(g.random() * len(seeds))]
                blob[place:] = other[int(g.random() * len(other)) :]
            elif what == 5:
                blob[place:place] = g.bytes(1 + int(g.random() * 8))
            elif what == 6 and len(blob) >= 4:
                at = int(g.random() * (len(blob) - 3))
                blob[at : at + 4] = (b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\0\0\0\0")[int(g.random() * 3)]
            elif what == 7:
                del blob[place : place + int(g.random() * 8)]
        if g.random() < 0.02:
            blob = bytearray(g.bytes(int(g.random() * 60)))
        yield bytes(blob)


def test_mutated_bytes_decode_or_raise_wire_error():
    g = np.random.default_rng(20240521)
    messages = [
        wire.encode(example(), LAYOUT, NAMES),
        wire.encode(example(rows=0), LAYOUT, NAMES),
        wire.encode(Message("hello")),
        wire.encode(Message("error", text="Größe")),
    ]
    packed = [
        wire.pack(tree)
        for tree in (
            None,
            [1, -1, 2**64 - 1, 0.5, True, "Größe", b"\xff"],
            {"a": {"b": [np.arange(3), np.zeros((2, 0)), np.array(True)]}, "c": np.ones((2, 2), np.float16)},
            [[[[]]], {"": {}}, np.zeros(5, bool)],
        )
    ]
    outcomes = {"value": 0, "error": 0}
    limit = 1 << 20
    for number, blob in enumerate(_mutations(messages + packed, MUTATIONS, g)):
        is_tree = len(blob) > 3 and blob[3] == 0
        try:
            if is_tree != (number % 16 == 0):
                wire.unpack(blob, limit)
            else:
                wire.decode(blob, LAYOUT, NAMES, limit)
                assert 20 <= wire.header_bytes(blob) <= len(blob)
        except WireError:
            outcomes["error"] += 1
        else:
            outcomes["value"] += 1
    assert min(outcomes.values()) > MUTATIONS // 50


def test_header_bytes_of_anything():
    g = np.random.default_rng(1)
    for blob in _mutations([wire.encode(example(), LAYOUT, NAMES)], 5_000, g):
        try:
            assert wire.header_bytes(blob) <= len(blob)
        except WireError:
            continue


def test_check():
    arrays = example().arrays
    wire.check(arrays, LAYOUT)
    with pytest.raises(WireError, match="arrays"):
        wire.check({}, LAYOUT)
    with pytest.raises(WireError, match="'rows' is int32"):
        wire.check({**arrays, "rows": arrays["rows"].astype(np.int32)}, LAYOUT)


def test_recursion_is_no_way_out():
    deep = extension(2, struct.pack("<I", 1)) + b"\xa1a"
    for depth in (63, 64, 65, sys.getrecursionlimit(), 50_000):
        blob = tree_bytes(deep * depth + b"\xc0")
        if depth <= wire.MAX_DEPTH:
            wire.unpack(blob)
        else:
            with pytest.raises(WireError):
                wire.unpack(blob)
