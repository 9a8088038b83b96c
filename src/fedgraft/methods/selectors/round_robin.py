"""RoundRobin: clients in turn, those first who have waited longest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import NonNegativeInt, Outcome, Selection, Selector, View
from fedgraft.contracts.selector import SCORE
from fedgraft.methods.cohorts import affordable, reachable, size


class Turns(TypedDict):
    """State of round robin: int64 [N], the round that last selected each client; 0 = none."""

    last: NDArray[np.int64]


@dataclass(frozen=True)
class RoundRobin(Selector[Turns]):
    """Clients in turn: a fixed number of those who have waited longest, which learns nothing of anybody.

    It is the control of selectors that learn: what taking turns brings is not theirs.

    Source: Yang, Liu, Quek, Poor, "Scheduling Policies for Federated Learning in Wireless Networks", IEEE Transactions
        on Communications 2020, the policy "round robin".
    Differs: groups are not fixed beforehand: clients who have waited equally long are taken in random order, so that
        the first pass over all is random, and cohorts change where the number of clients is no multiple of theirs.

    Args:
        clients: how many train, in [0, N]; 0 (default, ours) means half, rounded up.
    State:
        last: int64 [N], the round that last selected each; 0 = none.
    Needs: nothing.
    Cost: nothing beyond the model, down to and up from each selected client.
    """

    clients: NonNegativeInt = 0

    def init(self, view: View) -> Turns:
        """Return the first state: nobody has had a turn."""
        size(self.clients, view, "RoundRobin.clients")
        return {"last": np.zeros(view.clients, np.int64)}

    def select(self, state: Turns, view: View, g: np.random.Generator) -> Selection:
        """Those who have waited longest, of those whom the budget pays for."""
        pool = g.permutation(reachable(view))
        order = pool[np.argsort(state["last"][pool], kind="stable")]
        return Selection(affordable(order, view, most=size(self.clients, view, "RoundRobin.clients")))

    def explanation(self, state: Turns, view: View) -> Mapping[str, NDArray[np.float64]]:
        """Rounds since each client's last turn, float64 [N], by which they are ranked."""
        waited = (view.round - state["last"]).astype(np.float64)
        return {"rounds since its turn": waited, SCORE: waited}

    def update(self, state: Turns, view: View, outcome: Outcome) -> Turns:
        """Note whose turn it was, whether they answered or not."""
        last = state["last"].copy()
        last[list(outcome.selected)] = view.round
        return {"last": last}
