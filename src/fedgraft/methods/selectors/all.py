"""All: every available client trains in every round."""

from dataclasses import dataclass

import numpy as np

from fedgraft.contracts import Selection, Selector, View
from fedgraft.methods.cohorts import affordable


@dataclass(frozen=True)
class All(Selector[None]):
    """Full participation: every available client trains in every round.

    Source: the default of federated averaging, McMahan et al., AISTATS 2017, with C = 1; FedGraphNN, He et al., 2021.
    Differs: once the budget does not pay for everybody, clients with many training examples go first (ties: lowest
        index), and every client that still fits is taken.
    State: none.
    Needs: nothing.
    Cost: nothing beyond the model, down to and up from every available client.
    """

    def init(self, view: View) -> None:
        """Return the first state: nothing to remember."""

    def select(self, state: None, view: View, g: np.random.Generator) -> Selection:
        """Everybody, or the largest that still fit."""
        order = np.argsort(-view.samples, kind="stable")
        return Selection(affordable(order, view))
