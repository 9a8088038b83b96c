"""What a recipe claims of differential privacy: before anything runs, and beside its result."""

import math
from collections.abc import Mapping
from typing import Any, Final

from fedgraft.contracts.capabilities import CAPABILITIES
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.central import CentralMechanism
from fedgraft.engine.protocol.adversaries import adversaries, replaced
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.sums import central_noise_in, noise_in
from fedgraft.experiment.job import Job
from fedgraft.experiment.policies import joining_tells, kinds_of

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
NEIGHBOURING = "one {unit} is in training or its part is zero"
"""What is claimed to be hidden; how many units each client has is no secret."""
STATISTICS = "sums of statistics"
SAMPLING = "none: a {unit} counts as a part of every round"
_COVERED = ("publish", "train", "alone", "evaluate", "tally", "smoothed")
"""Kinds of messages that hold noise, tell no more, or are spoken of by themselves."""
_ANSWERS = ("smooth", "hop")
"""Kinds that tell answers, which may be randomised."""
EXPERIMENTER = "scores that this machine's experimenter sees, who has all data; at sites none leaves a client"
SIMULATED = "who knows the seed: in a simulation noise follows from it"


def _central_adversaries(noise: CentralMechanism, clients: int) -> list[dict[str, Any]]:
    """Return a row for each adversary of so many clients, as `adversaries` does: all clients but one may be with it."""
    cohort, others = max(1, round(noise.cohort)), clients - 1
    rows = [_row(_OUTSIDE, noise.epsilon, cohort, others)]
    if noise.share < 1:
        rows.append(_row(_TOLD, noise.told, cohort, others))
    return [*rows, _row(TRUSTED, None, 1, 0, "it is trusted, and sees each update as it is")]


def _central_noise(noise: CentralMechanism) -> dict[str, Any]:
    """Return {"mechanism", "sampling", "trusted"} of a claim, in words."""
    follows = ", with a clipped length that follows updates" if noise.adaptive else ""
    return {
        "mechanism": f"discrete Gaussian at the server{follows}",
        "sampling": _SECRET.format(share=noise.share) if noise.share < 1 else _NONE,
        "trusted": TRUSTED,
    }


def _central_part(noise: CentralMechanism) -> dict[str, Any]:
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


def _operator_sees(experiment: Job) -> list[str]:
    """Return what the operator of the server has beside the model, in words: none of it may be handed on."""
    drawn = [_COHORTS, _TIMES] if experiment.selector.by_coins else []
    return [*drawn, _LOSSES if experiment.plan.at_home else _SCORES]


def _row(adversary: str, epsilon: float | None, clients: int, together: int, why: str = "") -> dict[str, Any]:
    return {"adversary": adversary, "epsilon": epsilon, "clients": clients, "together": together, "why": why}


def claim_of(experiment: Job, clients: int, here: bool = True, numbers: int = 0) -> dict[str, Any] | None:
    """Return what is claimed of a recipe whose task knows the data; None where sums hold no noise.

    `clients` are how many there are. Where they are `here`, on one machine, noise follows from the seed: whoever runs
    it has all their data. `numbers` as of `noise_in`, for a task that does not know the data.

    Returns:
        {"unit", "neighbouring", "epsilon", "replaced": epsilon where a unit is replaced by another one, "delta",
        "exact_scores": whether scores without noise are told beside it, "adversaries": as `adversaries` says,
        "mechanism", "sampling", "parts", "not_covered"}, and "trusted" where somebody must be; of each part what it is,
        its rounds, the noise of a sum in units of what one unit can change, and how it is made.
    """
    privacy, spent = experiment.plan.privacy, experiment.begins.spent
    if not experiment.plan.collection.claims:
        return None
    made = (_central if privacy.central else _distributed)(experiment, clients, numbers, here)
    # What the run told that this one begins with: the epsilons of both add.
    start = [{"what": "the run that it begins with", "rounds": 1, "epsilon": spent["epsilon"]}] if spent else []
    uncovered = [f"{row['adversary']}: {row['why']}" for row in made["adversaries"] if row["why"]]
    return {
        "unit": privacy.unit,
        "neighbouring": NEIGHBOURING.format(unit=privacy.unit),
        **made,
        "epsilon": made["epsilon"] + spent.get("epsilon", 0.0),
        "replaced": made["replaced"] + spent.get("replaced", spent.get("epsilon", 0.0)),
        "delta": privacy.delta + spent.get("delta", 0.0),
        "exact_scores": not experiment.plan.at_home,
        "adversaries": [_after(row, spent) for row in made["adversaries"]],
        "parts": [*made["parts"], *start],
        "not_covered": [*uncovered, *made["not_covered"]],
    }


def _distributed(experiment: Job, clients: int, numbers: int, here: bool) -> dict[str, Any]:
    """What is claimed of the run alone where each client adds a share of the noise."""
    plan, privacy, noise = experiment.plan, experiment.plan.privacy, noise_in(experiment.plan, numbers)
    part = {
        "what": _what(plan),
        "rounds": noise.rounds,
        "noise": noise.released.noise,
        "clip": privacy.clip,
        "step": noise.step,
        "shares": privacy.shares,
        "numbers": noise.dimension,
        "least_units": noise.least_units,
    }
    return {
        "epsilon": noise.epsilon,
        "replaced": replaced(noise),
        "delta": privacy.delta,
        "adversaries": adversaries(plan, noise, min(clients, _cohort(experiment) or clients)),
        "mechanism": "distributed discrete Gaussian" if privacy.shares > 1 else "discrete Gaussian at each client",
        "sampling": "none: statistics are told once" if plan.summed else SAMPLING.format(unit=privacy.unit),
        "parts": [part, *_answers(plan)],
        "not_covered": [*_told(experiment), *_scores(plan), *([SIMULATED] if here else [])],
    }


