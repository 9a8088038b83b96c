"""What tasks about nodes do to average features before training, inside clients."""

from dataclasses import replace
from functools import cached_property

from fedgraft.domains.examples import scaled
from fedgraft.domains.nodes.base.feature_coding import FeatureCoding
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.smoothed_inputs import Joined, SmoothedInputs


class AveragedInputs:
    """Average features before training.

    Attributes:
        propagate: hops.
        joined: how the model reads what comes of them.
        scale: length of rows of features; 0 = as they are.
        features: their width.
        sparse: their kind.
    """

    propagate: int
    joined: Joined
    scale: float
    features: int
    sparse: bool

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
