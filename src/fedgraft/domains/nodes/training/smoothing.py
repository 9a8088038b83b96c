"""Answers smoothed over edges: polynomials of the neighbours' mean, of what a model says and of its known errors.

With M the mean over neighbours, P the model's probabilities and E its errors on training nodes (0 elsewhere), answers
become

    sum_k w_k(a) M^k P + g sum_k w_k(b) M^k E,      w_k(a) = a (1 - a)^k for k < hops, w_hops(a) = (1 - a)^hops.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.smoothing import Border, Means
from fedgraft.contracts.values import Indices
from fedgraft.domains.nodes.base.shards import NodeShard

Singles = NDArray[np.float32]

OWN_SHARES: Final = (1.0, 0.9, 0.7, 0.5, 0.3, 0.15)
"""a: the share of a node's own answer."""
ERROR_SHARES: Final = (0.2, 0.5, 0.8)
"""b: the same for errors; the first, second, third hop weighs most."""
ERROR_WEIGHTS: Final = (1.0, 2.0, 4.0)
"""g: how many times errors count."""


class Choice(NamedTuple):
    """A way of smoothing.

    Args:
        own_share: a, in (0, 1]; 1 leaves answers alone.
        error_share: b, in (0, 1].
        error_weight: g, >= 0; 0 leaves errors out.
    """

    own_share: float
    error_share: float = 1.0
    error_weight: float = 0.0


class Hop(NamedTuple):
    """What is known after some hops: M^k P and M^k E, float32 [own, classes] each."""

    answers: Singles
    errors: Singles


@dataclass(frozen=True, eq=False)
class Neighbours:
    """A client's nodes and all their neighbours, whatever the model sees of them."""

    shard: NodeShard

    @cached_property
    def border(self) -> Border:
        """The edges to nodes of others."""
        shard = self.shard
        row = np.repeat(np.arange(shard.own), shard.degree)
        out = shard.senders >= shard.own
        nodes, counts = np.unique(row[out], return_counts=True)
        halo = shard.senders[out] - shard.own
        owner, place = (each[halo].astype(np.int64) for each in (shard.halo_owner, shard.halo_place))
        return Border(shard.own, nodes.astype(np.int64), counts.astype(np.int64), owner, place)

    @cached_property
    def _within(self) -> sparse.csr_matrix:
        shard = self.shard
        row = np.repeat(np.arange(shard.own), shard.degree)
        kept = shard.senders < shard.own
        edges = np.ones(int(kept.sum()), np.float32), (row[kept], shard.senders[kept])
        return sparse.csr_matrix(edges, shape=(shard.own, shard.own))

    @cached_property
    def _own_degree(self) -> Singles:
        return np.asarray(np.diff(self._within.indptr).astype(np.float32))

    def mean(self, rows: Singles, means: Means | None, width: int) -> Singles:
        """Return the mean of `rows`, [own, classes], over neighbours; those of a node without any are its own.

        `means` are of the neighbours elsewhere, for the first nodes of the border: new nodes have none. They say
        nothing of the last of `width` classes, as it is what is missing to a sum that is known.
        """
        total, count = np.asarray(self._within @ rows, np.float32), self._own_degree.copy()
        if means is not None:
            known = np.flatnonzero(means.known)
            nodes, weight = self.border.nodes[known], self.border.counts[known].astype(np.float32)
            total[nodes] += weight[:, None] * means.rows[known, :width]
            count[nodes] += weight
        alone = count == 0
        total[alone], count[alone] = rows[alone], 1
        return total / count[:, None]

    def errors(self, answers: Singles) -> Singles:
        """Return what answers lack of the labels of training nodes, [own, classes]; 0 for other nodes."""
        shard, train = self.shard, self.shard.rows("train")
        errors = np.zeros_like(answers)
        errors[train] = -answers[train]
        errors[train, shard.label[train]] += 1
        return errors


