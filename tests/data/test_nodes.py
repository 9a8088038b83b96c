from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data as Graph

from fedgraft.data.nodes import Nodes
from fedgraft.errors import InputError
from fedgraft.nodes.sets import NodeShard, merge_shards
from toy_nodes import directed

Frames = dict[str, pd.DataFrame]


def frames(n: int = 20) -> Frames:
    """A ring of n papers at two libraries, every other one, about two subjects; the last has no subject."""
    rows = np.arange(n)
    return {
        "nodes": pd.DataFrame(
            {
                "node": [f"p{v:02d}" for v in rows],
                "label": [["art", "law"][v // 2 % 2] for v in rows[:-1]] + [None],
                "client": [["north", "south"][v % 2] for v in rows],
                "pages": rows * 1.0,
                "year": rows + 1990,
            }
        ),
        "edges": pd.DataFrame({"source": [f"p{v:02d}" for v in rows], "target": [f"p{(v + 1) % n:02d}" for v in rows]}),
    }


def change(table: str, row: int, column: str, value: Any) -> Frames:
    made = frames()
    made[table] = made[table].astype({column: object})
    made[table].loc[row, column] = value
    return made


def same(one: list[NodeShard], other: list[NodeShard]) -> None:
    for shard, expected in zip(one, other, strict=True):
        for key, value in vars(expected).items():
            found = vars(shard)[key]
            assert np.array_equal(found, value) if isinstance(value, np.ndarray) else found == value, key


# --- good input -------------------------------------------------------------------------------------------------------


def test_worked_example() -> None:
    north, south = Nodes(**frames()).load(1)
    assert (north.name, south.name, north.own, south.own) == ("north", "south", 10, 10)
    assert north.ids.tolist()[:2] == ["p00", "p02"]
    assert north.classes == south.classes == ("art", "law")
    assert (north.label.tolist()[:4], south.label.tolist()[-1]) == ([0, 1, 0, 1], -1)
    assert north.features.tolist()[1] == [2.0, 1992.0]
    # All of a paper's neighbours are elsewhere: p00 next to p01, the first of south, and p19, its last.
    assert (north.senders >= north.own).all()
    assert (north.halo_owner.tolist(), north.halo_place.tolist()) == ([1] * 10, list(range(10)))
    assert north.senders[:2].tolist() == [10, 19]
    splits = np.concatenate([north.split, south.split])
    assert np.bincount(splits + 1).tolist() == [1, 12, 3, 4]


def test_files_folders_and_frames_are_the_same(tmp_path: Path) -> None:
    made = frames()
    for name, table in made.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        table.to_parquet(tmp_path / f"{name}.parquet")
    expected = Nodes(**made).load(3)
    for kind in ("csv", "parquet"):
        same(Nodes(tmp_path / f"nodes.{kind}", tmp_path / f"edges.{kind}").load(3), expected)
    for name in made:
        (tmp_path / name).mkdir()
    for library, own in made["nodes"].groupby("client"):
        own.drop(columns="client").to_csv(tmp_path / "nodes" / f"{library}.csv", index=False)
        # Both list an edge between them.
        listed = made["edges"][made["edges"].isin(own["node"].tolist()).any(axis=1)]
        listed.to_csv(tmp_path / "edges" / f"{library}.csv", index=False)
    north, south = Nodes(tmp_path / "nodes", tmp_path / "edges").load(3)
    assert directed([north, south]) == directed(expected)
    assert (north.name, north.ids.tolist()) == ("north", expected[0].ids.tolist())


def test_own_names_of_columns() -> None:
    made = frames()
    names = {"node": "paper", "label": "subject", "client": "library", "source": "from", "target": "to"}
    renamed = {key: table.rename(columns=names) for key, table in made.items()}
    renamed["nodes"]["title"] = "a text is no feature"
    shards = Nodes(**renamed, **names, features=("pages", "year")).load(1)
    same(shards, Nodes(**made).load(1))
    del renamed["nodes"]["library"]
    with pytest.raises(InputError, match=r"Nodes.nodes: no column 'library' \(Nodes.client\)"):
        Nodes(**renamed, **names, features=("pages",)).load(1)


def test_without_clients_nodes_are_dealt() -> None:
    made = frames()
    del made["nodes"]["client"]
    assert [shard.own for shard in Nodes(**made).load(1)] == [2] * 10
    for partition in ("iid", "dirichlet", "louvain"):
        shards = Nodes(**made, clients=3, partition=partition).load(1)
        assert [shard.name for shard in shards] == ["graph-0", "graph-1", "graph-2"]
        assert sorted(np.concatenate([shard.ids for shard in shards])) == made["nodes"]["node"].tolist()
        assert len(merge_shards(shards).senders) == 40


def test_given_splits_stand() -> None:
    made = frames()
    made["nodes"]["split"] = ["train", "train", "validation", "test", None] * 4
    for client in (True, False):
        nodes = made["nodes"] if client else made["nodes"].drop(columns="client")
        together = merge_shards(Nodes(nodes, made["edges"]).load(1))
        names = [["train", "validation", "test", None][part] for part in together.split]
        assert dict(zip(together.ids, names, strict=True))["p03"] == "test"
        assert np.bincount(together.split + 1).tolist() == [4, 8, 4, 4]
    with pytest.raises(InputError, match=r"Nodes.fold = 1 is for data without a split; these have one"):
        Nodes(**made, fold=1).load(1)
    made["nodes"]["split"] = made["nodes"]["split"].replace("test", None)
    with pytest.raises(InputError, match=r"Nodes.nodes: column 'split' leaves no node for test; one is needed"):
        Nodes(**made).load(1)


def test_lone_nodes_loops_and_repeats(caplog: pytest.LogCaptureFixture) -> None:
    made = frames()
    more = pd.DataFrame({"source": ["p00", "p01", "p00"], "target": ["p00", "p00", "p01"]})
    made["edges"] = pd.concat([made["edges"].drop(index=[9, 10]), more])  # p10 has no edge left
    together = merge_shards(Nodes(**made).load(1))
    assert together.degree[together.ids.tolist().index("p10")] == 0
    assert len(together.senders) == 36
    assert "1 edges from a node to itself left out." in caplog.text
    assert "1 repeated edges left out." in caplog.text
    made["edges"] = made["edges"].iloc[:0]
    assert len(merge_shards(Nodes(**made).load(1)).senders) == 0


def test_ids_are_text_as_written(tmp_path: Path) -> None:
    made = frames()
    made["nodes"]["node"] = [f"{v:03d}" for v in range(20)]
    made["edges"] = pd.DataFrame({"source": ["007"], "target": ["008"]})
    for name, table in made.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    assert directed(Nodes(tmp_path / "nodes.csv", tmp_path / "edges.csv").load(1)) == [("007", "008"), ("008", "007")]
    (tmp_path / "edges.csv").write_text("source,target\n7,8\n")
    with pytest.raises(InputError, match=r"edges\.csv, row 1: 'source' must be a node of .*nodes\.csv; got '7'"):
        Nodes(tmp_path / "nodes.csv", tmp_path / "edges.csv").load(1)


# --- PyG objects ------------------------------------------------------------------------------------------------------


def graph(**more: Any) -> Graph:
    n = 20
    ends = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    x = torch.stack([torch.arange(n) * 1.0, torch.ones(n)], dim=1)
    return Graph(**{"x": x, "y": torch.arange(n) // 2 % 2, "edge_index": ends, **more})


def test_a_pyg_object_and_a_file_of_it(tmp_path: Path) -> None:
    mask = torch.arange(20) % 4
    masks = {"train_mask": mask < 2, "val_mask": mask == 2, "test_mask": mask == 3}
    data = graph(**masks, client=["b", "a"] * 10)
    a, b = Nodes(data).load(1)
    assert (a.name, a.ids.tolist(), b.ids.tolist()) == ("a", list(range(1, 20, 2)), list(range(0, 20, 2)))
    assert (a.classes, a.split.tolist()[:2], b.split.tolist()[:2]) == (("0", "1"), [0, 2], [0, 1])
    torch.save(data, tmp_path / "graph.pt")
    same(Nodes(tmp_path / "graph.pt").load(1), [a, b])
    assert len(Nodes(graph()).load(1)) == 10


def test_sparse_features_and_unknown_labels() -> None:
    y = torch.cat([torch.arange(10.0) % 2, torch.full((9,), float("nan")), torch.tensor([-1.0])])[:, None]
    loaded = [Nodes(graph(x=x, y=y), clients=1).load(1)[0] for x in (torch.eye(20), torch.eye(20).to_sparse())]
    for shard in loaded:
        assert isinstance(shard.features, sparse.csr_matrix)
        assert (shard.features != sparse.eye(20)).nnz == 0
        assert (shard.label == -1).sum() == 10


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"x": None}, r"Nodes.nodes must be a torch_geometric.data.Data with x, y and edge_index; it has no x"),
        ({"x": torch.ones(20)}, r"Nodes.nodes.x must be of shape \[nodes, features\]; got \[20\]"),
        ({"x": torch.full((20, 1), torch.inf)}, "features must be finite numbers; got inf as feature 0 of node 0"),
        ({"y": torch.ones(20, 3)}, r"y must be one whole number per node, its class, \[20\]; got float32 of \[20, 3\]"),
        ({"y": torch.full((20,), -2)}, "y must be a class, 0 or more, or -1 for none; got -2 at node 0"),
        ({"y": torch.full((20,), 0.5)}, "y must be a class, 0 or more, or -1 for none; got 0.5 at node 0"),
        (
            {"edge_index": torch.tensor([[0, 3], [1, 20]])},
            r"edge 2: there is no node 20; nodes are 0\.\.19",
        ),
        ({"edge_index": torch.ones(3, 2)}, r"whole numbers of shape \[2, edges\]; got float32 of \[3, 2\]"),
        ({"client": ["a"]}, r"client must name one client per node, 20; got \[1\]"),
        ({"train_mask": torch.ones(20, dtype=torch.bool)}, "has train_mask but no val_mask; all three are needed"),
        (
            {f"{part}_mask": torch.ones(20, dtype=torch.bool) for part in ("train", "val", "test")},
            r"val_mask: node 0 is in the train split too \(20 such nodes\); one is allowed",
        ),
        (
            {f"{part}_mask": torch.ones(20, 2, dtype=torch.bool) for part in ("train", "val", "test")},
            r"train_mask must be true or false of each node, \[20\]; got bool of \[20, 2\]",
        ),
    ],
)
def test_bad_objects(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Nodes(graph(**more)).load(1)


def test_bad_files_of_objects(tmp_path: Path) -> None:
    path = tmp_path / "graph.pt"
    with pytest.raises(InputError, match=r"Nodes.nodes: no file .*graph\.pt"):
        Nodes(path).load(1)
    path.write_bytes(b"no pickle")
    with pytest.raises(InputError, match=r"graph\.pt cannot be read as a torch_geometric.data.Data .* torch.save"):
        Nodes(path).load(1)
    torch.save(graph(client=np.array([Path("x")] * 20)), path)
    with pytest.raises(InputError, match=r"cannot be read .* attributes tensors, numbers or lists"):
        Nodes(path).load(1)
    torch.save({"x": 1}, path)
    with pytest.raises(InputError, match=r"graph\.pt must be a torch_geometric.data.Data .* it has no x"):
        Nodes(path).load(1)


# --- bad tables -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            change("nodes", 3, "node", "p01"),
            r"row 4: node 'p01' of column 'node' is listed twice \(1 such",
        ),
        (change("nodes", 3, "node", None), r"Nodes.nodes, row 4: 'node' is empty \(1 such rows\)"),
        (change("nodes", 3, "client", None), r"Nodes.nodes, row 4: 'client' is empty \(1 such rows\)"),
        (change("nodes", 2, "pages", "many"), "row 3: 'pages' must be a finite number, as a feature; got 'many'"),
        (
            change("nodes", 2, "pages", None),
            r"row 3: 'pages' must be .* got nothing .* Nodes.features",
        ),
        (change("nodes", 2, "pages", 1e39), r"row 3: 'pages' must be a finite number, as a feature; got '1e\+39'"),
        (change("edges", 4, "target", "p77"), r"Nodes.edges, row 5: 'target' must be a node of Nodes.nodes; got 'p77'"),
        (change("edges", 4, "source", None), r"Nodes.edges, row 5: 'source' is empty"),
    ],
)
def test_a_bad_value_is_named(made: Frames, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Nodes(**made).load(1)


def test_bad_tables(tmp_path: Path) -> None:
    made = frames()
    with pytest.raises(InputError, match=r"Nodes.nodes: no column 'label' \(Nodes.label\)\. Did you mean 'Label'\?"):
        Nodes(made["nodes"].rename(columns={"label": "Label"}), made["edges"]).load(1)
    with pytest.raises(InputError, match=r"Nodes.edges: no column 'target' \(Nodes.target\)"):
        Nodes(made["nodes"], made["edges"].drop(columns="target")).load(1)
    with pytest.raises(InputError, match=r"Nodes.nodes: no column 'weight' \(Nodes.features: weight\)"):
        Nodes(**made, features=("weight",)).load(1)
    with pytest.raises(InputError, match=r"Nodes.nodes: no column of features \(Nodes.features\); one is needed"):
        Nodes(made["nodes"].drop(columns=["pages", "year"]), made["edges"]).load(1)
    with pytest.raises(InputError, match=r"Nodes.nodes: 'label' is empty in every row"):
        Nodes(made["nodes"].assign(label=None), made["edges"]).load(1)
    with pytest.raises(InputError, match=r"row 1: 'split' must be one of .* got 'tset'\. Did you mean 'test'\?"):
        Nodes(made["nodes"].assign(split="tset"), made["edges"]).load(1)
    with pytest.raises(InputError, match=r"row 20: 'split' must be empty where 'label' is; got 'test' \(1 such rows\)"):
        Nodes(made["nodes"].assign(split="test"), made["edges"]).load(1)
    with pytest.raises(InputError, match=r"Nodes.clients must be 2, as the data name, or 0; got 3"):
        Nodes(**made, clients=3).load(1)
    with pytest.raises(InputError, match=r"Nodes.partition = 'louvain' is for data without clients; these name 2"):
        Nodes(**made, partition="louvain").load(1)


def test_bad_folders(tmp_path: Path) -> None:
    made = frames()
    with pytest.raises(InputError, match=r"Nodes.nodes: folder .* holds no file that ends in \.csv or \.parquet"):
        Nodes(tmp_path, made["edges"]).load(1)
    made["nodes"].to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, match=r"a\.csv: column 'client' names clients, but each file of the folder"):
        Nodes(tmp_path, made["edges"]).load(1)
    nodes = made["nodes"].drop(columns="client")
    nodes[:10].to_csv(tmp_path / "a.csv", index=False)
    nodes[10:].drop(columns="year").to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(InputError, match=r"b\.csv: column 'year' is here or in .*a\.csv, but not in both files"):
        Nodes(tmp_path, made["edges"]).load(1)
    nodes.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"holds two files named 'a'; each must be one"):
        Nodes(tmp_path, made["edges"]).load(1)
    (tmp_path / "a.parquet").unlink()
    nodes[9:].to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(InputError, match=r"b\.csv, row 1: node 'p09' of column 'node' is listed twice"):
        Nodes(tmp_path, made["edges"]).load(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": "n.csv"}, "Nodes.edges must be given"),
        ({"nodes": graph(), "edges": "e.csv"}, "Nodes.edges must be left out where Nodes.nodes is a PyG object"),
        ({"nodes": "g.pt", "edges": "e.csv"}, "Nodes.edges must be left out where Nodes.nodes is a PyG object"),
        ({"nodes": "n.csv", "edges": "e.csv", "clients": -1}, "Nodes.clients must be at least 0; got -1"),
        ({"nodes": "n.csv", "edges": "e.csv", "alpha": 0.0}, "Nodes.alpha must be above 0; got 0.0"),
        ({"nodes": "n.csv", "edges": "e.csv", "fold": 7}, r"Nodes.fold must be 0\.\.4; got 7"),
    ],
)
def test_bad_options_fail_before_any_file_is_read(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Nodes(**options)
