import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from fedgraft import wire
from fedgraft.errors import ClientError, InputError, WireError
from fedgraft.methods.codecs import low_rank
from fedgraft.methods.codecs.chain import Chain
from fedgraft.methods.codecs.low_rank import LowRank
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.nn import flops
from fedgraft.wire import Message
from fedgraft.wire.layouts import VARIABLE, Layout, Spec, digest

DENSE = 2**16 - 1


def g(seed=0):
    return np.random.Generator(np.random.Philox(seed))


def there(codec, arrays, layout=None, seed=0):
    layout = layout or Layout.of(arrays)
    return codec.encode(arrays, codec.init(layout), g(seed))[0], layout


def there_and_back(codec, arrays, seed=0):
    encoded, layout = there(codec, arrays, seed=seed)
    return codec.decode(encoded, layout)


def spectrum(rows, columns, values, seed=0):
    """A matrix of these singular values."""
    left, _ = np.linalg.qr(g(seed).standard_normal((rows, len(values))))
    right, _ = np.linalg.qr(g(seed + 1).standard_normal((columns, len(values))))
    return (left * values @ right.T).astype(np.float32)


def dropped(matrix, rank):
    return float(np.sqrt(np.square(np.linalg.svd(matrix.astype(np.float64), compute_uv=False)[rank:]).sum()))


def rounding(matrix, rank):
    return 2**-24 * (rank + 4) * np.sqrt(rank) * np.linalg.norm(matrix.astype(np.float64)) + 1e-30


def test_rank_one_by_hand():
    # (1, 2, 2) has length 3, so has (2, 1, 2): the singular value is 9, and each factor has a root of 3.
    arrays = {"w": np.outer([1, 2, 2], [2, 1, 2]).astype(np.float32), "b": np.array([5, 6], np.float32)}
    encoded, layout = there(LowRank(), arrays)
    assert list(encoded) == ["b", "ranks", "factors"]
    assert encoded["ranks"].tolist() == [1]
    np.testing.assert_allclose(encoded["factors"], [1, 2, 2, 2, 1, 2], rtol=1e-6)
    decoded = LowRank().decode(encoded, layout)
    np.testing.assert_allclose(decoded["w"], arrays["w"], rtol=1e-6)
    np.testing.assert_array_equal(decoded["b"], arrays["b"])


CHECKS = {"w": np.where(np.indices((4, 4)).sum(0) % 2, 1.5, 2.5).astype(np.float32)}  # singular values 8 and 2


@pytest.mark.parametrize(
    ("codec", "rank"),
    [
        (LowRank(threshold=0.3), 1),  # 2 is a quarter of 8
        (LowRank(threshold=0.2), DENSE),  # two factors of rank 2 are no smaller than 16 entries
        (LowRank(rank=1), 1),
        (LowRank(rank=2), DENSE),
        (LowRank(), DENSE),
    ],
)
def test_what_is_kept_of_two_singular_values_by_hand(codec, rank):
    encoded, layout = there(codec, CHECKS)
    assert encoded["ranks"].tolist() == [rank]
    decoded = codec.decode(encoded, layout)["w"]
    if rank == 1:
        np.testing.assert_allclose(encoded["factors"], np.full(8, np.sqrt(2)), rtol=1e-6)
        np.testing.assert_allclose(decoded, np.full((4, 4), 2), rtol=1e-6)  # off by 0.5 sixteen times: a norm of 2
    else:
        np.testing.assert_array_equal(decoded, CHECKS["w"])


def test_a_singular_value_at_the_papers_threshold():
    # 3e-4 and 1.1e-4 of the largest are kept and 0.9e-4 is not: a Gram matrix in single precision loses all of them.
    matrix = spectrum(60, 80, [1, 3e-4, 1.1e-4, 0.9e-4])
    assert there(LowRank(), {"w": matrix})[0]["ranks"].tolist() == [3]
    assert there(LowRank(threshold=1e-6), {"w": matrix})[0]["ranks"].tolist() == [4]
    assert there(LowRank(threshold=0), {"w": matrix})[0]["ranks"].tolist() == [4]


def test_a_threshold_may_be_a_singular_value_itself():
    # Section 4.2 of CEFGL: "only singular values larger than a specific threshold"; here 5e-4 and 2e-4 are, 0.9e-4 not.
    matrix = spectrum(60, 80, [5e-4, 2e-4, 0.9e-4])
    assert there(LowRank(relative=False), {"w": matrix})[0]["ranks"].tolist() == [2]
    assert there(LowRank(), {"w": matrix})[0]["ranks"].tolist() == [3]
    nothing = LowRank(threshold=1, relative=False)
    assert there(nothing, {"w": matrix})[0]["ranks"].tolist() == [0]
    assert not there_and_back(nothing, {"w": matrix})["w"].any()


