"""Fastest: always the clients whose rounds are shortest."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import NonNegativeInt, Selection, Selector, View
from fedgraft.contracts.selector import SCORE
from fedgraft.methods.cohorts import affordable, reachable, size


@dataclass(frozen=True)
class Fastest(Selector[None]):
    """The clients whose rounds are expected to be shortest, always the same: what knowing the devices alone brings.

    It is the control of selectors that weigh time. Data of slow clients are never trained on.

    Source: Nishio and Yonetani, "Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge",
        ICC 2019 (FedCS): clients by their time.
    Differs: the number of clients is fixed, where FedCS takes as many as a deadline allows, of a random few. Expected
        seconds are those of the clock; nothing is learnt of rounds that were longer.

    Args:
        clients: how many train, in [0, N]; 0 (default, ours) means half, rounded up.
    State: none.
    Needs: nothing; expected seconds are what the server knows of devices.
    Cost: nothing beyond the model, down to and up from each selected client.
    """

    clients: NonNegativeInt = 0

    def init(self, view: View) -> None:
        """Nothing to remember; checks the number of clients."""
        size(self.clients, view, "Fastest.clients")

    def select(self, state: None, view: View, g: np.random.Generator) -> Selection:
        """Those with the fewest expected seconds; equals in random order."""
        pool = g.permutation(reachable(view))
        order = pool[np.argsort(view.seconds[pool], kind="stable")]
        return Selection(affordable(order, view, most=size(self.clients, view, "Fastest.clients")))

    def explanation(self, state: None, view: View) -> Mapping[str, NDArray[np.float64]]:
        """Expected seconds, float64 [N]: the fewer, the sooner."""
        return {"expected seconds": view.seconds.copy(), SCORE: -view.seconds}
