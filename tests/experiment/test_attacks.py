"""Attacks on finished runs: what is there is found, and noise hides it."""

import json

import numpy as np
import pytest

from fedgraft.engine.server.rounds.train_replies import TOGETHER
from fedgraft.errors import InputError
from fedgraft.experiment.attacking.attacks import KINDS, attacked
from fedgraft.experiment.attacking.guesses import area, losses_of
from fedgraft.experiment.attacking.updates import first_updates
from fedgraft.experiment.job import load
from fedgraft.experiment.running.runner import execute
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.experiment.storage.run_folder import RunFolder
from helpers.tiny import TINY

LEARNT_BY_HEART = {
    "data.name": "blocks",
    "data.nodes": 600,
    "data.clients": 4,
    "data.features": 40,
    "data.partition": "dirichlet",
    "model.name": "mlp",
    "model.hidden": [128],
    "training.epochs": 60,
    "training.learning_rate": 0.02,
    "training.schedule": "constant",
    "rounds": 6,
    "codec.name": "identity",
    "evaluation.every": 6,
    "runtime.workers": 0,
    "baselines": [],
}
PRIVATE = {
    "data.name": "blocks",
    "data.nodes": 600,
    "data.clients": 4,
    "data.features": 40,
    "rounds": 6,
    "privacy.delta": 1e-4,
    "runtime.workers": 0,
    "baselines": [],
}


@pytest.fixture(scope="module")
def by_heart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked") / "run"
    execute(load("plain_gcn", LEARNT_BY_HEART), folder)
    return FinishedRun(RunFolder.open(folder))


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked") / "run"
    execute(load("graft_node_private", PRIVATE), folder)
    return FinishedRun(RunFolder.open(folder))


def test_areas_by_hand():
    assert area(np.array([3.0, 2.0]), np.array([1.0])) == 1.0
    assert area(np.array([1.0]), np.array([1.0, 3.0])) == 0.25
    assert area(np.array([]), np.array([1.0])) == 0.5


def test_what_a_model_knows_by_heart_is_told(by_heart):
    found = attacked(by_heart, count=240)
    assert list(found) == list(KINDS)
    assert found["labels"]["seen"] == 4
    assert found["membership"]["auc"] > 0.6
    assert 0 < found["membership"]["advantage"] <= 1
    canaries = found["canaries"]
    assert (canaries["read"], canaries["canaries"], canaries["claim"], canaries["enough"]) == (
        "the model",
        192,
        None,
        None,
    )
    assert canaries["auc"] > 0.9
    assert 1.5 < canaries["epsilon"] < canaries["most"]


def test_a_short_training_tells_which_class_is_the_largest(tmp_path):
    change = {"training.epochs": 2, "training.optimizer": "sgd", "training.learning_rate": 0.05, "rounds": 1}
    execute(load("plain_gcn", {**LEARNT_BY_HEART, **change, "data.classes": 4, "data.clients": 8}), tmp_path / "run")
    found = attacked(FinishedRun(RunFolder.open(tmp_path / "run")), ["labels", "inversion"])
    assert found["labels"]["seen"] == 8
    assert found["labels"]["right"] > found["labels"]["constant"]
    assert found["inversion"]["examples"] > 100


def test_noise_hides_canaries_and_masks_hide_who_was_who(private):
    found = attacked(private, count=240)
    assert found["labels"] == {"seen": 0, "right": None, "constant": found["labels"]["constant"]}
    assert found["inversion"]["rebuilt"] == 0
    assert found["canaries"]["epsilon"] <= found["canaries"]["claim"] <= 4.0
    assert list(first_updates(private)) == [TOGETHER]


def test_losses_are_of_the_rows_that_are_asked_in_their_order(by_heart):
    shard, model = by_heart.shards[0], by_heart.answering_model(0)
    told = by_heart.plan.task.audited.labelled(shard, "train")
    losses = losses_of(by_heart.plan, model, shard, {}, told.rows, told.label)
    some = np.array([5, 2, 7])
    again = losses_of(by_heart.plan, model, shard, {}, told.rows[some], told.label[some])
    np.testing.assert_allclose(again, losses[some], rtol=1e-5)
    other = losses_of(by_heart.plan, model, shard, {}, told.rows[some], (told.label[some] + 1) % told.classes)
    assert (other > again).all()


def test_marks_change_labels_and_splits_of_their_rows_alone(by_heart):
    task, shard = by_heart.plan.task.audited, by_heart.shards[0]
    rows = task.labelled(shard, "train").rows[:2]
    marked = task.marked(shard, rows, np.array([1, 1]), np.array([True, False]))
    assert marked.label[rows].tolist() == [1, 1]
    assert rows[0] in task.labelled(marked, "train").rows
    assert rows[1] not in task.labelled(marked, "train").rows
    others = np.setdiff1d(np.arange(len(shard.label)), rows)
    np.testing.assert_array_equal(marked.label[others], shard.label[others])
    np.testing.assert_array_equal(marked.split[others], shard.split[others])


def test_the_command_says_what_came_of_it(by_heart, fedgraft):
    folder = str(by_heart.run_folder.folder)
    said = fedgraft("attack", folder, "--kind", "membership", "--json").json()
    assert said["membership"]["members"] > 100
    assert "auc 0." in fedgraft("attack", folder, "--kind", "membership").out
    wrong = fedgraft("attack", folder, "--kind", "member")
    assert (wrong.code, "Did you mean 'membership'" in wrong.err) == (2, True)
    few = fedgraft("attack", folder, "--kind", "canaries", "--canaries", "2")
    assert (few.code, "--canaries must be >= 6; got 2" in few.err) == (2, True)
    assert json.dumps(said)


def test_a_task_without_classes_is_refused(tmp_path):
    execute(load("fedacs", {**TINY, "rounds": 1}), tmp_path / "run")
    with pytest.raises(InputError, match="is for tasks whose examples have one class each"):
        attacked(FinishedRun(RunFolder.open(tmp_path / "run")), ["membership"])


@pytest.mark.parametrize(("epsilon", "unit"), [(0.0, ""), (2.0, "rating"), (2.0, "user")])
def test_canaries_in_statistics_of_ratings(epsilon, unit, tmp_path):
    """Without noise the sums tell all; with noise less than what is claimed."""
    changes = {"data.users": 400, "data.items": 200, "data.count": 3000, "data.clients": 4, "rounds": 1}
    changes |= {"training.epochs": 1, "secure_sum.name": "clear", "privacy.unit": unit, "privacy.epsilon": epsilon}
    changes |= {"privacy.delta": 1e-5 if unit else 0.0, "baselines": [], "runtime.workers": 0}
    execute(load("graft_rating_private", changes), tmp_path / "run")
    run = FinishedRun(RunFolder.open(tmp_path / "run"))
    found = attacked(run, count=200)
    assert list(found) == ["canaries"]
    canaries = found["canaries"]
    assert canaries["canaries"] > 100
    if not unit:
        assert canaries["auc"] == 1.0
        assert canaries["epsilon"] > 2.5
    else:
        assert 0.5 < canaries["auc"] < 0.9
        assert canaries["epsilon"] < canaries["claim"] <= 2.0
    with pytest.raises(InputError, match="--kind must be canaries"):
        attacked(run, ["membership"])
