"""Laws of encoders that read nodes which metapaths join, on a small graph with two metapaths."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgraft.contracts.encoder import MetapathEncoder, Paths
from fedgraft.nn.propagate import Sparse, States
from fedgraft.testing.laws import Laws, expect

NODES, INPUTS = 8, 5
JOINED = (((0, 1), (1, 2), (3, 4)), ((0, 3), (3, 1), (2, 4), (4, 5)))
"""Pairs of nodes that each metapath joins. Node 6 is joined by none, node 7 by one that goes one way."""
ONE_WAY = (7, 0)
"""Node 7 attends to node 0 along the second metapath, and not the other way round, as where neighbours are limited."""
LONE = 6
ROUNDING = 1e-5
"""What an embedding may move by where it should not."""
CARRIED = 2
"""Numbers that edges carry."""
STEP = 1e-3
"""Length of the steps that gradients are held against."""

LAWS: Laws[Any] = Laws()


def _carries(cls: type[Any]) -> bool:
    """Return whether a class makes something of what edges carry."""
    return issubclass(cls, MetapathEncoder) and cls.carried_graph is not MetapathEncoder.carried_graph


@LAWS.having(MetapathEncoder)
def gives_every_node_a_finite_embedding_of_its_width(encoder: MetapathEncoder) -> None:
    """Return float32 [nodes, width], for one metapath as for two."""
    for paths in (JOINED, JOINED[:1]):
        embeddings = _drawn(encoder, len(paths))(_features(), _graphs(encoder, paths))
        shape = tuple(embeddings.shape)
        expect(shape == (NODES, encoder.width), f"embeddings must be [{NODES}, {encoder.width}]", embeddings.shape)
        expect(embeddings.dtype == torch.float32, "embeddings must be float32", embeddings.dtype)
        expect(torch.isfinite(embeddings).all(), "embeddings must be finite", embeddings)


@LAWS.having(MetapathEncoder)
def relabelling_nodes_relabels_embeddings(encoder: MetapathEncoder) -> None:
    """Depend on no node's number."""
    module, order = _drawn(encoder), np.random.default_rng(1).permutation(NODES)
    moved = [encoder.graph(matrix[order][:, order]) for matrix in map(_matrix, JOINED)]
    expected = module(_features(), _graphs(encoder))[order]
    torch.testing.assert_close(module(_features()[order], moved), expected, rtol=1e-4, atol=1e-5)


@LAWS.having(MetapathEncoder)
def nodes_that_a_metapath_joins_matter_and_nobody_else(encoder: MetapathEncoder) -> None:
    """With one metapath, let a node move itself and those that attend to it; with several, all of these at least.

    What several metapaths weigh may depend on all nodes, as in HAN.
    """
    for number, paths in enumerate((JOINED[:1], JOINED[1:], JOINED)):
        module, graphs = _drawn(encoder, len(paths)), _graphs(encoder, paths)
        moved = _moved(module, graphs, node=0)
        near = np.flatnonzero(sum(_matrix(path).toarray()[:, 0] for path in paths)).tolist()
        far = [node for node in range(NODES) if node not in near]
        expect((moved[near] > ROUNDING).all(), f"node 0 must matter to {near}", moved)
        if number < 2:
            expect((moved[far] <= ROUNDING).all(), f"node 0 must not matter to {far}", moved)


@LAWS.having(MetapathEncoder)
def a_node_joined_to_itself_alone_keeps_a_state_of_its_own(encoder: MetapathEncoder) -> None:
    """Tell such nodes apart by their features, also where all nodes are such."""
    alone = _drawn(encoder, 1)(_features(), _graphs(encoder, [()]))
    expect(torch.isfinite(alone).all(), "embeddings must be finite", alone)
    different = len(torch.unique(alone, dim=0))
    expect(different == NODES, f"{NODES} nodes joined to themselves must have as many embeddings", different)
    module, graphs = _drawn(encoder, 1), _graphs(encoder, JOINED[:1])
    expect(_moved(module, graphs, LONE)[LONE] > ROUNDING, "its own features must matter to a lone node", LONE)
    torch.testing.assert_close(module(_features(), graphs)[LONE], alone[LONE], rtol=1e-4, atol=1e-5)


