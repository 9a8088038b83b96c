"""A trained model of the task `edge` as one that needs no fedgraft: it says what the client that has all of it says."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedgraft.contracts.encoder import LayeredEncoder
from fedgraft.domains.edges.shards import EdgeShard
from fedgraft.experiment.predicting.export import source_text
from fedgraft.methods.data.edges import Edges
from fedgraft.methods.inputs.raw_features import RawFeatures
from fedgraft.methods.models.gat import GAT
from fedgraft.methods.models.gcn import GCN
from fedgraft.methods.models.gin import GIN
from fedgraft.methods.models.gine import GINE
from fedgraft.methods.models.mlp import MLP
from fedgraft.methods.models.multigraph import Multigraph
from fedgraft.methods.models.sage import SAGE
from fedgraft.methods.tasks.edge import Edge
from helpers import banks
from helpers.edge_shards import exported
from helpers.toy_edges import ToyEdges

ASKED = pd.DataFrame({"source": ["1", "2", "1", "new", "3"], "target": ["2", "1", "8", "3", "other"]})
"""Edges among known nodes, some of which were there before, and new ones."""
ENCODERS = [
    *(Multigraph(hidden=(4, 3), maxima=True), GINE(hidden=4), SAGE(hidden=4), GIN(hidden=4), GCN(hidden=(4,))),
    *(GAT(hidden=4, embedding=4), MLP(hidden=4)),
]


def toy() -> EdgeShard:
    (shard,) = ToyEdges(edges=120, clients=1).load(1)
    return shard


def transfers(**options: Any) -> EdgeShard:
    """Those of all banks in one place; weights, numbers and the rest as options say."""
    every = banks.tables()
    nodes = every["nodes"].drop(columns="client")
    edges = (
        every["edges"]
        .drop(columns=["from_bank", "to_bank"])
        .assign(times=np.arange(len(every["edges"])) % 3 + 0.5, cents=100.0 + np.arange(len(every["edges"])))
    )
    given = {"source": "from", "target": "to", "label": "fraud", "time": "when", **options}
    (shard,) = Edges(nodes, edges, clients=1, edge_features=["amount", "channel"], **given).load(1)
    return shard


def inputs(shard: EdgeShard, new: int) -> dict[str, torch.Tensor]:
    """What the model reads of a graph with so many new nodes; each edge once."""
    graph, rows = shard.graph, shard.graph.edge_rows
    receiver, out = np.repeat(np.arange(graph.own), graph.degree), ~rows.along
    features = np.concatenate([graph.features, np.zeros((new, graph.width), np.float32)])
    arrays = {"x": features, "edge_index": np.stack([receiver, graph.senders.astype(np.int64)])[:, out]}
    weight = {} if rows.weight is None else {"edge_weight": rows.weight[out]}
    return {name: torch.from_numpy(each) for name, each in {**arrays, "edge_attr": rows.values[out], **weight}.items()}


def said(task: Edge, shard: EdgeShard, asked: pd.DataFrame) -> tuple[np.ndarray, torch.Tensor, dict[str, Any]]:
    """(what the client answers, what the exported model says of the same, what `plain` was told)."""
    model = task.model(torch.Generator().manual_seed(3)).eval()
    statistics = {0: task.publications.statistics(shard)}
    shared = dict(task.publications.combine(statistics)[0])
    (questions,) = task.questions([shard], {"edges": asked}).values()
    answers = task.predict(model, shard, {"shared": shared}, questions.asked)
    columns = torch.from_numpy(questions.asked.columns)
    pairs, new = torch.from_numpy(questions.asked.ends), len(questions.asked.new)
    plain = task.plain(model, None, dict(task.publications.common(shared)))
    with torch.no_grad():
        found = exported(plain)(**inputs(shard, new), pairs=pairs, pair_attr=columns)
    return answers, found, {**vars(plain), "source": source_text(plain, plain.module)}


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda each: type(each).__name__)
def test_it_says_what_the_client_does(encoder: LayeredEncoder) -> None:
    shard = toy()
    answers, found, told = said(
        Edge(encoder, inputs=RawFeatures(scale=2.0)).fitted([shard]), shard, ASKED.assign(**{"0": np.arange(5.0)})
    )
    wanted = np.stack([answers["probability_good"], answers["probability_bad"]], axis=1)
    np.testing.assert_allclose(found.softmax(1).numpy(), wanted, atol=1e-5)
    assert np.unique(wanted[:, 0].round(6)).size == 5
    assert "CLASSES = ['good', 'bad']" in told["source"]
    assert "load()(x, edge_index, edge_attr, pairs, pair_attr)" in told["usage"]


def test_what_reads_edges_is_as_wide_as_asked_for() -> None:
    shard = toy()
    task = Edge(Multigraph(hidden=4), readout=5).fitted([shard])
    assert task.model(torch.Generator()).inner.out_features == 5


def test_numbers_are_in_the_users_unit_and_weights_count() -> None:
    shard = transfers(weight="times", label="cents", labels="numbers")
    task = Edge(Multigraph(hidden=4)).fitted([shard])
    asked = pd.DataFrame({"source": ["a7", "a8"], "target": ["a1", "a9"], "0": 0.5, "1": 0.0, "2": 1.0, "3": 0.0})
    answers, found, told = said(task, shard, asked)
    np.testing.assert_allclose(found[:, 0].numpy(), answers["prediction"], rtol=1e-5)
    assert "edge_weight" in told["usage"]
    assert "CLASSES" not in told["source"]