codecs = st.builds(LowRank, threshold=st.sampled_from([0, 1e-4, 0.1, 0.9]), rank=st.integers(0, 6))
shapes = st.lists(st.integers(0, 9), min_size=2, max_size=4).map(tuple)


@given(codecs, st.lists(shapes, min_size=1, max_size=3), st.integers(0, 1000), st.sampled_from([1e-20, 1, 1e20]))
@settings(max_examples=150, deadline=None)
def test_error_bound_and_size(codec, sizes, seed, unit):
    arrays = {f"w{i}": (unit * g(seed + i).standard_normal(size)).astype(np.float32) for i, size in enumerate(sizes)}
    arrays["b"] = np.ones(5, np.float32)
    encoded, layout = there(codec, arrays)
    decoded = codec.decode(encoded, layout)
    cost = 20
    for i, rank in enumerate(encoded["ranks"].tolist()):
        matrix = arrays[f"w{i}"].reshape(len(arrays[f"w{i}"]), int(np.prod(arrays[f"w{i}"].shape[1:])))
        rows, columns = matrix.shape
        error = np.linalg.norm((decoded[f"w{i}"].reshape(matrix.shape) - matrix).astype(np.float64))
        if rank == DENSE:
            assert error == 0
            cost += 2 + 4 * rows * columns
        else:
            assert rank * (rows + columns) < rows * columns
            assert error <= dropped(matrix, rank) + rounding(matrix, max(rank, 1))
            cost += 2 + 4 * rank * (rows + columns)
    bounds = codec.bounds(layout, layout)
    blob = wire.encode(Message("train", arrays=encoded), codec.encoded(layout))
    header = wire.header_bytes(blob) + 4  # and the number of factors
    assert len(blob) == header + cost <= wire.message_bytes(codec.encoded(layout), bounds=bounds)


def test_a_fixed_rank_bounds_the_bytes():
    layout = Layout((Spec("w", "float32", (100, 50)), Spec("small", "float32", (4, 4))))
    sizes = {spec.name: spec.shape for spec in LowRank(rank=3).bounds(layout, layout)}
    assert sizes == {"ranks": (2,), "factors": (3 * 150 + 16,)}
    assert LowRank().bounds(layout, layout).specs[1].shape == (5016,)
    open_ended = Layout((Spec("w", "float32", (VARIABLE, 50)),))
    largest = Layout((Spec("w", "float32", (100, 50)),))
    assert [s.shape for s in LowRank(rank=3).bounds(open_ended, largest)] == [(1,), (5000,), (1,)]


def test_a_quantiser_behind_it_codes_the_factors():
    chain = Chain((LowRank(rank=4), Quantized(8)))
    matrix = spectrum(100, 60, [8, 4, 2, 1])
    encoded, layout = there(chain, {"w": matrix, "b": np.ones(6, np.float32)})
    sizes = {name: array.nbytes for name, array in encoded.items()}
    assert sizes == {"ranks": 2, "scales": 12, "packed": 646, "dims": 4}
    decoded = chain.decode(encoded, layout)["w"]
    assert np.linalg.norm(decoded - matrix) < 0.03 * np.linalg.norm(matrix)


def test_zeros_cost_nothing_and_nothing_is_dense():
    arrays = {
        "zeros": np.zeros((30, 40), np.float32),
        "none": np.zeros((3, 0, 2), np.float32),
        "flat": np.zeros((0, 0), np.float32),
    }
    encoded, layout = there(LowRank(), arrays)
    assert encoded["ranks"].tolist() == [DENSE, DENSE, 0]
    assert encoded["factors"].size == 0
    assert digest(LowRank().decode(encoded, layout)) == digest(arrays)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_at_both_ends(bad):
    for arrays in ({"w": np.full((5, 5), bad, np.float32)}, {"w": np.full(5, bad, np.float32)}):
        with pytest.raises(ClientError, match="'w' holds NaN or infinity"):
            there(LowRank(), arrays)
    encoded, layout = there(LowRank(), {"w": np.ones((5, 5), np.float32), "b": np.ones(2, np.float32)})
    for broken in ({"b": np.array([1, bad], np.float32)}, {"factors": np.full(10, bad, np.float32)}):
        with pytest.raises(WireError, match="holds NaN or infinity"):
            LowRank().decode({**encoded, **broken}, layout)


