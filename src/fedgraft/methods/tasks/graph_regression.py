"""Graph regression: tell a number of a whole graph."""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

from torch import nn

from fedgraft.contracts import Labels, NumberObjective, OwnInputs, PlainModel
from fedgraft.domains.graphs.graph_task import GraphData, GraphTask
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.labels.metric_choice import MetricByData
from fedgraft.domains.labels.numbers import Numbers
from fedgraft.methods.inputs.raw_features import RawFeatures
from fedgraft.methods.losses.squared_error import SquaredError
from fedgraft.wire.layouts import Arrays


@dataclass(frozen=True)
class GraphRegression(MetricByData[GraphShard, GraphData], GraphTask):
    """Graph regression: tell a number of a whole graph.

    The model is that of the task `graph`, with one output in place of classes. Clients learn in a unit of their own, in
    which their training graphs have mean 0 and variance 1; scores and answers are in the user's. The head that tells
    the number stays at the client, and so does its unit.

    Asked: tables `nodes` and `edges` with the columns of the data set `graphs`; and `graphs`, with columns "graph" and
    perhaps "client", where not one client answers for all, or in another order than that of `nodes`.

    Source: as of the task `graph`.
    Differs: each client standardises by its own training graphs; nothing is published for it.

    Args:
        encoder: the convolutions; the recipe's [model].
        inputs: what is read of nodes' attributes; the recipe's [inputs].
        objective: what training makes small; the recipe's [loss].
        judged: what a model is chosen by and told as, "rmse", "mae" or "r2"; taken from evaluation.metric.
        normalise: "batch" or "nothing", behind every convolution.
        places: whether the first layer sees nodes' places beside their features.
        structure: whether the model has a second channel that sees places alone; sharing methods that need one set it.
        walks: longest random walk that places are told by, >= 1.
        degrees: largest degree that places are told by, >= 1.
        wl: steps of Weisfeiler-Lehman colours whose counts the model sees beside the convolutions, >= 0; 0 = none.
        wl_width: buckets that colours are hashed into, >= 1.
        wl_scale: length of a graph's vector of counts, > 0.
        wl_shared: whether the layer that reads counts travels; only where counts are all that is read.
        edge_features: numbers that an edge carries; 0 = as the data have.
        edge_weights: whether edges have weights; taken from the data.
    """

    objective: NumberObjective = SquaredError()
    inputs: OwnInputs = RawFeatures()
    judged: str = ""

    @cached_property
    def labels(self) -> Labels:
        """One number."""
        return Numbers(self.objective, self.judged or "rmse")

    @property
    def tells_classes(self) -> bool:
        """False."""
        return False

    def plain(self, model: nn.Module, shard: GraphShard | None, shared: Arrays) -> PlainModel:
        """The client's first layer, the convolutions, the readout and the head, whose number is in the user's unit."""
        own = cast(GraphShard, shard)
        return self.plain_of(model, own, self.unit_of(own))
