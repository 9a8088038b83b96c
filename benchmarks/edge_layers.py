"""Compare our layers over edges with columns with PyTorch Geometric's: a step of each, forwards and back, on one core.

    python benchmarks/edge_layers.py [--nodes 20000] [--edges 120000] [--width 32] [--columns 2]

Edges are drawn at random and counted at both ends. The best of some runs counts, as other work on a machine only adds.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GINEConv

from fedgraft.methods.models.gat import GAT
from fedgraft.methods.models.gine import GINE
from fedgraft.methods.models.multigraph import Multigraph
from fedgraft.nn.propagate import Block, EdgeValues, Sparse

RUNS = 7


def graph_of(nodes: int, edges: int, columns: int) -> Block:
    """A random directed multigraph, each edge at both of its ends."""
    g = np.random.default_rng(0)
    source, target = g.integers(0, nodes, (2, edges))
    receiver, sender = np.concatenate([target, source]), np.concatenate([source, target])
    order = np.argsort(receiver, kind="stable")
    values = g.standard_normal((edges, columns)).astype(np.float32)[np.tile(np.arange(edges), 2)[order]]
    told = EdgeValues(torch.from_numpy(values), torch.from_numpy(order < edges))
    ones = np.ones(2 * edges, np.float32)
    matrix = Sparse(receiver[order], sender[order], ones, (nodes, nodes), small=0)
    degree = torch.from_numpy(np.bincount(receiver, minlength=nodes).astype(np.float32))
    return Block(matrix, torch.arange(nodes), degree, degree, told)


def seconds(layer: Callable[[Tensor], Tensor], states: Tensor) -> float:
    """The best time of a step: the layer, and gradients of its weights and of the states."""
    taken = []
    for _ in range(RUNS):
        start = time.perf_counter()
        layer(states).sum().backward()
        taken.append(time.perf_counter() - start)
    return min(taken)


def main() -> None:
    """Print a line for each layer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("nodes", 20_000), ("edges", 120_000), ("width", 32), ("columns", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    torch.set_num_threads(1)
    block, g, width = graph_of(given.nodes, given.edges, given.columns), torch.Generator().manual_seed(0), given.width
    states = torch.randn(given.nodes, width, generator=g).requires_grad_()
    values = block.edges.values if block.edges is not None else states[:0]
    gine = GINEConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)), edge_dim=given.columns)
    gat = GATConv(width, width // 2, 2, edge_dim=given.columns, add_self_loops=False, residual=True)
    theirs = {"gine": gine, "gat": gat, "multigraph": gine}
    for name, encoder in (("gine", GINE()), ("gat", GAT()), ("multigraph", Multigraph())):
        ours = encoder.edge_convolution(width, width, given.columns, g)
        mine = seconds(lambda x, layer=ours: layer(x, block), states)
        other = seconds(lambda x, layer=theirs[name]: layer(x, block.edge_index, values), states)
        beside = type(theirs[name]).__name__
        print(f"{name}: {mine * 1e3:.0f} ms; PyG's {beside}: {other * 1e3:.0f} ms; ratio {other / mine:.2f}")


if __name__ == "__main__":
    main()
