"""What a recipe claims of differential privacy: before anything runs, and beside its result."""

from typing import Any

from fedgraft.contracts.capabilities import CAPABILITIES
from fedgraft.engine.mechanism import Mechanism, mechanism_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.private_sums import numbers_of
from fedgraft.engine.told import told_by
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.policies import joining_tells, kinds_of

NEIGHBOURING = "a {unit} is in training, or its part is zero; how many each client has is no secret"
SAMPLING = "none: a {unit} counts as a part of every round"
BOTH, CLIENTS = "server and clients", "clients"
"""Whom a claim is against."""
SIMULATED = "who knows the seed: in a simulation noise follows from it"


def mechanism(experiment: Experiment) -> Mechanism:
    """Return the noise of a recipe that has any; its task knows the data."""
    plan = experiment.plan
    return mechanism_of(plan.privacy, plan.rounds, numbers_of(plan.upload_layout))


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
    noise, privacy = mechanism(experiment), plan.privacy
    return {
        "unit": privacy.unit,
        "neighbouring": NEIGHBOURING.format(unit=privacy.unit),
        "epsilon": noise.epsilon,
        "delta": privacy.delta,
        "against": BOTH if plan.secure_sum.masked or privacy.shares == 1 else CLIENTS,
        "mechanism": "distributed discrete Gaussian" if privacy.shares > 1 else "discrete Gaussian at each client",
        "sampling": SAMPLING.format(unit=privacy.unit),
        "parts": [
            {
                "what": "sums of clipped gradients" if privacy.of_examples else "sums of clipped updates",
                "rounds": plan.rounds,
                "noise": noise.released.noise,
                "clip": privacy.clip,
                "step": noise.step,
                "shares": privacy.shares,
                "numbers": noise.dimension,
                "least_units": noise.least_units,
            }
        ],
        "not_covered": [*_not_covered(experiment), *([SIMULATED] if here else [])],
    }


def sentence(claim: dict[str, Any]) -> str:
    """Return a claim in one line."""
    parts = ", ".join(f"{part['rounds']} {part['what']} with noise {part['noise']:.4g}" for part in claim["parts"])
    return (
        f"epsilon {claim['epsilon']:.4g} at delta {claim['delta']:g} for each {claim['unit']}, against "
        f"{claim['against']}: {parts}"
    )


def _not_covered(experiment: Experiment) -> list[str]:
    """What leaves clients beside sums with noise, in words."""
    plan, told = experiment.plan, told_by(experiment.plan)
    words: dict[str, list[str]] = {}
    for kind in kinds_of(experiment):
        for word in sorted(told.get(kind, frozenset())) if kind not in ("train", "alone", "evaluate") else ():
            words.setdefault(word, []).append(kind)
    for word in joining_tells(experiment):
        words.setdefault(word, []).append("joining")
    found = [f"{CAPABILITIES[word]} ({', '.join(kinds)})" for word, kinds in words.items()]
    return [*found, _scores(plan)]


def _scores(plan: Plan) -> str:
    added = "masked sums" if plan.secure_sum.masked else "each client's sums, unmasked,"
    return f"held-out examples: {added} of how they are answered, without noise (evaluate)"
