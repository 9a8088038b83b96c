"""Logits, hidden states and gradients of the node model against dense matrices in NumPy."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import sparse

from fedgraft.domains.nodes.base.features import FeatureRows
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.training.model import NodeModel
from fedgraft.domains.nodes.training.neighbour_sampling import Neighbourhoods, Reach
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.models.sage import SAGE

OWN, HALO, FEATURES, CLASSES = 9, 4, 6, 3
WIDTHS = (5, 4)
ENCODERS = {"sage": SAGE(hidden=WIDTHS), "gcn": GCN(hidden=WIDTHS)}


@dataclass
class World:
    """A random client: its shard, features of everybody, degrees elsewhere, remembered states."""

    shard: NodeShard
    features: np.ndarray
    elsewhere: np.ndarray
    stored: list

    @property
    def adjacency(self):
        dense = np.zeros((OWN, OWN + HALO))
        dense[np.repeat(np.arange(OWN), self.shard.degree), self.shard.senders] = 1
        return dense


def world(seed=0):
    g = np.random.default_rng(seed)
    both = np.triu(g.random((OWN, OWN)) < 0.35, 1)
    both[:, -1] = False  # the last node is neighbour to nobody here
    adjacency = np.concatenate([both | both.T, g.random((OWN, HALO)) < 0.3], axis=1)
    adjacency[-1] = False
    receiver, sender = np.nonzero(adjacency)
    features = (g.standard_normal((OWN + HALO, FEATURES)) * (g.random((OWN + HALO, FEATURES)) < 0.5)).astype(np.float32)
    shard = NodeShard(
        name="here",
        ids=np.arange(OWN).astype(object),
        features=features[:OWN],
        label=g.integers(0, CLASSES, OWN),
        classes=("a", "b", "c"),
        split=np.zeros(OWN, np.int8),
        pointers=np.concatenate([[0], np.cumsum(np.bincount(receiver, minlength=OWN))]),
        senders=sender.astype(np.int32),
        halo_owner=np.ones(HALO, np.int32),
        halo_place=np.arange(HALO, dtype=np.int32),
    )
    stored = [np.abs(g.standard_normal((OWN + HALO, width))).astype(np.float32) for width in (*WIDTHS, CLASSES)]
    return World(shard, features, g.integers(1, 6, HALO), stored)


def built(kind, head, dropout=0.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    model = NodeModel(ENCODERS[kind], FEATURES, CLASSES, head, dropout, g)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=g)
    return model


def inputs_of(here, targets, layers, deep, is_sparse=False):
    """What the model is given: features of the first senders, hops, and what is remembered."""
    known = [np.ones(OWN + HALO, bool)] * layers
    hops = Neighbourhoods(here.shard, here.elsewhere).around(targets, layers, Reach(known, (0,) * layers, deep))
    kind = sparse.csr_matrix if is_sparse else np.asarray
    rows = FeatureRows(kind(here.features[:OWN]), kind(here.features[OWN:]))
    senders = np.concatenate([hops[0].fresh, hops[0].stored])
    return rows.rows(senders), hops, lambda layer, hop: torch.from_numpy(here.stored[layer][hop.stored])


def convolved(parameters, number, kind, here, state, adjacency):
    """One layer of all own nodes; the first one's weights are [inputs, outputs]."""
    of = {key.split(".", 2)[2]: value for key, value in parameters.items() if key.startswith(f"convolutions.{number}.")}
    turned = {key: value.T if number and value.ndim == 2 else value for key, value in of.items()}
    degree = adjacency.sum(1)
    if kind == "sage":
        mean = adjacency @ state / np.maximum(degree, 1)[:, None]
        return state[:OWN] @ turned["own.weight"] + turned["own.bias"] + mean @ turned["mean.weight"]
    scale = (np.concatenate([degree, here.elsewhere]) + 1.0) ** -0.5
    summed = scale[:OWN, None] * (scale[:OWN, None] * state[:OWN] + adjacency @ (scale[:, None] * state))
    return summed @ turned["linear.weight"] + turned["linear.bias"]


def reference(parameters, kind, head, here, targets, deep):
    """(logits [targets, classes], hidden states of own nodes in each layer), in float64."""
    layers = len(WIDTHS) + (head == "convolution")
    adjacency, state, hidden = here.adjacency, here.features.astype(np.float64), []
    for number in range(layers):
        found = convolved(parameters, number, kind, here, state, adjacency)
        if number == layers - 1:
            break
        hidden.append(np.maximum(found, 0))
        state = here.stored[number].astype(np.float64)
        fresh = np.arange(OWN) if deep else targets
        state[fresh] = hidden[-1][fresh]
    if head == "linear":
        found = np.maximum(found, 0) @ parameters["head.weight"].T + parameters["head.bias"]
    return found[targets], hidden


def parameters_of(model):
    return {key: value.detach().numpy().astype(np.float64) for key, value in model.named_parameters()}


