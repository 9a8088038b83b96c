"""What clients have, as a table of counts: examples of each split, and of each class where there are classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedgraft.contracts.values import SPLITS
from fedgraft.experiment.running.raw_data import made_when_used

MOST_CLASSES = 100
"""Classes up to which they are counted."""


def described(shards: Sequence[Any]) -> dict[str, Any] | None:
    """Return {"classes": names, "clients": [{"name", "train", "validation", "test", "classes": counts}]}.

    A shard's `split` says of every example, by its place in `SPLITS`, where it is, and -1 that it is in none; `label`
    and `classes`, where it has them, which class it has. Classes are those of all clients together, in the order in
    which they are first met; counted are examples of any split. Names are [] and counts too where there are no classes
    or more than `MOST_CLASSES`.

    Args:
        shards: all clients' data, here. None is returned where these are made only when used, or lack splits or names.
    """
    if made_when_used(shards) or not all(hasattr(shard, "split") and hasattr(shard, "name") for shard in shards):
        return None
    labelled = all(hasattr(shard, "label") and hasattr(shard, "classes") for shard in shards)
    names = list(dict.fromkeys(str(name) for shard in shards for name in shard.classes)) if labelled else []
    if len(names) > MOST_CLASSES:
        names = []
    return {"classes": names, "clients": [_row(shard, names) for shard in shards]}


def _row(shard: Any, names: Sequence[str]) -> dict[str, Any]:
    """A client's counts."""
    split = np.asarray(shard.split)
    sizes = {name: int((split == number).sum()) for number, name in enumerate(SPLITS)}
    counts = [0] * len(names)
    if names:
        own = np.asarray(shard.label)[split >= 0]
        for number, count in enumerate(np.bincount(own[own >= 0], minlength=len(shard.classes)).tolist()):
            counts[names.index(str(shard.classes[number]))] += count
    return {"name": str(shard.name), **sizes, "classes": counts}
