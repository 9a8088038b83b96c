import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft.domains.ratings.biases import Rows, fit_biases, pool, tune_biases
from fedgraft.errors import InputError
from fedgraft.methods.data.shops import Shops

SMALL = Shops(users=60, items=80, categories=6, links=100, count=600, clients=3)


def test_worked_example() -> None:
    # One user, two items rated 5 and 3: mean 4, residuals +1 and -1. The user bias stays 0 by symmetry, an item's is
    # residual / (1 + shrinkage) = 1 / 2.
    mean, user_bias, item_bias = fit_biases(np.zeros(2, int), np.arange(2), np.array([5.0, 3.0]), 1, 2, 1.0, 1.0)
    assert mean == 4.0
    np.testing.assert_allclose(user_bias, [0.0], atol=1e-12)
    np.testing.assert_allclose(item_bias, [0.5, -0.5])


@given(st.integers(0, 10**6), st.floats(0.5, 20), st.floats(0.5, 20))
def test_is_the_ridge_solution(seed: int, user_shrinkage: float, item_shrinkage: float) -> None:
    g = np.random.default_rng(seed)
    user, item, rating = g.integers(0, 4, 15), g.integers(0, 5, 15), g.uniform(1, 5, 15)
    design = np.zeros((15, 9))
    design[np.arange(15), user] = 1
    design[np.arange(15), 4 + item] = 1
    ridge = np.diag([user_shrinkage] * 4 + [item_shrinkage] * 5)
    exact = np.linalg.solve(design.T @ design + ridge, design.T @ (rating - 3.0))
    mean, user_bias, item_bias = fit_biases(user, item, rating, 4, 5, user_shrinkage, item_shrinkage, 3.0, sweeps=200)
    assert mean == 3.0
    np.testing.assert_allclose(np.concatenate([user_bias, item_bias]), exact, atol=1e-6)


def test_who_has_no_rating_has_bias_zero() -> None:
    _, user_bias, item_bias = fit_biases(np.array([0]), np.array([2]), np.array([5.0]), 2, 3, 0.0, 0.0, mean=3.0)
    assert user_bias[1] == 0
    assert item_bias.tolist() == [0, 0, 2]


def test_no_rating_at_all() -> None:
    nothing = np.zeros(0, np.int64)
    mean, user_bias, _ = fit_biases(nothing, nothing, np.zeros(0, np.float32), 2, 2, 1.0, 1.0)
    assert mean == 0
    assert user_bias.tolist() == [0, 0]


@pytest.mark.parametrize(("name", "values"), [("user_shrinkage", (-1.0, 1.0, 1)), ("item_shrinkage", (1.0, -1.0, 1))])
def test_negative_shrinkage(name: str, values: tuple[float, float, int]) -> None:
    with pytest.raises(InputError, match=f"{name} must be at least 0; got -1.0"):
        fit_biases(np.zeros(1, int), np.zeros(1, int), np.ones(1), 1, 1, values[0], values[1])


def test_pool_apart_keeps_clients_apart() -> None:
    shards = SMALL.load(0)
    together, apart = pool(shards), pool(shards, apart=True)
    assert len(np.unique(apart.user)) == sum(len(shard.users) for shard in shards)
    assert len(np.unique(together.user)) < len(np.unique(apart.user))
    assert together.rating.tolist() == apart.rating.tolist()
    pairs = np.unique(np.stack([apart.client, apart.user]), axis=1)
    assert len(np.unique(pairs[1])) == pairs.shape[1], "one client per user"


def test_rmse_clips_to_the_scale() -> None:
    rows = Rows(*(np.zeros(2, np.int64),) * 3, np.array([5.0, 1.0]), np.array([1, 2], np.uint8), (1.0, 5.0))
    assert rows.rmse(np.array([9.0, -3.0])) == {"validation": 0.0, "test": 0.0}


def test_tuning_looks_at_validation_only() -> None:
    rows = pool(SMALL.load(0))
    other = rows.rating.copy()
    other[rows.split == 2] = 1.0
    changed = Rows(rows.client, rows.user, rows.item, other, rows.split, rows.scale)
    grid = ((2.0, 8.0, 32.0), (1.0, 4.0, 16.0), 5)
    first, second = tune_biases(rows, 3.5, *grid), tune_biases(changed, 3.5, *grid)
    assert (first.user_shrinkage, first.item_shrinkage) == (second.user_shrinkage, second.item_shrinkage)
    assert first.scores["validation"] == second.scores["validation"]
    assert first.user_bias.tolist() == second.user_bias.tolist()
