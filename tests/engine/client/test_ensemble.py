"""What a client answers with."""

import numpy as np
import torch

from fedgraft.engine.client.ensemble import ensemble_of
from fedgraft.experiment import job as jobs
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.experiment.running.runner import execute
from fedgraft.methods.models.gin import GIN
from fedgraft.methods.tasks.graph import Graph
from fedgraft.nn.flat_model import FlatModel

TINY = {
    "data.clients": 2,
    "data.graphs": 60,
    "rounds": 6,
    "runtime.workers": 0,
    "baselines": [],
    "sharing.probability": 0.5,
    "sharing.answers": "both",
}


def test_one_alone_is_the_model_itself():
    flat = FlatModel(Graph(GIN(hidden=4)).model(torch.Generator().manual_seed(0)).train())
    module = ensemble_of(Graph(GIN(hidden=4)), flat, [])
    assert module is flat.module
    assert not module.training


def test_others_differ_where_they_say_and_the_own_model_stays():
    task = Graph(GIN(hidden=4))
    flat = FlatModel(task.model(torch.Generator().manual_seed(0)))
    before = flat.read()
    name = "head.outer.bias"
    module = ensemble_of(task, flat, [{name: before[name] + 1}])
    first, second = (dict(model.named_parameters()) for model in module.models)
    assert all(torch.equal(first[key], second[key]) == (key != name) for key in first)
    assert all(np.array_equal(array, flat.read()[key]) for key, array in before.items())


def test_a_finished_run_answers_with_what_it_was_scored_with(tmp_path):
    """Both models of each client's best round; the summary's accuracy is theirs."""
    summary = execute(jobs.load("cefgl", TINY), tmp_path / "run")
    run = open_run(tmp_path / "run")
    answerers = set()
    for client, name in enumerate(run.names):
        module = run.client_model(client)
        answerers.add(len(getattr(module, "models", [module])))  # before its first round a client has one
        with torch.no_grad():
            sums = run.plan.task.evaluate(module, run.prepared(client))
        assert run.plan.task.score(sums["test"]) == summary["test_per_client"][name]
    assert 2 in answerers
