"""What a recipe claims of differential privacy, with what it costs: of its data, before anything runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedgraft.engine.privacy.central import CentralMechanism
from fedgraft.engine.privacy.mechanism import Mechanism
from fedgraft.engine.privacy.options import CLIENT
from fedgraft.engine.protocol.sums import central_noise_in, noise_in
from fedgraft.engine.server.limits import Limits
from fedgraft.errors import InputError, require
from fedgraft.experiment import job as jobs
from fedgraft.experiment.claims import claim_of
from fedgraft.experiment.described import without_data
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.recipe import parse_override


@dataclass(frozen=True)
class Sizes:
    """What a claim needs to know of data that are not at hand; 0 = it is not said.

    Args:
        numbers: of a sum: the parameters of the model, or the statistics that are added up.
        units: training examples of all clients, where examples are hidden.
        clients: how many there are.
    """

    numbers: int = 0
    units: int = 0
    clients: int = 0


NONE = Sizes()


def claimed(recipe: str, changes: Sequence[str], sizes: Sizes = NONE) -> dict[str, Any]:
    """Return {"recipe", "without_data", "claim" as of `claim_of`, "costs", "warnings"}.

    Data are read unless `sizes` are said.

    Raises `InputError` for a recipe whose sums hold no noise, for one that cannot keep what it claims, and where there
    are neither data nor sizes.
    """
    changed = dict(map(parse_override, changes))
    try:
        experiment, missing = jobs.load(recipe, changed), None
    except InputError as error:  # of the data, if nothing else is wrong
        experiment, missing = without_data(recipe, changed), error
    if not experiment.plan.collection.claims:
        raise InputError(
            f"{recipe} claims no differential privacy: its sums hold no noise. privacy.unit, privacy.epsilon and "
            "privacy.delta ask for some; graft_node_private is a recipe that has them."
        )
    if sizes != NONE:
        return {"recipe": recipe, "without_data": True, **_of_sizes(experiment, sizes)}
    try:
        if missing:
            raise missing
        experiment = experiment.agreed()
        shards = experiment.shards()
    except InputError as error:
        wanted = " ".join(_wanted(experiment, sizes))
        raise InputError(f"{error} Where data are not at hand, say how large they are: {wanted}.") from error
    return {"recipe": recipe, "without_data": False, **_of_data(experiment.fitted(shards), shards)}


def _of_data(experiment: Job, shards: Sequence[Any]) -> dict[str, Any]:
    """What is claimed with these data, and what it costs."""
    plan, clients, units = experiment.plan, len(shards), _units(experiment, shards)
    _check(experiment, units, clients)
    limits, noise = Limits(plan, clients), _noise(experiment, clients)
    costs = _costs(experiment, noise, units, clients)
    if plan.summed:
        costs["bytes_down_once"] = limits.request_bytes("statistics")
    else:
        costs["most_bytes_down_a_round"] = limits.request_bytes("train")
        if plan.collection.single:
            costs["most_bytes_up_a_round"] = limits.reply_bytes("train")
    claim = claim_of(experiment, clients)
    return {"claim": claim, "costs": costs, "warnings": warnings(experiment, units, noise)}


def _of_sizes(experiment: Job, sizes: Sizes) -> dict[str, Any]:
    """The same of data that are not at hand; what is sent down depends on them, and is not said."""
    if wanted := _wanted(experiment, sizes):
        raise InputError(f"A claim without data needs {' '.join(wanted)}, too.")
    clients = sizes.clients or _clients(experiment)
    units = sizes.units if experiment.plan.privacy.of_examples else clients
    allowed = f"{clients}, the number of clients, where privacy.unit = {CLIENT!r}, or left out"
    require(sizes.units in (0, units), "--units", allowed, sizes.units)
    experiment = experiment.among(clients)
    _check(experiment, units, clients)
    noise = _noise(experiment, clients, sizes.numbers)
    claim, costs = claim_of(experiment, clients, numbers=sizes.numbers), _costs(experiment, noise, units, clients)
    return {"claim": claim, "costs": costs, "warnings": warnings(experiment, units, noise)}


def _wanted(experiment: Job, sizes: Sizes) -> list[str]:
    """The options that must say what is not known of data, with what they say."""
    plan = experiment.plan
    counted = "statistics are added up" if plan.summed else "parameters the model has"
    wanted = [] if sizes.numbers else [f"--numbers N (how many {counted})"]
    if plan.privacy.of_examples and not sizes.units:
        wanted.append(f"--units N (how many {plan.privacy.unit}s train)")
    if not (sizes.clients or _clients(experiment)):
        wanted.append("--clients N (how many there are)")
    return wanted


def _clients(experiment: Job) -> int:
    """How many clients the options of the data say that there are; 0 = they do not."""
    said = getattr(experiment.data, "clients", 0)
    return said if isinstance(said, int) else 0


def _check(experiment: Job, units: int, clients: int) -> None:
    """Raise `InputError` for a claim that cannot be kept with so many units, or clients."""
    plan = experiment.plan
    plan.privacy.check_units(units)
    plan.collection.check_clients(clients)


def _noise(experiment: Job, clients: int, numbers: int = 0) -> Mechanism | CentralMechanism:
    """The noise of a sum, of clients or of the server."""
    if experiment.plan.privacy.central:
        return central_noise_in(experiment.plan, experiment.selector, clients, numbers)
    return noise_in(experiment.plan, numbers)


def _costs(experiment: Job, noise: Mechanism | CentralMechanism, units: int, clients: int) -> dict[str, Any]:
    if isinstance(noise, CentralMechanism):
        return {"units": units, "clients": clients, "clients_a_round": noise.cohort}
    bits = noise.bits(units)
    up = "bytes_up_once" if experiment.plan.summed else "bytes_up_a_round"
    return {"units": units, "clients": clients, "bits_per_number": bits, up: -(-noise.dimension * bits // 8)}


def warnings(experiment: Job, units: int, noise: Mechanism | CentralMechanism) -> list[str]:
    """Return where little is to be gained, none where all is well."""
    units = round(noise.cohort) if isinstance(noise, CentralMechanism) else units
    if units >= noise.least_units:
        return []
    unit = experiment.plan.privacy.unit
    needed = " or more data" if experiment.plan.summed else ", fewer rounds, a smaller model or more data"
    return [
        f"a sum's noise is as long as the parts of {noise.least_units} {unit}s that agree, and a sum is of {units}: "
        f"hardly anything is learnt. A larger privacy.epsilon{needed} are needed."
    ]


def _units(experiment: Job, shards: Sequence[Any]) -> int:
    """How many units there are."""
    plan = experiment.plan
    if not plan.privacy.of_examples:
        return len(shards)
    return sum(plan.task.examples(plan.task.prepare(shard, {})) for shard in shards)
