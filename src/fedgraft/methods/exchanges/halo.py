"""Halo: clients tell each other of nodes with neighbours elsewhere."""

from dataclasses import dataclass
from typing import Literal

from fedgraft.contracts.exchange import ExchangeOfNodes
from fedgraft.contracts.ranges import NonNegativeInt


@dataclass(frozen=True)
class Halo(ExchangeOfNodes):
    """Halo: clients tell each other features and hidden states of nodes with neighbours elsewhere.

    With neither, the edges between clients are as if they were not there.

    Source: Li et al., "FedAIS", AAAI 2025, Eq. (6) and Algorithm 1; historical states of own nodes as Fey et al.,
        "GNNAutoScale", ICML 2021.
    Differs: a round begins with one pass over all own nodes, not over training nodes alone, so that others are told of
        every node (FedAIS does not say where states of nodes without a label come from). A neighbour of which nothing
        is known yet is left out, and the others count for it; the paper has one round of warm-up instead.

    Args:
        features: whether clients publish the features of nodes with neighbours elsewhere, once.
        states: whether clients tell each other hidden states of such nodes.
        neighbours: most neighbours of a node that take part in training, per layer, drawn anew for every batch; 0 =
            all (FedAIS: 10). Scores and predictions always see all that `halo` leaves.
        halo: most neighbours elsewhere of a node, chosen once for the whole run; 0 = all. What a client keeps of others
            is at most so many times what it keeps of its own nodes.
        encrypted_rows: whether the server hands rows on unread: each is encrypted by itself, under a secret that the
            sites of a federation have. Where all clients are on one machine rows are as long, and open.
        fresh: whether own neighbours outside a batch are computed anew; always where states are not shared.
        pull: what a client that asks to refresh is sent: what "changed", or what it "asked" for because the batch to
            come reads it, changed or not.
    """

    features: bool = True
    states: bool = True
    neighbours: NonNegativeInt = 10
    halo: NonNegativeInt = 0
    encrypted_rows: bool = False
    fresh: bool = False
    pull: Literal["changed", "asked"] = "changed"
