"""Power-of-choice: of a few candidates, those train on whose data the model does worst."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import NonNegativeInt, Outcome, Probe, ProbingSelector, Selection, View
from fedgraft.contracts.selector import SCORE
from fedgraft.methods import cohorts


class PowerOfChoiceState(TypedDict):
    """State of power-of-choice: the last losses."""

    loss: NDArray[np.float64]


@dataclass(frozen=True)
class PowerOfChoice(ProbingSelector[PowerOfChoiceState]):
    """Of d candidates drawn in proportion to their data, the m with the highest loss train ("POW" of FedACS).

    Source: Cho, Wang, Joshi, 2020 (arXiv 2010.01243), sec. 4: pow-d and rpow-d.
    Differs: rpow-d remembers the loss before local training where the paper averages over the local steps. The
        candidates are not probed when there are at most m of them, since all would train anyway, nor when the
        budget pays for no probe; the drawn candidates then train, in the order drawn. A probe that would leave too
        little for one client is made of fewer candidates. A candidate whose loss is not a number ranks last.

    Args:
        clients: m, how many train, in [0, N]; 0 (default, ours) means half, rounded up.
        candidates: d, how many are considered, in [m, N] (sec. 4); 0 (default) means min(N, 2 m), the paper's
            smallest setting.
        variant: "pow-d" (default) asks every candidate for the current model's loss on all of its training examples;
            "rpow-d" asks nobody and uses the loss each client last reported, infinite for one that never did.

    State:
        loss: float64 [N], last reported loss; inf = never reported. A failed client keeps what it had.
    Needs: "loss".
    Cost: pow-d: model down and one scalar up per candidate (`bytes_per_probe`), in every round. Both: the loss in
        each reply.
    """

    reports: ClassVar[frozenset[str]] = frozenset({"loss"})

    clients: NonNegativeInt = 0
    candidates: NonNegativeInt = 0
    variant: Literal["pow-d", "rpow-d"] = "pow-d"

    def init(self, view: View) -> PowerOfChoiceState:
        """Nobody has reported a loss."""
        cohorts.check_candidates(self.candidates, self._wanted(view), view, "PowerOfChoice.candidates")
        return {"loss": np.full(view.clients, np.inf)}

    def probe(self, state: PowerOfChoiceState, view: View, g: np.random.Generator) -> Probe | None:
        """The candidates of pow-d; nobody where their losses could change nothing."""
        drawn = self._draw(view, g)
        if self.variant == "rpow-d" or len(drawn) <= self._wanted(view):
            return None
        candidates = cohorts.probeable(drawn, view)
        return Probe(candidates) if candidates else None

    def select(self, state: PowerOfChoiceState, view: View, g: np.random.Generator) -> Selection:
        """The candidates with the highest loss, weighted equally; ties at random."""
        wanted = self._wanted(view)
        if self.variant == "rpow-d":
            drawn = self._draw(view, g)
            loss = {k: float(state["loss"][k]) for k in drawn}
        else:
            drawn = (
                g.permutation([k for k in cohorts.reachable(view).tolist() if k in view.probed])
                .astype(np.int64)
                .tolist()
            )
            loss = {k: view.probed[k]["loss"] for k in drawn}
        if not drawn:
            drawn, loss = self._draw(view, g), {}
        order = sorted(drawn, key=lambda k: _rank(loss.get(k, 0.0)), reverse=True)
        cohort = cohorts.affordable(order[:wanted], view)
        return Selection(cohort, tuple(1 / len(cohort) for _ in cohort))

    def explanation(self, state: PowerOfChoiceState, view: View) -> Mapping[str, NDArray[np.float64]]:
        """The losses, float64 [N], that candidates, with "rpow-d" all, were ranked by; {} where nobody was asked."""
        if self.variant == "rpow-d":
            loss = np.where(np.isfinite(state["loss"]), state["loss"], np.nan)
            return {"last loss": loss, SCORE: loss}
        return cohorts.probed_losses(view)

    def update(self, state: PowerOfChoiceState, view: View, outcome: Outcome) -> PowerOfChoiceState:
        """Return the state with the reported losses."""
        loss = state["loss"].copy()
        for k, report in outcome.reports.items():
            loss[k] = report["loss"]
        return {"loss": loss}

    def _wanted(self, view: View) -> int:
        return cohorts.size(self.clients, view, "PowerOfChoice.clients")

    def _draw(self, view: View, g: np.random.Generator) -> list[int]:
        pool = cohorts.reachable(view)
        wanted = self.candidates or min(view.clients, 2 * self._wanted(view))
        return cohorts.weighted_order(pool, view.samples[pool], g, wanted)


def _rank(loss: float) -> float:
    return -np.inf if np.isnan(loss) else loss
