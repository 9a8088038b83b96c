"""What a recipe claims of differential privacy: before anything runs, and beside its result."""

from typing import Any

from fedgraft.contracts.capabilities import CAPABILITIES
from fedgraft.engine.plan import Plan
from fedgraft.engine.protocol.noise import noise_in
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.policies import joining_tells, kinds_of

NEIGHBOURING = "a {unit} is in training, or its part is zero; how many each client has is no secret"
SAMPLING = "none: a {unit} counts as a part of every round"
BOTH, CLIENTS = "server and clients", "clients"
"""Whom a claim is against."""
_COVERED = ("publish", "train", "alone", "evaluate", "tally", "smoothed")
"""Kinds of messages that hold noise, tell no more, or are spoken of by themselves."""
_ANSWERS = ("smooth", "hop")
"""Kinds that tell answers, which may be randomised."""
SIMULATED = "who knows the seed: in a simulation noise follows from it"
UNSIGNED = "a server that hands clients keys of its own, or lists that differ: secure_sum.signed = true covers that"


def claim_of(experiment: Experiment, here: bool = True) -> dict[str, Any] | None:
    """Return what is claimed of a recipe whose task knows the data; None where sums hold no noise.

    Where clients are `here`, on one machine, their noise follows from the seed: whoever runs it has all their data.

    Returns:
        {"unit", "neighbouring", "epsilon", "delta", "against", "mechanism", "sampling", "parts", "not_covered"}; of
        each part what it is, its rounds, the noise of a sum in units of what one unit can change, and how it is made.
    """
    plan = experiment.plan
    if not plan.privacy.active:
        return None
    noise, privacy = noise_in(plan), plan.privacy
    return {
        "unit": privacy.unit,
        "neighbouring": NEIGHBOURING.format(unit=privacy.unit),
        "epsilon": noise.epsilon,
        "delta": privacy.delta,
        "against": BOTH if plan.secure_sum.masked or privacy.shares == 1 else CLIENTS,
        "mechanism": "distributed discrete Gaussian" if privacy.shares > 1 else "discrete Gaussian at each client",
        "sampling": "none: statistics are told once" if plan.summed else SAMPLING.format(unit=privacy.unit),
        "parts": [
            {
                "what": _what(plan),
                "rounds": noise.rounds,
                "noise": noise.released.noise,
                "clip": privacy.clip,
                "step": noise.step,
                "shares": privacy.shares,
                "numbers": noise.dimension,
                "least_units": noise.least_units,
            },
            *_answers(plan),
        ],
        "not_covered": [*_not_covered(experiment), *([SIMULATED] if here else [])],
    }


def _answers(plan: Plan) -> list[dict[str, Any]]:
    """What answers that are smoothed tell, where they are randomised."""
    if not plan.privacy.answers:
        return []
    return [{"what": "answers by randomised response", "rounds": 1, "epsilon": plan.privacy.answers}]


def _what(plan: Plan) -> str:
    if plan.summed:
        return "sums of statistics"
    return "sums of clipped gradients" if plan.privacy.of_examples else "sums of clipped updates"


def sentence(claim: dict[str, Any]) -> str:
    """Return a claim in one line."""
    parts = ", ".join(f"{_times(part['rounds'])} {part['what']} {_hidden(part)}" for part in claim["parts"])
    return (
        f"epsilon {claim['epsilon']:.4g} at delta {claim['delta']:g} for each {claim['unit']}, against "
        f"{claim['against']}: {parts}"
    )


def _hidden(part: dict[str, Any]) -> str:
    return f"with noise {part['noise']:.4g}" if "noise" in part else f"with epsilon {part['epsilon']:g}"


def _times(rounds: int) -> str:
    return "once" if rounds == 1 else str(rounds)


def _not_covered(experiment: Experiment) -> list[str]:
    """What leaves clients beside sums with noise, in words."""
    plan, told = experiment.plan, Protocol.of(experiment.plan).tells
    words: dict[str, list[str]] = {}
    covered = (*_COVERED, *(_ANSWERS if plan.privacy.answers else ()))
    for kind in kinds_of(experiment):
        for word in sorted(told.get(kind, frozenset())) if kind not in covered else ():
            words.setdefault(word, []).append(kind)
    for word in joining_tells(experiment):
        words.setdefault(word, []).append("joining")
    found = [f"{CAPABILITIES[word]} ({', '.join(kinds)})" for word, kinds in words.items()]
    trusted = [UNSIGNED] if plan.secure_sum.masked and not plan.secure_sum.signed else []
    return [*found, _scores(plan), *trusted]


def _scores(plan: Plan) -> str:
    added = "masked sums" if plan.secure_sum.masked else "each client's sums, unmasked,"
    answered = "how they are answered"
    if not plan.connected:
        answered += ", by models that each client trains on its own data"
    if plan.smoothing:
        answered += ", smoothed with what its training labels say of its own errors"
    kinds = ["evaluate", *(["tally", "smoothed"] if plan.smoothing else [])]
    return f"held-out examples: {added} of {answered}, without noise ({', '.join(kinds)})"
