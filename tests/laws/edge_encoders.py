"""Laws of graph encoders that read features of edges, on small graphs."""

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from fedgraft.contracts.encoder import EdgeEncoder
from fedgraft.nn.propagate import Graph, GraphView
from fedgraft.testing.laws import Laws, expect

Structure = NDArray[np.bool_]
"""Which edges there are: bool [nodes, nodes], symmetric, without loops."""
NODES, NODE_WIDTH, EDGE_WIDTH = 9, 5, 4
LONE = 8
"""A node without any edge."""

LAWS: Laws[EdgeEncoder] = Laws()


@LAWS.having(EdgeEncoder)
def gives_every_node_a_finite_embedding_of_its_width(encoder: EdgeEncoder) -> None:
    """Return float32 [nodes, width]."""
    embeddings = _drawn(encoder)(_view(_structure(), _structure()))
    shape = tuple(embeddings.shape)
    expect(shape == (NODES, encoder.width), f"embeddings must be [{NODES}, {encoder.width}]", embeddings.shape)
    expect(embeddings.dtype == torch.float32, "embeddings must be float32", embeddings.dtype)
    expect(torch.isfinite(embeddings).all(), "embeddings must be finite", embeddings)


@LAWS.having(EdgeEncoder)
def relabelling_nodes_relabels_embeddings(encoder: EdgeEncoder) -> None:
    """Depend on no node's number."""
    for seed in range(3):
        view, module = _view(_structure(seed), _structure(seed), seed), _drawn(encoder, seed)
        order = torch.randperm(NODES, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(module(_relabelled(view, order)), module(view)[order], rtol=1e-4, atol=1e-5)


@LAWS.where(lambda cls: issubclass(cls, EdgeEncoder) and cls.reads_neighbours)
def neighbours_matter(encoder: EdgeEncoder) -> None:
    """Let a neighbour move a node's embedding, and nobody move that of a node without any."""
    view, module = _view(_structure(), _structure()), _drawn(encoder)
    node, neighbour = int(view.graph.rows[0]), int(view.graph.columns[0])
    nodes = view.nodes.clone()
    nodes[neighbour] += 1
    moved = (module(dataclasses.replace(view, nodes=nodes)) - module(view)).abs().amax(1)
    expect(moved[node] > 1e-6, "a neighbour must matter to a node", moved[node])
    expect(moved[LONE] == 0, "nobody may matter to a node without an edge", moved[LONE])


@LAWS.having(EdgeEncoder)
def an_absent_edge_has_no_influence(encoder: EdgeEncoder) -> None:
    """Compute the same with edges of which nothing comes as without them."""
    structure, module = _structure(), _drawn(encoder)
    present = structure.copy()
    ends = np.argwhere(np.triu(structure))[:3]
    present[ends[:, 0], ends[:, 1]] = present[ends[:, 1], ends[:, 0]] = False
    with_absent, without = _view(structure, present), _view(present, present)
    expect(with_absent.graph.edges > without.graph.edges, "there must be absent edges", with_absent.graph.edges)
    torch.testing.assert_close(module(with_absent), module(without), rtol=1e-4, atol=1e-5)


@LAWS.having(EdgeEncoder)
def a_graph_without_any_edge_is_fine(encoder: EdgeEncoder) -> None:
    """Give finite embeddings and gradients where there are no edges, or none is present."""
    nothing, module = np.zeros((NODES, NODES), dtype=bool), _drawn(encoder)
    for structure in (nothing, _structure()):
        embeddings = module(_view(structure, nothing))
        embeddings.square().sum().backward()
        expect(torch.isfinite(embeddings).all(), "embeddings must be finite", embeddings)
        for name, parameter in module.named_parameters():
            finite = parameter.grad is None or bool(torch.isfinite(parameter.grad).all())
            expect(finite, "gradients must be finite", name, parameter.grad)


@LAWS.having(EdgeEncoder)
def gradients_reach_every_parameter(encoder: EdgeEncoder) -> None:
    """Let every parameter learn."""
    module = _drawn(encoder)
    module(_view(_structure(), _structure())).square().sum().backward()
    for name, parameter in module.named_parameters():
        expect(parameter.grad is not None, "every parameter must have a gradient", name)
        if parameter.grad is not None:
            expect(torch.isfinite(parameter.grad).all(), "gradients must be finite", name, parameter.grad)
            expect(parameter.grad.abs().max() > 0, "no parameter's gradient may be zero", name)


@LAWS.having(EdgeEncoder)
def gradients_are_those_of_finite_differences(encoder: EdgeEncoder) -> None:
    """Have the gradients that small steps show."""
    module, view = _drawn(encoder).double(), _view(_structure(), _structure())
    view = GraphView(view.graph, view.nodes.double(), view.edges.double(), view.norm.double())
    g = torch.Generator().manual_seed(1)
    weights = torch.randn(NODES, encoder.width, generator=g, dtype=torch.float64)
    (module(view) * weights).sum().backward()
    for name, parameter in module.named_parameters():
        direction = torch.randn(parameter.shape, generator=g, dtype=torch.float64)
        expect(parameter.grad is not None, "every parameter must have a gradient", name)
        expected = float((parameter.grad * direction).sum()) if parameter.grad is not None else 0.0
        step, ends = 1e-6, []
        with torch.no_grad():
            for move in (step, -2 * step):
                parameter.add_(move * direction)
                ends.append(float((module(view) * weights).sum()))
            parameter.add_(step * direction)
        slope = (ends[0] - ends[1]) / (2 * step)
        near = abs(slope - expected) <= max(1e-3 * abs(expected), 1e-5)
        expect(near, f"the gradient of {name} along a direction must be {expected:.6g}", slope)


@LAWS.having(EdgeEncoder)
def equal_generators_draw_equal_modules_and_touch_no_global_one(encoder: EdgeEncoder) -> None:
    """Draw a module from the given generator and from nothing else."""
    before = torch.get_rng_state()
    first, again, other = (
        encoder.build(NODE_WIDTH, EDGE_WIDTH, torch.Generator().manual_seed(seed)).state_dict() for seed in (1, 1, 2)
    )
    untouched = torch.equal(before, torch.get_rng_state())
    expect(untouched, "only the given generator may be drawn from", "a change of torch's own")
    expect(list(first) == list(again) == list(other), "names must not depend on the seed", list(other))
    expect(all(torch.equal(first[name], again[name]) for name in first), "equal seeds must draw equal modules", again)
    expect(any(not torch.equal(first[name], other[name]) for name in first), "other seeds must draw others", other)


@LAWS.where(lambda cls: issubclass(cls, EdgeEncoder) and "layers" in getattr(cls, "__dataclass_fields__", ()))
def layers_may_be_as_few_as_one(encoder: EdgeEncoder) -> None:
    """Work with one layer."""
    shallow: Any = dataclasses.replace(encoder, layers=1)  # type: ignore[type-var]
    shape = _drawn(shallow)(_view(_structure(), _structure())).shape
    expect(shape == (NODES, encoder.width), f"one layer must give embeddings [{NODES}, {encoder.width}]", shape)


def _drawn(encoder: EdgeEncoder, seed: int = 0) -> torch.nn.Module:
    """A module every parameter of which matters: some start at zero."""
    g = torch.Generator().manual_seed(seed)
    module = encoder.build(NODE_WIDTH, EDGE_WIDTH, g)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=g))
    return module


