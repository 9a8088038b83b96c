"""Instances of methods as arguments of `fedgraft.run`."""

from dataclasses import dataclass

import pytest
from torch_geometric.nn import GCNConv, GraphSAGE

import fedgraft
from fedgraft.errors import InputError
from fedgraft.experiment.recipe import outside_names
from fedgraft.interface.given import changes_of
from fedgraft.methods.codecs.chain import Chain
from fedgraft.methods.codecs.quantized import Quantized
from fedgraft.methods.data.shops import Shops
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.selectors.random import Random
from helpers.tiny import TINY

OPTIONS = {key[5:]: value for key, value in TINY.items() if key.startswith("data.")}
SHOPS = {"name": "shops", **OPTIONS}
QUICK = {"rounds": 2, "runtime": {"workers": 0}, "yardsticks": ["global_mean"], "progress": False}


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


def test_a_class_of_convolutions_is_the_encoder_pyg():
    expected = {"model.name": "pyg", "model.module": "torch_geometric.nn.conv.gcn_conv:GCNConv"}
    assert changes_of({"model": GCNConv}) == expected
    assert outside_names({"model": {"module": "my.layers:Mine"}}) == ("my.layers:Mine",)


def test_an_instance_of_a_network_is_refused_with_what_to_give():
    section = r"model=\{'name': 'pyg', 'module': '[a-z_.]+:SAGEConv', 'hidden': 64, 'layers': 2\}"
    with pytest.raises(InputError, match=rf"^model must be a class .* instance of GraphSAGE\..*{section}"):
        changes_of({"model": GraphSAGE(16, 64, 2, 3)})
