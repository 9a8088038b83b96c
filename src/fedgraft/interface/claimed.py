"""What a recipe claims of differential privacy, with what it costs: of its data, before anything runs."""

from collections.abc import Sequence
from typing import Any

from fedgraft.engine.protocol.noise import noise_in
from fedgraft.engine.server.limits import Limits
from fedgraft.errors import InputError
from fedgraft.experiment import experiment as experiments
from fedgraft.experiment.claims import claim_of
from fedgraft.experiment.described import without_data
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.recipes.recipe import parse_override


def claimed(recipe: str, changes: Sequence[str]) -> dict[str, Any]:
    """Return {"recipe", "claim" as of `claim_of`, "costs", "warnings"}.

    Raises `InputError` for a recipe whose sums hold no noise, and for one that cannot keep what it claims.
    """
    changed = dict(map(parse_override, changes))
    if not without_data(recipe, changed).plan.privacy.active:
        raise InputError(
            f"{recipe} claims no differential privacy: its sums hold no noise. privacy.unit, privacy.epsilon and "
            "privacy.delta ask for some; graft_node_private is a recipe that has them."
        )
    experiment = experiments.load(recipe, changed).agreed()
    shards = experiment.shards()
    experiment = experiment.fitted(shards)
    units = _units(experiment, shards)
    experiment.plan.privacy.check_units(units)
    claim, noise = claim_of(experiment, len(shards)), noise_in(experiment.plan)
    limits, bits = Limits(experiment.plan, len(shards)), noise.bits(units)
    costs = {"units": units, "clients": len(shards), "bits_per_number": bits}
    up, summed = -(-noise.dimension * bits // 8), experiment.plan.summed
    if summed:
        costs |= {"bytes_up_once": up, "bytes_down_once": limits.request_bytes("statistics")}
    else:
        costs |= {"bytes_up_a_round": up, "most_bytes_down_a_round": limits.request_bytes("train")}
    return {"recipe": recipe, "claim": claim, "costs": costs, "warnings": warnings(experiment, units)}


def warnings(experiment: Experiment, units: int) -> list[str]:
    """Return where little is to be gained, none where all is well."""
    noise = noise_in(experiment.plan)
    if units >= noise.least_units:
        return []
    unit = experiment.plan.privacy.unit
    needed = " or more data" if experiment.plan.summed else ", fewer rounds, a smaller model or more data"
    return [
        f"a sum's noise is as long as the parts of {noise.least_units} {unit}s that agree, and there are {units}: "
        f"hardly anything is learnt. A larger privacy.epsilon{needed} are needed."
    ]


def _units(experiment: Experiment, shards: Sequence[Any]) -> int:
    """How many units there are."""
    plan = experiment.plan
    if not plan.privacy.of_examples:
        return len(shards)
    return sum(plan.task.examples(plan.task.prepare(shard, {})) for shard in shards)
