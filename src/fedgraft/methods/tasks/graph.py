"""Graph: tell the class of a whole graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import nn

from fedgraft.contracts import (
    SCORED_SPLITS,
    SPLITS,
    ClassObjective,
    ClassShares,
    Indices,
    Labels,
    Observations,
    OwnAnswers,
    OwnInputs,
    Singles,
    part,
)
from fedgraft.contracts.abilities import Classified, ObservedTask, PlainModel
from fedgraft.domains.graphs.clipped_graphs import ClippedGraphs
from fedgraft.domains.graphs.graph_task import GraphData, GraphTask
from fedgraft.domains.graphs.model import width_of
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.labels.class_weights import counts_of, own_weights
from fedgraft.domains.labels.classes import PROFILE, AuditedClasses, Classes, profile_of
from fedgraft.domains.labels.metric_choice import MetricByData
from fedgraft.domains.labels.metric_classes import MetricClasses
from fedgraft.domains.labels.smoothed_answers import SmoothedAnswers
from fedgraft.domains.labels.smoothing import Apart
from fedgraft.errors import require
from fedgraft.methods.answers.prior_shift import PriorShift
from fedgraft.methods.inputs.raw_features import RawFeatures
from fedgraft.methods.losses.cross_entropy import CrossEntropy
from fedgraft.nn.layers import device_of
from fedgraft.wire.layouts import Array, Arrays


@dataclass(frozen=True)
class Graph(
    MetricByData[GraphShard, GraphData],
    GraphTask,
    ObservedTask[GraphShard, GraphData],
):
    """Graph: tell the class of a whole graph.

    Every client has node features and classes of its own. A linear layer brings its features to the common width, the
    encoder's convolutions follow, sums over each graph's nodes are read off behind every one of them, and a perceptron
    tells the class. The first layer, the normalisations and the perceptron have shapes or statistics that are the
    client's own and never travel; the convolutions may.

    Asked: tables `nodes` and `edges` with the columns of the data set `graphs`; and `graphs`, with columns "graph" and
    perhaps "client", where not one client answers for all, or in another order than that of `nodes`.

    Source: CEFGL, section 5.1 (two layers, accuracy); Xu et al., "GIN", ICLR 2019, Eq. (4.2) (sums behind every layer);
        Li et al., "FedBN", ICLR 2021 (normalisations stay); Tan et al., "FedStar", AAAI 2023, section 4 (the channel of
        structure).
    Differs: the papers do not say what their input layers and heads look like.

    Args:
        inputs: what is read of nodes' attributes; the recipe's [inputs].
        objective: what training makes small; the recipe's [loss].
        answering: what is made of answers; the recipe's [answers]. Heads are the client's own, so that there is little
            to gain.
        encoder: the convolutions; the recipe's [model]. Without any (`mlp` with hidden = []) the model is linear in
            counts of subtrees.
        normalise: "batch" (Xu et al.) or "nothing", behind every convolution.
        places: whether the first layer sees nodes' places (random walks that return, degrees) beside their features.
        structure: whether the model has a second channel beside the first, of convolutions that see nodes' places and
            no features; sharing methods that need one set it.
        walks: longest random walk that places are told by, >= 1 (FedStar: 16).
        degrees: largest degree that places are told by, >= 1 (FedStar: 16).
        judged: what a model is chosen by and told as; taken from evaluation.metric and the data.
        positive_class: the rarer of two classes, which average precision and F1 are of; taken from the data.
        class_names: names of the classes where all clients have the same; taken from the data.
        wl: steps of Weisfeiler-Lehman colours whose counts the model sees beside the convolutions, >= 0; 0 = none.
        wl_width: buckets that colours are hashed into, >= 1.
        wl_scale: length of a graph's vector of counts, > 0 (ours).
        wl_shared: whether the layer that reads counts travels; only where counts are all that is read, and all clients
            have the same classes.
        edge_features: numbers that an edge carries; 0 = as the data have.
        edge_weights: whether edges have weights; taken from the data.
    """

    profile: ClassVar[frozenset[str]] = PROFILE

    objective: ClassObjective = CrossEntropy()
    inputs: OwnInputs = RawFeatures()
    answering: OwnAnswers = PriorShift()
    judged: str = ""
    positive_class: str = ""
    class_names: tuple[str, ...] = ()

    @cached_property
    def labels(self) -> Labels:
        """One class of several, the client's own."""
        if self.judged and self.class_names:
            return MetricClasses(
                self.class_names, objective=self.objective, judged=self.judged, positive_class=self.positive_class
            )
        return Classes(objective=self.objective)

    @part
    def smoothed(self) -> SmoothedAnswers:
        """How answers are bettered after training."""
        return SmoothedAnswers(self.labels, self.scored, _answered, self.answering)

    @part
    def audited(self) -> AuditedClasses:
        """Training graphs and their classes, as an audit changes them."""
        return AuditedClasses()

    @part
    def clipping(self) -> ClippedGraphs:
        """The gradient of each training graph by itself."""
        return ClippedGraphs(self.encoder, self.objective)

    @property
    def common_outputs(self) -> int:
        """Classes, where all clients have the same."""
        return len(self.class_names)

    def fitted(self, shards: Sequence[GraphShard]) -> Self:
        """Do as other tasks; raise where one linear layer is to tell classes that differ by client."""
        made = super().fitted(shards)
        own = self.counts_alone and self.wl_shared and len({tuple(shard.classes) for shard in shards}) > 1
        require(not own, "task.wl_shared", "false where clients have classes of their own", self.wl_shared)
        return made

    def labels_of(self, shard: GraphShard) -> Labels:
        """Return the client's own classes."""
        return Classes(shard.classes)

    def prepare(self, shard: GraphShard, shared: Arrays) -> GraphData:
        """Held-out graphs as batches, training graphs to be put together; weights of classes."""
        data = super().prepare(shard, shared)
        classes = len(shard.classes)
        weights = own_weights(self.objective.class_weights, shard, shard.classes, classes)
        shares = ClassShares.of(counts_of(shard, classes)) if self.objective.reads_shares else None
        return replace(data, weights=weights, shares=shares)

    def scored(self, model: nn.Module, data: GraphData) -> Singles:
        """Return probabilities of the graphs of all splits, one behind the other, float32 [graphs, classes]."""
        device, held_out = device_of(model), [data.on(device_of(model), split) for split in SCORED_SPLITS]
        batches = [[batch.to(device) for batch in self._batches(data.collator, data.train)], *held_out]
        parts = [model(batch).softmax(1).cpu() for split in batches for batch in split]
        return torch.cat([torch.zeros(0, data.variant.classes), *parts]).numpy()

    def predict(
        self, model: nn.Module, shard: GraphShard, remembered: Mapping[str, Any], asked: GraphShard
    ) -> dict[str, Array]:
        """The likeliest class of each graph, and how likely the model takes it, and each class, to be."""
        outputs, then = self.outputs_of(model, asked), remembered.get("smoothing", {}).get("answers")
        if self.smoothed.hops and then is not None:
            known = _in_order({split: [shard.label[shard.rows(split)]] for split in SPLITS})
            every = np.concatenate([then, outputs.softmax(1).numpy()])
            outputs = torch.from_numpy(self.smoothed.shifted(known, every, remembered)[len(then) :]).log()
        return {"graph": asked.ids, **self.labels_of(shard).answers(outputs, self.unit_of(shard))}

    def describe(self, data: GraphData) -> dict[str, float]:
        """Shares of training graphs in consecutive parts of the list of classes."""
        return profile_of(data.label[data.train], data.variant.classes)

    def survey(self, shard: GraphShard) -> dict[str, float]:
        """Return the number of training graphs, and what `describe` tells."""
        return {**super().survey(shard), **profile_of(shard.label[shard.rows("train")], len(shard.classes))}

    @property
    def hidden_width(self) -> int:
        """Width of the head's hidden layer."""
        return width_of(self.encoder)

    @property
    def common_classes(self) -> int:
        """Number of classes where all clients have the same."""
        return len(self.class_names)

    def observe(self, model: nn.Module, data: GraphData) -> Observations:
        """What the model makes of all training graphs; the more nodes, the more central."""
        device, parts = device_of(model), self._batches(data.collator, data.train)
        seen = []
        for batch in (each.to(device) for each in parts):
            hidden = model.represent(batch)  # type: ignore[operator]
            logits = model.classify(hidden, batch)  # type: ignore[operator]
            each = model.losses(hidden, batch, data.shares)  # type: ignore[operator]
            seen.append((each, logits.softmax(1), hidden, logits.argmax(1) == batch.label))
        losses, shares, states, correct = (torch.cat(parts).numpy(force=True) for parts in zip(*seen, strict=True))
        sizes, labels = data.collator.sizes[data.train].astype(np.float32), data.label[data.train]
        return Observations(losses, shares, states, correct, sizes, labels)

    def plain(self, model: nn.Module, shard: GraphShard | None, shared: Arrays) -> PlainModel:
        """The client's first layer, the convolutions, the readout and the head."""
        return self.plain_of(model, cast(GraphShard, shard))

    def classified(
        self, model: nn.Module, shard: GraphShard, data: GraphData, remembered: Mapping[str, Any]
    ) -> Classified:
        """The likeliest classes of the test graphs."""
        with torch.no_grad():
            shares = self.smoothed.as_remembered(model, data, remembered)
        known = _answered(data)
        shares = shares[known.rows("test")]
        return Classified(shard.classes, known.label[known.rows("test")], shares.argmax(1), shares)

    def embed(
        self, model: nn.Module, shard: GraphShard, remembered: Mapping[str, Any], asked: GraphShard | None
    ) -> tuple[dict[str, Array], Array]:
        """The head's hidden layer of graphs, float32 [graphs, hidden]."""
        graphs = shard.rows("test") if asked is None else np.arange(asked.graphs)
        source, device = asked or shard, device_of(model)
        with torch.no_grad():
            batches = self._batches(self._collator(source), graphs)
            parts = [model.represent(batch.to(device)).cpu() for batch in batches]  # type: ignore[operator]
        hidden = torch.cat(parts).numpy() if parts else np.zeros((0, self.hidden_width), np.float32)
        return {"graph": source.ids[graphs]}, hidden


def _answered(data: GraphData) -> Apart:
    """The graphs of all splits, one behind the other."""
    held_out = {split: [batch.label.numpy() for batch in data.held_out[split]] for split in SCORED_SPLITS}
    return _in_order({"train": [data.label[data.train]], **held_out})


def _in_order(labels: Mapping[str, Sequence[Indices]]) -> Apart:
    """Return graphs of all splits, one behind the other, by {split: classes of each of its batches}."""
    each = {split: np.concatenate([np.zeros(0, np.int64), *parts]) for split, parts in labels.items()}
    ends = np.cumsum([len(part) for part in each.values()])
    rows = {split: np.arange(end - len(each[split]), end) for split, end in zip(each, ends, strict=True)}
    return Apart(np.concatenate(list(each.values())), rows)
