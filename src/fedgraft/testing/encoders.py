"""Laws of encoders that are a stack of convolutions, on a small graph whose nodes hear along edges and back."""

import dataclasses
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgraft.contracts.encoder import Encoder, LayeredEncoder
from fedgraft.nn.layers import row_linear
from fedgraft.nn.propagate import Block, EdgeValues, Sparse, Stacked
from fedgraft.testing.laws import Law, Laws, check, check_form, expect

NODES, INPUTS, OUTPUTS = 7, 5, 6
EDGES = np.array([[0, 1], [1, 2], [2, 0], [2, 3], [3, 4], [4, 5]])
"""Node 6 has none."""
NEAR = [0, 1, 2]
"""Node 0 and its neighbours."""

LAWS: Laws[Any] = Laws()


def check_encoder(cls: type[Encoder], /, **options: Any) -> None:
    """Hold an encoder with these options to all laws, which are about its form and its convolutions.

    Raises `AssertionError` with the class, the law and what was seen.
    """
    check(laws(cls, **options))


def laws(cls: type[Encoder], /, **options: Any) -> list[Law[Any]]:
    """Return the laws of an encoder, to be called one by one; arguments as `check_encoder`."""
    return LAWS.held(cls, lambda: cls(**options))


@LAWS.every
def is_a_frozen_dataclass_with_a_documented_class(encoder: Encoder) -> None:
    """Be a frozen dataclass whose documentation names its source."""
    check_form(type(encoder), Encoder, ("Source:", "Differs:"))


@LAWS.having(LayeredEncoder)
def has_a_depth_and_a_width(encoder: LayeredEncoder) -> None:
    """Tell how many convolutions there are, and their widths."""
    expect(encoder.depth >= 1 and encoder.width >= 1, "depth and width must be >= 1", encoder.depth, encoder.width)
    expect(encoder.depth == len(encoder.widths), "there must be a width for each convolution", encoder.widths)
    if "layers" in {each.name for each in dataclasses.fields(cast(Any, encoder))}:
        deeper = dataclasses.replace(cast(Any, encoder), layers=3)
        expect(deeper.depth == 3, "three layers must be three convolutions", deeper.depth)


@LAWS.having(LayeredEncoder)
def one_that_is_not_stochastic_leaves_torchs_generators_alone(encoder: LayeredEncoder) -> None:
    """Draw from no generator in training, or say `stochastic`."""
    if encoder.stochastic:
        return
    before = torch.get_rng_state()
    _drawn(encoder).train()(features(), graph_of(EDGES)).sum().backward()
    untouched = torch.equal(torch.get_rng_state(), before)
    expect(untouched, "with stochastic = False nothing may be drawn", "a change of torch's own generator")


@LAWS.having(LayeredEncoder)
def gives_every_node_a_finite_state(encoder: LayeredEncoder) -> None:
    """Return [receivers, outputs]."""
    states = _drawn(encoder)(features(), graph_of(EDGES))
    expect(states.shape == (NODES, OUTPUTS), f"states must be [{NODES}, {OUTPUTS}]", states.shape)
    expect(torch.isfinite(states).all(), "states must be finite", states)


@LAWS.having(LayeredEncoder)
def relabelling_nodes_relabels_states(encoder: LayeredEncoder) -> None:
    """Depend on no node's number."""
    module, order = _drawn(encoder), torch.randperm(NODES, generator=torch.Generator().manual_seed(1))
    moved = graph_of(torch.argsort(order).numpy()[EDGES])
    expected = module(features(), graph_of(EDGES))[order]
    torch.testing.assert_close(module(features()[order], moved), expected, rtol=1e-4, atol=1e-5)


@LAWS.having(LayeredEncoder)
def neighbours_matter_and_nobody_else(encoder: LayeredEncoder) -> None:
    """Let a node move itself and its neighbours; itself alone, if it is said to look at nobody."""
    module, states = _drawn(encoder), features()
    changed = states.clone()
    changed[0] += 1
    moved = (module(changed, graph_of(EDGES)) - module(states, graph_of(EDGES))).abs().amax(1)
    near = NEAR if encoder.reads_neighbours else [0]
    far = [node for node in range(NODES) if node not in near]
    expect((moved[near] > 1e-6).all(), f"node 0 must matter to {near}", moved)
    expect((moved[far] == 0).all(), f"node 0 must not matter to {far}", moved)


