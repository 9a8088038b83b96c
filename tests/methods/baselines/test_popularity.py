import math
from pathlib import Path

import pytest

from fedgraft.methods.baselines.popularity import Popularity
from fedgraft.methods.data.ml100k import ML100K
from helpers.ranking_shards import ranking_shard


def test_worked_example() -> None:
    one = ranking_shard([(0, 0, 0), (0, 2, 1), (1, 0, 0), (1, 1, 0), (1, 3, 2)], users=2, items=4)
    two = ranking_shard([(0, 1, 0), (0, 2, 0), (0, 0, 1)], users=1, items=4)
    # Training counts 2, 2, 1, 0. Validation: of 1, 2, 3 item 2 is above one of two; of 0, 3 item 0 is above. Test: of
    # 2, 3 item 3 is below.
    found = Popularity().score([one, two])
    assert (found["validation"], found["test"]) == (0.75, 0.0)
    assert found["recall_at_50"] == 1.0, "there are fewer items than the list is long"


def test_nothing_to_test_is_nan() -> None:
    assert math.isnan(Popularity().score([ranking_shard([(0, 0, 0), (0, 1, 1)], users=1, items=3)])["test"])


@pytest.mark.data
def test_movielens(data_root: Path) -> None:
    shards = ML100K(root=str(data_root / "ml-100k"), features="none").load(1)
    assert Popularity().score(shards)["test"] == pytest.approx(0.86, abs=0.01)
