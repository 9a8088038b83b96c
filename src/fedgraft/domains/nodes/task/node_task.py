"""What tasks about nodes share: halos, neighbours, the set-up, questions, and what follows from the kind of label."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from fedgraft.contracts import Draw, Halo, HaloRows, Indices, Sums
from fedgraft.contracts.abilities import tasks as abilities
from fedgraft.contracts.abilities.linear import Linear, LinearTask
from fedgraft.contracts.abilities.naming import NamingTask
from fedgraft.contracts.abilities.pooling import PooledTask
from fedgraft.contracts.abilities.sealing import SealedTask
from fedgraft.contracts.encoder import LayeredEncoder, NetworkEncoder
from fedgraft.contracts.exchange import NodeExchange, SilentExchange
from fedgraft.contracts.inputs import Inputs
from fedgraft.contracts.labels import LabelledTask
from fedgraft.contracts.loss import Objective
from fedgraft.contracts.ranges import NonNegativeInt
from fedgraft.contracts.task import Loss
from fedgraft.contracts.values import SCORED_SPLITS, SPLITS, Regression
from fedgraft.domains.edge_data.edge_notes import carried_by, unread
from fedgraft.domains.examples import scaled
from fedgraft.domains.labels.known import groups_of
from fedgraft.domains.nodes.base.feature_coding import FeatureCoding
from fedgraft.domains.nodes.base.features import FeatureRows
from fedgraft.domains.nodes.base.historical_embeddings import States
from fedgraft.domains.nodes.base.memory_check import check_inputs, check_room
from fedgraft.domains.nodes.base.shards import NodeShard, merge_shards
from fedgraft.domains.nodes.task.linear_nodes import linear_of, regression_of
from fedgraft.domains.nodes.training.client_graph import Computed, NodeData, around_of
from fedgraft.domains.nodes.training.halo_setup import HaloSetup, halo_of, inside, thinned
from fedgraft.domains.nodes.training.hop_attention import attention_of
from fedgraft.domains.nodes.training.mended_graph import Mending
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.domains.nodes.training.neighbour_sampling import Reach
from fedgraft.domains.nodes.training.neighbour_sums import Aggregates
from fedgraft.domains.nodes.training.smoothed_inputs import prepared, rows_of
from fedgraft.domains.notes import tell
from fedgraft.errors import InputError, require
from fedgraft.wire.layouts import Array, Arrays, Layout, Tree


@dataclass(frozen=True)
class NodeTask(
    abilities.FittedTask[NodeShard, NodeData],
    abilities.HaloTask[NodeShard, NodeData],
    LabelledTask[NodeShard, NodeData],
    LinearTask[NodeShard, NodeData],
    NamingTask[NodeShard, NodeData],
    abilities.NeighbourSamplingTask[NodeShard, NodeData],
    PooledTask[NodeShard, NodeData],
    abilities.PredictingTask[NodeShard, NodeData],
    SealedTask[NodeShard, NodeData],
):
    """Answer something of nodes of one graph that is cut over clients; options as of `Node`."""

    asks: ClassVar[tuple[str, ...]] = ("nodes", "edges")

    encoder: LayeredEncoder | NetworkEncoder
    inputs: Inputs
    objective: Objective
    exchange: NodeExchange | SilentExchange
    head: Literal["linear", "convolution"] = "linear"
    features: NonNegativeInt = 0
    edge_features: NonNegativeInt = 0
    edge_weights: bool = False
    sparse: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        sums = self.inputs.sums_neighbours
        fits = not sums or (self.exchange.features and not self.exchange.states)
        require(
            fits, "inputs.aggregates", "false where states are shared, or features are not", self.inputs.sums_neighbours
        )
        require(
            self._connected or not self.exchange.encrypted_rows,
            "exchange.encrypted_rows",
            "false where no rows are shared",
            self.exchange.encrypted_rows,
        )
        if isinstance(self.encoder, NetworkEncoder):
            whole = "with a whole network, whose layers nobody else sees"
            require(self.head == "linear", f"{name}.head", f"'linear' {whole}", self.head)
            require(not self.inputs.sums_neighbours, "inputs.aggregates", f"false {whole}", self.inputs.sums_neighbours)

    @property
    def draws_neighbours(self) -> bool:
        """True where neighbours are drawn."""
        return self.exchange.neighbours > 0

    @property
    def stochastic(self) -> bool:
        """True where there is dropout, or a stochastic convolution."""
        return self.objective.dropout > 0 or self.encoder.stochastic

    @cached_property
    def halo_widths(self) -> tuple[int, ...]:
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
    def pull(self) -> str:
        """As the exchange says."""
        return self.exchange.pull

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
        if not (self.edge_features or self.edge_weights):  # what is known already was told when it was found
            tell(unread(self.encoder, self.inputs.width(first.width), first.edge_rows))
        return replace(self, **known, sparse=not isinstance(first.features, np.ndarray))

    @property
    def input_width(self) -> int:
        """Number of columns that the first layer reads of a node."""
        return self.inputs.width(self.features)

    @property
    def coding(self) -> FeatureCoding:
        """The code of prepared rows."""
        return FeatureCoding(self.inputs.blocks() * self.features, self.sparse)

    @property
    def statistics_layout(self) -> Layout:
        """Addresses of the halo; what others may know of own nodes."""
        return self._set_up.statistics_layout if self._set_up else Layout(())

    def statistics(self, shard: NodeShard) -> Arrays:
        """Return what a client publishes."""
        if not self._set_up:
            return {}
        seen = self._seen(shard)
        return self._set_up.statistics(prepared(self.inputs, seen) if self.exchange.features else seen)

    def check(self, statistics: Arrays) -> None:
        """Sizes, order and finite numbers."""
        if self._set_up:
            self._set_up.check(statistics)

    def named(self, statistics: Arrays) -> list[Halo]:
        """Those that it needs states or features of, or tells sums for."""
        if "owner" not in statistics:
            return []
        return [Halo(statistics["owner"].astype(np.int64), statistics["place"].astype(np.int64))]

    @property
    def combined_layout(self) -> Layout:
        """`Layout` of what is known of the halo, and of which own nodes others need."""
        return self._set_up.combined_layout if self._set_up else Layout(())

    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Everybody's halo, from what its owners published."""
        return self._set_up.combine(statistics) if self._set_up else {}

    def halos(self, statistics: Mapping[int, Arrays]) -> dict[int, tuple[int, Halo]]:
        """Return the same as published."""
        return self._halo_setup.halos(statistics)

    @property
    def seals(self) -> bool:
        """Whether rows are sealed."""
        return self.exchange.encrypted_rows

    @property
    def hands_on(self) -> bool:
        """Whether features or states are shared."""
        return self._connected

    def sealing(self) -> Self:
        """Return this task with sealed rows."""
        return replace(self, exchange=replace(self.exchange, encrypted_rows=True))  # type: ignore[type-var]

    @property
    def handed_on(self) -> tuple[str, ...]:
        """Degrees and features."""
        return self._halo_setup.handed_on

    def sent_places(self, client: int, statistics: Arrays) -> Mapping[str, Indices]:
        """Return own nodes."""
        return self._halo_setup.sent_places(client, statistics)

    def received_places(self, client: int, shard: NodeShard, shared: Arrays) -> Mapping[str, Indices]:
        """Return nodes elsewhere."""
        return self._halo_setup.received_places(self.halo_of(shard), shared)

    def halo_of(self, shard: NodeShard) -> Halo:
        """Return those that `halo` leaves."""
        return halo_of(thinned(shard, self.exchange.halo))

    def prepare(self, shard: NodeShard, shared: Arrays) -> NodeData:
        """Neighbourhoods, features of own nodes and of the halo, no states yet."""
        seen = prepared(self.inputs, self._seen(shard))
        sums, full = self._aggregates.sums(seen, shared) if self.inputs.sums_neighbours else None, seen.weighted_degree
        seen = inside(seen) if self.inputs.sums_neighbours else seen
        features, known, degree, needed = self._halo_setup.received(seen, shared if self._connected else {})
        all_known = np.concatenate([np.ones(seen.own, bool), known])
        return NodeData(
            features=rows_of(self.inputs, seen.features, features),
            around=around_of(seen, degree, all_known, self.encoder, self.input_width, self.edge_features),
            own=seen.own,
            halo=seen.halo,
            label=seen.label,
            rows={split: seen.rows(split) for split in SPLITS},
            known=all_known,
            needed=needed,
            states=States(seen.own, seen.halo, self.halo_widths),
            sums=None if sums is None else FeatureRows(sums, features),
            degree=full,
            layers=self.layers,
            exchanges=self.exchange.states,
            alone=not isinstance(self.encoder, NetworkEncoder) and not self.encoder.reads_neighbours,
        )

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

    def loss(self, model: nn.Module, data: NodeData, draw: Draw, encoded: Tensor | None) -> Loss:
        """Return the labels' losses of the draw's nodes, float32 [nodes]."""
        computed = self._computed(data, draw)
        outputs = data.logits(model, computed, model.training)
        return self.labels.losses(outputs, computed.label.to(outputs.device))

    def evaluate(self, model: nn.Module, data: NodeData) -> dict[str, Sums]:
        """Return the labels' sums."""
        outputs, label = data.scored(model)[: data.own], torch.from_numpy(data.label)
        rows = {split: data.rows[split] for split in SCORED_SPLITS}
        return {split: self.labels.sums_of([(outputs[of], label[of])], data.unit) for split, of in rows.items()}

    def represent(self, model: nn.Module, data: NodeData) -> tuple[Array, Array] | None:
        """The last hidden layer [test nodes, width], and their classes or in which fifth of these each number is."""
        test = data.rows["test"]
        return self.embeddings(model, data)[test], groups_of(data.label[test])

    def embeddings(self, model: nn.Module, data: NodeData) -> Array:
        """Return the last hidden layer of all own nodes, float32 [own, width]."""
        return data.hidden(model)[: data.own]

    def look(self, model: nn.Module, data: NodeData, seed: int, losses: bool) -> Array:
        """Pass once over all own nodes and note their states; return losses of training nodes, float32 [nodes]."""
        if not (losses or data.exchanges):
            return np.zeros(0, np.float32)
        everybody, most = np.arange(data.own), (self.exchange.neighbours,) * self.layers
        outputs = data.logits(model, data.computed(everybody, most, True, seed, "look"), True)
        train = data.rows["train"]
        return self.labels.losses(outputs.cpu()[train], torch.from_numpy(data.label[train])).numpy(force=True)

    def opened(self, data: NodeData, states: Tree) -> NodeData:
        """Return the data with these states of own nodes and of the halo."""
        return data.opened(states)

    def closed(self, data: NodeData) -> Tree:
        """Return the states of own nodes and of the halo."""
        return data.states.to_tree()

    def receive(self, data: NodeData, rows: Sequence[HaloRows]) -> None:
        """Remember states of the halo."""
        data.states.receive(rows)

    def changed(self, data: NodeData) -> list[HaloRows]:
        """Return states of nodes that others need, those that changed."""
        return data.states.changed(data.needed)

    def read(self, data: NodeData, draw: Draw) -> list[Indices]:
        """Return halo nodes that are stored senders of each hidden layer, int64 [nodes] each."""
        nodes = data.rows["train"][draw.examples if draw.ahead is None else draw.ahead]
        all_known = [np.ones(data.own + data.halo, bool)] * self.layers
        reach = Reach(all_known, self._most(draw), self._deep, draw.seed, alone=data.alone)
        hops = data.around.around(nodes, self.layers, reach)
        return [np.sort(hop.stored[hop.stored >= data.own]) - data.own for hop in hops[1:]]

    def relay(self, model: nn.Module, data: NodeData, layer: int) -> list[HaloRows]:
        """States of one hidden layer of all own nodes, from all their neighbours."""
        return data.relay(model, layer)

    @property
    def _connected(self) -> bool:
        return self.exchange.states or (self.exchange.features and not self.inputs.sums_neighbours)

    @property
    def _deep(self) -> bool:
        return self.exchange.fresh or not self.exchange.states

    @property
    def _halo_setup(self) -> HaloSetup:
        return HaloSetup(self.coding, self.exchange.features, self.edge_weights, self.exchange.encrypted_rows)

    @property
    def _aggregates(self) -> Aggregates:
        assert isinstance(self.encoder, LayeredEncoder), "it was checked"
        return Aggregates(self.coding, self.encoder.by_degree)

    @property
    def _set_up(self) -> HaloSetup | Aggregates | Mending | None:
        """The exchange before training; None for none."""
        linked = self._halo_setup if self._connected else None
        return self._aggregates if self.inputs.sums_neighbours else linked

    def _seen(self, shard: NodeShard) -> NodeShard:
        """The part of the graph that takes part, its features as the model reads them."""
        scale = self.inputs.scale if shard.scale_rows else 0.0
        return self._linked(replace(shard, features=scaled(shard.features, scale)) if scale else shard)

    def _linked(self, shard: NodeShard) -> NodeShard:
        """The part of the graph that takes part, features as they are."""
        return (
            shard
            if self.inputs.sums_neighbours
            else thinned(shard, self.exchange.halo)
            if self._connected
            else inside(shard)
        )

    def _computed(self, data: NodeData, draw: Draw) -> Computed:
        """Return what a draw is computed from."""
        return data.of_training(draw.examples, self._most(draw), self._deep, draw.seed)

    def _most(self, draw: Draw) -> tuple[int, ...]:
        """Most neighbours per layer, as the sampler says or by default."""
        if count := len(draw.neighbours):
            require(count == self.layers, "The sampler's layers", f"{self.layers}, the model's convolutions", count)
        return draw.neighbours or (self.exchange.neighbours,) * self.layers
