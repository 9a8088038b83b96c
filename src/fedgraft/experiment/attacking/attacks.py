"""All attacks on a run, by name."""

from collections.abc import Sequence
from typing import Any, Final

from fedgraft.engine.plan import Plan
from fedgraft.errors import InputError, require, unknown
from fedgraft.experiment.attacking.canary_audit import canaries
from fedgraft.experiment.attacking.membership import membership
from fedgraft.experiment.attacking.updates import inversion, labels
from fedgraft.experiment.storage.finished_run import FinishedRun

KINDS: Final = ("labels", "inversion", "membership", "canaries")
"""What is tried: the first two on the updates of a first round, the others on the trained model."""


def attacked(run: FinishedRun, kinds: Sequence[str] = KINDS, count: int = 600) -> dict[str, dict[str, Any]]:
    """Return {kind of attack: what came of it}; `count` is the number of canaries.

    Raises `InputError` for a kind that is none, for one that the run has nothing for, and for a run whose task has no
    classes.
    """
    require(len(kinds) > 0, "--kind", f"of {', '.join(KINDS)}", "none")
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind of attack", kind, KINDS)
    found: dict[str, dict[str, Any]] = {}
    for kind in _fitting(run.plan, tuple(kinds)):
        if kind == "canaries":
            found[kind] = canaries(run, count)
        else:
            found[kind] = {"labels": labels, "inversion": inversion, "membership": membership}[kind](run)
    return found


def _fitting(plan: Plan, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return those that a plan has something for; all that were asked for must be among them, unless all were."""
    fitting: tuple[str, ...] = KINDS
    why = ""
    if plan.summed and not plan.connected:
        fitting, why = ("canaries",), "no model of this run leaves a client, but statistics do"
    elif plan.privacy.central:
        fitting, why = ("membership", "canaries"), "the server of this run is trusted, and may see single updates"
    if kinds == KINDS:
        return fitting
    if set(kinds) - set(fitting):
        raise InputError(f"{why}: --kind must be {' or '.join(fitting)}.")
    return kinds
