"""Which examples a client trains on, changed for an audit: for shards with `label` and `split` of each example."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.abilities.private import AuditedTask, Labelled
from fedgraft.contracts.values import SPLITS, Indices


class AuditedClasses(AuditedTask[Any]):
    """Of a task whose shards have one class for each example."""

    def labelled(self, shard: Any, split: str) -> Labelled:
        """Return the rows of a split, ascending."""
        rows = shard.rows(split)
        return Labelled(rows, np.asarray(shard.label)[rows].astype(np.int64), len(shard.classes))

    def marked(self, shard: Any, rows: Indices, label: Indices, trained: NDArray[np.bool_]) -> Any:
        """Return a copy with other labels and splits."""
        labels, split = shard.label.copy(), shard.split.copy()
        labels[rows], split[rows] = label, np.where(trained, SPLITS.index("train"), -1)
        return replace(shard, label=labels, split=split)
