"""Large bytes between processes: written once, whole at the other end, and no file is left open."""

import os
from multiprocessing import Pipe

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.runtimes.workers import shared_memory
from fedgraft.runtimes.workers.shared_memory import LEAST, SharedBlock, bytes_of, receive, send, shared, view_of

if not hasattr(os, "memfd_create"):
    pytest.skip("there are no blocks on this system", allow_module_level=True)

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
    send(ours, 3, SharedBlock.of([b"ab", b"", memoryview(b"cde")]), None, "four", SharedBlock.of([LARGE]))
    number, first, nothing, text, second = receive(theirs)
    assert (number, nothing, text) == (3, None, "four")
    assert (bytes_of(first), bytes_of(second)) == (b"abcde", LARGE)
    assert second.view.readonly


def test_what_was_sent_stays_and_can_be_sent_again_by_either_end(pipe):
    ours, theirs = pipe
    block = SharedBlock.of([b"head", LARGE])
    for _ in range(2):
        send(ours, block)
        (got,) = receive(theirs)
        assert bytes_of(got) == bytes_of(block) == b"head" + LARGE
        assert got.start == block.start, "arrays in it are as well aligned"
    send(theirs, got)
    assert bytes_of(receive(ours)[0]) == b"head" + LARGE


def test_no_file_is_left_open(pipe):
    ours, theirs = pipe
    before = files()
    for _ in range(3):
        block = SharedBlock.of([LARGE])
        send(ours, block)
        (got,) = receive(theirs)
    held = files()
    del block, got
    assert (files(), held) == (before, before + 2), "one at each end while they live"
    SharedBlock.of([b"never sent"])
    assert files() == before


def test_arrays_of_a_packed_tree_are_read_where_they_are():
    tree = {"note": "odd", "rows": np.arange(LEAST, dtype=np.float32)}
    block = shared(wire.pieces(tree))
    assert isinstance(block, SharedBlock)
    rows = wire.unpack(block.view, views=True)["rows"]
    assert rows.tobytes() == tree["rows"].tobytes()
    assert not rows.flags.owndata, "copied if it were not aligned"
    assert bytes_of(block) == wire.pack(tree)


def test_little_goes_as_bytes():
    small = LARGE[:-1]
    assert shared([small]) is small
    assert shared([b"a", memoryview(b"bc")]) == b"abc"
    assert (bytes_of(small), view_of(small)) == (small, small)
    assert isinstance(shared([small, b"x"]), SharedBlock)


def test_so_does_what_finds_no_file_or_no_such_memory(monkeypatch):
    def full(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(shared_memory.os, "memfd_create", full)
    assert shared([LARGE]) is LARGE
    monkeypatch.delattr(shared_memory.os, "memfd_create")
    assert shared([LARGE]) is LARGE


def test_a_file_that_cannot_be_written_is_closed(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    before = files()
    monkeypatch.setattr(shared_memory.os, "write", full)
    assert shared([LARGE, b"tail"]) == LARGE + b"tail"
    assert files() == before


def test_a_file_that_cannot_be_mapped_is_closed_once(monkeypatch):
    def full(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    before, closed, close = files(), [], os.close
    monkeypatch.setattr(shared_memory.mmap, "mmap", full)
    monkeypatch.setattr(shared_memory.os, "close", lambda file: closed.append(file) or close(file))
    assert shared([LARGE]) is LARGE
    assert (files(), len(closed)) == (before, 1)


def test_an_end_that_dies_before_its_parcel_is_gone(pipe):
    ours, theirs = pipe
    ours.send((shared_memory._Announced(0, 10),))
    ours.close()
    with pytest.raises((EOFError, OSError)):
        receive(theirs)


def test_a_message_cut_short_is_the_end_of_the_other_one():
    ours, theirs = Pipe()
    send(ours, b"reply" * 1000, None, 7)
    whole = os.read(theirs.fileno(), 1 << 20)
    for cut in (0, 3, 4, 50, len(whole) - 1):
        ours, theirs = Pipe()
        os.write(ours.fileno(), whole[:cut])
        ours.close()
        with pytest.raises((EOFError, OSError)):
            receive(theirs)
    ours, theirs = Pipe()
    ours.send((shared_memory._Announced(0, LEAST),))  # and no file behind it
    ours.close()
    with pytest.raises((EOFError, OSError)):
        receive(theirs)


def test_too_little_room_of_its_own_is_not_the_end_of_the_other_one(pipe, monkeypatch):
    ours, theirs = pipe

    def full(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    block = SharedBlock.of([LARGE])
    send(ours, block)
    with monkeypatch.context() as patch:
        patch.setattr(shared_memory.mmap, "mmap", full)
        with pytest.raises(MemoryError, match=r"^no room .*: Cannot allocate memory$"):
            receive(theirs)
    monkeypatch.setattr(os, "memfd_create", full)
    with pytest.raises(MemoryError, match=r"^no room .*: Cannot allocate memory$"):
        send(ours, block)
