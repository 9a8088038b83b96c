"""Measure how well scores tell pairs with an edge from pairs without: AUC, average precision, hits@k."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.baseline import Baseline
from fedgraft.contracts.scores import add
from fedgraft.contracts.values import SCORED_SPLITS, Sums
from fedgraft.domains.links.shards import LinkShard

Scores = NDArray[np.floating]
SUMS: Final = ("edges", "auc", "precision", "hits")
"""Edges held out; and over these, sums of what their clients' rankings reach."""
HITS_AT: Final = "hits_at_"
"""What the name of that measure begins with, before how many such pairs it looks at."""
HITS: Final = 10
"""Pairs without an edge that hits@k looks at, unless a task says otherwise."""


def ranked(scores: Scores, edge: NDArray[np.bool_], k: int) -> tuple[float, float, float]:
    """Return AUC, average precision and hits@k of one ranking; nan for scores that are not finite.

    Equal scores count as half a pair of the AUC; average precision takes them at one threshold. Pairs without an edge
    weigh together as much as those with one, so that average precision does not depend on how many were drawn. Hits@k
    is the share of edges above the k-th best pair without (Hu et al., "OGB", NeurIPS 2020); with fewer such pairs every
    edge is.

    Scores are float [n], larger for a likelier edge; `edge` is bool [n], some of it true and some not; k >= 1.
    """
    if not np.isfinite(scores).all():
        return (float("nan"),) * 3
    yes, no = scores[edge], np.sort(scores[~edge])
    below, not_above = (np.searchsorted(no, yes, side) for side in ("left", "right"))
    auc = float((below + not_above).mean() / 2 / len(no))
    ascending = np.sort(yes)
    above = len(yes) - np.searchsorted(ascending, yes, "left")
    wrong = (len(no) - below) * (len(yes) / len(no))
    hits = float((yes > no[-k]).mean()) if k <= len(no) else 1.0
    return auc, float((above / (above + wrong)).mean()), hits


def sums_of(shard: LinkShard, scores: Scores, k: int = HITS) -> dict[str, Sums]:
    """Return {split: sums over its edges}: each edge counts as much as the ranking of its client reaches.

    Scores are float [n], of the pairs of the shard; `k` is that of hits@k.
    """
    sums = {}
    for split in SCORED_SPLITS:
        totals = np.zeros(len(SUMS))
        for part in shard.rankings(split):
            yes, edge = float(shard.edge[part].sum()), shard.edge[part]
            totals += yes * np.array([1.0, *ranked(scores[part], edge, k)])
        sums[split] = dict(zip(SUMS, totals.tolist(), strict=True))
    return sums


def loss_of(shard: LinkShard, odds: Scores, split: str) -> float:
    """Return the sum over a split's edges of their client's mean cross-entropy, of pairs with and without one alike.

    `odds` are float [n], log odds of the shard's pairs; the split is "validation" or "test".
    """
    total = 0.0
    for part in shard.rankings(split):
        edge = shard.edge[part]
        losses = np.logaddexp(0.0, np.where(edge, -1.0, 1.0) * odds[part].astype(np.float64))
        total += float(edge.sum() * (losses[edge].mean() + losses[~edge].mean()) / 2)
    return total


def measures(sums: Sums, k: int = HITS) -> dict[str, float]:
    """Return means over edges; nan without any."""
    names = {"auc": "auc", "average_precision": "precision", f"{HITS_AT}{k}": "hits"}
    return {name: sums[of] / sums["edges"] if sums.get("edges") else float("nan") for name, of in names.items()}


class PairScores(Baseline[LinkShard]):
    """Score pairs of nodes, each client's by what it knows itself."""

    task: ClassVar[str] = "link"
    default: ClassVar[bool] = True
    local: ClassVar[bool] = True

    @abstractmethod
    def scores(self, shard: LinkShard) -> Scores:
        """Return scores of one client's pairs, float [n]."""

    def score(self, shards: Sequence[LinkShard]) -> dict[str, float]:
        """AUC of held-out edges, and other measures of those for test."""
        return self.judged(shards, "auc")

    def judged(self, shards: Sequence[LinkShard], labels: str) -> dict[str, float]:
        """Return the metric of this name on validation and test, and other measures of test."""
        k = int(labels.removeprefix(HITS_AT)) if labels.startswith(HITS_AT) else HITS
        sums = [sums_of(shard, self.scores(shard), k) for shard in shards]
        values = {split: measures(add(each[split] for each in sums), k) for split in SCORED_SPLITS}
        others = {name: value for name, value in values["test"].items() if name != labels}
        return {**{split: values[split][labels] for split in SCORED_SPLITS}, **others}
