"""Graph: tell the class of a whole graph."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fedgraft.contracts import Draw, Indices, Observations, Questions, Sums
from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.contracts.plain import PlainEncoder, PlainModel, PlainTask
from fedgraft.contracts.task_abilities import (
    Accuracy,
    EmbeddingTask,
    ObservedTask,
    PartsTask,
    PooledTask,
    ProfiledTask,
    SurveyedTask,
    VariantTask,
)
from fedgraft.contracts.values import SCORED_SPLITS, Losses
from fedgraft.domains.graphs import pyg_objects
from fedgraft.domains.graphs.batches import Batch, Collator
from fedgraft.domains.graphs.model import INTO, PERSONAL, SUBTREES, GraphModel, Together, Variant
from fedgraft.domains.graphs.plain_graphs import plain_graphs
from fedgraft.domains.graphs.queries import split_graphs
from fedgraft.domains.graphs.shards import GraphShard, merge_shards
from fedgraft.domains.graphs.structural_encodings import places
from fedgraft.domains.graphs.subtree_counts import subtree_counts
from fedgraft.domains.node_tables import likeliest
from fedgraft.errors import require, require_one_of
from fedgraft.nn.layers import device_of
from fedgraft.wire.layouts import Array, Arrays

LABEL_BINS = 5
"""Parts of the list of classes whose shares a client can report: as many as ratings have grades."""
MOST_NODES = 50_000
"""Nodes of one batch of held-out graphs (ours): a few tens of megabytes of activations."""


@dataclass(frozen=True, eq=False)
class GraphData:
    """A client's own graphs, ready to train on.

    Args:
        collator: all its graphs.
        train: int64 [examples], the training graphs.
        held_out: {"validation": batches, "test": batches}.
        label_shares: shares of training graphs in consecutive parts of the list of classes.
        variant: what the shapes of its own parameters depend on.
    """

    collator: Collator
    train: Indices
    held_out: dict[str, list[Batch]]
    label_shares: tuple[float, ...]
    variant: Variant
    moved: dict[tuple[str, str], list[Batch]] = field(default_factory=dict)

    def on(self, device: torch.device, split: str) -> list[Batch]:
        """A held-out split on a device; copied there once."""
        if device.type == "cpu":
            return self.held_out[split]
        if (str(device), split) not in self.moved:
            self.moved[str(device), split] = [batch.to(device) for batch in self.held_out[split]]
        return self.moved[str(device), split]


@dataclass(frozen=True)
class Graph(
    Accuracy[GraphShard, GraphData],
    EmbeddingTask[GraphShard, GraphData],
    ObservedTask[GraphShard, GraphData],
    PartsTask[GraphShard, GraphData],
    PlainTask[GraphShard, GraphData],
    PooledTask[GraphShard, GraphData],
    ProfiledTask[GraphShard, GraphData],
    SurveyedTask[GraphShard, GraphData],
    VariantTask[GraphShard, GraphData],
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
        encoder: the convolutions; the recipe's [model].
        normalise: "batch" (Xu et al.) or "nothing", behind every convolution.
        dropout: share of the perceptron's inputs dropped in training, in [0, 1).
        places: whether the first layer sees nodes' places (random walks that return, degrees) beside their features.
        structure: whether the model has a second channel beside the first, of convolutions that see nodes' places and
            no features; sharing methods that need one set it.
        walks: longest random walk that places are told by, >= 1 (FedStar: 16).
        degrees: largest degree that places are told by, >= 1 (FedStar: 16).
        wl: steps of Weisfeiler-Lehman colours whose counts the model sees beside the convolutions, >= 0; 0 = none.
        wl_width: buckets that colours are hashed into, >= 1.
        wl_root: whether counts are replaced by their square roots.
        wl_scale: length of a graph's vector of counts, > 0 (ours).
        wl_into: what counts go into: the "answer" (a linear head of their own, probabilities are averaged), "logits" or
            "hidden" (added there).
        wl_shared: whether the layer that reads counts travels; only "hidden", as classes are the client's own.
    """

    asks: ClassVar[tuple[str, ...]] = ("graphs", "nodes", "edges")
    profile: ClassVar[frozenset[str]] = frozenset(f"label_{k}" for k in range(LABEL_BINS))

    encoder: LayeredEncoder
    normalise: str = "batch"
    dropout: float = 0.0
    places: bool = False
    structure: bool = False
    walks: int = 16
    degrees: int = 16
    wl: int = 0
    wl_width: int = 8192
    wl_root: bool = True
    wl_scale: float = 5.0
    wl_into: str = "answer"
    wl_shared: bool = False

    def __post_init__(self) -> None:
        require_one_of("Graph.normalise", self.normalise, ("batch", "nothing"))
        require(0 <= self.dropout < 1, "Graph.dropout", "in [0, 1)", self.dropout)
        require(self.walks >= 1, "Graph.walks", ">= 1", self.walks)
        require(self.degrees >= 1, "Graph.degrees", ">= 1", self.degrees)
        require(self.wl >= 0, "Graph.wl", ">= 0", self.wl)
        require(self.wl_width >= 1, "Graph.wl_width", ">= 1", self.wl_width)
        require(self.wl_scale > 0, "Graph.wl_scale", "> 0", self.wl_scale)
        require_one_of("Graph.wl_into", self.wl_into, INTO)
        sound = not self.wl_shared or (self.wl > 0 and self.wl_into == "hidden")
        require(sound, "Graph.wl_shared", "false unless wl > 0 and wl_into is 'hidden'", self.wl_shared)
        widths = self.encoder.widths
        require(
            len(set(widths)) == 1, "model.hidden", "one width for all layers, which task 'graph' needs", list(widths)
        )

    @property
    def sums(self) -> tuple[str, ...]:
        """Right answers, graphs, cross-entropy."""
        return "correct", "count", "loss"

    @property
    def offers(self) -> frozenset[str]:
        """A channel of structure; a head, which is always there; an ensemble of models."""
        return frozenset({"structure", "head", "ensemble"})

    def with_parts(self, parts: frozenset[str]) -> Self:
        """Return this task with the channel of structure, if that is needed."""
        return replace(self, structure=True) if "structure" in parts else self

    def personal(self, name: str) -> bool:
        """The first layer, the normalisations and the head; what reads counts of subtrees, unless it is shared."""
        return name.startswith(PERSONAL if self.wl_shared else (*PERSONAL, SUBTREES))

    def prepare(self, shard: GraphShard, shared: Arrays) -> GraphData:
        """Held-out graphs as batches, training graphs to be put together."""
        collator = self._collator(shard)
        held_out = {split: self._batches(collator, shard.rows(split)) for split in SCORED_SPLITS}
        seen = shard.attributes.shape[1] + (self.walks + self.degrees) * self.places
        variant = Variant(shard.kinds, seen, len(shard.classes))
        train = shard.rows("train")
        return GraphData(collator, train, held_out, _label_shares(shard, train), variant)

    def examples(self, data: GraphData) -> int:
        """Return how many training graphs the client has."""
        return len(data.train)

    def describe(self, data: GraphData) -> dict[str, float]:
        """Shares of training graphs in consecutive parts of the list of classes."""
        return {f"label_{k}": share for k, share in enumerate(data.label_shares)}

    def survey(self, shard: GraphShard) -> dict[str, float]:
        """Return the number of training graphs, and what `describe` tells."""
        train = shard.rows("train")
        labels = {f"label_{k}": share for k, share in enumerate(_label_shares(shard, train))}
        return {"examples": float(len(train)), **labels}

    def variant(self, data: GraphData) -> Variant:
        """Widths of features, number of classes."""
        return data.variant

    def pooled(self, shards: Sequence[GraphShard]) -> GraphShard:
        """One client with everybody's graphs; only where features and classes are the same everywhere."""
        return merge_shards(shards)

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        """Convolutions first, so that they are drawn alike at every client."""
        places = self.walks + self.degrees if self.structure else 0
        own = variant if isinstance(variant, Variant) else Variant(1, 0, 2)
        normalise, buckets = self.normalise == "batch", self.wl_width * (self.wl > 0)
        return GraphModel(self.encoder, own, places, normalise, self.dropout, g, buckets, self.wl_into, self.wl_scale)

    @property
    def hidden_width(self) -> int:
        """Width of the head's hidden layer."""
        return self.encoder.width

    def loss(self, model: nn.Module, data: GraphData, draw: Draw, encoded: Tensor | None) -> Losses:
        """Return the cross-entropy of each graph of the draw, and the head's hidden layer."""
        batch = data.collator.batch(data.train[draw.examples]).to(device_of(model))
        hidden = model.represent(batch)  # type: ignore[operator]
        return Losses(model.losses(hidden, batch), hidden=hidden)  # type: ignore[operator]

    def observe(self, model: nn.Module, data: GraphData) -> Observations:
        """What the model makes of all training graphs; the more nodes, the more central."""
        device, parts = device_of(model), self._batches(data.collator, data.train)
        seen = []
        for batch in (part.to(device) for part in parts):
            hidden = model.represent(batch)  # type: ignore[operator]
            logits = model.classify(hidden, batch)  # type: ignore[operator]
            each = model.losses(hidden, batch)  # type: ignore[operator]
            seen.append((each, logits.softmax(1), hidden, logits.argmax(1) == batch.label))
        losses, shares, states, correct = (torch.cat(parts).numpy(force=True) for parts in zip(*seen, strict=True))
        return Observations(losses, shares, states, correct, data.collator.sizes[data.train].astype(np.float32))

    def evaluate(self, model: nn.Module, data: GraphData) -> dict[str, Sums]:
        """Right answers, graphs and summed cross-entropies."""
        device, sums = device_of(model), {}
        for split in SCORED_SPLITS:
            found = dict.fromkeys(self.sums, 0.0)
            for batch in data.on(device, split):
                logits = model(batch)
                found["correct"] += float((logits.argmax(1) == batch.label).sum())
                found["count"] += len(batch.label)
                found["loss"] += float(nn.functional.cross_entropy(logits, batch.label, reduction="sum"))
            sums[split] = found
        return sums

    def represent(self, model: nn.Module, data: GraphData) -> tuple[Array, Array] | None:
        """The head's hidden layer over the test graphs, and their classes by number."""
        hidden, label = [], []
        with torch.no_grad():
            for batch in data.on(device_of(model), "test"):
                hidden.append(model.represent(batch).cpu())  # type: ignore[operator]
                label.append(batch.label.cpu())
        return torch.cat(hidden).numpy(), torch.cat(label).numpy()

    def plain(self, model: nn.Module, shard: GraphShard | None) -> PlainModel:
        """The client's first layer, the convolutions, the readout and the head."""
        assert isinstance(self.encoder, PlainEncoder), "whoever asks has looked"
        wanted = "for a model in PyG's own layers"
        alone = isinstance(model, GraphModel)
        require(alone, "sharing", f"one whose clients answer with one model, {wanted}", type(model).__name__)
        require(not self.structure, "task.structure", f"false {wanted}", self.structure)
        require(not self.wl, "task.wl", f"0 {wanted}", self.wl)
        seen = (self.walks, self.degrees) if self.places else None
        return plain_graphs(cast(GraphModel, model), self.encoder, cast(GraphShard, shard), seen)

    def together(self, models: Sequence[nn.Module]) -> nn.Module:
        """The mean of their probabilities."""
        return Together(models)

    def vocabulary(self, shard: GraphShard) -> Sequence[str]:
        """Kinds of nodes, their attributes, classes."""
        parts = (shard.kind_names, shard.attribute_names, shard.classes)
        return [str(shard.kinds), str(shard.attributes.shape[1]), *(name for part in parts for name in ("", *part))]

    def tables_of(self, questions: Any) -> dict[str, pd.DataFrame]:
        """PyG `Data` objects as tables of graphs, nodes and edges."""
        return pyg_objects.tables_of(questions, "questions")

    def questions(self, shards: Sequence[GraphShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """Graphs in tables as the data set `graphs` has them, without labels; a column "client" says whose they are.

        Without a table "graphs" they are those of "nodes", in that order.
        """
        return split_graphs(shards, tables)

    def predict(
        self, model: nn.Module, shard: GraphShard, remembered: Mapping[str, Any], asked: GraphShard
    ) -> dict[str, Array]:
        """The likeliest class of each graph, and how likely the model takes it to be."""
        device = device_of(model)
        with torch.no_grad():
            batches = self._batches(self._collator(asked), np.arange(asked.graphs))
            shares = torch.cat([model(batch.to(device)).softmax(1) for batch in batches]).cpu()
        return {"graph": asked.ids, **likeliest(shard.classes, shares.numpy())}

    def embed(
        self, model: nn.Module, shard: GraphShard, remembered: Mapping[str, Any], asked: GraphShard | None
    ) -> tuple[dict[str, Array], Array]:
        """The head's hidden layer of graphs."""
        graphs = shard.rows("test") if asked is None else np.arange(asked.graphs)
        source, device = asked or shard, device_of(model)
        with torch.no_grad():
            batches = self._batches(self._collator(source), graphs)
            parts = [model.represent(batch.to(device)).cpu() for batch in batches]  # type: ignore[operator]
        hidden = torch.cat(parts).numpy() if parts else np.zeros((0, self.hidden_width), np.float32)
        return {"graph": source.ids[graphs]}, hidden

    def _collator(self, shard: GraphShard) -> Collator:
        """With nodes' places if the model looks at them."""
        found = places(shard, self.walks, self.degrees) if self.places or self.structure else None
        subtrees = subtree_counts(shard, self.wl, self.wl_width, self.wl_root) if self.wl else None
        if self.places:
            shard = replace(shard, attributes=np.concatenate([shard.attributes, found], 1), attribute_names=())
        if self.structure:
            return Collator(shard, self.encoder.depth, True, found, subtrees)
        return Collator(shard, self.encoder.depth, self.encoder.by_degree, subtrees=subtrees)

    def _batches(self, collator: Collator, graphs: Indices) -> list[Batch]:
        """Consecutive batches of at most so many nodes, or of one graph."""
        if not len(graphs):
            return []
        number = np.cumsum(collator.sizes[graphs]) // MOST_NODES
        cuts = np.flatnonzero(np.diff(number)) + 1
        return [collator.batch(part) for part in np.split(graphs, cuts)]


def _label_shares(shard: GraphShard, graphs: Indices) -> tuple[float, ...]:
    """Shares of graphs in consecutive parts of the list of classes."""
    part = shard.label[graphs] * LABEL_BINS // len(shard.classes)
    return tuple((np.bincount(part, minlength=LABEL_BINS) / max(1, len(graphs))).tolist())
