"""The model of the task `link`: embeddings of nodes, and what makes a score of two of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgraft.contracts.abilities.plain import PlainModel, network_text
from fedgraft.contracts.encoder import Encoder
from fedgraft.contracts.inputs import Inputs
from fedgraft.contracts.values import Indices
from fedgraft.domains.edge_data.read_edges import ReadEdges
from fedgraft.domains.examples import Features, scaled
from fedgraft.domains.links.shards import LinkShard, codes_of
from fedgraft.domains.nodes.base.features import FeatureCoding, inner_products
from fedgraft.domains.nodes.task.node_reader import ReadFeatures, hops_over
from fedgraft.domains.nodes.training.client_graph import NodeData, around_of
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.domains.nodes.training.neighbour_sampling import scattered
from fedgraft.domains.nodes.training.smoothed_inputs import prepared, rows_of
from fedgraft.nn import flops
from fedgraft.nn.layers import device_of, linear
from fedgraft.nn.listed_graphs import Given, GraphReader, block_of

LIKENESS: Final = 10.0
"""Log odds that a cosine of 1 adds at first: cosines of nodes that have an edge are small, such as 0.2."""


class LinkModel(nn.Module):
    """A network from features to log odds that pairs of nodes have an edge; its weights are drawn from `g`.

    `nodes` makes embeddings, of so many numbers, `width`, as it has classes. The decoder is "product", their inner
    product and a bias; or "perceptron", of one hidden layer over their entrywise product. `likeness` says whether the
    cosine of the two nodes' features joins, by a weight that is learnt.
    """

    def __init__(self, nodes: NodeModel, width: int, decoder: str, likeness: bool, g: torch.Generator) -> None:
        super().__init__()
        self.nodes = nodes
        perceptron = decoder == "perceptron"
        self.inner = linear(width, width, g) if perceptron else None
        self.outer = linear(width, 1, g) if perceptron else None
        self.bias = None if perceptron else nn.Parameter(torch.zeros(1))
        self.likeness = nn.Parameter(torch.ones(1)) if likeness else None

    def forward(self, embeddings: Tensor, pairs: Tensor, cosines: Tensor | None) -> Tensor:
        """Return log odds, float32 [n], of `pairs`, int64 [2, n], rows of the embeddings, float32 [nodes, width].

        `cosines` are of their features, float32 [n]; None where these do not join.
        """
        odds = self._decoded(embeddings, pairs)
        if self.likeness is None or cosines is None:
            return odds
        flops.count((2 + 2 * torch.is_grad_enabled()) * len(cosines))
        return odds + LIKENESS * self.likeness * cosines

    def _decoded(self, embeddings: Tensor, pairs: Tensor) -> Tensor:
        joined = embeddings.index_select(0, pairs[0]) * embeddings.index_select(0, pairs[1])
        flops.count((1 + 2 * torch.is_grad_enabled()) * joined.numel())
        if self.bias is not None:
            return joined.sum(1) + self.bias
        assert self.inner is not None
        assert self.outer is not None
        odds: Tensor = self.outer(torch.relu(self.inner(joined)))
        return odds[:, 0]


_USAGE = """from model import load

