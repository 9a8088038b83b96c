"""Every sharing method, with all that its clients remember, survives being killed: on one worker, two, or none."""

import pytest

from fedgraft.experiment.job import load
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.running.runner import resume
from fedgraft.experiment.storage.run_folder import RunFolder
from helpers.killed_runs import Killed, measured
from helpers.tiers import long_but_for

OFTEN = {"rounds": 6, "baselines": [], "checkpoint.every_seconds": 0}
IN_ONE_PROCESS = {"runtime.workers": 0}
DROPPING = {"dropout.rate": 0.2}
MOLECULES = {"data.name": "molecules", "data.clients": 4, "data.graphs": 20, "model.hidden": 8}
NODES = {
    "data.name": "blocks",
    "data.nodes": 90,
    "data.classes": 3,
    "data.clients": 4,
    "data.features": 8,
    "model": {"name": "gcn", "hidden": [6, 5]},
    "selector": "all",
    "sampler": "all",
    "exchange.states": False,
    "training.epochs": 1,
}
PAPERS = {"data.papers": 30, "data.clients": 4, "selector.clients": 2, "training.epochs": 1}
SHOPS = {
    "data.name": "shops",
    "data.users": 60,
    "data.items": 120,
    "data.categories": 4,
    "data.links": 200,
    "data.count": 1200,
    "data.clients": 3,
    "task.folds": 2,
}
CODEC = {
    "codec": [{"name": "low_rank", "rank": 3}, {"name": "quantized", "bits": 5, "rounding": "stochastic"}],
}
LATE = {
    "clock.late": "semi_asynchronous",
    "clock.deadline_seconds": 0.5,
    "clock.devices": [
        {"examples_per_second": speed, "mbit_down": 10, "mbit_up": 5, "availability": 0.9} for speed in (9000, 200, 300)
    ],
}
OF_USERS_AND_ITEMS = {"fedgnn", "fesog"}
OF_NODES = {"adafgl", "fedgta", "fedproto", "fedpub", "fedtad", "fedtgp", "fgssl"}
SURVIVES_ELSEWHERE = {"fedsage_plus", "ridge"}
"""In tests of their own."""
OF_GRAPHS = sorted({*discovery.names("sharing")} - OF_USERS_AND_ITEMS - OF_NODES - SURVIVES_ELSEWHERE)
OPTIONS = {
    "gcfl": {"sharing.after": 1, "sharing.mean_norm": 9.0, "sharing.max_norm": 0.0, "sharing.series": True},
    "adafgl": {"sharing.rounds": 3},
    "fedala": {"sharing.first_epochs": 3},
    "fedrep": {"sharing.head_epochs": 3},
    "fedtad": {"sharing.epochs": 2, "sharing.nodes": 12},
    "fedtgp": {"sharing.passes": 10},
}
REMEMBERING = {"cefgl", "ditto", "fedala", "fedstar", "gcfl", "scaffold", "adafgl", "fedpub", "fedtad"}
"""Whose clients keep most; what others keep, a law of all sharing methods has, on toy data."""
SELECTORS = ["all", "random", "oort", "fedacs", "reputation_ucb", "rpfl"]
FIRST = 12
"""The write to disk at which a run is killed first."""
slow = pytest.mark.slow
workers = pytest.mark.parametrize(
    ("workers", "kills"), [(0, ()), *(pytest.param(number, (9,), marks=slow) for number in (1, 2))], ids=[0, 1, 2]
)
"""And the kills after the first."""


def quick(names):
    """Parameters of a test: those whose clients keep most, and the others in the long tests."""
    return [name if name in REMEMBERING else pytest.param(name, marks=slow) for name in names]


def of_graphs(name):
    changes = MOLECULES | OFTEN | IN_ONE_PROCESS | DROPPING | CODEC | OPTIONS.get(name, {})
    return load("cefgl", {**changes, "sharing.name": name})


