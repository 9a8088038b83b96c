"""Told of nodes elsewhere? The contract of what clients tell each other; a recipe's section [exchange] names one."""

from abc import ABC
from collections.abc import Sequence

from fedgraft.contracts.inputs import Features
from fedgraft.contracts.ranges import Checked
from fedgraft.contracts.values import HaloRows


class Exchange(Checked, ABC):
    """Which neighbours take part in training, and what clients tell each other of those elsewhere; nothing by default.

    Attributes:
        neighbours: most neighbours of a node that take part in training, per layer; 0 = all.
    """

    neighbours: int

    @property
    def features(self) -> bool:
        """Whether clients publish the features of nodes with neighbours elsewhere, once."""
        return False

    @property
    def states(self) -> bool:
        """Whether clients tell each other hidden states of such nodes."""
        return False

    @property
    def history(self) -> bool:
        """Whether a client is told what came before an edge at its target elsewhere."""
        return False

    @property
    def halo(self) -> int:
        """Most neighbours elsewhere of a node; 0 = all."""
        return 0

    @property
    def encrypted_rows(self) -> bool:
        """Whether the server hands these on unread."""
        return False

    @property
    def fresh(self) -> bool:
        """Whether own neighbours outside a batch are computed anew where states are told."""
        return False

    @property
    def pull(self) -> str:
        """What a client that asks to refresh is sent: what "changed", or what it "asked" for."""
        return "changed"

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
