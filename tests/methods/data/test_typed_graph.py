"""A user's own typed graph: tables in files and in memory."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from fedgraft.domains.typed.shards import merge_graphs
from fedgraft.errors import InputError
from fedgraft.experiment.recipes import discovery
from fedgraft.experiment.recipes.recipe import parse_override
from fedgraft.methods.data.typed_graph import TypedGraph
from helpers.toy_typed import named, own_tables, same

Tables = dict[str, dict[str, pd.DataFrame]]


def changed(option: str, name: str, **columns: Any) -> Tables:
    """The tables with some columns of one replaced; None takes one away."""
    tables = own_tables()
    table = tables[option][name].assign(**{key: value for key, value in columns.items() if value is not None})
    gone = [key for key, value in columns.items() if value is None]
    tables[option][name] = table.drop(columns=gone)
    return tables


def without_clients(**more: Any) -> TypedGraph:
    return TypedGraph(target="paper", **changed("nodes", "paper", client=None), **more)


def written(tables: Tables, folder: Path, suffix: str = ".csv") -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for option, some in tables.items():
        for name, table in some.items():
            path = folder / f"{name}{suffix}"
            table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
            found.setdefault(option, {})[name] = str(path)
    return found


# --- what is read -----------------------------------------------------------------------------------------------------


def test_tables_of_each_type() -> None:
    parts = TypedGraph(target="paper", **own_tables(), scaling="rows").load(1)
    assert [part.name for part in parts] == [f"org {k}" for k in range(4)]
    first = parts[0]
    assert first.ids["paper"].tolist() == sorted(f"p{k}" for k in range(0, 40, 4)), "in the order of ids"
    assert (first.ids["author"].tolist(), first.ids["venue"].tolist()) == (["a0", "a4"], ["1"])
    assert first.classes == ("art", "law")
    assert [first.classes[label] for label in first.label] == ["law"] * 10
    assert first.features[first.ids["paper"].tolist().index("p4")].tolist() == pytest.approx([4 / 100, 4])
    assert first.metapaths == ("paper-author-paper", "paper-venue-paper")
    assert named(first)["paper-author"][:2] == [("p0", "a0"), ("p12", "a4")]
    assert [*first.edges] == [("paper", "author"), ("venue", "paper")]
    split = np.concatenate([part.split for part in parts])
    assert np.bincount(split).tolist() == [20, 9, 11], "by the hash of ids, so not exactly 60:20:20"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_say_the_same_as_tables_in_memory(tmp_path: Path, suffix: str) -> None:
    parts = TypedGraph(target="paper", **own_tables()).load(1)
    same(TypedGraph(target="paper", **written(own_tables(), tmp_path, suffix)).load(1), parts)
    mixed = {"nodes": own_tables()["nodes"], "edges": written(own_tables(), tmp_path, suffix)["edges"]}
    same(TypedGraph(target="paper", **mixed).load(1), parts)


def test_one_table_of_all_nodes_and_one_of_all_edges(tmp_path: Path) -> None:
    data = TypedGraph(target="paper", **own_tables())
    tables = data.tables()
    assert list(tables["nodes"]) == ["type", "node", "label", "client", "pages", "year"]
    assert list(tables["edges"]) == ["source_type", "source", "target_type", "target"]
    again = TypedGraph(target="paper", **tables)
    same(again.load(1), data.load(1))
    assert again.feature_names == ("pages", "year")
    paths = {}
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        paths[name] = tmp_path / f"{name}.csv"
    same(TypedGraph(target="paper", **paths).load(1), data.load(1))
    assert TypedGraph(target="paper", **paths).tables() == {}


def test_what_stands_in_rows_of_other_types_is_not_read() -> None:
    nodes = TypedGraph(target="paper", **own_tables()).tables()
    others = nodes["nodes"]["type"] != "paper"
    nodes["nodes"].loc[others, "label"] = "nothing"
    nodes["nodes"].loc[others, "client"] = "nobody"
    nodes["nodes"]["pages"] = nodes["nodes"]["pages"].astype(object).where(~others, "many")
    same(TypedGraph(target="paper", **nodes).load(1), TypedGraph(target="paper", **own_tables()).load(1))


def test_columns_have_the_names_that_options_say() -> None:
    tables = own_tables()
    own = {"node": "id", "label": "subject", "client": "org"}
    nodes = {kind: table.rename(columns=own) for kind, table in tables["nodes"].items()}
    edges = {name: table.rename(columns={"source": "from", "target": "to"}) for name, table in tables["edges"].items()}
    options = {**own, "ends": ("from", "to"), "features": ("year",), "metapaths": ("paper-author-paper",)}
    data = TypedGraph(nodes, "paper", edges, **options)
    parts = data.load(1)
    assert (parts[0].width, parts[0].metapaths) == (1, ("paper-author-paper",))
    same(TypedGraph(**{**data.tables(), "target": "paper"}, **options).load(1), parts)
    questions = data.questions(
        None,
        {"nodes": pd.DataFrame({"id": ["p1"], "org": "org 1"}), "edges": pd.DataFrame({"from": ["x"], "to": ["y"]})},
        {},
    )
    assert {name: list(table) for name, table in questions.items()} == {
        "nodes": ["node", "client"],
        "edges": ["source", "target"],
        "features": ["name"],
    }
    assert questions["features"]["name"].tolist() == ["year"]


def test_clients_splits_and_unknown_labels() -> None:
    row = np.arange(40)
    split = np.array(["train", "validation", "test"], dtype=object)[row % 3]
    split[:4] = None
    label = np.where(row < 4, None, row % 2 + 5)
    parts = TypedGraph(target="paper", **changed("nodes", "paper", split=split, label=label)).load(1)
    assert parts[0].classes == ("5", "6")
    assert parts[0].label.tolist() == [-1, *[0] * 9]
    assert parts[0].ids["paper"].tolist()[:4] == ["p0", "p12", "p16", "p20"]
    assert parts[0].split.tolist()[:4] == [-1, 0, 1, 2]


def test_nodes_that_name_no_client_are_dealt() -> None:
    parts = without_clients().load(1)
    assert [part.name for part in parts] == [f"graph-{k}" for k in range(10)]
    assert [part.targets for part in parts] == [4] * 10
    uneven = without_clients(clients=4, partition="dirichlet", others="divided").load(1)
    assert len(uneven) == 4
    assert sum(len(part.ids["author"]) for part in uneven) == 8
    assert merge_graphs(parts).targets == 40


def test_without_features_some_are_made_of_what_a_client_holds(caplog: pytest.LogCaptureFixture) -> None:
    data = TypedGraph(target="paper", **changed("nodes", "paper", pages=None, year=None))
    parts = data.load(1)
    assert {part.width for part in parts} == {2 + 3 * 64}
    assert data.feature_names == ()
    assert data.questions(None, {}, {})["features"]["name"].tolist() == []
    same(TypedGraph(target="paper", **data.tables()).load(1), parts)
    assert TypedGraph(target="paper", features=(), **own_tables()).load(1)[0].width == 2 + 3 * 64


def test_columns_of_text_are_no_features() -> None:
    data = TypedGraph(target="paper", **changed("nodes", "paper", title="About", empty=np.nan))
    assert data.feature_names == ("pages", "year")


def test_sparse_features() -> None:
    eye = {f"w{k}": (np.arange(40) == k).astype(int) for k in range(40)}
    data = TypedGraph(target="paper", **changed("nodes", "paper", pages=None, year=None, **eye))
    assert all(isinstance(part.features, sparse.csr_matrix) for part in data.load(1))


def test_edges_are_undirected_and_each_is_once(caplog: pytest.LogCaptureFixture) -> None:
    tables = own_tables()
    tables["edges"]["author-paper"] = tables["edges"]["paper-author"].rename(
        columns={"source": "target", "target": "source"}
    )
    tables["edges"]["paper-paper"] = pd.DataFrame(
        {"source": ["p0", "p4", "p4", "p8"], "target": ["p4", "p0", "p4", "p0"]}
    )
    with caplog.at_level(logging.WARNING):
        parts = TypedGraph(target="paper", **tables).load(1)
    assert named(parts[0])["paper-paper"] == [("p0", "p4"), ("p0", "p8")]
    assert [*parts[0].edges] == [("author", "paper"), ("paper", "paper"), ("venue", "paper")]
    assert (
        "TypedGraph.edges.paper-author and TypedGraph.edges.author-paper: author-paper: 40 repeated edges left out."
        in caplog.text
    )
    assert "paper-paper: 1 edges from a node to itself left out." in caplog.text
    assert parts[0].metapaths == ("paper-author-paper", "paper-paper", "paper-venue-paper")


def test_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(own_tables(), tmp_path)
    monkeypatch.chdir(tmp_path)
    key, nodes = parse_override('data.nodes={paper="paper.csv", author="author.csv", venue="venue.csv"}')
    assert key == "data.nodes"
    _, edges = parse_override('data.edges={"paper-author"="paper-author.csv", venue-paper="venue-paper.csv"}')
    data = discovery.build("data", "data", {"name": "typed_graph", "nodes": nodes, "edges": edges, "target": "paper"})
    same(data.load(1), TypedGraph(target="paper", **paths).load(1))


# --- errors -----------------------------------------------------------------------------------------------------------


def edges_of(**tables: pd.DataFrame) -> Tables:
    found = own_tables()
    found["edges"] |= {name.replace("_", "-"): table for name, table in tables.items()}
    return found


def pairs(*ends: tuple[Any, Any]) -> pd.DataFrame:
    return pd.DataFrame(ends, columns=["source", "target"])


ERRORS: list[tuple[Tables, dict[str, Any], str]] = [
    (own_tables(), {"target": "papr"}, r"TypedGraph.target must be one of 'paper', .* Did you mean 'paper'\?"),
    (
        {**own_tables(), "edges": {"paper-author": own_tables()["edges"]["paper-author"]}},
        {},
        r"TypedGraph.edges: node type 'venue' has no edges; a table 'venue-paper', or of edges to another type",
    ),
    (
        edges_of(paper_autor=pairs(("p0", "a0"))),
        {},
        r"TypedGraph.edges, 'paper-autor': No node type named 'autor'\. Did you mean 'author'\? Known: author, paper",
    ),
    (edges_of(paper=pairs(("p0", "a0"))), {}, "a name must be two types joined by '-', such as 'paper-author'; got"),
    (
        edges_of(paper_author=pairs(("p0", "a0"), ("p99", "a0"))),
        {},
        r"edges.paper-author, row 2: 'source' must be a node of type 'paper', one of TypedGraph.nodes.paper; got 'p99'",
    ),
    (
        edges_of(paper_author=pairs(("a0", "p0"), ("a1", "p1"))),
        {},
        r"row 1: 'source' must be a node of type 'paper', .* got 'a0' \(2 such rows\)\. The ids fit the other way",
    ),
    (edges_of(paper_author=pairs(("p0", None))), {}, r"edges.paper-author, row 1: 'target' is empty \(1 such rows\)"),
    (
        edges_of(paper_author=pairs(("p0", "a0")).rename(columns={"target": "targt"})),
        {},
        r"edges.paper-author: no column 'target' \(TypedGraph.ends\[1\]\)\. Did you mean 'targt'\?",
    ),
    (
        changed("nodes", "paper", label=[None] * 40),
        {},
        "'label' is empty in every row; nodes to learn from need",
    ),
    (
        {
            **own_tables(),
            "nodes": {**own_tables()["nodes"], "paper": own_tables()["nodes"]["paper"].drop(columns="label")},
        },
        {},
        r"TypedGraph.nodes.paper: no column 'label' \(TypedGraph.label\)",
    ),
    (own_tables(), {"label": "lable"}, r"no column 'lable' \(TypedGraph.label\)\. Did you mean 'label'\?"),
    (
        own_tables(),
        {"client": "organisation"},
        r"no column 'organisation' \(TypedGraph.client\)\. Columns: node",
    ),
    (own_tables(), {"features": ("page",)}, r"no column 'page' \(TypedGraph.features: page\)\. Did you mean 'pages'\?"),
    (own_tables(), {"node": "id"}, r"TypedGraph.nodes.paper: no column 'id' \(TypedGraph.node\)"),
    (
        changed("nodes", "paper", node=["p0", "p0", *(f"p{k}" for k in range(2, 40))]),
        {},
        r"'p0' of type 'paper', .*tw",
    ),
    (
        changed("nodes", "venue", node=[1, 1]),
        {},
        r"nodes.venue, row 2: node '1' of type 'venue', .* is listed twice",
    ),
    (
        changed("nodes", "paper", client=[None] + ["org"] * 39),
        {},
        r"nodes.paper, row 1: 'client' is empty \(1 such rows\)",
    ),
    (
        changed("nodes", "paper", pages=["many", *range(39)]),
        {},
        r"nodes.paper, row 1: 'pages' must be a finite number, as a feature; got 'many' .*naming the others",
    ),
    (
        own_tables(),
        {"metapaths": ("paper-author",)},
        "TypedGraph.metapaths, 'paper-author': it must begin and end at 'paper'. There are, for example: "
        "paper-author-paper, paper-venue-paper.$",
    ),
    (
        own_tables(),
        {"metapaths": ("paper>author>paper",)},
        "types must be joined by '-'. Did you mean 'paper-author-paper'[?] There are, for example: paper-author-paper,",
    ),
    (changed("nodes", "paper", label="art"), {}, "all 40 nodes of type 'paper' with a label have the class 'art'; at"),
    (own_tables(), {"metapaths": ("paper-autor-paper",)}, r"No node type named 'autor'\. Did you mean 'author'\?"),
    (own_tables(), {"clients": 3}, "TypedGraph.clients must be 4, as the data name, or 0; got 3"),
    (own_tables(), {"partition": "dirichlet"}, "TypedGraph.partition = 'dirichlet' is for data without clients; these"),
    (own_tables(), {"alpha": 1.0}, "TypedGraph.alpha = 1.0 is for data without clients; these name 4"),
    (changed("nodes", "paper", split="train"), {}, "leaves no node of type 'paper' for validation; one is needed"),
    (
        changed("nodes", "paper", split=["train", "validation", "test", "train"] * 10),
        {"fold": 1},
        "TypedGraph.fold = 1 is for data without a split; these have one",
    ),
    (
        changed("nodes", "paper", client=None),
        {"clients": 41},
        "TypedGraph.clients must be at most 40, the nodes of",
    ),
]


@pytest.mark.parametrize(("tables", "options", "message"), ERRORS)
def test_whatever_is_wrong_is_one_clear_error(tables: Tables, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        TypedGraph(**{"target": "paper", **tables, **options}).load(1)
    assert "\n" not in str(caught.value)


def test_a_node_at_two_clients_is_named_with_both() -> None:
    tables = own_tables()
    papers = tables["nodes"]["paper"]
    tables["nodes"]["paper"] = pd.concat([papers, papers.iloc[[3]].assign(client="org 0")])
    with pytest.raises(
        InputError,
        match=r"row 41: node 'p3' of type 'paper', .* is at two clients, 'org 3' and 'org 0'; each must",
    ):
        TypedGraph(target="paper", **tables).load(1)


def test_types_with_a_dash_are_errors() -> None:
    tables = own_tables()
    tables["nodes"]["re-view"] = tables["nodes"].pop("venue")
    with pytest.raises(InputError, match=r"TypedGraph.nodes: a type's name must be without '-', .* got 're-view'"):
        TypedGraph(target="paper", **tables).load(1)


def test_errors_of_one_table_of_all(tmp_path: Path) -> None:
    tables = TypedGraph(target="paper", **own_tables()).tables()
    nodes, edges = tables["nodes"], tables["edges"]
    for more, message in (
        ({"nodes": nodes.drop(columns="type")}, r"TypedGraph.nodes: no column 'type' \(a table of all nodes says"),
        ({"edges": edges.drop(columns="source_type")}, "TypedGraph.edges: no column 'source_type'"),
        (
            {"edges": edges.replace({"source_type": {"venue": "venu"}})},
            r"edges, row 41: 'source_type': No node type named 'venu'\. Did you mean 'venue'\?",
        ),
        (
            {"edges": edges.replace({"source": {"p7": "p77"}})},
            r"TypedGraph.edges, row 38: 'source' must .* got 'p77'",
        ),
        ({"nodes": nodes.replace({"node": {"a1": "a0"}})}, r"TypedGraph.nodes, row 42: node 'a0' of type 'author'"),
    ):
        with pytest.raises(InputError, match=message):
            TypedGraph(target="paper", **{**tables, **more}).load(1)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.replace({"target": {"a3": "a33"}}).to_csv(tmp_path / "edges.csv", index=False)
    with pytest.raises(
        InputError, match=rf"{tmp_path}/edges.csv, row 4: 'target' must .*, one of {tmp_path}/nodes.csv"
    ):
        TypedGraph(tmp_path / "nodes.csv", "paper", tmp_path / "edges.csv").load(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edges": None}, "TypedGraph.edges must be given: {'paper-author': a .csv or .parquet file or a DataFrame"),
        ({"nodes": {}}, "TypedGraph.nodes must hold a table, such as {'paper': a file}; got none"),
        (
            {"nodes": {"paper": 3}},
            r"TypedGraph.nodes\['paper'\] must be a .csv or .parquet file or a DataFrame; got",
        ),
        ({"nodes": 3}, r"TypedGraph.nodes must be {type: a .csv .* or for nodes a torch_geometric.data.HeteroData"),
        ({"edges": 3}, "TypedGraph.edges must be {type: a .csv .*; got int"),
        ({"label": "node"}, "TypedGraph.label must be another column than TypedGraph.node; got 'node'"),
        ({"ends": ("a", "a")}, "TypedGraph.ends must name each column once; got 'a' twice"),
        ({"clients": -1}, "TypedGraph.clients must be >= 0; got -1"),
        ({"partition": "iid"}, "TypedGraph.partition must be one of 'uniform', 'dirichlet'"),
        ({"others": "all"}, "TypedGraph.others must be one of 'shared', 'divided'"),
    ],
)
def test_bad_options_fail_before_any_file_is_read(options: dict[str, Any], message: str) -> None:
    given = {"nodes": {"paper": "p.csv"}, "edges": {"paper-paper": "e.csv"}, "target": "paper"}
    with pytest.raises(InputError, match=message):
        TypedGraph(**{**given, **options})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    paths = written(own_tables(), tmp_path)
    paths["nodes"]["paper"] = str(tmp_path / "papr.csv")
    with pytest.raises(InputError, match=r"TypedGraph.nodes.paper: no file .*papr.csv\. Did you mean .*paper.csv'\?"):
        TypedGraph(target="paper", **paths).load(1)
