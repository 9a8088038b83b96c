"""Runs in which clients have masks, or networks that refine answers: wherever they live, scored and asked alike."""

import numpy as np
import pandas as pd
import pytest

import fedgraft
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute
from fedgraft.methods.data.blocks import Blocks

CHANGES = {
    "data.name": "blocks",
    "data.nodes": 90,
    "data.classes": 3,
    "data.clients": 4,
    "data.features": 8,
    "model": {"name": "gcn", "hidden": [6, 5]},
    "selector": "all",
    "sampler": "all",
    "exchange.states": False,
    "runtime.workers": 0,
    "rounds": 4,
    "baselines": [],
}
OPTIONS = {"fedpub": {}, "adafgl": {"sharing.rounds": 2}}
methods = pytest.mark.parametrize("name", OPTIONS)


def experiment(name, **changes):
    return load("fedall", {**CHANGES, "sharing.name": name, **OPTIONS[name], **changes})


@pytest.mark.slow
@methods
def test_workers_make_no_difference(name):
    codec = [{"name": "low_rank", "rank": 2}, {"name": "quantized", "bits": 4}]
    here, there = (execute(experiment(name, codec=codec, **{"runtime.workers": workers})) for workers in (0, 2))
    for what in ("digest", "bytes", "test_per_client"):
        assert here[what] == there[what]


@methods
def test_clients_score_what_the_server_would(name):
    here, there = (execute(experiment(name, **{"evaluation.at": at})) for at in ("server", "clients"))
    for what in ("validation", "test", "test_per_client"):
        assert here[what] == there[what]


@methods
def test_a_run_answers_with_what_its_clients_have(name, tmp_path):
    run = fedgraft.run(experiment(name), out=tmp_path / "run", progress=False)
    nodes = Blocks(nodes=90, classes=3, clients=4, features=8)
    shards = nodes.load(1)
    ids = np.concatenate([shard.ids[shard.rows("test")] for shard in shards])
    labels = np.concatenate([shard.label[shard.rows("test")] for shard in shards])
    answered = run.predict(nodes=pd.DataFrame({"node": ids}))
    right = np.mean(
        [shards[0].classes[label] == answer for label, answer in zip(labels, answered["class"], strict=True)]
    )
    assert right == pytest.approx(run.summary["test"])
