"""Rings of six equal atoms at two labs, which bonds alone tell apart: each second one double, or all single."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data

CLIENTS = ("north", "south")
SIZE = 6


def rings(count: int = 80, first: int = 0) -> dict[str, pd.DataFrame]:
    """Tables; of every third graph each bond is listed both ways, of others one way."""
    graphs, nodes, edges = [], [], []
    g = np.random.default_rng(first)
    for k in range(first, first + count):
        name, double = f"r{k:03d}", k % 2
        graphs.append((name, ("plain", "alternating")[double], CLIENTS[k // 2 % 2]))
        nodes += [(name, atom, "C") for atom in range(SIZE)]
        for atom in range(SIZE):
            bond, length = ("single", "double")[double * (atom % 2)], 1.5 - 0.2 * double * (atom % 2)
            row = (bond, round(length + g.normal(0, 0.01), 3))
            edges.append((name, atom, (atom + 1) % SIZE, *row))
            if k % 3 == 0:
                edges.append((name, (atom + 1) % SIZE, atom, *row))
    return {
        "graphs": pd.DataFrame(graphs, columns=["graph", "label", "client"]),
        "nodes": pd.DataFrame(nodes, columns=["graph", "node", "kind"]),
        "edges": pd.DataFrame(edges, columns=["graph", "source", "target", "bond", "length"]),
    }


def objects(count: int = 80) -> list[Data]:
    """The same as PyG objects, of which x is a column of ones and edge_attr says which bonds are double."""
    made = []
    for k in range(count):
        atom = torch.arange(SIZE)
        way = torch.stack([atom, (atom + 1) % SIZE])
        double = (k % 2 * (atom % 2)).float()[:, None]
        more: Any = {"client": CLIENTS[k // 2 % 2], "y": k % 2}
        ends, attributes = torch.cat([way, way.flip(0)], 1), torch.cat([double, double])
        made.append(Data(x=torch.ones(SIZE, 1), edge_index=ends, edge_attr=attributes, **more))
    return made
