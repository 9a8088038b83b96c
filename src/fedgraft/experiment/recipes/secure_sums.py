"""Which methods go with secure sums: those that need no more of clients than the sum of their updates."""

from dataclasses import replace
from typing import Any, Final

from fedgraft.contracts import Aggregation, ProbingSelector, Selector, SilentSharing
from fedgraft.contracts.abilities.tasks import SummedTask
from fedgraft.engine.plan import HOME, Plan
from fedgraft.engine.server.clock import Clock
from fedgraft.engine.server.loop.stopping import Evaluation
from fedgraft.engine.server.rounds.safeguards import Safeguards
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.options import Finding
from fedgraft.experiment.recipes.recipe import parse_override
from fedgraft.experiment.recipes.sections import Settings

_AVERAGED: Final = {"sharing.name": "fedavg"}
"""The method whose clients send a mean's parts, and nothing else."""
_BITS: Final = 8
"""Bits of a number in place of those of which no sum is made; ours."""
_MOST_BITS: Final = 16
"""Most bits of which one is made."""


def found(plan: Plan, selector: Selector[Any], aggregation: Aggregation, settings: Settings) -> list[Finding]:
    """Return what needs to see each update by itself, where they are to be added up.

    `settings` are {name of a section without a name: what it sets}.
    """
    if not plan.secure_sum.active:
        if plan.summed:
            return [Finding(f"{plan.summed.summed_by} adds statistics up", "secure_sum.name = 'secagg' (or 'clear')")]
        return []
    each = [
        *of_clients(plan),
        *_of_selection(plan, selector),
        *_of_the_server(aggregation, settings.safeguards, settings.clock, settings.evaluation),
    ]
    frame = f"secure_sum.name = {plan.secure_sum.name!r} adds updates up, but {{why}}: {{instead}}"
    framed = [replace(one, frame=frame) for one in each]
    if plan.privacy.active or is_local(plan):  # noise has codes of its own, and who trains alone sends none
        return framed
    return [*framed, *_of_codes(plan)]


def is_local(plan: Plan) -> bool:
    """Return whether nothing that clients train is sent."""
    return isinstance(plan.sharing, discovery.find("sharing", "local"))


def of_clients(plan: Plan) -> list[Finding]:
    """Return what of clients' rounds is no mean of updates."""
    found, sharing = list[Finding](), type(plan.sharing).__name__
    if plan.summed and is_local(plan):
        return []
    if is_local(plan) and (summing := plan.task.ability(SummedTask)):
        summed_by = summing.summed_by
        instead = f"{summed_by}, or take {_sharing_methods()}"
        found.append(Finding(f"sharing {sharing} sends none", instead, dict([parse_override(summed_by)])))
    elif isinstance(plan.sharing, SilentSharing):
        why = f"with sharing {sharing} clients have rounds of their own"
        changes = None if is_local(plan) else _AVERAGED  # who chose that nothing is sent says himself what is to be
        found.append(Finding(why, f"take {_sharing_methods()}", changes))
    elif not plan.sharing.merges_means:
        why = f"sharing {sharing} merges more than a mean of them"
        found.append(Finding(why, f"take {_sharing_methods()}", _AVERAGED))
    if plan.first_sampler:
        why = f"with sampler {type(plan.sampler).__name__} clients share arrays beside the model"
        own = {"sampler.shared": False} if hasattr(plan.sampler, "shared") else None
        found.append(Finding(why, "let each keep its own", own))
    if plan.sums_layout.specs:
        why = "a layer is fitted to products that each client rounds by its own scale"
        found.append(Finding(why, "answers.refit = ''", {"answers.refit": ""}))
    return found


