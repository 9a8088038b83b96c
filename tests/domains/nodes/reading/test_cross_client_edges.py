"""Edges between clients: what two sites claim alike is the cut of the whole, and whatever else is there is counted."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedgraft.contracts.data import Purpose
from fedgraft.errors import InputError
from fedgraft.methods.data.nodes import Nodes
from helpers.bank_tables import (
    BANKS,
    COLUMNS,
    FEATURES,
    TASK,
    at_sites,
    carrying,
    check_same,
    graph,
    here,
)
from helpers.tiers import long_but_for


@pytest.mark.parametrize(("alike", "options"), [(False, COLUMNS), (True, COLUMNS), (False, {"target_client": "auto"})])
def test_sites_have_the_halos_of_the_whole_that_was_cut(alike: bool, options: dict[str, str]) -> None:
    nodes, edges = graph(alike)
    nodes["split"] = (["train"] * 3 + ["validation", "test"]) * 8
    found, claims = at_sites(nodes, edges, **options)
    check_same(found, here(nodes, edges, **options))
    assert all(shard.halo > 2 for shard in found)
    if not alike:  # as a version that knows no boundaries cuts it
        check_same(found, here(nodes, edges))
    assert all(len(each["token"]) == len({bytes(token) for token in each["token"]}) for each in claims.values())


CARRIED: list[dict[str, Any]] = [
    {"edge_features": ("amount", "channel"), "weight": "times", "time": "when", "directed": True},
    {"edge_features": "amount", "time": "when", "duplicate_edges": "last"},
    {"edge_features": "amount", "directed": True, "duplicate_edges": "sum"},
    {"weight": "times", "duplicate_edges": "sum"},
    {"directed": True},
    {"duplicate_edges": "keep"},
]


@pytest.mark.parametrize("boundaries", [COLUMNS, {"target_client": "auto"}])
@pytest.mark.parametrize("carried", CARRIED)
def test_edges_between_clients_carry_at_both_ends_what_the_whole_has(
    boundaries: dict[str, str], carried: dict[str, Any]
) -> None:
    nodes, edges = graph(alike=boundaries is COLUMNS)
    edges, form = carrying(edges), {**carried, "scaling": "none"}
    nodes["split"] = (["train"] * 3 + ["validation", "test"]) * 8
    found, _ = at_sites(nodes, edges, **boundaries, **form)
    check_same(found, here(nodes, edges, **boundaries, **form))
    assert sum(len(shard.senders) for shard in found) % 2 == 0
    assert all(shard.edge_rows is not None for shard in found)
    if boundaries is not COLUMNS:  # as where nothing says whose ends are
        check_same(found, here(nodes, edges, **form))
    if carried.get("duplicate_edges", "keep") == "keep" and "weight" not in carried:
        loops = (edges["source"] == edges["target"]) & (edges["from_bank"] == edges["to_bank"])
        assert sum(len(shard.senders) for shard in found) == 2 * int((~loops).sum())


def test_an_edge_that_one_side_lists_more_often_is_joined_as_often_as_both_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = pd.DataFrame({"node": ["e", "n", "w"], "client": BANKS, "label": "bad", "size": 1.0})
    nodes = pd.concat([nodes, nodes.assign(node=["e1", "n1", "w1"])])
    nodes["split"] = ["train", "train", "train", "validation", "test", "test"]
    rows = [("e", "n", "east", "north", amount) for amount in (1.0, 2.0, 3.0)]
    edges = pd.DataFrame(rows, columns=["source", "target", "from_bank", "to_bank", "amount"])
    back = edges.iloc[:1].rename(
        columns={"source": "target", "target": "source", "from_bank": "to_bank", "to_bank": "from_bank"}
    )
    parts = {"east": edges, "north": pd.concat([edges.iloc[:2].assign(amount=7.0), back]), "west": edges.iloc[:0]}
    form = {**COLUMNS, "edge_features": ("amount",), "directed": True, "scaling": "none"}
    found, claims = at_sites(nodes, parts, **form)
    assert [len(each["token"]) for each in claims.values()] == [3, 3, 0]
    east, north, _ = found
    assert east.edge_rows is not None
    assert north.edge_rows is not None
    assert (east.senders.tolist(), north.senders.tolist()) == ([2, 2], [2, 2])
    assert east.edge_rows.values[:, 0].tolist() == [1.0, 2.0]
    assert (east.edge_rows.along.tolist(), north.edge_rows.along.tolist()) == ([False] * 2, [True] * 2)
    assert north.edge_rows.values[:, 0].tolist() == [7.0, 7.0], "each has what its own table says"
    assert "1 edges to nodes of 'north', which does not list them, left out" in caplog.text
    assert "1 edges to nodes of 'east', which does not list them, left out" in caplog.text
    (tmp_path / "edges").mkdir()
    for bank, table in parts.items():
        table.to_csv(tmp_path / "edges" / f"{bank}.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    check_same(found, here(tmp_path / "nodes.csv", tmp_path / "edges", **form))


def test_what_it_takes_is_what_sites_would_send() -> None:
    nodes, edges = graph()
    data = Nodes(nodes, edges, features=FEATURES, **COLUMNS)
    _, claims = at_sites(nodes, edges, **COLUMNS)
    for client, (down, up) in data.matching.items():
        count = len(claims[client]["token"])
        assert 24 * count < up < 25 * count + 300
        assert 8 * count < down < 8 * count + 200
    assert not Nodes(nodes, edges, features=FEATURES).matches


@pytest.mark.parametrize(("options", "sides"), [(COLUMNS, 1), ({"source_client": "auto"}, 2)])
def test_private_set_intersection_takes_points_and_hashes_by_client(options: dict[str, str], sides: int) -> None:
    nodes, edges = graph()
    _, claims = at_sites(nodes, edges, **options)
    counts = {client: len(each["token"]) for client, each in claims.items()}
    theirs = {
        client: sum(np.isin(each["other"], (-1, client)).sum() for k, each in claims.items() if k != client)
        for client in claims
    }
    for client, (down, up) in Nodes(nodes, edges, features=FEATURES, match="psi", **options).matching.items():
        least_up, least_down = 40 * counts[client] + 16 * theirs[client], 8 * counts[client] + 32 * theirs[client]
        assert least_up < up < least_up + counts[client] + 500
        assert least_down < down < least_down + 400
    assert sum(theirs.values()) == sides * sum(counts.values())


def test_wrong_boundaries_are_counted_by_client_and_the_rest_goes_on(
    tmp_path, caplog: pytest.LogCaptureFixture
) -> None:
    nodes, edges = graph()
    parts = {bank: edges[(edges["from_bank"] == bank) | (edges["to_bank"] == bank)] for bank in BANKS}
    across = parts["east"][parts["east"]["from_bank"] != parts["east"]["to_bank"]].drop_duplicates()
    wrong = [
        ("e0", "n999", "east", "north"),  # a claim that is false
        ("e0", "e0", "east", "east"),
        ("n0", "w0", "north", "west"),  # neither end is its own
        ("e999", "n0", "east", "north"),  # an end that it has not
        ("e0", "x1", "east", "sooth"),  # nobody's
        *across.head(1).itertuples(index=False),  # once more
    ]
    parts["north"] = parts["north"].drop(index=across[across["to_bank"] == "north"].index[:1])  # listed at one side
    parts["east"] = pd.concat([parts["east"], pd.DataFrame(wrong, columns=edges.columns)])
    for name, table in [("nodes", nodes), *parts.items()]:
        folder = tmp_path / ("nodes" if name == "nodes" else "edges")
        folder.mkdir(exist_ok=True)
        table.to_csv(folder / f"{name}.csv", index=False)
    whole = here(tmp_path / "nodes" / "nodes.csv", tmp_path / "edges", **COLUMNS)
    said = caplog.text
    caplog.clear()
    found, _ = at_sites(nodes, parts, **COLUMNS)
    check_same(found, whole)
    for text in (
        "2 edges to nodes of 'north', which does not list them, left out",
        "1 edges between nodes of others left out",
        "1 edges to who is no client left out",
        "3 repeated edges to nodes of others left out",
    ):
        assert text in caplog.text, text
        assert text in said, text
        assert f"Client 'east': {text}" in said
    assert "1 edges to nodes that are not in the nodes of 'east' left out" in said
    assert "1 rows of column 'to_bank' name no client, such as 'sooth'. Did you mean 'north'?" in caplog.text


@pytest.mark.parametrize("options", [COLUMNS, {"source_client": "auto"}])
@pytest.mark.parametrize(
    ("match", "carried"), [("psi", {}), ("psi", CARRIED[0]), ("hashes", {}), *(("hashes", each) for each in CARRIED)]
)
@pytest.mark.parametrize("seed", long_but_for([0], range(4)))
def test_whatever_sites_list_one_place_joins_what_they_would(
    tmp_path, seed: int, carried: dict[str, Any], options: dict[str, str], match: str
) -> None:
    nodes, edges = graph(alike=seed % 2 == 1)
    edges, options = (carrying(edges) if carried else edges), {"scaling": "none", **options, **carried}
    g = np.random.default_rng(seed)
    (tmp_path / "edges").mkdir()
    parts = {}
    for bank in BANKS:
        own = edges[(edges["from_bank"] == bank) | (edges["to_bank"] == bank)]
        false = edges.sample(9, random_state=seed).assign(target=g.permutation(nodes["node"])[:9])
        parts[bank] = pd.concat([own.sample(frac=0.8, random_state=seed), false])
        parts[bank].to_csv(tmp_path / "edges" / f"{bank}.csv", index=False)
    nodes["split"] = (["train"] * 3 + ["validation", "test"]) * 8
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    found, _ = at_sites(nodes, parts, match=match, **options)
    check_same(found, here(tmp_path / "nodes.csv", tmp_path / "edges", match=match, **options))
    for client, shard in enumerate(found):  # what one side lists alone is no edge
        for owner, place in zip(shard.halo_owner, shard.halo_place, strict=True):
            other = found[owner]
            senders = other.senders[other.pointers[place] : other.pointers[place + 1]]
            assert client in other.halo_owner[senders[senders >= other.own] - other.own]


def test_an_id_that_two_clients_have_is_joined_with_neither_unless_a_column_says_whose(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nodes = pd.DataFrame({"node": list("abcd") * 2 + ["z"], "client": ["east"] * 4 + ["north"] * 4 + ["west"]})
    nodes = nodes.assign(label="bad", size=1.0, split=["train", "train", "validation", "test"] * 2 + ["train"])
    edges = pd.DataFrame({"source": ["z"], "target": ["a"], "from_bank": ["west"], "to_bank": ["north"]})
    assert [shard.halo for shard in here(nodes, edges, source_client="auto")] == [0, 0, 0]
    assert "an end is the id of nodes of several clients left out" in caplog.text
    assert [shard.halo for shard in here(nodes, edges, **COLUMNS)] == [0, 1, 1]
    with pytest.raises(InputError, match="node 'a' of column 'node' is listed twice"):
        here(nodes, edges)


def test_an_end_of_which_nothing_is_said_is_the_clients_whose_table_it_is(caplog: pytest.LogCaptureFixture) -> None:
    nodes, edges = graph()
    short = edges.assign(from_bank=edges["from_bank"].where(edges["from_bank"] != "north"))
    check_same(here(nodes, short, **COLUMNS), here(nodes, edges, **COLUMNS))
    parts = {bank: edges[(edges["from_bank"] == bank) | (edges["to_bank"] == bank)] for bank in BANKS}
    blank = {bank: table.replace({"from_bank": {bank: None}, "to_bank": {bank: None}}) for bank, table in parts.items()}
    check_same(at_sites(nodes, blank, **COLUMNS)[0], at_sites(nodes, parts, **COLUMNS)[0])


@pytest.mark.parametrize(
    ("options", "change", "error"),
    [
        ({"source_client": "auto", "target_client": "to_bank"}, {}, "Nodes.target_client must be left out, or 'auto'"),
        ({"target_client": "source"}, {}, "target_client must be another column than Nodes.source"),
        (
            {"target_client": "target_client"},
            {},
            "no column 'target_client' .data.target_client.. Did you mean 'target'",
        ),
        ({"target_client": "to"}, {}, "no column 'to' .data.target_client"),
        ({**COLUMNS, "match": "dsi"}, {}, "Nodes.match must be one of 'hashes', 'psi'; got 'dsi'. Did you mean 'psi'"),
        (COLUMNS, {"to_bank": "sooth"}, r"row 1: 'to_bank' must be the name of a client; got 'sooth'"),
    ],
)
def test_what_is_wrong_is_one_line(options: dict[str, str], change: dict[str, str], error: str) -> None:
    nodes, edges = graph()
    with pytest.raises(InputError, match=error):
        here(nodes, edges.assign(**change), **options)
    with pytest.raises(InputError, match="no edge says whose node 'w2' is"):
        here(nodes.drop(columns="client"), edges, **COLUMNS)


def test_tables_alone_can_say_it() -> None:
    with pytest.raises(InputError, match=r"match = 'psi' needs Nodes.source_client or Nodes.target_client"):
        Nodes("n.csv", "e.csv", match="psi")
    with pytest.raises(InputError, match="must be left out where edges are in no table"):
        Nodes("graph.pt", target_client="auto")
    nodes, edges = graph()
    data = Nodes("n.csv", "e.csv", features=FEATURES, transforms={}, **COLUMNS)
    with pytest.raises(InputError, match="known at a site of a federation alone"):
        data.client_shard(TASK, {"nodes": nodes, "edges": edges}, Purpose("east", trains=True))
