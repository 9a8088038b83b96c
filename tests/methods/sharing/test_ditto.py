import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgraft import wire
from fedgraft.errors import InputError
from fedgraft.methods.sharing.ditto import Ditto
from helpers.sharing_clients import Quadratic
from helpers.toy_runs import remembered, run, same, scripted, toy


def one(*values):
    return {"w": np.array(values, np.float32)}


def own(runtime):
    """{client: its personal model}, of those that have trained."""
    memories = {client: wire.unpack(memory) for client, memory in remembered(runtime).items()}
    return {client: memory["sharing"]["personal"] for client, memory in memories.items() if "sharing" in memory}


def test_a_worked_example():
    # Goal (3, 0), rate 1/2, lambda 1. w from (1, 2): (2, 1), then (2.5, 0.5). v begins there too: (2, 1) without a
    # pull yet, then gradient (-1, 1) and pull (1, -1): it stays.
    trainer = Quadratic(one(3, 0), steps=2, rate=0.5)
    update, memory = Ditto(pull=1.0).local_update(trainer, one(1, 2), None)
    assert update["w"].tolist() == [1.5, -1.5]
    assert memory["personal"]["w"].tolist() == [2, 1]
    # The next global model is (4, 1). w: (3.5, 0.5), (3.25, 0.25). v goes on from (2, 1): gradient (-1, 1) and pull
    # (-2, 0), so (3.5, 0.5); then (0.5, 0.5) and (-0.5, -0.5): it stays.
    update, memory = Ditto(pull=1.0).local_update(trainer, one(4, 1), memory)
    assert update["w"].tolist() == [-0.75, -0.75]
    assert memory["personal"]["w"].tolist() == [3.5, 0.5]
    assert Ditto().personalise(one(9, 9), memory)["w"].tolist() == [3.5, 0.5]
    assert Ditto().personalise(one(9, 9), None)["w"].tolist() == [9, 9]
    assert same(Ditto().inherited(memory), memory)


@given(st.floats(0, 1e6), st.floats(-10, 10, width=32))
def test_the_objective_of_the_paper(pull, received):
    # argmin 1/2 ||v - goal||^2 + lambda / 2 ||v - w||^2 = (goal + lambda w) / (1 + lambda): between the
    # goal, where each trains alone, and the global model. At rate 1 / (1 + lambda) one step goes all the way.
    trainer = Quadratic(one(3), steps=1, rate=1 / (1 + pull))
    memory = {"personal": one(-7), "ends": {}}
    _, memory = Ditto(pull=pull).local_update(trainer, one(received), memory)
    assert memory["personal"]["w"][0] == pytest.approx((3 + pull * received) / (1 + pull), rel=1e-4, abs=1e-4)
    assert abs(memory["personal"]["w"][0] - received) <= 20 / (1 + pull) + 1e-4, "with lambda -> infinity it is w"


def test_private_parameters_are_free_and_each_model_has_its_own():
    targets = {**one(3), "head": np.array([8], np.float32)}
    trainer = Quadratic(targets, rate=0.5)
    method, memory = Ditto(pull=1e6), None
    for ends, mine in ((4, 4), (6, 6)):
        update, memory = method.local_update(trainer, one(3), memory)
        assert update.keys() == memory["personal"].keys() == {"w"}
        assert memory["ends"]["head"].tolist() == [ends]
        assert trainer.read(["head"])["head"].tolist() == [mine], "v's own, which the client keeps"
    trainer.load({"head": np.array([0], np.float32)})
    _, memory = method.local_update(trainer, one(3), memory)
    assert memory["ends"]["head"].tolist() == [7]
    assert trainer.read(["head"])["head"].tolist() == [4]


def test_the_global_model_and_the_bytes_are_those_of_fedavg():
    changes = {"sampler": {"name": "all", "batch_size": 4}, "rounds": 3}
    ditto, rows, runtime = run(toy(sharing={"name": "ditto", "pull": 0.3}, **changes))
    average, others, _ = run(toy(sharing={"name": "fedavg"}, **changes))
    assert same(ditto.sharing["model"], average.sharing["model"])
    assert [row.bytes for row in rows] == [row.bytes for row in others]
    sent = [message for *_, message in [*runtime.sent, *runtime.received]]
    personal = own(runtime)
    assert len(personal) == 5
    for model in personal.values():
        assert not any(model["weight"].tobytes() in message for message in sent), "no personal model travels"
        assert not same(model, ditto.sharing["model"])


def test_without_a_pull_everybody_trains_alone():
    _, _, runtime = run(toy(sharing={"name": "ditto", "pull": 0}))
    _, _, alone = run(toy(sharing={"name": "local"}))
    models = {client: wire.unpack(memory)["private"] for client, memory in remembered(alone).items()}
    assert same(own(runtime), models)


def test_with_a_strong_pull_everybody_has_the_global_model():
    changes = {"training": {"optimizer": "sgd", "learning_rate": 0.001, "schedule": "constant"}, "rounds": 4}
    gaps = {}
    for pull in (1.0, 1000.0):  # at this rate the latter goes all the way
        state, _, runtime = run(toy(sharing={"name": "ditto", "pull": pull}, **changes))
        before, _, _ = run(toy(sharing={"name": "fedavg"}, **{**changes, "rounds": 3}))
        received = before.sharing["model"]
        gaps[pull] = max(np.abs(model["weight"] - received["weight"]).max() for model in own(runtime).values())
        assert state.round == 4
    assert gaps[1000.0] < 0.011, "a gradient of at most 11, divided by lambda"
    assert gaps[1000.0] < gaps[1.0]


def test_who_is_not_selected_keeps_its_model_and_who_has_none_answers_with_the_global_one():
    sharing = {"name": "ditto"}
    models = [
        own(run(toy(sharing=sharing, selector=scripted([0, 1], [1], [1]), rounds=rounds))[2]) for rounds in (1, 3)
    ]
    assert [sorted(each) for each in models] == [[0, 1], [0, 1]]
    assert same(models[0][0], models[1][0])
    assert not same(models[0][1], models[1][1])


def test_epochs_of_the_personal_model():
    assert Ditto().runs(3) == (3, 3)
    assert Ditto(personal_epochs=2).runs(3) == (3, 2)
    plain, more = (run(toy(sharing={"name": "ditto", "personal_epochs": epochs}, rounds=1)) for epochs in (0, 5))
    assert same(plain[0].sharing["model"], more[0].sharing["model"])
    assert not same(own(plain[2]), own(more[2]))


@pytest.mark.parametrize("options", [{"pull": -0.1}, {"pull": float("nan")}, {"personal_epochs": -1}])
def test_impossible_options_are_refused(options):
    with pytest.raises(InputError, match=rf"^Ditto\.{next(iter(options))} must be >= 0; got"):
        Ditto(**options)
