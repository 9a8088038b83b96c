"""How well losses tell who was in training."""

from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from fedgraft.contracts import Batch, Indices
from fedgraft.contracts.abilities.auditing import AuditedTask
from fedgraft.contracts.task import example_losses
from fedgraft.engine.plan import Plan
from fedgraft.errors import InputError

Floats = NDArray[np.float64]

LEAST: Final = 6
"""Canaries below which nothing is refuted, whatever is guessed."""


def audited_task(plan: Plan, kind: str) -> AuditedTask[Any]:
    """Return the plan's task. Raises `InputError` for one whose examples have no classes to change."""
    if (audited := plan.task.ability(AuditedTask)) is None:
        raise InputError(f"--kind {kind} is for tasks whose examples have one class each, such as node and graph.")
    return audited


def losses_of(plan: Plan, module: torch.nn.Module, shard: Any, shared: Any, rows: Indices, label: Indices) -> Floats:
    """Return a model's losses of some examples of a client, with these labels, float64 [rows], in their order."""
    task = audited_task(plan, "membership")
    others = np.setdiff1d(task.labelled(shard, "train").rows, rows)
    nothing = np.zeros(len(others), bool)
    probe = task.marked(shard, others, np.zeros(len(others), np.int64), nothing)
    probe = task.marked(probe, rows, label, np.ones(len(rows), bool))
    data = plan.task.prepare(probe, shared)
    with torch.no_grad():
        found = plan.task.loss(module.eval(), data, Batch(np.arange(len(rows))), None)
    losses = np.empty(len(rows))
    losses[np.argsort(rows, kind="stable")] = example_losses(found).numpy(force=True)
    return losses


def check_enough(canaries: int) -> None:
    """Raise `InputError` for so few canaries that nothing is refuted, whatever is guessed."""
    if canaries < LEAST:
        raise InputError(f"--kind canaries needs {LEAST} canaries; of this run {canaries} could be some.")


def area(positive: Floats, negative: Floats) -> float:
    """Return the probability that one of the first is above one of the second, ties counting half; 0.5 without any."""
    if not (len(positive) and len(negative)):
        return 0.5
    ranks = rankdata(np.concatenate([positive, negative]))[: len(positive)]
    return float((ranks.sum() - len(positive) * (len(positive) + 1) / 2) / (len(positive) * len(negative)))
