"""Parameters that clients keep to themselves, from one run to the next: what of a memory is taken over, and by whom."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from fedgraft import wire
from fedgraft.engine.plan import Plan
from fedgraft.wire.layouts import Arrays, Tree

OWN: Final = ":clients"
"""Name under which they are stored beside shared parameters; no parameter has a colon."""
Own = Mapping[int, Mapping[str, Tree]]
"""{client: what of its memory it begins with}."""


def inherited(plan: Plan, memory: Mapping[str, Any]) -> dict[str, Tree]:
    """Return what a client of a run that has ended hands on: its best private parameters, and those of its sharing."""
    kept = memory["best"]["arrays"] if memory.get("best") else memory.get("private", {})
    private = {name: array for name, array in kept.items() if not plan.travels(name)}
    sharing = plan.owned.inherited(memory.get("sharing")) if plan.owned else None
    parts = {"private": private or None, "sharing": sharing}
    return {name: value for name, value in parts.items() if value is not None}


def fitting(plan: Plan, names: Sequence[str], own: Mapping[str, Mapping[str, Tree]]) -> Own:
    """Return what clients begin with of what another run's hand on, where it fits them.

    Where models differ by client, whoever asks knows that the shapes are those of the same kinds and classes.

    Args:
        plan: of the run that begins.
        names: of its clients.
        own: {name of a client: as `inherited` returns it}, of others too.
    """
    wanted = {name: array.shape for name, array in plan.build_model().initial.items() if not plan.travels(name)}
    by_client: dict[int, Mapping[str, Tree]] = {}
    for number, name in enumerate(names):
        private: Any = own.get(name, {}).get("private", {})
        had = {each: array.shape for each, array in private.items()}
        if own.get(name) and (wanted.keys() == had.keys() if plan.task.variants else wanted == had):
            by_client[number] = own[name]
    return by_client


def joined(shared: Arrays, own: Own) -> Arrays:
    """Return shared parameters and what clients begin with as the arrays of one file."""
    if not own:
        return shared
    packed = wire.pack({str(client): dict(memory) for client, memory in own.items()})
    return {**shared, OWN: np.frombuffer(packed, np.uint8)}


def parted(arrays: Arrays) -> tuple[Arrays, Own]:
    """Return what `joined` was given."""
    shared = {name: array for name, array in arrays.items() if name != OWN}
    own: Any = wire.unpack(arrays[OWN].tobytes()) if OWN in arrays else {}
    return shared, {int(client): memory for client, memory in own.items()}
