"""AFL: clients whose last loss was high, for the size of their data, are drawn more often."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypedDict

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import NonNegativeFloat, NonNegativeInt, Outcome, Proportion, Selection, Selector, View
from fedgraft.contracts.selector import SCORE
from fedgraft.methods.cohorts import filled, reachable, size, softmax_draw


class AFLState(TypedDict):
    """State of AFL: what each client is worth."""

    valuation: NDArray[np.float64]


@dataclass(frozen=True)
class AFL(Selector[AFLState]):
    """Active federated learning: a softmax over valuations, without the lowest, and a part of the cohort at random.

    A client is worth sqrt(n) times the mean loss of the model that it was sent last, n its training examples. The
    `discarded` share of clients with the lowest worth is left out, `1 - uniform` of the cohort is drawn with
    probability proportional to exp(temperature * worth), and the rest uniformly from all others.

    Source: Goetz et al., 2019 (arXiv 1909.12641), sec. 3, algorithm 1 and its defaults.
    Differs: a client that has never trained is worth as much as the best known one, where the paper starts from values
        that all clients report; before anybody has trained all are worth the same. Where too few are left with a
        probability, the rest of the cohort is drawn uniformly. A loss that is not a number keeps the last worth.

    Args:
        clients: m, how many train, in [0, N]; 0 (default, ours) means half, rounded up.
        discarded: alpha_1, share of clients that is left out of the softmax, in [0, 1]; 0.75 (paper).
        temperature: alpha_2, factor in the exponent, >= 0; 0.01 (paper).
        uniform: alpha_3, share of the cohort that is drawn uniformly, in [0, 1]; 0.1 (paper). What is drawn by the
            softmax is rounded down.

    State:
        valuation: float64 [N], sqrt(n) times the loss; nan = never trained.
    Needs: "loss".
    Cost: the loss in each reply.
    """

    reports: ClassVar[frozenset[str]] = frozenset({"loss"})

    clients: NonNegativeInt = 0
    discarded: Proportion = 0.75
    temperature: NonNegativeFloat = 0.01
    uniform: Proportion = 0.1

    def init(self, view: View) -> AFLState:
        """Nobody has trained."""
        size(self.clients, view, "AFL.clients")
        return {"valuation": np.full(view.clients, np.nan)}

    def select(self, state: AFLState, view: View, g: np.random.Generator) -> Selection:
        """A draw by valuation, then one from all others."""
        pool, wanted = reachable(view), size(self.clients, view, "AFL.clients")
        if not len(pool):
            return Selection(())
        valuation, count = state["valuation"][pool], int((1 - self.uniform) * wanted)
        first = pool[softmax_draw(valuation, count, self.discarded, self.temperature, g)].tolist()
        return Selection(filled(first, pool, wanted, view, g))

    def explanation(self, state: AFLState, view: View) -> Mapping[str, NDArray[np.float64]]:
        """What clients are worth, and its factors, float64 [N] each; {} before anybody has trained."""
        valuation, root = state["valuation"], np.sqrt(view.samples)
        if np.isnan(valuation).all():
            return {}
        loss = np.divide(valuation, root, out=np.full(view.clients, np.nan), where=root > 0)
        score = np.where(np.isnan(valuation), np.nanmax(valuation), valuation)
        return {"last loss": loss, "root of examples": root, SCORE: score}

    def update(self, state: AFLState, view: View, outcome: Outcome) -> AFLState:
        """Keep what the reported losses make clients worth."""
        valuation = state["valuation"].copy()
        for k, report in outcome.reports.items():
            if np.isfinite(report["loss"]):
                valuation[k] = np.sqrt(view.samples[k]) * report["loss"]
        return {"valuation": valuation}
