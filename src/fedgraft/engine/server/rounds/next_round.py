"""What the next round would tell the clients: enough for those who are scored to try their local steps in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fedgraft.contracts import View, randomness
from fedgraft.engine.plan import COLLECTS, Plan
from fedgraft.engine.server.rounds.averaging import scored_model
from fedgraft.engine.server.run_state import RunState
from fedgraft.wire.layouts import Arrays

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
    scored = scored_model(plan, state.sharing, state.averages, group)
    if not plan.local_steps:
        return scored
    return {**plan.sharing.model(state.sharing, group), **state.sampler_shared, **scored}
