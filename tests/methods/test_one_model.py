import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.contracts import PersonalSharing, Update
from fedgraft.methods.one_model import AT_ONCE, OneModel, moved

LISTS = st.lists(st.tuples(st.floats(0, 1), st.floats(-100, 100, width=32)), min_size=1, max_size=6)


def one(*values):
    return {"w": np.array(values, np.float32)}


def test_a_worked_example():
    updates = [Update(0, 0.25, one(4, 0)), Update(2, 0.75, one(0, 8))]
    assert moved(one(1, 2), updates)["w"].tolist() == [2, 8]
    assert moved(one(1, 2), updates, share=0.5)["w"].tolist() == [1.5, 5]


def test_the_sum_is_taken_in_double_precision_and_comes_back_in_single():
    updates = [Update(k, 1 / 3, one(value)) for k, value in enumerate((1e8, 3, -1e8))]
    assert moved(one(0), updates)["w"][0] == 1
    assert moved(one(0), updates)["w"].dtype == np.float32


def test_a_large_array_is_moved_piece_by_piece():
    before, *parts = np.random.default_rng(0).standard_normal((4, 2 * AT_ONCE + 5)).astype(np.float32)
    weights = (0.5, 0.3, 0.2)
    after = moved(
        {"w": before}, [Update(k, w, {"w": part}) for k, (w, part) in enumerate(zip(weights, parts, strict=True))]
    )
    added = sum(w * part.astype(np.float64) for w, part in zip(weights, parts, strict=True))
    np.testing.assert_array_equal(after["w"], (before + added).astype(np.float32))


def test_nobody_moves_nothing():
    assert moved(one(1, 2), [])["w"].tolist() == [1, 2]


def test_only_the_models_own_names_are_moved():
    assert moved(one(1), [Update(0, 1.0, {**one(2), "other": np.ones(3, np.float32)})]).keys() == {"w"}


@given(LISTS)
def test_a_share_of_nothing_moves_nothing(parts):
    updates = [Update(k, weight, one(value)) for k, (weight, value) in enumerate(parts)]
    assert moved(one(7), updates, share=0.0)["w"][0] == 7


def test_one_model_is_everybodys():
    class Plain(OneModel):
        """Nothing but the common."""

    method = Plain()
    state = method.merge(method.init(one(1, 2), clients=2), [Update(1, 1.0, one(1, 1))])
    assert not isinstance(method, PersonalSharing)
    assert method.model(state)["w"].tolist() == [2, 3]
