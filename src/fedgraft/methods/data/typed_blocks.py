"""A made-up graph of papers, authors and venues, for demonstrations and tests."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Interval
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.contracts.data import Data
from fedgraft.contracts.option_groups import Grouped
from fedgraft.contracts.randomness import generator
from fedgraft.contracts.ranges import PositiveInt, Proportion
from fedgraft.contracts.values import Indices
from fedgraft.domains.typed.partitions import TypedPartition
from fedgraft.domains.typed.shards import Ends, TypedGraph
from fedgraft.errors import require

WORDS = 20
"""Words of a paper, repeats included; order of magnitude of titles."""
WRITERS = 3
"""Authors of a paper, repeats included."""


@dataclass(frozen=True)
class TypedBlocks(Data[TypedGraph], Grouped):
    """A generator of one graph of papers, authors and venues to classify the papers of, cut over clients.

    Classes are communities of equal size: a paper has three authors (repeats count once) and a venue of its own class,
    but for some drawn from all. Its words tell something of its class; those of papers with the same authors or venue
    tell more, so metapaths help.

    Source: Holland et al., "Stochastic blockmodels: first steps", Social Networks 1983; types and features are ours.
    Differs: each node of a community is as likely to be joined to.

    Args:
        papers: of each client on average, >= 5.
        clients: over how many the papers are dealt, >= 1.
        classes: how many, 2..papers * clients / 5.
        authors: of each class, >= 1.
        venues: of each class, >= 1.
        features: how many words there are, >= classes.
        signal: how many of a paper's 20 words are drawn from its class's own part of the words and not from all, on
            average, in [0, 20].
        noise: share of authors and venues drawn from all classes, in [0, 1]; with 1 metapaths tell nothing.
        sparse: whether features are a sparse matrix.
    """

    task: ClassVar[str] = "typed_node"

    papers: Annotated[int, Ge(5)] = 100
    clients: PositiveInt = 10
    classes: int = 4
    authors: PositiveInt = 20
    venues: PositiveInt = 3
    features: int = 64
    signal: Annotated[float, Interval(ge=0, le=WORDS)] = 4.0
    noise: Proportion = 0.3
    sparse: bool = False
    dealt_by: TypedPartition = field(default=TypedPartition(), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        most = self.papers * self.clients // 5
        require(2 <= self.classes <= most, "TypedBlocks.classes", f"2..{most} (5 papers each)", self.classes)
        require(self.features >= self.classes, "TypedBlocks.features", f">= {self.classes}", self.features)

    def load(self, seed: int) -> list[TypedGraph]:
        """Load one shard per client; `seed` makes the graph as well as its partition and split."""
        return self.dealt_by.dealing("TypedBlocks", self.clients).deal(self.graph(seed), seed)

    def graph(self, seed: int) -> TypedGraph:
        """Make the whole, before it is dealt, without a split."""
        g = generator(seed, "typed blocks")
        papers = self.papers * self.clients
        label = g.permutation(np.arange(papers) % self.classes)
        words = self._words(g, label)
        counts = {"paper": papers, "author": self.authors * self.classes, "venue": self.venues * self.classes}
        return TypedGraph(
            name="typed_blocks",
            target="paper",
            ids={kind: np.array([f"{kind} {k}" for k in range(count)], dtype=object) for kind, count in counts.items()},
            features=sparse.csr_matrix(words) if self.sparse else words,
            label=label,
            classes=tuple(f"class {each}" for each in range(self.classes)),
            split=np.full(papers, -1, np.int8),
            edges={
                ("paper", "author"): self._joined(g, label, self.authors, WRITERS),
                ("paper", "venue"): self._joined(g, label, self.venues, 1),
            },
            metapaths=("paper-author-paper", "paper-venue-paper"),
        )

    def _joined(self, g: np.random.Generator, label: Indices, each: int, count: int) -> Ends:
        """Edges of papers to `count` nodes of another type, of which a class has `each`; those of one class follow."""
        paper = np.repeat(np.arange(len(label)), count)
        strays = g.random(len(paper)) < self.noise
        own = np.where(strays, g.integers(self.classes, size=len(paper)), label[paper])
        ends = np.stack([paper, own * each + g.integers(each, size=len(paper))])
        return np.unique(ends, axis=1).astype(np.int32)

    def _words(self, g: np.random.Generator, label: Indices) -> NDArray[np.float32]:
        """Float32 [papers, features]: 1 for each word that a paper has."""
        bounds = np.arange(self.classes + 1) * self.features // self.classes
        own = g.random((len(label), WORDS)) < self.signal / WORDS
        low = np.where(own, bounds[label][:, None], 0)
        high = np.where(own, bounds[label + 1][:, None], self.features)
        words = np.zeros((len(label), self.features), np.float32)
        words[np.arange(len(label))[:, None], g.integers(low, high)] = 1.0
        return words
