"""Edges of whole graphs that carry something: which rows are edges, and what a model over colours sees of them."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgraft.domains.edge_data.edge_columns import CarriedRows, EdgeReader
from fedgraft.domains.edge_data.edge_rows import EdgeRows
from fedgraft.domains.graphs.batches import Collator, GraphBatch, Layer
from fedgraft.domains.graphs.model import GraphModel, Variant
from fedgraft.domains.graphs.shards import GraphShard, merge_shards
from fedgraft.domains.graphs.tables import carried_edges
from fedgraft.domains.tables.columns import Columns
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.methods.tasks.graph import Graph
from fedgraft.nn.propagate import Block, EdgeValues, Sparse
from helpers.small_graphs import PAIR, PATH, TRIANGLE, random_graphs, shard_of

LAYERS, WIDTH = 2, 3
ROWS = [(0, 1, 5.0), (1, 0, 7.0), (1, 2, 2.0), (2, 2, 9.0), (3, 4, 1.0), (3, 4, 3.0)]
"""Listed both ways; one way; from a node to itself; twice the same way. Nodes 0..2 are one graph, 3 and 4 another."""
SIZES = np.array([3, 2])


def read(rows=ROWS, base=0, **options):
    """{(receiver, sender): [(number, along, weight) of each edge]}, and the notes."""
    numbers = np.array([[row[2]] for row in rows])
    carried = CarriedRows(Columns(("x",), numbers, {}), None, None, np.arange(len(rows)))
    reader = EdgeReader(lambda each: np.asarray(each.columns.numbers, np.float32), **options)
    ends = np.array([row[:2] for row in rows]).T
    edges, kept, notes = carried_edges(ends, SIZES, carried, reader, "rows, row", base)
    assert edges.dtype == np.int32
    assert np.array_equal(np.lexsort((edges[1], edges[0])), np.arange(edges.shape[1]))
    stored = kept.edge_rows(reader.make(kept.carried))
    found = {}
    for to, by, (value,), along, weight in zip(
        *edges.tolist(),
        stored.values.tolist(),
        stored.along.tolist(),
        [1.0] * len(stored) if stored.weight is None else stored.weight.tolist(),
        strict=True,
    ):
        found.setdefault((to, by), []).append((value, along, weight))
    return found, notes


def test_an_edge_listed_both_ways_is_one_with_what_each_row_says():
    found, notes = read()
    assert found[1, 0] == [(5, True, 1)]
    assert found[0, 1] == [(7, True, 1)]
    assert found[2, 1] == found[1, 2] == [(2, True, 1)], "listed one way"
    assert found[4, 3] == found[3, 4] == [(1, True, 1), (3, True, 1)], "two edges"
    assert notes == ("1 edges from a node to itself left out.",)


def test_repeats_of_one_direction():
    found, notes = read(duplicate_edges="last")
    assert found[4, 3] == [(3, True, 1)]
    assert "1 repeated edges left out." in notes
    found, notes = read(duplicate_edges="sum")
    assert found[3, 4] == [(4, True, 2)]
    assert found[1, 0] == [(5, True, 1)], "the other way is no repeat"


def test_directed_edges_are_stored_at_both_ends():
    found, _ = read(directed=True)
    assert found[1, 0] == [(5, True, 1), (7, False, 1)]
    assert found[0, 1] == [(5, False, 1), (7, True, 1)]
    assert found[1, 2] == [(2, False, 1)]


def test_an_edge_stays_inside_its_graph():
    with pytest.raises(InputError, match=r"rows, row 2: nodes 3 and 4 belong to different graphs"):
        read([(0, 1, 1.0), (2, 3, 1.0)], base=1)


def carrying(shard: GraphShard, seed: int, weighted: bool = False, directed: bool = False) -> GraphShard:
    """Columns of few values, so that colours have kinds of edges in common; the same both ways unless directed."""
    g = np.random.default_rng(seed)
    one, other = np.sort(shard.edges, axis=0)
    pairs, pair = np.unique(one.astype(np.int64) * shard.nodes + other, return_inverse=True)
    values = g.integers(0, 2, (len(pairs), WIDTH)).astype(np.float32)[pair]
    weight = g.integers(1, 4, len(pairs)).astype(np.float32)[pair] if weighted else None
    along = np.ones(len(pair), bool)
    if directed:
        along = (g.random(len(pairs)) < 0.5)[pair] ^ (shard.edges[0] < shard.edges[1])
    return replace(shard, edge_rows=EdgeRows(values, along, pair, weight))


def by_nodes(shard: GraphShard, graphs: np.ndarray) -> GraphBatch:
    """A batch in which every node stands for itself, and every edge."""
    part = shard.take(graphs)
    rows, nodes = part.edge_rows, part.nodes
    weight = np.ones(len(rows), np.float32) if rows.weight is None else rows.weight
    matrix = Sparse(part.edges[0], part.edges[1], weight, (nodes, nodes), small=0)
    told = EdgeValues(
        torch.from_numpy(rows.values),
        torch.from_numpy(rows.along),
        None if rows.weight is None else torch.from_numpy(weight),
    )
    degree = torch.from_numpy(part.weighted_degree)
    block = Block(matrix, torch.arange(nodes), degree, degree, told)
    owner = np.repeat(np.arange(len(graphs)), part.sizes)
    counts = Sparse(owner, np.arange(nodes), np.ones(nodes), (len(graphs), nodes))
    layer = Layer(block, torch.full((nodes,), 1 / nodes), counts)
    kind, attributes = torch.from_numpy(part.kind.astype(int)), torch.from_numpy(part.attributes)
    return GraphBatch(kind, attributes, torch.zeros(nodes, 0), counts, (layer,) * LAYERS, torch.from_numpy(part.label))


MODELS = {
    "gine": {"name": "gine", "hidden": 8},
    "gat": {"name": "gat", "hidden": 8, "embedding": 8},
    "multigraph": {"name": "multigraph", "hidden": 8},
    "pyg": {"name": "pyg", "module": "torch_geometric.nn:GINEConv", "hidden": 8},
    "gcn": {"name": "gcn", "hidden": 8, "embedding": 8},
}


@pytest.mark.parametrize(
    ("name", "weighted", "directed"),
    [
        *((name, False, False) for name in ("gine", "gat", "multigraph", "pyg")),
        *((name, True, False) for name in ("gine", "gat", "gcn")),
        ("multigraph", False, True),
    ],
)
def test_a_model_over_colours_is_the_model_over_nodes(name, weighted, directed):
    shard = carrying(shard_of(random_graphs(np.random.default_rng(1), 30), kinds=2), 2, weighted, directed)
    encoder = discovery.build("models", "model", {"layers": LAYERS, **MODELS[name]})
    graphs = np.random.default_rng(3).integers(0, 30, 20)
    few, every = Collator(shard, LAYERS, encoder.by_degree).batch(graphs), by_nodes(shard, graphs)
    assert len(few.layers[-1].share) < len(every.layers[-1].share)
    one = GraphModel(encoder, Variant(2, 0, 2), 0, True, 0.0, torch.Generator().manual_seed(0), edge_width=WIDTH)
    other = copy.deepcopy(one)
    logits = one(few), other(every)
    torch.testing.assert_close(*logits, rtol=1e-3, atol=1e-4)
    for found in logits:
        torch.nn.functional.cross_entropy(found, few.label).backward()
    for (key, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        if a.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4, msg=key)


def test_colours_differ_by_what_edges_carry():
    plain = shard_of([PAIR, PAIR], kinds=1)
    bonds = EdgeRows(np.array([[1], [1], [2], [2]], np.float32), np.ones(4, bool), np.array([0, 0, 1, 1]))
    told = replace(plain, edge_rows=bonds)
    every = np.array([0, 1])
    assert len(Collator(plain, 1, False).batch(every).layers[0].share) == 1
    block = Collator(told, 1, False).batch(every).layers[0].block
    assert block.matrix.shape == (2, 1), "two colours behind a layer, one before it"
    assert sorted(block.edges.values[:, 0].tolist()) == [1, 2]
    assert block.edge_index.tolist() == [[0, 0], [0, 1]]


def test_only_what_the_encoder_reads_makes_colours():
    shard = carrying(shard_of([TRIANGLE, PATH], kinds=1), 4, weighted=True, directed=True)
    read = {name: Graph(discovery.build("models", "model", MODELS[name]))._as_read(shard.edge_rows) for name in MODELS}
    assert (read["gcn"].width, read["gcn"].along.all()) == (0, True)
    assert (read["gine"].width, read["gine"].along.all()) == (WIDTH, True)
    assert not read["multigraph"].along.all()
    assert read["pyg"].weight is None, "GINEConv takes none"
    without = replace(shard.edge_rows, weight=None)
    assert Graph(discovery.build("models", "model", MODELS["gcn"]))._as_read(without) is None


def test_shards_are_taken_apart_and_merged_with_what_edges_carry():
    shard = carrying(shard_of(random_graphs(np.random.default_rng(5), 6)), 6, weighted=True)
    again = merge_shards([shard.take(np.array([k])) for k in range(6)])
    for key in ("values", "weight", "along", "number"):
        assert np.array_equal(getattr(again.edge_rows, key), getattr(shard.edge_rows, key)), key
    named = replace(shard, edge_names=("a", "b", "c"))
    with pytest.raises(InputError, match="their columns of edges differ"):
        merge_shards([named, replace(named, edge_names=("a", "b", "d"))])
    with pytest.raises(InputError, match=r"GraphShard\.edge_rows of here must be of \d+ edges; got 1"):
        replace(shard, edge_rows=shard.edge_rows.take(np.array([0])), edge_names=())
