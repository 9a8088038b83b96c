"""What a recipe claims is told without data at hand, of how many numbers, units and clients there are."""

import json

import pytest

from fedgraft.errors import InputError
from fedgraft.interface.claimed import Sizes, claimed

BLOCKS = {"data.name": "blocks", "data.nodes": 120, "data.clients": 6, "data.features": 5, "privacy.delta": 0.001}
CHANGES = [f"{key}={json.dumps(value)}" for key, value in BLOCKS.items()]


def test_it_is_the_claim_of_data_that_are_as_large() -> None:
    read = claimed("graft_node_private", CHANGES)
    numbers, units = read["claim"]["parts"][0]["numbers"], read["costs"]["units"]
    said = claimed("graft_node_private", CHANGES, Sizes(numbers, units, 6))
    assert said["claim"] == read["claim"]
    assert said["warnings"] == read["warnings"]
    assert read["costs"].items() > said["costs"].items(), "bytes down depend on more"
    assert (read["without_data"], said["without_data"]) == (False, True)
    assert claimed("graft_node_private", CHANGES, Sizes(numbers, units)) == said, "data.clients says how many"


def test_statistics_that_are_added_up_are_numbers_too() -> None:
    read = claimed("graft_rating_private", ["data.users=300", "data.count=2000", "privacy.delta=1e-4"])
    numbers, costs = read["claim"]["parts"][0]["numbers"], read["costs"]
    said = claimed("graft_rating_private", ["privacy.delta=1e-4"], Sizes(numbers, costs["units"], costs["clients"]))
    assert said["claim"] == read["claim"]
    assert said["costs"]["bytes_up_once"] == costs["bytes_up_once"]


@pytest.mark.parametrize(
    ("changes", "sizes", "error"),
    [
        (
            [],
            Sizes(),
            r"data\.root must be given.*: --numbers N .* --units N \(how many nodes train\)",
        ),
        (["data.root=/nowhere/at/all"], Sizes(), r"nowhere.* how large they are: --numbers N .* --units N"),
        ([], Sizes(numbers=100), r"without data needs --units N \(how many nodes train\), too\."),
        ([], Sizes(units=100), r"without data needs --numbers N \(how many parameters the model has\), too\."),
        ([], Sizes(100, 1000, 2), r"secure_sum\.least_cohort must be at most 2, the number of clients; got 3"),
        (["privacy.shares=9"], Sizes(100, 1000, 5), r"privacy\.shares must be at most 5, the number of clients; got 9"),
        ([], Sizes(100, 200_000, 20), r"privacy\.delta must be below 1 / 200000"),
        (
            ["privacy.unit=client", "privacy.delta=1e-3"],
            Sizes(100, 50, 20),
            r"--units must be 20, the number of clients",
        ),
    ],
)
def test_what_is_lacking_or_cannot_be_kept_is_told(changes: list[str], sizes: Sizes, error: str) -> None:
    with pytest.raises(InputError, match=error):
        claimed("graft_node_private", changes, sizes)


def test_a_client_is_a_unit_that_needs_two_numbers() -> None:
    said = claimed("graft_node_private", ["privacy.unit=client", "privacy.delta=1e-3"], Sizes(100, clients=40))
    assert said["costs"]["units"] == said["costs"]["clients"] == 40


def test_a_recipe_that_is_wrong_is_told_of_that_alone() -> None:
    with pytest.raises(InputError, match=r"patience = 0\.$"):
        claimed("graft_node_private", ["patience=3"], Sizes(100, 1000, 20))
    with pytest.raises(InputError, match="claims no differential privacy"):
        claimed("graft_node", [], Sizes(100, 1000, 20))


def test_the_command_marks_it(fedgraft) -> None:
    sizes = ["--numbers", "1503", "--units", "11830", "--clients", "100"]
    shown = fedgraft("privacy", "graft_node_private", *sizes)
    assert "Computed without data, of the sizes that were given." in shown.out
    assert "11830" in shown.out
    assert fedgraft("privacy", "graft_node_private", *sizes, "--json").json()["without_data"] is True
    refused = fedgraft("privacy", "graft_node_private", "--numbers", "0")
    assert refused.code == 2
    assert "--numbers" in refused.err
