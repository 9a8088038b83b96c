"""Edge: tell the class or the number of an edge, by the edges before it."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from annotated_types import Ge
from torch import Tensor, nn

from fedgraft.contracts import (
    SCORED_SPLITS,
    SPLITS,
    Batch,
    Classified,
    ClassObjective,
    ExchangeOfEdges,
    Indices,
    LayeredEncoder,
    NonNegativeInt,
    NumberObjective,
    OwnAnswers,
    OwnInputs,
    PlainModel,
    PooledTask,
    PositiveInt,
    PredictingTask,
    Questions,
    SilentExchange,
    Sums,
    part,
)
from fedgraft.domains.edges.exchange import EdgeExchange, alone
from fedgraft.domains.edges.history import history_width
from fedgraft.domains.edges.model import EdgeData, EdgeModel, plain_edges
from fedgraft.domains.edges.queries import EdgeQuery, split_edges_asked, with_asked
from fedgraft.domains.edges.shards import EdgeShard, merge_edges
from fedgraft.domains.labelled.labels_of_data import LabelsOfData
from fedgraft.domains.labels.class_weights import shares_of, weighted
from fedgraft.domains.labels.known import groups_of
from fedgraft.domains.labels.numbers import training_labels, unit_in
from fedgraft.domains.labels.smoothed_answers import SmoothedAnswers
from fedgraft.domains.publications import Published
from fedgraft.errors import require
from fedgraft.methods.answers.prior_shift import PriorShift
from fedgraft.methods.exchanges.windowed_halo import WindowedHalo
from fedgraft.methods.inputs.raw_features import RawFeatures
from fedgraft.methods.losses.cross_entropy import CrossEntropy
from fedgraft.wire.layouts import Array, Arrays


@dataclass(frozen=True)
class Edge(
    LabelsOfData[EdgeShard, EdgeData],
    PooledTask[EdgeShard, EdgeData],
    PredictingTask[EdgeShard, EdgeData],
):
    """Edge: tell the class or the number of an edge, by the edges before it.

    An edge is the client's whose its source is. Convolutions make states of its two ends, from messages along other
    edges and against them; a perceptron reads both states, the edge's own columns, and what came before it: how many
    edges, and the means of their columns, between the same two ends, at its source and at its target, each way apart.
    Beside its features a node has the logarithms of 1 + edges that come in, and that go out.

    With times the first 64 % of edges train, the next 16 % are for validation, the last 20 % for test. An edge hears
    from edges of an earlier part alone: those that train are cut into `windows`, and one for validation or test hears
    from all parts before its own. No message comes from the future. Without times the parts are drawn, and a window
    hears from all other windows, validation and test from all windows.

    Asked: a table `edges` with columns "source", "target", perhaps "client", and the edge's own columns. All edges of
    the run are before it. A node that no client has is new; nothing is known of it. One client's own tables: `data`,
    its nodes, and `data-edges`, the edges between them, all before what is asked.

    Source: messages both ways as Egressy et al., AAAI 2024; states of ends and columns of an edge as read by its
        classifier there and in Weber et al., "Anti-Money Laundering in Bitcoin", KDD workshop 2019; windows of time as
        You et al., "ROLAND", KDD 2022.
    Differs: states are computed anew for each window, from the edges before it, in place of updated from window to
        window. Labels are no inputs, unless the data have made them columns of earlier edges.

    Args:
        inputs: what is read of features; the recipe's [inputs].
        encoder: the convolutions; the recipe's [model].
        exchange: what clients tell each other of nodes and edges; the recipe's [exchange].
        objective: what training makes small; the recipe's [loss]. Where labels are numbers the default, a loss of
            classes, stands for half the squared error.
        answering: what is made of answers that are classes; the recipe's [answers].
        windows: parts of the training edges, >= 2.
        readout: width of the perceptron's hidden layer, >= 1; ours.
        class_names: of the classes; taken from the data.
        judged: what a model is chosen by and told as; taken from evaluation.metric and the data.
        positive_class: the rarer of two classes, which average precision and F1 are of; taken from the data.
        features: width of features of nodes; 0 = as the data have.
        edge_features: numbers that an edge carries to its ends; 0 = as the data have.
        edge_weights: whether edges have weights; taken from the data.
        columns: numbers that are known of an edge when it is scored; taken from the data.
        sparse: whether features are sparse; taken from the data.
    """

    reads: ClassVar[str] = "edge"
    asks: ClassVar[tuple[str, ...]] = ("edges",)

    encoder: LayeredEncoder
    windows: Annotated[int, Ge(2), "so that what trains hears from edges"] = 4
    readout: PositiveInt = 128
    inputs: OwnInputs = RawFeatures()
    exchange: ExchangeOfEdges | SilentExchange = WindowedHalo()
    objective: ClassObjective | NumberObjective = field(default=CrossEntropy(), kw_only=True)
    answering: OwnAnswers = PriorShift()
    features: NonNegativeInt = 0
    edge_features: NonNegativeInt = 0
    edge_weights: bool = False
    sparse: bool = False
    columns: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.exchanged.hands_on or not self.exchange.encrypted_rows,
            "exchange.encrypted_rows",
            "false where nothing is shared",
            self.exchange.encrypted_rows,
        )
        require(self.encoder.depth >= 1, "Edge.encoder", "of at least one convolution", self.encoder.depth)

    @part
    def exchanged(self) -> EdgeExchange:
        """What clients tell each other of nodes, and states of these."""
        return EdgeExchange(
            self.encoder,
            self.windows,
            self.exchange,
            self.inputs,
            self.features,
            self.edge_features,
            self.edge_weights,
            self.sparse,
            self.losses_of,
        )

    @part
    def smoothed(self) -> SmoothedAnswers:
        """How answers are bettered after training; numbers are left alone."""
        answering = self.answering if self.class_names else PriorShift()
        return SmoothedAnswers(self.labels, self.scored, EdgeData.answered, answering, len(self.class_names))

    @property
    def published(self) -> tuple[Published, ...]:
        """What clients tell of nodes, and of labels."""
        return (*self.exchanged.published, *super().published)

    def sealing(self) -> Self:
        """Return this task with encrypted rows."""
        return replace(self, exchange=replace(self.exchange, encrypted_rows=True))  # type: ignore[type-var]

    @property
    def stochastic(self) -> bool:
        """True where there is dropout, or a stochastic convolution."""
        return self.objective.dropout > 0 or self.encoder.stochastic

    def _check_numbers_loss(self) -> None:
        """Raise `InputError` for what numbers lack: another loss, and answers that are bettered."""
        super()._check_numbers_loss()
        alone = self.answering.ways(2, 0).texts == ("",)
        require(alone, "[answers]", "one that leaves answers alone where labels are numbers", self.answering)

    def known_of(self, shard: EdgeShard) -> dict[str, Any]:
        """Return the kind of labels, and the widths of what is read."""
        graph = shard.graph
        return {
            **super().known_of(shard),
            "features": graph.width,
            "edge_features": graph.edge_width,
            "edge_weights": graph.weighted,
            "columns": shard.columns.shape[1],
            "sparse": not isinstance(graph.features, np.ndarray),
        }

    def prepare(self, shard: EdgeShard, shared: Arrays) -> EdgeData:
        """Copies of nodes, columns of edges, labels in the common unit; no states yet."""
        nodes, ends = self.exchanged.nodes_of(shard, shared)
        unit, own = self.unit_of(shard, shared), self.labels.constant(training_labels(shard))
        read = np.concatenate([shard.columns, self.exchanged.history(shard, shared)], axis=1)
        return EdgeData(
            nodes=nodes,
            ends=torch.from_numpy(ends),
            columns=torch.from_numpy(read),
            label=torch.from_numpy(self.labels.standardize(shard.label, unit)),
            rows={split: shard.rows(split) for split in SPLITS},
            unit=unit.around(own),
            weights=self.weights_of(shard, shared),
            shares=shares_of(self.objective, shard, len(self.class_names)),
        )

    def examples(self, data: EdgeData) -> int:
        """Return how many training edges the client has."""
        return len(data.rows["train"])

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        """Return a model, the same for all clients."""
        features, messages = self.exchanged.input_width, self.edge_features
        columns = self.columns + history_width(messages)
        return EdgeModel(
            self.encoder, features, messages, columns, self.readout, self.labels.width, self.objective.dropout, g
        )

    def loss(self, model: nn.Module, data: EdgeData, draw: Batch, encoded: Tensor | None) -> Tensor:
        """Return the labels' losses of the draw's edges, float32 [n]."""
        assert isinstance(model, EdgeModel), "edges have no ensembles"
        return self.losses_of(model, data, data.states(model, model.training), data.rows["train"][draw.examples])

    def losses_of(self, model: EdgeModel, data: EdgeData, states: Tensor, rows: Indices) -> Tensor:
        """Return the labels' losses of some edges, float32 [n]."""
        outputs = data.outputs(model, states, rows)
        label = data.label[rows].to(outputs.device)
        return weighted(self.labels.losses(outputs, label, data.shares), label, data.weights)

    def evaluate(self, model: nn.Module, data: EdgeData) -> dict[str, Sums]:
        """Return the labels' sums."""
        assert isinstance(model, EdgeModel), "edges have no ensembles"
        with torch.no_grad():
            states = data.states(model)
            told = {split: data.outputs(model, states, data.rows[split]).cpu() for split in SCORED_SPLITS}
        return {
            split: self.labels.sums_of([(outputs, data.label[data.rows[split]])], data.unit)
            for split, outputs in told.items()
        }

    def scored(self, model: nn.Module, data: EdgeData) -> Array:
        """Return probabilities of all own edges, float32 [n, classes]."""
        assert isinstance(model, EdgeModel), "edges have no ensembles"
        with torch.no_grad():
            return data.outputs(model, data.states(model), np.arange(len(data.label))).softmax(1).numpy(force=True)

    def represent(self, model: nn.Module, data: EdgeData) -> tuple[Array, Array] | None:
        """What the last layer reads, [test edges, readout], and their classes or in which fifth their numbers are."""
        assert isinstance(model, EdgeModel), "edges have no ensembles"
        test = data.rows["test"]
        with torch.no_grad():
            states = data.states(model)
            on = states.device
            hidden = model.represent(states, data.ends[:, test].to(on), data.columns[test].to(on))
        return hidden.cpu().numpy(), groups_of(data.label[test].numpy())

    def pooled(self, shards: Sequence[EdgeShard]) -> EdgeShard:
        """Return the whole graph, with all edges."""
        return merge_edges(shards)

    def alone(self, shard: EdgeShard) -> EdgeShard:
        """Return the shard without nodes elsewhere; its edges to these stay, and nothing is known of their targets."""
        return alone(shard)

    def questions(self, shards: Sequence[EdgeShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """Edges by the ids of their ends, each with the client that answers."""
        return split_edges_asked(shards, tables, self.columns)

    def predict(
        self, model: nn.Module, shard: EdgeShard, remembered: Mapping[str, Any], asked: EdgeQuery
    ) -> dict[str, Array]:
        """What the label tells of each edge, from all edges of the run."""
        assert isinstance(model, EdgeModel), "edges have no ensembles"
        shared = remembered.get("shared", {})
        data = self.prepare(with_asked(shard, asked), shared)
        self.exchanged.remember(data, shard.graph.own, remembered.get("states"))
        rows = shard.ends.shape[1] + np.arange(asked.ends.shape[1])
        if self.smoothed.hops:
            outputs = torch.from_numpy(self.smoothed.as_remembered(model, data, remembered)[rows]).log()
        else:
            with torch.no_grad():
                outputs = data.outputs(model, data.states(model), rows).cpu()
        return {
            "source": asked.ids[0],
            "target": asked.ids[1],
            **self.labels.answers(outputs, self.unit_of(shard, shared)),
        }

    def classified(
        self, model: nn.Module, shard: EdgeShard, data: EdgeData, remembered: Mapping[str, Any]
    ) -> Classified:
        """The likeliest classes of the test edges, each told by the edges before it."""
        test = data.rows["test"]
        shares = self.smoothed.as_remembered(model, data, remembered)[test]
        return Classified(shard.classes, shard.label[test], shares.argmax(1), shares)

    def plain(self, model: nn.Module, shard: EdgeShard | None, shared: Arrays) -> PlainModel:
        """The convolutions, what came before an edge, and the perceptron; numbers in the user's unit."""
        assert isinstance(model, EdgeModel), "edges have no ensembles"
        widths = self.features, self.edge_features, self.columns
        unit = None if self.class_names else unit_in(shared)
        return plain_edges(model, self.encoder, self.class_names, self.inputs, widths, self.edge_weights, unit)
