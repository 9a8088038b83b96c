"""What edges carry reaches the graph from own tables: columns, weights, times, directions and repeats."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data as Graph

from fedgraft.domains.nodes.base.shards import NodeShard, merge_shards
from fedgraft.errors import InputError
from fedgraft.methods.data.nodes import Nodes
from fedgraft.methods.models.mlp import MLP
from fedgraft.methods.tasks.node import Node

ROWS = [
    ("a", "b", 10.0, "wire", "2021-03-01", 1.0),
    ("b", "a", 20.0, "card", "2021-03-02", 2.0),
    ("a", "b", 40.0, None, "2021-03-04", 3.0),
    ("c", "d", None, "wire", "2021-03-03", 1.0),
    ("d", "a", 50.0, "card", "2021-03-05", 0.0),
    ("c", "c", 90.0, "card", "2021-03-06", 1.0),
    ("a", "b", 30.0, "wire", "2021-03-03", 4.0),
]
COLUMNS = ["source", "target", "amount", "channel", "when", "times"]
ALL_COLUMNS = {"edge_features": ("amount", "channel"), "weight": "times", "time": "when"}


def tables(rows: Any = ROWS) -> tuple[pd.DataFrame, pd.DataFrame]:
    nodes = pd.DataFrame({"node": list("abcd"), "client": ["east", "west"] * 2, "label": list("xyxy"), "f": range(4)})
    nodes["split"] = ["train", "train", "validation", "test"]
    return nodes, pd.DataFrame(rows, columns=COLUMNS)


def load(edges: pd.DataFrame | None = None, **options: Any) -> list[NodeShard]:
    nodes, every = tables()
    return list(Nodes(nodes, every if edges is None else edges, min_examples=1, **options).load(1))


def listed(shards: list[NodeShard]) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """{(receiver, sender): (values, along, number, weight) of each stored edge}."""
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for shard in shards:
        halo = [shards[k].ids[v] for k, v in zip(shard.halo_owner, shard.halo_place, strict=True)]
        names, rows = [*shard.ids, *halo], shard.edge_rows
        assert rows is not None
        for receiver in range(shard.own):
            for edge in range(shard.pointers[receiver], shard.pointers[receiver + 1]):
                weight = None if rows.weight is None else float(rows.weight[edge])
                said = rows.values[edge].tolist(), bool(rows.along[edge]), int(rows.number[edge]), weight
                found.setdefault((names[receiver], names[shard.senders[edge]]), []).append(said)
    return found


def numbers(found: dict[tuple[str, str], list[tuple[Any, ...]]], *pair: str) -> list[int]:
    return [number for _, _, number, _ in found[pair]]  # type: ignore[index]


# --- what is read -----------------------------------------------------------------------------------------------------


def test_worked_example(caplog: pytest.LogCaptureFixture) -> None:
    found = listed(load(**ALL_COLUMNS, directed=True, scaling="none"))
    assert sorted(found) == [("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")], "both ends have an edge"
    assert numbers(found, "b", "a") == numbers(found, "a", "b") == [0, 1, 2, 6]
    assert [along for _, along, _, _ in found["b", "a"]] == [True, False, True, True]
    assert [along for _, along, _, _ in found["a", "b"]] == [False, True, False, False]
    assert [weight for *_, weight in found["b", "a"]] == [1.0, 2.0, 3.0, 4.0]
    # amount, amount is missing, channel = card, = wire, is missing, when
    day = pd.Timestamp("2021-03-01", tz="UTC").timestamp()
    assert found["b", "a"][0][0] == [10.0, 0.0, 0.0, 1.0, 0.0, np.float32(day)]
    assert found["b", "a"][2][0][1:5] == [0.0, 0.0, 0.0, 1.0]
    assert found["d", "c"][0][0][1:5] == [1.0, 0.0, 1.0, 0.0]
    for note in ("1 edges from a node to itself", "1 edges of weight 0"):
        assert f"{note} left out." in caplog.text, note


def test_columns_are_scaled_over_all_clients_an_edge_between_two_counts_at_both() -> None:
    shards = load(edge_features="amount", directed=True, scaling="standard")
    amounts = np.array([row[2] for row in ROWS if row[0] != row[1]], np.float64)
    whose = {"a": "east", "b": "west", "c": "east", "d": "west"}
    times = np.array([len({whose[row[0]], whose[row[1]]}) for row in ROWS if row[0] != row[1]])
    there = ~np.isnan(amounts)
    mean = np.average(amounts[there], weights=times[there])
    spread = np.sqrt(np.average((amounts[there] - mean) ** 2, weights=times[there]))
    found = listed(shards)
    assert found["b", "a"][0][0] == pytest.approx([(10 - mean) / spread, 0.0], abs=1e-5)
    assert shards[0].edge_width == 2
    assert found["d", "c"][0][0] == [0.0, 1.0], "the mean stands for what is missing"


def test_all_is_every_other_column() -> None:
    nodes, edges = tables()
    data = Nodes(nodes, edges, edge_features="all", weight="times", time="when", min_examples=1)
    one = data.fitted(data.published(Node(MLP()), 1))
    assert one.edge_names == ("amount", "channel")
    assert listed(list(one.load(1))) == listed(load(**ALL_COLUMNS))


def test_edges_that_carry_nothing_are_as_before_and_the_note_names_the_options(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = load()
    assert all(shard.edge_rows is None for shard in before)
    options = "data.edge_features, data.weight, data.time would read one."
    assert f"Columns of edges that are not read: amount, channel, when, times; {options}" in caplog.text
    kept = load(duplicate_edges="keep")
    assert all(shard.edge_width == 0 for shard in kept)
    assert len(merge_shards(kept).senders) == 2 * 6
    assert len(merge_shards(before).senders) == 2 * 3


def test_without_a_direction_all_edges_go_both_ways() -> None:
    found = listed(load(edge_features="amount"))
    assert all(along for each in found.values() for _, along, _, _ in each)


@pytest.mark.parametrize("directed", [True, False])
def test_repeats_that_are_kept_last_or_added(directed: bool, caplog: pytest.LogCaptureFixture) -> None:
    form = {**ALL_COLUMNS, "directed": directed, "scaling": "none"}
    assert numbers(listed(load(**form, duplicate_edges="keep")), "b", "a") == [0, 1, 2, 6]
    last = listed(load(**form, duplicate_edges="last"))
    assert numbers(last, "b", "a") == ([1, 2] if directed else [2]), "by time, not by row"
    assert f"{2 if directed else 3} repeated edges left out." in caplog.text
    added = listed(load(**form, duplicate_edges="sum"))
    assert numbers(added, "b", "a") == numbers(last, "b", "a")
    values, _, _, weight = added["b", "a"][-1]
    assert (values[0], weight) == ((80.0, 8.0) if directed else (100.0, 10.0))
    assert values[1:] == last["b", "a"][-1][0][1:], "texts and times are of the last"
    assert f"{2 if directed else 3} repeated edges added up." in caplog.text
    without = listed(load(edge_features="amount", directed=directed, duplicate_edges="last", scaling="none"))
    assert numbers(without, "b", "a") == ([1, 6] if directed else [6]), "without a time by row"
    nothing = load(tables()[1].iloc[:0], duplicate_edges="sum", directed=directed)
    assert all(shard.edge_rows is not None and shard.edge_rows.weight is not None for shard in nothing)
    counted = listed(load(duplicate_edges="sum", directed=directed))
    assert [weight for *_, weight in counted["b", "a"]] == ([1.0, 3.0] if directed else [4.0])


def test_files_folders_and_frames_are_the_same(tmp_path: Path) -> None:
    nodes, edges = tables()
    expected = listed(load(**ALL_COLUMNS, directed=True))
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    found = Nodes(tmp_path / "nodes.csv", tmp_path / "edges.csv", min_examples=1, **ALL_COLUMNS, directed=True)
    assert listed(list(found.load(1))) == expected
    (tmp_path / "folder").mkdir()
    edges.iloc[:3].to_csv(tmp_path / "folder" / "one.csv", index=False)
    edges.iloc[3:].to_csv(tmp_path / "folder" / "two.csv", index=False)
    found = Nodes(tmp_path / "nodes.csv", tmp_path / "folder", min_examples=1, **ALL_COLUMNS, directed=True)
    assert listed(list(found.load(1))) == expected
    assert {*Nodes(nodes, edges, **ALL_COLUMNS).tables()["edges"]} == {*COLUMNS}
    assert {*Nodes(nodes, edges, edge_features="all").tables()["edges"]} == {*COLUMNS}
    assert {*Nodes(nodes, edges, weight="times").tables()["edges"]} == {"source", "target", "times"}


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "change", "error"),
    [
        (
            {"duplicate_edges": "first"},
            {},
            "Nodes.duplicate_edges must be one of '', 'keep', 'sum', 'last'; got 'first'",
        ),
        ({"edge_features": "amont"}, {}, r"no column 'amont' \(Nodes.edge_features: amont\). Did you mean 'amount'"),
        ({"weight": "weight"}, {}, r"no column 'weight' \(Nodes.weight\)"),
        ({"time": "time"}, {}, r"no column 'time' \(Nodes.time\)"),
        (
            {"time": "when", "edge_features": "when"},
            {},
            "Nodes.time must be another column than Nodes.edge_features; got 'when'",
        ),
        ({"weight": "times"}, {"times": -1.0}, r"row 1: 'times' must be a finite number and at least 0, .*7 such rows"),
        ({"weight": "times"}, {"times": [1.0] * 4 + [np.nan] * 3}, r"row 5: 'times' must be a finite number; got noth"),
        ({"weight": "times"}, {"times": "many"}, r"row 1: 'times' must be a finite number; got 'many'"),
        ({"weight": "times"}, {"times": np.inf}, r"row 1: 'times' must be a finite number"),
        ({"time": "when"}, {"when": [None, *["2021-03-01"] * 6]}, r"row 1: 'when' must be a number or a date; got not"),
        ({"time": "when"}, {"when": "soon"}, r"row 1: 'when' must be a number or a date; got 'soon'"),
        ({"edge_features": "amount"}, {"amount": np.inf}, r"row 1: 'amount' must be a finite number.*edge_features"),
    ],
)
def test_what_is_wrong_is_one_line(options: dict[str, Any], change: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error) as raised:
        load(tables()[1].assign(**change), **options)
    assert "\n" not in str(raised.value)


def test_columns_of_which_something_is_wrong(tmp_path: Path) -> None:
    nodes, edges = tables()
    with pytest.raises(InputError, match="no other column that edges could carry"):
        Nodes(nodes, edges[["source", "target"]], edge_features="all").load(1)
    edges.to_csv(tmp_path / "edges.csv")
    with pytest.raises(InputError, match=r"column 1 has no name.*Nodes\.edge_features"):
        Nodes(nodes, tmp_path / "edges.csv", edge_features="all").load(1)
    many = pd.DataFrame([("a", "b", 1.0, f"way {k}", k, 1.0) for k in range(99)], columns=COLUMNS)
    with pytest.raises(InputError, match=r"'channel' has 99 different texts.*in data\.edge_features"):
        Nodes(nodes, many, edge_features="channel").load(1)
    with pytest.raises(InputError, match=r"'edges: f' of nodes must have another name"):
        Nodes(nodes.rename(columns={"f": "edges: f"}), edges, weight="times", min_examples=1).load(1)


# --- PyG objects ------------------------------------------------------------------------------------------------------


def graph(**more: Any) -> Graph:
    """The tables as an object: without texts, its times as numbers."""
    nodes, edges = tables()
    place = {name: number for number, name in enumerate(nodes["node"])}
    ends = [[place[name] for name in edges[role]] for role in ("source", "target")]
    days = [float(when[-2:]) for when in edges["when"]]
    masks = {f"{name}_mask": torch.tensor(nodes["split"] == split) for name, split in SPLITS.items()}
    return Graph(
        **{
            "x": torch.arange(4.0)[:, None],
            "y": torch.tensor([0, 1, 0, 1]),
            "edge_index": torch.tensor(ends),
            "edge_attr": torch.tensor(edges["amount"].tolist())[:, None],
            "edge_weight": torch.tensor(edges["times"].tolist()),
            "edge_time": torch.tensor(days, dtype=torch.float64),
            "client": nodes["client"].tolist(),
            **masks,
            **more,
        }
    )


SPLITS = {"train": "train", "val": "validation", "test": "test"}
OF_OBJECT = {"edge_features": "all", "weight": "edge_weight", "time": "edge_time", "directed": True}


@pytest.mark.parametrize("duplicate_edges", ["keep", "sum", "last"])
def test_an_object_its_file_and_its_tables_are_the_same_as_the_users_tables(
    tmp_path: Path, duplicate_edges: Any
) -> None:
    nodes, edges = tables()
    edges = edges.assign(when=[float(when[-2:]) for when in edges["when"]])
    form = {"min_examples": 1, "duplicate_edges": duplicate_edges}
    options = {"edge_features": "amount", "weight": "times", "time": "when", "directed": True, **form}
    wanted = [shard.edge_rows for shard in Nodes(nodes, edges, **options).load(1)]
    torch.save(graph(), tmp_path / "graph.pt")
    data = Nodes(graph(), **OF_OBJECT, **form)
    stored = Nodes(**data.tables(), **OF_OBJECT, **form)
    for each in (data, stored, Nodes(tmp_path / "graph.pt", **OF_OBJECT, **form)):
        for shard, rows in zip(each.load(1), wanted, strict=True):
            assert rows is not None
            assert shard.edge_rows is not None
            for key in ("values", "along", "number", "weight"):
                assert np.array_equal(getattr(shard.edge_rows, key), getattr(rows, key)), key


def test_objects_of_clients_have_what_their_edges_carry_in_common() -> None:
    one = graph(client=None)
    shards = Nodes({"a": one, "b": one}, **OF_OBJECT, min_examples=1).load(1)
    first, second = (shard.edge_rows for shard in shards)
    assert first is not None
    assert second is not None
    assert np.array_equal(first.values, second.values)
    assert second.number.min() == len(ROWS), "rows go on"
    with pytest.raises(InputError, match=r"Nodes.nodes\['b'\] has no 'edge_weight', which other clients' objects have"):
        Nodes({"a": one, "b": graph(client=None, edge_weight=None)}, **OF_OBJECT).load(1)


@pytest.mark.parametrize(
    ("more", "options", "error"),
    [
        ({}, {"weight": "edge_wait"}, r"Nodes.nodes has no 'edge_wait' \(Nodes.weight\). Did you mean 'edge_weight'"),
        ({"edge_weight": torch.ones(3)}, {"weight": "edge_weight"}, r"edge_weight must be numbers of shape \[7, n\]"),
        (
            {"edge_time": torch.ones(7, 2)},
            {"time": "edge_time"},
            r"edge_time must be one number per edge; got",
        ),
        (
            {"edge_weight": -torch.ones(7)},
            {"weight": "edge_weight"},
            r"Nodes.nodes, row 1: 'edge_weight' must be",
        ),
        ({}, {"edge_features": "1"}, r"no column '1' \(Nodes.edge_features: 1\)"),
        ({"edge_attr": torch.ones(2, 1)}, {"edge_features": "all"}, r"edge_attr must be numbers of shape \[7, n\]"),
    ],
)
def test_attributes_that_do_not_fit_are_one_line(more: dict[str, Any], options: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error):
        Nodes(graph(**more), **options).load(1)


def test_notes_name_the_options_that_read_what_an_objects_edges_carry(caplog: pytest.LogCaptureFixture) -> None:
    Nodes(graph(), weight="edge_weight").load(1)
    assert "Nodes.nodes.edge_attr is not read; data.edge_features = 'all' would." in caplog.text
    assert "Nodes.nodes.edge_time is not read; data.time = 'edge_time' would." in caplog.text
    assert "edge_weight is not read" not in caplog.text
