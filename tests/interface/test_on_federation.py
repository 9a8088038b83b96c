"""What `--on` makes of a recipe before anything runs: whose data, which seed, where models are scored."""

import pytest

pytest.importorskip("cryptography", reason="the extra 'flower' is not installed")

from fedgraft.errors import InputError
from fedgraft.experiment.experiment import load
from fedgraft.interface.federated import on_federation
from fedgraft.runtimes.flower_federation.making import make


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "fed", ["north"], load("fedacs", {"seed": 5}).to_toml(), insecure=True)


@pytest.mark.parametrize("recipe", ["fedacs", "the federation's own"])
def test_models_are_scored_at_clients_unless_something_else_is_said(folder, tmp_path, recipe):
    recipe = recipe if recipe == "fedacs" else str(folder.recipe)
    experiment = on_federation(recipe, {}, folder)
    assert (experiment.evaluation.at, experiment.seed, experiment.sections["yardsticks"]) == ("clients", 5, [])
    assert on_federation(recipe, {"evaluation.at": "server"}, folder).evaluation.at == "server"


def test_a_recipe_of_ones_own_that_says_where_is_followed(folder, tmp_path):
    said = tmp_path / "own.toml"
    said.write_text('extends = "fedacs"\n[evaluation]\nat = "server"\n')
    assert on_federation(str(said), {}, folder).evaluation.at == "server"
    said.write_text('extends = "fedacs"\n[evaluation]\nevery = 2\n')
    assert on_federation(str(said), {}, folder).evaluation.at == "clients"


@pytest.mark.parametrize("recipe", ["fedacs", "the federation's own"])
def test_a_switch_masks_updates_at_nodes(folder, recipe):
    made = on_federation(recipe if recipe == "fedacs" else str(folder.recipe), {}, folder, "--secure")
    assert made.plan.collection.assurance
    assert made.sections["codec"]["scale"] == "agreed"


def test_a_switch_changes_nothing_of_the_federations_task(tmp_path):
    own = load("graft_node", {"data.name": "blocks"})
    folder = make(tmp_path / "fed", ["north"], own.to_toml(), insecure=True)
    with pytest.raises(InputError, match=r"task\.refit = ''.* Set by you, and so not changed: task\.$"):
        on_federation("graft_node", {}, folder, "--secure")