def _central(experiment: Job, clients: int, numbers: int, here: bool) -> dict[str, Any]:
    """The same where the server adds it."""
    noise = central_noise_in(experiment.plan, experiment.selector, clients, numbers)
    return {
        "epsilon": noise.epsilon,
        "replaced": noise.replaced,
        "delta": experiment.plan.privacy.delta,
        "adversaries": _central_adversaries(noise, clients),
        **_central_noise(noise),
        "parts": [_central_part(noise)],
        "not_covered": [
            *_operator_sees(experiment),
            *_told(experiment),
            SIMULATED if here else AGAIN,
        ],
    }


def _answers(plan: Plan) -> list[dict[str, Any]]:
    """What answers that are smoothed tell, where they are randomised."""
    if not plan.privacy.answers:
        return []
    return [{"what": "answers by randomised response", "rounds": 1, "epsilon": plan.privacy.answers}]


def _after(row: dict[str, Any], spent: Mapping[str, Any]) -> dict[str, Any]:
    """What an adversary reaches that has seen the run that this one begins with."""
    reached = {each["adversary"]: each["epsilon"] for each in spent.get("adversaries", [])}
    before = reached.get(row["adversary"], spent.get("epsilon", 0.0))
    return {**row, "epsilon": None if None in (row["epsilon"], before) else row["epsilon"] + before}


def _what(plan: Plan) -> str:
    if plan.summed:
        return STATISTICS
    return "sums of clipped gradients" if plan.privacy.of_examples else "sums of clipped updates"


def sentence(claim: dict[str, Any]) -> str:
    """Return a claim in one line: what is claimed, of which neighbouring data, against whom."""
    told = [("once" if (n := part["rounds"]) == 1 else n, part["what"], _hidden(part)) for part in claim["parts"]]
    parts = ", ".join(" ".join(map(str, each)) for each in told)
    known = [_reached(row, claim["epsilon"]) for row in claim["adversaries"] if row["epsilon"] is not None]
    trusted = f"; {claim['trusted']} is trusted" if "trusted" in claim else ""
    against = f"against {', '.join(['other clients', *known])}{trusted}"
    return (
        f"epsilon {_number(claim['epsilon'])} at delta {claim['delta']:g}{_of(claim)} where {claim['neighbouring']} "
        f"({_number(claim['replaced'])} where one is replaced), {against}: {parts}"
    )


def _of(claim: dict[str, Any]) -> str:
    """What is claimed of, where scores are told of models that clients train for themselves without noise."""
    alone = claim["parts"][0]["what"] == STATISTICS and claim.get("exact_scores", True)
    return " of statistics alone, not of scores," if alone else ""


def _reached(row: dict[str, Any], epsilon: float) -> str:
    """An adversary, with the epsilon that it reaches where that is another one."""
    same = math.isclose(row["epsilon"], epsilon)
    return f"{row['adversary']}" if same else f"{row['adversary']}: {_number(row['epsilon'])}"


def _number(epsilon: float) -> str:
    return f"{epsilon:.4g}"


def _hidden(part: dict[str, Any]) -> str:
    return f"with noise {part['noise']:.4g}" if "noise" in part else f"with epsilon {part['epsilon']:g}"


def _told(experiment: Job) -> list[str]:
    """What leaves clients beside sums with noise, in words."""
    plan, told = experiment.plan, Protocol.of(experiment.plan).tells
    words: dict[str, list[str]] = {}
    covered = (*_COVERED, *(_ANSWERS if plan.privacy.answers else ()))
    for kind in kinds_of(experiment):
        for word in sorted(told.get(kind, frozenset())) if kind not in covered else ():
            words.setdefault(word, []).append(kind)
    for word in joining_tells(experiment):
        words.setdefault(word, []).append("joining")
    return [f"{CAPABILITIES[word]} ({', '.join(kinds)})" for word, kinds in words.items()]


def _cohort(experiment: Job) -> int:
    """How many clients a round has; 0 = all."""
    clients = getattr(experiment.selector, "clients", 0)
    return clients if isinstance(clients, int) and not experiment.plan.summed else 0


def _scores(plan: Plan) -> list[str]:
    if plan.at_home:
        return [] if plan.at_sites else [EXPERIMENTER]
    added = "masked sums" if plan.collection.assurance else "each client's sums, unmasked,"
    answered = "how they are answered"
    if not plan.connected:
        answered += ", by models that each client trains on its own data"
    if plan.smoothing:
        answered += ", smoothed with what its training labels say of its own errors"
    kinds = ["evaluate", *(["tally", "smoothed"] if plan.smoothing else [])]
    return [f"held-out examples: {added} of {answered}, without noise ({', '.join(kinds)})"]
