"""Messages survive the wire; nothing else gets through, and nothing takes more memory than it may."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedgraft import wire
from fedgraft.errors import WireError
from fedgraft.wire import Message
from fedgraft.wire.buffers import DTYPES
from fedgraft.wire.layouts import VARIABLE, Layout, Spec
from fedgraft.wire.messages import DETAILS
from helpers.wire_examples import LAYOUT, NAMES, example, peak_bytes, same


def test_message_round_trip():
    message = example()
    blob = wire.encode(message, LAYOUT, NAMES)
    again = wire.decode(blob, LAYOUT, NAMES, limit=len(blob))
    assert (again.kind, again.round, again.progress, again.text) == ("train", 7, 513, "")
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


@pytest.mark.parametrize("kind", wire.KINDS)
def test_two_bytes_beside_the_kind_hold_its_detail_and_are_0_in_other_kinds(kind):
    detail = DETAILS.get(kind)
    blob = wire.encode(Message(kind, 3, **({detail: 513} if detail else {})))
    assert blob[6:8] == ((513).to_bytes(2, "little") if detail else bytes(2))
    again = wire.decode(blob)
    found = {name: getattr(again, name) for name in ("progress", "segment", "layer")}
    assert found == {"progress": 0, "segment": 0, "layer": 0, **({detail: 513} if detail else {})}
    if detail is None:
        with pytest.raises(WireError, match=f"kind {kind!r} has no use for the number 512"):
            wire.decode(_patch(blob, 7, 2))


def test_details_by_kind():
    progress = dict.fromkeys(("train", "alone", "trial", "evaluate", "measure"), "progress")
    segments = dict.fromkeys(("rows", "hop", "keys", "shares", "confirm", "unmask"), "segment")
    assert {**progress, **segments, "relay": "layer"} == DETAILS


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
        peak, error = peak_bytes(wire.decode, head + struct.pack("<4I", *dims), layout)
        assert error is not None
        assert peak < 20_000


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message("training"), "must be one of hello, statistics"),
        (Message("train", round=2**32), "round must fit into 32 bits"),
        (Message("hello", round=-1), "round must fit into 32 bits; got -1"),
        (Message("train", progress=-1), "progress must fit into 16 bits; got -1"),
        (Message("rows", segment=2**16), "segment must fit into 16 bits; got 65536"),
        (Message("train", layer=1), "'train' has no layer"),
        (Message("rows", layer=1, progress=2), "'rows' has no progress, no layer"),
        (Message("probe", progress=1), "'probe' has no progress"),
        (Message("error", segment=1, text="no"), "'error' has no segment"),
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