def _of_selection(plan: Plan, selector: Selector[Any]) -> list[Finding]:
    """The same of what learns from single clients."""
    found, name = list[Finding](), type(selector).__name__
    fixed, least = getattr(selector, "clients", 0), plan.secure_sum.least_cohort
    count = fixed if isinstance(fixed, int) else 0
    instead = "selector.name = 'random' needs none"
    drawn = {"selector.name": "random", **({"selector.clients": max(count, least)} if count > 0 else {})}
    if isinstance(selector, ProbingSelector):
        found.append(Finding(f"selector {name} asks single clients for losses", instead, drawn))
    if selector.reports:
        needed = ", ".join(sorted(selector.reports))
        found.append(Finding(f"selector {name} needs {needed} of single clients", instead, drawn))
    if 0 < count < least:
        few = f"selector.clients = {fixed} is below secure_sum.least_cohort = {least}"
        found.append(Finding(few, f"selector.clients = {least} or more", {"selector.clients": least}))
    if plan.guided and plan.guided.reports:
        why = f"sampler {type(plan.sampler).__name__} needs {', '.join(sorted(plan.guided.reports))} of single clients"
        found.append(Finding(why, "sampler.name = 'uniform' needs none", {"sampler.name": "uniform"}))
    return found


def _of_the_server(
    aggregation: Aggregation, safeguards: Safeguards, clock: Clock, evaluation: Evaluation
) -> list[Finding]:
    """The same of what the server makes of updates and scores."""
    found = of_aggregation(aggregation)
    if safeguards.clip:
        why, instead = f"safeguards.clip = {safeguards.clip:g} looks at each", "0, and training.clip at the clients"
        found.append(Finding(why, instead, {"safeguards.clip": 0.0}))
    if clock.late != "wait":
        why = f"clock.late = {clock.late!r} takes them one by one"
        found.append(Finding(why, "clock.late = 'wait'", {"clock.late": "wait"}))
    if evaluation.at not in ("clients", HOME):
        why = f"evaluation.at = {evaluation.at!r} has the experimenter look at clients"
        found.append(Finding(why, "evaluation.at = 'clients'", {"evaluation.at": "clients"}))
    if evaluation.local_steps:
        why, key = "evaluation.local_steps tells whose steps have failed", "evaluation.local_steps"
        found.append(Finding(why, f"{key} = false", {key: False}))
    return found


def of_aggregation(aggregation: Aggregation) -> list[Finding]:
    """Return whether what counts of updates is their mean."""
    if isinstance(aggregation, discovery.find("aggregation", "mean")):
        return []
    why = f"aggregation {type(aggregation).__name__} compares them"
    return [Finding(why, "aggregation.name = 'mean'", {"aggregation.name": "mean"})]


def _of_codes(plan: Plan) -> list[Finding]:
    """What of the codec's codes does not add up."""
    uplink = plan.uplink
    try:
        coding = uplink.sum_coding(plan.upload_layout)
    except InputError as error:
        return [Finding(f"secure_sum.name = {plan.secure_sum.name!r}", str(error).removesuffix("."))]
    if coding is not None:
        return []
    why = f"secure_sum.name = {plan.secure_sum.name!r} adds codes up, and codec {type(uplink).__name__} has a scale "
    agreed: dict[str, Any] = {"codec.name": "quantized", "codec.scale": "agreed"}
    wished: dict[str, Any] = {"codec.rounding": "stochastic"}
    if isinstance(uplink, quantized := discovery.find("codecs", "quantized")):
        agreed |= {"codec.bits": _BITS} if uplink.bits > _MOST_BITS else {}
        agreed |= {} if uplink.bucket else {"codec.bucket": quantized().bucket}
    else:
        wished["codec.bits"] = _BITS
    if isinstance(uplink, discovery.find("codecs", "feedback")):
        agreed["codec.feedback"] = False
    instead = "codec.name = 'quantized' and codec.scale = 'agreed', without feedback"
    return [Finding(f"{why}for each client", instead, agreed, wished)]


def _sharing_methods() -> str:
    """Names of those that fit."""
    every = {name: discovery.find("sharing", name) for name in discovery.names("sharing")}
    fit = [name for name, cls in every.items() if cls.merges_means and not issubclass(cls, SilentSharing)]
    return "sharing.name = " + ", ".join(map(repr, fit))
