import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import Update
from fedgraft.errors import InputError
from fedgraft.experiment.job import Job, build
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.methods.sharing.fedper import FedPer
from helpers.toy_runs import remembered, run, same, toy


def test_a_worked_example():
    method = FedPer(private=("head.",))
    assert [method.shares(name) for name in ("base.w", "head.w", "ahead.w")] == [True, False, True]
    state = method.init({"base.w": np.array([1, 2], np.float32)}, clients=2)
    # n = (10, 30): 1/4 of (4, 0) and 3/4 of (0, 8).
    uploads = [{"base.w": np.array(values, np.float32)} for values in ((4, 0), (0, 8))]
    state = method.merge(state, [Update(0, 10 / 40, uploads[0]), Update(1, 30 / 40, uploads[1])])
    assert method.model(state)["base.w"].tolist() == [2, 8]


def test_a_private_layer_is_never_reset():
    # Algorithm 1: a client goes on from its own last layers. Client 0 trains in round 1 only.
    sharing = {"name": "fedper", "private": ["bias"]}
    selector = {"name": "helpers.toy_methods:Scripted", "cohorts": [[0, 1], [1], [1]]}
    biases = {}
    for rounds in (1, 3):
        _, _, runtime = run(toy(sharing=sharing, selector=selector, rounds=rounds))
        memories = {client: wire.unpack(memory) for client, memory in remembered(runtime).items()}
        biases[rounds] = [float(memories[client]["private"]["bias"][0]) for client in (0, 1)]
    assert biases[3][0] == biases[1][0]
    assert biases[3][1] != biases[1][1]


def test_with_nothing_private_it_is_fedavg():
    personal, _, _ = run(toy(sharing={"name": "fedper", "private": []}))
    average, _, _ = run(toy(sharing={"name": "fedavg"}))
    assert same(personal.sharing["model"], average.sharing["model"])


def test_by_default_the_last_layers_of_both_tasks_are_private():
    sections = {"selector": {"name": "all"}, "sharing": {"name": "fedper"}, "baselines": []}
    graph = build(Recipe("graph", {**sections, "data": {"name": "molecules"}, "model": {"name": "gin"}}))
    assert {name.split(".")[1] for name in graph.plan.first} == {"0"}
    rating = build(Recipe("rating", {**sections, "data": {"name": "shops"}, "model": {"name": "gcn"}}))
    assert set(rating.plan._initial) - set(rating.plan.first) == {"out.weight", "out.bias"}
    assert Job.from_toml(graph.to_toml()).plan.sharing == graph.plan.sharing


def test_something_must_be_left_to_share():
    with pytest.raises(InputError, match=r"leaves nothing to share; sharing\.name=local says so"):
        run(toy(sharing={"name": "fedper", "private": ["weight", "bias"]}))


def test_an_empty_beginning_would_be_everything():
    with pytest.raises(InputError, match=r"^FedPer\.private must be beginnings of names, none of them empty"):
        FedPer(private=("head.", ""))
