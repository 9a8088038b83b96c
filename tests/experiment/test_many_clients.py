"""Clients whose data are made where they are used, and scoring on a sample: the same bits, nothing of others."""

import json
import pickle
from dataclasses import dataclass

import numpy as np
import pytest

from fedgraft.contracts.data import Clients, LRUCache, names_of
from fedgraft.engine.client import client as clients
from fedgraft.engine.server.loop.stopping import Evaluation
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.running import runner, settled
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.provenance import MOST_DIGESTS, check_clients, digest_of, origin_of
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.methods.data.catalogue import Catalogue
from fedgraft.methods.data.molecules import Molecules
from fedgraft.methods.data.shops import Shops
from helpers.killed_runs import measured
from helpers.toy_runs import looped, run, toy

MANY = 34
"""More clients than have a digest, and than are kept at once."""
SHOPS = {
    "data.name": "shops",
    "data.clients": MANY,
    "data.categories": MANY,
    "data.users": 200,
    "data.items": 90,
    "data.links": 400,
    "data.count": 1200,
    "task.folds": 2,
}
QUICK = {**SHOPS, "rounds": 2, "selector.name": "random", "selector.clients": 4, "baselines": [], "runtime.workers": 0}
DATA = {
    "shops": Shops(users=300, items=90, categories=MANY, count=1200, clients=MANY, partition="skewed"),
    "molecules": Molecules(clients=MANY, graphs=10),
    "catalogue": Catalogue(users=60, items=30, count=600, clients=MANY),
}


class Listed(Shops):
    """Shops that hand over all shards at once."""

    def load(self, seed):
        """Every shard, made."""
        return list(super().load(seed))


@pytest.fixture
def made(monkeypatch):
    """The clients whose shards this process makes, in order."""
    asked, opened = [], Shops.clients_of

    def clients_of(data, seed):
        known = opened(data, seed)
        return Clients(known.names, lambda client: asked.append(client) or known.make(client))

    monkeypatch.setattr(Shops, "clients_of", clients_of)
    return asked


def eager(**changes):
    return load("fedacs", {**QUICK, "data.name": f"{__name__}:Listed", **changes})


# --- shards -----------------------------------------------------------------------------------------------------------


def test_recent_values_stay_and_others_go():
    recent = LRUCache(2)
    recent["a"], recent["b"] = 1, 2
    assert recent["a"] == 1
    recent["c"] = 3
    assert list(recent) == ["a", "c"]
    unbounded = LRUCache()
    unbounded.update({k: k for k in range(1000)})
    assert len(unbounded) == 1000


@pytest.mark.parametrize("name", DATA)
def test_shards_are_a_sequence_that_is_small_to_send(name):
    data = DATA[name]
    shards = data.load(1)
    assert len(pickle.dumps(shards)) < 1000
    assert len(shards) == MANY
    assert shards[3] is shards[3] is shards[3 - MANY]
    assert [shard.name for shard in shards[2:5]] == list(names_of(shards))[2:5]
    with pytest.raises(IndexError):
        shards[MANY]
    there = pickle.loads(pickle.dumps(shards))
    assert digest_of(there[17]) == digest_of(shards[17])
    assert digest_of(shards) == digest_of(list(shards))


def test_a_catalogue_is_the_same_however_many_pairs_are_drawn_at_once(monkeypatch):
    expected = digest_of(DATA["catalogue"].load(1))
    monkeypatch.setattr("fedgraft.methods.data.catalogue.AT_ONCE", 70)
    assert digest_of(DATA["catalogue"].load(1)) == expected


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "workers"),
    [
        ({}, 0),
        pytest.param({"task.share": "nothing"}, 0, marks=pytest.mark.slow),
        pytest.param({}, 2, marks=pytest.mark.slow),
        pytest.param({"selector.name": "oort"}, 2, marks=pytest.mark.slow),
    ],
)
def test_a_run_on_shards_made_when_used_is_a_run_on_all(whole_run, changes, workers, monkeypatch):
    expected = whole_run(eager(**changes)).summary
    monkeypatch.setattr(clients, "PREPARED", 3)
    found = execute(load("fedacs", {**QUICK, **changes, "runtime.workers": workers}))
    assert found["raw_data_bytes"] is None, "which would make the data of all clients at once"
    apart = {"dataset": "", "raw_data_bytes": 0, "data": None}
    assert {**measured(found), **apart} == {**expected, **apart}