@LAWS.having(MetapathEncoder)
def values_of_a_matrix_do_not_matter(encoder: MetapathEncoder) -> None:
    """Read where a metapath's matrix has entries, not which, and leave it as it is."""
    module, matrices = _drawn(encoder), [_matrix(path) for path in JOINED]
    counts = [matrix * 3 for matrix in matrices]
    expected = module(_features(), [encoder.graph(matrix) for matrix in matrices])
    torch.testing.assert_close(module(_features(), [encoder.graph(matrix) for matrix in counts]), expected)
    same = all((matrix * 3 != count).nnz == 0 for matrix, count in zip(matrices, counts, strict=True))
    expect(same, "a matrix must be left as it is", counts)


@LAWS.having(MetapathEncoder)
def graphs_go_to_a_device(encoder: MetapathEncoder) -> None:
    """Have graphs with `to`, which compute the same there."""
    module, graphs = _drawn(encoder), _graphs(encoder)
    there = [graph.to("cpu") for graph in graphs]
    torch.testing.assert_close(module(_features(), there), module(_features(), graphs), rtol=0, atol=0)


@LAWS.having(MetapathEncoder)
def sparse_features_give_what_dense_ones_give(encoder: MetapathEncoder) -> None:
    """Take features as a matrix with or without its zeros, gradients included."""
    dense = torch.where(_features() > 0.3, _features(), torch.zeros(()))
    rows, columns = dense.nonzero().T.numpy()
    sparse = Sparse(rows, columns, dense[rows, columns].numpy(), (NODES, INPUTS), small=0)
    module, graphs = _drawn(encoder), _graphs(encoder)
    results = []
    for features in (dense, sparse):
        module.zero_grad()
        output = module(features, graphs)
        output.square().sum().backward()
        results.append([output, *(parameter.grad for parameter in module.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5)


@LAWS.having(MetapathEncoder)
def gradients_reach_every_parameter_and_are_those_of_finite_differences(encoder: MetapathEncoder) -> None:
    """Let every parameter learn; have the gradients that small steps show."""
    _check_gradients(_drawn(encoder), _graphs(encoder), encoder.width)


def _check_gradients(module: nn.Module, graphs: Sequence[Any], width: int) -> None:
    features, g = _features(), torch.Generator().manual_seed(2)
    weights = torch.randn(NODES, width, generator=g)
    (module(features, graphs) * weights).sum().backward()
    for name, parameter in module.named_parameters():
        reached = parameter.grad is not None and bool(parameter.grad.abs().max() > 0)
        expect(reached, "every parameter must have a gradient that is not zero", name)
        direction = nn.functional.normalize(torch.randn(parameter.numel(), generator=g), dim=0).view(parameter.shape)
        expected = float((parameter.grad * direction).sum()) if parameter.grad is not None else 0.0
        with torch.no_grad():
            ends = []
            for move in (STEP, -2 * STEP):
                parameter.add_(direction, alpha=move)
                ends.append(float((module(features, graphs) * weights).sum()))
            parameter.add_(direction, alpha=STEP)
        slope = (ends[0] - ends[1]) / (2 * STEP)
        near = abs(slope - expected) <= max(0.05 * abs(expected), 1e-2)
        expect(near, f"the gradient of {name} along a direction must be {expected:.6g}", slope)


@LAWS.having(MetapathEncoder)
def equal_generators_draw_equal_modules_and_touch_no_global_one(encoder: MetapathEncoder) -> None:
    """Draw a module from the given generator and from nothing else, in training as well."""
    before = torch.get_rng_state()
    first, again, other = (
        encoder.build(INPUTS, [0] * len(JOINED), torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    first.train()(_features(), _graphs(encoder)).sum().backward()
    untouched = torch.equal(before, torch.get_rng_state())
    expect(untouched, "only the given generator may be drawn from", "a change of torch's own")
    one, same, third = (module.state_dict() for module in (first, again, other))
    expect(list(one) == list(same) == list(third), "names must not depend on the seed", list(third))
    expect(all(torch.equal(one[name], same[name]) for name in one), "equal seeds must draw equal modules", same)
    expect(any(not torch.equal(one[name], third[name]) for name in one), "other seeds must draw others", third)


@LAWS.where(_carries)
def what_edges_carry_matters_to_those_whose_paths_have_it(encoder: MetapathEncoder) -> None:
    """Read the values of a node's own paths, and of nobody else's."""
    module = encoder.build(INPUTS, [CARRIED], torch.Generator().manual_seed(0))
    embeddings = module(_features(), [encoder.carried_graph(_paths())])
    expect(torch.isfinite(embeddings).all(), "embeddings must be finite", embeddings)
    for node in (0, 1):
        changed = _paths()
        changed.values[changed.matrix.indptr[node] : changed.matrix.indptr[node + 1]] += 1
        _expect_moved(module(_features(), [encoder.carried_graph(changed)]) - embeddings, node)


@LAWS.where(_carries)
def weights_of_paths_count_against_each_other(encoder: MetapathEncoder) -> None:
    """Weigh what is joined to a node: nothing moves where all weights are twice as large, with values or without."""
    for width in (CARRIED, 0):
        module = encoder.build(INPUTS, [width], torch.Generator().manual_seed(0))
        embeddings = module(_features(), [encoder.carried_graph(_paths(width))])
        twice, changed = _paths(width), _paths(width)
        twice.matrix.data *= 2
        torch.testing.assert_close(module(_features(), [encoder.carried_graph(twice)]), embeddings)
        changed.matrix.data[changed.matrix.indptr[1]] *= 9
        _expect_moved(module(_features(), [encoder.carried_graph(changed)]) - embeddings, 1)


@LAWS.where(_carries)
def gradients_of_what_edges_carry_are_those_of_finite_differences(encoder: MetapathEncoder) -> None:
    """Let every parameter learn, also with one metapath that carries nothing beside one that does; on any device."""
    module = encoder.build(INPUTS, [CARRIED, 0], torch.Generator().manual_seed(0))
    graphs = [encoder.carried_graph(_paths()), encoder.carried_graph(_paths(0))]
    there = [graph.to("cpu") for graph in graphs]
    torch.testing.assert_close(module(_features(), there), module(_features(), graphs), rtol=0, atol=0)
    _check_gradients(module, graphs, encoder.width)


def _expect_moved(change: Tensor, node: int) -> None:
    moved = change.abs().amax(1)
    others = torch.arange(NODES) != node
    expect(moved[node] > ROUNDING, f"it must matter to node {node}", moved)
    expect((moved[others] <= ROUNDING).all(), f"it must not matter to others than node {node}", moved)


def _paths(width: int = CARRIED) -> Paths:
    """Return what is carried along the first metapath, whose entries count differently."""
    matrix = _matrix(JOINED[0])
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    g = np.random.default_rng(3)
    matrix.data[:] = g.uniform(0.5, 2, matrix.nnz)
    return Paths(matrix, g.normal(size=(matrix.nnz, width)).astype(np.float32))


def _matrix(joined: Sequence[tuple[int, int]]) -> scipy.sparse.csr_matrix:
    """Return who attends to whom along a metapath, everybody to themselves."""
    dense: NDArray[np.float32] = np.eye(NODES, dtype=np.float32)
    for one, other in joined:
        dense[one, other] = dense[other, one] = 1.0
    if joined == JOINED[1]:
        dense[ONE_WAY] = 1.0
    return scipy.sparse.csr_matrix(dense)


def _graphs(encoder: MetapathEncoder, paths: Sequence[Sequence[tuple[int, int]]] = JOINED) -> list[Any]:
    return [encoder.graph(_matrix(path)) for path in paths]


def _features() -> Tensor:
    return torch.randn(NODES, INPUTS, generator=torch.Generator().manual_seed(0))


def _drawn(encoder: MetapathEncoder, metapaths: int = len(JOINED)) -> torch.nn.Module:
    return encoder.build(INPUTS, [0] * metapaths, torch.Generator().manual_seed(0))


def _moved(module: torch.nn.Module, graphs: Sequence[Any], node: int) -> Tensor:
    """By how much a node's features move each embedding, float32 [nodes]."""
    features: States = _features()
    changed = _features()
    changed[node] += 1
    moved: Tensor = (module(changed, graphs) - module(features, graphs)).abs().amax(1)
    return moved
