"""A user's own graph as a PyG object, or as the file of one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data as Graph

from fedgraft.errors import InputError
from fedgraft.methods.data.nodes import Nodes
from helpers.toy_nodes import same


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
    ("y", "classes"),
    [
        (torch.arange(20) % 3 * 2, ["0", "2", "4"]),
        (torch.arange(20) % 12, [str(each) for each in range(12)]),
        (torch.arange(20) % 2 * 2_000_000 - 1, ["1999999"]),
    ],
)
def test_classes_are_those_that_occur_of_an_object_its_file_and_its_tables(
    tmp_path: Path, y: torch.Tensor, classes: list[str]
) -> None:
    data = graph(y=y)
    torch.save(data, tmp_path / "graph.pt")
    loaded = [Nodes(given, clients=2) for given in (data, tmp_path / "graph.pt")]
    loaded.append(Nodes(**loaded[0].tables(), clients=2))
    for each in loaded:
        whole = each.read().whole
        assert list(whole.classes) == classes
        assert [int(whole.classes[k]) if k >= 0 else -1 for k in whole.label] == y.tolist()
        assert [shard.name for shard in each.load(1)] == ["graph-0", "graph-1"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"x": None}, r"Nodes.nodes must be a torch_geometric.data.Data with x, y and edge_index; it has no x"),
        ({"x": torch.ones(20)}, r"Nodes.nodes.x must be of shape \[nodes, features\]; got \[20\]"),
        (
            {"x": torch.full((20, 1), torch.inf)},
            "Nodes.nodes: features must be finite numbers, or nan .* got inf as feature 0 of node 0",
        ),
        ({"x": torch.ones(20, 1, dtype=torch.complex64)}, "Nodes.nodes.x must be real numbers; got complex64"),
        ({"x": torch.ones(0, 1)}, "Nodes.nodes: no nodes; at least one is needed"),
        ({"y": torch.full((20,), -1)}, "Nodes.nodes: at least 5 nodes with a label are needed, one a fold; got 0"),
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
            {f"{name}_mask": torch.arange(20) // 10 == part for part, name in enumerate(("train", "val", "test"))},
            "Nodes.nodes: test_mask marks no node; one is needed",
        ),
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
    for content in (b"no pickle", b"hi", b"", b"PK\x03\x04", b"\x80\x02}q\x00.", b"(lp0\n."):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"^.*graph\.pt cannot be read as a torch_geometric.data.Data .* lists\.$"):
            Nodes(path).load(1)
    torch.save(graph(client=np.array([Path("x")] * 20)), path)
    with pytest.raises(InputError, match=r"cannot be read .* attributes tensors, numbers or lists"):
        Nodes(path).load(1)
    torch.save({"x": 1}, path)
    with pytest.raises(InputError, match=r"graph\.pt must be a torch_geometric.data.Data .* it has no x"):
        Nodes(path).load(1)
    torch.save(graph(y=torch.full((20,), -1)), path)
    with pytest.raises(InputError, match=r"^/.*graph\.pt: at least 5 nodes with a label are needed"):
        Nodes(path).load(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"nodes": [1, 2], "edges": "e.csv"},
            r"Nodes.nodes must be the path of .* or one for each client; got list",
        ),
        ({"nodes": np.zeros((3, 3)), "edges": "e.csv"}, r"Nodes.nodes must be the path of .*; got ndarray"),
        ({"nodes": 5}, r"Nodes.nodes must be the path of .*; got int"),
        ({"nodes": graph(), "edges": "e.csv"}, "Nodes.edges must be left out where Nodes.nodes is a PyG object"),
        ({"nodes": "g.pt", "edges": "e.csv"}, "Nodes.edges must be left out where Nodes.nodes is a PyG object"),
    ],
)
def test_bad_options_fail_before_any_file_is_read(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Nodes(**options)


def test_an_object_for_each_client(caplog: pytest.LogCaptureFixture) -> None:
    mine = graph(edge_attr=torch.ones(20, 1))
    theirs = Graph(x=torch.ones(6, 2), y=torch.arange(6) % 2, edge_index=torch.tensor([[0, 1], [1, 2]]))
    shards = Nodes({"lab": mine, 7: theirs}).load(1)
    assert caplog.text.count("edge_attr is not read") == 1
    assert {shard.name: (shard.own, shard.halo) for shard in shards} == {"7": (6, 0), "lab": (20, 0)}
    assert shards[0].senders.tolist() == [1, 0, 2, 1]
    assert Nodes.options_from({"lab": mine}) == {"nodes": {"lab": mine}}
    assert Nodes.options_from(mine) == {"nodes": mine}
    for other in ({"lab": [mine]}, {}, "nodes", [mine]):
        assert Nodes.options_from(other) is None
    Nodes(mine, clients=2).load(1)
    assert "edge_attr is not read" in caplog.text


def test_objects_of_clients_that_do_not_fit() -> None:
    for given, message in (
        ({"a": graph(), "b": graph(x=torch.ones(20, 3))}, r"\['b'\]\.x must have the features of the others; got"),
        ({"a": graph(y=None)}, r"\['a'\] must be a torch_geometric.data.Data with x, y and edge_index; Data has no"),
        ({}, "holds no client"),
    ):
        with pytest.raises(InputError, match=message):
            Nodes(given).load(1)
