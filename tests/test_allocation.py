"""Freed memory stays, where the C library can be told."""

import ctypes

import pytest

from fedgraft import allocation


@pytest.fixture(autouse=True)
def asked_anew():
    allocation.keep_freed.cache_clear()
    yield
    allocation.keep_freed.cache_clear()


def test_the_c_library_is_asked_once(monkeypatch):
    asked = []

    class Library:
        def mallopt(self, name, value):
            asked.append((name, value))
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    assert allocation.keep_freed()
    assert allocation.keep_freed()
    assert asked == [(-1, allocation.KEPT_BYTES), (-3, allocation.LARGEST_BYTES)]


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not allocation.keep_freed()
