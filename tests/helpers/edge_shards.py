"""Small graphs whose edges carry columns and weights, and layers over them."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fedgraft.contracts.abilities.plain import PlainModel
from fedgraft.domains.edge_data.edge_rows import both_ways
from fedgraft.domains.nodes.base.shards import NodeShard, cut
from fedgraft.domains.nodes.training.neighbour_sampling import Neighbourhoods, Reach
from fedgraft.experiment.predicting.export import source_text
from fedgraft.nn.propagate import Block
from helpers.toy_nodes import whole

ENDS = np.array([[0, 1, 2, 3, 4, 0, 0], [1, 2, 3, 4, 0, 2, 1]])
"""A ring of five nodes, a chord, and the edge of 0 and 1 once more; node 5 has none."""
VALUES = np.random.default_rng(0).standard_normal((7, 2)).astype(np.float32)
WEIGHT = np.array([0.5, 2.0, 0.25, 3.0, 1.5, 0.125, 4.0], np.float32)
OWNER = np.array([0, 0, 0, 1, 1, 1])
STATES = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


def shards_of(
    weight: np.ndarray | None = None,
    values: np.ndarray = VALUES,
    owner: np.ndarray = 0 * OWNER,
    is_directed: bool = False,
) -> list[NodeShard]:
    """The graph, cut by owners."""
    pointers, senders, rows = both_ways(ENDS, values, 6, is_directed, weight)
    graph = replace(whole([(0, 1)]), pointers=pointers, senders=senders, edge_rows=rows)
    return cut(graph, owner, ("a", "b")[: owner.max() + 1])


def read(shard: NodeShard, most: int = 0, seed: int = 0) -> Block:
    """A layer in which all nodes receive, in their order."""
    reach = Reach([np.ones(shard.own, bool)], (most,), True, seed)
    return Neighbourhoods(shard).around(np.arange(shard.own), 1, reach)[0].block


def exported(plain: PlainModel) -> torch.nn.Module:
    """The model that a plain one's source text makes."""
    names: dict[str, Any] = {"__file__": "model.py", "__name__": "model"}
    exec(source_text(plain, plain.module), names)
    model = names["build"]()
    model.load_state_dict(plain.module.state_dict())
    return model.eval()
