"""Told of nodes elsewhere? The contract of what clients tell each other; a recipe's section [exchange] names one."""

from collections.abc import Sequence

from fedgraft.contracts.inputs import Features
from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.values import HaloRows


class Exchange(Checked):
    """Which neighbours take part in training, and what clients tell each other of those elsewhere; nothing by default.

    Attributes:
        neighbours: most neighbours of a node that take part in training, per layer; 0 = all.
        features: whether clients publish the features of nodes with neighbours elsewhere, once.
        states: whether clients send each other hidden states of such nodes.
        history: whether a client learns what came before an edge at its target elsewhere.
        halo: most neighbours elsewhere of a node; 0 = all.
        encrypted_rows: whether the server hands these on unread.
        fresh: whether own neighbours outside a batch are computed anew where states are sent.
        pull: what a client that asks to refresh is sent: what "changed", or what it "asked" for.
    """

    neighbours: int = 0
    features: bool = False
    states: bool = False
    history: bool = False
    halo: int = 0
    encrypted_rows: bool = False
    fresh: bool = False
    pull: str = "changed"

    def published(self, features: Features) -> Features:
        """Return features of own nodes as they leave, once, before training: [n, f]; as they are by default."""
        return features

    def sent(self, states: Sequence[HaloRows]) -> list[HaloRows]:
        """Return hidden states of own nodes as they leave in training, rows of each layer; as they are by default."""
        return list(states)


class SilentExchange(Exchange):
    """Ability: tell nothing."""


class ExchangeOfNodes(Exchange):
    """Ability: tell of nodes."""


class ExchangeOfEdges(Exchange):
    """Ability: tell of nodes, a row for each window of time, and of edges."""
