from pathlib import Path

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.methods.baselines.ease import Ease, item_weights
from fedgraft.methods.data.ml100k import ML100K
from helpers.ranking_shards import ranking_shard


def test_weights_minimise_the_squared_error_with_a_diagonal_of_zeros() -> None:
    taken = np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 1], [1, 1, 1, 0], [0, 0, 1, 1]], np.float64)
    found = item_weights(taken.T @ taken, 0.5)
    for item in range(4):  # each column is a ridge regression on the other items
        others = np.delete(taken, item, 1)
        expected = np.linalg.solve(others.T @ others + 0.5 * np.eye(3), others.T @ taken[:, item])
        np.testing.assert_allclose(np.delete(found[:, item], item), expected, rtol=1e-5)
        assert found[item, item] == 0


def test_items_that_go_together_come_first() -> None:
    rows = [(user, item, 0) for user in range(4) for item in ((0, 1) if user % 2 else (2, 3))]
    shard = ranking_shard([*rows, (4, 0, 0), (4, 1, 1), (5, 2, 0), (5, 3, 2)], users=6, items=4)
    best = dict.fromkeys(("validation", "test", "ndcg_at_50", "recall_at_50"), 1.0)
    assert Ease().score([shard]) == best


def test_errors_name_the_option() -> None:
    with pytest.raises(InputError, match=r"Ease\.penalties must be at least one number, each > 0; got \(0\.0,\)\."):
        Ease(penalties=(0.0,))


@pytest.mark.data
@pytest.mark.slow
def test_movielens(data_root: Path) -> None:
    shards = ML100K(root=str(data_root / "ml-100k"), features="none").load(1)
    assert Ease(penalties=(800.0,)).score(shards)["test"] == pytest.approx(0.934, abs=0.003)
