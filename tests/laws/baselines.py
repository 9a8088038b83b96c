"""Small generated data of each task, which its baselines are tried on."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedgraft.methods.baselines.global_mean import GlobalMean
from fedgraft.methods.baselines.graph_mean import GraphMean
from fedgraft.methods.baselines.majority import Majority
from fedgraft.methods.baselines.node_majority import NodeMajority
from fedgraft.methods.baselines.node_mean import NodeMean
from fedgraft.methods.baselines.popularity import Popularity
from fedgraft.methods.baselines.typed_majority import TypedMajority
from fedgraft.methods.data.blocks import Blocks
from fedgraft.methods.data.catalogue import Catalogue
from fedgraft.methods.data.molecules import Molecules
from fedgraft.methods.data.shops import Shops
from fedgraft.methods.data.typed_blocks import TypedBlocks
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.link import Link
from fedgraft.testing import baselines
from fedgraft.testing.baselines import Bench
from helpers.toy_edges import ToyEdges


def laws(cls):
    """The laws of a baseline, to be called one by one."""
    return baselines.laws(cls, bench=BENCHES[cls.task])


def _labels_blind(shard: Any) -> Any:
    return replace(shard, label=np.where(shard.split == 2, 0, shard.label))


def _ratings_blind(shard: Any) -> Any:
    return replace(shard, rating=np.where(shard.split == 2, np.float32(1), shard.rating).astype(np.float32))


def _nodes_untested(shard: Any) -> Any:
    unknown = -1 if shard.label.dtype.kind == "i" else np.nan
    label, split = (np.where(shard.split == 2, no, each) for no, each in ((unknown, shard.label), (-1, shard.split)))
    return replace(shard, label=label, split=split.astype(np.int8))


def _links_blind(shard: Any) -> Any:
    return replace(shard, edge=np.where(shard.split == 2, np.arange(len(shard.edge)) % 2 == 0, shard.edge))


def _links_untested(shard: Any) -> Any:
    kept = shard.split != 2
    parts = {name: getattr(shard, name)[kept] for name in ("split", "edge", "part")}
    return replace(shard, pairs=shard.pairs[:, kept], **parts)


def _ranking_untested(shard: Any) -> Any:
    kept = shard.split != 2
    return replace(shard, **{name: getattr(shard, name)[kept] for name in ("user", "item", "split")})


def _share(score: float) -> bool:
    return 0 <= score <= 1


def _error(rmse: float) -> bool:
    return 2 < rmse < 20  # of numbers with a standard deviation of 10 and 3 of noise


_SHOPS = Shops(users=150, items=150, categories=6, links=300, count=2500, clients=3)
_ASSAYS = Molecules(clients=3, graphs=120, labels="numbers")
_BLOCKS = Blocks(nodes=300, classes=3, clients=3, features=20)
_NUMBERED = replace(_BLOCKS, labels="numbers")
_TYPED = TypedBlocks(papers=100, classes=3, clients=3, features=20)
_CATALOGUE = Catalogue(users=200, items=100, count=4000, clients=3)
BENCHES = {
    "rating": Bench(_SHOPS, _ratings_blind, None, GlobalMean(), "lower", lambda rmse: _SHOPS.noise * 0.8 < rmse < 2),
    "graph": Bench(Molecules(clients=3, graphs=120), _labels_blind, None, Majority(), sound=_share),
    "graph_regression": Bench(_ASSAYS, _labels_blind, None, GraphMean(), "lower", _error),
    "node": Bench(_BLOCKS, _labels_blind, _nodes_untested, NodeMajority(), sound=_share),
    "node_regression": Bench(_NUMBERED, _labels_blind, _nodes_untested, NodeMean(), "lower", _error),
    "typed_node": Bench(_TYPED, _labels_blind, _nodes_untested, TypedMajority(), sound=_share),
    "link": Bench(_BLOCKS, _links_blind, _links_untested, sound=_share, task=Link(SAGE())),
    "edge": Bench(ToyEdges(), _labels_blind, _nodes_untested, sound=_share),
    "ranking": Bench(_CATALOGUE, _ranking_untested, _ranking_untested, Popularity(), sound=_share),
}
"""{task: what its baselines are tried on}."""
