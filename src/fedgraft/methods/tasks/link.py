"""Link: tell which pairs of a client's nodes are joined by an edge."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fedgraft.contracts import (
    SCORED_SPLITS,
    Batch,
    Chance,
    InnerFraction,
    Inputs,
    LayeredEncoder,
    NetworkEncoder,
    NonNegativeInt,
    PairObjective,
    PlainModel,
    PooledTask,
    PositiveInt,
    PredictingTask,
    Questions,
    SilentExchange,
    Sums,
    Task,
)
from fedgraft.domains.edge_data.read_edges import ReadEdges, carried_by, note_unread
from fedgraft.domains.links import metrics
from fedgraft.domains.links.model import LinkData, LinkModel, plain_links
from fedgraft.domains.links.queries import PairQuery, split_pairs_asked
from fedgraft.domains.links.shards import LinkShard, hold_out, merge_links, whole
from fedgraft.domains.nodes.base.memory_check import check_inputs
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.queries import with_new_nodes
from fedgraft.domains.nodes.task.node_reader import ReadFeatures
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.domains.nodes.training.smoothed_inputs import attention_of
from fedgraft.errors import InputError, require
from fedgraft.methods.exchanges.no_exchange import NoExchange
from fedgraft.methods.inputs.propagated import Propagated
from fedgraft.methods.losses.pair_entropy import PairEntropy
from fedgraft.wire.layouts import Array, Arrays


@dataclass(frozen=True)
class Link(
    Task[LinkShard, LinkData],
    PooledTask[LinkShard, LinkData],
    PredictingTask[LinkShard, LinkData],
):
    """Link: tell which pairs of a client's nodes are joined by an edge.

    Data are those of the task `node`; classes are not read. Each client holds out some of its edges; the others train
    and carry messages. The encoder's convolutions are followed by a linear layer, which makes an embedding of a node;
    the score of a pair is made of the two embeddings. A training edge learns against pairs without an edge, drawn anew
    in every step. The score of a model is AUC: the probability that an edge held out is above a pair without one; of
    several clients the mean over their edges.

    Asked: a table `pairs` with columns "source", "target" and perhaps "client": two nodes of one client each. For new
    nodes also `nodes`, with "node", perhaps "client" and features, and `edges` with "source" and "target". The answer
    is a score in (0, 1): how likely the model takes the pair to be an edge and not one drawn at random. One client's
    own tables: `data`, its nodes with features, and `data-edges`.

    Source: Kipf and Welling, "Variational Graph Auto-Encoders", NIPS workshop 2016 (arXiv:1611.07308): the
        auto-encoder without its noise, AUC and average precision over as many pairs without an edge as with one.
    Differs: edges between clients have no part: they carry no messages and are neither trained on nor scored. Any
        encoder, and a linear layer behind it. Hits@k beside the other two. A small client is scored against a hundred
        pairs without an edge, however few its edges are, so that luck has less of a part in it.

    Args:
        inputs: what is read of features; the recipe's [inputs].
        encoder: the convolutions; the recipe's [model].
        exchange: which neighbours take part; the recipe's [exchange].
        objective: what training makes small; the recipe's [loss].
        width: of an embedding, >= 1.
        decoder: "product", the embeddings' inner product and a bias, or "perceptron", of one hidden layer over their
            entrywise product.
        likeness: whether the cosine of the two nodes' features joins the score, by a weight that is learnt.
        validation: share of a client's edges that are for validation, in (0, 1) (Kipf and Welling: 0.05).
        test: share that are for test, in (0, 1); both together below 1.
        k: pairs without an edge that hits@k looks at, >= 1.
        features: width of features; 0 = as the data have.
        edge_features: numbers that an edge carries; 0 = as the data have.
        edge_weights: whether edges have weights; taken from the data.
        sparse: whether features are sparse; taken from the data where `features` is 0.
        judged: what a model is chosen by and told as, "auc" (default), "average_precision" or "hits_at_k" with the
            number k in place of "k"; taken from evaluation.metric.
    """

    sums: ClassVar[tuple[str, ...]] = (*metrics.SUMS, "loss")
    """Edges held out, and sums over them of AUC, average precision, hits@k and losses."""
    classes: ClassVar[int] = 0  # none are read of one client's own tables
    class_names: ClassVar[tuple[str, ...]] = ()
    better: ClassVar[str] = "higher"
    seeds_draws: ClassVar[bool] = True
    reads: ClassVar[str] = "node"
    asks: ClassVar[tuple[str, ...]] = ("pairs", "nodes", "edges")

    encoder: LayeredEncoder | NetworkEncoder
    inputs: Inputs = Propagated()
    exchange: SilentExchange = NoExchange()
    objective: PairObjective = PairEntropy()
    width: PositiveInt = 64
    decoder: Literal["product", "perceptron"] = "product"
    likeness: bool = False
    validation: InnerFraction = 0.1
    test: InnerFraction = 0.1
    k: PositiveInt = metrics.HITS
    features: NonNegativeInt = 0
    edge_features: int = 0
    edge_weights: bool = False
    sparse: bool = False
    judged: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        together = self.validation + self.test
        require(together < 1, "Link.validation + Link.test", "below 1, so that edges are left to train on", together)
        whole = not self.inputs.sums_neighbours
        require(whole, "inputs.aggregates", "false for links: no edge is between clients", self.inputs)

    @property
    def metric(self) -> str:
        """The AUC, unless another one is asked for."""
        return self.judged or "auc"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those of rankings."""
        return tuple(metrics.measures({}, self.k))

    @property
    def stochastic(self) -> bool:
        """True where there is dropout, or a stochastic convolution."""
        return self.objective.dropout > 0 or self.encoder.stochastic

    @cached_property
    def layers(self) -> int:
        """Number of convolutions; a whole network is one."""
        return 1 if isinstance(self.encoder, NetworkEncoder) else max(1, self.encoder.depth)

    def derived(self, shard: NodeShard, g: np.random.Generator | None, split_seed: int | None = None) -> LinkShard:
        """Return a client's part of a graph with some of its edges held out; without a generator none is.

        They are drawn, or held out by the hash of their ends' ids; pairs without one are drawn.
        """
        return whole(shard) if g is None else hold_out(shard, self.validation, self.test, g, split_seed)

    def fitted(self, shards: Sequence[LinkShard]) -> Self:
        """With the width of features; raises where no client has an edge."""
        graph = shards[0].graph
        if len(shards) > 1 and not any(shard.edges.shape[1] for shard in shards):
            raise InputError(
                f"None of the {len(shards)} clients has an edge between two nodes of its own to learn from."
            )
        known = {"features": graph.width, **carried_by(graph.edge_rows)}
        for name, value in known.items():
            if (option := getattr(self, name)) not in (0, value):
                raise InputError(f"task.{name} = {option}, but the data have {value}.")
        note_unread(self, self.inputs.width(graph.width), graph.edge_rows)
        check_inputs([shard.graph for shard in shards], self.inputs.hops, self.inputs.attends)
        return replace(self, **known, sparse=not isinstance(graph.features, np.ndarray))

    def prepare(self, shard: LinkShard, shared: Arrays) -> LinkData:
        """Neighbourhoods and features, of training edges alone."""
        return self._data(shard)

    def examples(self, data: LinkData) -> int:
        """Return how many training edges the client has."""
        return int(data.edges.shape[1])

    def pooled(self, shards: Sequence[LinkShard]) -> LinkShard:
        """Return all clients' parts side by side; edges between them have no part there either."""
        return merge_links(shards)

    def model(self, g: torch.Generator, variant: Hashable = None) -> nn.Module:
        """Return a model, the same for all clients."""
        attention = attention_of(self.inputs, self.features)
        width = self.inputs.width(self.features or 1)
        nodes = NodeModel(
            self.encoder, width, self.width, "linear", self.objective.dropout, g, attention, self.edge_features
        )
        return LinkModel(nodes, self.width, self.decoder, self.likeness, g)

    def loss(self, model: nn.Module, data: LinkData, draw: Batch, encoded: Tensor | None) -> Tensor:
        """Each edge's cross-entropy and the mean of those of the pairs it learns against, float32 [edges]."""
        edges = data.edges[:, draw.examples]
        others, drawn = data.without_edge(draw.examples, self.objective.negatives, draw.seed)
        odds = data.log_odds(model, np.concatenate([edges, others], axis=1), self._most(draw), draw.seed)
        count = edges.shape[1]
        shape = count, self.objective.negatives
        there = torch.from_numpy(drawn).to(odds.device).view(shape)
        return self.objective.losses(odds[:count], odds[count:].view(shape), there)

    def evaluate(self, model: nn.Module, data: LinkData) -> dict[str, Sums]:
        """Return sums over edges held out."""
        odds = data.scores(model, data.shard.pairs)
        sums = metrics.sums_of(data.shard, odds, self.k)
        for split in SCORED_SPLITS:
            sums[split]["loss"] = metrics.loss_of(data.shard, odds, split)
        return sums

    def score(self, sums: Sums) -> float:
        """Return the mean over edges of the metric that their clients reach; nan without edges."""
        return metrics.measures(sums, self.k)[self.metric]

    def measures(self, sums: Sums) -> dict[str, float]:
        """Return AUC, average precision and hits@k."""
        return metrics.measures(sums, self.k)

    def chance(self, sums: Sums) -> Chance | None:
        """Return what a random order reaches: half of AUC and of average precision; hits@k is told by its AUC."""
        return Chance("average_precision" if self.metric == "average_precision" else "auc", 0.5, "a random order")

    def mean_loss(self, sums: Sums) -> float:
        """Return the mean cross-entropy of an edge and of a pair without; nan without edges."""
        return sums["loss"] / sums["edges"] if sums.get("edges") else float("nan")

    def questions(self, shards: Sequence[LinkShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
        """Pairs of nodes by id, and new nodes with features and edges, each with the client that answers."""
        return split_pairs_asked([shard.graph for shard in shards], tables)

    def predict(
        self, model: nn.Module, shard: LinkShard, remembered: Mapping[str, Any], asked: PairQuery
    ) -> dict[str, Array]:
        """The score of each pair, float64 [pairs], from training edges and those of all new nodes."""
        graph = shard.graph if asked.new is None else with_new_nodes(shard.graph, asked.new)
        data = self._data(whole(graph))
        odds = data.scores(model, asked.pairs)
        score = torch.from_numpy(odds).double().sigmoid().numpy()
        return {"source": asked.ids[0], "target": asked.ids[1], "score": score}

    def plain(self, model: nn.Module, shard: LinkShard | None, shared: Arrays) -> PlainModel:
        """The convolutions, the linear layer and what makes a score of two nodes."""
        assert isinstance(model, LinkModel), "links have no ensembles"
        read, width = ReadFeatures.of(self.features, self.inputs), self.inputs.width(self.features)
        edges = ReadEdges.of(self.encoder, width, self.edge_features, self.edge_weights, self.inputs.hops > 0)
        return plain_links(model, self.encoder, width, read, edges)

    def _data(self, shard: LinkShard) -> LinkData:
        return LinkData.of(shard, self.encoder, self.layers, self.inputs, self.likeness, self.edge_features)

    def _most(self, draw: Batch) -> tuple[int, ...]:
        """Most neighbours per layer, as the sampler says or by default."""
        if layers := len(draw.neighbours):
            require(layers == self.layers, "The sampler's layers", f"{self.layers}, the model's convolutions", layers)
        return draw.neighbours or (self.exchange.neighbours,) * self.layers
