import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.errors import ClientError, InputError, WireError
from fedgraft.methods.codecs.chain import Chain
from fedgraft.methods.codecs.feedback import Feedback
from fedgraft.methods.codecs.float16 import Float16
from fedgraft.methods.codecs.identity import Identity
from fedgraft.methods.codecs.low_rank import LowRank
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.methods.codecs.sparse import Sparse
from fedgraft.wire.layouts import VARIABLE, Layout, Spec, digest


def g(seed=0):
    return np.random.Generator(np.random.Philox(seed))


def test_two_messages_by_hand():
    # One of two entries travels. First 3 is sent and 1 remembered; then 1 + 1.5 outweighs 2, which is remembered.
    codec, layout = Feedback(Sparse(share=0.5)), Layout((Spec("w", "float32", (2,)),))
    state = codec.init(layout)
    assert state["residual"]["w"].tolist() == [0, 0]
    encoded, state = codec.encode({"w": np.array([3, 1], np.float32)}, state, g())
    assert codec.decode(encoded, layout)["w"].tolist() == [3, 0]
    assert state["residual"]["w"].tolist() == [0, 1]
    encoded, state = codec.encode({"w": np.array([2, 1.5], np.float32)}, state, g())
    assert codec.decode(encoded, layout)["w"].tolist() == [0, 2.5]
    assert state["residual"]["w"].tolist() == [2, 0]


INSIDE = [
    Identity(),
    Float16(),
    Quantized(),
    Quantized(1),
    Quantized(2, rounding="stochastic"),
    Quantized(32),
    Sparse(0.1),
    Sparse(0, 1),
    LowRank(rank=1),
    Chain((LowRank(rank=2), Quantized(8))),
    Chain((Sparse(0.2), Quantized(4, rounding="stochastic"))),
    Feedback(Sparse(0.1)),
]


@given(st.sampled_from(INSIDE), st.integers(1, 12), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_what_arrived_is_what_was_sent_but_for_the_last_residual(inside, rounds, seed):
    codec, data = Feedback(inside), g(seed)
    shapes = {"w": (6, 9), "gain": (), "b": (7,)}
    layout = Layout(tuple(Spec(name, "float32", shape) for name, shape in shapes.items()))
    state = codec.init(layout)
    sent, arrived = ({name: np.zeros(shape) for name, shape in shapes.items()} for _ in range(2))
    for round in range(rounds):
        arrays = {name: np.asarray(data.standard_normal(shape, np.float32)) for name, shape in shapes.items()}
        encoded, state = codec.encode(arrays, state, g(round))
        for name, array in codec.decode(encoded, layout).items():
            sent[name] += arrays[name]
            arrived[name] += array
    for name, total in sent.items():
        np.testing.assert_allclose(arrived[name], total - state["residual"][name], atol=1e-4)


def test_what_a_coarse_codec_never_sends_arrives_in_the_end():
    # Rounded to nearest by itself, 0.1 beside 1 is lost for ever at two bits; with feedback its mean arrives.
    x = {"w": np.array([1, 0.1, -0.2], np.float32)}
    layout, rounds = Layout.of(x), 100
    for codec, expected in ((Quantized(2), [1, 0, 0]), (Feedback(Quantized(2)), x["w"])):
        state, total = codec.init(layout), np.zeros(3)
        for _ in range(rounds):
            encoded, state = codec.encode(x, state, g())
            total += codec.decode(encoded, layout)["w"]
        np.testing.assert_allclose(total / rounds, expected, atol=0.02)


def test_state_and_cost():
    arrays = {"w": np.ones((30, 40), np.float32), "ids": np.arange(3)}
    layout, inside = Layout.of(arrays), Quantized(rounding="stochastic")
    codec = Feedback(inside)
    state = codec.init(layout)
    assert list(state["residual"]) == ["w"]
    assert state["residual"]["w"].nbytes == 4 * 1200
    encoded, after = codec.encode(arrays, state, g())
    assert codec.encoded(layout) == inside.encoded(layout) == Layout.of(encoded)
    assert codec.bounds(layout, layout) == inside.bounds(layout, layout)
    assert digest(encoded) == digest(inside.encode(arrays, inside.init(layout), g())[0])
    assert digest(after["residual"]) == digest(wire.unpack(wire.pack(after))["residual"])
    assert list(after["inner"]) == ["variable"]


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_a_failed_message_leaves_the_state_as_it_was(bad):
    codec, layout = Feedback(Quantized()), Layout((Spec("w", "float32", (3,)),))
    _, state = codec.encode({"w": np.array([1, 0.3, 0.2], np.float32)}, codec.init(layout), g())
    before = wire.pack(state)
    with pytest.raises(ClientError):
        codec.encode({"w": np.array([1, bad, 0], np.float32)}, state, g())
    assert wire.pack(state) == before


def test_sums_that_overflow():
    codec, layout = Feedback(Float16()), Layout((Spec("w", "float32", (1,)),))
    large = {"w": np.array([3e38], np.float32)}  # of which half precision sends 65504
    _, state = codec.encode(large, codec.init(layout), g())
    with pytest.raises(ClientError, match="'w' and what was lost of it before add up to NaN or infinity"):
        codec.encode(large, state, g())
    with pytest.raises(ClientError, match="'w'"):
        Feedback(Identity()).encode({"w": np.array([np.nan], np.float32)}, Feedback(Identity()).init(layout), g())


class Refused(Identity):
    def decode(self, arrays, layout):
        raise WireError("No.")


def test_what_the_receiver_would_refuse_is_not_sent():
    codec, layout = Feedback(Refused()), Layout((Spec("w", "float32", (1,)),))
    with pytest.raises(ClientError, match=r"The receiver would refuse what was encoded: No\."):
        codec.encode({"w": np.ones(1, np.float32)}, codec.init(layout), g())


def test_errors_name_the_array_and_the_option():
    varies = Layout((Spec("n", "int64", (VARIABLE,)), Spec("rows", "float32", (VARIABLE, 4))))
    with pytest.raises(InputError, match=r"Error feedback needs arrays of fixed shape.*'rows' has \(-1, 4\)"):
        Feedback(Identity()).init(varies)
    with pytest.raises(InputError, match=r"Feedback\.codec must be a codec; got 'quantized'\."):
        Feedback("quantized")
