import math

import numpy as np

from fedgraft.domains.ratings.shards import RatingShard
from fedgraft.methods.baselines.global_mean import GlobalMean


def test_worked_example() -> None:
    shards = [
        _shard(rating=[1.0, 3.0, 5.0, 2.0], split=[0, 0, 1, 2]),
        _shard(rating=[5.0, 1.0], split=[0, 1]),
    ]
    # Training ratings 1, 3, 5: mean 3. Validation 5 and 1: errors 2 and 2. Test 2: error 1.
    assert GlobalMean().score(shards) == {"validation": 2.0, "test": 1.0}


def test_nothing_to_test_is_nan() -> None:
    assert math.isnan(GlobalMean().score([_shard([1.0, 3.0], [0, 1])])["test"])


def _shard(rating: list[float], split: list[int]) -> RatingShard:
    rows = np.arange(len(rating))
    return RatingShard(
        name="shop",
        users=rows,
        items=rows,
        user=rows,
        item=rows,
        category=np.zeros(len(rating), np.int64),
        rating=np.array(rating, np.float32),
        split=np.array(split, np.uint8),
        trust=np.zeros((2, 0), np.int64),
        scale=(1.0, 5.0),
        n_categories=1,
        user_ids=rows,
        item_ids=rows,
    )
