import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedgraft.contracts import randomness

PLACES = st.tuples(
    st.integers(0, 2**40), st.sampled_from(["train", "select", "probe"]), st.integers(0, 999), st.integers(0, 99)
)


def test_equal_arguments_give_equal_streams_for_ever():
    # Golden numbers: whoever changes them changes every published digest.
    assert randomness.generator(1, "train", 2, 3).integers(0, 1000, 4).tolist() == [167, 547, 764, 842]
    assert torch.randint(0, 1000, (4,), generator=randomness.torch_generator(1, "train", 2, 3)).tolist() == [
        458,
        434,
        164,
        10,
    ]


@given(PLACES, PLACES)
def test_two_places_never_share_a_stream(one, two):
    same = np.array_equal(randomness.generator(*one).random(4), randomness.generator(*two).random(4))
    same_torch = torch.equal(
        torch.rand(4, generator=randomness.torch_generator(*one)),
        torch.rand(4, generator=randomness.torch_generator(*two)),
    )
    assert same == same_torch == (one == two)


@given(PLACES)
def test_a_lazy_generator_gives_the_same_numbers(place):
    lazy, plain = randomness.lazy(*place), randomness.generator(*place)
    assert np.array_equal(lazy.permutation(9), plain.permutation(9))
    assert np.array_equal(lazy.random(4), plain.random(4))
    assert (lazy.integers(1000), lazy.normal()) == (plain.integers(1000), plain.normal())
    assert (
        lazy.bit_generator.state["state"]["counter"].tolist() == plain.bit_generator.state["state"]["counter"].tolist()
    )


def test_a_lazy_generator_is_made_once_and_only_when_it_is_used(monkeypatch):
    made, generator = [], randomness.generator
    monkeypatch.setattr(randomness, "generator", lambda *place: made.append(place) or generator(*place))
    unused, used = randomness.lazy(1, "train", 2, 3), randomness.lazy(1, "train", 2, 4)
    assert made == []
    assert used.random() != used.random()
    assert made == [(1, "train", 2, 4)]
    unused.random()
    assert made == [(1, "train", 2, 4), (1, "train", 2, 3)]


def test_global_generators_are_put_back():
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    with randomness.seeded_torch(1, "train", 2, 3):
        first = torch.rand(3)
    randomness.generator(1, "train").random(9)
    torch.rand(3, generator=randomness.torch_generator(1, "train"))
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002
    with randomness.seeded_torch(1, "train", 2, 3):
        assert torch.equal(torch.rand(3), first)
    assert not torch.equal(torch.rand(3), first)


def test_global_generators_are_put_back_after_an_error():
    before = torch.get_rng_state()
    try:
        with randomness.seeded_torch(1, "train"):
            torch.rand(3)
            raise KeyError
    except KeyError:
        pass
    assert torch.equal(torch.get_rng_state(), before)


def test_a_lazy_generator_passes_for_one_where_libraries_check():
    g = randomness.lazy(1, "draw", 2, 3)
    assert isinstance(g, np.random.Generator)
    wanted = stats.norm.rvs(size=3, random_state=randomness.generator(1, "draw", 2, 3))
    assert stats.norm.rvs(size=3, random_state=g).tolist() == wanted.tolist()


def test_private_randomness_is_nobody_else_s():
    torch.manual_seed(0)
    one = randomness.private_generator().random(4)
    torch.manual_seed(0)
    with randomness.seeded_torch(1, "train", 2, 3):
        other = randomness.private_generator().random(4)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one, randomness.generator(0, "train").random(4))
