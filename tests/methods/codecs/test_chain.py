import numpy as np
import pytest

from fedgraft import wire
from fedgraft.errors import InputError, WireError
from fedgraft.methods.codecs.chain import Chain
from fedgraft.methods.codecs.float16 import Float16
from fedgraft.methods.codecs.identity import Identity
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.methods.codecs.sparse import Sparse
from fedgraft.wire.layouts import VARIABLE, Layout, Spec, digest

ARRAYS = {
    "w": np.random.default_rng(0).standard_normal((30, 40)).astype(np.float32),
    "b": np.linspace(-1, 1, 7, dtype=np.float32),
    "ids": np.arange(4),
}
LAYOUT = Layout.of(ARRAYS)
Q4, Q8 = Quantized(rounding="stochastic"), Quantized(8, bucket=2, rounding="stochastic")


def run(codec, seed=5):
    encoded, state = codec.encode(ARRAYS, codec.init(LAYOUT), np.random.default_rng(seed))
    assert codec.encoded(LAYOUT) == Layout.of(encoded)
    return digest(encoded), digest(codec.decode(encoded, LAYOUT)), state


@pytest.mark.parametrize("codec", [Identity(), Float16(), Q4])
def test_identity_law(codec):
    alone = run(codec)
    for chain in (
        Chain((codec,)),
        Chain((Chain(), codec)),
        Chain((codec, Chain())),
        Chain((Identity(), codec, Identity())),
    ):
        assert run(chain)[:2] == alone[:2]
    assert run(Chain())[:2] == run(Identity())[:2]


def test_associativity():
    # The second quantiser acts on the scales of the first.
    flat = run(Chain((Q4, Q8, Float16())))
    assert run(Chain((Q4, Chain((Q8, Float16())))))[:2] == flat[:2]
    assert run(Chain((Chain((Q4, Q8)), Float16())))[:2] == flat[:2]


def test_states_are_a_list_in_order():
    _, _, state = run(Chain((Identity(), Q4, Chain((Float16(),)))))
    assert state[0] is None
    assert list(state[1]) == ["variable"]
    assert state[2] == [None]
    wire.unpack(wire.pack(state))


def test_by_hand():
    # Half precision drops 2**-12 before the quantiser sees a value of its own type, which it leaves alone.
    arrays = {"w": np.array([1 + 2**-12, -1], np.float32)}
    chain = Chain((Float16(), Quantized()))
    encoded, _ = chain.encode(arrays, chain.init(Layout.of(arrays)), np.random.default_rng(0))
    assert encoded["w"].dtype == np.float16
    assert chain.decode(encoded, Layout.of(arrays))["w"].tolist() == [1, -1]
    # The other way round, the scale travels in half precision.
    chain = Chain((Quantized(), Float16()))
    encoded, _ = chain.encode(arrays, chain.init(Layout.of(arrays)), np.random.default_rng(0))
    assert encoded["scales"].dtype == np.float16
    assert encoded["packed"].tolist() == [0x0E]
    assert chain.decode(encoded, Layout.of(arrays))["w"].tolist() == [1, -1]


def test_bounds_go_through_every_codec():
    # At most all 300 entries and a bit each; then half a byte for each of them, two scales, and their number.
    layout = Layout((Spec("w", "float32", (VARIABLE, 3)), Spec("ids", "int64", (VARIABLE,))))
    largest = Layout((Spec("w", "float32", (100, 3)), Spec("ids", "int64", (9,))))
    chain = Chain((Sparse(share=0, threshold=0.1), Quantized(), Chain()))
    assert [(s.name, s.shape) for s in chain.bounds(layout, largest)] == [
        ("ids", (9,)), ("places", (38,)), ("dims", (1,)), ("scales+", (2,)), ("packed+", (150,)), ("dims+", (1,))
    ]  # fmt: skip
    assert Chain().bounds(layout, largest) == largest
    names = [(s.name, s.dtype) for s in chain.encoded(layout)]
    assert names == [(s.name, s.dtype) for s in chain.bounds(layout, largest)]


def test_impossible_arrays():
    with pytest.raises(WireError):
        Chain().decode({}, LAYOUT)
    chain = Chain((Quantized(), Float16()))
    encoded, _ = chain.encode(ARRAYS, chain.init(LAYOUT), np.random.default_rng(0))
    with pytest.raises(WireError, match="A scale is"):
        chain.decode({**encoded, "scales": -encoded["scales"]}, LAYOUT)


@pytest.mark.parametrize("codecs", [[Float16()], (Float16,), ("float16",)])
def test_options(codecs):
    with pytest.raises(InputError, match=r"Chain\.codecs must be a tuple of codecs"):
        Chain(codecs)
