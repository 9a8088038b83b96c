"""A client's part of a graph, ready to train on its edges: embeddings of nodes, pairs without an edge, scores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts.encoder import Encoder
from fedgraft.contracts.inputs import Inputs
from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Features, scaled
from fedgraft.domains.links.shards import LinkShard, codes_of
from fedgraft.domains.nodes.base.features import FeatureCoding, inner_products
from fedgraft.domains.nodes.training.client_graph import NodeData, around_of
from fedgraft.domains.nodes.training.neighbour_sampling import scattered
from fedgraft.domains.nodes.training.smoothed_inputs import prepared, rows_of
from fedgraft.nn.layers import device_of

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
