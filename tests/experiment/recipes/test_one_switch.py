"""One switch makes a recipe suit secure sums, and tells what it changed; where it cannot, one error tells all."""

import logging

import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.described import without_data
from fedgraft.experiment.job import Job, chosen, load
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.recipes.recipe_files import recipes
from fedgraft.experiment.running.runner import execute
from helpers.tiers import long_but_for

SWITCH = "--secure"
NODES = {"data.name": "blocks", "data.nodes": 120, "data.clients": 4, "data.features": 8, "model.hidden": [8]}
GRAPHS = {"data.name": "molecules", "data.graphs": 40, "data.clients": 4, "model.hidden": 8}
RATINGS = {"data.users": 60, "data.items": 80, "data.categories": 4, "data.count": 600, "data.clients": 4}
RANKING = {"data.name": "catalogue", "data.users": 60, "data.items": 40, "data.count": 900, "data.clients": 4}
SMALL = {
    "graft_node": NODES,
    "graft_graph": GRAPHS,
    "graft_rating": RATINGS,
    "graft_ranking": RANKING,
    "plain_gcn": NODES,
    "fedais": {**NODES, "model.hidden": [8, 8]},
    "cefgl_paper": GRAPHS,
    "reputation_ucb": RANKING,
    "rafhgl": {"data.name": "typed_blocks"},
}
"""Tiny data for recipes of every task; rafhgl learns whom to choose, and its sampler may share arrays."""


def secured(recipe: str) -> Job | str:
    """A recipe with the switch on, or why there is none."""
    try:
        return without_data(recipe, switch=SWITCH)
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("recipe", recipes())
def test_every_recipe_suits_or_is_refused_in_one_error(recipe: str) -> None:
    made = secured(recipe)
    if isinstance(made, str):
        assert "secure_sum.name = 'secagg'" in made
        return
    assert made.plan.collection.assurance
    assert made.settings.evaluation.at in ("clients", "home")
    if made.plan.connected and not made.plan.privacy.active:
        assert made.plan.sum_coding is not None
    alike = type(made).from_toml(made.to_toml())
    assert alike.recipe.sections == made.recipe.sections, (
        "the resolved recipe says what was changed, and suits by itself"
    )


@pytest.mark.parametrize("recipe", long_but_for(["graft_node", "graft_graph", "graft_rating", "rafhgl"], SMALL))
def test_what_is_said_to_suit_runs_with_masks(recipe: str) -> None:
    common = {**SMALL[recipe], "rounds": 2, "baselines": [], "runtime.workers": 0}
    found = execute(load(recipe, common, SWITCH))
    assert found["bytes"]["masking"] > 0
    assert not any(found["failures"].values())


def test_masks_alone_as_an_override_change_the_same(caplog: pytest.LogCaptureFixture) -> None:
    switched = without_data("graft_node", switch=SWITCH)
    assert "--secure changes answers.refit to '', codec.scale to 'agreed'" in caplog.text
    caplog.clear()
    given = without_data("graft_node", {"secure_sum.name": "secagg"})
    assert given.recipe.sections == switched.recipe.sections
    assert "secure_sum.name = 'secagg' changes answers.refit to '', codec.scale to 'agreed'" in caplog.text
    clear = without_data("graft_node", {"secure_sum.name": "clear"})
    assert clear.recipe.sections["codec"] == switched.recipe.sections["codec"], "the same numbers, unmasked"
    assert clear.recipe.sections["task"] == switched.recipe.sections["task"]


def test_nothing_is_told_where_nothing_is_changed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert without_data("graft_node_private", switch=SWITCH).plan.privacy.active
    assert not caplog.text


def test_what_goes_well_gives_way_to_what_the_user_has_set() -> None:
    set_by_user = {"codec.bits": 6, "codec.rounding": "nearest", "selector.clients": 5}
    made = without_data("graft_node", set_by_user, SWITCH).recipe.sections
    assert (made["codec"]["bits"], made["codec"]["rounding"], made["selector"]["clients"]) == (6, "nearest", 5)
    assert made["codec"]["scale"] == "agreed"


def test_a_codec_of_many_bits_gives_way_and_one_of_few_keeps_them() -> None:
    assert without_data("plain_gcn", switch=SWITCH).recipe.sections["codec"]["bits"] == 8, "it sent 32"
    assert without_data("graft_node", switch=SWITCH).recipe.sections["codec"]["bits"] == 3
    paper = without_data("cefgl_paper", switch=SWITCH).recipe.sections
    assert paper["codec"]["bits"] == 8, "its alternative for fedavg has 32"
    assert paper["downlink"]["bits"] == 32, "by that alternative"


def test_a_selector_that_learns_gives_way_to_a_draw_of_as_many_clients() -> None:
    assert without_data("rafhgl", switch=SWITCH).recipe.sections["selector"] == {
        "name": "random",
        "clients": 4,
        "probability": 0.5,
        "warm_up": 0,
    }


def test_noise_has_codes_of_its_own() -> None:
    noise = {"privacy.unit": "client", "privacy.epsilon": 4.0, "privacy.delta": 1e-3}
    made = without_data("graft_node", noise, SWITCH)
    assert made.recipe.sections["codec"]["name"] == "identity"
    assert made.plan.privacy.active


def test_a_users_file_asks_for_it_and_keeps_what_it_says(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    base, file = tmp_path / "base.toml", tmp_path / "own.toml"
    base.write_text('extends = "graft_node"\ncodec = { bits = 5 }\n')
    file.write_text('extends = "base.toml"\n[secure_sum]\nname = "secagg"\n')
    made = without_data(str(file))
    assert made.recipe.sections["codec"]["bits"] == 5
    assert made.recipe.sections["codec"]["scale"] == "agreed"
    assert "changes answers.refit to ''" in caplog.text
    base.write_text('extends = "graft_node"\naggregation = "median"\n[codec]\nscale = "max"\n')
    with pytest.raises(InputError) as error:
        without_data(str(file))
    assert "2 things must change" in str(error.value)
    assert "Set by you, and so not changed: aggregation.name, codec.scale." in str(error.value)


@pytest.mark.parametrize(
    ("section", "content"),
    [
        ("codec", {"name": "quantized", "bits": 6, "feedback": True}),
        ("codec", [{"name": "low_rank"}, {"name": "quantized", "bits": 32}]),
        ("codec", {"name": "quantized", "bits": 4, "bucket": 0}),
        ("codec", {"name": "feedback", "codec": {"name": "sparse"}}),
        ("sharing", {"name": "scaffold"}),
        ("aggregation", {"name": "median"}),
        ("selector", {"name": "power_of_choice", "clients": 2}),
        ("selector", {"name": "random", "clients": 2}),
        ("safeguards", {"clip": 1.0}),
        ("clock", {"late": "drop"}),
        ("evaluation", {"local_steps": True}),
        ("secure_sum", {"name": "clear"}),
    ],
)
def test_a_recipes_own_options_are_changed(section: str, content: object) -> None:
    held = Recipe.read("plain_gcn").with_sections({section: content, "data": {"name": "blocks"}})
    made = chosen(held, {}, SWITCH)
    assert made.plan.collection.assurance
    assert made.plan.sum_coding is not None


def test_an_experiment_keeps_what_its_users_file_says(tmp_path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('extends = "plain_gcn"\naggregation = "median"\ndata = "blocks"\n')
    experiment = load(str(file))
    with pytest.raises(InputError, match=r"and so not changed: aggregation\.name\."):
        chosen(experiment.recipe, {}, SWITCH)
