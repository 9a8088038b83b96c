"""Whole runs of every task that shifts answers to the client's own classes after training."""

import numpy as np
import pytest

from fedgraft.contracts.abilities.predicting import PredictingTask
from fedgraft.contracts.abilities.smoothing import SmoothingTask
from fedgraft.experiment.job import load
from fedgraft.experiment.predicting.site_run import open_run
from fedgraft.experiment.running.runner import execute
from helpers.killed_runs import measured
from helpers.node_runs import SMALL

PRIOR = {"answers.class_prior": True, "baselines": [], "runtime.workers": 0, "rounds": 2}
SKEWED = {**SMALL, **PRIOR, "data.partition": "dirichlet", "data.alpha": 0.3, "data.nodes": 200}
TYPED = {**PRIOR, "data.name": "typed_blocks", "data.clients": 3, "data.papers": 60, "answers.smoothing": 1}
GRAPHS = {**PRIOR, "data.name": "molecules", "data.clients": 3, "data.graphs": 40, "model.hidden": 8}
RUNS = {
    "node": ("graft_node", SKEWED),
    "node, nothing smoothed": ("fedlocal", SKEWED),
    "typed_node": ("rafhgl", TYPED),
    "graph": ("graft_graph", GRAPHS),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_way_is_told_and_predictions_are_those_that_were_scored(whole_run, name):
    recipe, changes = RUNS[name]
    whole = whole_run(load(recipe, changes))
    summary = whole.summary
    assert summary["smoothing"]["failed"] == {}
    assert summary["bytes"]["smoothing"] > 0
    chosen = summary["smoothing"]["choice"]
    assert bool(summary["smoothing"]["way"]) == (chosen > 0)
    run = open_run(whole.folder)
    right = []
    for client, shard in enumerate(run.shards):
        answers = run.plan.task.ability(PredictingTask)
        told = answers.classified(run.client_model(client), shard, run.prepared(client), run.memory(client))
        right += (told.answer == told.label).tolist()
    assert np.mean(right) == pytest.approx(summary["test_at_best_validation"])


@pytest.mark.parametrize("name", ["typed_node", "graph"])
def test_two_workers_give_the_same(whole_run, name):
    recipe, changes = RUNS[name]
    assert (
        measured(execute(load(recipe, {**changes, "runtime.workers": 2}))) == whole_run(load(recipe, changes)).summary
    )


def test_graphs_that_are_asked_for_have_the_prior_of_the_client(whole_run):
    """The same graphs twice, once as the client's own and once as new ones: the answers are the same."""
    run = open_run(whole_run(load(*RUNS["graph"])).folder)
    task, shard, memory = run.plan.task.ability(PredictingTask), run.shards[0], run.memory(0)
    kept = {**memory["smoothing"], "choice": run.plan.task.ability(SmoothingTask).choices - 1}
    new = task.predict(run.client_model(0), shard, {**memory, "smoothing": kept}, shard)
    plain = task.predict(run.client_model(0), shard, {}, shard)
    counts = np.bincount(shard.label[shard.rows("train")], minlength=len(shard.classes))
    assert counts.min() < counts.max()
    assert not np.allclose(new["probability"], plain["probability"])
    test = shard.rows("test")
    classified = task.classified(run.client_model(0), shard, run.prepared(0), {**memory, "smoothing": kept})
    assert np.allclose(new["probability"][test], classified.shares.max(1), atol=1e-5)
