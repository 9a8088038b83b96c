"""No exchange: clients tell each other nothing of nodes."""

from dataclasses import dataclass

from fedgraft.contracts.exchange import SilentExchange
from fedgraft.contracts.ranges import NonNegativeInt


@dataclass(frozen=True)
class NoExchange(SilentExchange):
    """No exchange: clients tell each other nothing of nodes, and edges between them have no part.

    Args:
        neighbours: most neighbours of a node that take part in training, per layer, drawn anew for every batch, or most
            nodes that a metapath joins to a node, those that most paths lead to; 0 = all. Scores see all but those.
    """

    neighbours: NonNegativeInt = 0
