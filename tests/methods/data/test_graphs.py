from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data as Graph

from fedgraft.domains.graphs.shards import merge_shards
from fedgraft.errors import InputError
from fedgraft.methods.data.graphs import Graphs

Frames = dict[str, pd.DataFrame]


def frames(n: int = 24) -> Frames:
    """n molecules at two labs: an atom pair C-O with a charge each, or a lone N; the second lab has no N."""
    pairs = [k for k in range(n) if k % 3]
    alone = [k for k in range(n) if not k % 3]
    nodes = [(f"m{k:02d}", "a", "C", 0.5) for k in pairs] + [(f"m{k:02d}", "b", "O", -0.5) for k in pairs]
    nodes += [(f"m{k:02d}", "a", "N" if k % 2 else "C", 1.0) for k in alone]
    return {
        "graphs": pd.DataFrame(
            {
                "graph": [f"m{k:02d}" for k in range(n)],
                "label": ["toxic" if k % 3 else "safe" for k in range(n)],
                "client": ["north" if k % 2 else "south" for k in range(n)],
            }
        ),
        "nodes": pd.DataFrame(nodes, columns=["graph", "node", "kind", "charge"]),
        "edges": pd.DataFrame({"graph": [f"m{k:02d}" for k in pairs], "source": "a", "target": "b"}),
    }


def change(table: str, row: int, column: str, value: Any) -> Frames:
    made = frames()
    made[table] = made[table].astype({column: object})
    made[table].loc[row, column] = value
    return made


# --- good input -------------------------------------------------------------------------------------------------------


def test_worked_example() -> None:
    north, south = Graphs(**frames(), scaling="none").load(1)
    assert (north.name, south.name) == ("north", "south")
    assert (north.kind_names, south.kind_names) == (("C", "N", "O"), ("C", "O"))
    assert (north.classes, north.attribute_names) == (("safe", "toxic"), ("charge",))
    first = south.take(np.array([0, 1]))  # m00, a lone C, and m02, the pair
    assert first.ids.tolist() == ["m00", "m02"]
    assert first.sizes.tolist() == [1, 2]
    assert first.edges.tolist() == [[1, 2], [2, 1]]
    assert first.kind.tolist() == [0, 0, 1]
    assert first.attributes.ravel().tolist() == [1.0, 0.5, -0.5]
    assert first.label.tolist() == [0, 1]
    assert np.bincount(north.split).tolist() == [10, 1, 1]


def test_files_and_frames_are_the_same(tmp_path: Path) -> None:
    for name, table in frames().items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        table.to_parquet(tmp_path / f"{name}.parquet")
    loads = [Graphs(*(tmp_path / f"{name}.{kind}" for name in frames())).load(3) for kind in ("csv", "parquet")]
    for shards in loads:
        for shard, expected in zip(shards, Graphs(**frames()).load(3), strict=True):
            for key, value in vars(expected).items():
                found = vars(shard)[key]
                same = np.array_equal(found, value) if isinstance(value, np.ndarray) else found == value
                assert same, key


def test_own_names_of_columns() -> None:
    made = frames()
    names = {
        "graph": "molecule",
        "label": "effect",
        "client": "lab",
        "node": "atom",
        "kind": "symbol",
        "source": "from",
    }
    renamed = {key: table.rename(columns=names) for key, table in made.items()}
    renamed["nodes"]["mass"] = 12.0
    shards = Graphs(**renamed, **names, attributes=("charge",)).load(1)
    expected = Graphs(**made).load(1)
    assert [shard.kind.tolist() for shard in shards] == [shard.kind.tolist() for shard in expected]
    assert shards[0].attribute_names == ("charge",)
    del renamed["nodes"]["symbol"]
    with pytest.raises(InputError, match=r"Graphs.nodes: no column 'symbol' \(Graphs.kind\)"):
        Graphs(**renamed, **names, attributes=()).load(1)


def test_one_vocabulary_for_all_can_be_trained_in_one_place() -> None:
    shards = Graphs(**frames(), vocabulary="all").load(1)
    assert [shard.kind_names for shard in shards] == [("C", "N", "O")] * 2
    assert merge_shards(shards).graphs == 24
    with pytest.raises(InputError, match="their kinds differ"):
        merge_shards(Graphs(**frames()).load(1))


