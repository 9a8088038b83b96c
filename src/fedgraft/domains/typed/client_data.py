"""A client's part of a typed graph, ready to train on."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from fedgraft.contracts.loss import ClassShares
from fedgraft.contracts.values import Indices
from fedgraft.domains.examples import Features, factors_to
from fedgraft.domains.typed.cross_client_answers import CrossClientTargets
from fedgraft.domains.typed.metapath_graphs import page_rank
from fedgraft.domains.typed.shards import TypedGraph
from fedgraft.nn.propagate import Sparse, States


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