def test_extremes():
    with pytest.raises(ClientError, match="norm above"):
        there(LowRank(), {"w": np.full((5, 5), 2.0**101, np.float32)})
    for value in (2.0**97, 1e-38, 1e-44):
        arrays = {"w": np.full((5, 5), value, np.float32)}
        np.testing.assert_allclose(there_and_back(LowRank(), arrays)["w"], arrays["w"], rtol=1e-5, atol=3e-45)
    encoded, layout = there(LowRank(), {"w": np.ones((5, 5), np.float32)})
    with pytest.raises(WireError, match="'w' holds NaN or infinity"):
        LowRank().decode({**encoded, "factors": np.full(10, 3e38, np.float32)}, layout)


def test_impossible_arrays():
    codec = LowRank(rank=2)
    encoded, layout = there(codec, {"w": g().standard_normal((20, 30)).astype(np.float32)})
    for rank, why in [
        (3, "'w' of shape \\(20, 30\\) is never sent at rank 3"),
        (12, "is never sent at rank 12"),
        (1, "100 factors are not those"),
        (DENSE, "100 factors are not those"),
    ]:
        with pytest.raises(WireError, match=why):
            codec.decode({**encoded, "ranks": np.array([rank], np.uint16)}, layout)


@pytest.mark.parametrize("expansion", [1024, 8])
def test_dimensions_that_vary_travel_and_are_paid_for(expansion, monkeypatch):
    # 40 x 30 entries of rank 1 are 70 values, and 8 x 70 fewer than 1200: only from rank 3 are they enough.
    monkeypatch.setattr(low_rank, "EXPANSION", expansion)
    layout = Layout((Spec("w", "float32", (VARIABLE, VARIABLE)), Spec("b", "float32", (VARIABLE,))))
    for shape, rank in [((40, 30), 1 if expansion == 1024 else 3), ((1, 9), DENSE), ((0, 5), DENSE)]:
        for value in (0, 1):
            arrays = {"w": np.full(shape, value, np.float32), "b": np.ones(3, np.float32)}
            encoded, _ = there(LowRank(), arrays, layout)
            assert encoded["ranks"].tolist() == [rank]
            assert encoded["dims"].tolist() == list(shape)
            np.testing.assert_allclose(LowRank().decode(encoded, layout)["w"], arrays["w"], atol=1e-6)


def test_few_bytes_never_stand_for_a_huge_matrix():
    layout = Layout((Spec("w", "float32", (VARIABLE, VARIABLE)),))
    for rank, dims in [(0, (2**32 - 1, 5)), (0, (5, 5)), (1, (100_000, 100_000)), (DENSE, (2**32 - 1, 2**32 - 1))]:
        for factors in (0, 200_000):
            few = {
                "ranks": np.array([rank], np.uint16),
                "factors": np.zeros(factors, np.float32),
                "dims": np.array(dims, np.uint32),
            }
            with pytest.raises(WireError, match=r"never sent at rank|factors are not those"):
                LowRank().decode(few, layout)


def test_names_never_collide():
    arrays = {"w": np.ones((5, 5), np.float32), "factors": np.ones(2, np.float32), "dims": np.arange(2)}
    encoded, layout = there(LowRank(), arrays)
    assert list(encoded) == ["factors", "dims", "ranks+", "factors+"]
    np.testing.assert_allclose(LowRank().decode(encoded, layout)["w"], 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 1}, r"LowRank\.threshold must be in \[0, 1\); got 1"),
        ({"threshold": -1, "relative": False}, r"LowRank\.threshold must be >= 0; got -1"),
        ({"rank": -1}, r"LowRank\.rank must be >= 0; got -1"),
        ({"rank": 2.0}, "got 2.0"),
    ],
)
def test_options(options, message):
    with pytest.raises(InputError, match=message):
        LowRank(**options)


@pytest.mark.parametrize("shape", [(40, 30), (30, 50)])
@pytest.mark.parametrize("options", [{}, {"rank": 3}])
def test_products_are_counted(shape, options):
    arrays, codec = {"w": spectrum(*shape, [4.0, 2.0, 1.0])}, LowRank(**options)
    with FlopCounterMode(display=False) as theirs, flops.Meter() as ours:
        there_and_back(codec, arrays)
    assert ours.flops == theirs.get_total_flops() > 0
