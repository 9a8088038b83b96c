"""Trees survive the wire; nothing else gets through, and nothing takes more memory than it may."""

import math
import struct

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings

from fedgraft import wire
from fedgraft.errors import WireError
from fedgraft.wire.buffers import DTYPES
from helpers.wire_examples import extension, peak_bytes, same, tree_bytes, trees


@given(trees)
@settings(max_examples=120, deadline=None)
def test_tree_round_trip(tree):
    blob = wire.pack(tree)
    again = wire.unpack(blob)
    assert same(tree, again)
    assert wire.pack(again) == blob


def test_tree_by_hand():
    dims = msgpack.packb(msgpack.ExtType(2, struct.pack("<I", 1))) + msgpack.packb("w")
    array = msgpack.packb(msgpack.ExtType(3, bytes([1, 2, 0, 0, 0])))
    blob = struct.pack("<2sBBI", b"fg", 1, 0, len(dims + array)) + dims + array + bytes([7, 9])
    assert wire.pack({"w": np.array([7, 9], np.uint8)}) == blob


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_from_any_memory_order(dtype):
    array = np.arange(24).reshape(4, 6).astype(dtype)
    for view in (array, array.T, array[::2, 1:], array[::-1], np.asfortranarray(array), array[:0], array[0, 0, None]):
        assert same(wire.unpack(wire.pack(view)), np.ascontiguousarray(view))
    big = array.astype(array.dtype.newbyteorder(">"))
    assert same(wire.unpack(wire.pack(big)), array)
    assert same(wire.unpack(wire.pack(np.array(1, dtype))), np.array(1, dtype))


def test_nan_keeps_its_payload():
    odd = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000123))[0]
    assert same(wire.unpack(wire.pack([odd, -0.0, math.inf])), [odd, -0.0, math.inf])


def test_unpacked_arrays_are_writable_and_their_own():
    blob = wire.pack([np.zeros(3)])
    array = wire.unpack(blob)[0]
    array += 1
    assert wire.unpack(blob)[0].tolist() == [0, 0, 0]


def test_numpy_scalars_become_pythons():
    got = wire.unpack(wire.pack([np.float32(0.5), np.float64(0.1), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True)]))
    assert same(got, [0.5, 0.1, -3, 2**64 - 1, True])


@pytest.mark.parametrize(
    ("tree", "error", "message"),
    [
        ({"a": [1, (2, 3)]}, TypeError, r"tree\['a'\]\[1\]: .*got tuple"),
        ({"a": {1, 2}}, TypeError, "got set"),
        ({1: "a"}, TypeError, "keys must be str; got 1"),
        ([np.array([1j])], TypeError, r"tree\[0\]: .*got complex128"),
        (np.array(["a"]), TypeError, "got str32"),
        (np.array([None]), TypeError, "got object"),
        (np.longdouble(1), TypeError, "got longdouble"),
        (np.ma.masked_array([1.0], [True]), TypeError, "got MaskedArray"),
        (bytearray(b"a"), TypeError, "got bytearray"),
        ([2**64], ValueError, r"tree\[0\]: an integer must fit into 64 bits; got 18446744073709551616"),
        ([-(2**63) - 1], ValueError, "64 bits"),
        ({"a": "\ud800"}, ValueError, r"tree\['a'\]: text must be valid Unicode"),
    ],
)
def test_what_no_tree_holds(tree, error, message):
    with pytest.raises(error, match=message):
        wire.pack(tree)


def test_depth():
    tree: object = 1
    for _ in range(wire.MAX_DEPTH):
        tree = [tree]
    assert wire.unpack(wire.pack(tree)) == tree
    with pytest.raises(ValueError, match="more than 64"):
        wire.pack([tree])
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(ValueError, match="more than 64"):
        wire.pack(circle)
    deep = msgpack.packb(msgpack.ExtType(1, struct.pack("<I", 1))) * 100_000
    with pytest.raises(WireError, match="More than 64"):
        wire.unpack(tree_bytes(deep))


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"", "at least 8 bytes"),
        (b"PK\x03\x04" + bytes(8), "Not bytes of fedgraft"),
        (b"fg\x02\x00" + bytes(8), "Version 2"),
        (b"fg\x01\x01" + bytes(8), "Found a message where a tree"),
        (b"fg\x01\x09" + bytes(8), "Found an unknown form"),
        (b"fg\x01\x00\xff\xff\xff\xff", "header of 4294967295 bytes is declared, but 0"),
        (tree_bytes(b""), "ends within the tree"),
        (tree_bytes(b"\x01\x01"), "goes on after"),
        (tree_bytes(b"\x01", b"x"), "1 bytes too many"),
        (tree_bytes(b"\xcd\x01"), "ends within a value"),
        (tree_bytes(b"\xc1"), "not msgpack"),
        (tree_bytes(b"\xa1\xff"), "not msgpack"),
        (tree_bytes(b"\x90"), "holds no list"),
        (tree_bytes(b"\x91\x01"), "not msgpack"),
        (tree_bytes(b"\xdd\xff\xff\xff\xff"), "not msgpack"),
        (tree_bytes(b"\x80"), "holds no dict"),
        (tree_bytes(extension(9, b"abcd")), "holds no ExtType"),
        (tree_bytes(b"\xd6\xffabcd"), "holds no Timestamp"),
        (tree_bytes(b"\xd6\xf0abcd"), "not msgpack"),
        (tree_bytes(extension(1, b"abc")), "without a proper count"),
        (tree_bytes(extension(1, b"\xff\xff\xff\xff")), "ends within the tree"),
        (tree_bytes(extension(2, b"\x01\0\0\0") + b"\x01\x01"), "Keys must be distinct texts; got 1"),
        (tree_bytes(extension(2, b"\x02\0\0\0") + b"\xa1a\x01\xa1a\x01"), "distinct texts; got 'a'"),
        (tree_bytes(extension(3, b"")), "proper type and shape"),
        (tree_bytes(extension(3, b"\x63")), "proper type and shape"),
        (tree_bytes(extension(3, b"\x01\x01\0\0")), "proper type and shape"),
        (tree_bytes(extension(3, b"\x01" + bytes(4 * 33))), "not msgpack"),
        (
            tree_bytes(extension(3, b"\x0b\xff\xff\xff\xff\xff\xff\xff\xff")),
            "needs 147573952520956936200 bytes, but 0 are",
        ),
        (tree_bytes(extension(3, b"\x0b" + b"\xff\xff\xff\xff" * 2 + bytes(4))), "No array has the shape"),
        (tree_bytes(extension(3, b"\x00\x01\0\0\0"), b"\x02"), "bools"),
    ],
)
def test_impossible_trees(blob, message):
    with pytest.raises(WireError, match=message):
        wire.unpack(blob)