CASES = pytest.mark.parametrize(
    ("kind", "head", "deep"),
    [(kind, head, deep) for kind in ENCODERS for head in ("linear", "convolution") for deep in (True, False)],
)


@CASES
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("targets", [[4, 0, 7], [8], list(range(OWN))])
def test_logits_and_states_are_those_of_dense_matrices(kind, head, deep, is_sparse, targets):
    here, model, targets = world(), built(kind, head).eval(), np.array(targets)
    layers, noted = len(model.convolutions), {}
    given = inputs_of(here, targets, layers, deep, is_sparse)
    found = model(*given, lambda layer, hop, fresh: noted.__setitem__(layer, (hop.receivers, fresh.numpy())))
    expected, hidden = reference(parameters_of(model), kind, head, here, targets, deep)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=2e-4, atol=2e-5)
    assert sorted(noted) == list(range(layers - 1)), "every hidden layer is told of once"
    for layer, (nodes, fresh) in noted.items():
        assert set(targets) <= set(nodes.tolist())
        assert deep or nodes.tolist() == targets.tolist()
        np.testing.assert_allclose(fresh, hidden[layer][nodes], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ENCODERS)
def test_one_layer(kind):
    here, targets = world(1), np.array([2, 5])
    encoder = {"sage": SAGE(hidden=(4,)), "gcn": GCN(hidden=(4,))}[kind]
    model = NodeModel(encoder, FEATURES, CLASSES, "linear", 0.0, torch.Generator().manual_seed(0)).eval()
    found = model(*inputs_of(here, targets, 1, True)).detach().numpy()
    parameters = parameters_of(model)
    last = np.maximum(convolved(parameters, 0, kind, here, here.features.astype(np.float64), here.adjacency), 0)
    expected = last @ parameters["head.weight"].T + parameters["head.bias"]
    np.testing.assert_allclose(found, expected[targets], rtol=2e-4, atol=2e-5)
    shown = model.represent(*inputs_of(here, targets, 1, True)).detach().numpy()
    np.testing.assert_allclose(shown, last[targets], rtol=2e-4, atol=2e-5)


@CASES
@pytest.mark.parametrize("is_sparse", [False, True])
def test_gradients_are_those_of_finite_differences(kind, head, deep, is_sparse):
    here, model, targets = world(2), built(kind, head), np.array([4, 0, 7, 1])
    weights = np.random.default_rng(3).standard_normal((len(targets), CLASSES))
    found = model(*inputs_of(here, targets, len(model.convolutions), deep, is_sparse))
    (found * torch.from_numpy(weights.astype(np.float32))).sum().backward()
    parameters, step = parameters_of(model), 1e-6

    def loss():
        return float((reference(parameters, kind, head, here, targets, deep)[0] * weights).sum())

    for key, parameter in model.named_parameters():
        slopes = np.zeros(parameters[key].shape)
        for at in np.ndindex(slopes.shape):
            kept = parameters[key][at]
            ends = []
            for sign in (1, -1):
                parameters[key][at] = kept + sign * step
                ends.append(loss())
            parameters[key][at] = kept
            slopes[at] = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(parameter.grad.numpy(), slopes, rtol=1e-3, atol=1e-4, err_msg=key)


@pytest.mark.parametrize("head", ["linear", "convolution"])
def test_the_last_hidden_layer_is_what_the_last_map_is_given(head):
    here, model, targets = world(), built("sage", head).eval(), np.array([3, 6])
    shown = model.represent(*inputs_of(here, targets, len(model.convolutions), True)).detach().numpy()
    logits = model(*inputs_of(here, targets, len(model.convolutions), True)).detach().numpy()
    parameters = parameters_of(model)
    if head == "linear":
        expected = shown @ parameters["head.weight"].T + parameters["head.bias"]
        np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
    else:
        hidden = reference(parameters, "sage", head, here, targets, True)[1]
        np.testing.assert_allclose(shown, hidden[-1][targets], rtol=1e-4, atol=1e-5)


def test_dropout_is_for_training_and_what_is_remembered_is_whole():
    here, model, targets = world(), built("sage", "linear", dropout=0.5), np.arange(OWN)
    noted = []

    def run():
        torch.manual_seed(0)
        with torch.no_grad():
            return model(*inputs_of(here, targets, 2, True), lambda layer, hop, fresh: noted.append(fresh))

    dropped, whole = run(), (model.eval(), run())[1]
    assert not torch.allclose(dropped, whole)
    assert torch.equal(noted[0], noted[1])
    np.testing.assert_allclose(
        whole.numpy(), reference(parameters_of(model), "sage", "linear", here, targets, True)[0], rtol=2e-4, atol=2e-5
    )


def test_drawing_a_model_takes_the_given_generator_and_nothing_else():
    before = torch.get_rng_state()
    one, same, other = (
        NodeModel(ENCODERS["gcn"], 4, 3, "linear", 0.0, torch.Generator().manual_seed(s)) for s in (1, 1, 2)
    )
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
