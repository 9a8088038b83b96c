"""Node regression: tell a number of a node of one graph that is cut over clients."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, cast

from torch import nn

from fedgraft.contracts import ExchangeOfNodes, Inputs, Labels, NumberObjective, PlainModel, SilentExchange, part
from fedgraft.domains.labels.numbers import Numbers, unit_in, unit_of
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.task.answers import NodeAnswers
from fedgraft.domains.nodes.task.node_reader import plain_nodes
from fedgraft.domains.nodes.task.node_task import NodeTask
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.inputs.propagated import Propagated
from fedgraft.methods.losses.squared_error import SquaredError
from fedgraft.wire.layouts import Arrays


@dataclass(frozen=True)
class NodeRegression(NodeTask):
    """Node regression: tell a number of a node of one graph that is cut over clients.

    The model and what clients tell each other are those of the task `node`, with one output in place of classes. Before
    training each client publishes how many training nodes it has, their mean and their variance; all learn in the unit
    in which all clients' training nodes have mean 0 and variance 1. Scores and answers are in the user's.

    Asked: a table `nodes` with columns "node", perhaps "client" and, of new nodes, their features; for new nodes also
    `edges` with "source" and "target", and perhaps whose these are, "source_client" and "target_client". One client's
    own tables: `data`, its nodes with features, and `data-edges`.

    Source: as of the task `node`.
    Differs: no generator of neighbours, no smoothing of answers, and gradients are autograd's.

    Args:
        inputs: what is read of features; the recipe's [inputs].
        encoder: the convolutions; the recipe's [model].
        objective: what training makes small; the recipe's [loss].
        exchange: what clients tell each other of nodes; the recipe's [exchange].
        judged: what a model is chosen by and told as, "rmse", "mae" or "r2"; taken from evaluation.metric.
        head: "linear", a linear layer behind the encoder's convolutions, or "convolution", one more of these.
        features: their width; 0 = as the data have.
        edge_features: numbers that an edge carries; 0 = as the data have.
        edge_weights: whether edges have weights; taken from the data.
        sparse: whether features are sparse; taken from the data where `features` is 0.
    """

    classes: ClassVar[int] = 0
    class_names: ClassVar[tuple[str, ...]] = ()  # type: ignore[misc]

    inputs: Inputs = Propagated()
    objective: NumberObjective = SquaredError()
    exchange: ExchangeOfNodes | SilentExchange = Halo()
    judged: str = ""

    @cached_property
    def labels(self) -> Labels:
        """One number."""
        return Numbers(self.objective, self.judged or "rmse")

    @part
    def asked(self) -> NodeAnswers:
        """What is answered of nodes, old and new."""
        return NodeAnswers(self)

    @property
    def tells_classes(self) -> bool:
        """False."""
        return False

    def prepare(self, shard: NodeShard, shared: Arrays) -> NodeData:
        """As of the task `node`, with numbers in the common unit; in the client's own where nothing is known of it."""
        unit = unit_of(self.labels, shard, shared)
        scaled = replace(shard, label=unit.standardize(shard.label))
        data = super().prepare(scaled, shared)
        data.unit = unit.around(self.labels.constant(unit.inverse(data.label[data.rows["train"]])))
        return data

    def plain(self, model: nn.Module, shard: NodeShard | None, shared: Arrays) -> PlainModel:
        """The convolutions and the head; numbers in the user's unit."""
        return plain_nodes(self, cast(NodeModel, model), (), unit_in(shared))
