"""Node: tell the class of a node of one graph that is cut over clients."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn

from fedgraft.contracts import (
    SCORED_SPLITS,
    Answers,
    Batch,
    ClassObjective,
    ExchangeOfNodes,
    InnerFraction,
    Inputs,
    LayeredEncoder,
    Linear,
    Loss,
    LossesAndBackward,
    NetworkEncoder,
    NonNegativeInt,
    PlainModel,
    PositiveInt,
    SilentExchange,
    Sums,
    part,
)
from fedgraft.domains.labels.classes import PROFILE, AuditedClasses, CountedClasses, profile_of
from fedgraft.domains.labels.metric_classes import MetricClasses
from fedgraft.domains.labels.smoothed_answers import SmoothedAnswers
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.extensions.asked_for import Extensions, check_options, extensions_of
from fedgraft.domains.nodes.task.answers import NodeAnswers
from fedgraft.domains.nodes.task.node_reader import plain_nodes
from fedgraft.domains.nodes.task.node_task import NodeTask
from fedgraft.domains.nodes.task.variants import ClippedNodes, SyntheticNodes
from fedgraft.domains.nodes.task.views import NodeViews
from fedgraft.domains.nodes.training.client_graph import NodeData, by_hand, losses_of, losses_with_back
from fedgraft.domains.nodes.training.model import NodeModel, network_of_nodes
from fedgraft.errors import InputError, require
from fedgraft.methods.answers.smoothed import Smoothed
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.inputs.propagated import Propagated
from fedgraft.methods.losses.cross_entropy import CrossEntropy
from fedgraft.wire.layouts import Array, Arrays


@dataclass(frozen=True)
class Node(NodeTask):
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
        positive_class: the rarer of two classes, which average precision and F1 are of; taken from the data.
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
    exchange: ExchangeOfNodes | SilentExchange = Halo()
    answering: Answers = Smoothed()
    generator: bool = False
    mask: bool = False
    refinement: bool = False
    generated: PositiveInt = 5
    hidden: InnerFraction = 0.5
    elsewhere: NonNegativeInt = 64
    judged: str = ""
    positive_class: str = ""
    classes: NonNegativeInt = 0
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self)

    @cached_property
    def labels(self) -> CountedClasses | MetricClasses:
        """One class, with counts for macro-F1 and AUC."""
        names, count = self.class_names, self.classes
        if self.judged:
            return MetricClasses(names, count, judged=self.judged, positive_class=self.positive_class)
        return CountedClasses(names, count)

    @cached_property
    def extensions(self) -> Extensions:
        """Those whose options are set."""
        return extensions_of(self)

    @part
    def smoothed(self) -> SmoothedAnswers:
        """How answers are bettered after training."""
        return SmoothedAnswers(
            self.labels,
            self.scored,
            NodeData.answered,
            self.answering,
            self.classes,
            self.embeddings,
            self.encoder.width if isinstance(self.encoder, LayeredEncoder) else 0,
        )

    @part
    def asked(self) -> NodeAnswers:
        """What is answered of nodes, old and new."""
        return NodeAnswers(self, self.smoothed)

    @part
    def audited(self) -> AuditedClasses:
        """Training nodes and their classes, as an audit changes them."""
        return AuditedClasses()

    @part
    def clipping(self) -> ClippedNodes:
        """The gradient of each training node by itself."""
        connected = self.exchange.features or self.exchange.states or self.inputs.sums_neighbours
        return ClippedNodes(self.encoder, self.inputs.hops, connected, self.objective)

    @part
    def views(self) -> NodeViews:
        """What a model makes of nodes."""
        given = (self.inputs.hops + 1) * self.features if self.inputs.attends else self.input_width
        options = self.draws, self.objective, self.scored, self.classes, self._hidden_width, given
        return NodeViews(self.encoder, self.edge_features, *options)

    @part
    def synthesis(self) -> SyntheticNodes:
        """A graph that is nobody's."""
        names = self.class_names or tuple(str(number) for number in range(self.labels.width))
        if isinstance(self.encoder, NetworkEncoder):
            made = network_of_nodes(self.encoder, self.input_width or 1, torch.Generator(), self.edge_features)
            width = made.width
        else:
            width = self.encoder.width if self.encoder.depth else self.labels.width
        return SyntheticNodes(self.features or 1, names, self.sparse, self.prepare, self.embeddings, width)

    @property
    def seeds_draws(self) -> bool:
        """True where neighbours are drawn or generated."""
        return super().seeds_draws or any(each.seeds_draws for each in self.extensions)

    @property
    def stochastic(self) -> bool:
        """True where there is dropout, a generator, or a stochastic convolution."""
        return super().stochastic or any(each.seeds_draws for each in self.extensions)

    @cached_property
    def linear(self) -> Linear | None:
        """Of the features; none beside further parts."""
        return None if self.extensions else super().linear

    @property
    def offers(self) -> frozenset[str]:
        """Of convolutions masks; networks that refine answers, where these depend on no state that was remembered.

        And a generator of neighbours of raw features, where nothing of those elsewhere is shared.
        """
        if not isinstance(self.encoder, LayeredEncoder):
            return frozenset()
        alone = self.inputs.raw and not (self.exchange.features or self.exchange.states)
        refines = not (self.exchange.states or self.inputs.sums_neighbours)
        return frozenset({"mask"} | ({"refinement"} if refines else set()) | ({"generator"} if alone else set()))

    def with_parts(self, parts: frozenset[str]) -> Self:
        """Return this task with those parts that are needed."""
        return replace(self, **dict.fromkeys(parts, True))  # type: ignore[arg-type]

    def known_of(self, shard: NodeShard) -> dict[str, Any]:
        """Return the width of features and the classes. Raises `InputError` where the data have none."""
        if not shard.classes:
            raise InputError(
                "Task 'node' needs classes of nodes: data.label must name their column, or y hold them; the "
                "task 'link' reads none."
            )
        return {**super().known_of(shard), "classes": len(shard.classes), "class_names": shard.classes}

    def fitted(self, shards: Sequence[NodeShard]) -> Self:
        """Do as other tasks; raise, too, for what no extension can do here."""
        for each in self.extensions:
            each.check(shards)
        return super().fitted(shards)

    def prepare(self, shard: NodeShard, shared: Arrays) -> NodeData:
        """Neighbourhoods, features of own nodes and of the halo, no states yet; what extensions read."""
        data = super().prepare(shard, shared)
        if self.smoothed.hops:
            data.smoothed_over(shard, self.smoothed.ways.reads_inputs)
        for each in self.extensions:
            each.prepare(data, shard, self.seen(shard), self.told_of_nodes(shared))
        return data

    def describe(self, data: NodeData) -> dict[str, float]:
        """Shares of training nodes in consecutive parts of the list of classes."""
        return profile_of(data.label[data.rows["train"]], self.classes)

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        """Return a model, the same for all clients."""
        made = super().model(g, variant)
        for each in self.extensions:
            each.extend(cast(NodeModel, made), g)
        return made

    def loss(self, model: nn.Module, data: NodeData, draw: Batch, encoded: Tensor | None) -> Loss:
        """Cross-entropies, float32 [examples], and the hidden layer; an extension's in place of these."""
        for each in self.extensions:
            nodes = data.rows["train"][draw.examples]
            if (losses := each.losses(model, data, nodes, self.draws.most(draw), draw.seed)) is not None:
                return losses
        data = self._viewed(model, data)
        return losses_of(model, data, self._computed(data, draw), self.objective)

    def loss_and_backward(self, model: nn.Module, data: NodeData, draw: Batch) -> LossesAndBackward | None:
        """Return where the model has a gradient written by hand."""
        if not by_hand(model, data) or any(each.answers(model) for each in self.extensions):
            return None
        data = self._viewed(model, data)
        return losses_with_back(model, data, self._computed(data, draw), self.objective)

    def evaluate(self, model: nn.Module, data: NodeData) -> dict[str, Sums]:
        """Return sums of a classification."""
        shares, rows = self.scored(model, data), {split: data.rows[split] for split in SCORED_SPLITS}
        return {split: self.labels.sums_by(shares[of], data.label[of]) for split, of in rows.items()}

    def scored(self, model: nn.Module, data: NodeData) -> Array:
        """Return probabilities of all own nodes, float32 [own, classes]."""
        for each in self.extensions:
            if (shares := each.scored(model, data)) is not None:
                return shares
        return self._viewed(model, data).scored(model)[: data.own].softmax(1).numpy()  # not generated ones

    def plain(self, model: nn.Module, shard: NodeShard | None, shared: Arrays) -> PlainModel:
        """The convolutions and the head."""
        assert isinstance(model, NodeModel), "nodes have no ensembles"
        names = self.class_names or [str(number) for number in range(self.classes)]
        for option in ("generator", "refinement"):
            require(not getattr(self, option), f"task.{option}", "false for a model that is exported", True)
        return plain_nodes(self, model, names)

    def embeddings(self, model: nn.Module, data: NodeData) -> Array:
        """Return the last hidden layer of all own nodes, float32 [own, width]."""
        return self._viewed(model, data).hidden(model)[: data.own]

    @cached_property
    def _hidden_width(self) -> int:
        """Width of the last hidden layer; of a model without any, of its logits; 0 as long as it is not known."""
        if isinstance(self.encoder, NetworkEncoder):
            width, columns = self.input_width, self.edge_features
            return self.encoder.network(width, torch.Generator(), columns).width if self.features else 0
        return self.encoder.width if self.encoder.depth else self.classes

    def _viewed(self, model: nn.Module, data: NodeData) -> NodeData:
        """The part of the graph that the model is run on."""
        for each in self.extensions:
            data = each.view(model, data)
        return data
