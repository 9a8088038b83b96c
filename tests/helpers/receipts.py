"""Typed graphs whose classes their edges alone tell: people and the shops that they buy at, each client's own."""

import numpy as np
import pandas as pd

from helpers.site_tables import CLIENTS

Tables = dict[str, pd.DataFrame]


def receipts(count: int = 160, shops: int = 12, seed: int = 0) -> Tables:
    """One table of all nodes and one of all edges: who is "bulk" pays much, and mostly by wire.

    Features, and who buys where, say nothing of the class. An edge has an amount, which may be empty, a channel, a time
    and a weight; those between shops and their towns have a weight alone.
    """
    g = np.random.default_rng(seed)
    client, bulk = np.arange(count) % 2, g.integers(0, 2, count)
    person = [f"p{k:03d}" for k in range(count)]
    people = pd.DataFrame(
        {
            "type": "person",
            "node": person,
            "label": np.array(["retail", "bulk"])[bulk],
            "split": np.array(["train", "train", "validation", "test"])[g.integers(0, 4, count)],
            "client": np.array(CLIENTS)[client],
            "age": g.normal(40, 10, count),
        }
    )
    buyer = np.repeat(np.arange(count), 3)
    shop = g.integers(0, shops, len(buyer))
    places = [f"s-{CLIENTS[client[who]]}-{at:02d}" for who, at in zip(buyer, shop, strict=True)]
    wire = g.random(len(buyer)) < np.where(bulk[buyer] == 1, 0.8, 0.2)
    amount = np.exp(g.normal(np.where(bulk[buyer] == 1, 5.0, 3.0), 0.7))
    bought = pd.DataFrame(
        {
            "source_type": "person",
            "source": np.array(person)[buyer],
            "target_type": "shop",
            "target": places,
            "amount": np.where(g.random(len(buyer)) < 0.05, np.nan, amount.round(2)),
            "channel": np.where(wire, "wire", "cash"),
            "day": g.integers(0, 100, len(buyer)),
            "times": g.integers(1, 4, len(buyer)),
        }
    ).drop_duplicates(["source", "target"], ignore_index=True)
    known = sorted(set(places))
    lies = pd.DataFrame({"source_type": "shop", "source": known, "target_type": "town"})
    lies["target"] = [f"t-{name.split('-')[1]}-{int(name[-2:]) % 3}" for name in known]
    lies["times"] = 1
    others = [
        pd.DataFrame({"type": kind, "node": ids, "client": [name.split("-")[1] for name in ids]})
        for kind, ids in (("shop", known), ("town", sorted(set(lies["target"]))))
    ]
    return {
        "nodes": pd.concat([people, *others], ignore_index=True),
        "edges": pd.concat([bought, lies], ignore_index=True),
    }


def by_pair(tables: Tables) -> dict[str, Tables]:
    """The same as a table for each type and each pair of types, each with the columns that it fills in."""
    nodes, edges = tables["nodes"], tables["edges"]
    pairs = {"-".join(pair): some for pair, some in edges.groupby(["source_type", "target_type"])}
    return {
        "nodes": {str(kind): some.drop(columns="type") for kind, some in nodes.groupby("type")},
        "edges": {
            name: some.drop(columns=["source_type", "target_type"]).dropna(axis=1, how="all")
            for name, some in pairs.items()
        },
    }


def of_client(tables: Tables, name: str) -> Tables:
    """What one site has."""
    nodes = tables["nodes"][tables["nodes"]["client"] == name].drop(columns="client")
    return {"nodes": nodes, "edges": tables["edges"][tables["edges"]["source"].isin(nodes["node"])]}