@pytest.mark.parametrize(
    ("longer", "value"),
    [
        (b"\xcc\x05", 5),
        (b"\xd3" + struct.pack(">q", -3), -3),
        (b"\xca" + struct.pack(">f", 0.5), 0.5),
        (b"\xd9\x02ab", "ab"),
        (b"\xc6\x00\x00\x00\x01x", b"x"),
        (b"\xc7\x04\x01" + bytes(4), []),
    ],
)
def test_a_longer_form_is_the_same_value_and_is_packed_short(longer, value):
    found = wire.unpack(tree_bytes(longer))
    assert same(found, value)
    assert wire.pack(found) == wire.pack(value) != tree_bytes(longer)


def test_a_tiny_blob_allocates_little_whatever_it_declares():
    for blob in (
        tree_bytes(extension(3, b"\x0b" + struct.pack("<II", 2**16, 2**15))),
        tree_bytes(extension(1, b"\xff\xff\xff\xff")),
        tree_bytes(b"\xdd\xff\xff\xff\xff" * 1000),
        tree_bytes(b"\xdb\xff\xff\xff\xff"),
        tree_bytes(b"\xc6\xff\xff\xff\xff"),
        b"fg\x01\x00\xff\xff\xff\xff",
    ):
        peak, error = peak_bytes(wire.unpack, blob)
        assert error is not None
        assert peak < 100_000


@pytest.mark.parametrize(
    "items",
    [
        extension(1, bytes(4)),
        extension(2, bytes(4)),
        extension(1, struct.pack("<I", 1)) + b"\xc0",
        extension(2, struct.pack("<I", 1)) + b"\xa2ab\xc0",
        extension(2, struct.pack("<I", 1)) + b"\xa2ab" + extension(2, struct.pack("<I", 1)) + b"\xa2ac\xe0",
        extension(3, b"\x01" + struct.pack("<I", 0)),
        b"\xe0",
        b"\xcb" + struct.pack(">d", 0.1),
        msgpack.packb("\U0001f600" + "a" * 1000),
        msgpack.packb(b"a" * 1000),
    ],
)
def test_a_value_never_takes_more_than_the_limit(items):
    limit, count = 4_000_000, 20_000
    blob = tree_bytes(extension(1, struct.pack("<I", count)) + items * count)[:limit]
    blob = tree_bytes(blob[8:])
    peak, error = peak_bytes(wire.unpack, blob, limit)
    assert error is not None
    assert peak <= limit + 4096 * 256 + len(blob)


def test_limit():
    blob = wire.pack({"a": np.zeros(1000), "b": list(range(100))})
    wire.unpack(blob, limit=len(blob))
    with pytest.raises(WireError, match="more than the limit"):
        wire.unpack(blob, limit=len(blob) - 1)


def test_memoryviews_are_bytes_too():
    blob = wire.pack([1, np.arange(3)])
    assert same(wire.unpack(memoryview(b"xx" + blob)[2:]), [1, np.arange(3)])
    assert same(wire.unpack(bytearray(blob)), [1, np.arange(3)])


def test_arrays_can_be_views_that_nobody_writes_to():
    blob = wire.pack({"odd": np.zeros(3, np.uint8), "wide": np.arange(5.0)})
    found = wire.unpack(blob, views=True)
    assert same(found, wire.unpack(blob))
    with pytest.raises(ValueError, match="read-only"):
        found["odd"][0] = 1
    assert np.shares_memory(found["odd"], np.frombuffer(blob, np.uint8))
    assert all(array.flags.aligned for array in found.values())
