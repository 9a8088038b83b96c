"""Laws of every graph encoder: `fedgraft/methods/models/*.py`, found by file name, on small graphs."""

import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from fedgraft.contracts.providers import EdgeEncoder, Encoder, LayeredEncoder
from fedgraft.experiment import discovery
from fedgraft.methods.tasks.rating import Rating
from fedgraft.nn.propagate import Graph, GraphView

NAMES = [name for name in discovery.names("models") if issubclass(discovery.find("models", name), EdgeEncoder)]
LAYERED = [name for name in discovery.names("models") if issubclass(discovery.find("models", name), LayeredEncoder)]
NODES, NODE_WIDTH, EDGE_WIDTH = 9, 5, 4
LONE = 8
"""A node without any edge."""
MOST_PARAMETERS = 16_000
"""Of the whole model for ratings with default options: a message of 64 kB."""


@pytest.fixture(params=NAMES)
def encoder(request: pytest.FixtureRequest) -> Encoder:
    built: Encoder = discovery.build("models", "model", {"name": request.param})
    return built


def drawn(encoder: Encoder, seed: int = 0) -> torch.nn.Module:
    """A module every parameter of which matters: some start at zero."""
    g = torch.Generator().manual_seed(seed)
    module = encoder.build(NODE_WIDTH, EDGE_WIDTH, g)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=g)
    return module


def edges_of(seed: int = 0) -> np.ndarray:
    """bool [NODES, NODES], symmetric, without loops; the last node is alone."""
    upper = np.triu(np.random.default_rng(seed).random((NODES, NODES)) < 0.5, 1)
    upper[:, LONE] = False
    return upper | upper.T


def view_of(structure: np.ndarray, present: np.ndarray, seed: int = 0) -> GraphView:
    """A view with features that depend on nodes' numbers and on nothing else."""
    g = torch.Generator().manual_seed(seed)
    nodes = torch.randn(NODES, NODE_WIDTH, generator=g)
    features = torch.randn(NODES, NODES, EDGE_WIDTH, generator=g)
    graph = Graph(scipy.sparse.csr_matrix(structure.astype(float)))
    there = torch.from_numpy(present)[graph.rows, graph.columns]
    degree = torch.from_numpy(present.sum(1)).clamp(min=1).float()
    norm = there / (degree[graph.rows] * degree[graph.columns]).sqrt()
    return GraphView(graph, nodes, features[graph.rows, graph.columns] * there[:, None], norm)


def relabelled(view: GraphView, order: torch.Tensor) -> GraphView:
    """The same graph with node `order[k]` called k."""
    new = torch.argsort(order)
    rows, columns = new[view.graph.rows], new[view.graph.columns]
    place = torch.argsort(rows * NODES + columns)
    ones = np.ones(len(rows))
    graph = Graph(scipy.sparse.csr_matrix((ones, (rows.numpy(), columns.numpy())), shape=(NODES, NODES)))
    return GraphView(graph, view.nodes[order], view.edges[place], view.norm[place])


@pytest.mark.parametrize("name", NAMES)
def test_is_a_frozen_dataclass_with_a_documented_class(name: str) -> None:
    cls = discovery.find("models", name)
    assert issubclass(cls, Encoder)
    assert cls.__dataclass_params__.frozen
    text = inspect.getdoc(cls) or ""
    assert "Source:" in text
    assert "Differs:" in text
    assert all(f"{field.name}:" in text for field in dataclasses.fields(cls)), "every option is explained"


def test_gives_every_node_a_finite_embedding_of_its_width(encoder: Encoder) -> None:
    view = view_of(edges_of(), edges_of())
    found = drawn(encoder)(view)
    assert found.shape == (NODES, encoder.width)
    assert found.dtype == torch.float32
    assert torch.isfinite(found).all()


