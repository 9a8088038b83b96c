"""Where models go behind a merge: one state per model, parameters alone, nothing by default."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from fedgraft import wire
from fedgraft.contracts import Update
from fedgraft.engine.server.rounds.arrivals import ArrivedUpdates
from fedgraft.engine.server.rounds.collecting import TrainReplies
from fedgraft.engine.server.rounds.merging import Merging, ServerStep
from fedgraft.engine.server.rounds.safeguards import Safeguards
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import InputError
from fedgraft.experiment.job import Job
from fedgraft.methods.server_optimizers.fedavgm import FedAvgM
from fedgraft.methods.sharing.fedavg import FedAvg
from fedgraft.methods.sharing.gcfl import GCFL
from helpers.toy import Line
from helpers.toy_runs import run, same, scripted, toy

MOMENTUM = {"name": "fedavgm", "momentum": 0.5}


def stepped(sharing, *rounds, momentum=0.5):
    """The states of sharing and optimiser after rounds of {client: change of every number}."""
    plan = replace(toy().plan, sharing=sharing)
    step = ServerStep(plan, FedAvgM(momentum=momentum))
    state, states = sharing.init(plan.first, 4), {}
    for changes in rounds:
        updates = [
            Update(c, 1 / len(changes), {name: np.full_like(a, value) for name, a in plan.first.items()})
            for c, value in changes.items()
        ]
        state, states = step.taken(state, sharing.merge(state, updates), list(changes), states)
    return state, states


def bias(model):
    return float(model["bias"][0])


def test_momentum_by_hand():
    # The mean change is 1, then 3: v = 1, then 0.5 + 3.
    state, states = stepped(FedAvg(), {0: 0.0, 1: 2.0}, {2: 3.0})
    assert bias(state["model"]) == 4.5
    assert states.keys() == {"0"}
    assert bias(states["0"]["velocity"]) == 3.5


def test_each_model_has_a_state_and_a_new_one_goes_on_with_that_of_the_one_it_comes_from():
    # Round 1 moves the one model by 1. In round 2 it splits: 0 and 1 want +3, 2 and 3 want -3.
    sharing = GCFL(mean_norm=10.0, max_norm=0.0, smallest=1, after=1)
    first = dict.fromkeys(range(4), 1.0)
    state, states = stepped(sharing, first, {0: 3.0, 1: 3.0, 2: -3.0, 3: -3.0})
    assert state["clusters"].tolist() == [0, 0, 1, 1]
    assert [bias(model) for model in state["models"]] == [1 + 0.5 + 3, 1 + 0.5 - 3]
    assert {group: bias(each["velocity"]) for group, each in states.items()} == {"0": 3.5, "1": -2.5}
    after, later = stepped(sharing, first, {0: 3.0, 1: 3.0, 2: -3.0, 3: -3.0}, {3: -1.0})
    assert same(after["models"][0], state["models"][0]), "a model without an update stays where it is"
    assert same(later["0"], states["0"])


def test_a_state_is_not_changed_by_the_next_step():
    plan = toy().plan
    step = ServerStep(plan, FedAvgM())
    before = FedAvg().init(plan.first, 4)
    updates = [Update(0, 1.0, {name: np.ones_like(array) for name, array in plan.first.items()})]
    one, states = step.taken(before, FedAvg().merge(before, updates), [0], {})
    kept = wire.pack(states)
    step.taken(one, FedAvg().merge(one, updates), [0], states)
    assert wire.pack(states) == kept


@dataclass(frozen=True)
class Running(Line):
    """The line, whose model has a running statistic."""

    def model(self, g, variant=None):
        made = super().model(g, variant)
        made.register_buffer("mean", torch.zeros(1))
        return made


def test_running_statistics_are_as_they_were_merged():
    plan = replace(toy().plan, task=Running())
    step, before = ServerStep(plan, FedAvgM(momentum=0.5, learning_rate=2.0)), FedAvg().init(plan.first, 4)
    updates = [Update(0, 1.0, {name: np.ones_like(array) for name, array in plan.first.items()})]
    state, states = step.taken(before, FedAvg().merge(before, updates), [0], {})
    assert (bias(state["model"]), float(state["model"]["mean"][0])) == (2.0, 1.0)
    assert "mean" not in states["0"]["velocity"]


def test_by_default_there_is_no_state_and_no_step():
    state, _, _ = run(toy())
    assert state.merging.server_optimizer == {}
    none, _, _ = run(toy(server_optimizer="none"))
    assert same(none.sharing, state.sharing)
    assert "server_optimizer" not in toy(server_optimizer={"name": "none"}).recipe.sections


def test_rounds_in_which_nothing_is_merged_move_nothing():
    one, _, _ = run(toy(selector=scripted((0, 1)), rounds=1, server_optimizer=MOMENTUM))
    cefgl = {"name": "cefgl", "probability": 0.0}
    silent, _, _ = run(toy(sharing=cefgl, server_optimizer=MOMENTUM))
    assert one.merging.server_optimizer.keys() == {"0"}
    assert silent.merging.server_optimizer == {}


def test_whose_update_makes_the_step_infinite_is_left_out_and_leaves_no_trace_in_the_state():
    plan = toy().plan
    uploads = {
        client: {name: np.full_like(array, size) for name, array in plan.first.items()}
        for client, size in enumerate((1.0, 1e38))
    }
    state = RunState([{"examples": 1.0}] * 2, plan.sharing.init(plan.first, 2))
    step = ServerStep(plan, FedAvgM(learning_rate=10.0))
    merging = Merging(plan.sharing, safeguards=Safeguards(most_step=0.0), step=step)
    trained = TrainReplies(uploads, {client: {"loss": 1.0} for client in uploads})
    merged, arrived = merging.merge(state, ArrivedUpdates(trained, dict.fromkeys(uploads, 1.0)))
    assert (merged, [*arrived.trained.failed]) == (True, [1])
    assert bias(state.sharing["model"]) == 10.0
    assert bias(state.merging.server_optimizer["0"]["velocity"]) == 1.0


def test_a_recipe_goes_there_and_back_and_an_override_takes_it_away():
    experiment = toy(server_optimizer={"name": "fedyogi", "tau": 0.1})
    again = Job.from_toml(experiment.to_toml())
    assert again.server_optimizer == experiment.server_optimizer
    assert again.recipe.sections["server_optimizer"]["tau"] == 0.1
    assert again.with_changes({"server_optimizer.name": "none"}).server_optimizer is None
    assert toy().with_changes({"server_optimizer.name": "fedadam"}).server_optimizer is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sharing": "local", "server_optimizer": "fedadam"},
            r"^server_optimizer\.name = .fedadam. moves a global model, which sharing Local does not let it; adafgl, ",
        ),
        ({"server_optimizer": "fedadan"}, r"^No server_optimizer named 'fedadan'\. Did you mean 'fedadam'\?"),
        (
            {"server_optimizer": {"momentum": 0.5}},
            r"^\[server_optimizer\] needs a name for momentum\. Known: fedadam, ",
        ),
        ({"server_optimizer": {"name": "fedadam", "momentum": 0.5}}, r"momentum.*fedavgm.* has it"),
        ({"server_optimizer": {"name": "fedavgm", "momentum": 2}}, r"^server_optimizer\.momentum must be in \[0, 1\)"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        toy(**changes)