odds = load()(x, edge_index, pairs)
score = odds.sigmoid()
"""
_OUTPUTS = (
    "log odds, float32 [pairs]; their sigmoid is how likely the model takes a pair to be an edge and no drawn one."
)


class LinkReader(GraphReader):
    """From features of nodes, edges and pairs of nodes to log odds, float32 [pairs]."""

    def __init__(self, model: LinkModel, read: ReadFeatures, edges: ReadEdges) -> None:
        super().__init__((*edges.names, "pairs"))
        self.model, self.read = model, read

    def outputs(self, x: Tensor, edge_index: Tensor, given: Given) -> Tensor:
        """Return the log odds of `pairs`, int64 [2, pairs]."""
        nodes, pairs = self.model.nodes, given["pairs"]
        hops = hops_over(nodes.convolutions, block_of(edge_index, len(x), given, x.new_zeros(len(x))))
        embeddings = nodes(self.read.prepared(x, edge_index, given.get("edge_weight")), hops, None)
        odds: Tensor = self.model(embeddings, pairs, torch.cosine_similarity(x[pairs[0]], x[pairs[1]]))
        return odds


def plain_links(model: LinkModel, encoder: Encoder, inputs: int, read: ReadFeatures, edges: ReadEdges) -> PlainModel:
    """Return the plain model of a trained one; `inputs` is the width of what the encoder reads."""
    texts = (
        f"- `x`: float32 [nodes, {read.features}], the nodes' features, columns in the order of the training data."
        f"{read.told}\n"
        "- `edge_index`: int64 [2, edges], source over target; an undirected edge both ways, no loops, none twice.\n"
        f"{edges.told}"
        "- `pairs`: int64 [2, pairs], the nodes to score.\n"
    )
    module, network = LinkReader(model, read, edges), network_text(encoder, inputs)
    return PlainModel(module, texts, edges.usage(_USAGE), _OUTPUTS, network=network)


TRIES: Final = 8
"""Pairs that are drawn, one after another, until one has no edge; in a graph that is not dense the second rarely is
asked for."""
AT_ONCE: Final = 1 << 16
"""Pairs that are scored at a time."""


@dataclass(eq=False)
class LinkData:
    """A client's part of a graph, ready to train on its edges.

    Args:
        nodes: what nodes are computed from: training edges alone.
        shard: the client's part.
        edges: training edges, int64 [2, edges], in ascending order.
        directions: features of length 1, whose inner products are cosines; None where these do not join a score.
    """

    nodes: NodeData
    shard: LinkShard
    edges: Indices
    directions: "Features | None" = None

    @classmethod
    def of(
        cls,
        shard: LinkShard,
        encoder: Encoder,
        layers: int,
        inputs: Inputs,
        likeness: bool = False,
        columns: int = 0,
    ) -> "LinkData":
        """Prepare a client's part for a model with this encoder and so many convolutions.

        `inputs` are made of features over training edges, which the model takes to have so many columns. `likeness`
        says whether cosines of features join a score.
        """
        graph = shard.graph
        scale = inputs.scale if graph.scale_rows else 0.0
        seen = prepared(inputs, replace(graph, features=scaled(graph.features, scale)) if scale else graph)
        nobody = FeatureCoding(seen.width, not isinstance(seen.features, np.ndarray)).empty(0)
        known, width = np.ones(graph.own, bool), inputs.width(graph.width)
        around = around_of(graph, None, known, encoder, width, columns)
        features, needed = rows_of(inputs, seen.features, nobody), np.zeros(0, np.int64)
        nodes = NodeData.of(graph, known, features, around, needed, (), layers, False)
        return cls(nodes, shard, shard.edges, scaled(graph.features, 1.0) if likeness else None)

    def log_odds(self, model: Any, pairs: Indices, most: Sequence[int], seed: int = 0) -> Tensor:
        """Return log odds, float32 [n], of `pairs`, int64 [2, n], by a `LinkModel`.

        At most `most` neighbours of a node take part, per layer, drawn by the seed; where all do, all nodes are
        computed, as ever.
        """
        cosines = self._cosines(pairs)
        if any(most):
            nodes, places = np.unique(pairs, return_inverse=True)
            computed, pairs = self.nodes.computed(nodes, most, True, seed), places.reshape(pairs.shape)
        else:
            computed = self.nodes.whole()
        embeddings = self.nodes.logits(model.nodes, computed, False)
        odds: Tensor = model(embeddings, *_on(embeddings.device, torch.from_numpy(pairs), cosines))
        return odds

    def scores(self, model: Any, pairs: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return log odds of pairs, float32 [n], from all neighbours."""
        with torch.no_grad():
            embeddings = self.nodes.logits(model.nodes, self.nodes.whole(), False)
            device, odds = device_of(model), []
            for first in range(0, max(1, pairs.shape[1]), AT_ONCE):
                some = pairs[:, first : first + AT_ONCE].astype(np.int64)
                odds.append(model(embeddings, *_on(device, torch.from_numpy(some), self._cosines(some))).cpu())
        return torch.cat(odds).numpy()

    def _cosines(self, pairs: NDArray[np.integer]) -> Tensor | None:
        return None if self.directions is None else torch.from_numpy(inner_products(self.directions, pairs))

    def without_edge(self, examples: Indices, count: int, seed: int) -> tuple[Indices, NDArray[np.bool_]]:
        """Draw pairs of own nodes without a training edge, the same for an example whenever the seed is.

        `count` of them are drawn for each of the examples, int64 [n], training edges.

        Returns:
            int64 [2, n * count]; and bool [n * count], false where none was found.
        """
        numbers = (examples[:, None] * count + np.arange(count)).ravel()
        pairs, sure = np.zeros((2, len(numbers)), np.int64), np.zeros(len(numbers), bool)
        for attempt in range(TRIES):
            open_ = np.flatnonzero(~sure)
            if not len(open_):
                break
            first = (numbers[open_] * TRIES + attempt) * 2
            ends = [scattered(first + end, seed) % np.uint64(self.nodes.own) for end in range(2)]
            drawn = np.stack(ends).astype(np.int64)
            pairs[:, open_], sure[open_] = drawn, (drawn[0] != drawn[1]) & ~self._joined(drawn)
        return pairs, sure

    def _joined(self, pairs: Indices) -> NDArray[np.bool_]:
        """Whether there is a training edge, bool [n]."""
        codes = codes_of(pairs, self.nodes.own)
        place = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return np.asarray(self._codes[place] == codes)

    @cached_property
    def _codes(self) -> Indices:
        return np.sort(codes_of(self.edges, self.nodes.own))


def _on(device: torch.device, *tensors: Tensor | None) -> list[Tensor | None]:
    return [None if tensor is None else tensor.to(device) for tensor in tensors]
