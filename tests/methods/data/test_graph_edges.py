"""Own graphs whose edges carry something: what is read of tables and PyG objects, and what is wrong with them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.errors import InputError
from fedgraft.methods.data.graphs import Graphs
from helpers.bonds import SIZE, objects, rings


def load(count: int = 24, change: Any = lambda tables: tables, **options: Any) -> list[GraphShard]:
    return list(Graphs(**change(rings(count)), **{"min_examples": 1, **options}).load(1))


def of_graph(shard: GraphShard, name: str) -> dict[tuple[int, int], list[float]]:
    """{(receiver, sender): what the edge carries} of a graph whose nodes are in order."""
    place = shard.ids.tolist().index(name)
    first, edges = int(shard.node_starts[place]), slice(*shard.edge_starts[place : place + 2])
    assert shard.edge_rows is not None
    ends = (shard.edges[:, edges] - first).T.tolist()
    return {tuple(pair): values for pair, values in zip(ends, shard.edge_rows.values[edges].tolist(), strict=True)}


def test_columns_are_read_alike_at_all_clients() -> None:
    north, south = load(scaling="none", edge_features=("bond", "length"))
    assert north.edge_names == south.edge_names == ("bond=double", "bond=single", "length")
    found = of_graph(north, "r001")
    assert {*found} == {(a, b) for a in range(SIZE) for b in range(SIZE) if (a - b) % SIZE in (1, SIZE - 1)}
    assert found[1, 2][:2] == found[2, 1][:2] == [1, 0]
    assert found[0, 1][:2] == [0, 1]
    assert found[1, 2][2] == pytest.approx(1.3, abs=0.05)
    plain = load()[0]
    assert np.array_equal(plain.edges, north.edges)
    assert plain.edge_rows is None


def test_numbers_are_scaled_over_all_clients_and_empty_cells_have_a_column() -> None:
    def lacking(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        edges = tables["edges"]
        edges.loc[edges["graph"] == "r001", "length"] = np.nan
        return tables

    shards = load(change=lacking, edge_features=("length",))
    assert shards[0].edge_names == ("length", "length is missing")
    assert of_graph(shards[0], "r001")[0, 1] == [0, 1]
    values = np.concatenate([shard.edge_rows.values[:, 0] for shard in shards if shard.edge_rows is not None])
    assert abs(values.mean()) < 0.2
    assert 0.8 < values.std() < 1.2


def test_weights_directions_and_repeats() -> None:
    (north, _) = load(weight="length")
    assert north.edge_rows is not None
    assert north.edge_rows.weight is not None
    assert not north.edge_rows.width
    assert north.edge_rows.along.all()
    assert north.weighted_degree[0] == pytest.approx(3.0, abs=0.1), "two single bonds"
    assert load(edge_features=("bond",), time="length")[0].edge_names == ("bond=double", "bond=single", "length")
    directed = load(edge_features="all", directed=True)[0]
    assert directed.edge_rows is not None
    place = directed.ids.tolist().index("r000")  # each bond both ways: two edges, at both ends
    counts = np.diff(directed.edge_starts)
    assert counts[place] == 4 * SIZE
    assert counts[directed.ids.tolist().index("r001")] == 2 * SIZE
    assert directed.edge_rows.along.mean() == 0.5

    def twice(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        return {**tables, "edges": pd.concat([tables["edges"]] * 2, ignore_index=True)}

    assert np.diff(load(change=twice, edge_features="all")[0].edge_starts)[0] == 4 * SIZE
    assert np.diff(load(change=twice, edge_features="all", duplicate_edges="last")[0].edge_starts)[0] == 2 * SIZE
    summed = load(change=twice, duplicate_edges="sum")[0]
    assert summed.edge_rows is not None
    assert summed.edge_rows.weight is not None
    assert {*summed.edge_rows.weight.tolist()} == {2.0}


def test_what_edges_carry_stays_with_its_graph() -> None:
    """Graphs are put in the order of their ids, and those of unknown label left out."""

    def shuffled(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        tables["graphs"].loc[tables["graphs"]["graph"] == "r004", "label"] = "none"
        return {name: table.sample(frac=1, random_state=1) for name, table in tables.items()}

    first, again = load(edge_features="all")[0], load(change=shuffled, edge_features="all", na_labels="none")[0]
    assert "r004" not in again.ids
    for name in ("r000", "r001", "r005", "r012"):
        assert of_graph(again, name).keys() == of_graph(first, name).keys()
        for ends, values in of_graph(first, name).items():
            np.testing.assert_allclose(of_graph(again, name)[ends], values, atol=0.05)


def test_objects_have_attributes_of_edges() -> None:
    north = Graphs(objects(12), edge_features="all", scaling="none", min_examples=1).load(1)[0]
    assert north.edge_names == ("0",)
    assert of_graph(north, "1")[1, 2] == of_graph(north, "1")[2, 1] == [1]
    weighted = objects(12)
    for each in weighted:
        each.edge_weight = 1 + each.edge_attr[:, 0]
    shard = Graphs(weighted, weight="edge_weight", min_examples=1).load(1)[0]
    assert shard.edge_rows is not None
    assert shard.edge_rows.weight is not None
    assert {*shard.edge_rows.weight.tolist()} == {1.0, 2.0}


def test_each_way_of_an_objects_edge_has_its_own_row() -> None:
    made = objects(12)
    for each in made:
        each.edge_attr = torch.arange(float(each.num_edges))[:, None]
    north = Graphs(made, edge_features=("0",), scaling="none", min_examples=1).load(1)[0]
    found = of_graph(north, "0")
    assert (found[1, 0], found[0, 1]) == ([0], [SIZE])


def changed(column: str, row: int, value: Any) -> Any:
    def change(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        tables["edges"] = tables["edges"].astype({column: object})
        tables["edges"].loc[row, column] = value
        return tables

    return change


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({"edge_features": ("bnd",)}, None, r"no column 'bnd' \(Graphs\.edge_features: bnd\)\. Did you mean 'bond'\?"),
        (
            {"edge_features": ("length",)},
            changed("length", 2, "long"),
            r"Graphs\.edges, row 3: 'length' must be a finite number, as a feature; got 'long'",
        ),
        (
            {"weight": "length"},
            changed("length", 1, -1),
            r"row 2: 'length' must be .* at least 0, as a weight; got '-1'",
        ),
        ({"weight": "length"}, changed("length", 1, None), r"row 2: 'length' must be a finite number; got nothing"),
        ({"weight": "length", "edge_features": ("length",)}, None, r"must be another column than"),
        ({"duplicate_edges": "first"}, None, r"Graphs\.duplicate_edges must be one of .*; got 'first'"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, Any], change: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        load(change=change or (lambda tables: tables), **options)
    assert "\n" not in str(error.value)


def without(made: list[Data], place: int, **attributes: Any) -> list[Data]:
    for name, value in attributes.items():
        setattr(made[place], name, value)
    return made


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        (
            without(objects(6), 2, edge_attr=torch.ones(3, 1)),
            {"edge_features": "all"},
            r"Graphs\.graphs\[2\]\.edge_attr must be numbers of shape \[12, n\]; got float32 of \[3, 1\]",
        ),
        (
            without(objects(6), 1, edge_attr=torch.ones(12, 2)),
            {"edge_features": "all"},
            r"Graphs\.graphs\[1\]: all graphs need edge_attr of one width, or none",
        ),
        (objects(6), {"weight": "edge_weight"}, r"Graphs\.graphs\[0\] has no 'edge_weight' \(Graphs\.weight\)"),
    ],
)
def test_what_is_wrong_with_objects_is_named(made: list[Data], options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Graphs(made, **options).load(1)
