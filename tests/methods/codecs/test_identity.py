import numpy as np

from fedgraft import wire
from fedgraft.methods.codecs.identity import Identity
from fedgraft.wire import Message
from fedgraft.wire.layouts import Layout, digest


def test_nothing_changes_not_even_nan():
    arrays = {"w": np.array([1.5, np.nan, -np.inf], np.float32), "n": np.arange(2)}
    layout = Layout.of(arrays)
    encoded, state = Identity().encode(arrays, None, np.random.default_rng(0))
    assert state is None
    assert digest(encoded) == digest(Identity().decode(encoded, layout)) == digest(arrays)
    assert encoded is not arrays


def test_cost_is_four_bytes_a_value():
    arrays = {"w": np.ones((10, 10), np.float32)}
    layout = Identity().encoded(Layout.of(arrays))
    blob = wire.encode(Message("train", arrays=arrays), layout)
    assert len(blob) == wire.header_bytes(blob) + 400 == wire.message_bytes(layout)
