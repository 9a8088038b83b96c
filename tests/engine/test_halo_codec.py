"""Rows of nodes as arrays of a message, and back."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.contracts.values import HaloRows
from fedgraft.engine.halo_codec import HaloCodec, asked_arrays, bits_of, slots_of
from fedgraft.errors import WireError
from fedgraft.experiment.recipes.codec_sections import build_codec
from fedgraft.wire import Message
from fedgraft.wire.layouts import part_of
from helpers.node_runs import small
from helpers.toy_runs import toy


def plan_of(rows="identity", **changes):
    """Two hidden layers of 6 and 5 that travel through a codec."""
    experiment, _ = small(task__head="convolution", **changes)
    return replace(experiment.plan, rows=build_codec("rows", rows))


def g(seed=0):
    return np.random.default_rng(seed)


def rows_of(*slots, seed=0):
    """Random rows of so many layers."""
    return [
        HaloRows(np.array(slot, np.int64), g(seed).standard_normal((len(slot), width)).astype(np.float32))
        for slot, width in zip(slots, (6, 5), strict=True)
    ]


def equal(one, other):
    pairs = zip(one, other, strict=True)
    return all(np.array_equal(a.slot, b.slot) and np.array_equal(a.rows, b.rows) for a, b in pairs)


@pytest.mark.parametrize(
    ("slots", "bits"), [([], []), ([0], [1]), ([1, 3], [0b1010]), ([7], [128]), ([8], [0, 1]), ([0, 9, 17], [1, 2, 2])]
)
def test_a_bit_for_each_node_up_to_the_last_of_them(slots, bits):
    found = bits_of(np.array(slots, np.int64))
    assert (found.dtype, found.tolist()) == (np.uint8, bits)
    assert slots_of(found).tolist() == slots


@given(st.sets(st.integers(0, 300)))
def test_bits_tell_slots_exactly(slots):
    given_slots = np.array(sorted(slots), np.int64)
    assert slots_of(bits_of(given_slots)).tolist() == sorted(slots)


@settings(max_examples=30, deadline=None)
@given(one=st.sets(st.integers(0, 40)), two=st.sets(st.integers(0, 40)), seed=st.integers(0, 100))
def test_what_is_encoded_travels_and_comes_back(one, two, seed):
    plan, sent = PLAN, rows_of(sorted(one), sorted(two), seed=seed)
    codec = HaloCodec(plan)
    arrays = codec.encode(sent, g())
    message = wire.encode(Message("rows", 3, arrays=arrays), plan.coded_halo_layout)
    assert len(message) == wire.message_bytes() + wire.arrays_bytes(arrays, plan.coded_halo_layout)
    received = wire.decode(message, {"rows": plan.coded_halo_layout}).arrays
    assert equal(codec.decode(received), sent)
    assert equal(codec.read(codec.raw(sent)), sent)


PLAN = plan_of()


@pytest.mark.parametrize(
    ("rows", "precision"),
    [
        ("float16", 1e-3),
        ({"name": "quantized", "bits": 8}, 0.03),
        ([{"name": "quantized", "bits": 8}], 0.03),
    ],
)
def test_rows_go_through_their_codec_and_slots_do_not(rows, precision):
    plan, sent = plan_of(rows), rows_of([0, 4, 9], [4])
    codec = HaloCodec(plan)
    arrays = codec.encode(sent, g())
    wire.check(arrays, plan.coded_halo_layout)
    assert all(spec.name.startswith("halo.") for spec in plan.coded_halo_layout)
    found = codec.decode(arrays)
    for mine, its in zip(found, sent, strict=True):
        assert mine.slot.tolist() == its.slot.tolist()
        np.testing.assert_allclose(mine.rows, its.rows, atol=precision * 3)
    assert not equal(found, sent)
    plain = HaloCodec(PLAN).encode(sent, g())
    assert sum(a.nbytes for a in arrays.values()) < sum(a.nbytes for a in plain.values())
    assert equal(codec.read(codec.raw(sent)), sent), "for the experimenter they are exact"


@pytest.mark.parametrize("rows", ["identity", "float16", {"name": "quantized", "bits": 4}])
@pytest.mark.parametrize("nodes", [0, 1, 9, 40])
def test_no_rows_of_so_many_nodes_take_more_than_their_bound(rows, nodes):
    plan = plan_of(rows)
    codec, bound = HaloCodec(plan), plan.halo_bounds(nodes)
    most = wire.message_bytes(plan.coded_halo_layout, (), bound)
    for slots in (range(nodes), range(0, nodes, 2), range(0)):
        arrays = codec.encode(rows_of(list(slots), list(slots)), g())
        size = len(wire.encode(Message("rows", arrays=arrays), plan.coded_halo_layout))
        assert size <= most
    if rows == "identity" and nodes:
        assert (
            len(
                wire.encode(
                    Message("rows", arrays=codec.encode(rows_of(*[range(nodes)] * 2), g())), plan.coded_halo_layout
                )
            )
            == most
        )


def test_nothing_is_rows_of_no_node():
    codec = HaloCodec(PLAN)
    for arrays in (codec.raw(codec.nothing()), codec.raw([]), codec.encode([], g())):
        assert [(len(each.slot), each.rows.shape) for each in codec.decode(arrays)] == [(0, (0, 6)), (0, (0, 5))]


def test_without_halo_rows_nothing_travels():
    codec = HaloCodec(toy().plan)
    assert codec.encode([], g()) == {}
    assert codec.decode({}) == []
    assert codec.nothing() == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"halo.slots.0": np.array([1], np.uint8)}, "2 rows for 1 nodes"),
        ({"halo.rows.1": np.zeros((3, 5), np.float32)}, "3 rows for 1 nodes"),
        ({"halo.rows.1": np.full((1, 5), np.nan, np.float32)}, "a row is not finite"),
        ({"halo.rows.0": np.full((2, 6), np.inf, np.float32)}, "a row is not finite"),
    ],
)
def test_rows_that_nobody_can_have_pushed_are_refused(change, reason):
    arrays = HaloCodec(PLAN).raw(rows_of([0, 4], [4]))
    with pytest.raises(WireError, match=reason):
        HaloCodec(PLAN).decode({**arrays, **change})


def test_which_rows_are_asked_for():
    plan = plan_of(exchange__pull="asked")
    assert [spec.name for spec in plan.asked_layout] == ["halo.asked.0", "halo.asked.1"]
    arrays = asked_arrays([np.array([1, 9]), np.array([], np.int64)], plan.asked_layout)
    wire.check(arrays, plan.asked_layout)
    assert [slots_of(array).tolist() for array in arrays.values()] == [[1, 9], []]
    assert not PLAN.asked_layout.specs, "who is sent what changed asks for nothing"
    assert asked_arrays((), PLAN.asked_layout) == {}
    both = {**arrays, **HaloCodec(plan).raw([])}
    assert part_of(both, plan.asked_layout).keys() == arrays.keys()
