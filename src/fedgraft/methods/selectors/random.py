"""Random: clients drawn uniformly, a fixed number of them or each with a fixed probability."""

from dataclasses import dataclass

import numpy as np

from fedgraft.contracts import Selection, Selector, View
from fedgraft.contracts.ranges import NonNegativeInt, PositiveProportion
from fedgraft.methods.cohorts import affordable, random_first, reachable, size


@dataclass(frozen=True)
class Random(Selector[None]):
    """Uniformly random clients: a fixed number, or each with a fixed probability (the "Rand" of FedACS).

    Source: a fixed number: McMahan et al., AISTATS 2017, Alg. 1. By probability: Xu et al., IEEE TMC 2025 (FedACS),
        sec. VI-B, "each client has [...] 50% of being selected".
    Differs: the paper does not say what happens when nobody is drawn; here the draw is repeated until somebody is.
        Clients are drawn among those available whom the budget pays for one by one; if it does not pay for all drawn,
        they are taken in random order while they fit.

    Args:
        clients: how many train, in [0, N]; 0 (default, FedACS) draws by probability instead.
        probability: of each client, in (0, 1], where `clients` is 0; 0.5 as in FedACS. Unused otherwise.
        warm_up: first rounds in which all clients train, >= 0. FedAIS (Li et al., AAAI 2025) has one and does not say
            what it is; after this one every client has told others of its nodes.
    State: none.
    Needs: nothing.
    Cost: nothing beyond the model, down to and up from each selected client.
    """

    clients: NonNegativeInt = 0
    probability: PositiveProportion = 0.5
    warm_up: NonNegativeInt = 0

    def init(self, view: View) -> None:
        """Nothing to remember; checks the number of clients."""
        size(self.clients, view, "Random.clients")

    def select(self, state: None, view: View, g: np.random.Generator) -> Selection:
        """A uniform draw of those whom the budget pays for; all of them while it warms up."""
        pool = reachable(view)
        if self.clients and view.round > self.warm_up:
            return Selection(affordable(random_first(pool, self.clients, g), view))
        order = random_first(pool, len(pool), g)
        drawn = order if view.round <= self.warm_up else order[self._chosen(len(order), g)]
        return Selection(affordable(drawn, view))

    def _chosen(self, count: int, g: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Independent draws given that at least one succeeds: what redrawing gives, in one go for any probability."""
        chosen = g.random(count) < self.probability
        if count and not chosen.any():
            # The first success of repeated trials is truncated geometric; those after it stay independent.
            first = (1 - self.probability) ** np.arange(count)
            start = g.choice(count, p=first / first.sum())
            chosen = (np.arange(count) > start) & (g.random(count) < self.probability)
            chosen[start] = True
        return chosen
