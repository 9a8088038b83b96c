"""All that a summary tells of a run's model is of the model that the run keeps, not of that of the last round."""

import pytest

from fedgraft.engine.server.run_state import RunState
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute, resume
from helpers.killed_runs import Killed

BLOCKS = {"data.name": "blocks", "data.nodes": 150, "data.clients": 3, "model.hidden": 8, "selector.clients": 2}
GRAPHS = {"data.name": "molecules", "data.clients": 3, "data.graphs": 40, "model.hidden": 8}
QUICK = {"rounds": 9, "runtime.workers": 0, "baselines": []}
UNSTEADY = {"training.learning_rate": 0.03, "training.schedule": "constant"}
RUNS = {
    "shared": ("fedais", {**BLOCKS, **UNSTEADY, "exchange.neighbours": 3}),
    "averaged": ("fedais", {**BLOCKS, **UNSTEADY, "exchange.neighbours": 3, "evaluation.averaging": 0.5}),
    "scored at clients": ("fedais", {**BLOCKS, **UNSTEADY, "exchange.neighbours": 3, "evaluation.at": "clients"}),
    "personal": ("cefgl", {**GRAPHS, **UNSTEADY}),
    "smoothed": ("graft_node", {**BLOCKS, **UNSTEADY, "model.hidden": [8], "answers.smoothing": 1}),
}


def experiment(name):
    recipe, changes = RUNS[name]
    return load(recipe, {**changes, **QUICK})


def weighted(summary, shards):
    """The clients' accuracies, weighted by their test examples."""
    sizes = {shard.name: len(shard.rows("test")) for shard in shards}
    told = {name: score for name, score in summary["test_per_client"].items() if sizes[name]}
    return sum(score * sizes[name] for name, score in told.items()) / sum(sizes.values())


@pytest.mark.parametrize("name", RUNS)
def test_the_weighted_scores_of_clients_are_the_score_of_the_kept_model(name):
    told = experiment(name)
    summary = execute(told)
    assert weighted(summary, told.shards()) == pytest.approx(summary["test_at_best_validation"])
    known = summary["test_per_client"].values()
    assert summary["test_plain_mean"] == pytest.approx(sum(known) / len(known))


def test_it_is_not_that_of_the_last_round():
    summary = execute(experiment("shared"))
    assert summary["test"] != summary["test_at_best_validation"], "or the law above tells nothing"


@pytest.mark.parametrize("name", [pytest.param("shared", marks=pytest.mark.slow), "personal"])
def test_a_run_that_was_killed_after_its_best_round_knows_its_clients_scores(name, tmp_path):
    told = experiment(name).with_changes({"checkpoint.every_seconds": 0.0})
    whole = execute(told, tmp_path / "whole")
    with pytest.raises(Killed):
        execute(told, tmp_path / "run", Dying(8))
    resumed = resume(tmp_path / "run")
    assert resumed["test_per_client"] == whole["test_per_client"]


class Dying:
    """Ends a run after a round as a kill would."""

    def __init__(self, round):
        self.round = round

    def after_round(self, state, row):
        if state.round == self.round:
            raise Killed


def test_the_scores_that_are_kept():
    best = {"round": 1, "scores": {"0": {"test": 0.7}}}
    state = RunState([{}], None, scores={"0": {"test": 0.5}}, best=best, curve=[{"round": 2}])
    assert state.kept_scores(personal=False) == {"0": {"test": 0.7}}
    assert state.kept_scores(personal=True) == {"0": {"test": 0.5}}, "its clients are scored with what they keep"
    state.curve.append({"round": 3, "lacking": 1})
    assert state.kept_scores(personal=True) == {"0": {"test": 0.7}}
