"""A user's own typed graph as a PyG object, as the file of one, and as a folder of files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data, HeteroData

from fedgraft.domains.typed.shards import merge_graphs
from fedgraft.errors import InputError
from fedgraft.methods.data.nodes import Nodes
from fedgraft.methods.data.typed_graph import TypedGraph
from helpers.toy_typed import named, same


def graph(count: int = 20, first: int = 0, **more: Any) -> HeteroData:
    """Papers with two features and two classes, five authors, two venues that have no attribute but a number."""
    row = torch.arange(count)
    data = HeteroData()
    data["paper"].x = torch.stack([row * 1.0, torch.ones(count)], dim=1)
    data["paper"].y = row // 2 % 2
    data["author"].num_nodes = 5
    data["paper", "by", "author"].edge_index = torch.stack([row, row % 5])
    data["author", "rev_by", "paper"].edge_index = torch.stack([row % 5, row])
    data["paper", "in", "venue"].edge_index = torch.stack([row, (row + first) % 2])
    for key, value in more.items():
        if value is None:
            del data["paper"][key]
        else:
            data["paper"][key] = value
    return data


def masks(count: int = 20) -> dict[str, torch.Tensor]:
    part = torch.arange(count) % 4
    return {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}


def test_an_object_its_file_and_its_tables_say_the_same(tmp_path: Path) -> None:
    data = TypedGraph(graph(client=["b", "a"] * 10, **masks()), "paper")
    a, b = data.load(1)
    assert (a.name, a.ids["paper"].tolist(), b.ids["paper"].tolist()) == ("a", [*range(1, 20, 2)], [*range(0, 20, 2)])
    assert (a.classes, a.split.tolist()[:2], b.split.tolist()[:2]) == (("0", "1"), [0, 2], [0, 1])
    assert [*a.edges] == [("author", "paper"), ("paper", "venue")]
    assert a.edges["author", "paper"].shape == (2, 10), "both relations are one"
    assert a.metapaths == ("paper-author-paper", "paper-venue-paper")
    torch.save(data.nodes, tmp_path / "graph.pt")
    same(TypedGraph(tmp_path / "graph.pt", "paper").load(1), [a, b])
    assert TypedGraph(tmp_path / "graph.pt", "paper").tables() == {}
    tables = data.tables()
    assert list(tables["nodes"]) == ["type", "node", "label", "client", "split", "0", "1"]
    for part, other in zip(TypedGraph(**tables, target="paper").load(1), (a, b), strict=True):
        texts = [(one, two) for one, two in named(part)["paper-venue"]]
        assert texts == named(other)["paper-venue"]
        np.testing.assert_array_equal(part.features, other.features)
        np.testing.assert_array_equal(part.split, other.split)
    assert len(TypedGraph(graph(), "paper").load(1)) == 10


def test_sparse_features_unknown_labels_and_ids() -> None:
    y = torch.cat([torch.arange(10.0) % 2, torch.full((9,), float("nan")), torch.tensor([-1.0])])[:, None]
    for x in (torch.eye(20), torch.eye(20).to_sparse()):
        (part,) = TypedGraph(graph(x=x, y=y, node_id=[f"p{k}" for k in range(20)]), "paper", clients=1).load(1)
        assert isinstance(part.features, sparse.csr_matrix)
        rows = [int(name[1:]) for name in part.ids["paper"]]
        assert rows == sorted(range(20), key=str), "in the order of ids"
        assert (part.features != sparse.eye(20).tocsr()[rows]).nnz == 0
        assert (part.label == -1).sum() == 10


def test_without_x_features_are_made_of_what_a_client_holds() -> None:
    data = TypedGraph(graph(x=None), "paper", clients=2)
    assert {part.width for part in data.load(1)} == {2 + 3 * 64}
    assert data.feature_names == ()


def save(folder: Path, **objects: HeteroData) -> Path:
    folder.mkdir(exist_ok=True)
    for name, each in objects.items():
        torch.save(each, folder / f"{name}.pt")
    return folder


def test_a_folder_of_files_is_a_client_each(tmp_path: Path) -> None:
    other = graph(12, y=torch.arange(12) % 3 + 1)
    del other["paper", "in", "venue"]
    folder = save(tmp_path / "clients", west=graph(), east=other)
    east, west = TypedGraph(folder, "paper").load(1)
    assert (east.name, east.targets, west.name, west.targets) == ("east", 12, "west", 20)
    assert east.classes == west.classes == ("0", "1", "2", "3")
    assert [east.classes[k] for k in east.label] == [str(k % 3 + 1) for k in range(12)]
    assert len(east.ids["venue"]) == 0, "it has none, the other has"
    assert east.ids["paper"][0] == "east:0", "numbers are within a file"
    assert np.bincount(np.concatenate([east.split, west.split])).tolist() == [18, 7, 7]
    assert merge_graphs([east, west]).targets == 32

    # With ids of their own authors are the same at both.
    objects = {"west": graph(), "east": graph(12, node_id=torch.arange(12) + 100)}
    for each in objects.values():
        each["author"].node_id = [f"a{k}" for k in range(5)]
    parts = TypedGraph(save(tmp_path / "named", **objects), "paper", clients=2).load(1)
    assert len(merge_graphs(parts).ids["author"]) == 5
    with pytest.raises(InputError, match=r"TypedGraph.clients must be 2, as the data name, or 0; got 3"):
        TypedGraph(tmp_path / "named", "paper", clients=3).load(1)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"TypedGraph\.nodes: no file or folder .*clients\."):
        TypedGraph(tmp_path / "clients", "paper").load(1)


def test_files_of_one_class_are_refused(tmp_path: Path) -> None:
    folder = save(tmp_path / "one", a=graph(y=torch.full((20,), 3)), b=graph(y=torch.full((20,), 3)))
    with pytest.raises(InputError, match="all 40 nodes of type 'paper' with a label have the class '3'; at least two"):
        TypedGraph(folder, "paper").load(1)


def test_folders_that_do_not_fit(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match=rf"TypedGraph.nodes: folder {empty} holds no file that ends in .pt"):
        TypedGraph(empty, "paper").load(1)
    folder = save(tmp_path / "masks", a=graph(**masks()), b=graph())
    with pytest.raises(InputError, match=r"b.pt has no train_mask, but .*a.pt has one; all files need masks, or none"):
        TypedGraph(folder, "paper").load(1)
    folder = save(tmp_path / "width", a=graph(), b=graph(x=torch.ones(20, 3)))
    with pytest.raises(InputError, match=r"b.pt: 3 features of 'paper', but .*a.pt has 2"):
        TypedGraph(folder, "paper").load(1)
    folder = save(tmp_path / "twice", a=graph(node_id=torch.arange(20)), b=graph(node_id=torch.arange(20) + 19))
    with pytest.raises(InputError, match=r"b.pt: node '19' of type 'paper' is in .*a.pt too; each must be at one"):
        TypedGraph(folder, "paper").load(1)


class Evil:
    """A pickle that would make a file where it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_no_code_runs_from_a_file(tmp_path: Path) -> None:
    torch.save(Evil(tmp_path / "ran"), tmp_path / "evil.pt")
    with pytest.raises(InputError, match=r"evil.pt cannot be read as a torch_geometric.data.HeteroData \(Unpickling"):
        TypedGraph(tmp_path / "evil.pt", "paper").load(1)
    assert not (tmp_path / "ran").exists()
    with pytest.raises(InputError, match=r"TypedGraph.nodes: no file .*nothing.pt"):
        TypedGraph(tmp_path / "nothing.pt", "paper").load(1)
    torch.save(Data(x=torch.ones(2, 1)), tmp_path / "data.pt")
    with pytest.raises(InputError, match=r"data.pt (cannot be read as|must be) a torch_geometric.data.HeteroData"):
        TypedGraph(tmp_path / "data.pt", "paper").load(1)


