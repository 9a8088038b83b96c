"""What `--on` makes of a recipe before anything runs: whose data, which seed, where models are scored."""

import pytest

pytest.importorskip("cryptography", reason="the extra 'flower' is not installed")

from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.interface.federated import keys_made_here, on_federation
from fedgraft.runtimes.federation.making import make


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "fed", ["north"], load("fedacs", {"seed": 5}).to_toml(), insecure=True)


@pytest.mark.parametrize("recipe", ["fedacs", "the federation's own"])
def test_models_are_scored_at_clients_unless_something_else_is_said(folder, tmp_path, recipe):
    recipe = recipe if recipe == "fedacs" else str(folder.recipe)
    experiment = on_federation(recipe, {}, folder)
    assert (experiment.settings.evaluation.at, experiment.seed, experiment.recipe.sections["baselines"]) == (
        "clients",
        5,
        [],
    )
    assert on_federation(recipe, {"evaluation.at": "server"}, folder).settings.evaluation.at == "server"


def test_where_no_score_leaves_a_client_none_is_asked_for(tmp_path):
    own = load("graft_rating_private", {"data.users": 30, "data.items": 30, "data.count": 200})
    folder = make(tmp_path / "fed", ["north", "south", "west"], own.to_toml(), insecure=True)
    for recipe in ("graft_rating_private", str(folder.recipe)):
        assert on_federation(recipe, {}, folder).settings.evaluation.at == "home"


def test_a_recipe_of_ones_own_that_says_where_is_followed(folder, tmp_path):
    said = tmp_path / "own.toml"
    said.write_text('extends = "fedacs"\n[evaluation]\nat = "server"\n')
    assert on_federation(str(said), {}, folder).settings.evaluation.at == "server"
    said.write_text('extends = "fedacs"\n[evaluation]\nevery = 2\n')
    assert on_federation(str(said), {}, folder).settings.evaluation.at == "clients"


def test_keys_that_the_server_has_made_are_one_of_all_reasons(tmp_path):
    """Told before a node is asked, with what else keeps signatures from proving anything."""
    own = load("graft_node_private", {"data.name": "blocks"}).to_toml()
    made = make(tmp_path / "fed", ["north", "south"], own)
    with pytest.raises(InputError) as error:
        on_federation("graft_node_private", {"secure_sum.signed": True, "patience": 2}, made)
    said = str(error.value)
    assert said.startswith("2 things must change: ")
    assert "patience = 0" in said
    assert "the server made the keys of north, south, so that it could sign for them: have each site make its" in said


def test_a_federation_is_not_made_with_its_keys_for_all_reasons_at_once():
    with pytest.raises(InputError) as error:
        load(
            "graft_node_private",
            {"data.name": "blocks", "secure_sum.signed": True, "patience": 2},
            also=keys_made_here,
        )
    assert "patience = 0; secure_sum.signed = true, and this command makes keys at the server" in str(error.value)


@pytest.mark.parametrize("recipe", ["fedacs", "the federation's own"])
def test_a_switch_masks_updates_at_nodes(folder, recipe):
    made = on_federation(recipe if recipe == "fedacs" else str(folder.recipe), {}, folder, "--secure")
    assert made.plan.collection.assurance
    assert made.recipe.sections["codec"]["scale"] == "agreed"


def test_a_switch_changes_nothing_of_the_federations_task(tmp_path):
    own = load("graft_node", {"data.name": "blocks"})
    folder = make(tmp_path / "fed", ["north"], own.to_toml(), insecure=True)
    with pytest.raises(InputError, match=r"answers\.refit = ''.* Set by you, and so not changed: answers\.$"):
        on_federation("graft_node", {}, folder, "--secure")