def of_nodes(name):
    moments = {"training.keep_moments": True, "loss.dropout": 0.5}
    changes = NODES | OFTEN | IN_ONE_PROCESS | DROPPING | CODEC | moments | OPTIONS.get(name, {})
    return load("fedall", {**changes, "sharing.name": name})


def of_ratings(recipe):
    return load(recipe, SHOPS | OFTEN | IN_ONE_PROCESS | DROPPING | {"training.epochs": 1})


def killed_and_resumed(run, folder, dying, kills=()):
    """Resume a run from its first kill, and kill it at so many writes to disk more; it must end as if it had not been.

    Returns the state in which it ends.
    """
    run.killed(FIRST, folder)
    for call in kills:
        dying(call)
        with pytest.raises(Killed):
            resume(folder)
    dying(0)
    assert measured(resume(folder)) == run.summary
    state, memories = RunFolder.open(folder).load()
    assert memories == RunFolder.open(run.folder).load()[1]
    assert (folder / "ledger.jsonl").read_text() == (run.folder / "ledger.jsonl").read_text()
    return state


@pytest.mark.parametrize("name", quick(OF_GRAPHS))
def test_killed_a_run_ends_as_if_it_had_not_been(whole_run, tmp_path, dying, name):
    killed_and_resumed(whole_run(of_graphs(name), (FIRST,)), tmp_path / "run", dying)


@slow
@pytest.mark.parametrize("name", OF_GRAPHS)
def test_killed_again_and_again_a_run_ends_as_if_it_had_not_been(whole_run, tmp_path, dying, name):
    killed_and_resumed(whole_run(of_graphs(name), (FIRST,)), tmp_path / "run", dying, kills=(7, 11, 18))


@pytest.mark.parametrize("name", quick(sorted(OF_NODES)))
def test_what_clients_have_of_their_own_on_nodes_survives_it(whole_run, tmp_path, dying, name):
    killed_and_resumed(whole_run(of_nodes(name), (FIRST,)), tmp_path / "run", dying)


@slow
@pytest.mark.parametrize("name", sorted(OF_NODES))
def test_what_clients_have_of_their_own_on_nodes_survives_it_again_and_again(whole_run, tmp_path, dying, name):
    killed_and_resumed(whole_run(of_nodes(name), (FIRST,)), tmp_path / "run", dying, kills=(7, 11, 18))


@pytest.mark.parametrize("name", sorted(OF_USERS_AND_ITEMS))
def test_tables_of_users_and_items_survive_it(whole_run, tmp_path, dying, name):
    killed_and_resumed(whole_run(of_ratings(name), (FIRST,)), tmp_path / "run", dying)


@slow
@pytest.mark.parametrize("name", sorted(OF_USERS_AND_ITEMS))
def test_tables_of_users_and_items_survive_it_again_and_again(whole_run, tmp_path, dying, name):
    killed_and_resumed(whole_run(of_ratings(name), (FIRST,)), tmp_path / "run", dying, kills=(7, 11, 18))


@workers
@pytest.mark.parametrize("shared", [False, True])
def test_agents_and_what_they_remember_survive_it(whole_run, tmp_path, dying, shared, workers, kills):
    """Networks, moments and replay memories of the server's agent and of every client's; the latter shared, or not."""
    changes = PAPERS | OFTEN | DROPPING | CODEC | {"sampler.shared": shared, "runtime.workers": workers}
    run = whole_run(load("rafhgl", changes), (FIRST,))
    state = killed_and_resumed(run, tmp_path / "run", dying, kills)
    assert state.selector["agent"]["steps"] > 0


@workers
@pytest.mark.parametrize("selector", long_but_for(["oort", "reputation_ucb", "rpfl"], SELECTORS))
def test_answers_on_their_way_survive_it(whole_run, tmp_path, dying, selector, workers, kills):
    changes = SHOPS | OFTEN | LATE | {"selector.name": selector, "runtime.workers": workers}
    killed_and_resumed(whole_run(load("fedacs", changes), (FIRST,)), tmp_path / "run", dying, kills)
    assert any(row["late"] for row in RunFolder.open(tmp_path / "run").rows())
