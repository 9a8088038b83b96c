"""A client's part of a typed graph, ready to train on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from fedgraft.contracts.abilities.smoothing import Means
from fedgraft.contracts.answers import Singles
from fedgraft.contracts.encoder import MetapathEncoder
from fedgraft.contracts.inputs import Inputs
from fedgraft.contracts.loss import ClassShares
from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Features, compact, factors_to, scaled
from fedgraft.domains.labels.smoothing import Apart
from fedgraft.domains.typed.metapath_graphs import page_rank
from fedgraft.domains.typed.shards import TypedGraph
from fedgraft.nn.layers import linear
from fedgraft.nn.propagate import Sparse, States


class TypedModel(nn.Module):
    """A network from so many features of target nodes to logits of so many classes; its weights are drawn from `g`.

    The encoder makes embeddings of metapaths whose edges carry so many numbers each; `dropout` is the share of them
    dropped in training.
    """

    def __init__(
        self,
        encoder: MetapathEncoder,
        features: int,
        path_widths: Sequence[int],
        classes: int,
        dropout: float,
        g: torch.Generator,
    ) -> None:
        super().__init__()
        self.encoder = encoder.build(features, path_widths, g)
        self.head = nn.ModuleDict({"outer": linear(encoder.width, classes, g)})
        self.dropout = dropout

    def represent(self, features: States, graphs: Sequence[Any]) -> Tensor:
        """Return embeddings of all nodes, float32 [nodes, width]."""
        hidden: Tensor = self.encoder(features, graphs)
        return hidden

    def classify(self, hidden: Tensor) -> Tensor:
        """Return logits, float32 [nodes, classes], of embeddings."""
        if self.dropout and self.training:
            hidden = nn.functional.dropout(hidden, self.dropout)
        logits: Tensor = self.head["outer"](hidden)
        return logits

    def forward(self, features: States, graphs: Sequence[Any]) -> Tensor:
        """Return logits of all nodes, float32 [nodes, classes]."""
        return self.classify(self.represent(features, graphs))


class CrossClientTargets(Apart):
    """Target nodes of a client; those of a node are joined to it by metapaths, and only inside the client.

    Args:
        shard: the client's part of the typed graph.
        rows: {split: int64 [nodes], target nodes}.
        joins: the metapaths' matrices [targets, targets]: 1 where two nodes are joined, and on the diagonal.
        inputs: what the model reads of target nodes.
    """

    def __init__(
        self,
        shard: TypedGraph,
        rows: Mapping[str, Indices],
        joins: Sequence[sparse.csr_matrix],
        inputs: "Features | None" = None,
    ) -> None:
        super().__init__(shard.label, rows)
        self._inputs = inputs
        self._joins = [_without_itself(matrix) for matrix in joins]

    @property
    def inputs(self) -> "Features | None":
        """As given."""
        return self._inputs

    def mean(self, rows: Singles, means: Means | None, width: int) -> Singles:
        """Return the mean over metapaths of the mean over the nodes joined; a node without any keeps its own row."""
        total, paths = np.zeros_like(rows), np.zeros(len(rows), np.float32)
        for matrix in self._joins:
            count = np.diff(matrix.indptr).astype(np.float32)
            total += np.asarray(matrix @ rows, np.float32) / np.maximum(count, 1)[:, None]
            paths += count > 0
        alone = paths == 0
        total[alone], paths[alone] = rows[alone], 1
        return total / paths[:, None]


def _without_itself(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    others = sparse.csr_matrix(matrix - sparse.diags(matrix.diagonal()), dtype=np.float32)
    others.eliminate_zeros()
    return others


def smoothed(inputs: Inputs, features: Features, joins: Sequence[sparse.csr_matrix]) -> Features:
    """Return what a model reads of features [targets, f], dense where averages have left few zeros.

    `joins` are the metapaths' matrices [targets, targets]: 1 where two nodes are joined, and on the diagonal.
    """
    made = inputs.read(features, [partial(_mean, matrix) for matrix in joins])
    return made if isinstance(made, np.ndarray) or not inputs.hops else compact(sparse.csr_matrix(made))


def features_read(inputs: Inputs, shard: TypedGraph, joins: Sequence[sparse.csr_matrix]) -> tuple[Features, States]:
    """Return what a model reads of a client's target nodes, [targets, any], and the same as products want it.

    `joins` are as of `smoothed`.
    """
    scale = inputs.scale if shard.scale_rows else 0.0
    own = shard.features if inputs.raw or not scale else scaled(shard.features, scale * shard.width**0.5)
    made = smoothed(inputs, own, joins)
    return made, feature_states(made, scale if inputs.raw else 0.0)


def _mean(matrix: sparse.csr_matrix, features: Features) -> Features:
    total, by = matrix @ features, np.diff(matrix.indptr).astype(np.float32)
    if isinstance(total, np.ndarray):
        return np.asarray(total / by[:, None], np.float32)
    rows = sparse.csr_matrix(total, dtype=np.float32)
    rows.data = rows.data / np.repeat(by, np.diff(rows.indptr))
    return rows


@dataclass(eq=False)
class TypedData:
    """A client's target nodes and the graphs of its metapaths.

    Args:
        part: the client's part of the typed graph.
        features: of its target nodes, [targets, f].
        graphs: one for each metapath, as the encoder reads it.
        label: int64 [targets].
        rows: {split: int64 [nodes], target nodes}.
        weights: float32 [classes], by which losses of training nodes are multiplied; None for 1.
        shares: of classes among training nodes, where losses depend on them.
        around: the target nodes that metapaths join, where answers are bettered by them; else None.
        joined: int64 [2, edges], target nodes that metapaths join; None until somebody asks.
    """

    part: TypedGraph
    features: States
    graphs: Sequence[Any]
    label: Tensor
    rows: dict[str, Indices]
    weights: Tensor | None = None
    shares: ClassShares | None = None
    around: CrossClientTargets | None = None
    joined: Indices | None = None
    moved: dict[str, "TypedData"] = field(default_factory=dict)

    def on(self, device: torch.device) -> "TypedData":
        """Return the data on a device; copied there once."""
        if device.type == "cpu":
            return self
        if str(device) not in self.moved:
            graphs = [graph.to(device) for graph in self.graphs]
            self.moved[str(device)] = replace(
                self, features=self.features.to(device), graphs=graphs, label=self.label.to(device), moved={}
            )
        return self.moved[str(device)]

    @cached_property
    def centrality(self) -> NDArray[np.float32]:
        """float32 [targets], PageRank among the client's nodes of all types."""
        return page_rank(self.part)


def feature_states(features: Features, scale: float) -> States:
    """Return features as products want them, of such a root mean square in every row; 0 leaves them as they are."""
    if isinstance(features, np.ndarray):
        factors = factors_to(scale, np.square(features).mean(1))
        return torch.from_numpy(np.ascontiguousarray(features * factors[:, None]) if scale else features.copy())
    factors = factors_to(scale, np.asarray(features.multiply(features).mean(1)).ravel())
    entries = (sparse.diags(factors) @ features if scale else features).tocoo()
    order = np.lexsort((entries.col, entries.row))
    # Never with its zeros: a client's bag of words has a hundred times as many of them as of words.
    values = entries.data[order].astype(np.float32)
    return Sparse(entries.row[order], entries.col[order], values, features.shape, small=0)
