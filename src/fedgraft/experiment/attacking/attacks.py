"""All attacks on a run, by name."""

from collections.abc import Sequence
from typing import Any, Final

from fedgraft.errors import InputError, require, unknown
from fedgraft.experiment.attacking.canary_audit import canaries
from fedgraft.experiment.attacking.membership import membership
from fedgraft.experiment.attacking.updates import inversion, labels
from fedgraft.experiment.storage.finished_run import FinishedRun

KINDS: Final = ("labels", "inversion", "membership", "canaries")
"""What is tried: the first two on the updates of a first round, the others on the trained model."""


def attacked(run: FinishedRun, kinds: Sequence[str] = KINDS, count: int = 600) -> dict[str, dict[str, Any]]:
    """Return {kind of attack: what came of it}; `count` is the number of canaries.

    Raises `InputError` for a kind that is none, and for a run whose task has no classes.
    """
    require(len(kinds) > 0, "--kind", f"of {', '.join(KINDS)}", "none")
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind of attack", kind, KINDS)
    if run.plan.summed and not run.plan.connected:
        if tuple(kinds) not in (KINDS, ("canaries",)):
            raise InputError("no model of this run leaves a client, but statistics do: --kind must be canaries.")
        kinds = ("canaries",)
    found: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        if kind == "canaries":
            found[kind] = canaries(run, count)
        else:
            found[kind] = {"labels": labels, "inversion": inversion, "membership": membership}[kind](run)
    return found
