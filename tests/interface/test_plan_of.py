"""A node takes part in runs on its own data alone."""

import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.runtimes.federation.site_limits import SiteLimits

node = pytest.importorskip("fedgraft.interface.plan_of", reason="the extra 'flower' is not installed")
CHANGES = {
    "data.name": "nodes",
    "data.nodes": "nodes.csv",
    "data.edges": "edges.csv",
    "data.features": ["a", "b"],
    "task.class_names": ["x", "y"],
    "task.features": 2,
    "task.classes": 2,
}


def test_lists_in_a_recipe_are_those_that_a_server_sends(tmp_path, monkeypatch) -> None:
    own = load("fedais", CHANGES)
    monkeypatch.chdir(tmp_path)  # paths are of this machine, and are not compared
    assert node.plan_of(load("fedais", {**CHANGES, "rounds": 3}).to_toml().encode(), own).task == own.plan.task


def test_another_list_is_another_recipe() -> None:
    recipe = load("fedais", {**CHANGES, "data.features": ["b", "a"]}).to_toml().encode()
    with pytest.raises(InputError, match=r"its \[data\] is not that of this node's recipe"):
        node.plan_of(recipe, load("fedais", CHANGES))


@pytest.mark.parametrize(
    "changed",
    [('"node_majority"', '"evil:Yard"'), ('name = "fedavg"', 'name = "evil:Sharing"')],
    ids=["short form in a list", "name of a method"],
)
def test_a_server_s_recipe_cannot_name_a_class_that_the_node_s_own_does_not(changed) -> None:
    """Nothing of it is imported: there is no module of that name."""
    own = load("fedais", {**CHANGES, "baselines": ["node_majority"], "sharing.name": "fedavg"})
    recipe = own.to_toml()
    assert changed[0] in recipe
    with pytest.raises(InputError, match=r"it names the class 'evil:.*', which this node's recipe does not"):
        node.plan_of(recipe.replace(*changed).encode(), own)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            ("epochs = 5", "epochs = 1000000000"),
            r"training\.epochs must be at most 1000, limits\.epochs of this node; got",
        ),
        (("[data]\n", "[other]\n"), r"its \[data\] is not that of this node's recipe"),
        (None, r"data must be a section such as \[data\]; got 1\."),
    ],
    ids=["a thousand million epochs", "no data", "data are a number"],
)
def test_a_server_s_recipe_that_is_none_of_this_site_is_refused_in_words(changed, said) -> None:
    own = load("fedais", {**CHANGES, "training.epochs": 5})
    recipe = own.to_toml()
    assert changed is None or changed[0] in recipe
    with pytest.raises(InputError, match=said):
        node.plan_of((recipe.replace(*changed) if changed else "data = 1").encode(), own)


def test_a_server_s_choices_are_held_against_the_node_s_own_recipe_with_what_all_agree_on() -> None:
    own = load("fedais", CHANGES)
    recipe = load("fedais", {**CHANGES, "model.hidden": [1000], "rounds": 2}).to_toml().encode()
    with pytest.raises(InputError, match=r"^model\.hidden is \[1000\] in the server's recipe and \[32, 16\] in this"):
        node.plan_of(recipe, own)
    plan = node.plan_of(recipe, own, SiteLimits(allow=("model.hidden",)))
    assert plan.task.encoder.hidden == (1000,)


def test_what_a_server_leaves_out_has_its_default() -> None:
    own = load("fedais", {**CHANGES, "training.epochs": 5})
    recipe = own.to_toml().replace("epochs = 5\n", "")
    with pytest.raises(InputError, match=r"^training\.epochs is 1 in the server's recipe and 5 in this node's"):
        node.plan_of(recipe.encode(), own)


def test_a_portable_run_is_refused_where_the_node_was_not_started_for_one() -> None:
    own = load("fedais", CHANGES)
    recipe = load("fedais", {**CHANGES, "runtime.portable": True}).to_toml().encode()
    with pytest.raises(InputError, match=r"runtime\.portable = true(, but this process loaded| is for x86-64)"):
        node.plan_of(recipe, own)
