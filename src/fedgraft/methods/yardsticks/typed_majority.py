"""One class for every node of the target type: the one most frequent in training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.contracts.yardstick import Yardstick
from fedgraft.domains.typed.shards import TypedGraph


@dataclass(frozen=True)
class TypedMajority(Yardstick[TypedGraph]):
    """Predict the most frequent training class of all clients everywhere; of equally frequent ones the first.

    Source: none needed. Differs: nothing known.
    Needs: one count per class of each client.
    Cost: 8 bytes a class and client, once.
    """

    task: ClassVar[str] = "typed_node"
    default: ClassVar[bool] = True

    def score(self, shards: Sequence[TypedGraph]) -> dict[str, float]:
        """Accuracy over all clients' validation and test nodes."""
        counts = [np.bincount(shard.label[shard.rows("train")], minlength=len(shard.classes)) for shard in shards]
        best = int(np.sum(counts, axis=0).argmax())
        found = {}
        for split in SCORED_SPLITS:
            labels = np.concatenate([shard.label[shard.rows(split)] for shard in shards])
            found[split] = float((labels == best).mean()) if len(labels) else float("nan")
        return found
