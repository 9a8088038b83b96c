"""Models of nodes on graphs that are given: a client's own as at the client, whatever the model is made of."""

import numpy as np
import pytest
import torch

from fedgraft.experiment.recipes import discovery
from fedgraft.methods.data.blocks import Blocks
from fedgraft.methods.exchanges.halo import Halo
from fedgraft.methods.tasks.node import Node
from laws import tasks

NETWORK = {"name": "network", "module": "torch_geometric.nn:GraphSAGE"}
ENCODERS = {
    "whole network": NETWORK | {"options": {"hidden_channels": 8, "num_layers": 2}},
    "sage": {"name": "sage", "hidden": [8]},
    "perceptron": {"name": "mlp", "hidden": [8]},
}
LAW = "a_model_makes_of_a_given_graph_what_it_makes_of_a_clients"


@pytest.mark.parametrize("name", ENCODERS)
def test_a_given_graph_is_told_as_a_clients_is(name):
    encoder = discovery.build("models", "model", ENCODERS[name])
    data = Blocks(nodes=60, classes=3, clients=3, features=8)
    made = tasks.laws(Node, data, encoder=encoder, exchange=Halo(states=False))
    laws = {str(each): each for each in made}
    laws[LAW]()


def test_a_worked_example():
    """Two nodes that are joined, and one alone, under a convolution that is the identity."""
    encoder = discovery.build("models", "model", {"name": "gcn", "hidden": [2]})
    task = Node(encoder=encoder, features=2, classes=2, exchange=Halo(states=False))
    model = task.model(torch.Generator())
    for parameter in model.parameters():
        parameter.data = torch.eye(2) if parameter.dim() == 2 else torch.zeros(2)
    features = torch.tensor([[1.0, 0], [0, 3], [5, 0]])
    logits = task.views.on_graph(model, features, np.array([[0, 1], [1, 0]]))
    assert logits.detach().numpy() == pytest.approx(np.array([[0.5, 1.5], [0.5, 1.5], [5, 0]]))