def test_the_parent_makes_no_shards_but_those_of_which_it_keeps_a_digest(made, tmp_path):
    summary = execute(load("fedacs", {**QUICK, "runtime.workers": 2}), tmp_path / "run")
    assert sorted(made) == np.linspace(0, MANY - 1, MOST_DIGESTS).astype(int).tolist()
    assert list(summary["test_per_client"]) == list(names_of(load("fedacs", QUICK).data.load(1)))


def test_only_the_clients_of_a_cohort_and_of_the_sample_are_prepared(monkeypatch):
    experiment = load("fedacs", {**QUICK, "evaluation.sample": 5, "rounds": 1})
    prepared, task = set(), type(experiment.plan.task)
    prepare = task.prepare
    monkeypatch.setattr(
        task, "prepare", lambda self, shard, shared: prepared.add(shard.name) or prepare(self, shard, shared)
    )
    _, rows, _ = run(experiment)
    names = names_of(experiment.data.load(experiment.seed))
    wanted = {*experiment.settings.evaluation.scored(range(MANY), experiment.seed), *rows[0].selected}
    assert prepared == {names[client] for client in wanted}


# --- origins ----------------------------------------------------------------------------------------------------------


def test_the_origin_of_many_made_clients_is_their_options_and_a_few_digests():
    shards = DATA["shops"].load(1)
    began = json.loads(json.dumps(origin_of({"seed": 1}, shards)))
    assert len(began["clients"]) == MOST_DIGESTS
    assert began["made"]["name"] == "Shops"
    assert began["made"]["categories"] == MANY
    check_clients(began, DATA["shops"].load(1), "here")
    with pytest.raises(InputError, match=r"here: data.count = 1300, but the run began with 1200"):
        check_clients(began, Shops(**{**vars(DATA["shops"]), "count": 1300}).load(1), "here")
    with pytest.raises(InputError, match="have changed since the run began"):
        check_clients(began, DATA["shops"].load(2), "here")


def test_of_few_clients_each_has_a_digest():
    few = Molecules(clients=3, graphs=10).load(1)
    assert origin_of({}, few) == origin_of({}, list(few))


# --- scoring on a sample ----------------------------------------------------------------------------------------------


def test_a_sample_is_drawn_by_the_seed_and_stays_the_same():
    evaluation = Evaluation(sample=3)
    drawn = evaluation.scored(range(10, 30), seed=1)
    assert drawn == evaluation.scored(range(10, 30), seed=1) == sorted(drawn)
    assert len(set(drawn)) == 3
    assert set(drawn) < set(range(10, 30))
    assert len({tuple(evaluation.scored(range(30), seed)) for seed in range(9)}) > 5
    assert Evaluation(sample=20).scored([4, 7], 1) == Evaluation().scored([4, 7], 1) == [4, 7]
    with pytest.raises(InputError, match=r"evaluation.sample must be >= 0 \(0 = everybody\); got -1"):
        Evaluation(sample=-1)


@pytest.mark.parametrize("at", ["server", "clients"])
def test_scores_are_those_of_the_sample(at):
    experiment = toy(evaluation={"sample": 2, "at": at})
    sample = experiment.settings.evaluation.scored(range(5), experiment.seed)
    state, rows, runtime = run(experiment)
    model = experiment.plan.sharing.model(state.sharing)
    with looped(toy()) as (loop, _):
        loop.start()
        alone = loop._messenger.scorer.measure(dict.fromkeys(sample, model), 3)
    for split in ("validation", "test"):
        assert getattr(rows[-1], split) == experiment.plan.task.score(alone.sums[split])
    assert [row.scored for row in rows] == [2, 2, 2]
    assert sorted(map(int, state.scores)) == sample
    asked = {client for kind, _, client, _ in runtime.sent if kind == "evaluate"}
    assert asked == (set(sample) if at == "clients" else set())


