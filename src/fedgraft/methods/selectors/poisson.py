"""Poisson: each client by a secret coin of its own, as claims of privacy that are amplified by sampling need it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgraft.contracts import NonNegativeInt, Selection, Selector, View
from fedgraft.methods.cohorts import affordable, reachable, size


@dataclass(frozen=True)
class Poisson(Selector[None]):
    """Each client takes part with the same probability, whoever else does: Poisson sampling.

    How many train is random, and nobody is a cohort, too. The server throws the coins, from a secret of its own: in a
    simulation it follows from the seed. With `privacy.name = "central"` the claim is smaller for it.

    Source: McMahan et al., "Learning Differentially Private Recurrent Language Models", ICLR 2018, Alg. 1.
    Differs: nothing. A client that cannot be reached, or that a budget does not pay for, is drawn all the same, and
        does not train.

    Args:
        clients: how many train on average, in [0, N]: each with this over N; 0 (default, ours) means half, rounded up.
    State: none.
    Needs: nothing.
    Cost: nothing beyond the model, down to and up from each drawn client.
    """

    by_coins: ClassVar[bool] = True

    clients: NonNegativeInt = 0

    def init(self, view: View) -> None:
        """Nothing to remember; checks the number of clients."""
        size(self.clients, view, "Poisson.clients")

    def share(self, clients: int) -> float:
        """Return how many train on average over how many there are."""
        return min(1.0, (self.clients or (clients + 1) // 2) / clients)

    def select(self, state: None, view: View, g: np.random.Generator) -> Selection:
        """All that were drawn, in random order while the budget pays for them."""
        return Selection(affordable(g.permutation(reachable(view)), view))
