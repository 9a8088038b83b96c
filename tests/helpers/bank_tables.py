"""Accounts of three banks and their transfers, as sites read their own tables and one place those of all."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from fedgraft.contracts.data import PeerClients, Purpose
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.methods.data.nodes import Nodes
from fedgraft.wire.masking import Masks, matched_masked, order_for
from fedgraft.wire.tokens import matched

SECRET = bytes(range(32))
BANKS = ("east", "north", "west")
TASK = SimpleNamespace(class_names=("bad", "good"), sparse=False)
COLUMNS = {"source_client": "from_bank", "target_client": "to_bank"}
FEATURES = ("size",)
TRANSFORMS = {"edges: amount": {"missing": True}, "edges: channel": {"values": ["card", "wire"], "missing": True}}
"""What all agreed on of edges' columns; that of nodes stays as it is."""
Frames = tuple[pd.DataFrame, pd.DataFrame]


def graph(alike: bool = False) -> Frames:
    """Accounts of three banks, in no order, and their transfers; banks have ids `alike`, from 0 on, or their own."""
    g = np.random.default_rng(5)
    bank = g.integers(0, 3, 40)
    number = np.array([np.count_nonzero(bank[:k] == bank[k]) for k in range(40)])
    ids = [str(n) if alike else f"{BANKS[b][0]}{n}" for b, n in zip(bank, number, strict=True)]
    label = np.array(["bad", "good"])[g.integers(0, 2, 40)]
    nodes = pd.DataFrame({"node": ids, "label": label, "client": np.array(BANKS)[bank], "size": g.normal(size=40)})
    source, target = g.integers(0, 40, (2, 90))
    sides = {"from_bank": nodes["client"].to_numpy()[source], "to_bank": nodes["client"].to_numpy()[target]}
    edges = pd.DataFrame({"source": np.array(ids)[source], "target": np.array(ids)[target], **sides})
    return nodes, edges


def at_sites(
    nodes: pd.DataFrame, edges: pd.DataFrame | dict[str, pd.DataFrame], **options: Any
) -> tuple[list[NodeShard], dict[int, Any]]:
    """What sites make of their own tables, by way of a server; and what they claim."""
    data = Nodes("nowhere.csv", "nowhere.csv", features=FEATURES, transforms=TRANSFORMS, **options)
    tables = [
        {
            "nodes": nodes[nodes["client"] == bank],
            "edges": edges[bank]
            if isinstance(edges, dict)
            else edges[(edges["from_bank"] == bank) | (edges["to_bank"] == bank)],
        }
        for bank in BANKS
    ]
    purposes = [Purpose(bank, k, 3, trains=True, neighbours=PeerClients(BANKS)) for k, bank in enumerate(BANKS)]
    claims = {k: data.claims_at(TASK, tables[k], purposes[k], SECRET) for k in range(3)}
    addresses = by_masks(claims) if data.is_private else matched(claims)
    there = [PeerClients(BANKS, addresses[k]) for k in range(3)]
    return [
        data.client_shard(TASK, tables[k], Purpose(bank, k, 3, trains=True, neighbours=there[k]))
        for k, bank in enumerate(BANKS)
    ], claims


def by_masks(claims: dict[int, Any]) -> dict[int, Any]:
    """What a server joins that sees masked points alone."""
    masks = {k: Masks(bytes([k]) * 32, "run") for k in claims}
    masked = {k: masks[k].claims(each) for k, each in claims.items()}
    answers = {k: masks[k].answer(order_for(k, masked, len(claims)), k, len(claims)) for k in claims}
    return matched_masked(masked, answers)


def here(nodes: pd.DataFrame, edges: Any, **options: Any) -> list[NodeShard]:
    """What one place makes of all tables."""
    return list(Nodes(nodes, edges, features=FEATURES, transforms=TRANSFORMS, **options).load(3))


def carrying(edges: pd.DataFrame, seed: int = 7) -> pd.DataFrame:
    """Edges with columns, of which some are there twice or three times."""
    g, count = np.random.default_rng(seed), len(edges)
    edges = edges.assign(
        amount=np.where(g.random(count) < 0.1, np.nan, g.exponential(100, count).round(2)),
        channel=np.array(["wire", "card", None], object)[g.integers(0, 3, count)],
        when=pd.Timestamp("2021-03-01") + pd.to_timedelta(g.integers(0, 10**6, count), "s"),
        times=g.integers(0, 4, count),
    )
    again = pd.concat([edges, *(edges.sample(frac=0.3, random_state=k).assign(amount=1.0 * k) for k in range(2))])
    back = edges.sample(frac=0.2, random_state=3)
    sides = {"source": "target", "target": "source", "from_bank": "to_bank", "to_bank": "from_bank"}
    return pd.concat([again, back.rename(columns=sides)], ignore_index=True)


def check_same(one: list[NodeShard], two: list[NodeShard]) -> None:
    """Every bit of both is the same, but for the numbers of edges' rows, which are those of each one's own table."""
    for mine, theirs in zip(one, two, strict=True):
        for name in ("name", "ids", "features", "label", "split", "pointers", "senders", "halo_owner", "halo_place"):
            left, right = getattr(mine, name), getattr(theirs, name)
            assert np.array_equal(left, right), name
            assert not isinstance(left, np.ndarray) or left.dtype == right.dtype, name
        assert (mine.edge_rows is None) == (theirs.edge_rows is None)
        for name in ("values", "along", "weight") if mine.edge_rows else ():
            left, right = getattr(mine.edge_rows, name), getattr(theirs.edge_rows, name)
            assert np.array_equal(left, right) if isinstance(left, np.ndarray) else left is right, name
