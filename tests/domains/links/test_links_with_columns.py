"""Links of a graph whose edges carry columns and weights, and of which two nodes may have several."""

import numpy as np
import pytest
import torch

from fedgraft.contracts import Batch
from fedgraft.contracts.encoder import LayeredEncoder, NetworkEncoder
from fedgraft.contracts.task import example_losses
from fedgraft.domains.edge_data.edge_rows import both_ways
from fedgraft.domains.links.shards import LinkShard, codes_of, hold_out, whole
from fedgraft.domains.nodes.base.shards import NodeShard, WholeGraph, cut
from fedgraft.errors import InputError
from fedgraft.methods.baselines.adamic_adar import AdamicAdar
from fedgraft.methods.baselines.preferential_attachment import PreferentialAttachment
from fedgraft.methods.models.gat import GAT
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.models.gine import GINE
from fedgraft.methods.models.multigraph import Multigraph
from fedgraft.methods.models.network import Network
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.link import Link
from helpers import toy_nodes
from helpers.edge_shards import exported

NODES = 12
RING = np.array([(v, (v + step) % NODES) for v in range(NODES) for step in (1, 2)]).T
"""Twenty-four edges, each between two nodes of twelve."""
TWICE = np.concatenate([RING, RING[::-1, ::3]], axis=1)
"""And every third once more, the other way."""


def shard_of(ends: np.ndarray = TWICE, weighted: bool = False, columns: int = 2) -> NodeShard:
    g, count = np.random.default_rng(0), ends.shape[1]
    weight = (0.5 + g.random(count)).astype(np.float32) if weighted else None
    values = g.standard_normal((count, columns)).astype(np.float32)
    pointers, senders, rows = both_ways(ends, values, NODES, True, weight)
    plain = toy_nodes.whole([(0, 1)], label=[0] * NODES)
    graph = WholeGraph(**{**vars(plain), "pointers": pointers, "senders": senders, "edge_rows": rows})
    return cut(graph, np.zeros(NODES, np.int64), ("a",))[0]


def held(shard: NodeShard, seed: int = 0, split_seed: int | None = None) -> LinkShard:
    return hold_out(shard, 0.2, 0.2, np.random.default_rng(seed), split_seed)


@pytest.mark.parametrize("split_seed", [None, 1])
def test_edges_of_two_nodes_are_one_and_are_held_out_together(split_seed: int | None) -> None:
    shard = shard_of()
    assert whole(shard).edges.shape[1] == 24
    for seed in range(5):
        found = held(shard, seed, split_seed)
        held_out, left = (codes_of(each, NODES) for each in (found.pairs[:, found.edge], found.edges))
        assert len(np.unique(held_out)) == len(held_out)
        assert not np.isin(held_out, left).any()
        assert len(held_out) + len(left) == 24
        receiver = np.repeat(np.arange(NODES), found.graph.degree)
        stored = codes_of(np.stack([receiver, found.graph.senders]), NODES)
        assert not np.isin(stored, held_out).any(), "no edge that is held out is left in one of its repeats"
        ends = TWICE[:, found.graph.edge_rows.number]
        assert np.array_equal(codes_of(ends, NODES), stored), "what edges carry stays with them"


def test_repeats_do_not_change_which_edges_are_held_out() -> None:
    one, other = held(shard_of()), held(shard_of(RING))
    assert np.array_equal(one.pairs, other.pairs)
    for baseline in (AdamicAdar(), PreferentialAttachment()):
        assert baseline.score([one]) == baseline.score([other])


@pytest.mark.parametrize("encoder", [GINE(hidden=4), GAT(hidden=4, embedding=4), Multigraph(hidden=4)], ids=str)
def test_training_edges_carry_messages_with_their_columns(encoder: LayeredEncoder) -> None:
    found = held(shard_of())
    task = Link(encoder, width=4).fitted([found])
    assert task.edge_features == 2
    data, model = task.prepare(found, {}), task.model(torch.Generator().manual_seed(0))
    example_losses(task.loss(model, data, Batch(np.arange(task.examples(data))), None)).mean().backward()
    named = {name: each.grad for name, each in model.named_parameters() if "edge" in name}
    assert named
    assert all(grad is not None and grad.abs().max() > 0 for grad in named.values())


def test_columns_that_are_not_read_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"):
        task = Link(SAGE(hidden=4)).fitted([held(shard_of(weighted=True))])
    assert task.edge_weights
    assert ["edges carry 2 columns, which model SAGE does not read" in each for each in caplog.messages] == [True]
    with pytest.raises(InputError, match=r"task\.edge_features = 3, but the data have 2"):
        Link(GINE(), edge_features=3).fitted([held(shard_of())])


@pytest.mark.parametrize(
    ("encoder", "weighted"),
    [
        (GINE(hidden=4), False),
        (GCN(embedding=4, layers=2), True),
        (Network("torch_geometric.nn:GCN", {"hidden_channels": 4, "num_layers": 2}), True),
        (Network("torch_geometric.nn:GAT", {"hidden_channels": 4, "num_layers": 2, "edge_dim": 2}), False),
    ],
    ids=["gine", "gcn", "network with weights", "network with columns"],
)
def test_a_trained_model_is_one_of_pyg(encoder: LayeredEncoder | NetworkEncoder, weighted: bool) -> None:
    found = held(shard_of(weighted=weighted))
    task = Link(encoder, width=4).fitted([found])
    data, model = task.prepare(found, {}), task.model(torch.Generator().manual_seed(0)).eval()
    graph = found.graph
    receiver = np.repeat(np.arange(NODES), graph.degree)
    edge_index = torch.from_numpy(np.stack([graph.senders.astype(np.int64), receiver]))
    more = torch.from_numpy(graph.edge_weight if weighted else graph.edge_rows.values)
    plain = task.plain(model, None, {})
    pairs = torch.from_numpy(found.pairs.astype(np.int64))
    odds = exported(plain)(torch.from_numpy(graph.features), edge_index, more, pairs)
    np.testing.assert_allclose(odds.detach(), data.scores(model, found.pairs), rtol=1e-4, atol=1e-5)
    assert ("edge_weight" if weighted else "edge_attr") in plain.inputs
