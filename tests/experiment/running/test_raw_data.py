"""What sending all data once would take: by hand, bounds, and what counts."""

import lzma
import pickle
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from fedgraft import wire
from fedgraft.contracts.data import Shards
from fedgraft.experiment.job import load
from fedgraft.experiment.running import raw_data
from fedgraft.experiment.running.raw_data import raw_data_bytes
from helpers.toy_runs import toy

HEADER = wire.message_bytes() + 1
"""Of a message, and how it is compressed."""
G = np.random.default_rng(1)


@dataclass(frozen=True, eq=False)
class Part:
    """A client's data."""

    name: str = "north"
    values: Any = None
    ids: Any = None
    more: Sequence[Any] = field(default_factory=list)


def size(*values):
    return raw_data_bytes([Part(values=value) for value in values])


def test_a_few_numbers_by_hand():
    numbers = np.array([3.0, 1.0, 250.0], np.float32)  # type, one dimension, its length, three bytes
    assert size(numbers) == HEADER + 1 + 1 + 1 + 3
    assert size(numbers.astype(np.int64)) == size(numbers)
    assert size(np.array([3, 1, 300])) == HEADER + 3 + 2 * 3
    assert size(np.array([3, -1, 120])) == HEADER + 3 + 3
    assert size(np.array([0.5, 0.25])) == HEADER + 3 + 2 * 2, "what 16 bits hold"
    assert size(np.array([0.1, 1 / 3], np.float32)) == HEADER + 3 + 2 * 4
    assert size(np.exp(np.array([1, 2]))) == HEADER + 3 + 2 * 8
    assert size(numbers, numbers) == 2 * size(numbers)
    assert size(7) == HEADER + 1 + 1 + 1, "a number has no dimension"


def test_zeros_and_ones_are_bits():
    ones = G.integers(0, 2, 80)
    assert size(ones) == HEADER + 1 + 1 + 1 + 10
    assert size(ones.astype(bool)) == size(ones.astype(np.float32)) == size(ones)


def test_names_do_not_count():
    assert raw_data_bytes([Part()]) == HEADER
    named = Part(name="a" * 100, ids=np.array(["x" * 40, "y"], object), more=["text", None, ("class",)])
    assert raw_data_bytes([named]) == HEADER
    assert raw_data_bytes([replace(named, ids=np.arange(50))]) == HEADER


def test_dense_and_sparse_cost_the_same_and_little():
    dense = (G.random((40, 500)) < 0.02).astype(np.float32)
    stored = int(dense.sum())
    assert size(dense) == size(sparse.csr_matrix(dense))
    assert size(dense) < 1.2 * stored + 40 + 60, "a byte for a gap, and one for a row's count"


def test_an_edge_that_goes_both_ways_counts_once():
    pairs = np.unique(G.integers(0, 60, (2, 300)), axis=1)
    pairs = pairs[:, pairs[0] != pairs[1]]
    both = np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1)
    half = both[:, both[0] < both[1]]
    assert size(half) <= size(both) < 1.1 * size(half)
    pointers = np.concatenate([[0], np.cumsum(np.bincount(both[0], minlength=60))])
    rows = raw_data_bytes([Part(more=[pointers, both[1]])])
    assert abs(rows - size(both)) <= 4, "a CSR is an edge list"


def test_what_all_clients_have_is_sent_once():
    catalogue = G.normal(size=(50, 20)).astype(np.float32)
    assert size(catalogue) > 3000
    assert size(catalogue, catalogue, catalogue) <= size(catalogue) + 2 * (HEADER + 1 + raw_data.SEEN_BYTES)
    assert size(catalogue, catalogue + 1) > 1.9 * size(catalogue)


LEAVES = st.one_of(
    hnp.arrays(st.sampled_from([np.int64, np.uint8, np.float32, np.float64, np.bool_]), hnp.array_shapes(min_side=0)),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.none(),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


@given(VALUES)
@settings(max_examples=150, deadline=None)
def test_it_is_never_more_than_the_pickled_shard_behind_a_header(value):
    shard = Part(values=value)
    assert HEADER <= raw_data_bytes([shard]) <= wire.message_bytes() + len(pickle.dumps(shard))


@pytest.mark.parametrize(
    ("recipe", "data"),
    [
        ("fedacs", {"data.name": "shops", "data.clients": 3, "data.count": 600}),
        ("fedais", {"data.name": "blocks", "data.nodes": 90, "data.clients": 3}),
        ("cefgl", {"data.name": "molecules", "data.clients": 3, "data.graphs": 20}),
        ("reputation_ucb", {"data.name": "catalogue", "data.clients": 3}),
        ("rafhgl", {"data.clients": 3}),
    ],
)
def test_shards_of_every_task_are_less_than_pickled_and_compressed(recipe, data):
    shards = load(recipe, data).data.load(1)
    every = list(shards)
    assert 0 < raw_data_bytes(every) < 0.9 * sum(len(lzma.compress(pickle.dumps(each))) for each in every)
    assert raw_data_bytes(shards) == raw_data_bytes(every)


def test_of_much_only_zlib_is_asked(monkeypatch):
    values = np.repeat(np.arange(200), 20)
    content = raw_data._content(Part(values=values), set())
    monkeypatch.setattr(raw_data, "MOST_LZMA", 10)
    monkeypatch.setattr(raw_data.lzma, "compress", None)
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    assert size(values) == HEADER + len(packed.compress(content) + packed.flush())


def test_it_is_counted_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shards = toy().data.load(1)
    first = raw_data.raw_data(shards)
    assert first == raw_data_bytes(shards)
    monkeypatch.setattr(raw_data, "raw_data_bytes", None)
    assert raw_data.raw_data(shards) == first
    with pytest.raises(TypeError):
        raw_data.raw_data(toy().data.load(2))


def test_of_many_clients_whose_data_are_made_when_used_it_is_not_known(monkeypatch):
    made = load("fedacs", {"data.name": "shops", "data.clients": 4}).data.load(1)
    assert isinstance(made, Shards)
    assert raw_data_bytes(made) > 0
    monkeypatch.setattr(Shards, "KEPT", 3)
    assert raw_data.raw_data(made) is raw_data_bytes(made) is None
