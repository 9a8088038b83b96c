"""Which methods go with secure sums: those that need no more of clients than the sum of their updates."""

from collections.abc import Mapping
from typing import Any

from fedgraft.contracts import Aggregation, ProbingSelector, Selector, SilentSharing
from fedgraft.contracts.summed_statistics import SummedTask
from fedgraft.contracts.summing import SummableCodec
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.safeguards import Safeguards
from fedgraft.engine.server.simulated_clock import Clock
from fedgraft.engine.server.stopping import Evaluation
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery


def checked(plan: Plan, selector: Selector[Any], aggregation: Aggregation, settings: Mapping[str, Any]) -> Plan:
    """Return a plan; raise `InputError` where updates are to be added up and something needs to see each by itself.

    `settings` are {name of a section without a name: what it sets}.
    """
    if not plan.secure_sum.active:
        if plan.summed:
            raise InputError(f"{plan.summed.summed_by} adds statistics up: secure_sum.name = 'secagg' (or 'clear').")
        return plan
    for why, instead in (
        *_of_clients(plan),
        *_of_selection(plan, selector),
        *_of_the_server(aggregation, settings["safeguards"], settings["clock"], settings["evaluation"]),
    ):
        raise InputError(f"secure_sum.name = {plan.secure_sum.name!r} adds updates up, but {why}: {instead}.")
    if not plan.privacy.active and not is_local(plan):  # noise has codes of its own, and who trains alone sends none
        _check_codes(plan)
    return plan


def is_local(plan: Plan) -> bool:
    """Return whether nothing that clients train is sent."""
    return isinstance(plan.sharing, discovery.find("sharing", "local"))


def _of_clients(plan: Plan) -> list[tuple[str, str]]:
    """What of clients' rounds does not fit: (why, what to take instead)."""
    found, sharing = [], type(plan.sharing).__name__
    if plan.summed and is_local(plan):
        return []
    if is_local(plan) and isinstance(plan.task, SummedTask):
        found.append((f"sharing {sharing} sends none", f"{plan.task.summed_by}, or take {_sharing_methods()}"))
    elif isinstance(plan.sharing, SilentSharing):
        found.append((f"with sharing {sharing} clients have rounds of their own", f"take {_sharing_methods()}"))
    elif not plan.sharing.merges_means:
        found.append((f"sharing {sharing} merges more than a mean of them", f"take {_sharing_methods()}"))
    if plan.shared_sampler:
        name = type(plan.sampler).__name__
        found.append((f"with sampler {name} clients share arrays beside the model", "let each keep its own"))
    if plan.sums_layout.specs:
        found.append(("a layer is fitted to products that each client rounds by its own scale", "task.refit = ''"))
    return found


def _of_selection(plan: Plan, selector: Selector[Any]) -> list[tuple[str, str]]:
    """The same of what learns from single clients."""
    found, name = [], type(selector).__name__
    instead = "selector.name = 'random' needs none"
    if isinstance(selector, ProbingSelector):
        found.append((f"selector {name} asks single clients for losses", instead))
    if selector.reports:
        found.append((f"selector {name} needs {', '.join(sorted(selector.reports))} of single clients", instead))
    fixed, least = getattr(selector, "clients", 0), plan.secure_sum.least_cohort
    if isinstance(fixed, int) and 0 < fixed < least:
        few = f"selector.clients = {fixed} is below secure_sum.least_cohort = {least}"
        found.append((few, f"selector.clients = {least} or more"))
    if plan.guided and plan.guided.reports:
        who, needed = type(plan.sampler).__name__, ", ".join(sorted(plan.guided.reports))
        found.append((f"sampler {who} needs {needed} of single clients", "sampler.name = 'uniform' needs none"))
    return found


def _of_the_server(
    aggregation: Aggregation, safeguards: Safeguards, clock: Clock, evaluation: Evaluation
) -> list[tuple[str, str]]:
    """The same of what the server makes of updates and scores."""
    found = []
    if not isinstance(aggregation, discovery.find("aggregation", "mean")):
        found.append((f"aggregation {type(aggregation).__name__} compares them", "aggregation.name = 'mean'"))
    if safeguards.clip:
        found.append((f"safeguards.clip = {safeguards.clip:g} looks at each", "0, and training.clip at the clients"))
    if clock.late != "wait":
        found.append((f"clock.late = {clock.late!r} takes them one by one", "clock.late = 'wait'"))
    if evaluation.at != "clients":
        looks = f"evaluation.at = {evaluation.at!r} has the experimenter look at clients"
        found.append((looks, "evaluation.at = 'clients'"))
    if evaluation.local_steps:
        found.append(("evaluation.local_steps tells whose steps have failed", "evaluation.local_steps = false"))
    return found


def _check_codes(plan: Plan) -> None:
    """Raise `InputError` where the codec's codes do not add up."""
    uplink = plan.uplink
    try:
        coding = uplink.sum_coding(plan.upload_layout) if isinstance(uplink, SummableCodec) else None
    except InputError as error:
        raise InputError(f"secure_sum.name = {plan.secure_sum.name!r}: {error}.") from error
    if coding is None:
        raise InputError(
            f"secure_sum.name = {plan.secure_sum.name!r} adds codes up, and codec {type(uplink).__name__} has a scale "
            "for each client: codec.name = 'quantized' and codec.scale = 'agreed', without feedback."
        )


def _sharing_methods() -> str:
    """Names of those that fit."""
    every = {name: discovery.find("sharing", name) for name in discovery.names("sharing")}
    fit = [name for name, cls in every.items() if cls.merges_means and not issubclass(cls, SilentSharing)]
    return "sharing.name = " + ", ".join(map(repr, fit))