def lone() -> HeteroData:
    data = graph()
    data["editor"].num_nodes = 3
    return data


def dashed() -> HeteroData:
    data = graph()
    data["re-view"].num_nodes = 3
    data["paper", "has", "re-view"].edge_index = torch.tensor([[0], [2]])
    return data


def beyond() -> HeteroData:
    data = graph()
    data["paper", "by", "author"].edge_index = torch.tensor([[0], [5]])
    return data


def floating() -> HeteroData:
    data = graph()
    data["paper", "by", "author"].edge_index = torch.ones(2, 3)
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lone(), "TypedGraph.nodes: node type 'editor': it has no edges"),
        (dashed(), "node type 're-view': a type's name must be without '-', which joins types"),
        (beyond(), "an edge author-paper has node 5 of type 'author'; there are 5"),
        (
            floating(),
            r"\['paper', 'by', 'author'\].edge_index must be whole numbers of shape \[2, edges\]; got",
        ),
        (HeteroData(), "TypedGraph.nodes has no edges"),
        (graph(y=None), r"TypedGraph.nodes\['paper'\] has no y; nodes to learn from need a class"),
        (graph(y=torch.full((20,), -1)), "y is -1 at every node; nodes to learn from need a class"),
        (graph(y=torch.full((20,), -2)), "y must be a class, 0 or more, or -1 for none; got -2 at"),
        (
            graph(y=torch.ones(20, 3)),
            r"y must be one whole number per node, its class, \[20\]; got float32 of",
        ),
        (graph(x=torch.ones(20)), r"x must be of shape \[20 nodes, features\]; got \[20\]"),
        (
            graph(x=torch.full((20, 1), torch.inf)),
            "finite numbers, or nan .* got inf as feature 0 of node 0 .20 such",
        ),
        (graph(client=["a"]), r"client must name one client per node, 20; got \[1\]"),
        (graph(train_mask=masks()["train_mask"]), "has train_mask but no val_mask; all three are needed, or none"),
        (graph(**{**masks(), "val_mask": torch.ones(20)}), r"val_mask must be true or false of each node, "),
        (
            graph(**{**masks(), "val_mask": torch.zeros(20, dtype=torch.bool)}),
            r"masks leave no node of type 'paper' for validation; one is needed",
        ),
        (graph(**{**masks(), "val_mask": masks()["train_mask"]}), "val_mask: node 0 is in the train split too"),
        (graph(**masks(), y=torch.tensor([-1, *([0, 1] * 9), 0])), r"node 0 is in a mask, but has no label \(1 such"),
        (graph(node_id=["x"] * 20), "node_id must be different for all nodes; got 'x' twice"),
    ],
)
def test_objects_that_do_not_fit(data: HeteroData, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        TypedGraph(data, "paper").load(1)
    assert "\n" not in str(caught.value)


def test_options_that_do_not_fit() -> None:
    with pytest.raises(InputError, match=r"TypedGraph.target must be one of 'paper', .* Did you mean 'paper'\?"):
        TypedGraph(graph(), "papr").load(1)
    with pytest.raises(InputError, match=r"TypedGraph.edges must be left out where TypedGraph.nodes is a PyG object"):
        TypedGraph(graph(), "paper", {"paper-author": "edges.csv"})
    with pytest.raises(InputError, match=r"TypedGraph.metapaths, 'paper-author': it must begin and end at 'paper'"):
        TypedGraph(graph(), "paper", metapaths=("paper-author",)).load(1)


def test_an_object_without_a_name_is_a_typed_graph(caplog) -> None:
    data = graph()
    assert TypedGraph.options_from(data) == {"nodes": data, "target": "paper"}
    assert TypedGraph.options_from({"nodes": data, "target": "author"}) == {"nodes": data, "target": "author"}
    assert Nodes.options_from({"nodes": data, "target": "author"}) is None
    for other in (Data(), "nodes", {"nodes": data}):
        assert TypedGraph.options_from(other) is None
    data["author"].y = torch.zeros(5)
    with pytest.raises(InputError, match=r'needs its target: .*"target": "TYPE"}; types with classes: paper, author\.'):
        TypedGraph.options_from(data)
    data["paper", "by", "author"].edge_attr = torch.ones(20, 1)
    TypedGraph(data, "paper").load(1)
    assert "TypedGraph.nodes.edge_attr is not read; data.edge_features = 'all' would." in caplog.text
