"""Instances of methods as arguments of `fedgraft.run`."""

from dataclasses import dataclass

import pytest
from torch_geometric.nn import GCNConv

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.job import load
from fedgraft.experiment.recipes.recipe import outside_names
from fedgraft.interface.python_arguments import changes_of
from fedgraft.methods.codecs.chain import Chain
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.methods.data.shops import Shops
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.selectors.random import Random
from helpers.tiny import TINY

OPTIONS = {key[5:]: value for key, value in TINY.items() if key.startswith("data.")}
SHOPS = {"name": "shops", **OPTIONS}
QUICK = {"rounds": 2, "runtime": {"workers": 0}, "baselines": ["global_mean"], "progress": False}


def test_instances_stand_for_their_sections():
    codec, selector = Quantized(bits=4), Random(clients=2)
    given = fedgraft.run("fedacs", data=Shops(**OPTIONS), selector=selector, codec=codec, model=GCN(hidden=8), **QUICK)
    named = {"selector": {"name": "random", "clients": 2}, "codec": {"name": "quantized", "bits": 4}}
    said = fedgraft.run("fedacs", data=SHOPS, model={"name": "gcn", "hidden": 8}, **named, **QUICK)
    assert given.summary["digest"] == said.summary["digest"]


def test_instances_that_no_recipe_can_say():
    class Mine(Random):
        """Defined where no other process can find it."""

    with pytest.raises(InputError, match="defined in a function"):
        changes_of({"selector": dataclass(frozen=True)(Mine)()})
    with pytest.raises(InputError, match="Chain holds other methods"):
        changes_of({"codec": Chain((Quantized(), Quantized()))})
    with pytest.raises(InputError, match="selector must be given as"):
        changes_of({"selector": Quantized()})


def test_a_class_of_torch_is_named_and_the_encoder_that_takes_it_found():
    assert changes_of({"model": GCNConv}) == {"model.name": "torch_geometric.nn.conv.gcn_conv:GCNConv"}
    assert outside_names({"model": {"module": "my.layers:Mine"}}) == ("my.layers:Mine",)
    stack = load("fedall", {"data.name": "blocks", "model": {"name": "torch_geometric.nn:GATv2Conv", "hidden": 8}})
    assert {"name": "pyg", "module": "torch_geometric.nn:GATv2Conv", "hidden": 8}.items() <= stack.recipe.sections[
        "model"
    ].items()
    whole = load("fedall", {"data.name": "blocks", "model.name": "helpers.networks:Two", "model.hidden": 4})
    section = {"name": "network", "module": "helpers.networks:Two", "options": {"hidden": 4}, "hops": 0}
    assert whole.recipe.sections["model"] == section
    assert load("fedall", {"data.name": "blocks", "model": section}).recipe.sections == whole.recipe.sections


def test_what_is_no_class_of_torch_is_refused():
    for name, said in {
        "helpers.networks:torch": r"^model\.name = .* must be a class of torch\.nn\.Module, or",
        "helpers.networks:Too": r"^model\.name must be 'package\.module:Class'; .* has no attribute 'Too'",
    }.items():
        with pytest.raises(InputError, match=said):
            load("fedall", {"data.name": "blocks", "model.name": name})
