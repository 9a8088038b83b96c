"""The models that are scored and kept: the global models themselves, or a running mean of them."""

from collections.abc import Iterable
from typing import Any

from fedgraft.engine.plan import Plan
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
