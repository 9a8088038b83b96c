"""Node regression: tell a number of a node of one graph that is cut over clients."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from fedgraft.contracts.labels import Labels
from fedgraft.contracts.loss import NumberObjective
from fedgraft.domains.labels.judging import JudgedByData
from fedgraft.domains.labels.numbers import Numbers
from fedgraft.domains.labels.shared_unit import UNIT, SharedUnit
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.task.informed_nodes import InformedNodes
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.methods.losses.squared_error import SquaredError
from fedgraft.wire.layouts import Arrays


@dataclass(frozen=True)
class NodeRegression(SharedUnit[NodeShard, NodeData], JudgedByData[NodeShard, NodeData], InformedNodes):
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
        encoder: the convolutions; the recipe's [model].
        objective: what training makes small; the recipe's [loss].
        judged: what a model is chosen by and told as, "rmse", "mae" or "r2"; taken from evaluation.metric.
        head: "linear", a linear layer behind the encoder's convolutions, or "convolution", one more of these.
        neighbours: most neighbours of a node that take part in training, per layer, drawn anew for every batch; 0 =
            all.
        halo: most neighbours elsewhere of a node, chosen once for the whole run; 0 = all.
        share_features: whether clients publish the features of nodes with neighbours elsewhere, once.
        share_states: whether clients tell each other hidden states of such nodes.
        sealed: whether the server hands these on unread, each row encrypted by itself.
        aggregates: whether every node gets, once, the sum of all its neighbours' features; states are not shared then.
        fresh: whether own neighbours outside a batch are computed anew; always where states are not shared.
        pull: what a client that asks to refresh is sent: what "changed", or what it "asked" for.
        scale: length to which every node's features are scaled, >= 0; 0 leaves them as they are.
        features: their width; 0 = as the data have.
        edge_features: numbers that an edge carries; 0 = as the data have.
        edge_weights: whether edges have weights; taken from the data.
        sparse: whether features are sparse; taken from the data where `features` is 0.
        propagate: hops over which features are averaged inside each client before training, >= 0; 0 = none.
        joined: how they are read after these hops: "concatenate", "last", "mean" or "attention".
    """

    classes: ClassVar[int] = 0
    class_names: ClassVar[tuple[str, ...]] = ()

    objective: NumberObjective = SquaredError()
    judged: str = ""

    @cached_property
    def labels(self) -> Labels:
        """One number."""
        return Numbers(self.objective, self.judged or "rmse")

    @property
    def tells_classes(self) -> bool:
        """False."""
        return False

    def prepare(self, shard: NodeShard, shared: Arrays) -> NodeData:
        """As of the task `node`, with numbers in the common unit; in the client's own where nothing is known of it."""
        unit = self.unit_of(shard, shared)
        scaled = replace(shard, label=unit.told(shard.label))
        data = super().prepare(scaled, {name: array for name, array in shared.items() if name != UNIT})
        data.unit = unit.around(self.labels.constant(unit.meant(data.label[data.rows["train"]])))
        return data
