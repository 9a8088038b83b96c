"""Scores of clients' models after local steps: what they are by hand, and that training does not feel them."""

import numpy as np
import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute, resume
from helpers.killed_runs import measured
from helpers.resumed_runs import KILL
from helpers.task_runs import RUNS
from helpers.toy_runs import run, toy

AFTER = ("validation_after_steps", "test_after_steps")
LAST = {"keep": "last", "local_steps": True}
BLOCKS = {
    **{"data.name": "blocks", "data.nodes": 60, "data.clients": 3, "data.features": 8, "rounds": 2, "baselines": []},
    "training.epochs": 1,
}
MOLECULES = {"data.name": "molecules", "data.clients": 4, "data.graphs": 20, "model.hidden": 8, "baselines": []}
SHOPS = {
    "data.users": 60,
    "data.items": 80,
    "data.categories": 4,
    "data.links": 200,
    "data.count": 600,
    "task.folds": 2,
}
TASKS = {
    **{name: (RUNS[name][0], {**RUNS[name][1], "rounds": 2}) for name in ("rating", "graph", "link", "ranking")},
    "node": (RUNS["node"][0], {**RUNS["node"][1], "rounds": 2, "training.epochs": 1}),
    "smoothed answers": ("graft_node", {**BLOCKS, "model.hidden": [8], "answers.smoothing": 2}),
    "closed form": ("graft_once", BLOCKS),
    "numbers of nodes": ("node_regression", {**BLOCKS, "model.hidden": 8}),
    "generated neighbours": ("fedsage_plus", {**BLOCKS, "model.hidden": 8}),
    "guided and layered": ("fedgraph", {**BLOCKS, "model.hidden": 8}),
    "typed nodes": ("rafhgl", {"rounds": 2, "baselines": []}),
    "private noise": ("fesog", {**SHOPS, "data.clients": 3, "rounds": 2, "training.epochs": 1, "baselines": []}),
}
"""Every kind of task, and methods whose training takes more than the model."""
SLOW = ("private noise", "ranking", "rating", "link", "generated neighbours", "guided and layered", "typed nodes")


def curve(state, names=AFTER):
    """Two scores of every scored round."""
    return [tuple(point[name] for name in names) for point in state.curve]


def test_one_client_and_one_step_by_hand():
    """The model after one step of plain SGD of all examples, w - rate * gradient, scored on the client's own data."""
    experiment = toy(data={"name": "helpers.toy:Lines", "clients": 1}, rounds=1, evaluation=LAST)
    (shard,) = experiment.data.load(experiment.seed)
    state, _, _ = run(experiment)
    first = {name: array.astype(np.float64) for name, array in experiment.plan.first.items()}
    rows = shard.split == 0
    error = shard.x[rows] @ first["weight"] + first["bias"] - shard.y[rows]
    weight = first["weight"] - 0.1 * 2 * (error[:, None] * shard.x[rows]).mean(0)
    bias = first["bias"] - 0.1 * 2 * error.mean()
    wanted = [
        np.sqrt(np.mean((shard.x[of] @ weight + bias - shard.y[of]) ** 2))
        for of in (shard.split == number for number in (1, 2))
    ]
    np.testing.assert_allclose(curve(state)[0], wanted, rtol=1e-5)


def test_one_client_has_the_model_of_a_run_of_one_more_round():
    state, _, _ = run(toy(data={"name": "helpers.toy:Lines", "clients": 1}, evaluation=LAST, rounds=4))
    np.testing.assert_allclose(curve(state)[:-1], curve(state, ("validation", "test"))[1:], rtol=1e-6)


@pytest.mark.parametrize("sharing", ["local", "cefgl", "ditto"])
@pytest.mark.parametrize("at", ["server", "clients"])
def test_who_answers_with_its_own_model_scores_what_it_has_a_round_later(sharing, at):
    """Each client alone, rounds in which nothing is sent, a personal model: all of them train, with kept moments."""
    methods = {"cefgl": {"name": "cefgl", "probability": 0.4}}
    training = {"optimizer": "adam", "learning_rate": 0.05, "keep_moments": True, "schedule": "cosine", "epochs": 2}
    section = methods.get(sharing, {"name": sharing})
    state, _, _ = run(toy(sharing=section, training=training, rounds=6, evaluation={**LAST, "at": at}))
    later = curve(state, ("validation", "test"))[1:]
    if sharing == "cefgl":  # where the next round sends, the model that comes back is another one
        assert any(after == score for after, score in zip(curve(state), later, strict=False))
    else:
        assert curve(state)[:-1] == later


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in TASKS]
)
def test_training_does_not_feel_it_whatever_the_task(name):
    recipe, changes = TASKS[name]
    for at in ("server", "clients"):
        experiment = load(recipe, {**changes, "runtime.workers": 0, "evaluation.every": 1, "evaluation.at": at})
        plain, tried = execute(experiment), execute(experiment.with_changes({"evaluation.local_steps": True}))
        if name != "private noise":  # which no two runs share
            assert tried["digest"] == plain["digest"]
            assert tried["curve"][-1][3:5] == plain["curve"][-1][3:5]
        told = tried["after_local_steps"]
        rounds = tried["rounds"] + 1
        assert None not in [*told["curve"]["validation"][:rounds], *told["curve"]["test"][:rounds]]
        assert told["test"] == told["curve"]["test"][told["round"]]
        better = min if tried["better"] == "lower" else max
        assert told["validation"] == better(told["curve"]["validation"][:rounds])
        assert told["test_per_client"].keys() == tried["test_per_client"].keys()
        assert "after_local_steps" not in plain


