"""Every sharing method, with all that its clients remember, survives being killed: on one worker, two, or none."""

import pytest

from fedgraft.experiment.experiment import load
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.running.runner import execute, resume
from fedgraft.experiment.storage.run_folder import RunFolder
from helpers.killed_runs import Killed, measured

EVERYTHING = {
    "data.name": "molecules",
    "data.clients": 4,
    "data.graphs": 20,
    "model.hidden": 8,
    "rounds": 6,
    "runtime.workers": 0,
    "yardsticks": [],
    "checkpoint.every_seconds": 0,
    "dropout.rate": 0.2,
}
CODEC = [{"name": "low_rank", "rank": 3}, {"name": "quantized", "bits": 5, "rounding": "stochastic"}]
NOT_FOR_GRAPHS = {"fedsage_plus", "fedgnn", "fesog"}
"""What survives it in a test of its own."""
OPTIONS = {"gcfl": {"sharing.after": 1, "sharing.mean_norm": 9.0, "sharing.max_norm": 0.0, "sharing.series": True}}


DEVICES = [
    {"examples_per_second": speed, "mbit_down": 10, "mbit_up": 5, "availability": 0.9} for speed in (9000, 200, 300)
]
LATE = {"clock.devices": DEVICES, "clock.late": "semi_asynchronous", "clock.deadline_seconds": 0.5}
SHOPS = {"users": 60, "items": 120, "categories": 4, "links": 200, "count": 1200, "clients": 3}

FEW_RATINGS = {"data.name": "shops", **{f"data.{option}": value for option, value in SHOPS.items()}}


def killed_and_resumed(tmp_path, dying, recipe, changes, kills=(12, 7, 11, 18)):
    """Run an experiment whole, and killed at so many writes to disk and resumed; both must end alike."""
    whole = measured(execute(load(recipe, changes), tmp_path / "whole"))
    folder = tmp_path / "run"
    dying(kills[0])
    with pytest.raises(Killed):
        execute(load(recipe, changes), folder)
    for call in kills[1:]:
        dying(call)
        with pytest.raises(Killed):
            resume(folder)
    dying(0)
    assert measured(resume(folder)) == whole
    assert RunFolder.open(folder).load()[1] == RunFolder.open(tmp_path / "whole").load()[1]
    assert (folder / "ledger.jsonl").read_text() == (tmp_path / "whole" / "ledger.jsonl").read_text()


@pytest.mark.parametrize("name", sorted({*discovery.names("sharing")} - NOT_FOR_GRAPHS))
def test_killed_again_and_again_a_run_ends_as_if_it_had_not_been(tmp_path, dying, name):
    changes = {**EVERYTHING, "sharing.name": name, "codec": CODEC, **OPTIONS.get(name, {})}
    killed_and_resumed(tmp_path, dying, "cefgl", changes)


@pytest.mark.parametrize("name", ["fedgnn", "fesog"])
def test_tables_of_users_and_items_survive_it(tmp_path, dying, name):
    kept = ("rounds", "runtime.workers", "yardsticks", "checkpoint.every_seconds", "dropout.rate")
    killed_and_resumed(tmp_path, dying, name, {**{key: EVERYTHING[key] for key in kept}, **FEW_RATINGS})


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("shared", [False, True])
def test_agents_and_what_they_remember_survive_it(tmp_path, dying, shared, workers):
    """Networks, moments and replay memories of the server's agent and of every client's; the latter shared, or not."""
    kept = ("rounds", "yardsticks", "checkpoint.every_seconds", "dropout.rate")
    changes = {key: EVERYTHING[key] for key in kept} | {"data.papers": 30, "data.clients": 4, "selector.clients": 2}
    chosen = {"sampler.shared": shared, "runtime.workers": workers, "codec": CODEC}
    killed_and_resumed(tmp_path, dying, "rafhgl", {**changes, **chosen}, kills=(12, 9))
    state, _ = RunFolder.open(tmp_path / "run").load()
    assert state.selector["agent"]["steps"] > 0


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("selector", ["all", "random", "oort", "fedacs", "reputation_ucb", "rpfl"])
def test_answers_on_their_way_survive_it(tmp_path, dying, selector, workers):
    kept = ("rounds", "yardsticks", "checkpoint.every_seconds")
    changes = {key: EVERYTHING[key] for key in kept} | LATE | FEW_RATINGS
    chosen = {"selector.name": selector, "runtime.workers": workers}
    killed_and_resumed(tmp_path, dying, "fedacs", {**changes, **chosen}, kills=(12, 9))
    rows = RunFolder.open(tmp_path / "run").rows()
    assert any(row["late"] for row in rows)
