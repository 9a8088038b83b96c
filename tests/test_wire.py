"""Trees and messages survive the wire; nothing else gets through, and nothing takes more memory than it may."""

import math
import struct
import sys
import tracemalloc

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedgraft import wire
from fedgraft.buffers import DTYPES
from fedgraft.errors import WireError
from fedgraft.types import VARIABLE, Layout, Spec
from fedgraft.wire import Message


def same(a, b):
    """Equal in type, order and every bit."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a == b


arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8)
)
trees = st.recursive(
    scalars | arrays,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)

LAYOUT = Layout(
    (
        Spec("weight", "float32", (3, 2)),
        Spec("rows", "int64", (VARIABLE,)),
        Spec("mask", "bool", (4,)),
        Spec("values", "float16", (VARIABLE, 2)),
        Spec("step", "float64", ()),
    )
)
NAMES = ("loss", "loss_sq", "seconds")


def example(rows=5):
    g = np.random.default_rng(0)
    return Message(
        "train",
        round=7,
        report={"loss": 0.5, "loss_sq": 0.25, "seconds": 2.0},
        arrays={
            "weight": g.standard_normal((3, 2)).astype(np.float32),
            "rows": np.arange(rows),
            "mask": np.array([True, False, True, True]),
            "values": g.standard_normal((rows, 2)).astype(np.float16),
            "step": np.array(0.125),
        },
        flags=513,
    )


# --- trees ------------------------------------------------------------------------------------------------------------


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
        wire.unpack(_tree(deep))


def _tree(header, buffers=b""):
    return struct.pack("<2sBBI", b"fg", 1, 0, len(header)) + header + buffers


def _ext(code, data):
    return msgpack.packb(msgpack.ExtType(code, data))


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"", "at least 8 bytes"),
        (b"PK\x03\x04" + bytes(8), "Not bytes of fedgraft"),
        (b"fg\x02\x00" + bytes(8), "Version 2"),
        (b"fg\x01\x01" + bytes(8), "Found a message where a tree"),
        (b"fg\x01\x09" + bytes(8), "Found an unknown form"),
        (b"fg\x01\x00\xff\xff\xff\xff", "header of 4294967295 bytes is declared, but 0"),
        (_tree(b""), "ends within the tree"),
        (_tree(b"\x01\x01"), "goes on after"),
        (_tree(b"\x01", b"x"), "1 bytes too many"),
        (_tree(b"\xcd\x01"), "ends within a value"),
        (_tree(b"\xc1"), "not msgpack"),
        (_tree(b"\xa1\xff"), "not msgpack"),
        (_tree(b"\x90"), "holds no list"),
        (_tree(b"\x91\x01"), "not msgpack"),
        (_tree(b"\xdd\xff\xff\xff\xff"), "not msgpack"),
        (_tree(b"\x80"), "holds no dict"),
        (_tree(_ext(9, b"abcd")), "holds no ExtType"),
        (_tree(b"\xd6\xffabcd"), "holds no Timestamp"),
        (_tree(b"\xd6\xf0abcd"), "not msgpack"),
        (_tree(_ext(1, b"abc")), "without a proper count"),
        (_tree(_ext(1, b"\xff\xff\xff\xff")), "ends within the tree"),
        (_tree(_ext(2, b"\x01\0\0\0") + b"\x01\x01"), "Keys must be distinct texts; got 1"),
        (_tree(_ext(2, b"\x02\0\0\0") + b"\xa1a\x01\xa1a\x01"), "distinct texts; got 'a'"),
        (_tree(_ext(3, b"")), "proper type and shape"),
        (_tree(_ext(3, b"\x63")), "proper type and shape"),
        (_tree(_ext(3, b"\x01\x01\0\0")), "proper type and shape"),
        (_tree(_ext(3, b"\x01" + bytes(4 * 33))), "not msgpack"),
        (_tree(_ext(3, b"\x0b\xff\xff\xff\xff\xff\xff\xff\xff")), "needs 147573952520956936200 bytes, but 0 are left"),
        (_tree(_ext(3, b"\x0b" + b"\xff\xff\xff\xff" * 2 + bytes(4))), "No array has the shape"),
        (_tree(_ext(3, b"\x00\x01\0\0\0"), b"\x02"), "bools"),
    ],
)
def test_impossible_trees(blob, message):
    with pytest.raises(WireError, match=message):
        wire.unpack(blob)


def _peak(function, *arguments):
    """Most bytes that a call held beside what was there before; the error it raised, if any."""
    error = None
    tracemalloc.start()
    try:
        function(*arguments)
    except WireError as caught:
        error = caught
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, error


def test_a_tiny_blob_allocates_little_whatever_it_declares():
    for blob in (
        _tree(_ext(3, b"\x0b" + struct.pack("<II", 2**16, 2**15))),
        _tree(_ext(1, b"\xff\xff\xff\xff")),
        _tree(b"\xdd\xff\xff\xff\xff" * 1000),
        _tree(b"\xdb\xff\xff\xff\xff"),
        _tree(b"\xc6\xff\xff\xff\xff"),
        b"fg\x01\x00\xff\xff\xff\xff",
    ):
        peak, error = _peak(wire.unpack, blob)
        assert error is not None
        assert peak < 100_000


@pytest.mark.parametrize(
    "items",
    [
        _ext(1, bytes(4)),
        _ext(2, bytes(4)),
        _ext(1, struct.pack("<I", 1)) + b"\xc0",
        _ext(2, struct.pack("<I", 1)) + b"\xa2ab\xc0",
        _ext(2, struct.pack("<I", 1)) + b"\xa2ab" + _ext(2, struct.pack("<I", 1)) + b"\xa2ac\xe0",
        _ext(3, b"\x01" + struct.pack("<I", 0)),
        b"\xe0",
        b"\xcb" + struct.pack(">d", 0.1),
        msgpack.packb("\U0001f600" + "a" * 1000),
        msgpack.packb(b"a" * 1000),
    ],
)
def test_a_value_never_takes_more_than_the_limit(items):
    limit, count = 4_000_000, 20_000
    blob = _tree(_ext(1, struct.pack("<I", count)) + items * count)[:limit]
    blob = _tree(blob[8:])
    peak, error = _peak(wire.unpack, blob, limit)
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


# --- messages ---------------------------------------------------------------------------------------------------------


def test_message_round_trip():
    message = example()
    blob = wire.encode(message, LAYOUT, NAMES)
    again = wire.decode(blob, LAYOUT, NAMES, limit=len(blob))
    assert (again.kind, again.round, again.flags, again.text) == ("train", 7, 513, "")
    assert dict(again.report) == dict(message.report)
    assert same(again.arrays, message.arrays)
    payload = 3 * 2 * 4 + (4 + 5 * 8) + 4 + (4 + 5 * 2 * 2) + 8
    assert wire.header_bytes(blob) == 20 + 3 * 4
    assert len(blob) == wire.header_bytes(blob) + payload
    assert wire.encode(again, LAYOUT, NAMES) == blob


def test_message_by_hand():
    layout = Layout((Spec("w", "float32", (VARIABLE,)),))
    blob = wire.encode(Message("evaluate", 3, {"loss": 0.5}, {"w": np.array([1, 2], np.float32)}), layout, ("loss",))
    head = b"fg" + bytes([1, 1, 5, 1]) + bytes(2) + bytes([3, 0, 0, 0]) + layout.digest
    assert blob == head + struct.pack("<f", 0.5) + struct.pack("<I", 2) + struct.pack("<2f", 1, 2)


@given(
    st.lists(
        st.tuples(st.sampled_from(DTYPES), st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=3)),
        max_size=4,
    ),
    st.lists(st.floats(width=32), max_size=6),
    st.integers(0, 2**32 - 1),
    st.data(),
)
@settings(max_examples=100, deadline=None)
def test_any_layout(specs, report, round, data):
    names = tuple(f"report {i}" for i in range(len(report)))
    arrays = {
        str(i): data.draw(hnp.arrays(dtype, tuple(dim for dim, _ in dims))) for i, (dtype, dims) in enumerate(specs)
    }
    layout = Layout(
        tuple(Spec(str(i), t, tuple(VARIABLE if v else d for d, v in dims)) for i, (t, dims) in enumerate(specs))
    )
    message = Message("train", round, dict(zip(names, report, strict=True)), arrays)
    blob = wire.encode(message, layout, names)
    again = wire.decode(blob, layout, names, len(blob))
    assert same(again.arrays, arrays)
    assert same(list(again.report.values()), report) or any(map(math.isnan, report))
    assert again.round == round
    assert len(blob) == wire.message_bytes(layout, names, Layout.of(arrays))
    assert wire.header_bytes(blob) == wire.message_bytes(None, names) <= 64
    assert all(not array.flags.writeable and array.flags.aligned for array in again.arrays.values())


def test_message_without_arrays_fits_any_layout():
    blob = wire.encode(Message("hello"))
    assert len(blob) == wire.message_bytes() == wire.header_bytes(blob) == 20
    assert wire.decode(blob).arrays is None
    assert wire.decode(blob, LAYOUT).arrays is None
    empty = wire.encode(Message("train", arrays={}), Layout(()))
    assert wire.decode(empty, Layout(())).arrays == {}


def test_layout_by_kind():
    layouts = {"train": LAYOUT, "evaluate": None}
    blob = wire.encode(example(), LAYOUT, NAMES)
    assert wire.decode(blob, layouts, NAMES).arrays is not None
    with pytest.raises(WireError, match="but none are expected"):
        wire.decode(blob, {"evaluate": LAYOUT}, NAMES)


def test_arrays_are_views_of_the_blob():
    layout = Layout((Spec("w", "float32", (1000,)), Spec("odd", "uint8", (1,)), Spec("v", "float32", (1000,))))
    arrays = {
        "w": np.ones(1000, np.float32), "odd": np.zeros(1, np.uint8), "v": np.ones(1000, np.float32)
    }  # fmt: skip
    blob = wire.encode(Message("train", arrays=arrays), layout)
    got = wire.decode(blob, layout).arrays
    assert np.shares_memory(got["w"], np.frombuffer(blob, np.uint8))
    assert got["v"].flags.aligned
    for array in got.values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_wide_reports_saturate_and_nan_travels():
    blob = wire.encode(Message("train", report={"a": 1e300, "b": math.nan, "c": 0.1}), None, ("a", "b", "c"))
    report = wire.decode(blob, None, ("a", "b", "c")).report
    assert report["a"] == math.inf
    assert math.isnan(report["b"])
    assert report["c"] == np.float32(0.1)


def test_errors_travel_whatever_is_expected():
    blob = wire.encode(Message("error", 4, text="no model: Größe 3"), LAYOUT, NAMES)
    for layout, names in ((LAYOUT, NAMES), (None, ())):
        got = wire.decode(blob, layout, names)
        assert (got.kind, got.round, got.text) == ("error", 4, "no model: Größe 3")
    assert wire.header_bytes(blob) == 20
    long = wire.encode(Message("error", text="a" + "ö" * 500))
    assert len(long) <= 20 + wire.TEXT_BYTES
    assert wire.decode(long).text == "a" + "ö" * 127
    assert wire.decode(wire.encode(Message("error", text="\ud800"))).text == "?"


def _patch(blob, place, byte):
    return blob[:place] + bytes([byte]) + blob[place + 1 :]


def test_impossible_messages():
    blob = wire.encode(example(), LAYOUT, NAMES)
    error = wire.encode(Message("error", text="no"))
    other = Layout((*LAYOUT.specs[:-1], Spec("step", "float64", (1,))))
    rows = 20 + 12 + 24
    for bad, layout, names, limit, reason in (
        (b"", LAYOUT, NAMES, 10**6, "at least 20 bytes"),
        (wire.pack(None) + bytes(20), LAYOUT, NAMES, 10**6, "Found a tree where a message"),
        (_patch(blob, 2, 9), LAYOUT, NAMES, 10**6, "Version 9"),
        (_patch(blob, 4, 99), LAYOUT, NAMES, 10**6, "No kind of message has the number 99"),
        (blob, LAYOUT, NAMES[:2], 10**6, "must hold 2 scalars; got 3"),
        (_patch(blob, 5, 255), LAYOUT, NAMES, 10**6, "ends within its report"),
        (blob, other, NAMES, 10**6, "but those of"),
        (blob, None, NAMES, 10**6, "none are expected"),
        (blob + b"x", LAYOUT, NAMES, 10**6, "1 bytes too many"),
        (blob[:-1], LAYOUT, NAMES, 10**6, "needs 8 bytes, but 7 are left"),
        (blob[: rows + 2], LAYOUT, NAMES, 10**6, "ends before array 'rows'"),
        (_patch(blob, rows + 3, 0xFF), LAYOUT, NAMES, 10**6, r"an array of shape \(4278190085,\) needs"),
        (blob, LAYOUT, NAMES, len(blob) - 1, "more than the limit"),
        (_patch(error, 5, 1), None, ("a",), 10**6, "report of 1 scalars"),
        (_patch(error, 12, 1), None, (), 10**6, "text of at most 256 bytes and nothing else"),
        (error + bytes(300), None, (), 10**6, "text of at most 256"),
        (error + b"\xff", None, (), 10**6, "not UTF-8"),
    ):
        with pytest.raises(WireError, match=f"(?i){reason}"):
            wire.decode(bad, layout, names, limit)
    with pytest.raises(WireError, match="at least"):
        wire.header_bytes(b"fg")


def test_a_tiny_message_that_declares_a_huge_array_allocates_nothing():
    layout = Layout((Spec("rows", "float64", (VARIABLE, VARIABLE)), Spec("none", "float64", (VARIABLE, VARIABLE, 0))))
    head = wire.encode(Message("train", arrays={"rows": np.zeros((0, 0)), "none": np.zeros((0, 0, 0))}), layout)[:20]
    for dims in ((2**32 - 1, 2**32 - 1, 0, 0), (2**16, 2**15, 0, 0), (0, 0, 2**32 - 1, 2**32 - 1)):
        peak, error = _peak(wire.decode, head + struct.pack("<4I", *dims), layout)
        assert error is not None
        assert peak < 20_000


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message("training"), "must be one of error, hello"),
        (Message("train", round=2**32), "32 bits"),
        (Message("train", flags=-1), "flags into 16"),
        (Message("train", report={"loss": 1.0}), r"must hold \[\]; got \['loss'\]"),
        (Message("train", text="hello"), "Only messages of kind 'error'"),
        (Message("error", arrays={}), "a text and nothing else"),
        (Message("train", arrays={}), "does not fit its layout: arrays"),
        (Message("train", arrays={"w": np.zeros(2)}), r"array 'w' is float64 \(2,\); expected float32 \(2,\)"),
        (Message("train", arrays={"w": np.zeros(3, np.float32)}), r"is float32 \(3,\); expected"),
    ],
)
def test_messages_that_do_not_fit(message, reason):
    with pytest.raises(ValueError, match=reason):
        wire.encode(message, Layout((Spec("w", "float32", (2,)),)))
    with pytest.raises(ValueError, match="needs their layout"):
        wire.encode(Message("train", arrays={}))


def test_message_bytes_needs_bounds_for_what_varies():
    assert wire.message_bytes(Layout((Spec("w", "float32", (3, 4)),)), ("a", "b")) == 20 + 8 + 48
    with pytest.raises(ValueError, match="'rows' has dimensions that vary"):
        wire.message_bytes(LAYOUT)
    bounds = Layout.of(example(rows=9).arrays)
    assert wire.message_bytes(LAYOUT, NAMES, bounds) == len(wire.encode(example(rows=9), LAYOUT, NAMES))


# --- fuzz -------------------------------------------------------------------------------------------------------------

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
    deep = _ext(2, struct.pack("<I", 1)) + b"\xa1a"
    for depth in (63, 64, 65, sys.getrecursionlimit(), 50_000):
        blob = _tree(deep * depth + b"\xc0")
        if depth <= wire.MAX_DEPTH:
            wire.unpack(blob)
        else:
            with pytest.raises(WireError):
                wire.unpack(blob)
