"""Runs whose clients end with models of their own: which model is whose."""

import numpy as np
import pandas as pd
import pytest
import torch

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.predicting.site_run import open_run
from helpers.tiny import TINY

CHANGES = {**TINY, "task.folds": 10, "rounds": 3, "baselines": [], "selector.name": "all"}
MOLECULES = {
    "data.name": "molecules",
    "data.clients": 2,
    "data.graphs": 30,
    "model.hidden": 8,
    "rounds": 3,
    "runtime.workers": 0,
    "baselines": [],
}
RUNS = {
    "fedper": ("fedacs", {**CHANGES, "sharing.name": "fedper"}),
    "local": ("fedacs", {**CHANGES, "sharing.name": "local"}),
    "gcfl": ("fedacs", {**CHANGES, "sharing": {"name": "gcfl", "mean_norm": 1e9, "max_norm": 0.0, "after": 1}}),
    "cefgl": ("cefgl", MOLECULES),
}


def params():
    """Runs, and which of its models each client keeps."""
    for name in RUNS:
        yield pytest.param((name, "best"), id=f"{name}-best")
        yield pytest.param((name, "last"), id=f"{name}-last", marks=[] if name == "fedper" else [pytest.mark.slow])


@pytest.fixture(scope="module", params=params())
def run(request, tmp_path_factory):
    name, keep = request.param
    recipe, changes = RUNS[name]
    changes = {**changes, "evaluation.keep": keep}
    return fedgraft.run(recipe, out=tmp_path_factory.mktemp("own") / "run", overrides=changes, progress=False)


def state(module):
    return {name: array.clone() for name, array in module.state_dict().items()}


def equal(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_there_is_no_one_model(run):
    name = next(iter(run.summary["test_per_client"]))
    message = rf"there is no one model: under sharing '\w+' .* use run\.client_model\(NAME\), with one of '{name}'"
    with pytest.raises(InputError, match=message):
        _ = run.model


def test_each_client_has_a_trained_model_of_its_own(run):
    names = list(run.summary["test_per_client"])
    own = [state(run.client_model(name)) for name in names]
    assert len({tuple(array.double().sum().item() for array in each.values()) for each in own}) > 1
    untrained = state(run.experiment.plan.build_model().module)
    assert not any(equal(each, untrained) for each in own)
    assert not run.client_model(names[0]).training
    assert repr(run.models) == f"<models of {', '.join(map(repr, names))}>"


def test_it_is_what_predictions_are_made_with_and_what_was_scored(run, monkeypatch):
    finished, used = open_run(run.folder), {}
    task = type(finished.plan.task)
    predict = task.predict

    def spied(self, module, shard, *rest):
        used[shard.name] = state(module)
        return predict(self, module, shard, *rest)

    monkeypatch.setattr(task, "predict", spied)
    for number, shard in enumerate(finished.shards):
        run.predict(client=shard.name, **questions(shard))
        own = run.client_model(shard.name)
        assert equal(used[shard.name], state(own))
        with torch.no_grad():
            sums = finished.plan.task.evaluate(own, finished.prepared(number))
        score = finished.plan.task.score(sums["test"])
        assert score == pytest.approx(run.summary["test_per_client"][shard.name], nan_ok=True)


def questions(shard):
    """Something to ask of a client."""
    if hasattr(shard, "user_ids"):
        return {"pairs": pd.DataFrame({"user": shard.user_ids[:2], "item": shard.item_ids[:2]})}
    kind = shard.kind_names[0]
    nodes = pd.DataFrame({"graph": "g", "node": np.arange(3), "kind": kind})
    return {"nodes": nodes, "edges": pd.DataFrame({"graph": "g", "source": [0, 1], "target": [1, 2]})}


def test_a_client_that_was_not_there_lacks_what_each_keeps_to_itself(run):
    if run.experiment.recipe.sections["sharing"]["name"] not in ("fedper", "local"):
        pytest.skip("all parameters travel")
    own = pd.DataFrame({"user": ["ann", "ben"], "item": ["tea", "tea"], "rating": [5, 2]})
    with pytest.raises(InputError, match=r"trained parameters of its own, such as .*; data is of one that was not"):
        run.predict(pd.DataFrame({"user": ["ann"], "item": ["tea"]}), own)
