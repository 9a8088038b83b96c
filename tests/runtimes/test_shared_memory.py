"""Large bytes between processes: written once, whole at the other end, and no file is left open."""

import os
from multiprocessing import Pipe

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.runtimes import shared_memory
from fedgraft.runtimes.shared_memory import LEAST, Parcel, bytes_of, lent, post, take, view_of

if not hasattr(os, "memfd_create"):
    pytest.skip("there are no parcels on this system", allow_module_level=True)

LARGE = np.random.default_rng(0).bytes(LEAST)


@pytest.fixture
def pipe():
    ours, theirs = Pipe()
    yield ours, theirs
    ours.close()
    theirs.close()


def files():
    return len(os.listdir("/proc/self/fd"))


def test_values_arrive_as_they_were_sent(pipe):
    ours, theirs = pipe
    post(ours, 3, Parcel.of([b"ab", b"", memoryview(b"cde")]), None, "four", Parcel.of([LARGE]))
    number, first, nothing, text, second = take(theirs)
    assert (number, nothing, text) == (3, None, "four")
    assert (bytes_of(first), bytes_of(second)) == (b"abcde", LARGE)
    assert second.view.readonly


def test_what_was_sent_stays_and_can_be_sent_again_by_either_end(pipe):
    ours, theirs = pipe
    parcel = Parcel.of([b"head", LARGE])
    for _ in range(2):
        post(ours, parcel)
        (got,) = take(theirs)
        assert bytes_of(got) == bytes_of(parcel) == b"head" + LARGE
        assert got.start == parcel.start, "arrays in it are as well aligned"
    post(theirs, got)
    assert bytes_of(take(ours)[0]) == b"head" + LARGE


def test_no_file_is_left_open(pipe):
    ours, theirs = pipe
    before = files()
    for _ in range(3):
        parcel = Parcel.of([LARGE])
        post(ours, parcel)
        (got,) = take(theirs)
    held = files()
    del parcel, got
    assert (files(), held) == (before, before + 2), "one at each end while they live"
    Parcel.of([b"never sent"])
    assert files() == before


def test_arrays_of_a_packed_tree_are_read_where_they_are():
    tree = {"note": "odd", "rows": np.arange(LEAST, dtype=np.float32)}
    parcel = lent(wire.pieces(tree))
    assert isinstance(parcel, Parcel)
    rows = wire.unpack(parcel.view, views=True)["rows"]
    assert rows.tobytes() == tree["rows"].tobytes()
    assert not rows.flags.owndata, "copied if it were not aligned"
    assert bytes_of(parcel) == wire.pack(tree)


def test_little_goes_as_bytes():
    small = LARGE[:-1]
    assert lent([small]) is small
    assert lent([b"a", memoryview(b"bc")]) == b"abc"
    assert (bytes_of(small), view_of(small)) == (small, small)
    assert isinstance(lent([small, b"x"]), Parcel)


def test_so_does_what_finds_no_file_or_no_such_memory(monkeypatch):
    def full(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(shared_memory.os, "memfd_create", full)
    assert lent([LARGE]) is LARGE
    monkeypatch.delattr(shared_memory.os, "memfd_create")
    assert lent([LARGE]) is LARGE


def test_a_file_that_cannot_be_written_is_closed(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    before = files()
    monkeypatch.setattr(shared_memory.os, "write", full)
    assert lent([LARGE, b"tail"]) == LARGE + b"tail"
    assert files() == before


def test_a_file_that_cannot_be_mapped_is_closed_once(monkeypatch):
    def full(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    before, closed, close = files(), [], os.close
    monkeypatch.setattr(shared_memory.mmap, "mmap", full)
    monkeypatch.setattr(shared_memory.os, "close", lambda file: closed.append(file) or close(file))
    assert lent([LARGE]) is LARGE
    assert (files(), len(closed)) == (before, 1)


def test_an_end_that_dies_before_its_parcel_is_gone(pipe):
    ours, theirs = pipe
    ours.send((shared_memory._Announced(0, 10),))
    ours.close()
    with pytest.raises((EOFError, OSError)):
        take(theirs)
