"""What the next round would tell the clients: enough for those who are scored to try their local steps in it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fedgraft.contracts import View, randomness
from fedgraft.engine.plan import COLLECTS, Plan
from fedgraft.engine.server.run_state import RunState
from fedgraft.wire.layouts import Arrays


def scored_model(plan: Plan, sharing: Any, averages: dict[str, Arrays], group: int) -> Arrays:
    """Return the shared parameters that a group of clients is scored with and keeps.

    `sharing` is the sharing method's state; `averages` are {group: running mean}, empty without one.
    """
    model = averages.get(str(group)) or plan.sharing.model(sharing, group)
    return {name: model[name] for name in plan.first}


def averaged(
    plan: Plan, sharing: Any, averages: dict[str, Arrays], groups: Iterable[int], decay: float, merges: int
) -> dict[str, Arrays]:
    """Return {group: exponential running mean of its models} after a merge, of all groups there are then.

    The first rounds average over all models so far, so that the drawn one is soon forgotten. `sharing` is the sharing
    method's state after the merge, `averages` are the means before it; `decay` is in (0, 1), and `merges` says how
    often the model was merged before.
    """
    decay, means = min(decay, merges / (merges + 1.0)), {}
    for group in groups:
        model = plan.sharing.model(sharing, group)
        before = averages.get(str(group), model)
        means[str(group)] = {
            name: (decay * before[name] + (1.0 - decay) * model[name]).astype(model[name].dtype) for name in plan.first
        }
    return means


Models: TypeAlias = Mapping[int, Arrays | None]
"""{client: the encoded model that it is sent}; None for one that has it. Equal models are one object."""
Reports: TypeAlias = Mapping[int, Mapping[str, float]]
"""{client: {name: scalar that it is sent}}."""


@dataclass(frozen=True)
class Ahead:
    """What a round to come would tell the clients: how much of the run is over, in [0, 1], and their scalars."""

    progress: float = 0.0
    reports: Reports = field(default_factory=dict)


def ahead(plan: Plan, state: RunState, view: View, progress: float, clients: Sequence[int]) -> Ahead:
    """Return what the round of `view` would tell some clients if all of them trained.

    Nothing is decided, and `state` stays as it is: every draw is made anew when that round comes.
    """
    guidance: Reports = {}
    if guided := plan.guided:
        guidance = guided.guide(state.sampler, view, clients, randomness.lazy(plan.seed, "tell", view.round))
    known: dict[str, float] = {}
    if silent := plan.silent:
        g = randomness.lazy(plan.seed, "collect", view.round)
        known = {COLLECTS: float(silent.collects(state.sharing, view.round, g))}
    return Ahead(progress, {client: {**guidance.get(client, {}), **known} for client in clients})


def kept_model(plan: Plan, state: RunState, group: int) -> Arrays:
    """Return what a group of clients is scored with, and all else that it would be sent if it trains from that."""
    scored = scored_model(plan, state.sharing, state.merging.averages, group)
    if not plan.local_steps:
        return scored
    return {**plan.sharing.model(state.sharing, group), **state.merging.sampler_shared, **scored}
