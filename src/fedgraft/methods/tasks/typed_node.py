"""Typed node: tell the class of a node of one type in a graph of several types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import pandas as pd
import torch
from torch import Tensor, nn

from fedgraft.contracts import (
    SCORED_SPLITS,
    SPLITS,
    Answers,
    Batch,
    Classified,
    ClassObjective,
    Inputs,
    Labels,
    LocalGraph,
    LocalGraphTask,
    Losses,
    MetapathEncoder,
    NonNegativeInt,
    Observations,
    ObservedTask,
    PooledTask,
    PredictingTask,
    Questions,
    SilentExchange,
    Sums,
    Unit,
    part,
)
from fedgraft.domains.edge_data.read_edges import carried_by, note_unread
from fedgraft.domains.labels.class_weights import weighted
from fedgraft.domains.labels.classes import PROFILE, Classes, likeliest, profile_of
from fedgraft.domains.labels.metric_choice import MetricByData
from fedgraft.domains.labels.metric_classes import MetricClasses
from fedgraft.domains.labels.smoothed_answers import SmoothedAnswers
from fedgraft.domains.publications import Publications
from fedgraft.domains.typed.client_data import CrossClientTargets, TypedData, TypedModel, features_read
from fedgraft.domains.typed.metapath_graphs import cross_client_targets, graph_of, metapath_matrix, note_unpassed
from fedgraft.domains.typed.queries import TypedNodeQuery, split_typed_nodes_asked, with_new_nodes
from fedgraft.domains.typed.shards import JOIN, TypedGraph, apart, merge_graphs, metapath_types, shortest_metapaths
from fedgraft.errors import InputError, require
from fedgraft.methods.answers.smoothed import Smoothed
from fedgraft.methods.exchanges.no_exchange import NoExchange
from fedgraft.methods.inputs.propagated import Propagated
from fedgraft.methods.losses.cross_entropy import CrossEntropy
from fedgraft.nn.layers import device_of
from fedgraft.wire.layouts import Array, Arrays

READING = dict.fromkeys(("columns", "weights"), "model.name = 'metapath_means' does.")
"""Who reads what edges of typed graphs carry."""


@dataclass(frozen=True)
class TypedNode(
    MetricByData[TypedGraph, TypedData],
    PredictingTask[TypedGraph, TypedData],
    LocalGraphTask[TypedGraph, TypedData],
    ObservedTask[TypedGraph, TypedData],
    PooledTask[TypedGraph, TypedData],
):
    """Typed node: tell the class of a node of one type in a graph of several types.

    A metapath such as "paper-author-paper" joins nodes of the target type. The encoder makes an embedding of each from
    its own features and those of the nodes that metapaths join to it; a linear layer tells the class. A step computes
    the embeddings of all of a client's target nodes. What clients share is the model: metapaths end where a client's
    part of the graph ends.

    Asked: a table `nodes` with columns "node", perhaps "client" and, of new nodes, their features; for new nodes also
    `edges` with "source_type", "source", "target_type" and "target".

    Source: Wang et al., "RAFHGL", AAAI 2025, experiment setting; Wang et al., "HAN", WWW 2019.
    Differs: HAN reads features of every type that a metapath begins with; here there is one such type, the target.

    Args:
        inputs: what is read of features; the recipe's [inputs].
        encoder: reads metapaths; the recipe's [model].
        objective: what training makes small; the recipe's [loss].
        exchange: which neighbours take part; the recipe's [exchange].
        answering: what is made of answers; the recipe's [answers].
        metapaths: names of node types joined by "-", each from the target type to the target type; the target type
            alone stands for a node by itself. () = as the data suggest.
        judged: what a model is chosen by and told as; taken from evaluation.metric and the data.
        positive_class: the rarer of two classes, which average precision and F1 are of; taken from the data.
        features: their width; 0 = as the data have.
        classes: how many there are; 0 = as the data have.
        class_names: theirs, for those who have no data but the run's folder; taken from the data.
        edge_features: numbers that an edge carries; 0 = as the data have. Inputs and answers read none.
        edge_weights: whether edges have weights; taken from the data. Likewise.
    """

    offers: ClassVar[frozenset[str]] = frozenset({"head"})
    asks: ClassVar[tuple[str, ...]] = ("nodes", "edges")
    profile: ClassVar[frozenset[str]] = PROFILE

    encoder: MetapathEncoder
    inputs: Inputs = Propagated()
    objective: ClassObjective = CrossEntropy()
    exchange: SilentExchange = NoExchange()
    answering: Answers = Smoothed()
    metapaths: tuple[str, ...] = ()
    judged: str = ""
    positive_class: str = ""
    features: NonNegativeInt = 0
    classes: NonNegativeInt = 0
    class_names: tuple[str, ...] = ()
    edge_features: NonNegativeInt = 0
    edge_weights: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = not (self.inputs.attends or self.inputs.sums_neighbours)
        why = "one vector cannot weigh the hops of several metapaths, and these end inside a client"
        require(fits, "inputs", f"without attention and aggregates for nodes of several types: {why}", self.inputs)
        tells = "labels" in self.answering.ways(2, 1).row_tells
        require(not tells, "answers.share_labels", "false for nodes of several types: no row leaves a client", tells)
        if len(again := [path for path in self.metapaths if self.metapaths.count(path) > 1]):
            raise InputError(f"TypedNode.metapaths names {again[0]!r} twice.")

    @cached_property
    def labels(self) -> Labels:
        """One class."""
        if self.judged:
            return MetricClasses(self.class_names, self.classes, self.objective, self.judged, self.positive_class)
        return Classes(self.class_names, self.classes, self.objective)

    @part
    def smoothed(self) -> SmoothedAnswers:
        """How answers are bettered after training."""
        hidden = self._hidden, self.encoder.width
        return SmoothedAnswers(self.labels, self.scored, self._answered, self.answering, self.classes, *hidden)

    @part
    def publications(self) -> Publications:
        """How many nodes each class has, where classes are to count alike."""
        return Publications(self.published)

    @property
    def stochastic(self) -> bool:
        """True where there is dropout."""
        return self.objective.dropout > 0

    @property
    def hidden_width(self) -> int:
        """Width of an embedding."""
        return self.encoder.width

    @property
    def common_classes(self) -> int:
        """Number of classes."""
        return self.classes

    def fitted(self, shards: Sequence[TypedGraph]) -> Self:
        """With the width of features, the classes and the metapaths; raises for a metapath that there is not."""
        first = shards[0]
        known: dict[str, Any] = {"features": first.width, "classes": len(first.classes), "class_names": first.classes}
        known |= carried_by(first.carried)
        for name, value in known.items():
            if (setting := getattr(self, name)) not in (0, (), value):
                raise InputError(f"task.{name} = {setting}, but the data have {value}.")
        metapaths = self.metapaths or first.metapaths or shortest_metapaths(first.target, list(first.edges))
        for metapath in metapaths:
            metapath_types(metapath, first, "TypedNode.metapaths")
        note_unread(self, first.width, first.carried, READING)
        if not (self.edge_features or self.edge_weights):  # what is known already was told when it was found
            options = {"inputs.propagate": self.inputs.hops, "answers.smoothing": self.smoothed.ways.hops}
            note_unpassed(first, metapaths, [name for name, hops in options.items() if hops])
        return replace(self, **known, metapaths=metapaths)

    def prepare(self, shard: TypedGraph, shared: Arrays) -> TypedData:
        """Features, and one graph for each metapath."""
        joins = {metapath: metapath_matrix(shard, metapath, self.exchange.neighbours) for metapath in self.metapaths}
        graphs = [graph_of(self.encoder, shard, *each, self.edge_features) for each in joins.items()]
        rows = {split: shard.rows(split) for split in SPLITS}
        made, features = features_read(self.inputs, shard, [joins[each] for each in self._joining])
        joined = [joins[each] for each in self._joining] if self.smoothed.ways.hops else []
        around = CrossClientTargets(shard, rows, joined, made) if self.smoothed.hops else None
        counting = self.weights_of(shard, shared), self.shares_of(shard)
        return TypedData(shard, features, graphs, torch.from_numpy(shard.label), rows, *counting, around)

    def examples(self, data: TypedData) -> int:
        """Return how many training nodes the client has."""
        return len(data.rows["train"])

    def describe(self, data: TypedData) -> dict[str, float]:
        """Shares of training nodes in consecutive parts of the list of classes."""
        return profile_of(data.part.label[data.rows["train"]], len(data.part.classes))

    def pooled(self, shards: Sequence[TypedGraph]) -> TypedGraph:
        """Return the whole graph, as far as clients have its edges."""
        return merge_graphs(shards)

    def side_by_side(self, shards: Sequence[TypedGraph]) -> TypedGraph:
        """Return all clients' parts as one graph, in which each has nodes of other types for itself."""
        return merge_graphs([apart(shard, number) for number, shard in enumerate(shards)])

    def model(self, g: torch.Generator, variant: object = None) -> nn.Module:
        """Return a model, the same for all clients."""
        path_widths = [metapath.count(JOIN) * self.edge_features for metapath in self.metapaths] or [0]
        width = self.inputs.width(self.features or 1, len(self._joining))
        return TypedModel(self.encoder, width, path_widths, self.labels.width, self.objective.dropout, g)

    def loss(self, model: nn.Module, data: TypedData, draw: Batch, encoded: Tensor | None) -> Losses:
        """Return the cross-entropy of each node of the draw, [n], and their embeddings, [n, width]."""
        data = data.on(device_of(model))
        nodes = torch.from_numpy(data.rows["train"][draw.examples]).to(data.label.device)
        hidden = model.represent(data.features, data.graphs)[nodes]  # type: ignore[operator]
        logits = model.classify(hidden)  # type: ignore[operator]
        label = data.label[nodes]
        return Losses(weighted(self.labels.losses(logits, label, data.shares), label, data.weights), hidden=hidden)

    def observe(self, model: nn.Module, data: TypedData) -> Observations:
        """What the model makes of all training nodes, and their PageRank."""
        there, nodes = data.on(device_of(model)), data.rows["train"]
        hidden = model.represent(there.features, there.graphs)[nodes]  # type: ignore[operator]
        logits = model.classify(hidden)  # type: ignore[operator]
        label = there.label[nodes]
        return Observations(
            losses=self.labels.losses(logits, label, data.shares).numpy(force=True),
            probabilities=logits.softmax(1).numpy(force=True),
            hidden=hidden.numpy(force=True),
            correct=(logits.argmax(1) == label).numpy(force=True),
            centrality=data.centrality[nodes],
            labels=data.part.label[nodes],
        )

    def local_graph(self, model: nn.Module, data: TypedData) -> LocalGraph:
        """Target nodes, joined where a metapath joins them."""
        if data.joined is None:
            data.joined = cross_client_targets(data.part, self._joining, self.exchange.neighbours)
        shares, train = self._logits(model, data).softmax(1).numpy(), data.rows["train"]
        return LocalGraph(shares, data.part.features, data.joined, train, data.part.label[train])

    def evaluate(self, model: nn.Module, data: TypedData) -> dict[str, Sums]:
        """Right answers, nodes and summed cross-entropies."""
        logits, label = self._logits(model, data), data.label
        rows = {split: data.rows[split] for split in SCORED_SPLITS}
        return {split: self.labels.sums_of([(logits[of], label[of])], Unit()) for split, of in rows.items()}

    def scored(self, model: nn.Module, data: TypedData) -> Array:
        """Return probabilities of all own target nodes, float32 [targets, classes]."""
        return self._logits(model, data).softmax(1).numpy()

    def _hidden(self, model: nn.Module, data: TypedData) -> Array:
        """Return the embeddings of all own target nodes, float32 [targets, width]."""
        there = data.on(device_of(model))
        hidden: Tensor = model.represent(there.features, there.graphs)  # type: ignore[operator]
        return hidden.numpy(force=True)

    def _answered(self, data: TypedData) -> CrossClientTargets:
        """Own target nodes and those that metapaths join to them."""
        assert data.around is not None, "it was prepared by a task that betters answers"
        return data.around

    def represent(self, model: nn.Module, data: TypedData) -> tuple[Array, Array] | None:
        """The embeddings of the test nodes, float32 [n, width], and their classes by number, int64 [n]."""
        there, nodes = data.on(device_of(model)), data.rows["test"]
        with torch.no_grad():
            hidden = model.represent(there.features, there.graphs)[nodes]  # type: ignore[operator]
        return hidden.cpu().numpy(), data.part.label[nodes]

    def questions(self, shards: Sequence[TypedGraph], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """Nodes that clients have, by id, and new ones with features and edges, each with the client that answers."""
        return split_typed_nodes_asked(shards, tables)

    def predict(
        self, model: nn.Module, shard: TypedGraph, remembered: Mapping[str, Any], asked: TypedNodeQuery
    ) -> dict[str, Array]:
        """The likeliest class of each node, columns [nodes], and how likely the model takes it to be."""
        with torch.no_grad():
            graph, nodes = with_new_nodes(shard, asked)
            data = self.prepare(graph, {})
            shares = self.smoothed.as_remembered(model, data, remembered)
        return {"node": asked.ids, **likeliest(shard.classes, shares[nodes])}

    def classified(
        self, model: nn.Module, shard: TypedGraph, data: TypedData, remembered: Mapping[str, Any]
    ) -> Classified:
        """The likeliest classes of the test nodes."""
        with torch.no_grad():
            shares = self.smoothed.as_remembered(model, data, remembered)[data.rows["test"]]
        return Classified(shard.classes, shard.label[data.rows["test"]], shares.argmax(1), shares)

    def embed(
        self, model: nn.Module, shard: TypedGraph, remembered: Mapping[str, Any], asked: TypedNodeQuery | None
    ) -> tuple[dict[str, Array], Array]:
        """The embeddings of target nodes, float32 [nodes, width]."""
        graph, nodes = (shard, shard.rows("test")) if asked is None else with_new_nodes(shard, asked)
        there = self.prepare(graph, {}).on(device_of(model))
        with torch.no_grad():
            hidden = model.represent(there.features, there.graphs)[nodes]  # type: ignore[operator]
        ids = shard.ids[shard.target][nodes] if asked is None else asked.ids
        return {"node": ids}, hidden.cpu().numpy()

    @property
    def _joining(self) -> list[str]:
        """The metapaths that join two nodes, not each to itself alone."""
        return [metapath for metapath in self.metapaths if JOIN in metapath]

    def _logits(self, model: nn.Module, data: TypedData) -> Tensor:
        """Logits of all target nodes, float32 [targets, classes], on the CPU."""
        there = data.on(device_of(model))
        logits: Tensor = model(there.features, there.graphs)
        return logits.cpu()