def _structure(seed: int = 0) -> Structure:
    """Random edges; the last node is alone."""
    upper: Structure = np.triu(np.random.default_rng(seed).random((NODES, NODES)) < 0.5, 1)
    upper[:, LONE] = False
    return upper | upper.T


def _view(structure: Structure, present: Structure, seed: int = 0) -> GraphView:
    """A view with features that depend on nodes' numbers and on nothing else."""
    g = torch.Generator().manual_seed(seed)
    nodes = torch.randn(NODES, NODE_WIDTH, generator=g)
    features = torch.randn(NODES, NODES, EDGE_WIDTH, generator=g)
    graph = Graph(scipy.sparse.csr_matrix(structure.astype(float)))
    there = torch.from_numpy(present)[graph.rows, graph.columns]
    degree = torch.from_numpy(present.sum(1)).clamp(min=1).float()
    norm = there / (degree[graph.rows] * degree[graph.columns]).sqrt()
    return GraphView(graph, nodes, features[graph.rows, graph.columns] * there[:, None], norm)


def _relabelled(view: GraphView, order: torch.Tensor) -> GraphView:
    """Return the graph with node `order[k]` called k."""
    new = torch.argsort(order)
    rows, columns = new[view.graph.rows], new[view.graph.columns]
    place = torch.argsort(rows * NODES + columns)
    ones = np.ones(len(rows))
    graph = Graph(scipy.sparse.csr_matrix((ones, (rows.numpy(), columns.numpy())), shape=(NODES, NODES)))
    return GraphView(graph, view.nodes[order], view.edges[place], view.norm[place])
