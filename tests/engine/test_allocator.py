"""Freed memory stays, where the C library can be told."""

import ctypes

import pytest

from fedgraft.engine import allocator


@pytest.fixture(autouse=True)
def asked_anew():
    allocator.keep_freed.cache_clear()
    yield
    allocator.keep_freed.cache_clear()


def test_the_c_library_is_asked_once(monkeypatch):
    asked = []

    class Library:
        def mallopt(self, name, value):
            asked.append((name, value))
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    assert allocator.keep_freed()
    assert allocator.keep_freed()
    assert asked == [(-1, allocator.KEPT_BYTES), (-4, allocator.MAPPED)]


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not allocator.keep_freed()


def test_memory_is_given_back_where_much_of_it_lies_idle(monkeypatch):
    trimmed = []

    class Library:
        def __init__(self):
            self.mallinfo2 = lambda: allocator._Heap(fordblks=100)

        def malloc_trim(self, pad):
            trimmed.append(pad)
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    assert not allocator.give_back(101)
    assert not trimmed
    assert allocator.give_back(100)
    assert trimmed == [0]


def test_another_c_library_gives_nothing_back(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not allocator.give_back(0)


def test_the_heap_is_read_as_this_machine_has_it():
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("the C library is not glibc 2.33 or newer")
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = allocator._Heap
    heap = library.mallinfo2()
    assert 0 < heap.uordblks + heap.fordblks <= heap.arena
