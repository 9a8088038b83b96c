"""Canaries in statistics that are added up: which units were in the sum, guessed from what all get back."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import randomness
from fedgraft.contracts.abilities.tasks import SummedTask
from fedgraft.engine.client.own_secrets import noise_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.privacy.private_sums import flat
from fedgraft.experiment.attacking.evidence import Evidence
from fedgraft.experiment.attacking.guesses import Floats, check_enough
from fedgraft.experiment.storage.finished_run import FinishedRun

_TRIES = 4
"""Units that are looked at for each canary: their parts may not touch each other."""


def summed_canaries(run: FinishedRun, count: int) -> tuple[NDArray[np.bool_], Floats]:
    """Return whether each canary was in the sum, bool [n], and a score, float64 [n], large for who seems to have been.

    A canary is a unit of some client, such as a rating. A coin decides whether it is left out as statistics are added
    up anew. The attacker knows all data: whatever the sum lacks along a unit's part speaks against it.
    """
    plan, shards = run.plan, list(run.shards)
    task = plan.summed
    assert task is not None, "whoever asks has looked"
    g = randomness.generator(run.experiment.seed, "canaries")
    layout = task.summed_layout
    whole = [flat(task.summed(shard, plan.privacy.unit, plan.privacy.clip), layout) for shard in shards]
    found = _chosen(plan, task, shards, whole, count, g)
    check_enough(len(found))
    inside = g.random(len(found)) < 0.5
    for client, shard in enumerate(shards):
        gone = [rows for (owner, rows, _), coin in zip(found, inside, strict=True) if owner == client and not coin]
        if gone:
            shards[client] = task.left_out(shard, np.concatenate(gone))
    evidence = Evidence(len(found))
    evidence.add(np.array([part for _, _, part in found]), np.sum(whole, axis=0) - _released(plan, task, shards))
    return inside, evidence.weighed().scores


def _chosen(
    plan: Plan, task: SummedTask[Any], shards: list[Any], whole: list[Floats], count: int, g: np.random.Generator
) -> list[tuple[int, NDArray[np.int64], Floats]]:
    """Units as (client, rows, part of the sum), drawn such that no two change one number; at most half of all."""
    units = [(client, rows) for client, shard in enumerate(shards) for rows in task.units_of(shard, plan.privacy.unit)]
    found: list[tuple[int, NDArray[np.int64], Floats]] = []
    touched = np.zeros(len(whole[0]), bool)
    most = min(count, len(units) // 2)
    for at in g.permutation(len(units))[: _TRIES * count].tolist():
        if len(found) == most:
            break
        client, rows = units[at]
        rest = task.summed(task.left_out(shards[client], rows), plan.privacy.unit, plan.privacy.clip)
        part = whole[client] - flat(rest, task.summed_layout)
        if part.any() and not touched[part != 0].any():
            touched |= part != 0
            found.append((client, rows, part))
    return found


def _released(plan: Plan, task: SummedTask[Any], shards: list[Any]) -> Floats:
    """What all get back of the sum, with noise that is drawn anew."""
    coding = plan.summed_coding
    assert coding is not None
    none, total = np.zeros(0, np.float32), np.zeros(coding.codes, np.int64)
    root = randomness.generator(plan.seed, "canaries of sums").bytes(32)
    for client, shard in enumerate(shards):
        g = randomness.lazy(plan.seed, "canaries", 0, client)
        arrays = task.summed(shard, plan.privacy.unit, plan.privacy.clip)
        total += coding.coded(arrays, none, g, 1, noise_of(plan, root, client, 0, ()))
    return flat(coding.mean(total, 1, none), task.summed_layout)
