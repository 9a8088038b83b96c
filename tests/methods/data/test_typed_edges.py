"""Own typed graphs whose edges carry something: what is read of tables and PyG objects, and what is wrong with them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import HeteroData

from fedgraft.domains.typed.shards import TypedGraph as Shard
from fedgraft.errors import InputError
from fedgraft.methods.data.typed_graph import TypedGraph
from helpers.toy_typed import own_tables

Tables = dict[str, dict[str, pd.DataFrame]]


def carrying(**more: Any) -> Tables:
    """Papers, authors and venues: a share and a role of each author, and a price of each venue."""
    tables = own_tables()
    row = np.arange(40)
    wrote = tables["edges"]["paper-author"].assign(share=row / 10, role=np.array(["first", "last"])[row % 2])
    tables["edges"] = {"paper-author": wrote.assign(**more), "venue-paper": tables["edges"]["venue-paper"]}
    return tables


def load(tables: Tables | None = None, **options: Any) -> list[Shard]:
    return list(TypedGraph(target="paper", **(tables or carrying()), **{"min_examples": 1, **options}).load(1))


def carried(shards: list[Shard], one: str = "paper", other: str = "author") -> dict[tuple[str, str], list[float]]:
    """{(id, id): what the edge carries}."""
    found = {}
    for shard in shards:
        assert shard.edge_rows is not None
        ends, rows = shard.edges[one, other], shard.edge_rows[one, other]
        pairs = zip(shard.ids[one][ends[0]], shard.ids[other][ends[1]], strict=True)
        found |= {(str(a), str(b)): values for (a, b), values in zip(pairs, rows.values.tolist(), strict=True)}
    return found


def test_columns_are_read_alike_at_all_clients() -> None:
    shards = load(scaling="none", edge_features=("share", "role"))
    found = carried(shards)
    assert len(found) == 40
    assert found["p3", "a3"] == pytest.approx([0.3, 0, 0, 1, 0], abs=1e-6), "share, first, last; what is missing"
    assert carried(shards, "venue", "paper")["1", "p0"] == pytest.approx([1.95, 1, 0, 0, 1]), (
        "a table without a column lacks its values"
    )
    assert all(rows.weight is None for shard in shards for rows in shard.edge_rows.values())
    plain = load()
    assert [*plain[0].edges] == [*shards[0].edges]
    assert plain[0].edge_rows is None
    np.testing.assert_array_equal(plain[0].edges["paper", "author"], shards[0].edges["paper", "author"])


def test_numbers_are_scaled_over_all_clients() -> None:
    shards = load(edge_features="share")
    values = np.array(list(carried(shards).values()))
    assert values.mean(axis=0) == pytest.approx([0, 0], abs=1e-6)
    assert values.std(axis=0)[0] == pytest.approx(1, abs=1e-3)
    assert np.unique(np.concatenate([s.edge_rows["venue", "paper"].values for s in shards]), axis=0).tolist() == [
        [0, 1]
    ]


def test_weights_times_and_repeats() -> None:
    tables = carrying(count=np.arange(40) % 3, when=np.arange(40))
    again = tables["edges"]["paper-author"].iloc[:2].assign(share=9.0, count=5, when=[-1, 99])
    tables["edges"]["paper-author"] = pd.concat([tables["edges"]["paper-author"], again], ignore_index=True)
    shards = load(tables, weight="count", time="when", edge_features="share", scaling="none")
    weights = {rows.weight.tolist()[0] for s in shards for rows in [s.edge_rows["venue", "paper"]]}
    assert weights == {1}, "a table without weights has those of 1"
    found = carried(shards)
    assert ("p3", "a3") not in found, "of weight 0"
    assert found["p1", "a1"][::2] == [9, 99]
    assert found["p0", "a0"][::2] == [9, -1], "the other row, which is later, has weight 0"
    summed = carried(load(tables, duplicate_edges="sum", edge_features="share", scaling="none"))
    assert summed["p1", "a1"] == pytest.approx([9.1, 0])


def test_what_is_not_read_is_said(caplog: pytest.LogCaptureFixture) -> None:
    load(carrying(note="x"), edge_features="share")
    assert (
        "Columns of edges that are not read: role, note; data.edge_features, data.weight, data.time would read one."
        in caplog.text
    )
    caplog.clear()
    load(carrying(source2="x"))
    note = "not read: share, role, source2; data.edge_features, data.weight, data.time would read one."
    assert note in caplog.text


def test_one_table_of_all_says_the_same() -> None:
    tables = carrying(count=np.arange(40) % 3 + 1)
    options = {"edge_features": ("share", "role"), "weight": "count"}
    data = TypedGraph(target="paper", **tables, **options)
    every = data.tables()
    assert [*every["edges"]][4:] == ["share", "role", "count"]
    one, other = (carried(list(TypedGraph(target="paper", **each, **options).load(1))) for each in (tables, every))
    assert one == other


@pytest.mark.parametrize(
    "options",
    [
        {"edge_features": ("share", "role"), "duplicate_edges": "sum"},
        {"edge_features": "share", "duplicate_edges": "sum", "time": "day", "time_format": "%d/%m/%Y"},
        {"duplicate_edges": "sum"},
        {"weight": "count", "duplicate_edges": "sum", "time": "day", "time_format": "%d/%m/%Y"},
    ],
)
def test_tables_that_a_run_keeps_are_read_as_its_own(options: dict[str, Any]) -> None:
    tables = carrying(count=np.arange(40) % 3 + 1, day=pd.date_range("2021-01-25", periods=40).strftime("%d/%m/%Y"))
    again = tables["edges"]["paper-author"].iloc[:7].assign(share=0.5)
    tables["edges"]["paper-author"] = pd.concat([tables["edges"]["paper-author"], again], ignore_index=True)
    data = TypedGraph(target="paper", **tables, **options)
    kept = TypedGraph(target="paper", **data.tables(), **options)
    for part, other in zip(data.load(1), kept.load(1), strict=True):
        for pair, rows in part.edge_rows.items():
            np.testing.assert_array_equal(other.edges[pair], part.edges[pair])
            np.testing.assert_array_equal(other.edge_rows[pair].values, rows.values)
            np.testing.assert_array_equal(other.edge_rows[pair].weight, rows.weight)


def graph(count: int = 20) -> HeteroData:
    row = torch.arange(count)
    data = HeteroData()
    data["paper"].x = torch.stack([row * 1.0, torch.ones(count)], dim=1)
    data["paper"].y = row // 2 % 2
    data["author"].num_nodes = 5
    data["paper", "by", "author"].edge_index = torch.stack([row, row % 5])
    data["paper", "by", "author"].edge_attr = torch.stack([row / 10, row % 2], dim=1)
    data["author", "rev_by", "paper"].edge_index = torch.stack([row % 5, row])
    data["author", "rev_by", "paper"].edge_attr = data["paper", "by", "author"].edge_attr
    data["paper", "in", "venue"].edge_index = torch.stack([row, row % 2])
    data["paper", "in", "venue"].edge_weight = row % 3 + 1.0
    return data


def test_objects_and_their_tables_say_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = graph()
    data["paper"].client = ["b", "a"] * 10
    options = {"edge_features": "all", "weight": "edge_weight", "scaling": "none", "min_examples": 1}
    whole = TypedGraph(data, "paper", **options)
    shards = list(whole.load(1))
    found = carried(shards, "author", "paper")
    assert len(found) == 20
    assert found["3", "13"] == pytest.approx([1.3, 0, 1, 0])
    assert "20 repeated edges left out." in caplog.text
    assert shards[0].edge_rows["paper", "venue"].weight.tolist() == [ends % 3 + 1.0 for ends in range(1, 20, 2)]
    assert set(shards[0].edge_rows["author", "paper"].weight) == {1}
    tables = whole.tables()
    assert [*tables["edges"]][4:] == ["author-paper.0", "author-paper.1", "edge_weight"]
    assert carried(list(TypedGraph(**tables, target="paper", **options).load(1)), "author", "paper") == found
    caplog.clear()
    TypedGraph(data, "paper").load(1)
    for key, option in (("edge_attr", "edge_features = 'all'"), ("edge_weight", "weight = 'edge_weight'")):
        assert caplog.text.count(f"TypedGraph.nodes.{key} is not read; data.{option} would.") == 1


def test_a_relation_that_lists_the_way_back_alone_takes_nothing_away() -> None:
    options = {"edge_features": "all", "time": "edge_time", "weight": "edge_weight", "scaling": "none"}
    data = graph()
    del data["author", "rev_by", "paper"].edge_attr
    data["paper", "by", "author"].edge_time = torch.arange(20)
    data["paper", "by", "author"].edge_weight = torch.arange(1, 21)
    whole, turned = (TypedGraph(each, "paper", clients=1, min_examples=1, **options) for each in (data, turn(data)))
    found = carried(list(whole.load(1)), "author", "paper")
    assert found["3", "13"] == pytest.approx([1.3, 0, 1, 0, 13, 0])
    assert carried(list(turned.load(1)), "author", "paper") == found
    wrote = carrying()["edges"]["paper-author"]
    back = wrote[["source", "target"]].rename(columns={"source": "target", "target": "source"})
    tables = carrying()
    tables["edges"] = {"author-paper": back, **tables["edges"]}
    wanted = carried(load(edge_features="share"))
    for edges in (tables["edges"], dict(reversed(tables["edges"].items()))):
        assert {
            (b, a): each
            for (a, b), each in carried(
                load({**tables, "edges": edges}, edge_features="share"), "author", "paper"
            ).items()
        } == wanted


def turn(data: HeteroData) -> HeteroData:
    """The same with its relations in the other order."""
    other = HeteroData()
    for kind in data.node_types:
        other[kind].update(data[kind])
    for kind in reversed(data.edge_types):
        other[kind].update(data[kind])
    return other


def test_files_of_clients(tmp_path: Path) -> None:
    for name, place in (("a", 0), ("b", 1)):
        data = graph(10)
        data["author"].node_id = [f"author {k}" for k in range(5)]
        data["venue"].node_id = ["here", "there"]
        data["paper", "by", "author"].edge_attr += place
        if place:
            del data["author", "rev_by", "paper"], data["paper", "in", "venue"], data["venue"]
        torch.save(data, tmp_path / f"{name}.pt")
    a, b = TypedGraph(tmp_path, "paper", edge_features="all", scaling="none", min_examples=1).load(1)
    assert carried([a], "author", "paper")["author 3", "a:3"] == pytest.approx([0.3, 0, 1, 0])
    assert carried([b], "author", "paper")["author 3", "b:3"] == pytest.approx([1.3, 0, 2, 0])
    assert b.edges["paper", "venue"].size == len(b.edge_rows["paper", "venue"]) == 0


@pytest.mark.parametrize(
    ("tables", "options", "message"),
    [
        (
            carrying(),
            {"edge_features": ("shares",)},
            r"no column 'shares' \(TypedGraph\.edge_features: shares\).*'share'",
        ),
        (carrying(), {"weight": "count"}, r"no column 'count' \(TypedGraph\.weight\)"),
        (
            carrying(count=[-1.0, *range(39)]),
            {"weight": "count"},
            r"TypedGraph\.edges\.paper-author, row 1: 'count' must be a finite number and at least 0, as a weight",
        ),
        (
            carrying(count=[None, *range(39)]),
            {"weight": "count"},
            r"TypedGraph\.edges\.paper-author, row 1: 'count' must be a finite number; got nothing",
        ),
        (own_tables(), {"edge_features": "all"}, r"no other column that edges could carry \(TypedGraph\.edge_features"),
        (
            carrying(),
            {"duplicate_edges": "keep"},
            "TypedGraph.duplicate_edges must be one of 'last', 'sum'; got 'keep'",
        ),
        (carrying(), {"edge_features": ("share", "share")}, "TypedGraph.edge_features must name each column once"),
        (carrying(), {"edge_features": ("share",), "weight": "share"}, "must be another column than"),
        (carrying(), {"weight": "source"}, "must be another column than"),
    ],
)
def test_whatever_is_wrong_is_one_clear_error(tables: Tables, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        load(tables, **options)
    assert "\n" not in str(error.value)
