"""Whole networks as an encoder: how a class is made, what an instance keeps, and what is refused."""

import pickle

import pytest
import torch
from torch_geometric.nn import GraphSAGE

from fedgraft.contracts import given_networks
from fedgraft.errors import InputError
from fedgraft.methods.models.network import Network
from helpers import networks
from laws.encoders import check_encoder

MINE = "helpers.networks"
SAGE = {"module": "torch_geometric.nn:GraphSAGE", "options": {"hidden_channels": 6, "num_layers": 2}}


def given(network):
    return Network(given_networks.keep(given_networks.stored(network)))


def drawn(encoder, inputs=3, seed=1):
    return encoder.network(inputs, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("module", "options", "width"),
    [
        (f"{MINE}:Two", {}, 8),
        (f"{MINE}:Two", {"inputs": 3, "hidden": 4}, 4),
        (f"{MINE}:made", {"layers": 2}, 3),
        ("torch_geometric.nn:GraphSAGE", {"hidden_channels": 4, "num_layers": 2, "out_channels": 5}, 5),
    ],
)
def test_the_first_argument_without_a_default_is_the_width_unless_options_say_it(module, options, width):
    assert drawn(Network(module, options)).width == width


def test_a_class_is_drawn_by_the_generator_and_an_instance_has_its_own_weights():
    own, again, other = (drawn(Network(**SAGE), seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(own[name], again[name]) for name in own)
    assert not torch.equal(own["module.convs.0.lin_l.weight"], other["module.convs.0.lin_l.weight"])
    network = networks.Two(3)
    for seed in (1, 2):
        found = drawn(given(network), seed=seed).module
        assert found is not network
        assert all(torch.equal(value, found.state_dict()[name]) for name, value in network.state_dict().items())


def test_the_width_of_the_inputs_is_free_for_a_class_and_found_for_an_instance():
    assert Network(**SAGE).inputs == 0
    assert Network(f"{MINE}:Fixed").inputs == 8
    assert given(GraphSAGE(5, 4, 2)).inputs == 5


def test_how_far_it_looks_is_found_or_said():
    assert Network(**SAGE).reach(3) == 2
    assert Network(**SAGE, hops=5).reach(3) == 5


def test_another_process_gets_an_instance_with_its_encoder():
    sent = pickle.dumps(given(networks.Two(3)))
    given_networks._KEPT.clear()
    assert drawn(pickle.loads(sent)).width == 8


@pytest.mark.parametrize("module", [f"{MINE}:Two", f"{MINE}:Fixed", f"{MINE}:Pooling", f"{MINE}:made"])
def test_any_network_keeps_the_laws_of_encoders(module):
    check_encoder(Network, module=module)
    check_encoder(Network, **SAGE)


@pytest.mark.parametrize(
    ("module", "options", "said"),
    [
        ("Two", {}, r"Network\.module must be 'package\.module:Class'; 'Two' cannot be imported"),
        (f"{MINE}:Three", {}, r"has no attribute 'Three'"),
        (f"{MINE}:torch", {}, r"must be a class of torch\.nn\.Module"),
        (f"{MINE}:Two", {"hiden": 2}, r"cannot be made as Class\(3, hiden=2\): TypeError"),
        ("torch_geometric.nn:GraphSAGE", {}, r"cannot be made as Class\(3\): TypeError: .*hidden_channels"),
        ("builtins:list", {"inputs": 1}, r"cannot be made as Class\("),
        (f"{MINE}:Fixed", {}, r"takes nodes' features of width 8; here they are 3 wide\."),
        (f"network.pt:{'0' * 32}", {}, r"is a network that was given in Python; network\.pt in the folder of its run"),
    ],
)
def test_errors_name_what_is_wrong(module, options, said):
    with pytest.raises(InputError, match=said):
        drawn(Network(module, options))


def test_an_instance_has_no_options():
    with pytest.raises(InputError, match=r"Network\.options must be {} with an instance"):
        Network(given(networks.Two(3)).module, {"hidden": 3})


def test_an_instance_that_cannot_be_stored_is_refused():
    class Inside(networks.Two):
        """Of which nobody knows where it is."""

    with pytest.raises(InputError, match=r"model \(an instance of Inside\) cannot be stored .* lambda"):
        given_networks.stored(Inside(3))


def test_which_classes_are_one_convolution():
    from torch_geometric.nn import GCNConv, GINConv

    convolutions = (GCNConv, GINConv)
    assert all(map(given_networks.is_convolution, convolutions))
    assert not any(map(given_networks.is_convolution, (networks.Two, networks.Pooling, networks.Fixed, GraphSAGE)))
