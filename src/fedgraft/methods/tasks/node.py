"""Node: tell the class of a node of one graph that is cut over clients."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import torch
from annotated_types import Interval
from torch import Tensor, nn

from fedgraft.contracts import Draw, Halo, HaloRows, Indices, LocalGraph, Sums
from fedgraft.contracts.abilities import tasks as abilities
from fedgraft.contracts.abilities.graph_network import GraphNetworkTask
from fedgraft.contracts.abilities.graphs import LocalGraphTask
from fedgraft.contracts.abilities.linear import Linear
from fedgraft.contracts.abilities.plain import PlainModel
from fedgraft.contracts.answers import Answers
from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.contracts.exchange import NodeExchange, SilentExchange
from fedgraft.contracts.inputs import Inputs
from fedgraft.contracts.loss import ClassObjective
from fedgraft.contracts.ranges import NonNegativeInt, PositiveInt
from fedgraft.contracts.task import Loss
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.domains.labels.audited import AuditedClasses
from fedgraft.domains.labels.class_weights import WEIGHTS, BalancedClasses
from fedgraft.domains.labels.classes import PROFILE, CountedClasses, profile_of
from fedgraft.domains.labels.judged import JudgedClasses
from fedgraft.domains.labels.judging import JudgedByData
from fedgraft.domains.nodes.base.memory_check import check_matrices
from fedgraft.domains.nodes.base.node_options import check_options
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.task.answered_nodes import AnsweredNodes
from fedgraft.domains.nodes.task.clipped_nodes import ClippedNodes
from fedgraft.domains.nodes.task.node_reader import plain_nodes
from fedgraft.domains.nodes.task.observed_nodes import ObservedNodes
from fedgraft.domains.nodes.task.refined_nodes import refined_answers, refining, refining_losses
from fedgraft.domains.nodes.task.synthetic_nodes import SyntheticNodes
from fedgraft.domains.nodes.training.client_graph import Computed, NodeData
from fedgraft.domains.nodes.training.given_graphs import logits_on
from fedgraft.domains.nodes.training.halo_setup import HaloSetup
from fedgraft.domains.nodes.training.losses import (
    by_hand,
    learning,
    losses_of,
    losses_with_back,
)
from fedgraft.domains.nodes.training.mended_graph import Mending
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.domains.nodes.training.neighbour_sampling import Neighbourhoods
from fedgraft.domains.nodes.training.neighbour_sums import Aggregates
from fedgraft.domains.nodes.training.neighbours import Neighbours
from fedgraft.domains.nodes.training.neighgen import Generator, generator_of
from fedgraft.domains.nodes.training.refinement import Refinement
from fedgraft.domains.nodes.training.smoothed_inputs import Within
from fedgraft.domains.nodes.training.topology import View
from fedgraft.errors import InputError, require
from fedgraft.methods.answers.smoothed import Smoothed
from fedgraft.methods.exchanges.halo import Halo as HaloOfNodes
from fedgraft.methods.inputs.propagated import Propagated
from fedgraft.methods.losses.cross_entropy import CrossEntropy
from fedgraft.nn import flops
from fedgraft.wire.layouts import Array, Arrays


@dataclass(frozen=True)
class Node(
    BalancedClasses[NodeShard, NodeData],
    JudgedByData[NodeShard, NodeData],
    AnsweredNodes,
    AuditedClasses[NodeShard, NodeData],
    ClippedNodes,
    ObservedNodes,
    GraphNetworkTask[NodeShard, NodeData],
    LocalGraphTask[NodeShard, NodeData],
    SyntheticNodes,
    abilities.ManualGradientTask[NodeShard, NodeData],
    abilities.PartsTask[NodeShard, NodeData],
    abilities.ProfiledTask[NodeShard, NodeData],
):
    """Node: tell the class of a node of one graph that is cut over clients.

    The encoder's convolutions are followed by a linear layer. Edges between clients stay: of a node elsewhere a client
    knows its features, if these are shared, and its hidden states as its owner last told them. Own neighbours outside a
    batch take part with the states that they had when they were last computed, or are computed anew.

    Asked: a table `nodes` with columns "node", perhaps "client" and, of new nodes, their features; for new nodes also
    `edges` with "source" and "target", and perhaps whose these are, "source_client" and "target_client". One client's
    own tables: `data`, its nodes with features, and `data-edges`.

    Source: Li et al., "FedAIS", AAAI 2025, Eq. (6) and Algorithm 1; historical states of own nodes as Fey et al.,
        "GNNAutoScale", ICML 2021.
    Differs: a round begins with one pass over all own nodes, not over training nodes alone, so that others are told of
        every node (FedAIS does not say where states of nodes without a label come from). A neighbour of which nothing
        is known yet is left out, and the others count for it; the paper has one round of warm-up instead.

    Args:
        inputs: what is read of features; the recipe's [inputs].
        encoder: the convolutions; the recipe's [model].
        objective: what training makes small; the recipe's [loss].
        exchange: what clients tell each other of nodes; the recipe's [exchange].
        answering: what is made of answers; the recipe's [answers].
        head: "linear", a linear layer behind the encoder's convolutions, or "convolution", one more of these.
        generator: whether the model has a generator of neighbours, with which clients mend their parts of the graph
            (FedSage+, Zhang et al., NeurIPS 2021); sharing methods that need one set it. Then neither features nor
            states are shared.
        refinement: whether the model has networks that refine its answers inside a client, which take them over once a
            sharing method says so (AdaFGL, Li et al., ICDE 2024); sharing methods that need them set it.
        mask: whether weights of linear layers have masks; sharing methods that need them set it.
        generated: most neighbours generated for a node, >= 1 (FedSage+: 5).
        hidden: share of its nodes that a client hides from itself to train the generator, in (0, 1) (FedSage+: 0.5).
        elsewhere: nodes of others whose embeddings a client is told, to train the generator to make its own nodes of
            them, and most of its own whose it tells, >= 0; 64 is ours, in place of all.
        judged: what a model is chosen by and told as; taken from evaluation.metric and the data.
        rare: the rarer of two classes, which average precision and F1 are of; taken from the data.
        features: their width; 0 = as the data have.
        edge_features: numbers that an edge carries; 0 = as the data have.
        edge_weights: whether edges have weights; taken from the data.
        classes: how many there are; 0 = as the data have.
        class_names: theirs, for those who have no data but the run's folder; taken from the data.
        sparse: whether features are sparse; taken from the data where `features` is 0.
    """

    profile: ClassVar[frozenset[str]] = PROFILE

    inputs: Inputs = Propagated()
    objective: ClassObjective = CrossEntropy()
    exchange: NodeExchange | SilentExchange = HaloOfNodes()
    answering: Answers = Smoothed()
    generator: bool = False
    mask: bool = False
    refinement: bool = False
    generated: PositiveInt = 5
    hidden: Annotated[float, Interval(gt=0, lt=1)] = 0.5
    elsewhere: NonNegativeInt = 64
    judged: str = ""
    rare: str = ""
    classes: NonNegativeInt = 0
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self)

    @cached_property
    def labels(self) -> CountedClasses | JudgedClasses:
        """One class, with counts for macro-F1 and AUC."""
        names, count = self.class_names, self.classes
        if self.judged:
            return JudgedClasses(names, count, judged=self.judged, rare=self.rare)
        return CountedClasses(names, count)

    @property
    def draws_neighbours(self) -> bool:
        """True where neighbours are drawn or generated."""
        return super().draws_neighbours or self.generator

    @property
    def stochastic(self) -> bool:
        """True where there is dropout, a generator, or a stochastic convolution."""
        return super().stochastic or self.generator

    @cached_property
    def linear(self) -> Linear | None:
        """Of the features; none beside further parts."""
        return None if self.generator or self.mask or self.refinement else super().linear

    @property
    def offers(self) -> frozenset[str]:
        """Of convolutions masks; networks that refine answers, where these depend on no state that was remembered.

        And a generator of neighbours of raw features, where nothing of those elsewhere is shared.
        """
        if not isinstance(self.encoder, LayeredEncoder):
            return frozenset()
        alone = not (self.exchange.features or self.exchange.states or self.inputs.hops)
        refines = not (self.exchange.states or self.inputs.sums_neighbours)
        return frozenset({"mask"} | ({"refinement"} if refines else set()) | ({"generator"} if alone else set()))

    def with_parts(self, parts: frozenset[str]) -> Self:
        """Return this task with those parts that are needed."""
        return replace(
            self,
            generator=self.generator or "generator" in parts,
            mask=self.mask or "mask" in parts,
            refinement=self.refinement or "refinement" in parts,
        )

    @cached_property
    def halo_widths(self) -> tuple[int, ...]:
        """Widths of hidden layers that another convolution reads; or of a generator's embeddings."""
        return super().halo_widths if self._mending is None else self._mending.widths

    def known_of(self, shard: NodeShard) -> dict[str, Any]:
        """Return the width of features and the classes. Raises `InputError` where the data have none."""
        if not shard.classes:
            raise InputError(
                "Task 'node' needs classes of nodes: data.label must name their column, or y hold them; the "
                "task 'link' reads none."
            )
        return {**super().known_of(shard), "classes": len(shard.classes), "class_names": shard.classes}

    def fitted(self, shards: Sequence[NodeShard]) -> Self:
        """Do as other tasks; raise, too, for matrices of nodes that no memory of this machine holds."""
        if self.refinement:
            check_matrices(shards)
        return super().fitted(shards)

    def halos(self, statistics: Mapping[int, Arrays]) -> dict[int, tuple[int, Halo]]:
        """Return the same as published."""
        return (self._mending or self._halo_setup).halos(statistics)

    def prepare(self, shard: NodeShard, shared: Arrays) -> NodeData:
        """Neighbourhoods, features of own nodes and of the halo, no states yet; what neighbours are generated from."""
        data = super().prepare(shard, {name: array for name, array in shared.items() if name != WEIGHTS})
        data.weights, data.shares = self.weights_of(shard, shared), self.shares_of(shard)
        if self.hops:
            data.neighbours = Neighbours(shard, data.features.first(data.own) if self.answering.local_fit else None)
        if self.refinement:
            data.view = View(Within.of(shard).edges)
        if self._mending is not None:
            seen = self._seen(shard)
            assert isinstance(data.around, Neighbourhoods), "a generator is made of convolutions"
            data.part, data.states, data.needed = self._mending.begun(seen, data.features, data.around, shared)
        return data

    def describe(self, data: NodeData) -> dict[str, float]:
        """Shares of training nodes in consecutive parts of the list of classes."""
        return profile_of(data.label[data.rows["train"]], self.classes)

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        """Return a model, the same for all clients."""
        made = super().model(g, variant)
        assert isinstance(made, NodeModel)
        if self.mask:
            made.mask()
        if self.refinement:
            assert isinstance(self.encoder, LayeredEncoder), "whoever asks for it has looked"
            made.refinement = Refinement(
                self.input_width or 1, self.encoder.width, self.classes, self.objective.dropout, g
            )
        if self.generator:
            assert isinstance(self.encoder, LayeredEncoder), "it was checked"
            made.generator = Generator(self.encoder, self.features or 1, self.generated, g)
        return made

    def look(self, model: nn.Module, data: NodeData, seed: int, losses: bool) -> Array:
        """Pass once over all own nodes and note their states; return losses of training nodes, float32 [examples]."""
        if self._mending is not None and (part := data.part) is not None:
            self._mending.note(generator_of(model), part, data.states, data.needed, self.exchange.neighbours, seed)
            if losses or learning(model, data) is None:
                data = data.mended(model, self._mending)
                flops.count(part.mended[2] // 2)  # as if it were mended in every round, wherever it was
        return super().look(model, data, seed, losses)

    def loss(self, model: nn.Module, data: NodeData, draw: Draw, encoded: Tensor | None) -> Loss:
        """Cross-entropies, float32 [examples], and the hidden layer; as long as a generator learns its losses alone."""
        if self.refinement and (networks := refining(model)):
            return refining_losses(networks, model, data, data.rows["train"][draw.examples])
        if (part := learning(model, data)) is not None and self._mending is not None:
            nodes, most = data.rows["train"][draw.examples], self._most(draw)
            return self._mending.losses(model, part, data.states, nodes, most, draw.seed)
        return losses_of(model, *self._step(model, data, draw))

    def loss_and_backward(self, model: nn.Module, data: NodeData, draw: Draw) -> abilities.LossesAndBackward | None:
        """Return where the model has a gradient written by hand."""
        if not by_hand(model, data) or learning(model, data) is not None:
            return None
        if self.refinement and refining(model):
            return None
        return losses_with_back(model, *self._step(model, data, draw))

    def read(self, data: NodeData, draw: Draw) -> list[Indices]:
        """Return halo nodes, int64 [n], that each hidden layer reads; those whose embeddings train a generator."""
        if self._mending is None:
            return super().read(data, draw)
        nodes = data.rows["train"][draw.examples if draw.ahead is None else draw.ahead]
        return [self._mending.read(data.states, len(nodes), draw.seed)]

    def relay(self, model: nn.Module, data: NodeData, layer: int) -> list[HaloRows]:
        """States of one hidden layer of all own nodes, from all their neighbours."""
        return (
            [] if self._mending is not None else super().relay(model, data, layer)
        )  # embeddings have no part in a score

    def evaluate(self, model: nn.Module, data: NodeData) -> dict[str, Sums]:
        """Return sums of a classification."""
        shares, rows = self.scored(model, data), {split: data.rows[split] for split in SCORED_SPLITS}
        return {split: self.sums_by(shares[of], data.label[of]) for split, of in rows.items()}

    def scored(self, model: nn.Module, data: NodeData) -> Array:
        """Return probabilities of all own nodes, float32 [own, classes]."""
        if self.refinement and (networks := refining(model)):
            return refined_answers(networks, model, data)
        return data.mended(model, self._mending).scored(model)[: data.own].softmax(1).numpy()  # not generated ones

    def local_graph(self, model: nn.Module, data: NodeData) -> LocalGraph:
        """Own nodes and the edges between them, whatever the model sees of others."""
        train, features = data.rows["train"], data.features.first(data.own)
        return LocalGraph(self.scored(model, data), features, data.around.edges, train, data.label[train])

    @property
    def given_width(self) -> int:
        """Columns of features, of all hops where these are weighed by what is learnt."""
        return (self.inputs.hops + 1) * self.features if self.inputs.attends else self.input_width

    def on_graph(self, model: nn.Module, features: Tensor, edges: Indices) -> Tensor:
        """All layers on all nodes."""
        return logits_on(model, self.encoder, self.layers, features, edges, self.edge_features)

    def plain(self, model: nn.Module, shard: NodeShard | None, shared: Arrays) -> PlainModel:
        """The convolutions and the head."""
        assert isinstance(model, NodeModel), "nodes have no ensembles"
        names = self.class_names or [str(number) for number in range(self.classes)]
        for part in ("generator", "refinement"):
            require(not getattr(self, part), f"task.{part}", "false for a model that is exported", True)
        return plain_nodes(self, model, names)

    def embeddings(self, model: nn.Module, data: NodeData) -> Array:
        """Return the last hidden layer of all own nodes, float32 [own, width]."""
        return data.mended(model, self._mending).hidden(model)[: data.own]

    @cached_property
    def _mending(self) -> Mending | None:
        return Mending(self.generated, self.hidden, self.elsewhere) if self.generator else None

    @property
    def _set_up(self) -> HaloSetup | Aggregates | Mending | None:
        """The exchange before training; None for none."""
        return self._mending or super()._set_up

    def _step(self, model: nn.Module, data: NodeData, draw: Draw) -> tuple[NodeData, Computed, ClassObjective]:
        """The client's part of the graph, mended where it is, what a draw is computed from, and its losses."""
        data = data.mended(model, self._mending)
        return data, self._computed(data, draw), self.objective
