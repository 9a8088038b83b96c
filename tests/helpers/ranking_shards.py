"""Shards of users and items written by hand."""

import numpy as np

from fedgraft.domains.ranking.shards import RankingShard


def ranking_shard(rows, users, items, name="shop", features=None, titles=()) -> RankingShard:
    """A shard of (user, item, split) rows; users are called u0, u1 and so on, items i0, i1 and so on."""
    user, item, split = (np.array(column) for column in zip(*rows, strict=True))
    return RankingShard(
        name=name,
        user=user.astype(np.int64),
        item=item.astype(np.int64),
        split=split.astype(np.int8),
        user_ids=np.array([f"u{k}" for k in range(users)]),
        item_ids=np.array([f"i{k}" for k in range(items)]),
        features={name: np.array(values, np.float32) for name, values in (features or {}).items()},
        titles=np.array(titles, np.str_),
    )