def test_who_is_scored_changes_nothing_of_training():
    whole, sampled = execute(toy()), execute(toy(evaluation={"sample": 2}))
    assert whole["digest"] == sampled["digest"]
    assert (whole["scored"], sampled["scored"]) == (0, 2)
    assert (len(whole["test_per_client"]), len(sampled["test_per_client"])) == (5, 2)
    assert all(whole["test_per_client"][name] == score for name, score in sampled["test_per_client"].items())
    assert execute(toy(evaluation={"sample": 5}))["scored"] == 0


def test_baselines_see_the_data_of_the_sample_alone(made):
    experiment = load("fedacs", {**QUICK, "evaluation.sample": 5, "rounds": 1, "baselines": ["global_mean"]})
    state, _, _ = run(experiment)
    del made[:]
    summary = runner.summarise(experiment, state, experiment.data.load(1), {})
    assert sorted(made) == experiment.settings.evaluation.scored(range(MANY), 1)
    assert list(summary["baselines"]) == ["global_mean"]


@pytest.mark.parametrize("at", [pytest.param("server", marks=pytest.mark.slow), "clients"])
def test_a_resumed_run_scores_the_same_sample_and_ends_by_the_same_patience(at, tmp_path):
    changes = {**QUICK, "evaluation.sample": 3, "evaluation.at": at, "patience": 2, "rounds": 30}
    changes |= {"training.learning_rate": 1.0, "checkpoint.every_seconds": 0}
    whole = execute(load("fedacs", changes), tmp_path / "whole")
    assert whole["stopped_by"] == "patience"

    class Stop:
        def after_round(self, state, row):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(load("fedacs", changes), tmp_path / "run", Stop())
    assert measured(resume(tmp_path / "run")) == measured(whole)
    rows = [list(RunFolder.open(tmp_path / name).rows()) for name in ("whole", "run")]
    assert [row["scored"] for row in rows[0]] == [row["scored"] for row in rows[1]] == [3] * len(rows[0])


@pytest.mark.parametrize("at", ["server", "clients"])
def test_of_parts_of_one_graph_all_relay_what_the_sample_sees_of_them(at):
    nodes = {"data.name": "blocks", "data.nodes": 120, "data.clients": 6, "selector.clients": 3, "rounds": 2}
    nodes |= {"runtime.workers": 0, "evaluation.at": at, "evaluation.every": 1, "baselines": ["node_majority"]}
    whole, sampled = (execute(load("fedais", {**nodes, "evaluation.sample": size})) for size in (0, 2))
    assert whole["digest"] == sampled["digest"]
    assert len(sampled["test_per_client"]) == sampled["scored"] == 2
    assert all(whole["test_per_client"][name] == score for name, score in sampled["test_per_client"].items())
    assert list(whole["baselines"]) == ["node_majority"]
    assert sampled["baselines"] == {}, "a few parts of a graph are no graph"


def test_a_run_of_very_many_clients_says_what_to_do(monkeypatch, caplog):
    monkeypatch.setattr(settled, "VERY_MANY", MANY)
    execute(load("fedacs", {**QUICK, "rounds": 1}))
    assert "evaluation.sample=100 scores a hundred clients" in caplog.text
    caplog.clear()
    execute(load("fedacs", {**QUICK, "rounds": 1, "evaluation.sample": 5}))
    assert not caplog.text


@dataclass
class Clocked:
    """A clock that a test sets."""

    now: float = 0.0

    def monotonic(self):
        """Seconds."""
        return self.now


def test_checkpoints_that_take_long_come_rarely(monkeypatch, tmp_path):
    clock, stored, checkpoint = Clocked(), [], RunFolder.checkpoint

    def slow(store, state, memories):
        checkpoint(store, state, memories)
        clock.now += 1.0
        stored.append(state.round)

    class Watcher:
        def after_round(self, state, row):
            clock.now += 5.0

    monkeypatch.setattr(RunFolder, "checkpoint", slow)
    monkeypatch.setattr("fedgraft.experiment.running.recorder.time", clock)
    execute(toy(rounds=13), tmp_path / "run", Watcher())
    assert stored == [0, 5, 9, 13, 13]
    del stored[:]
    execute(toy(rounds=3, checkpoint={"every_seconds": 0}), tmp_path / "other", Watcher())
    assert stored == [0, 1, 2, 3, 3]
