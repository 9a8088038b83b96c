"""All attacks on a run, by name."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fedgraft.engine.plan import Plan
from fedgraft.errors import InputError, require, unknown
from fedgraft.experiment.attacking.canary_audit import canaries
from fedgraft.experiment.attacking.guesses import Floats, area, audited_task, losses_of
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


def membership(run: FinishedRun) -> dict[str, Any]:
    """Return how well the kept model's losses tell training examples from test examples.

    Source: Yeom et al., "Privacy Risk in Machine Learning", CSF 2018: who was in training has the smaller loss.

    Returns:
        {"members", "others": how many; "auc": probability that a member has a smaller loss than another, 0.5 = nothing
        is told; "advantage": most difference of the rates of right and wrong guesses}.
    """
    task = audited_task(run.plan, "membership")
    inside: list[Floats] = []
    outside: list[Floats] = []
    for number, shard in enumerate(run.shards):
        module, shared = run.answering_model(number), run.memory(number).get("shared", {})
        for split, found in (("train", inside), ("test", outside)):
            told = task.labelled(shard, split)
            if len(told.rows):
                found.append(losses_of(run.plan, module, shard, shared, told.rows, told.label))
    members, others = (np.concatenate([np.zeros(0), *found]) for found in (inside, outside))
    ends = np.concatenate([members, others])
    rates = [(members <= end).mean() - (others <= end).mean() for end in np.unique(ends)] if len(ends) else [0.0]
    return {
        "members": len(members),
        "others": len(others),
        "auc": area(-members, -others),
        "advantage": float(max(0.0, *rates)),
    }