def test_without_features_a_degree_is_one() -> None:
    made = frames()
    made["nodes"] = made["nodes"][["graph", "node"]]
    north, south = Graphs(**made).load(1)
    assert (north.degrees, north.kind_names) == (True, ("0", "1"))
    assert (south.kind == south.degree).all()


def test_clients_may_have_attributes_of_their_own() -> None:
    made = frames()
    south = made["nodes"]["graph"].isin(made["graphs"].query("client == 'south'")["graph"])
    made["nodes"].loc[south, "charge"] = np.nan
    made["nodes"]["mass"] = 12.0
    shards = Graphs(**made).load(1)
    assert [shard.attribute_names for shard in shards] == [("charge", "mass"), ("mass",)]
    assert [shard.attributes.shape[1] for shard in shards] == [2, 1]


def test_given_splits_stand() -> None:
    made = frames()
    made["graphs"]["split"] = ["train", "train", "validation", "test"] * 6
    for shard in Graphs(**made).load(1):
        assert len(shard.rows("train")) == 6
        assert {int(ident[1:]) % 4 for ident in shard.ids[shard.rows("test")]} <= {3}
    made["graphs"]["split"] = "test"
    with pytest.raises(InputError, match="north: column 'split' leaves no graph for training; one is needed"):
        Graphs(**made).load(1)


def test_without_clients_graphs_are_dealt() -> None:
    made = frames()
    del made["graphs"]["client"]
    (own,) = Graphs(**made).load(1)
    assert (own.name, own.graphs) == ("client 0", 24)
    shards = Graphs(**made, clients=3).load(1)
    assert [shard.graphs for shard in shards] == [8, 8, 8]
    assert sorted(np.concatenate([shard.ids for shard in shards])) == sorted(own.ids)
    with pytest.raises(InputError, match=r"Graphs.clients must be 2, as the data name; got 3"):
        Graphs(**frames(), clients=3).load(1)


def test_what_is_left_out_is_told(caplog: pytest.LogCaptureFixture) -> None:
    made = frames()
    more = pd.DataFrame({"graph": ["m01", "m01"], "source": ["a", "b"], "target": ["a", "a"]})
    made["edges"] = pd.concat([made["edges"], more, more])
    assert Graphs(**made).load(1)[0].edges.tolist() == Graphs(**frames()).load(1)[0].edges.tolist()
    assert caplog.messages[1:3] == ["2 edges from a node to itself left out.", "1 repeated edges left out."]


def test_attributes_may_be_named_by_whole_numbers() -> None:
    made = frames()
    made["nodes"] = made["nodes"].rename(columns={"charge": 0})
    data = Graphs(**made)
    assert data.load(1)[0].attribute_names == ("0",)
    assert list(data.tables()["nodes"]) == ["graph", "node", "kind", "0"]


def test_a_set_may_have_no_edge_at_all() -> None:
    made = frames()
    made["edges"] = made["edges"].head(0)
    assert Graphs(**made).load(1)[0].edges.shape == (2, 0)


# --- PyG objects ------------------------------------------------------------------------------------------------------


def objects(n: int = 12, width: int = 2, **more: Any) -> list[Graph]:
    ends = torch.tensor([[0, 1], [1, 0]])
    return [
        Graph(x=torch.full((2, width), float(k)), edge_index=ends, y=torch.tensor([k % 2]), **more) for k in range(n)
    ]


def test_objects_of_clients_that_differ() -> None:
    narrow, wide = Graphs({"wide": objects(width=3), "narrow": objects(width=1)}, scaling="none").load(1)
    assert (wide.name, wide.attributes.shape) == ("wide", (24, 3))
    assert (narrow.attributes.shape, narrow.attribute_names) == ((24, 1), ("x0",))
    assert narrow.attributes[:4].ravel().tolist() == [0, 0, 1, 1]
    assert narrow.classes == ("0", "1")
    assert narrow.edges[:, :4].T.tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]


def test_objects_that_name_their_client() -> None:
    north, south = Graphs([*objects(client="south"), *objects(client="north")]).load(1)
    assert (north.name, south.name, north.graphs) == ("north", "south", 12)


