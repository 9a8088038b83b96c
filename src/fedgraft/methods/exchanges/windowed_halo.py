"""Windowed halo: clients tell each other of nodes, window by window, and what came before edges."""

from dataclasses import dataclass

from fedgraft.contracts.exchange import ExchangeOfEdges


@dataclass(frozen=True)
class WindowedHalo(ExchangeOfEdges):
    """Windowed halo: clients tell each other of nodes, a row for each part of the edges, and what came before edges.

    With neither features nor states, edges between clients carry nothing, and nothing is known of their targets.

    Args:
        features: whether clients publish the features of nodes with edges to other clients, once, a row for each part;
            where not, edges to nodes elsewhere carry no message to the first layer.
        states: whether clients tell each other states of such nodes, of each layer.
        history: whether the client of an edge's target tells that of its source what came before the edge at the
            target: how many edges, and the means of their columns.
        encrypted_rows: whether the server hands all these on unread: each row is encrypted by itself, under a secret
            that the sites of a federation have. Where all clients are on one machine rows are as long, and open.
    """

    features: bool = True
    states: bool = True
    history: bool = True
    encrypted_rows: bool = False
