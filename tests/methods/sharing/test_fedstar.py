import numpy as np
import pytest

from fedgraft import wire
from fedgraft.contracts import Update
from fedgraft.errors import InputError
from fedgraft.experiment.job import build
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.methods.sharing.fedstar import FedStar
from helpers.toy_runs import remembered, run, same, toy


def test_a_worked_example():
    # n = (10, 30): 1/4 of (4, 0) and 3/4 of (0, 8).
    method = FedStar()
    state = method.init({"structure.w": np.array([1, 2], np.float32)}, clients=2)
    uploads = [{"structure.w": np.array(values, np.float32)} for values in ((4, 0), (0, 8))]
    state = method.merge(state, [Update(0, 10 / 40, uploads[0]), Update(1, 30 / 40, uploads[1])])
    assert method.model(state)["structure.w"].tolist() == [2, 8]


def test_only_the_channel_of_structure_travels():
    experiment = toy(sharing={"name": "fedstar"}, data={"name": "helpers.toy_parts:Lines"})
    _, _, runtime = run(experiment)
    assert set(experiment.plan.first) == {"structure.weight", "structure.bias"}
    kept = [wire.unpack(memory)["private"] for memory in remembered(runtime).values()]
    assert all(set(own) == {"base.weight", "base.bias", "head.outer.weight"} for own in kept)
    assert not same(kept[0]["base.weight"], kept[1]["base.weight"])


def test_the_graph_task_is_given_the_channel():
    sections = {"selector": {"name": "all"}, "data": {"name": "molecules"}, "model": {"name": "gin"}}
    shared = {
        name: build(Recipe("graph", {**sections, "sharing": {"name": name}, "baselines": []})).plan.first
        for name in ("fedstar", "fedavg")
    }
    assert shared["fedstar"]
    assert all(name.startswith("structure.") for name in shared["fedstar"])
    assert not any(name.startswith("structure.") for name in shared["fedavg"])


def test_a_model_without_the_channel_is_refused():
    with pytest.raises(InputError, match=r"begin with 'structure\.'; this model has none"):
        FedStar().init({}, clients=2)