def test_objects_without_features() -> None:
    bare = [Graph(edge_index=graph.edge_index, y=graph.y, num_nodes=3) for graph in objects()]
    (own,) = Graphs(bare).load(1)
    assert own.degrees
    assert own.kind[:3].tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([], r"Graphs.graphs: no graphs"),
        ({"a": 5}, r"Graphs.graphs\['a'\] must be a list of torch_geometric.data.Data; got int"),
        ([Graph(x=torch.full((1, 1), 1j), y=1)], r"Graphs.graphs\[0\].x must be real numbers; got complex64"),
        (["a.csv"], r"Graphs.graphs\[0\] must be a torch_geometric.data.Data; got str"),
        ([*objects(), *objects(client="a")], r"Graphs.graphs\[12\]: all graphs must say their client, or none"),
        (
            {"a": [*objects(), *objects(width=3)]},
            r"Graphs.graphs\['a'\]\[12\].x has 3 features where Graphs.graphs\['a'\]\[0\].x has 2; .* one width",
        ),
        ([Graph(x=torch.tensor([[np.nan]]), y=1)], r"Graphs.graphs\[0\].x must hold finite numbers"),
        ([Graph(x=torch.zeros(3), y=1)], r"\[0\].x must be of shape \[nodes, features\]; got \[3\]"),
        ([Graph(x=torch.zeros(1, 1), edge_index=torch.tensor([[0], [1]]), y=1)], r"edge_index must hold .* got 0\.\.1"),
        ([Graph(x=torch.zeros(1, 1), edge_index=torch.zeros(1, 2), y=1)], r"edge_index must be whole numbers of shape"),
        ([Graph(x=torch.zeros(1, 1), y=torch.tensor([0, 1]))], r"\[0\].y must be one whole number, the class; got"),
        ([Graph(x=torch.zeros(1, 1), y=0.5)], r"\[0\].y must be one whole number, the class; got 0.5"),
        ([Graph(x=torch.zeros(1, 1))], r"Graphs.graphs: no column 'label' \(Graphs.label\)"),
        ([Graph(x=torch.zeros(0, 1), y=1)] * 2, r"Graphs.nodes: no rows"),
        (objects(2), r"Graphs.graphs, client 'client 0': at least 3 graphs are needed, .* got 2"),
    ],
)
def test_bad_objects(graphs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Graphs(graphs).load(1)


# --- bad tables -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (change("graphs", 3, "graph", "m02"), r"Graphs.graphs, row 4: graph 'm02' of column 'graph' is listed twice"),
        (change("graphs", 3, "label", None), r"Graphs.graphs, row 4: 'label' is empty"),
        (change("graphs", 3, "client", None), r"Graphs.graphs, row 4: 'client' is empty"),
        (
            change("nodes", 5, "graph", "m99"),
            r"nodes, row 6: 'graph' must be a graph of Graphs.graphs; got 'm99'",
        ),
        (
            change("nodes", 16, "node", "a"),
            r"nodes, row 17: node 'a' of its graph \(column 'node'\) is listed twice",
        ),
        (change("nodes", 0, "kind", None), r"Graphs.nodes, row 1: 'kind' is empty"),
        (change("nodes", 0, "charge", "high"), r"row 1: 'charge' must be a finite number, as a feature; got 'high'"),
        (change("nodes", 0, "charge", np.inf), r"Graphs.nodes, row 1: 'charge' must be a finite number"),
        (
            change("edges", 2, "graph", "m99"),
            r"edges, row 3: 'graph' must be a graph of Graphs.graphs; got 'm99'",
        ),
        (
            change("edges", 2, "target", "z"),
            r"Graphs.edges, row 3: 'target' must be a node of the row's graph, 'm04'; got 'z', which no graph has",
        ),
        (change("edges", 2, "source", None), r"Graphs.edges, row 3: 'source' is empty"),
        (
            change("edges", 2, "graph", "m00"),
            r"row 3: 'target' must be a node of the row's graph, 'm00'; got 'b', which is in other graphs only",
        ),
    ],
)
def test_a_bad_value_is_named(made: Frames, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Graphs(**made).load(1)


def test_bad_tables() -> None:
    made = frames()
    with pytest.raises(InputError, match=r"Graphs.graphs: no column 'label' \(Graphs.label\)\. Did you mean 'Label'\?"):
        Graphs(**{**made, "graphs": made["graphs"].rename(columns={"label": "Label"})}).load(1)
    with pytest.raises(InputError, match=r"Graphs.edges: no column 'target' \(Graphs.target\)"):
        Graphs(**{**made, "edges": made["edges"].drop(columns="target")}).load(1)
    with pytest.raises(InputError, match=r"Graphs.nodes: no column 'weight' \(Graphs.attributes: weight\)"):
        Graphs(**made, attributes=("weight",)).load(1)
    with pytest.raises(InputError, match=r"Graphs.graphs, row 1: graph 'm00' has no nodes in Graphs.nodes"):
        Graphs(**{**made, "nodes": made["nodes"].query("graph != 'm00'")}).load(1)
    with pytest.raises(InputError, match=r"Graphs.nodes: 2 columns are named 'charge'; one is needed"):
        Graphs(**{**made, "nodes": made["nodes"].assign(mass=1.0).rename(columns={"mass": "charge"})}).load(1)
    with pytest.raises(InputError, match=r"Graphs.target must be another column than Graphs.source; got 'target'"):
        Graphs(**made, source="target").load(1)
    with pytest.raises(InputError, match=r"Graphs.attributes must name each column once; got 'charge' twice"):
        Graphs(**made, attributes=("charge", "charge")).load(1)
    with pytest.raises(InputError, match=r"Graphs.graphs, row 2: 'label' must be text or whole numbers; got 0.5"):
        Graphs(**{**made, "graphs": made["graphs"].assign(label=[str(k / 2) for k in range(24)])}).load(1)
    dated = made["nodes"].assign(charge=pd.Timestamp("2020"))
    with pytest.raises(InputError, match=r"row 1: 'charge' must be a finite number, as a feature; got '2020-01-01"):
        Graphs(**{**made, "nodes": dated}).load(1)
    made["graphs"]["label"] = "safe"
    with pytest.raises(InputError, match=r"Graphs.graphs, client 'north': all 12 graphs have the class 'safe'"):
        Graphs(**made).load(1)
    made = frames()
    made["graphs"]["split"] = "tset"
    with pytest.raises(InputError, match=r"row 1: 'split' must be one of .* got 'tset'\. Did you mean 'test'\?"):
        Graphs(**made).load(1)


def test_files_are_named(tmp_path: Path) -> None:
    made = frames()
    for name, table in made.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    data = Graphs(*(tmp_path / f"{name}.csv" for name in made))
    text = (tmp_path / "nodes.csv").read_text()
    (tmp_path / "nodes.csv").write_text(text.replace("0.5", "half", 1))
    with pytest.raises(InputError, match=r"nodes\.csv, row 1: 'charge' must be a finite number, .* got 'half'"):
        data.load(1)
    (tmp_path / "nodes.csv").unlink()
    with pytest.raises(InputError, match=r"Graphs.nodes: no file .*nodes\.csv"):
        data.load(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graphs": "g.csv"}, "Graphs.nodes must be given"),
        ({"graphs": "g.csv", "nodes": "n.csv"}, "Graphs.edges must be given"),
        (
            {"graphs": objects(3), "nodes": "n.csv"},
            "Graphs.nodes must be left out where Graphs.graphs holds",
        ),
        ({"graphs": objects(3), "vocabulary": "own"}, "Graphs.vocabulary must be one of 'client', 'all'; got 'own'"),
        ({"graphs": objects(3), "clients": 0}, "Graphs.clients must be >= 1; got 0"),
    ],
)
def test_bad_options_fail_before_any_file_is_read(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Graphs(**options)


def test_what_edges_say_beside_their_ends_is_noted(caplog) -> None:
    told = frames()
    told["edges"]["bond"] = "double"
    Graphs(**told).load(1)
    assert "Columns of edges that are not read: bond; data.edge_features" in caplog.text
    ends = torch.tensor([[0], [1]])
    every = [Graph(x=torch.ones(2, 1), edge_index=ends, y=k % 2, edge_attr=torch.ones(1, 3)) for k in range(6)]
    Graphs(every, clients=1).load(1)
    assert "Graphs.graphs: edge_attr of its objects is not read; data.edge_features = 'all' would." in caplog.text
