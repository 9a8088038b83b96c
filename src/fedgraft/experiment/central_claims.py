"""What a recipe claims of differential privacy where a trusted server adds the noise."""

from typing import Any, Final

from fedgraft.contracts import PoissonSelector
from fedgraft.engine.privacy.central import CentralMechanism
from fedgraft.experiment.job import Job

TRUSTED: Final = "the server"
"""Who sees each update as it is."""
_OUTSIDE, _TOLD = "who gets the model", "who is told who took part"
"""Adversaries; with each of them all other clients."""
_SECRET: Final = "each client takes part in a round by a coin of probability {share:.4g} that the server alone sees"
_NONE: Final = "none: a client counts as a part of every round"
_COHORTS: Final = "who took part in which round: rounds.jsonl, ledger.jsonl and reports tell the server's operator"
_SCORES: Final = "exact scores and losses in curves, summary and reports, of clients' own examples: for the operator"
_LOSSES: Final = "exact losses of training in rounds.jsonl and reports: for the operator"
AGAIN: Final = "a round that is made again after a kill, in which other clients answer: it counts twice"
_TIMES: Final = "how long rounds take: who sees that may guess how many took part"


def against(noise: CentralMechanism, clients: int) -> list[dict[str, Any]]:
    """Return a row for each adversary of so many clients, as `adversaries` does: all clients but one may be with it."""
    cohort, others = max(1, round(noise.cohort)), clients - 1
    rows = [_row(_OUTSIDE, noise.epsilon, cohort, others)]
    if noise.share < 1:
        rows.append(_row(_TOLD, noise.told, cohort, others))
    return [*rows, _row(TRUSTED, None, 1, 0, "it is trusted, and sees each update as it is")]


def described(noise: CentralMechanism) -> dict[str, Any]:
    """Return {"mechanism", "sampling", "trusted"} of a claim, in words."""
    follows = ", with a clipped length that follows updates" if noise.adaptive else ""
    return {
        "mechanism": f"discrete Gaussian at the server{follows}",
        "sampling": _SECRET.format(share=noise.share) if noise.share < 1 else _NONE,
        "trusted": TRUSTED,
    }


def part(noise: CentralMechanism) -> dict[str, Any]:
    """Return what the sums of all rounds tell, and how their noise is made."""
    return {
        "what": "sums of updates that the server clips",
        "rounds": noise.rounds,
        "noise": noise.released.noise,
        "clip": noise.privacy.clip,
        "target_quantile": noise.privacy.target_quantile,
        "share": noise.share,
        "cohort": noise.cohort,
        "numbers": noise.dimension,
        "least_units": noise.least_units,
    }


def not_covered(experiment: Job) -> list[str]:
    """Return what the operator of the server has beside the model, in words: none of it may be handed on."""
    drawn = [_COHORTS, _TIMES] if isinstance(experiment.selector, PoissonSelector) else []
    return [*drawn, _LOSSES if experiment.plan.at_home else _SCORES]


def _row(adversary: str, epsilon: float | None, clients: int, together: int, why: str = "") -> dict[str, Any]:
    return {"adversary": adversary, "epsilon": epsilon, "clients": clients, "together": together, "why": why}