@pytest.mark.parametrize("seed", range(3))
def test_relabelling_nodes_relabels_embeddings(encoder: Encoder, seed: int) -> None:
    view, module = view_of(edges_of(seed), edges_of(seed), seed), drawn(encoder, seed)
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(module(relabelled(view, order)), module(view)[order], rtol=1e-4, atol=1e-5)


def test_neighbours_matter(encoder: Encoder) -> None:
    view, module = view_of(edges_of(), edges_of()), drawn(encoder)
    node = int(view.graph.rows[0])
    neighbour = int(view.graph.columns[0])
    nodes = view.nodes.clone()
    nodes[neighbour] += 1
    moved = module(dataclasses.replace(view, nodes=nodes)) - module(view)
    assert moved[node].abs().max() > 1e-6
    assert moved[LONE].abs().max() == 0


def test_an_absent_edge_has_no_influence(encoder: Encoder) -> None:
    structure, module = edges_of(), drawn(encoder)
    present = structure.copy()
    ends = np.argwhere(np.triu(structure))[:3]
    present[ends[:, 0], ends[:, 1]] = present[ends[:, 1], ends[:, 0]] = False
    with_absent, without = view_of(structure, present), view_of(present, present)
    assert with_absent.graph.edges > without.graph.edges
    torch.testing.assert_close(module(with_absent), module(without), rtol=1e-4, atol=1e-5)


def test_a_graph_without_any_edge_is_fine(encoder: Encoder) -> None:
    nothing, module = np.zeros((NODES, NODES), dtype=bool), drawn(encoder)
    for structure in (nothing, edges_of()):  # no edges, and none present
        found = module(view_of(structure, nothing))
        found.square().sum().backward()
        assert torch.isfinite(found).all()
        assert all(p.grad is None or torch.isfinite(p.grad).all() for p in module.parameters())


def test_gradients_reach_every_parameter(encoder: Encoder) -> None:
    module = drawn(encoder)
    module(view_of(edges_of(), edges_of())).square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name


def test_gradients_are_those_of_finite_differences(encoder: Encoder) -> None:
    module, view = drawn(encoder).double(), view_of(edges_of(), edges_of())
    view = GraphView(view.graph, view.nodes.double(), view.edges.double(), view.norm.double())
    g = torch.Generator().manual_seed(1)
    weights = torch.randn(NODES, encoder.width, generator=g, dtype=torch.float64)

    def objective() -> torch.Tensor:
        total: torch.Tensor = (module(view) * weights).sum()
        return total

    objective().backward()
    for name, parameter in module.named_parameters():
        direction = torch.randn(parameter.shape, generator=g, dtype=torch.float64)
        assert parameter.grad is not None
        expected = float((parameter.grad * direction).sum())
        step = 1e-6
        with torch.no_grad():
            parameter += step * direction
            above = float(objective())
            parameter -= 2 * step * direction
            below = float(objective())
            parameter += step * direction
        assert (above - below) / (2 * step) == pytest.approx(expected, rel=1e-3, abs=1e-5), name


def test_equal_generators_draw_equal_modules_and_touch_no_global_one(encoder: Encoder) -> None:
    before = torch.get_rng_state()
    first, again, other = (
        encoder.build(NODE_WIDTH, EDGE_WIDTH, torch.Generator().manual_seed(seed)).state_dict() for seed in (1, 1, 2)
    )
    assert torch.equal(before, torch.get_rng_state())
    assert list(first) == list(again) == list(other)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_layers_may_be_as_few_as_one(encoder: Encoder) -> None:
    if "layers" not in {field.name for field in dataclasses.fields(encoder)}:  # type: ignore[arg-type]
        pytest.skip("has no layers")
    shallow: Any = dataclasses.replace(encoder, layers=1)  # type: ignore[type-var]
    assert drawn(shallow)(view_of(edges_of(), edges_of())).shape == (NODES, encoder.width)


def test_makes_a_small_model_for_ratings(encoder: Encoder) -> None:
    model = Rating(encoder).model(torch.Generator())
    assert sum(parameter.numel() for parameter in model.parameters()) <= MOST_PARAMETERS
