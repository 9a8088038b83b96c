"""Words of `contracts.capabilities` for arrays and scalars of messages."""

from collections.abc import Iterable
from typing import Final

from fedgraft.engine.plan import REPORTED, SCORES, Plan
from fedgraft.wire.layouts import Spec

_SCALARS: Final = {"examples": "sizes", **dict.fromkeys(REPORTED, "losses"), **dict.fromkeys(SCORES, "scores")}


def of_arrays(specs: Iterable[Spec]) -> set[str]:
    """Return the words of arrays. Raises `TypeError` for one whose method does not say what it tells."""
    words = {spec.name: spec.tells for spec in specs}
    if unsaid := [name for name, word in words.items() if not word]:
        raise TypeError(f"The Spec of array {unsaid[0]!r} must say what it tells of a client.")
    return set(words.values())


def of_scalars(plan: Plan, names: Iterable[str]) -> set[str]:
    """Return the words of scalars: those of every training, or those of a task's profile and of a sampler's scores."""
    return {"class_counts" if name in plan.task.profile else _SCALARS.get(name, "losses") for name in names}


def of_states(plan: Plan) -> set[str]:
    """Return the word of hidden states, where clients exchange any."""
    return {"states"} if plan.halo_widths else set()


def of_upload(plan: Plan) -> set[str]:
    """Return the words of an update: of the model's parameters as its task says, of others as who adds them."""
    learnt = {*plan.model_layout.names, *plan.first_sampler}
    specs = list(plan.upload_layout)
    words = of_arrays(spec for spec in specs if spec.name not in learnt)
    return words | (set(plan.task.update_tells) if learnt & {spec.name for spec in specs} else set())
