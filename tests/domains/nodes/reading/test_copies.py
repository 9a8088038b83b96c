"""Nodes that several banks have: each has its own copy, and sites and one place join the same ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.errors import InputError
from helpers.bank_tables import BANKS, COLUMNS, Frames, at_sites, carrying, check_same, graph, here

SHARED = {**COLUMNS, "shared_with": "also_at"}
GUESSED: dict[str, Any] = {"target_client": "auto", "shared_with": "auto"}


def shared(said: bool = True) -> Frames:
    """Accounts of which the north has two of the east's, and the west one of these, too, with edges of their own."""
    nodes, edges = graph()
    east = nodes[nodes["client"] == "east"]["node"].tolist()
    more = [(east[0], "north"), (east[1], "north"), (east[0], "west")]
    copies = pd.DataFrame(more, columns=["node", "client"]).assign(label=["good", "bad", None], size=[9.0, 8.0, 7.0])
    nodes = pd.concat([nodes, copies], ignore_index=True)
    if said:
        nodes["also_at"] = None
        where = nodes["node"].map(nodes.groupby("node")["client"].agg(set))
        nodes["also_at"] = [";".join(sorted(all_ - {own})) for all_, own in zip(where, nodes["client"], strict=True)]
        nodes["also_at"] = nodes["also_at"].replace({"": None, "north;west": " west ; north"})
    inner = [(name, nodes[nodes["client"] == bank]["node"].iloc[0], bank) for name, bank in more]
    own = pd.DataFrame(inner, columns=["source", "target", "from_bank"])
    return nodes, pd.concat([edges, own.assign(to_bank=own["from_bank"])], ignore_index=True)


def copied(shards: list[NodeShard]) -> dict[str, dict[str, list[str]]]:
    """{client: {id of a node: whose copies of it it hears from}}."""
    found: dict[str, dict[str, list[str]]] = {shard.name: {} for shard in shards}
    for shard in shards:
        for v, name in enumerate(shard.ids.tolist()):
            heard = shard.senders[shard.pointers[v] : shard.pointers[v + 1]]
            for at in (heard[heard >= shard.own] - shard.own).tolist():
                owner = shards[shard.halo_owner[at]]
                if owner.ids[shard.halo_place[at]] == name:
                    found[shard.name].setdefault(name, []).append(owner.name)
    return found


def folder(edges: pd.DataFrame, root: Path) -> Path:
    """Each bank's list of edges, as a file."""
    for bank in BANKS:
        mine = (edges["from_bank"] == bank) | (edges["to_bank"] == bank)
        edges[mine].drop(columns=["from_bank", "to_bank"]).to_csv(root / f"{bank}.csv", index=False)
    return root


@pytest.mark.parametrize("match", ["hashes", "psi"])
@pytest.mark.parametrize("more", [{}, {"edge_features": ("amount", "channel"), "weight": "times", "directed": True}])
def test_columns_say_which_copies_are_joined(match: Any, more: dict[str, Any], caplog: Any) -> None:
    nodes, edges = shared()
    edges = carrying(edges) if more else edges
    options = {**SHARED, "match": match, **more}
    found, claims = at_sites(nodes, edges, **options)
    assert "2 nodes that 'north' has, too, joined to its copies" in caplog.text
    check_same(found, here(nodes, edges, **options))
    one, two = (nodes[nodes["client"] == "east"]["node"].iloc[k] for k in (0, 1))
    assert copied(found) == {
        "east": {one: ["north", "west"], two: ["north"]},
        "north": {one: ["east", "west"], two: ["east"]},
        "west": {one: ["east", "north"]},
    }
    north = found[1]
    assert north.label[[north.ids.tolist().index(name) for name in (one, two)]].tolist() == [1, 0], "labels stay"
    if more:
        assert north.edge_rows is not None
        copies = north.edge_rows.number == -1
        assert copies.sum() == 3
        assert (north.edge_rows.values[copies] == 0).all()
        assert north.edge_rows.along[copies].all()
        assert (north.edge_rows.weight[copies] == 1).all()
    apart, before = at_sites(nodes, edges, **{**options, "shared_with": ""})
    assert copied(apart) == {bank: {} for bank in BANKS}
    assert [len(claims[k]["token"]) - len(before[k]["token"]) for k in range(3)] == [3, 3, 2]


@pytest.mark.parametrize("match", ["hashes", "psi"])
def test_ids_alone_say_the_same(match: Any, tmp_path: Path, caplog: Any) -> None:
    nodes, edges = shared(said=False)
    options = {**GUESSED, "match": match}
    lists = {bank: edges[(edges["from_bank"] == bank) | (edges["to_bank"] == bank)] for bank in BANKS}
    found, claims = at_sites(nodes, lists, **options)
    check_same(found, here(nodes, folder(edges, tmp_path), **options))
    assert copied(found) == copied(at_sites(*shared(), **SHARED)[0])
    assert "which does not say so" not in caplog.text
    counts = [np.count_nonzero(nodes["client"] == bank) for bank in BANKS]
    assert all(len(claims[k]["token"]) >= 2 * counts[k] for k in range(3)), "a token for each node and other bank"


def test_what_one_side_alone_says_is_counted_and_named(caplog: Any) -> None:
    nodes, edges = shared()
    alone = nodes.index[(nodes["client"] == "west") & nodes["also_at"].isna()][:3]
    nodes.loc[alone, "also_at"] = ["east", "eest", "west"]
    found, _ = at_sites(nodes, edges, **SHARED)
    assert copied(found) == copied(at_sites(*shared(), **SHARED)[0])
    for note in (
        "1 nodes said to be of 'east', too, which does not say so, not joined.",
        "1 names in column 'also_at' are no client's, such as 'eest'. Did you mean 'east'?",
        "1 nodes that column 'also_at' says 'west' itself shares are its own alone.",
    ):
        assert note in caplog.text
    caplog.clear()
    check_same(found, here(nodes, edges, **SHARED))
    assert "Client 'west': 1 nodes said to be of 'east', too, which does not say so, not joined." in caplog.text


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    nodes, edges = shared()
    with pytest.raises(InputError, match=r"Nodes\.shared_with = 'auto' needs Nodes\.source_client or Nodes\.target"):
        here(nodes, edges, shared_with="auto")
    with pytest.raises(InputError, match=r"nodes may be shared .*give a folder of edges, .* or name columns in data\."):
        here(nodes, edges, **GUESSED)
    with pytest.raises(InputError, match=r"no column 'also' \(Nodes\.shared_with\)\. Did you mean 'also_at'"):
        here(nodes, edges, **{**SHARED, "shared_with": "also"})
    with pytest.raises(InputError, match=r"no column 'also' \(data\.shared_with\)\. Did you mean 'also_at'"):
        at_sites(nodes, edges, **{**SHARED, "shared_with": "also"})
    with pytest.raises(InputError, match="'also_at' must be the name of a client; got 'eest'"):
        here(nodes.assign(also_at="eest"), edges, **SHARED)
