"""Membership: whether the model's losses tell who was in training."""

from typing import Any

import numpy as np

from fedgraft.experiment.attacking.guesses import Floats, area, audited_task, losses_of
from fedgraft.experiment.storage.finished_run import FinishedRun


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
