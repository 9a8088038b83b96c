"""Node: tell the class of a node of one graph that is cut over clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fedgraft.contracts import Draw, Halo, HaloRows, Indices, Questions, Sums
from fedgraft.contracts import task_abilities as abilities
from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.contracts.values import SPLITS
from fedgraft.domains.nodes.client_graph import Computed, NodeData
from fedgraft.domains.nodes.feature_coding import FeatureCoding
from fedgraft.domains.nodes.features import FeatureRows, scaled
from fedgraft.domains.nodes.halo_setup import HaloSetup, inside, thinned
from fedgraft.domains.nodes.historical_embeddings import States
from fedgraft.domains.nodes.losses import (
    Objective,
    by_hand,
    learning,
    losses_among,
    losses_of,
    losses_with_back,
    objective_of,
)
from fedgraft.domains.nodes.memory_check import check_room
from fedgraft.domains.nodes.mended_graph import Mending
from fedgraft.domains.nodes.model import NodeModel
from fedgraft.domains.nodes.neighbour_sampling import Neighbourhoods, Reach
from fedgraft.domains.nodes.neighbour_sums import Aggregates
from fedgraft.domains.nodes.neighgen import Generator, generator_of
from fedgraft.domains.nodes.node_options import check_options
from fedgraft.domains.nodes.queries import Asked, answered, remembered_halo, split_nodes_asked, with_new_nodes
from fedgraft.domains.nodes.shards import NodeShard, merge_shards
from fedgraft.domains.nodes.smoothed_answers import SmoothedAnswers
from fedgraft.domains.nodes.smoothing import Neighbours
from fedgraft.errors import InputError, require
from fedgraft.nn import flops
from fedgraft.wire.layouts import Array, Arrays, Layout, Tree

LABEL_BINS = 5
"""Parts of the list of classes whose shares a client can report: as many as ratings have grades."""


@dataclass(frozen=True)
class Node(
    SmoothedAnswers,
    abilities.FittedTask[NodeShard, NodeData],
    abilities.HaloTask[NodeShard, NodeData],
    abilities.ManualGradientTask[NodeShard, NodeData],
    abilities.NeighbourSamplingTask[NodeShard, NodeData],
    abilities.PartsTask[NodeShard, NodeData],
    abilities.PooledTask[NodeShard, NodeData],
    abilities.PredictingTask[NodeShard, NodeData],
    abilities.ProfiledTask[NodeShard, NodeData],
    abilities.PublishingTask[NodeShard, NodeData],
):
    """Node: tell the class of a node of one graph that is cut over clients.

    The encoder's convolutions are followed by a linear layer. Edges between clients stay: of a node elsewhere a client
    knows its features, if these are shared, and its hidden states as its owner last told them. Own neighbours outside a
    batch take part with the states that they had when they were last computed, or are computed anew.

    Asked: a table `nodes` with columns "node", perhaps "client" and, of new nodes, their features; for new nodes also
    `edges` with "source" and "target". One client's own tables: `data`, its nodes with features, and `data-edges`.

    Source: Li et al., "FedAIS", AAAI 2025, Eq. (6) and Algorithm 1; historical states of own nodes as Fey et al.,
        "GNNAutoScale", ICML 2021.
    Differs: a round begins with one pass over all own nodes, not over training nodes alone, so that others are told of
        every node (FedAIS does not say where states of nodes without a label come from). A neighbour of which nothing
        is known yet is left out, and the others count for it; the paper has one round of warm-up instead.

    Args:
        encoder: the convolutions; the recipe's [model].
        head: "linear", a linear layer behind the encoder's convolutions, or "convolution", one more of these.
        neighbours: most neighbours of a node that take part in training, per layer, drawn anew for every batch; 0 =
            all (FedAIS: 10). Scores and predictions always see all that `halo` leaves.
        halo: most neighbours elsewhere of a node, chosen once for the whole run; 0 = all. What a client keeps of others
            is at most so many times what it keeps of its own nodes.
        share_features: whether clients publish the features of nodes with neighbours elsewhere, once.
        share_states: whether clients tell each other hidden states of such nodes. With neither, the edges between
            clients are as if they were not there.
        aggregates: whether every node gets, once, the sum of all its neighbours' features, to which clients contribute
            what they know (FedGCN, Yao et al., NeurIPS 2023); the first layer then draws no neighbours. It is how
            features are shared then, for a sum over one neighbour is its features; states are not.
        fresh: whether own neighbours outside a batch are computed anew; always where states are not shared.
        pull: what a client that asks to refresh is sent: what "changed", or what it "asked" for because the batch to
            come reads it, changed or not.
        generator: whether the model has a generator of neighbours, with which clients mend their parts of the graph
            (FedSage+, Zhang et al., NeurIPS 2021); sharing methods that need one set it. Then neither features nor
            states are shared.
        generated: most neighbours generated for a node, >= 1 (FedSage+: 5).
        hidden: share of its nodes that a client hides from itself to train the generator, in (0, 1) (FedSage+: 0.5).
        elsewhere: nodes of others whose embeddings a client is told, to train the generator to make its own nodes of
            them, and most of its own whose it tells, >= 0; 64 is ours, in place of all.
        dropout: share of each hidden layer dropped in training, in [0, 1).
        logit_adjustment: by how many times the log shares of a client's classes logits are raised in its training, >= 0
            (Menon et al., "Long-tail learning via logit adjustment", ICLR 2021: 1; at clients as Zhang et al., "FedLC",
            ICML 2022): a client whose classes are uneven does not teach the model that they are so everywhere.
        label_smoothing: share of a label spread in training over classes as the client has them, in [0, 1) (Pereyra et
            al., 2017; Szegedy et al., CVPR 2016: 0.1, over all alike).
        scale: length to which every node's features are scaled, >= 0; 0 leaves them as they are.
        features: their width; 0 = as the data have.
        classes: how many there are; 0 = as the data have.
        class_names: theirs, for those who have no data but the run's folder; taken from the data.
        sparse: whether features are sparse; taken from the data where `features` is 0.
        smoothing: hops over which answers are smoothed after training, >= 0; 0 = none, 2 is best on our data.
        share_labels: whether errors on training nodes, and so their labels, leave their clients in that.
    """

    asks: ClassVar[tuple[str, ...]] = ("nodes", "edges")
    profile: ClassVar[frozenset[str]] = frozenset(f"label_{k}" for k in range(LABEL_BINS))

    encoder: LayeredEncoder
    head: Literal["linear", "convolution"] = "linear"
    neighbours: int = 10
    halo: int = 0
    share_features: bool = True
    share_states: bool = True
    aggregates: bool = False
    fresh: bool = False
    pull: Literal["changed", "asked"] = "changed"
    generator: bool = False
    generated: int = 5
    hidden: float = 0.5
    elsewhere: int = 64
    dropout: float = 0.0
    logit_adjustment: float = 0.0
    label_smoothing: float = 0.0
    scale: float = 0.0
    features: int = 0
    classes: int = 0
    class_names: tuple[str, ...] = ()
    sparse: bool = False
    smoothing: int = 0
    share_labels: bool = False

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def draws_neighbours(self) -> bool:
        """True where neighbours are drawn or generated."""
        return self.neighbours > 0 or self.generator

    @property
    def stochastic(self) -> bool:
        """True where there is dropout, a generator, or a stochastic convolution."""
        return self.dropout > 0 or self.generator or self.encoder.stochastic

    @property
    def offers(self) -> frozenset[str]:
        """A generator of neighbours, where nothing of neighbours elsewhere is shared."""
        return frozenset() if self.share_features or self.share_states else frozenset({"generator"})

    def with_parts(self, parts: frozenset[str]) -> Self:
        """Return this task with a generator, if that is needed."""
        return replace(self, generator=True) if "generator" in parts else self

    @cached_property
    def halo_widths(self) -> tuple[int, ...]:
        """Widths of hidden layers that another convolution reads; or of a generator's embeddings."""
        if self._mending is not None:
            return self._mending.widths
        widths = self.encoder.widths
        return (widths if self.head == "convolution" else widths[:-1]) if self.share_states else ()

    @cached_property
    def layers(self) -> int:
        """Number of convolutions."""
        return self.encoder.depth + (self.head == "convolution" or not self.encoder.depth)

    def fitted(self, shards: Sequence[NodeShard]) -> Self:
        """With the width of features and the classes; raises for halos that no memory of this machine holds."""
        if self.share_features and not self.aggregates:
            check_room(shards, self.halo)
        first = shards[0]
        known: dict[str, Any] = {"features": first.width, "classes": len(first.classes), "class_names": first.classes}
        for name, found in known.items():
            if (said := getattr(self, name)) not in (0, (), found):
                raise InputError(f"task.{name} = {said}, but the data have {found}.")
        return replace(self, **known, sparse=not isinstance(first.features, np.ndarray))

    @property
    def statistics_layout(self) -> Layout:
        """Addresses of the halo; what others may know of own nodes."""
        return self._set_up.statistics_layout if self._set_up else Layout(())

    def statistics(self, shard: NodeShard) -> Arrays:
        """Return what a client publishes."""
        return self._set_up.statistics(self._seen(shard)) if self._set_up else {}

    def check(self, statistics: Arrays) -> None:
        """Sizes, order and finite numbers."""
        if self._set_up:
            self._set_up.check(statistics)

    @property
    def combined_layout(self) -> Layout:
        """`Layout` of what is known of the halo, and of which own nodes others need."""
        return self._set_up.combined_layout if self._set_up else Layout(())

    def combine(self, statistics: Mapping[int, Arrays]) -> Mapping[int, Arrays]:
        """Everybody's halo, from what its owners published."""
        return self._set_up.combine(statistics) if self._set_up else {}

    def halos(self, statistics: Mapping[int, Arrays]) -> dict[int, tuple[int, Halo]]:
        """Return the same as published."""
        return (self._mending or self._halo_setup).halos(statistics)

    def prepare(self, shard: NodeShard, shared: Arrays) -> NodeData:
        """Neighbourhoods, features of own nodes and of the halo, no states yet."""
        seen = self._seen(shard)
        sums, full = (self._aggregates.sums(seen, shared), seen.degree) if self.aggregates else (None, seen.degree)
        seen = inside(seen) if self.aggregates else seen
        features, known, degree, needed = self._halo_setup.received(seen, shared if self._connected else {})
        data = NodeData(
            features=FeatureRows(seen.features, features),
            around=Neighbourhoods(seen, degree),
            own=seen.own,
            halo=seen.halo,
            label=seen.label,
            rows={split: seen.rows(split) for split in SPLITS},
            known=np.concatenate([np.ones(seen.own, bool), known]),
            needed=needed,
            states=States(seen.own, seen.halo, self.halo_widths),
            class_counts=np.bincount(seen.label[seen.rows("train")], minlength=len(seen.classes)),
            sums=None if sums is None else FeatureRows(sums, sums[:0]),
            degree=full.astype(np.float32),
            layers=self.layers,
            exchanges=self.share_states,
            neighbours=Neighbours(shard) if self.smoothing else None,
        )
        if self._mending is not None:
            data.part, data.states, data.needed = self._mending.begun(seen, data.features, data.around, shared)
        return data

    def examples(self, data: NodeData) -> int:
        """Return how many training nodes the client has."""
        return len(data.rows["train"])

    def describe(self, data: NodeData) -> dict[str, float]:
        """Shares of training nodes in consecutive parts of the list of classes."""
        return {f"label_{k}": share for k, share in enumerate(data.label_shares(LABEL_BINS))}

    def pooled(self, shards: Sequence[NodeShard]) -> NodeShard:
        """Return the whole graph."""
        return merge_shards(shards)

    def alone(self, shard: NodeShard) -> NodeShard:
        """Return the shard without its neighbours elsewhere."""
        return inside(shard)

    def model(self, g: torch.Generator, variant: object = None) -> nn.Module:
        """Return a model, the same for all clients."""
        made = NodeModel(self.encoder, self.features or 1, self.classes or 2, self.head, self.dropout, g)
        if self.generator:
            made.generator = Generator(self.encoder, self.features or 1, self.generated, g)
        return made

    def look(self, model: nn.Module, data: NodeData, seed: int, losses: bool) -> Array:
        """Pass once over all own nodes and note their states; return losses of the training nodes among them."""
        if self._mending is not None and (part := data.part) is not None:
            self._mending.note(generator_of(model), part, data.states, data.needed, self.neighbours, seed)
            if losses or learning(model, data) is None:
                data = data.mended(model, self._mending)
                flops.count(part.mended[2] // 2)  # as if it were mended in every round, wherever it was
        if not (losses or data.exchanges):
            return np.zeros(0, np.float32)
        everybody, most = np.arange(data.own), (self.neighbours,) * self.layers
        logits = data.logits(model, data.computed(everybody, most, True, seed, "look"), True)
        return losses_among(logits, data.label, data.rows["train"])

    def loss(self, model: nn.Module, data: NodeData, draw: Draw, encoded: Tensor | None) -> Tensor:
        """Cross-entropies, and as long as a generator learns its losses."""
        if (part := learning(model, data)) is not None and self._mending is not None:
            nodes, most = data.rows["train"][draw.examples], self._most(draw)
            return self._mending.losses(model, part, data.states, nodes, most, draw.seed)
        return losses_of(model, *self._step(model, data, draw))

    def loss_and_backward(self, model: nn.Module, data: NodeData, draw: Draw) -> abilities.LossesAndBackward | None:
        """Return where the model has a gradient written by hand."""
        if not by_hand(model, data) or learning(model, data) is not None:
            return None
        return losses_with_back(model, *self._step(model, data, draw))

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
        """Return halo nodes that are stored senders of each hidden layer; those whose embeddings train a generator."""
        nodes = data.rows["train"][draw.examples if draw.ahead is None else draw.ahead]
        if self._mending is not None:
            return [self._mending.read(data.states, len(nodes), draw.seed)]
        all_known = [np.ones(data.own + data.halo, bool)] * self.layers
        reach = Reach(all_known, self._most(draw), self._deep, draw.seed)
        hops = data.around.around(nodes, self.layers, reach)
        return [np.sort(hop.stored[hop.stored >= data.own]) - data.own for hop in hops[1:]]

    def relay(self, model: nn.Module, data: NodeData, layer: int) -> list[HaloRows]:
        """States of one hidden layer of all own nodes, from all their neighbours."""
        return [] if self._mending is not None else data.relay(model, layer)  # embeddings have no part in a score

    def evaluate(self, model: nn.Module, data: NodeData) -> dict[str, Sums]:
        """Return sums of a classification."""
        return self.sums_of(data, self.scored(model, data))

    def scored(self, model: nn.Module, data: NodeData) -> Array:
        """Return probabilities of all own nodes."""
        return data.mended(model, self._mending).scored(model)[: data.own].softmax(1).numpy()  # not generated ones

    def represent(self, model: nn.Module, data: NodeData) -> tuple[Array, Array] | None:
        """The last hidden layer of the test nodes, and their classes by number."""
        return data.mended(model, self._mending).represented(model)

    def questions(self, shards: Sequence[NodeShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """Nodes that clients have, by id, and new ones with features and edges, each with the client that answers."""
        return split_nodes_asked(shards, tables)

    def predict(
        self, model: nn.Module, shard: NodeShard, remembered: Mapping[str, Any], asked: Asked
    ) -> dict[str, Array]:
        """The likeliest class of each node, and how likely the model takes it to be.

        From the client's own part with all new nodes in it, and of its halo from what it was told: features, states.
        """
        data = self.prepare(with_new_nodes(shard, asked), remembered.get("shared", {}))
        if self.share_states:
            before = remembered_halo(remembered.get("states"), shard.own, data.halo, self.halo_widths)
            data.states.receive(before)
        shares = self.smoothed_as_remembered(data, self.scored(model, data), remembered)
        return answered(asked, shard.classes, shares[asked.nodes])

    @property
    def _connected(self) -> bool:
        return self.share_states or (self.share_features and not self.aggregates)

    @property
    def _deep(self) -> bool:
        return self.fresh or not self.share_states

    @property
    def _halo_setup(self) -> HaloSetup:
        return HaloSetup(FeatureCoding(self.features, self.sparse), self.share_features)

    @property
    def _aggregates(self) -> Aggregates:
        return Aggregates(FeatureCoding(self.features, self.sparse), self.encoder.by_degree)

    @cached_property
    def _mending(self) -> Mending | None:
        return Mending(self.generated, self.hidden, self.elsewhere) if self.generator else None

    @property
    def _set_up(self) -> HaloSetup | Aggregates | Mending | None:
        """The exchange before training; None for none."""
        linked = self._halo_setup if self._connected else None
        return self._mending or (self._aggregates if self.aggregates else linked)

    def _seen(self, shard: NodeShard) -> NodeShard:
        """The part of the graph that takes part, its features as the model reads them."""
        if self.scale:
            shard = replace(shard, features=scaled(shard.features, self.scale))
        return shard if self.aggregates else thinned(shard, self.halo) if self._connected else inside(shard)

    def _step(self, model: nn.Module, data: NodeData, draw: Draw) -> tuple[NodeData, Computed, Objective]:
        """The client's part of the graph, mended where it is, what a draw is computed from, and its losses."""
        data, nodes = data.mended(model, self._mending), data.rows["train"][draw.examples]
        objective = objective_of(self.logit_adjustment, self.label_smoothing)
        return data, data.computed(nodes, self._most(draw), self._deep, draw.seed), objective

    def _most(self, draw: Draw) -> tuple[int, ...]:
        """Most neighbours per layer, as the sampler says or by default."""
        if given := len(draw.neighbours):
            require(given == self.layers, "The sampler's layers", f"{self.layers}, the model's convolutions", given)
        return draw.neighbours or (self.neighbours,) * self.layers
