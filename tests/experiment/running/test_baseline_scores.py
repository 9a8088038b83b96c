import json
import math

import pytest
import torch

from fedgraft.contracts.scores import add
from fedgraft.contracts.values import SCORED_SPLITS as SPLITS
from fedgraft.errors import FedgraftError
from fedgraft.experiment.job import load
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.running import baseline_scores
from fedgraft.experiment.running.baseline_scores import scores
from helpers.toy_runs import SGD, run, toy

FEW = {"data": {"name": "helpers.toy:Lines", "clients": 3, "points": 16}, "rounds": 4}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "fedgraft" / "baselines"


def best(experiment, shards):
    """Sums of a run of these shards alone, at the round that is best on their own validation split."""
    return run(experiment, shards=shards)[0].best["sums"]


def test_local_only_is_every_client_alone():
    experiment = toy(**FEW)
    shards = experiment.data.load(1)
    alone = [best(experiment, [shard]) for shard in shards]
    expected = {
        split: experiment.plan.task.score(add(sums[split] for sums in alone)) for split in ("validation", "test")
    }
    assert scores(experiment, shards, ["local_only"]) == {"local_only": expected}


def test_centralised_is_all_data_in_one_place():
    experiment = toy(**FEW)
    shards = experiment.data.load(1)
    sums = best(experiment, [experiment.plan.task.pooled(shards)])
    found = scores(experiment, shards, ["centralised"])["centralised"]
    assert found == {split: experiment.plan.task.score(sums[split]) for split in SPLITS}


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("fedlocal", {"data.name": "blocks", "data.nodes": 90, "data.features": 6, "model.hidden": 6}),
        ("rafhgl", {"data.name": "typed_blocks", "data.papers": 60, "exchange.neighbours": 0}),
    ],
)
def test_in_one_place_with_the_clients_cut_every_client_sees_what_it_sees_alone(recipe, changes):
    """One model says of each node what it says where the client has its part alone; of whole graphs it does not.

    Nearly so of HAN, which weighs metapaths by means over all nodes.
    """
    experiment = load(recipe, {**changes, "data.clients": 3})
    shards = experiment.shards()
    task = experiment.fitted(shards).plan.task
    model = experiment.fitted(shards).plan.build_model().module.eval()

    def told(*parts):
        with torch.no_grad():
            sums = [task.evaluate(model, task.prepare(part, {}))["test"] for part in parts]
        return add(sums)["loss"]

    apart = told(*(task.alone(shard) for shard in shards))
    assert told(task.side_by_side(shards)) == pytest.approx(apart, rel=1e-4)
    assert told(task.pooled(shards)) != pytest.approx(apart, rel=1e-3)


def test_in_one_place_with_the_cut_is_trained_like_any_other():
    experiment = toy(**FEW)
    shards = experiment.data.load(1)
    found = scores(experiment, shards, ["centralised", "centralised_cut"])
    assert found["centralised_cut"] == found["centralised"], "points have no edges"


def test_nothing_is_lost_on_a_way_that_nothing_goes(cache):
    plain, coded = toy(**FEW), toy(**FEW, codec={"name": "quantized", "bits": 2}, selector="oort")
    shards = plain.data.load(1)
    expected = scores(plain, shards, ["local_only"])
    for path in cache.iterdir():
        path.unlink()
    assert scores(coded, shards, ["local_only"]) == expected


def test_a_split_is_scored_once(monkeypatch, cache):
    experiment = toy(**FEW)
    shards = experiment.data.load(1)
    first = scores(experiment, shards, ["local_only"])
    assert len(list(cache.iterdir())) == 1
    monkeypatch.setattr(baseline_scores, "local_runtime", None)
    assert scores(experiment, shards, ["local_only"]) == first
    for other, changed in (
        (toy(**{**FEW, "training": {**SGD, "learning_rate": 0.01}}), shards),
        (toy(**FEW, evaluation={"averaging": 0.5}), shards),
        (experiment, experiment.data.load(2)),
    ):
        with pytest.raises(TypeError):
            scores(other, changed, ["local_only"])
    assert scores(toy(**FEW, codec="float16", selector="random"), shards, ["local_only"]) == first


@pytest.mark.parametrize("damaged", ["", "{", "[]", "\x00"])
def test_a_damaged_entry_is_computed_anew(cache, damaged):
    experiment = toy(**FEW)
    shards = experiment.data.load(1)
    first = scores(experiment, shards, ["centralised"])
    (path,) = cache.iterdir()
    path.write_text(damaged)
    assert scores(experiment, shards, ["centralised"]) == first
    assert json.loads(path.read_text()) == first["centralised"]


def test_where_nothing_can_be_kept_it_is_computed_again(cache):
    cache.parent.parent.mkdir(exist_ok=True)
    cache.parent.write_text("a file where the folder should be")
    experiment = toy(**FEW)
    shards = experiment.data.load(1)
    assert scores(experiment, shards, ["centralised"]) == scores(experiment, shards, ["centralised"])


def test_a_client_without_training_examples_is_scored_with_the_drawn_model():
    experiment = toy(**FEW)
    shards = experiment.data.load(1)
    shards[1].split[:] = 1
    found = scores(experiment, shards, ["local_only"])["local_only"]
    assert all(math.isfinite(value) for value in found.values())


def test_a_baseline_that_fails_is_named():
    broken = {"name": "helpers.toy:Line", "fault": "nan", "faulty_points": 48}
    experiment = toy(**FEW, task=broken)
    with pytest.raises(FedgraftError, match="The baseline 'local_only' could not be computed"):
        scores(experiment, experiment.data.load(1), ["local_only"])


def test_baselines_that_need_no_bytes_say_so():
    """What each client computes by itself; reports and closing lines tell of it."""
    local = {name for name in discovery.names("baselines") if discovery.find("baselines", name).local}
    boosted = {"own_boosting", "own_edge_boosting"}
    of_links = {"adamic_adar", "feature_cosine", "preferential_attachment"}
    of_classes = {"majority", "own_majority", "typed_own_majority", "wl_kernel"}
    assert local == {"client_biases", "graph_mean", "graph_ridge", *boosted, *of_classes, *of_links}
