"""The model over colours is the model over nodes."""

import copy

import numpy as np
import pytest
import torch

from fedgraft.domains.graphs.batches import Collator, GraphBatch, Layer, places
from fedgraft.domains.graphs.model import GraphModel, Together, Variant
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.experiment.recipes import discovery
from fedgraft.nn.propagate import Sparse
from helpers.blocks import block_of
from helpers.small_graphs import random_graphs, shard_of

WALKS, DEGREES, LAYERS = 3, 2, 2


def by_nodes(shard: GraphShard, graphs: np.ndarray, structure: np.ndarray) -> GraphBatch:
    """A batch in which every node stands for itself."""
    first = np.concatenate([[0], np.cumsum(shard.sizes)])
    nodes = np.concatenate([np.arange(first[graph], first[graph + 1]) for graph in graphs])
    owner = np.repeat(np.arange(len(graphs)), shard.sizes[graphs])
    adjacency = np.zeros((len(shard.kind), len(shard.kind)))
    adjacency[shard.edges[0], shard.edges[1]] = 1
    block = block_of(adjacency[np.ix_(nodes, nodes)] * (owner[:, None] == owner))
    counts = Sparse(owner, np.arange(len(nodes)), np.ones(len(nodes)), (len(graphs), len(nodes)))
    layer = Layer(block, torch.full((len(nodes),), 1 / len(nodes)), counts)
    parts = (torch.from_numpy(array[nodes]) for array in (shard.kind.astype(int), shard.attributes, structure))
    return GraphBatch(*parts, counts, (layer,) * LAYERS, torch.from_numpy(shard.label[graphs]))


@pytest.mark.parametrize("attributes", [False, True])
@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("name", ["gin", "gcn", "sage"])
def test_logits_gradients_and_statistics_are_those_of_nodes(name, structured, attributes):
    g = np.random.default_rng(1)
    shard = shard_of(random_graphs(g, 30), kinds=2, attributes=attributes)
    encoder = discovery.build("models", "model", {"name": name, "layers": LAYERS})
    structure = places(shard, WALKS, DEGREES) if structured else np.zeros((len(shard.kind), 0), np.float32)
    graphs = g.integers(0, 30, 20)
    few = Collator(shard, LAYERS, structured or encoder.by_degree, structure).batch(graphs)
    all_nodes = by_nodes(shard, graphs, structure)
    assert len(few.layers[-1].share) < len(all_nodes.layers[-1].share)
    width = (WALKS + DEGREES) * structured
    variant = Variant(2, shard.attributes.shape[1], 2)
    one = GraphModel(encoder, variant, width, True, 0.0, torch.Generator().manual_seed(0))
    other = copy.deepcopy(one)
    logits = one(few), other(all_nodes)
    torch.testing.assert_close(*logits, rtol=1e-3, atol=1e-4)
    for found in logits:
        torch.nn.functional.cross_entropy(found, few.label).backward()
    for (key, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4, msg=key)
    for a, b in zip(one.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(one.eval()(few), other.eval()(all_nodes), rtol=1e-3, atol=1e-4)


def test_together_models_answer_with_their_mean_probability():
    shard = shard_of(random_graphs(np.random.default_rng(0), 5), kinds=2)
    batch = Collator(shard, LAYERS, False).batch(np.arange(5))
    encoder = discovery.build("models", "model", {"name": "gin", "layers": LAYERS})
    each = [
        GraphModel(encoder, Variant(2, 0, 3), 0, True, 0.0, torch.Generator().manual_seed(seed)).eval()
        for seed in (0, 1)
    ]
    together = Together(each)
    expected = sum(model(batch).softmax(1) for model in each) / 2
    torch.testing.assert_close(together(batch).softmax(1), expected)
    torch.testing.assert_close(together.represent(batch), each[0].represent(batch))