@dataclass(frozen=True)
class Smoothing:
    """Smooth a client's answers so many hops far, given the means of neighbours elsewhere; there are >= 1 classes.

    `share_labels` says whether errors on training nodes leave their client; its own nodes learn of each other's anyway.
    """

    hops: int
    classes: int
    share_labels: bool

    @property
    def row_width(self) -> int:
        """Numbers in a row: probabilities but the last, which is 1 without them; likewise errors, whose sum is 0."""
        return (self.classes - 1) * (2 if self.share_labels else 1)

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """All ways of smoothing; the first leaves answers alone, and gentler ones come first."""
        shares = ERROR_SHARES if self.hops > 1 else ERROR_SHARES[:1]
        plain = [Choice(share) for share in OWN_SHARES]
        return (*plain, *(Choice(*each) for each in product(OWN_SHARES, shares, ERROR_WEIGHTS)))

    def rows(self, graph: Neighbours, answers: Singles, means: Sequence[Means]) -> Singles:
        """Return the rows of the border after so many hops as there are means, [b, row_width]."""
        answers, errors = (each[graph.border.nodes, :-1] for each in self._after(graph, answers, means)[-1])
        return np.concatenate([answers, errors], axis=1) if self.share_labels else answers

    def smoothed(self, graph: Neighbours, answers: Singles, means: Sequence[Means], choice: Choice) -> Singles:
        """Return the answers as a choice smooths them, [own, classes]: positive, and 1 in sum.

        Without means, as for a client that was not there, nothing of others is known.
        """
        return _answered(self._after(graph, answers, self._all(means)), choice)

    def right(self, graph: Neighbours, answers: Singles, means: Sequence[Means]) -> NDArray[np.uint32]:
        """Return how many validation nodes each choice answers rightly, [choices]."""
        label, every = self.validated(graph, answers, means)
        return np.array([int((each.argmax(1) == label).sum()) for each in every], np.uint32)

    def validated(
        self, graph: Neighbours, answers: Singles, means: Sequence[Means]
    ) -> tuple[Indices, Iterator[Singles]]:
        """Return labels of validation nodes, int64 [n], and each choice's answers to them, [n, classes]."""
        rows = graph.shard.rows("validation")
        hops = [Hop(*(each[rows] for each in hop)) for hop in self._after(graph, answers, self._all(means))]
        return graph.shard.label[rows], (_answered(hops, choice) for choice in self.choices)

    def _all(self, means: Sequence[Means]) -> Sequence[Means | None]:
        """The means of every hop; None for those that nobody has told."""
        return [*means, *[None] * (self.hops - len(means))]

    def _after(self, graph: Neighbours, answers: Singles, means: Sequence[Means | None]) -> list[Hop]:
        """What is known after no hop, after the first, and so on."""
        hops = [Hop(answers, graph.errors(answers))]
        for each in means:
            of_answers = None if each is None else _part(each, self.classes, 0, 1.0)
            of_errors = None if each is None or not self.share_labels else _part(each, self.classes, 1, 0.0)
            last = hops[-1]
            pairs = (last.answers, of_answers), (last.errors, of_errors)
            hops.append(Hop(*(graph.mean(rows, known, self.classes) for rows, known in pairs)))
        return hops


def _part(means: Means, classes: int, number: int, total: float) -> Means:
    """One half of the rows, with the last class's numbers, which are what is missing to a total."""
    first = means.rows[:, number * (classes - 1) : (number + 1) * (classes - 1)]
    return Means(np.concatenate([first, total - first.sum(axis=1, keepdims=True)], axis=1), means.known)


def _answered(hops: Sequence[Hop], choice: Choice) -> Singles:
    total = _weighted([hop.answers for hop in hops], choice.own_share)
    if choice.error_weight:
        total = total + np.float32(choice.error_weight) * _weighted([hop.errors for hop in hops], choice.error_share)
    positive = np.maximum(total, np.float32(1e-6))
    return np.asarray(positive / positive.sum(axis=1, keepdims=True))


def _weighted(parts: Sequence[Singles], share: float) -> Singles:
    """w_0 parts[0] + ... + w_K parts[K], as in the module's docstring."""
    total = parts[-1]
    for part in reversed(parts[:-1]):
        total = np.float32(share) * part + np.float32(1 - share) * total
    return total