def test_at_clients_the_sums_are_charged_and_the_operations_counted():
    plain, _, _ = run(toy(evaluation={"at": "clients"}))
    tried, _, _ = run(toy(evaluation={"at": "clients", "local_steps": True}))
    clients, rounds, numbers = 5, 3, 2 * 2  # squared errors and counts of two splits, 8 bytes each
    assert tried.bytes["evaluation"] - plain.bytes["evaluation"] == clients * rounds * numbers * 8
    free, _, _ = run(toy(evaluation={"local_steps": True}))
    assert free.bytes["evaluation"] == 0
    assert curve(free) == curve(tried)


def test_operations_are_counted_at_clients_alone():
    changes = {**BLOCKS, "model.hidden": 8, "sampler.batches": 2, "runtime.workers": 0}
    plain, free, charged = (
        execute(load("fedall", {**changes, "evaluation.at": at, "evaluation.local_steps": steps}))["flops"]
        for at, steps in (("server", False), ("server", True), ("clients", True))
    )
    assert plain == free < charged


def test_controls_come_with_the_model_to_score():
    plain, _, _ = run(toy(sharing={"name": "scaffold"}, evaluation={"at": "clients"}))
    tried, _, _ = run(toy(sharing={"name": "scaffold"}, evaluation={"at": "clients", "local_steps": True}))
    more = 4 * 4 + 2 * 2 * 8  # a control of three weights and a bias, and the sums
    assert tried.bytes["evaluation"] - plain.bytes["evaluation"] == 5 * 3 * more


def test_a_sample_of_clients_is_scored_after_their_steps():
    state, _, _ = run(toy(evaluation={"sample": 2, "local_steps": True}))
    assert len(state.best_after_steps["scores"]) == 2


def test_steps_that_fail_leave_the_model_its_score():
    state, _, _ = run(toy(training={"optimizer": "sgd", "learning_rate": 0.1}, evaluation=LAST))
    assert np.isfinite(curve(state)).all()
    task = {"name": "helpers.toy:Line", "fault": "nan", "faulty_points": 120}
    state, _, _ = run(toy(task=task, evaluation={"local_steps": True}))
    assert np.isnan(curve(state)).all()
    assert np.isfinite(curve(state, ("validation", "test"))).all()
    assert (state.best_after_steps, state.clients.failures["scoring"]) == ({}, 0)
    summary = execute(toy(task=task, evaluation={"local_steps": True}))
    assert [summary["after_local_steps"][name] for name in ("round", "validation", "test")] == [None] * 3


@pytest.mark.parametrize("at", [pytest.param("server", marks=pytest.mark.slow), "clients"])
def test_killed_a_run_ends_as_if_it_had_not_been(at, whole_run, tmp_path):
    changes = {**MOLECULES, "rounds": 6, "evaluation.local_steps": True, "evaluation.at": at}
    experiment = load("cefgl", {**changes, "checkpoint.every_seconds": 0, "runtime.workers": 0})
    whole = whole_run(experiment, (KILL,))
    resumed = measured(resume(whole.killed(KILL, tmp_path / "run")))
    assert resumed == whole.summary
    assert resumed["after_local_steps"]["round"] is not None


def test_workers_make_no_difference():
    recipe, changes = RUNS["node"]
    one, two = (
        execute(load(recipe, {**changes, "evaluation.local_steps": True, "runtime.workers": workers}))
        for workers in (0, 2)
    )
    assert measured(one) == measured(two)


@pytest.mark.parametrize("value", [3, "maybe"])
def test_it_is_true_or_false(value):
    with pytest.raises(InputError, match=rf"^evaluation\.local_steps must be of type bool; got {value!r}\.$"):
        toy(evaluation={"local_steps": value})
