"""What replies tell of a client: known from a recipe, for all recipes and methods."""

from dataclasses import fields, replace

import pytest

from fedgraft.contracts.capabilities import CAPABILITIES
from fedgraft.engine.protocol import transport
from fedgraft.engine.protocol.message_kind import MessageKind
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.engine.protocol.table import TABLE
from fedgraft.experiment.described import without_data
from fedgraft.experiment.recipes.recipe import Recipe
from fedgraft.experiment.recipes.recipe_files import recipes
from fedgraft.wire.layouts import Layout, Spec


def all_told(recipe: str, **changes: object) -> set[str]:
    """What the recipe has a client tell, whoever scores."""
    options = {"evaluation.at": "clients", **{key.replace("__", "."): value for key, value in changes.items()}}
    told = Protocol.of(without_data(recipe, options).plan).tells
    return {word for words in told.values() for word in words}


@pytest.mark.parametrize("recipe", sorted(recipes()))
def test_each_recipe_says_what_every_reply_tells(recipe) -> None:
    single = set() if "secure_sum" in Recipe.read(recipe).sections else {"losses", "scores"}  # masked ones tell nothing
    assert {"sizes"} | single <= all_told(recipe) <= set(CAPABILITIES)


def test_golden_recipes() -> None:
    """As docs/security.md has them, message by message."""
    always = {"sizes", "losses", "scores"}
    assert all_told("graft_rating") == always | {"users"}
    assert all_told("graft_ranking") == always | {"update"}
    assert all_told("fedacs") == always | {"users", "update"}
    assert all_told("fedgnn") == always | {"users", "update"}
    assert all_told("graft_once") == always | {"class_counts", "rows", "sums", "answers"}
    assert all_told("fedais") == always | {"class_counts", "features", "rows", "states", "update"}
    assert all_told("rafhgl") == always | {"class_counts", "prototypes", "update"}


@pytest.mark.parametrize(
    ("recipe", "option", "value", "word"),
    [
        ("fedais", "exchange.features", False, "features"),
        ("fedais", "exchange.states", False, "states"),
        ("graft_node", "answers.share_labels", True, "labels"),
        ("fedacs", "task.share", "nothing", "users"),
        ("plain_gcn", "sharing.name", "fedproto", "prototypes"),
        ("plain_gcn", "sharing.name", "fedgta", "class_counts"),
        ("plain_gcn", "sharing.name", "local", "update"),
    ],
)
def test_an_option_that_shares_less_or_more_is_seen(recipe, option, value, word) -> None:
    before, after = all_told(recipe), all_told(recipe, **{option.replace(".", "__"): value})
    if word == "class_counts":  # scores of classes tell them anyway
        assert word in Protocol.of(without_data(recipe, {option: value}).plan).tells["train"]
    else:
        assert (word in before) != (word in after)


def test_an_array_that_says_nothing_is_an_error_of_its_method() -> None:
    plan = without_data("fedacs").plan

    class Quiet(type(plan.sharing)):
        def downloads(self, model):
            return model

        def uploads(self, model):
            return Layout((*model, Spec("secret", "float32", (1,))))

    with pytest.raises(TypeError, match="'secret' must say what it tells"):
        _ = Protocol.of(replace(plan, sharing=Quiet())).tells


def test_a_row_is_no_longer_than_any_other_set_of_options() -> None:
    assert len(fields(MessageKind)) <= 20


def test_what_leaves_beside_messages_is_a_row_with_its_fields() -> None:
    """No second list: `transport` lets out what a row declares."""
    declared = {name: row.fields for name, row in TABLE.items() if row.fields}
    assert declared == transport.FIELDS
    assert all(TABLE[name].number is None for name in declared)


def test_who_asks_and_who_answers_is_said_by_the_row() -> None:
    assert {name for name, row in TABLE.items() if row.reply is None} == {"scored", "rows"}
    assert {name for name, row in TABLE.items() if row.request is None} == {"wait", "error", "envelope", "refusal"}
