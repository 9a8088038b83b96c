"""AdaFGL: a first step that is FedAvg's, a second in which nothing is sent and the model stays as it is."""

import numpy as np
import pytest

from fedgraft import wire
from fedgraft.errors import InputError
from fedgraft.methods.sharing.adafgl import ACTIVE, AdaFGL
from helpers.sharing_clients import Quadratic
from helpers.toy_runs import remembered, run, same, scripted
from laws.parted import parted


def test_a_worked_example():
    # Goal 3 for the model, 8 for the network, rate 1/2. First step: 1 -> 2, and the network stays at 4.
    targets = {"w": np.array([3], np.float32), "refinement.v": np.array([8], np.float32), ACTIVE: np.zeros(1, "f")}
    trainer = Quadratic(targets, rate=0.5, start={"refinement.v": np.array([4], np.float32)})
    method = AdaFGL(epochs=2)
    update, memory = method.local_update(trainer, {"w": np.array([1], np.float32)}, None)
    assert (update["w"].tolist(), memory) == ([1], None)
    assert trainer.read(["refinement.v"])["refinement.v"].tolist() == [4]
    # Second step, two epochs: 4 -> 6 -> 7, and the model stays as it was received.
    trainer.collects = False
    trainer.targets[ACTIVE].fill_(1)  # a buffer has no gradient
    method.local_update(trainer, {"w": np.array([5], np.float32)}, memory)
    now = trainer.read()
    assert {name: array.tolist() for name, array in now.items()} == {"w": [5], "refinement.v": [7], ACTIVE: [1]}


def test_networks_of_an_earlier_run_are_silent_in_the_first_step():
    targets = {"w": np.array([3], np.float32), "refinement.v": np.array([8], np.float32), ACTIVE: np.ones(1, "f")}
    trainer = Quadratic(targets, start={"refinement.v": np.array([4], np.float32), ACTIVE: np.ones(1, "f")})
    AdaFGL().local_update(trainer, {"w": np.array([1], np.float32)}, None)
    now = trainer.read()
    assert {name: array.tolist() for name, array in now.items()} == {"w": [3], "refinement.v": [4], ACTIVE: [0]}


def test_rounds_of_the_first_step_collect_and_no_others():
    method = AdaFGL(rounds=3)
    state, g = method.init({}, 2), np.random.default_rng(1)
    assert [method.collects(state, round, g) for round in range(1, 6)] == [True, True, True, False, False]
    assert (method.shares("head.weight"), method.shares("refinement.own.weight")) == (True, False)
    assert method.runs(4) == (4,)


def test_the_first_step_is_federated_averaging_and_the_second_sends_one_model():
    first = run(parted(sharing={"name": "adafgl", "rounds": 2}, rounds=2))
    plain = run(parted(sharing={"name": "fedavg"}, rounds=2))
    assert same(first[0].sharing, plain[0].sharing)
    both, rows, runtime = run(parted(sharing={"name": "adafgl", "rounds": 2}, rounds=5))
    assert same(both.sharing, plain[0].sharing), "the model stays as it was after the first"
    assert rows[2].bytes < rows[1].bytes / 1.5, "the last model down"
    assert [row.bytes for row in rows[3:]] == [0, 0]
    scores = [point["validation"] for point in both.curve]
    assert scores[-1] < scores[2], "networks learn"
    memories = {client: wire.unpack(memory)["private"] for client, memory in remembered(runtime).items()}
    assert all(each[ACTIVE].tolist() == [1] for each in memories.values())
    assert len({each["refinement.weight"].tobytes() for each in memories.values()}) == len(memories)


def test_more_epochs_in_the_second_step():
    few, many = (
        run(parted(sharing={"name": "adafgl", "rounds": 1, "epochs": epochs}, rounds=2))[0] for epochs in (1, 20)
    )
    assert many.curve[-1]["validation"] < few.curve[-1]["validation"]


def test_who_was_in_the_last_cohort_goes_on():
    _, _, runtime = run(parted(sharing={"name": "adafgl", "rounds": 2}, selector=scripted([0, 1, 2], [1, 3]), rounds=3))
    memories = {client: wire.unpack(memory).get("private", {}) for client, memory in remembered(runtime).items()}
    assert sorted(client for client, each in memories.items() if each.get(ACTIVE, [0])[0] == 1) == [1, 3]


@pytest.mark.parametrize(("options", "allowed"), [({"rounds": 0}, ">= 1; got 0"), ({"epochs": -1}, ">= 0; got -1")])
def test_impossible_options_are_refused(options, allowed):
    with pytest.raises(InputError, match=rf"^AdaFGL\.{next(iter(options))} must be {allowed}"):
        AdaFGL(**options)
