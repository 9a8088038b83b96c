import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.contracts import Update
from fedgraft.methods.one_model import moved
from fedgraft.methods.private_rows import ITEMS, USERS, client_noise, clipped, moved_by_rows, noised, touched


def test_rows_of_tables_are_touched_where_they_are_not_zero_and_all_others_always():
    rows = np.array([[0, 0], [0, 1], [-1, 1]], np.float32)
    assert touched(ITEMS, rows).tolist() == [False, True, True]
    assert touched("weight", rows).all()


def test_noise_is_added_to_touched_rows_alone_and_changes_nothing_that_is_given():
    array = np.zeros((4, 3), np.float32)
    rows = np.array([True, False, True, False])
    after = noised(array, rows, 0.5, np.random.default_rng(0))
    assert after.dtype == np.float32
    assert after[rows].all()
    assert not after[~rows].any()
    assert not array.any()
    assert not noised(array, rows, 0.0, np.random.default_rng(0)).any()


def test_numbers_are_cut_on_both_sides():
    assert clipped({"w": np.array([-3, 0.2, 3], np.float32)}, 0.5)["w"].tolist() == [-0.5, np.float32(0.2), 0.5]


def test_noise_comes_from_torchs_own_generator():
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(client_noise().random())
    assert draws[0] == draws[1] != draws[2]


@given(st.lists(st.tuples(st.floats(0.01, 1), st.integers(0, 7)), min_size=1, max_size=5), st.integers(0, 9))
def test_a_row_moves_by_the_weighted_mean_of_those_who_touched_it(clients, seed):
    g = np.random.default_rng(seed)
    model = {"a": g.normal(size=2), USERS: g.normal(size=(3, 2)), "z": g.normal(size=1)}
    updates = []
    for client, (weight, mask) in enumerate(clients):
        sent = {name: g.normal(size=array.shape) for name, array in model.items()}
        sent[USERS] = sent[USERS] * np.array([mask & 1, mask & 2, mask & 4]).astype(bool)[:, None]
        updates.append(Update(client, weight, sent))
    after = moved_by_rows(model, updates)
    assert list(after) == list(model)
    for row in range(3):
        having = [update for update in updates if update.arrays[USERS][row].any()]
        total = sum(update.weight for update in having)
        mean = sum(update.weight * update.arrays[USERS][row] for update in having) / total if having else 0
        np.testing.assert_allclose(after[USERS][row], model[USERS][row] + mean)
    plain = moved({"a": model["a"], "z": model["z"]}, updates)
    assert all(np.array_equal(after[name], plain[name]) for name in plain)
