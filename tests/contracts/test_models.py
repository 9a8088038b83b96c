"""Every graph encoder keeps the laws of `fedgraft.testing`; new files of the family are found by themselves."""

import dataclasses
from typing import Any

import pytest
import torch

from fedgraft.contracts.encoder import EdgeEncoder, LayeredEncoder
from fedgraft.experiment.recipes import discovery
from fedgraft.methods.tasks.rating import Rating
from fedgraft.testing.laws import Law
from helpers.laws import held
from laws import encoders

NAMES = discovery.names("models")
LAYERED = [name for name in NAMES if issubclass(discovery.find("models", name), LayeredEncoder)]
OPTIONS = {"network": {"module": "torch_geometric.nn:GraphSAGE", "options": {"hidden_channels": 8, "num_layers": 2}}}
"""Of those that need some."""
MOST_PARAMETERS = 16_000
"""Of the whole model for ratings with default options: a message of 64 kB."""


@pytest.mark.parametrize(
    "law",
    held({name: encoders.laws(discovery.find("models", name), **OPTIONS.get(name, {})) for name in NAMES}),
)
def test_keeps_the_law(law: Law[Any]) -> None:
    law()


def test_there_are_three_of_layers() -> None:
    assert {"gcn", "gin", "sage"} <= set(LAYERED)


@pytest.mark.parametrize("name", LAYERED)
def test_a_stack_says_how_many_layers_it_has(name: str) -> None:
    assert "layers" in {field.name for field in dataclasses.fields(discovery.find("models", name))}


@pytest.mark.parametrize("name", [name for name in NAMES if issubclass(discovery.find("models", name), EdgeEncoder)])
def test_makes_a_small_model_for_ratings(name: str) -> None:
    model = Rating(discovery.build("models", "model", {"name": name})).model(torch.Generator())
    assert sum(parameter.numel() for parameter in model.parameters()) <= MOST_PARAMETERS
