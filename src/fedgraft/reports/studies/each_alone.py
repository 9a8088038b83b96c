"""A cell of a study in which each client is a federation of its own: what is left without the others.

`sharing.name = "local"` trains a client's network alone. That is no control of a method whose clients have more than
one network, or train in another way, as those of CEFGL: here the method itself runs, with one client at a time.
"""

import time
from collections.abc import Sequence
from typing import Any

from fedgraft.errors import InputError
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.running import baselines
from fedgraft.reports.studies.scoring_cost import SCORING


def each_alone(experiment: Experiment, shards: Sequence[Any]) -> dict[str, Any]:
    """Return what a study keeps of an experiment that every client ran by itself, scores pooled over clients.

    It is the yardstick `local_only` of the experiment: each client in its own best round by validation, nothing sent,
    no curve. Raises `InputError` where a sample of clients is scored.
    """
    started, task = time.perf_counter(), experiment.plan.task
    scores = baselines.scores(experiment, shards, [baselines.LOCAL_ONLY])
    if not scores:
        raise InputError("Each client alone cannot be scored where evaluation.sample leaves clients out.")
    scored = scores[baselines.LOCAL_ONLY]
    return {
        "metric": task.metric,
        "better": task.better,
        "rounds": experiment.stopping.rounds,
        "validation": scored["validation"],
        "test": scored["test"],
        "test_at_best_validation": scored["test"],
        "measures": {"test": scored},
        "bytes": {"total": 0},
        SCORING: 0,
        "flops": None,
        "curve": [],
        "raw_data_bytes": baselines.raw_data(shards),
        "seconds": round(time.perf_counter() - started, 1),
    }