@LAWS.having(LayeredEncoder)
def a_node_without_neighbours_keeps_a_state_of_its_own(encoder: LayeredEncoder) -> None:
    """Tell nodes without edges apart by their features."""
    module, nothing = _drawn(encoder), graph_of(np.zeros((0, 2), np.int64))
    states = module(features(), nothing)
    expect(torch.isfinite(states).all(), "states must be finite", states)
    different = len(torch.unique(states, dim=0))
    expect(different == NODES, f"{NODES} nodes without edges must have as many states", different)


@LAWS.having(LayeredEncoder)
def gradients_reach_every_parameter_and_are_those_of_finite_differences(encoder: LayeredEncoder) -> None:
    """Let every parameter learn; have the gradients that small steps show."""
    module, states = _drawn(encoder), features().requires_grad_()
    weights = torch.randn(NODES, OUTPUTS, generator=torch.Generator().manual_seed(2))
    (module(states, graph_of(EDGES)) * weights).sum().backward()
    for name, parameter in module.named_parameters():
        reached = parameter.grad is not None and bool(parameter.grad.abs().max() > 0)
        expect(reached, "every parameter must have a gradient that is not zero", name)
    direction = torch.randn(states.shape, generator=torch.Generator().manual_seed(3))
    expect(states.grad is not None, "the senders' states must have a gradient", states.grad)
    expected = float((states.grad * direction).sum()) if states.grad is not None else 0.0
    with torch.no_grad():
        step = 1e-3
        ends = [(module(states + sign * step * direction, graph_of(EDGES)) * weights).sum() for sign in (1, -1)]
    slope = float(ends[0] - ends[1]) / (2 * step)
    near = abs(slope - expected) <= max(0.05 * abs(expected), 1e-2)
    expect(near, f"the gradient of states along a direction must be {expected:.6g}", slope)


@LAWS.having(LayeredEncoder)
def equal_generators_draw_equal_convolutions_and_touch_no_global_one(encoder: LayeredEncoder) -> None:
    """Draw a convolution from the given generator and from nothing else."""
    before = torch.get_rng_state()
    one, again, other = (_drawn(encoder, seed).state_dict() for seed in (1, 1, 2))
    untouched = torch.equal(before, torch.get_rng_state())
    expect(untouched, "only the given generator may be drawn from", "a change of torch's own")
    expect(all(torch.equal(one[name], again[name]) for name in one), "equal seeds must draw equal modules", again)
    expect(any(not torch.equal(one[name], other[name]) for name in one), "other seeds must draw others", other)


@LAWS.having(LayeredEncoder)
def sparse_and_stacked_states_give_what_dense_ones_give(encoder: LayeredEncoder) -> None:
    """Take the senders' states in every form that tasks have them in."""
    module = encoder.convolution(300, OUTPUTS, torch.Generator().manual_seed(0), row_linear)
    dense = torch.zeros(200, 300)
    dense[torch.arange(200), torch.arange(200) + 50] = 2.0  # beyond what is stored with its zeros
    rows, columns = dense.nonzero().T.numpy()
    sparse = Sparse(rows, columns, dense[rows, columns].numpy(), (200, 300))
    graph = graph_of(EDGES, 200)
    results = []
    for states in (sparse, dense, Stacked(dense[:50], dense[50:])):
        module.zero_grad()
        output = module(states, graph)
        output.square().sum().backward()
        results.append([output, *(p.grad for p in module.parameters())])
    for one, other, third in zip(*results, strict=True):
        torch.testing.assert_close(third, other, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def graph_of(edges: NDArray[np.int64], nodes: int = NODES) -> Block:
    """Return a graph of edges, int64 [edges, 2], from the first to the second; nodes hear along each and back."""
    adjacency = np.zeros((nodes, nodes))
    adjacency[edges[:, 0], edges[:, 1]] = adjacency[edges[:, 1], edges[:, 0]] = 1
    rows, columns = np.nonzero(adjacency)
    forwards = np.zeros((nodes, nodes), bool)
    forwards[edges[:, 1], edges[:, 0]] = True
    carried = EdgeValues(torch.zeros(len(rows), 0), torch.from_numpy(forwards[rows, columns]))
    matrix = Sparse(rows, columns, adjacency[rows, columns], (nodes, nodes))
    degree = torch.from_numpy(adjacency.sum(1).astype(np.float32))
    return Block(matrix, torch.arange(nodes), degree, degree, carried)


def features(nodes: int = NODES, seed: int = 0) -> Tensor:
    """Return states of the senders, float32 [nodes, INPUTS]."""
    return torch.randn(nodes, INPUTS, generator=torch.Generator().manual_seed(seed))


def _drawn(encoder: LayeredEncoder, seed: int = 0) -> torch.nn.Module:
    return encoder.convolution(INPUTS, OUTPUTS, torch.Generator().manual_seed(seed))
