"""Runs on features that are averaged before training: they end alike, and answer what they were scored by."""

import numpy as np
import pandas as pd
import pytest

import fedgraft
from fedgraft.experiment import job as jobs
from fedgraft.interface import serve
from helpers.asgi import Client
from helpers.node_runs import SMALL
from helpers.resumed_runs import resumed_alike

INPUTS = {
    "mlp": {"model": {"name": "mlp", "hidden": 6}, "inputs.propagate": 2},
    "shared": {"model": {"name": "sage", "hidden": 6}, "inputs.propagate": 1, "exchange.features": True},
    "attention": {"model": {"name": "mlp", "hidden": 6}, "inputs.propagate": 2, "inputs.hop_pooling": "attention"},
}


def smoothed(**changes: object) -> jobs.Job:
    return jobs.load("graft_node", {**SMALL, **changes})


@pytest.mark.parametrize("name", INPUTS)
def test_a_killed_run_ends_alike(whole_run, tmp_path, name):
    resumed_alike(whole_run, smoothed(**INPUTS[name]), tmp_path / "there")


@pytest.mark.parametrize("name", INPUTS)
def test_answers_are_those_that_were_scored(tmp_path, name):
    changes = {**SMALL, "answers.smoothing": 0, **INPUTS[name]}
    run = fedgraft.run("graft_node", out=tmp_path / "run", overrides=changes, progress=False)
    shards = run._finished.shards
    test = [(shard.name, *each) for shard in shards for each in zip(shard.ids, shard.label, shard.split, strict=True)]
    table = pd.DataFrame(test, columns=["client", "node", "label", "split"]).query("split == 2")
    answers = run.predict(nodes=table[["client", "node"]])
    names = np.array(shards[0].classes)
    right = (answers["class"].to_numpy() == names[table["label"]]).mean()
    assert right == pytest.approx(run.summary["test"])
    asked = {"nodes": {"client": [shards[0].name] * 2, "node": [str(each) for each in shards[0].ids[:2]]}}
    served = Client(serve.app(tmp_path / "run")).post("/predict", json={"tables": asked}).json()["answers"]
    told = run.predict(nodes=pd.DataFrame(asked["nodes"]))
    assert [each["probability"] for each in served] == told["probability"].tolist()


def test_a_new_node_is_answered_from_its_own_neighbours(tmp_path):
    run = fedgraft.run("graft_node", out=tmp_path / "run", overrides={**SMALL, **INPUTS["mlp"]}, progress=False)
    shard = run._finished.shards[0]
    new = {"node": "new", **{str(k): value for k, value in enumerate(np.asarray(shard.features[0]).tolist())}}
    edges = pd.DataFrame({"source": ["new"] * 2, "target": [shard.ids[0], shard.ids[1]]})
    one = run.predict(nodes=pd.DataFrame([new]), edges=edges)
    other = run.predict(nodes=pd.DataFrame([{**new, "client": shard.name}]), edges=None)
    assert one["class"][0] in shard.classes
    assert one["probability"][0] != other["probability"][0]


def test_another_run_begins_with_its_model(tmp_path):
    changes = {**SMALL, **INPUTS["mlp"]}
    fedgraft.run("graft_node", out=tmp_path / "one", overrides=changes, progress=False)
    run = fedgraft.run("graft_node", out=tmp_path / "two", overrides=changes, progress=False, start=tmp_path / "one")
    assert run.summary["rounds"] == SMALL["rounds"]
    assert (tmp_path / "two" / "start.safetensors").exists()
