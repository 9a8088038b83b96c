"""A recipe whose sums cannot hide what is asked for is refused before anything runs, with all reasons at once."""

from collections.abc import Mapping
from typing import Any

import pytest

from fedgraft.errors import InputError
from fedgraft.experiment.described import without_data
from fedgraft.experiment.job import load
from fedgraft.experiment.recipes.options import Finding, UnsuitedError

NOISE = {"privacy.unit": "node", "privacy.epsilon": 4.0, "privacy.delta": 1e-5}


def refusal(recipe: str, changes: dict, switch: str = "") -> str:
    with pytest.raises(InputError) as error:
        without_data(recipe, changes, switch)
    return str(error.value)


def test_all_that_sees_single_updates_is_told_at_once() -> None:
    changes = {"selector.name": "oort", "aggregation.name": "median", "evaluation.at": "server", "clock.late": "drop"}
    said = refusal("plain_gcn", changes, "--secure")
    assert said.startswith("4 things must change: secure_sum.name = 'secagg' adds updates up, but selector Oort needs")
    for remedy in ("selector.name = 'random'", "aggregation.name = 'mean'", "clock.late = 'wait'"):
        assert remedy in said
    assert said.endswith("not changed: aggregation.name, clock.late, evaluation.at, selector.name.")
    assert "codec" not in said, "what the user has not set was changed"


def test_masks_and_noise_tell_together() -> None:
    said = refusal("plain_gcn", NOISE)
    assert "evaluation.at = 'clients'" in said
    assert "each update is sent by itself: secure_sum.name = 'secagg'" in said
    for option in ("epochs", "optimizer", "keep_moments", "weight_decay"):
        assert f"training.{option} = " in said


def test_what_noise_does_not_hide_is_told_together() -> None:
    said = refusal("graft_node_private", {"exchange.features": True, "loss.class_weights": "balanced", "patience": 2})
    for reason in ("clients tell each other of nodes", "class_counts, features without noise", "patience = 0"):
        assert reason in said


CLIENT = {"privacy.unit": "client", "training.epochs": 2, "privacy.delta": 1e-4}


@pytest.mark.parametrize(("recipe", "changes"), [("graft_node_private", CLIENT), ("graft_node_central", {})])
def test_states_of_boundary_nodes_are_told_beside_sums_and_noisy_models(
    recipe: str, changes: dict[str, object]
) -> None:
    """The break: hidden states went to other clients as they are, under a claim for whole clients."""
    states = {"data.name": "blocks", "exchange.states": True, "model.name": "sage", "model.hidden": 8}
    said = refusal(recipe, {**states, **changes})
    assert "messages of kind 'train' tell states without noise: exchange.states = false" in said


def test_too_few_clients_are_one_of_the_reasons() -> None:
    few = {"selector.name": "random", "selector.clients": 2}
    said = refusal("plain_gcn", {**few, "evaluation.at": "server"}, "--secure")
    assert "selector.clients = 2 is below secure_sum.least_cohort = 3: selector.clients = 3 or more" in said
    assert "evaluation.at = 'clients'" in said


def test_fewer_clients_in_the_data_are_one_of_the_reasons() -> None:
    said = refusal("graft_node_private", {"data.name": "blocks", "data.clients": 2, "patience": 2})
    assert said.startswith("2 things must change: ")
    assert "data.clients = 2 is below secure_sum.least_cohort = 3: data.clients = 3 or more" in said
    shares = refusal("graft_node_private", {"data.name": "blocks", "data.clients": 4, "privacy.shares": 9})
    assert shares == "data.clients = 4 is below privacy.shares = 9: data.clients = 9 or more."


def beside(recipe: Mapping[str, Any]) -> list[Finding]:
    return [Finding(f"what is beside {recipe['privacy']['unit']}", "leave it out")]


def test_what_is_beside_the_recipe_is_told_with_the_rest() -> None:
    """Such as the run that it begins with, or who made the keys of a federation."""
    with pytest.raises(UnsuitedError) as error:
        load("graft_node_private", {"data.name": "blocks", "patience": 2}, also=beside)
    assert str(error.value).startswith("2 things must change: privacy.unit = 'node' hides a node, but patience")
    assert str(error.value).endswith("patience = 0; what is beside node: leave it out.")
    with pytest.raises(UnsuitedError) as error:
        load("graft_node_private", {"data.name": "blocks"}, also=beside)
    assert str(error.value) == "what is beside node: leave it out."
    load("graft_node_private", {"data.name": "blocks"}, also=lambda recipe: [])


def test_what_the_user_has_set_is_named_behind_all_of_them() -> None:
    with pytest.raises(UnsuitedError) as error:
        load(
            "plain_gcn",
            {"data.name": "blocks", "selector.name": "oort"},
            "--secure",
            lambda recipe: [Finding("a", "b")],
        )
    assert str(error.value).endswith("; a: b. Set by you, and so not changed: selector.name.")


def test_a_single_reason_is_the_whole_text() -> None:
    said = refusal("graft_node_private", {"patience": 3})
    assert said == (
        "privacy.unit = 'node' hides a node, but patience would end a run by scores that hold no noise: patience = 0."
    )


@pytest.mark.parametrize("name", ["", "clear"])
def test_a_switch_and_a_sum_that_is_not_masked_contradict_each_other(name: str) -> None:
    said = refusal("plain_gcn", {"secure_sum.name": name}, "--secure")
    assert said == f"secure_sum.name must be 'secagg' with --secure, or left out; got {name!r}."


def test_who_trains_alone_has_nothing_to_mask() -> None:
    assert "take sharing.name = " in refusal("plain_gcn", {"sharing.name": "local"}, "--secure")


def test_an_option_of_a_method_that_must_go_is_the_users() -> None:
    said = refusal("graft_graph", {"sharing.pull": 0.02}, "--secure")
    assert "with sharing CEFGL clients have rounds of their own" in said
    assert said.endswith("Set by you, and so not changed: sharing.pull.")


def test_a_value_that_no_sum_allows_is_named() -> None:
    assert refusal("graft_node", {"codec.bits": 32}, "--secure").endswith("not changed: codec.bits.")
