"""Find communities of a graph, and deal them to clients."""

import heapq
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices
from fedgraft.domains.notes import LOG
from fedgraft.errors import InputError

LOUVAIN_EDGES = 5_000_000
"""Most edges for communities: networkx keeps an object per edge, so that these take minutes and some gigabytes."""
SLACK = 20
"""Nodes by which clients of an even cut may differ from their share (Zhang et al., "FedSage", NeurIPS 2021: delta)."""


def communities(
    ends: Iterable[NDArray[np.integer]],
    nodes: int,
    g: np.random.Generator,
    name: str,
    instead: str,
    wanted: int = 0,
    least: int = 1,
) -> list[Indices]:
    """Return Louvain's communities, the largest first: their nodes in order, int64 each.

    Args:
        ends: whole numbers [2, edges] each, of undirected edges between nodes 0..nodes - 1.
        nodes: how many there are.
        g: draws the order in which nodes are looked at.
        name: of the graph, for messages.
        instead: the partitions to take where there are too many edges, for the error.
        wanted: how many of the first nodes communities are wanted of; others are left out of what is returned. 0 = all.
        least: communities that are needed.

    Raises:
        InputError: for more than `LOUVAIN_EDGES` edges.

    Source: Blondel et al., "Fast unfolding of communities in large networks", J. Stat. Mech. 2008, by networkx.
    Differs: where there are fewer communities than needed, the resolution (1) is doubled until there are enough.
    """
    import networkx  # takes a second

    ends = list(ends)
    if (edges := sum(each.shape[1] for each in ends)) > LOUVAIN_EDGES:
        raise InputError(
            f"communities are found in graphs of at most {LOUVAIN_EDGES:,} edges; {name} has {edges:,}. "
            f"Take partition {instead}."
        )
    network = networkx.Graph()
    network.add_nodes_from(range(nodes))
    for low, high in ends:
        network.add_edges_from(zip(low.tolist(), high.tolist(), strict=True))
    seed, resolution = int(g.integers(1 << 31)), 1
    while len(groups := _found(network, resolution, seed, wanted or nodes)) < least:
        resolution *= 2
    if resolution > 1:
        LOG.warning(f"{name}: {len(groups)} communities for {least} clients, at resolution {resolution}.")
    return sorted(groups, key=lambda each: (-len(each), each[0]))


def dealt(groups: Sequence[Indices], nodes: int, clients: int) -> NDArray[np.int32]:
    """Return the client of each node, int32 [nodes]: one community after another, each to who has the fewest so far."""
    owner = np.empty(nodes, np.int32)
    loads = [(0, k) for k in range(clients)]
    for community in groups:
        load, k = loads[0]
        owner[community] = k
        heapq.heapreplace(loads, (load + len(community), k))
    return owner


def dealt_evenly(groups: Sequence[Indices], nodes: int, clients: int) -> NDArray[np.int32]:
    """Return the client of each node, int32 [nodes], so that clients have about equal numbers.

    A community with more than nodes / clients - `SLACK` nodes is cut into pieces of so many, by the order of its nodes.
    The largest piece is dealt first, each to the client at hand, until that has its share; a client that a piece would
    bring more than `SLACK` above its share is passed over.

    Source: Zhang et al., "Subgraph Federated Learning with Missing Neighbor Generation" (FedSage), NeurIPS 2021, sec.
        4.1, as its code and OpenFGL's (Li et al., VLDB 2025) cut graphs.
    Differs: a piece that fits nowhere goes to the client with the fewest nodes.
    """
    share = nodes // clients
    most = max(1, share - SLACK)
    pieces = [community[begin : begin + most] for community in groups for begin in range(0, len(community), most)]
    owner, loads, at = np.empty(nodes, np.int32), np.zeros(clients, np.int64), 0
    for piece in sorted(pieces, key=lambda each: (-len(each), each[0])):
        turns = (np.arange(clients) + at) % clients
        fitting = turns[(loads[turns] < share) & (loads[turns] + len(piece) < share + SLACK)]
        at = int(fitting[0]) if len(fitting) else int(loads.argmin())
        owner[piece] = at
        loads[at] += len(piece)
    return owner


def _found(network: object, resolution: int, seed: int, wanted: int) -> list[Indices]:
    """Return the communities at a resolution, of the first nodes alone."""
    from networkx.algorithms.community import louvain_communities

    found = louvain_communities(network, resolution=resolution, seed=seed)
    groups = (np.array(sorted(node for node in group if node < wanted), np.int64) for group in found)
    return [group for group in groups if len(group)]
