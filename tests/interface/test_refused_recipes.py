"""A node tells a code; what the federation's own recipe says of a refused one, the server's operator reads at once."""

import pytest

pytest.importorskip("cryptography", reason="the extra 'flower' is not installed")

from fedgraft.engine.protocol.codes import DATA, POLICY, RECIPE
from fedgraft.experiment import job as jobs
from fedgraft.interface.federated_run import _beside_own
from fedgraft.runtimes.federation.making import make

CHANGES = {"data.name": "blocks", "data.clients": 2, "baselines": []}


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "fed", ["north", "south"], jobs.load("plain_gcn", CHANGES).to_toml())


def test_what_the_own_recipe_refuses_is_said_with_the_option(folder):
    wider = jobs.load("plain_gcn", {**CHANGES, "model.hidden": [1000]})
    said = _beside_own(wider, folder, RECIPE)
    assert said.startswith(f" A node with {folder.recipe} says: model.hidden is [1000] in the server's recipe and [")
    assert '[limits] allow = ["model.hidden"]' in said


@pytest.mark.parametrize("code", [RECIPE, POLICY, DATA])
def test_what_it_takes_adds_nothing(folder, code):
    same = jobs.load("plain_gcn", {**CHANGES, "rounds": 7})
    assert _beside_own(same, folder, code) == ""
    wider = jobs.load("plain_gcn", {**CHANGES, "model.hidden": [1000]})
    assert _beside_own(wider, folder, DATA) == ""
