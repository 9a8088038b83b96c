"""Which methods go with noise that a trusted server adds: those that tell clients nothing but models with noise."""

from dataclasses import replace
from typing import Any, Final

from fedgraft.contracts import Aggregation, PoissonSelector, Selector
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.clock.simulated_clock import Clock
from fedgraft.engine.server.loop.stopping import Stopping
from fedgraft.engine.server.rounds.safeguards import Safeguards
from fedgraft.experiment.recipes import discovery, private, secure_sums
from fedgraft.experiment.recipes.findings import Finding
from fedgraft.experiment.recipes.sections import Settings

_IN_TURN: Final = ("random", "round_robin")
"""Selectors of so many clients whom data do not choose."""
_FRAME: Final = "privacy.name = 'central' has the server add noise, but {why}: {instead}"


def found(
    plan: Plan,
    selector: Selector[Any],
    aggregation: Aggregation,
    settings: Settings,
    stopping: Stopping,
) -> list[Finding]:
    """Return what would tell clients more than models with noise, where the server adds it."""
    if not plan.privacy.central:
        return []
    each = [
        *_of_sums(plan),
        *secure_sums.of_clients(plan),
        *_of_selection(plan, selector, settings.safeguards),
        *_of_the_server(aggregation, settings.safeguards, settings.clock),
        *private.of_stopping(stopping),
        *private.of_messages(plan),
    ]
    return [replace(one, frame=_FRAME) for one in each]


def _of_sums(plan: Plan) -> list[Finding]:
    """What hides from the server what it is to clip."""
    found = list[Finding]()
    if plan.secure_sum.active:
        why = f"secure_sum.name = {plan.secure_sum.name!r} hides single updates from it"
        found.append(Finding(why, "secure_sum.name = '', or privacy.name = 'distributed'"))
    if plan.summed:
        why = "statistics of clients are added up, and all are told of the sum"
        found.append(Finding(why, f"no {plan.summed.summed_by}, or privacy.name = 'distributed'"))
    return found


def _of_selection(plan: Plan, selector: Selector[Any], safeguards: Safeguards) -> list[Finding]:
    """What has data say who trains, or on what."""
    found, name = list[Finding](), type(selector).__name__
    count = getattr(selector, "clients", 0)
    fixed = {"clients": count} if isinstance(count, int) and count > 0 else {}
    drawn = {"selector.name": "poisson", **{f"selector.{key}": value for key, value in fixed.items()}}
    in_turn = tuple(discovery.find("selectors", each) for each in _IN_TURN)
    everybody = discovery.find("selectors", "all")
    if not (isinstance(selector, PoissonSelector | everybody) or (isinstance(selector, in_turn) and count)):
        instead = "selector.name = 'poisson', whose cohorts make the claim smaller; 'all'; 'random' with clients"
        found.append(Finding(f"with selector {name} cohorts differ, or depend on data", instead, drawn))
    if safeguards.most_chosen:
        why = f"safeguards.most_chosen = {safeguards.most_chosen:g} has who was drawn often rest"
        found.append(Finding(why, "safeguards.most_chosen = 0", {"safeguards.most_chosen": 0.0}))
    if plan.guided:
        why = f"sampler {type(plan.sampler).__name__} tells clients what it learnt of others"
        found.append(Finding(why, "sampler.name = 'uniform' or 'all'", {"sampler.name": "all"}))
    return found


def _of_the_server(aggregation: Aggregation, safeguards: Safeguards, clock: Clock) -> list[Finding]:
    """What the server would make of updates beside a noisy mean."""
    found = secure_sums.of_aggregation(aggregation)
    if safeguards.clip:
        why = f"safeguards.clip = {safeguards.clip:g} cuts updates as well"
        found.append(Finding(why, "0, and privacy.clip", {"safeguards.clip": 0.0}))
    if clock.late != "wait":
        why = f"clock.late = {clock.late!r} has a client in the sum of a round for which it was not drawn, or in none"
        found.append(Finding(why, "clock.late = 'wait'", {"clock.late": "wait"}))
    return found
