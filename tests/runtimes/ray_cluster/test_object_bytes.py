"""Bytes that go through an object store, without one."""

import pickle

import numpy as np
import pytest

from fedgraft.runtimes.ray_cluster.actor import LEAST, ObjectBytes, lasting, shared
from fedgraft.runtimes.workers.shared_memory import bytes_of, view_of


def test_what_is_small_stays_bytes():
    assert shared([b"one", memoryview(b"two")]) == b"onetwo"
    message = b"one"
    assert shared([message]) is message
    assert shared([b""]) == b""
    assert not lasting(message)


def test_what_is_large_is_one_object_whose_parts_begin_aligned():
    header, array = b"head", np.arange(LEAST, dtype=np.float32)
    block = shared([header, array.data])
    assert isinstance(block, ObjectBytes)
    assert lasting(block)
    assert bytes_of(block) == header + array.tobytes()
    behind = np.frombuffer(view_of(block), np.float32, offset=len(header))
    assert behind.base is not None
    assert np.array_equal(behind, array)
    with pytest.raises(TypeError):
        block.view[0] = 1


def test_bytes_of_python_s_are_not_copied():
    message = bytes(LEAST)
    block = shared([message])
    address = np.frombuffer(message, np.uint8).ctypes.data
    assert np.frombuffer(view_of(block), np.uint8).ctypes.data == address


def test_their_memory_is_sent_apart_and_read_where_it_is():
    block, buffers = shared([b"head", bytes(range(256)) * 400]), []
    sent = pickle.dumps(block, protocol=5, buffer_callback=buffers.append)
    assert len(sent) < 1000
    again = pickle.loads(sent, buffers=buffers)
    assert bytes_of(again) == bytes_of(block)
    assert np.shares_memory(np.frombuffer(again.view, np.uint8), np.frombuffer(block.view, np.uint8))
    assert again.reference is None
