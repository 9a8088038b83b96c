from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedgraft.domains.nodes.base.shards import merge_shards
from fedgraft.errors import InputError
from fedgraft.methods.data.nodes import Nodes
from helpers.toy_nodes import directed, same

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


# --- good input -------------------------------------------------------------------------------------------------------


def test_worked_example() -> None:
    north, south = Nodes(**frames()).load(1)
    assert (north.name, south.name, north.own, south.own) == ("north", "south", 10, 10)
    assert north.ids.tolist()[:2] == ["p00", "p02"]
    assert north.classes == south.classes == ("art", "law")
    assert (north.label.tolist()[:4], south.label.tolist()[-1]) == ([0, 1, 0, 1], -1)
    # Both columns have mean 0 and variance 1 over all clients; so have pages, of 0 to 19, 2.
    assert north.features[1, 0] == pytest.approx((2 - 9.5) / np.arange(20).std(), abs=1e-6)
    assert not north.scale_rows
    assert Nodes(**frames(), scaling="rows").load(1)[0].features.tolist()[1] == [2.0, 1992.0]
    # All of a paper's neighbours are elsewhere: p00 next to p01, the first of south, and p19, its last.
    assert (north.senders >= north.own).all()
    assert (north.halo_owner.tolist(), north.halo_place.tolist()) == ([1] * 10, list(range(10)))
    assert north.senders[:2].tolist() == [10, 19]
    splits = np.concatenate([north.split, south.split])
    assert np.bincount(splits + 1).tolist() == [1, 8, 4, 7], "by the hash of ids, so not exactly 64:16:20"


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
    Nodes(made["nodes"], made["edges"].assign(amount=1.0)).load(1)
    would = "data.edge_features, data.weight, data.time would read one."
    assert f"Columns of edges that are not read: amount; {would}" in caplog.text
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


def test_classes_that_are_whole_numbers_are_in_their_order(tmp_path: Path) -> None:
    made = frames()
    made["nodes"]["label"] = [*range(2, 14), 100, 100, *[None] * 6]  # with gaps, which makes them 2.0, 3.0 ...
    made["nodes"].to_parquet(tmp_path / "nodes.parquet")
    made["nodes"].astype({"label": "Int64"}).to_csv(tmp_path / "nodes.csv", index=False)
    for nodes in (made["nodes"], tmp_path / "nodes.parquet", tmp_path / "nodes.csv"):
        whole = Nodes(nodes, made["edges"]).read().whole
        assert whole.classes == (*map(str, range(2, 14)), "100")
        assert whole.label.tolist() == [*range(13), 12, *[-1] * 6]
    made["nodes"]["label"] = ["10", "9", "b", *["9"] * 17]
    assert Nodes(**made).read().whole.classes == ("10", "9", "b")


