"""Graphs to classify (`read_queries`); tables with labels are tested with `Graphs`, in tests/data."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data as Graph

from fedgraft.domains.graphs.pyg_objects import tables_of
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.graphs.tables import names_of, read_queries
from fedgraft.errors import InputError
from fedgraft.methods.data.graphs import Graphs
from fedgraft.methods.data.molecules import Molecules

NODES = pd.DataFrame({"graph": ["b", "a", "b", "c"], "node": [1, 1, 2, 1], "kind": ["O", "C", "C", "Xe"]})
EDGES = pd.DataFrame({"graph": ["b"], "source": [1], "target": [2]})


def trained() -> GraphShard:
    return Molecules(clients=1).load(0)[0]


def asked_of(own: GraphShard, nodes: object, edges: object, graphs: object = None, **options: object) -> GraphShard:
    tables = {"nodes": nodes, "edges": edges} | ({} if graphs is None else {"graphs": graphs})
    return read_queries(own, tables, **options)


def test_worked_example(caplog: pytest.LogCaptureFixture) -> None:
    own = trained()
    assert own.kind_names == ("S", "C", "O")
    asked = asked_of(own, NODES, EDGES)
    assert asked.ids.tolist() == ["b", "a", "c"], "as the nodes name them"
    assert asked.sizes.tolist() == [2, 1, 1]
    assert asked.kind.tolist() == [2, 1, 1, -1]
    assert (asked.kinds, asked.kind_names, asked.classes) == (own.kinds, own.kind_names, own.classes)
    assert asked.edges.tolist() == [[0, 1], [1, 0]]
    assert asked.label.tolist() == [-1, -1, -1]
    assert asked.rows("test").tolist() == [0, 1, 2]
    assert asked.name == own.name
    assert caplog.messages == ["1 nodes of kinds unseen in training ('Xe') count as of no kind."]


def test_a_table_of_graphs_says_which_and_in_which_order(tmp_path: Path) -> None:
    for name, table in (("nodes", NODES), ("edges", EDGES), ("graphs", pd.DataFrame({"graph": ["c", "b", "a"]}))):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    asked = asked_of(trained(), *(tmp_path / f"{name}.csv" for name in ("nodes", "edges", "graphs")))
    assert asked.ids.tolist() == ["c", "b", "a"]
    assert asked.kind.tolist() == [-1, 2, 1, 1]


def test_attributes_are_found_by_name() -> None:
    rows = np.arange(8)
    graphs = pd.DataFrame({"graph": rows, "label": rows % 2})
    nodes = pd.DataFrame({"graph": rows, "node": 0, "size": rows * 1.0, "charge": -rows * 1.0})
    (own,) = Graphs(graphs, nodes, EDGES.head(0), scaling="none").load(0)
    asked = asked_of(own, nodes[["charge", "node", "graph", "size"]].assign(note="text"), EDGES.head(0))
    assert asked.attributes.tolist() == own.attributes.tolist()
    assert asked.kinds == 0
    with pytest.raises(InputError, match=r"queries.nodes: no column 'charge' \(queries.attributes: charge\)"):
        asked_of(own, nodes.drop(columns="charge"), EDGES.head(0))
    with pytest.raises(InputError, match=r"queries.nodes: attribute 'size' must be a finite number; got nan at node 0"):
        asked_of(own, nodes.assign(size=np.nan), EDGES.head(0))


def test_degrees_unseen_in_training_are_no_kind(caplog: pytest.LogCaptureFixture) -> None:
    pair = torch.tensor([[0], [1]])
    graphs = [Graph(edge_index=pair, num_nodes=2, y=k % 2) for k in range(6)]
    (own,) = Graphs(graphs).load(0)
    star = Graph(edge_index=torch.tensor([[0, 0], [1, 2]]), num_nodes=3)
    tables = tables_of([star, graphs[0]], "queries")
    asked = asked_of(own, tables["nodes"], tables["edges"])
    assert asked.kind.tolist() == [-1, 1, 1, 1, 1]
    assert (asked.kinds, asked.kind_names) == (2, ("0", "1"))
    assert caplog.messages[1:] == ["1 nodes have over 1 neighbours, unseen in training: of no kind."]


def test_bad_queries() -> None:
    own = trained()
    with pytest.raises(InputError, match=r"no column 'kind' \(queries.kind\); client 'assay-1' was trained with"):
        asked_of(own, NODES.drop(columns="kind"), EDGES)
    with pytest.raises(InputError, match=r"queries.nodes: no column 'atom' \(queries.node\)"):
        asked_of(own, NODES, EDGES, names=names_of() | {"node": "atom"})
    with pytest.raises(InputError, match=r"edges, row 1: 'target' must be a node of the row's graph, 'b'; got '3'"):
        asked_of(own, NODES, EDGES.assign(target=3))
    with pytest.raises(InputError, match=r"predict.nodes: no file n\.csv"):
        asked_of(own, "n.csv", EDGES, owner="predict")
    with pytest.raises(InputError, match=r"queries.graphs, row 1: graph 'z' has no nodes in queries.nodes"):
        asked_of(own, NODES, EDGES, pd.DataFrame({"graph": ["z", "a", "b", "c"]}))
    with pytest.raises(InputError, match=r"queries.nodes, row 4: 'graph' must be a graph of queries.graphs; got 'c'"):
        asked_of(own, NODES, EDGES, pd.DataFrame({"graph": ["a", "b"]}))
