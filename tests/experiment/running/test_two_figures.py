"""Every summary tells what sending all data once would take, and what clients reach alone where that is quick."""

import re
from types import SimpleNamespace

import pytest

from fedgraft.errors import FedgraftError
from fedgraft.experiment.job import load
from fedgraft.experiment.running import baseline_scores
from fedgraft.experiment.running.raw_data import raw_data_bytes
from fedgraft.experiment.running.runner import execute
from helpers.killed_runs import measured
from helpers.tiny import TINY

BLOCKS = {"data.name": "blocks", "data.nodes": 90, "data.clients": 3, "model.hidden": 8, "selector.clients": 2}
CATALOGUE = {"data.clients": 3, "data.users": 60, "data.items": 40, "data.count": 900}
TYPED = {"data.clients": 3, "data.papers": 90, "data.features": 8, "training.epochs": 1}
TASKS = {
    "rating": ("fedacs", TINY),
    "node": ("fedais", {**BLOCKS, "exchange.neighbours": 3, "baselines": ["node_majority"]}),
    "graph": (
        "cefgl",
        {"data.name": "molecules", "data.clients": 3, "data.graphs": 20, "model.hidden": 8, "baselines": ["majority"]},
    ),
    "ranking": (
        "reputation_ucb",
        {**CATALOGUE, "selector.clients": 2, "clock.devices": "lognormal", "baselines": ["popularity"]},
    ),
    "typed_node": ("rafhgl", {**TYPED, "selector.clients": 2, "baselines": ["typed_majority"]}),
}
QUICK = {"rounds": 2, "runtime.workers": 0}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def rating(**changes):
    return load("fedacs", {**TINY, **QUICK, **{key.replace("__", "."): value for key, value in changes.items()}})


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_both_figures_and_they_change_nothing(task):
    recipe, changes = TASKS[task]
    told = load(recipe, {**changes, **QUICK})
    summary, shards = execute(told), told.data.load(told.seed)
    assert summary["raw_data_bytes"] == raw_data_bytes(shards) > 0
    expected = baseline_scores.scores(told.fitted(shards), shards, ["local_only"])["local_only"]
    assert summary["client_alone"] == {split: expected[split] for split in ("validation", "test")}
    silent = execute(told.with_changes({"baselines": []}))
    assert silent["client_alone"] is None
    without = {name: silent[name] for name in ("baselines", "local_baselines", "yardsticks", "local_yardsticks")}
    without |= {"client_alone": None, "remarks": silent["remarks"]}
    assert measured({**summary, **without}) == measured(silent)


def test_equal_seeds_give_equal_figures_wherever_clients_are_served():
    assert measured(execute(rating())) == measured(execute(rating(runtime__workers=2)))


def test_where_it_is_a_baseline_it_is_that(monkeypatch):
    monkeypatch.setattr(baseline_scores, "MOST_ALONE_SECONDS", 0.0)
    summary = execute(rating(baselines=["local_only"]))
    assert summary["client_alone"]["test"] == summary["baselines"]["local_only"]
    late = execute(rating())
    assert late["client_alone"] is None, "it would take too long"
    said = r'Each client alone was not tried, as it could take \d+ s; baselines=\[.*, "local_only"\] tries it\.'
    assert re.fullmatch(said, late["remarks"][-1])


def test_of_a_sample_it_is_not_told():
    summary = execute(rating(evaluation__sample=2))
    assert summary["client_alone"] is None
    assert summary["raw_data_bytes"] == execute(rating())["raw_data_bytes"], "all clients'"


def test_it_is_no_error_where_a_client_cannot_train_alone(monkeypatch):
    def fail(*_):
        raise FedgraftError("no")

    monkeypatch.setattr(baseline_scores, "_train", fail)
    assert execute(rating())["client_alone"] is None
    with pytest.raises(FedgraftError, match="'local_only' could not be computed"):
        execute(rating(baselines=["local_only"]))


class Ended:
    """The end of a run of three clients with 100, 200 and 1000 examples, of whom ten were chosen."""

    examples = (100, 200, 1000)
    clients = SimpleNamespace(chosen=(4, 4, 2))
    flops = 100_000_000_000


def test_the_estimate_is_made_from_counts_alone():
    whole = rating(rounds=7, sampler__batch_size=0, training__epochs=2)
    assert baseline_scores.alone_seconds(whole, Ended) == pytest.approx(7 * 3 * (1 + 0.01 + 2 * 0.002))
    cut = whole.with_changes({"sampler.batch_size": 100})
    assert baseline_scores.alone_seconds(cut, Ended) == pytest.approx(7 * (3 * 1.01 + 2 * 13 * 0.002))
    parts = whole.with_changes({"sampler.batches": 5})
    assert baseline_scores.alone_seconds(parts, Ended) == pytest.approx(7 * 3 * (1.01 + 2 * 5 * 0.002))
