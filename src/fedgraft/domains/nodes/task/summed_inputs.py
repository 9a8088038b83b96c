"""What tasks about nodes do to average features before training, inside clients and over edges between them."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from fedgraft.contracts.staged_statistics import StagedTask
from fedgraft.domains.examples import Features, scaled
from fedgraft.domains.nodes.base.feature_coding import FeatureCoding
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.input_sums import InputSums
from fedgraft.domains.nodes.training.smoothed_inputs import Joined, SmoothedInputs, Within, averages
from fedgraft.errors import require
from fedgraft.wire.layouts import Arrays, Layout


def check_options(node: Any, name: str) -> None:
    """Raise `InputError` for options of smoothed inputs that are at odds; `name` is the task's."""
    for fits, where in ((node.propagate > 0, "propagate is 0"), (not node.share_features, "share_features is true")):
        require(fits or not node.share_sums, f"{name}.share_sums", f"false where {where}", node.share_sums)


class SummedInputs(StagedTask[NodeShard, NodeData]):
    """Average features before training; a task that inherits it publishes sums over edges between clients, if asked to.

    Attributes:
        propagate: hops.
        joined: how the model reads what comes of them.
        share_sums: whether edges between clients count.
        least: the fewest nodes behind a sum that leaves its clients.
        scale: length of rows of features; 0 = as they are.
        features: their width.
        sparse: their kind.
        edge_weights: whether edges have weights.
    """

    propagate: int
    joined: Joined
    share_sums: bool
    least: int
    scale: float
    features: int
    sparse: bool
    edge_weights: bool

    @cached_property
    def inputs(self) -> SmoothedInputs:
        """How the model's inputs are made of features."""
        return SmoothedInputs(self.propagate, self.joined)

    @property
    def input_width(self) -> int:
        """Number of columns that the first layer reads of a node."""
        return self.inputs.width(self.features)

    @property
    def coding(self) -> FeatureCoding:
        """The code of prepared rows."""
        return FeatureCoding(self.inputs.blocks * self.features, self.sparse)

    def scaled(self, shard: NodeShard) -> NodeShard:
        """Return the shard with features of the length that they are to have."""
        if not (self.scale and shard.scale_rows):
            return shard
        return replace(shard, features=scaled(shard.features, self.scale))

    def averaged(self, shard: NodeShard, shared: Arrays) -> NodeShard:
        """Return a shard of scaled features with what the model reads in their place, by what its client was told."""
        return self.inputs.of(shard, self._sums.sums(shard.own, shared) if self.share_sums else ())

    @property
    @abstractmethod
    def statistics_layout(self) -> Layout:
        """Edges to nodes of others."""
        return self._sums.statistics_layout if self.share_sums else Layout(())

    @abstractmethod
    def statistics(self, shard: NodeShard) -> Arrays:
        """Return them."""
        return self._sums.statistics(shard) if self.share_sums else {}

    @abstractmethod
    def check(self, statistics: Arrays) -> None:
        """Sizes and order."""
        if self.share_sums:
            self._sums.check(statistics)

    @property
    @abstractmethod
    def combined_layout(self) -> Layout:
        """Which sums to tell, and those that were told."""
        return self._sums.combined_layout if self.share_sums else Layout(())

    @abstractmethod
    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Return them."""
        return self._sums.combine(statistics) if self.share_sums else {}

    @property
    def stages(self) -> int:
        """A hop each."""
        return self.propagate if self.share_sums else 0

    @property
    def further_layout(self) -> Layout:
        """Sums of rows."""
        return self._sums.further_layout

    def further(self, shard: NodeShard, shared: Arrays, stage: int) -> Arrays:
        """Return those of rows as they are after the hops before, for nodes elsewhere."""
        return self._sums.further(self.scaled(shard), self.hop_rows(shard, shared, stage - 1)[-1], shared)

    def hop_rows(self, shard: NodeShard, shared: Arrays, hops: int) -> list[Features]:
        """Return features after 0, 1 .. so many hops, [own, f] each, by what was told of these."""
        whole = self.scaled(shard)
        return averages(whole.features, Within.of(whole), self._sums.sums(shard.own, shared)[:hops])

    def check_further(self, first: Arrays, further: Arrays) -> None:
        """Sizes and finite numbers."""
        self._sums.check_further(first, further)

    @cached_property
    def _sums(self) -> InputSums:
        return InputSums(FeatureCoding(self.features, self.sparse), self.propagate, self.least, self.edge_weights)
