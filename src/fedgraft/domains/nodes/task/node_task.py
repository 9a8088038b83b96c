"""What tasks about nodes share: halos, neighbours, the set-up, questions, and what follows from the kind of label."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from fedgraft.contracts import (
    SCORED_SPLITS,
    SPLITS,
    Batch,
    ExchangeOfNodes,
    Indices,
    Inputs,
    LayeredEncoder,
    Linear,
    LinearTask,
    Loss,
    NetworkEncoder,
    NonNegativeInt,
    Objective,
    PooledTask,
    Regression,
    SilentExchange,
    Sums,
    part,
)
from fedgraft.domains.edge_data.read_edges import carried_by, note_unread
from fedgraft.domains.examples import scaled
from fedgraft.domains.labels.metric_choice import MetricByData
from fedgraft.domains.nodes.base.features import FeatureCoding, FeatureRows
from fedgraft.domains.nodes.base.memory_check import check_inputs, check_room
from fedgraft.domains.nodes.base.shards import NodeShard, merge_shards
from fedgraft.domains.nodes.extensions.extension import NodeExtension
from fedgraft.domains.nodes.task.variants import linear_of, regression_of
from fedgraft.domains.nodes.training.client_graph import Computed, NodeData, around_of
from fedgraft.domains.nodes.training.exchange import NodeExchange
from fedgraft.domains.nodes.training.halo_setup import HaloSetup, inside, thinned
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.domains.nodes.training.neighbour_sampling import NeighbourBatches
from fedgraft.domains.nodes.training.neighbour_sums import Aggregates
from fedgraft.domains.nodes.training.smoothed_inputs import attention_of, prepared, rows_of
from fedgraft.domains.publications import Publications, Published
from fedgraft.errors import InputError, require
from fedgraft.wire.layouts import Array, Arrays


@dataclass(frozen=True)
class NodeTask(MetricByData[NodeShard, NodeData], LinearTask[NodeShard, NodeData], PooledTask[NodeShard, NodeData]):
    """Answer something of nodes of one graph that is cut over clients; options as of `Node`."""

    encoder: LayeredEncoder | NetworkEncoder
    inputs: Inputs
    objective: Objective
    exchange: ExchangeOfNodes | SilentExchange
    head: Literal["linear", "convolution"] = "linear"
    features: NonNegativeInt = 0
    edge_features: NonNegativeInt = 0
    edge_weights: bool = False
    sparse: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        fits = not self.inputs.sums_neighbours or (self.exchange.features and not self.exchange.states)
        require(
            fits, "inputs.aggregates", "false where states are shared, or features are not", self.inputs.sums_neighbours
        )
        require(
            self.connected or not self.exchange.encrypted_rows,
            "exchange.encrypted_rows",
            "false where no rows are shared",
            self.exchange.encrypted_rows,
        )
        if isinstance(self.encoder, NetworkEncoder):
            whole = "with a whole network, whose layers nobody else sees"
            require(self.head == "linear", f"{name}.head", f"'linear' {whole}", self.head)
            require(not self.inputs.sums_neighbours, "inputs.aggregates", f"false {whole}", self.inputs.sums_neighbours)

    @property
    def seeds_draws(self) -> bool:
        """True where neighbours are drawn."""
        return self.exchange.neighbours > 0

    @property
    def stochastic(self) -> bool:
        """True where there is dropout, or a stochastic convolution."""
        return self.objective.dropout > 0 or self.encoder.stochastic

    @property
    def extensions(self) -> tuple[NodeExtension, ...]:
        """What a sharing method adds to the model and to its steps."""
        return ()

    @part
    def exchanged(self) -> NodeExchange:
        """What clients tell each other of nodes."""
        exchange = NodeExchange(
            self.aggregated if self.inputs.sums_neighbours else self.halo_setup if self.connected else None,
            self.draws,
            self.labels.losses,
            self.exchange,
            self.connected,
            self._state_widths,
        )
        for each in self.extensions:
            exchange = each.exchange(exchange)
        return exchange

    @part
    def publications(self) -> Publications:
        """What clients publish before training: of nodes with neighbours elsewhere, and of labels."""
        set_up = self.exchanged.set_up
        return Publications((*([Published(set_up, self._published)] if set_up else []), *self.published))

    @property
    def draws(self) -> NeighbourBatches:
        """Neighbours that take part in a step."""
        return NeighbourBatches(self.layers, self.exchange.neighbours, self.exchange.fresh or not self.exchange.states)

    @property
    def _state_widths(self) -> tuple[int, ...]:
        """Widths of hidden layers that another convolution reads."""
        if isinstance(self.encoder, NetworkEncoder):
            return ()
        widths = self.encoder.widths
        return (widths if self.head == "convolution" else widths[:-1]) if self.exchange.states else ()

    @cached_property
    def layers(self) -> int:
        """Number of convolutions; a whole network is one."""
        if isinstance(self.encoder, NetworkEncoder):
            return 1
        return self.encoder.depth + (self.head == "convolution" or not self.encoder.depth)

    @property
    def input_width(self) -> int:
        """Number of columns that the first layer reads of a node."""
        return self.inputs.width(self.features)

    @property
    def coding(self) -> FeatureCoding:
        """The code of prepared rows."""
        return FeatureCoding(self.inputs.blocks() * self.features, self.sparse)

    def scaled(self, shard: NodeShard) -> NodeShard:
        """Return the shard with features of the length that they are to have."""
        if not (self.inputs.scale and shard.scale_rows):
            return shard
        return replace(shard, features=scaled(shard.features, self.inputs.scale))

    def known_of(self, shard: NodeShard) -> dict[str, Any]:
        """Return {option: value} of what the model must know of the data; a client's tell."""
        return {"features": shard.width, **carried_by(shard.edge_rows)}

    def fitted(self, shards: Sequence[NodeShard]) -> Self:
        """With what the model must know of the data; raises for halos that no memory of this machine holds."""
        check_inputs(shards, self.inputs.hops, self.inputs.attends)
        if self.exchange.features and not self.inputs.sums_neighbours:
            check_room(shards, self.exchange.halo, self.inputs.hops)
        first = shards[0]
        known = self.known_of(first)
        for name, value in known.items():
            if (option := getattr(self, name)) not in (0, (), value):
                raise InputError(f"task.{name} = {option}, but the data have {value}.")
        note_unread(self, self.inputs.width(first.width), first.edge_rows)
        return replace(self, **known, sparse=not isinstance(first.features, np.ndarray))

    def sealing(self) -> Self:
        """Return this task with encrypted rows."""
        return replace(self, exchange=replace(self.exchange, encrypted_rows=True))  # type: ignore[type-var]

    def prepare(self, shard: NodeShard, shared: Arrays) -> NodeData:
        """Neighbourhoods, features of own nodes and of the halo, no states yet."""
        weights, shares = self.weights_of(shard, shared), self.shares_of(shard)
        shared = self.told_of_nodes(shared)
        seen = prepared(self.inputs, self.seen(shard))
        sums, full = self.aggregated.sums(seen, shared) if self.inputs.sums_neighbours else None, seen.weighted_degree
        seen = inside(seen) if self.inputs.sums_neighbours else seen
        features, known, degree, needed = self.halo_setup.received(seen, shared if self.connected else {})
        all_known = np.concatenate([np.ones(seen.own, bool), known])
        return NodeData.of(
            seen,
            all_known,
            rows_of(self.inputs, seen.features, features),
            around_of(seen, degree, all_known, self.encoder, self.input_width, self.edge_features),
            needed,
            self._state_widths,
            self.layers,
            self.exchange.states,
            rows={split: seen.rows(split) for split in SPLITS},
            sums=None if sums is None else FeatureRows(sums, features),
            degree=full,
            alone=not isinstance(self.encoder, NetworkEncoder) and not self.encoder.reads_neighbours,
            weights=weights,
            shares=shares,
        )

    def told_of_nodes(self, shared: Arrays) -> Arrays:
        """Return what clients got back of what was published, but for what is of labels."""
        of_labels = {name for each in self.published for name in each.by.combined_layout.names}
        return {name: array for name, array in shared.items() if name not in of_labels}

    def examples(self, data: NodeData) -> int:
        """Return how many training nodes the client has."""
        return len(data.rows["train"])

    def pooled(self, shards: Sequence[NodeShard]) -> NodeShard:
        """Return the whole graph."""
        return merge_shards(shards)

    def alone(self, shard: NodeShard) -> NodeShard:
        """Return the shard without its neighbours elsewhere."""
        return inside(shard)

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        """Return a model, the same for all clients."""
        attention = attention_of(self.inputs, self.features)
        width = self.input_width or 1
        classes, edges = self.labels.width, self.edge_features
        return NodeModel(self.encoder, width, classes, self.head, self.objective.dropout, g, attention, edges)

    @cached_property
    def linear(self) -> Linear | None:
        """Of what the model reads, where the encoder has no layers: only one that looks at a node alone can do without.

        None where hops are weighted by what is learnt.
        """
        if (
            isinstance(self.encoder, NetworkEncoder)
            or self.encoder.depth
            or self.inputs.sums_neighbours
            or self.inputs.attends
        ):
            return None
        return linear_of(self.input_width, self.labels)

    def regression(self, data: NodeData, examples: Indices) -> Regression:
        """Features and labels of training nodes; classes count by their weights."""
        return regression_of(data, examples, self.labels, data.weights)

    def loss(self, model: nn.Module, data: NodeData, draw: Batch, encoded: Tensor | None) -> Loss:
        """Return the labels' losses of the draw's nodes, float32 [nodes]."""
        computed = self._computed(data, draw)
        outputs = data.logits(model, computed, model.training)
        return self.labels.losses(outputs, computed.label.to(outputs.device))

    def evaluate(self, model: nn.Module, data: NodeData) -> dict[str, Sums]:
        """Return the labels' sums."""
        outputs, label = data.scored(model)[: data.own], torch.from_numpy(data.label)
        rows = {split: data.rows[split] for split in SCORED_SPLITS}
        return {split: self.labels.sums_of([(outputs[of], label[of])], data.unit) for split, of in rows.items()}

    def embeddings(self, model: nn.Module, data: NodeData) -> Array:
        """Return the last hidden layer of all own nodes, float32 [own, width]."""
        return data.hidden(model)[: data.own]

    @property
    def connected(self) -> bool:
        """Whether features or states of nodes elsewhere are known."""
        return self.exchange.states or (self.exchange.features and not self.inputs.sums_neighbours)

    @property
    def halo_setup(self) -> HaloSetup:
        """The exchange of rows before training."""
        return HaloSetup(self.coding, self.exchange.features, self.edge_weights, self.exchange.encrypted_rows)

    @property
    def aggregated(self) -> Aggregates:
        """The exchange of sums before training."""
        assert isinstance(self.encoder, LayeredEncoder), "it was checked"
        return Aggregates(self.coding, self.encoder.by_degree)

    def seen(self, shard: NodeShard) -> NodeShard:
        """Return the part of the graph that takes part, its features as the model reads them."""
        return self.linked(self.scaled(shard))

    def linked(self, shard: NodeShard) -> NodeShard:
        """Return the part of the graph that takes part, features as they are."""
        return (
            shard
            if self.inputs.sums_neighbours
            else thinned(shard, self.exchange.halo)
            if self.connected
            else inside(shard)
        )

    def _published(self, shard: NodeShard) -> tuple[NodeShard]:
        return (self.told(shard),)

    def told(self, shard: NodeShard) -> NodeShard:
        """Return the part of the graph of which features or sums are published, features as they leave."""
        seen = self.seen(shard)
        if not self.exchange.features:
            return seen
        seen = prepared(self.inputs, seen)
        return replace(seen, features=self.exchange.published(seen.features))

    def _computed(self, data: NodeData, draw: Batch) -> Computed:
        """Return what a draw is computed from."""
        draws = self.draws
        return data.of_training(draw.examples, draws.most(draw), draws.deep, draw.seed)