def test_features_may_be_named_by_whole_numbers(tmp_path: Path) -> None:
    made = frames()
    numbered = made["nodes"].rename(columns={"pages": 0, "year": 1})
    same(Nodes(numbered, made["edges"]).load(1), Nodes(**made).load(1))
    same(Nodes(numbered, made["edges"], features=("0", "1")).load(1), Nodes(**made).load(1))
    mixed = made["nodes"].rename(columns={"year": 1})
    for features in (None, ("pages", "1")):
        stored = Nodes(mixed, made["edges"], features=features).tables()
        assert list(stored["nodes"]) == ["node", "label", "client", "pages", "1"]


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
        (change("nodes", 2, "pages", 1e39), r"row 3: 'pages' must be a finite number, as a feature; got '1e\+39'"),
        (change("edges", 4, "target", "p77"), r"Nodes.edges, row 5: 'target' must be a node of Nodes.nodes; got 'p77'"),
        (change("edges", 4, "source", None), r"Nodes.edges, row 5: 'source' is empty"),
    ],
)
def test_a_bad_value_is_named(made: Frames, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Nodes(**made).load(1)


@pytest.mark.parametrize(
    ("values", "got"),
    [
        (pd.date_range("2020", periods=20), "'2020-01-01 00:00:00'"),
        (pd.to_timedelta(np.arange(20), unit="s"), "'0 days 00:00:00'"),
        (np.full(20, 1j), "'1j'"),
    ],
)
def test_what_is_no_number_is_no_feature(tmp_path: Path, values: Any, got: str) -> None:
    made = frames()
    made["nodes"]["pages"] = values
    message = rf"row 1: 'pages' must be a finite number, as a feature; got {got} \(20 such rows\)"
    with pytest.raises(InputError, match=f"Nodes.nodes, {message}"):
        Nodes(**made).load(1)
    if np.iscomplexobj(values):  # which Parquet does not hold
        return
    made["nodes"].to_parquet(tmp_path / "nodes.parquet")
    with pytest.raises(InputError, match=rf"nodes\.parquet, {message}"):
        Nodes(tmp_path / "nodes.parquet", made["edges"]).load(1)


def test_fractions_are_no_classes_from_wherever_they_are_read(tmp_path: Path) -> None:
    made = frames()
    made["nodes"]["label"] = [None, *np.arange(19) / 2]
    made["nodes"].to_csv(tmp_path / "nodes.csv", index=False)
    for nodes in (made["nodes"], tmp_path / "nodes.csv"):
        with pytest.raises(InputError, match=r"row 3: 'label' must be text or whole numbers; got 0.5 \(9 such rows\)"):
            Nodes(nodes, made["edges"]).load(1)


def test_bad_tables(tmp_path: Path) -> None:
    made = frames()
    with pytest.raises(InputError, match=r"Nodes.nodes: 2 columns are named 'pages'; one is needed"):
        Nodes(made["nodes"].rename(columns={"year": "pages"}), made["edges"]).load(1)
    with pytest.raises(InputError, match=r"Nodes.nodes: at least 5 nodes with a label are needed, .* got 2"):
        Nodes(made["nodes"].assign(label=["a", "b", *[None] * 18]), made["edges"]).load(1)
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
    with pytest.raises(InputError, match=r"Nodes.alpha = 0.1 is for data without clients; these name 2"):
        Nodes(**made, alpha=0.1).load(1)


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
        (
            {"nodes": "n.csv", "edges": "e.csv", "source": "target"},
            r"Nodes.target must be another column than Nodes.source; got 'target'",
        ),
        (
            {"nodes": "n.csv", "edges": "e.csv", "label": "client"},
            r"Nodes.client must be another column than Nodes.label; got 'client'",
        ),
        (
            {"nodes": "n.csv", "edges": "e.csv", "features": ("a", "label")},
            r"Nodes.features must be another column than Nodes.label; got 'label'",
        ),
        (
            {"nodes": "n.csv", "edges": "e.csv", "features": ("a", "a")},
            r"Nodes.features must name each column once; got 'a' twice",
        ),
        ({"nodes": "n.csv", "edges": "e.csv", "clients": -1}, "Nodes.clients must be >= 0; got -1"),
        ({"nodes": "n.csv", "edges": "e.csv", "alpha": 0.0}, "Nodes.alpha must be > 0; got 0.0"),
        ({"nodes": "n.csv", "edges": "e.csv", "fold": 7}, r"Nodes.fold must be in \[0, 4\]; got 7"),
    ],
)
def test_bad_options_fail_before_any_file_is_read(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Nodes(**options)


def test_an_index_that_was_written_along_is_no_feature(tmp_path):
    nodes = pd.DataFrame({"node": list("abcdef"), "label": list("xyxyxy"), "width": np.arange(6.0)})
    edges = pd.DataFrame({"source": list("abcde"), "target": list("bcdef")})
    nodes.to_csv(tmp_path / "nodes.csv")
    edges.to_csv(tmp_path / "edges.csv")
    given = {"nodes": str(tmp_path / "nodes.csv"), "edges": str(tmp_path / "edges.csv"), "clients": 2}
    with pytest.raises(InputError, match=r"nodes\.csv: column 1 has no name, such as an index"):
        Nodes(**given).load(1)
    assert all(shard.width == 1 for shard in Nodes(**given, features=("width",)).load(1))
