"""Laws of every encoder that is a stack of convolutions, found by file name, on a small undirected graph."""

import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest
import torch

from fedgraft.contracts.providers import LayeredEncoder
from fedgraft.experiment import discovery
from fedgraft.methods.models.mlp import MLP
from fedgraft.nn.layers import row_linear
from fedgraft.nn.propagate import Block, Sparse, Stacked
from helpers.blocks import block_of, edges_of

NAMES = [name for name in discovery.names("models") if issubclass(discovery.find("models", name), LayeredEncoder)]
NODES, INPUTS, OUTPUTS = 7, 5, 6
LONE = 6
"""A node without any edge."""
EDGES = np.array([[0, 1], [1, 2], [2, 0], [2, 3], [3, 4], [4, 5]])


@pytest.fixture(params=NAMES)
def encoder(request: pytest.FixtureRequest) -> LayeredEncoder:
    built: LayeredEncoder = discovery.build("models", "model", {"name": request.param})
    return built


def graph_of(edges: np.ndarray, nodes: int = NODES) -> Block:
    return block_of(edges_of(edges.tolist(), nodes))


def features(nodes: int = NODES, seed: int = 0) -> torch.Tensor:
    return torch.randn(nodes, INPUTS, generator=torch.Generator().manual_seed(seed))


def drawn(encoder: LayeredEncoder, seed: int = 0) -> torch.nn.Module:
    return encoder.convolution(INPUTS, OUTPUTS, torch.Generator().manual_seed(seed))


def test_there_are_three() -> None:
    assert {"gcn", "gin", "sage"} <= set(NAMES)


def test_has_a_depth_and_a_width(encoder: LayeredEncoder) -> None:
    deeper: Any = dataclasses.replace(encoder, layers=3)  # type: ignore[type-var]
    assert (deeper.depth, encoder.depth >= 1, encoder.width >= 1) == (3, True, True)


def test_is_documented(encoder: LayeredEncoder) -> None:
    text = inspect.getdoc(type(encoder)) or ""
    assert "Source:" in text
    assert "Differs:" in text
    assert all(f"{field.name}:" in text for field in dataclasses.fields(encoder))  # type: ignore[arg-type]


def test_one_that_says_it_is_not_noisy_leaves_torchs_generators_alone(encoder: LayeredEncoder) -> None:
    if encoder.noisy:
        pytest.skip("may draw from them")
    before = torch.get_rng_state()
    drawn(encoder).train()(features(), graph_of(EDGES)).sum().backward()
    assert torch.equal(torch.get_rng_state(), before)


def test_gives_every_node_a_finite_state(encoder: LayeredEncoder) -> None:
    found = drawn(encoder)(features(), graph_of(EDGES))
    assert found.shape == (NODES, OUTPUTS)
    assert torch.isfinite(found).all()


def test_relabelling_nodes_relabels_states(encoder: LayeredEncoder) -> None:
    module, order = drawn(encoder), torch.randperm(NODES, generator=torch.Generator().manual_seed(1))
    moved = graph_of(torch.argsort(order).numpy()[EDGES])
    expected = module(features(), graph_of(EDGES))[order]
    torch.testing.assert_close(module(features()[order], moved), expected, rtol=1e-4, atol=1e-5)


def test_neighbours_matter_and_nobody_else(encoder: LayeredEncoder) -> None:
    module, states = drawn(encoder), features()
    changed = states.clone()
    changed[0] += 1
    moved = (module(changed, graph_of(EDGES)) - module(states, graph_of(EDGES))).abs().amax(1)
    near = [0] if isinstance(encoder, MLP) else [0, 1, 2]  # a perceptron looks at nobody
    far = [node for node in range(NODES) if node not in near]
    assert (moved[near] > 1e-6).all()
    assert (moved[far] == 0).all()


def test_a_node_without_neighbours_keeps_a_state_of_its_own(encoder: LayeredEncoder) -> None:
    module, nothing = drawn(encoder), graph_of(np.zeros((0, 2), np.int64))
    found = module(features(), nothing)
    assert torch.isfinite(found).all()
    assert len(torch.unique(found, dim=0)) == NODES


def test_gradients_reach_every_parameter_and_are_those_of_finite_differences(encoder: LayeredEncoder) -> None:
    module, states = drawn(encoder), features().requires_grad_()
    weights = torch.randn(NODES, OUTPUTS, generator=torch.Generator().manual_seed(2))
    (module(states, graph_of(EDGES)) * weights).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in module.parameters())
    direction = torch.randn(states.shape, generator=torch.Generator().manual_seed(3))
    assert states.grad is not None
    with torch.no_grad():
        step = 1e-3
        ends = [(module(states + sign * step * direction, graph_of(EDGES)) * weights).sum() for sign in (1, -1)]
    slope = float(ends[0] - ends[1]) / (2 * step)
    assert slope == pytest.approx(float((states.grad * direction).sum()), rel=0.05, abs=1e-2)


def test_equal_generators_draw_equal_modules_and_touch_no_global_one(encoder: LayeredEncoder) -> None:
    before = torch.get_rng_state()
    one, again, other = (drawn(encoder, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_sparse_and_stacked_states_give_what_dense_ones_give(encoder: LayeredEncoder) -> None:
    module = encoder.convolution(300, OUTPUTS, torch.Generator().manual_seed(0), row_linear)
    dense = torch.zeros(200, 300)
    dense[torch.arange(200), torch.arange(200) + 50] = 2.0  # beyond what is stored with its zeros
    rows, columns = dense.nonzero().T.numpy()
    sparse = Sparse(rows, columns, dense[rows, columns].numpy(), (200, 300))
    graph = graph_of(EDGES, 200)
    found = []
    for states in (sparse, dense, Stacked(dense[:50], dense[50:])):
        module.zero_grad()
        given = module(states, graph)
        given.square().sum().backward()
        found.append([given, *(p.grad for p in module.parameters())])
    for one, other, third in zip(*found, strict=True):
        torch.testing.assert_close(third, other, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
