"""Node regression: tell a number of a node of one graph that is cut over clients."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from fedgraft.contracts import Draw, Sums
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.queries import Asked, numbered
from fedgraft.domains.nodes.task.node_task import NodeTask
from fedgraft.domains.nodes.training.client_graph import NodeData
from fedgraft.domains.regression import Floats, Regression, Unit, errors_in_training, groups_of, sums_of
from fedgraft.domains.shared_unit import UNIT, check_moments, moments_of, unit_in, with_moments, with_unit, with_units
from fedgraft.errors import require
from fedgraft.wire.layouts import Array, Arrays, Layout


@dataclass(frozen=True)
class NodeRegression(NodeTask, Regression[NodeShard, NodeData]):
    """Node regression: tell a number of a node of one graph that is cut over clients.

    The model and what clients tell each other are those of the task `node`, with one output in place of classes. Before
    training each client publishes how many training nodes it has, their mean and their variance; all learn in the unit
    in which all clients' training nodes have mean 0 and variance 1. Scores and answers are in the user's.

    Asked: a table `nodes` with columns "node", perhaps "client" and, of new nodes, their features; for new nodes also
    `edges` with "source" and "target". One client's own tables: `data`, its nodes with features, and `data-edges`.

    Source: as of the task `node`; Huber, "Robust Estimation of a Location Parameter", 1964 (`huber`).
    Differs: no generator of neighbours, no smoothing of answers, and gradients are autograd's.

    Args:
        encoder: the convolutions; the recipe's [model].
        huber: error, in standard deviations, above which a loss is linear and no longer squared, >= 0; 0 = none.
        head: "linear", a linear layer behind the encoder's convolutions, or "convolution", one more of these.
        neighbours: most neighbours of a node that take part in training, per layer, drawn anew for every batch; 0 =
            all.
        halo: most neighbours elsewhere of a node, chosen once for the whole run; 0 = all.
        share_features: whether clients publish the features of nodes with neighbours elsewhere, once.
        share_states: whether clients tell each other hidden states of such nodes.
        aggregates: whether every node gets, once, the sum of all its neighbours' features; states are not shared then.
        fresh: whether own neighbours outside a batch are computed anew; always where states are not shared.
        pull: what a client that asks to refresh is sent: what "changed", or what it "asked" for.
        dropout: share of each hidden layer dropped in training, in [0, 1).
        scale: length to which every node's features are scaled, >= 0; 0 leaves them as they are.
        features: their width; 0 = as the data have.
        sparse: whether features are sparse; taken from the data where `features` is 0.
    """

    huber: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.huber >= 0, "NodeRegression.huber", ">= 0 (0 = squared errors)", self.huber)

    @property
    def classes(self) -> int:
        """0: nodes have numbers."""
        return 0

    @property
    def class_names(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def statistics_layout(self) -> Layout:
        """What the task `node` publishes, and how many training nodes there are, their mean and variance."""
        return with_moments(super().statistics_layout)

    def statistics(self, shard: NodeShard) -> Arrays:
        """Return what a client publishes."""
        return {**super().statistics(shard), **moments_of(_numbers(shard))}

    def check(self, statistics: Arrays) -> None:
        """Finite numbers, none of the counts and variances negative; the rest as of the task `node`."""
        super().check(statistics)
        check_moments(statistics)

    @property
    def combined_layout(self) -> Layout:
        """What the task `node` tells clients, and the unit."""
        return with_unit(super().combined_layout)

    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Return everybody's halo, and the unit that all have in common."""
        return with_units(super().combine(statistics), statistics)

    def common(self, shared: Arrays) -> Arrays:
        """Return the unit."""
        return {name: array for name, array in shared.items() if name == UNIT}

    def prepare(self, shard: NodeShard, shared: Arrays) -> NodeData:
        """As of the task `node`, with numbers in the common unit; in the client's own where nothing is known of it."""
        unit = unit_in(shared) if UNIT in shared else Unit.of(_numbers(shard))
        told = replace(shard, label=unit.told(shard.label))
        data = super().prepare(told, {name: array for name, array in shared.items() if name != UNIT})
        data.unit = unit
        return data

    def model(self, g: torch.Generator, variant: object = None) -> nn.Module:
        """Return a model, the same for all clients."""
        return self.network(1, g)

    def losses_among(self, outputs: Tensor, data: NodeData) -> Array:
        """Return errors of the training nodes."""
        nodes = data.rows["train"]
        numbers = torch.from_numpy(data.label[nodes])
        return errors_in_training(outputs[:, 0].cpu()[nodes], numbers, self.huber).numpy(force=True)

    def loss(self, model: nn.Module, data: NodeData, draw: Draw, encoded: Tensor | None) -> Tensor:
        """Return errors of the draw's nodes."""
        computed = self._computed(data, draw)
        told = data.logits(model, computed, model.training)[:, 0]
        return errors_in_training(told, computed.label.to(told.device), self.huber)

    def evaluate(self, model: nn.Module, data: NodeData) -> dict[str, Sums]:
        """Return sums of errors in the user's unit."""
        told, known = self.scored(model, data), data.unit.meant(data.label)
        train = data.rows["train"]
        mean = float(known[train].mean()) if len(train) else data.unit.mean
        return {split: sums_of(told[data.rows[split]], known[data.rows[split]], mean) for split in SCORED_SPLITS}

    def scored(self, model: nn.Module, data: NodeData) -> Floats:
        """Return the numbers of all own nodes, float64 [own], in the user's unit."""
        return data.unit.meant(data.scored(model)[: data.own, 0].numpy())

    def represent(self, model: nn.Module, data: NodeData) -> tuple[Array, Array] | None:
        """The last hidden layer of the test nodes, and in which fifth of these each number is."""
        test = data.rows["test"]
        hidden, numbers = data.hidden(model)[test], data.label[test]
        return hidden, groups_of(numbers)

    def predict(
        self, model: nn.Module, shard: NodeShard, remembered: Mapping[str, Any], asked: Asked
    ) -> dict[str, Array]:
        """The number of each node, in the user's unit, as the task `node` tells its class."""
        return numbered(asked, self.scored(model, self.with_asked(shard, remembered, asked)))


def _numbers(shard: NodeShard) -> Floats:
    """The numbers of a client's training nodes."""
    found: Floats = shard.label[shard.rows("train")]
    return found
