"""Tables of two clients, "north" and "south", of every task: all in one, with a column that names the client."""

import numpy as np
import pandas as pd

CLIENTS = ("north", "south")


def ratings(count: int = 400) -> pd.DataFrame:
    """Ratings of users whose taste is known by their number; both clients rate some of the same items."""
    g = np.random.default_rng(1)
    client = g.integers(0, 2, count)
    user, item = g.integers(0, 20, count) + 15 * client, g.integers(0, 30, count) + 10 * client
    stars = np.clip(np.rint(3 + user % 3 - item % 4 + g.normal(0, 0.5, count)), 1, 5)
    return pd.DataFrame(
        {
            "user": [f"u{each}" for each in user],
            "item": [f"i{each}" for each in item],
            "rating": stars.astype(int),
            "category": np.array(["books", "toys", "wine"])[item % 3],
            "client": np.array(CLIENTS)[client],
        }
    )


def trust(count: int = 80) -> pd.DataFrame:
    """Links between users of both clients, some across."""
    ends = np.random.default_rng(2).integers(0, 35, (2, count))
    known = set(ratings()["user"])
    rows = [(f"u{a}", f"u{b}") for a, b in ends.T if f"u{a}" in known and f"u{b}" in known]
    return pd.DataFrame(rows, columns=["user", "trusts"])


def nodes(count: int = 120, across: bool = False) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Nodes whose class is in their features, with a split, and edges; `across` also between clients."""
    g = np.random.default_rng(3)
    client, label = np.arange(count) % 2, g.integers(0, 3, count)
    features = {f"f{k}": g.normal(0, 1, count) + (label == k) for k in range(4)}
    table = pd.DataFrame(
        {
            "node": [f"n{each:03d}" for each in range(count)],
            "label": np.array(["cat", "dog", "owl"])[label],
            "split": np.array(["train", "train", "train", "validation", "test"])[g.integers(0, 5, count)],
            "client": np.array(CLIENTS)[client],
            **features,
        }
    )
    ends = g.integers(0, count, (2, 4 * count))
    ends = ends[:, (label[ends[0]] == label[ends[1]]) & (ends[0] != ends[1])]
    ends = ends if across else ends[:, client[ends[0]] == client[ends[1]]]
    edges = pd.DataFrame({"source": table["node"].to_numpy()[ends[0]], "target": table["node"].to_numpy()[ends[1]]})
    return table, edges


def carrying(edges: pd.DataFrame) -> pd.DataFrame:
    """Edges with columns of numbers, texts, times and weights, some empty; a third of them is there twice."""
    again = pd.concat([edges, edges.sample(frac=0.3, random_state=1)], ignore_index=True)
    g, count = np.random.default_rng(6), len(again)
    return again.assign(
        amount=np.where(g.random(count) < 0.1, np.nan, g.exponential(100, count).round(2)),
        channel=np.array(["wire", "card", None], object)[g.integers(0, 3, count)],
        when=pd.Timestamp("2021-03-01") + pd.to_timedelta(g.integers(0, 10**6, count), "s"),
        times=g.integers(0, 4, count),
    )


def typed(count: int = 120) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Papers whose topic is in their features, and their authors, who write on one topic; each client has its own."""
    papers, _ = nodes(count)
    topic, client = papers["label"].to_numpy(), papers["client"].to_numpy()
    author = [f"a-{each}-{where}-{k % 4}" for k, (each, where) in enumerate(zip(topic, client, strict=True))]
    known = pd.DataFrame({"node": author, "client": client}).drop_duplicates(ignore_index=True)
    table = pd.concat([papers.assign(type="paper"), known.assign(type="author")], ignore_index=True)
    ends = {"source_type": "paper", "source": papers["node"], "target_type": "author", "target": author}
    return table, pd.DataFrame(ends)


def graphs(count: int = 40) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Rings and stars, told apart by their edges; the south has a kind of node that the north has not."""
    g = np.random.default_rng(4)
    made, rows, links = [], [], []
    for graph in range(count):
        size, star, south = int(g.integers(4, 8)), graph % 2, graph // 2 % 2
        made.append((f"g{graph}", ("ring", "star")[star], CLIENTS[south]))
        rows += [(f"g{graph}", node, "CNO"[node % (2 + south)]) for node in range(size)]
        ends = [(0, node) if star else (node, (node + 1) % size) for node in range(star, size)]
        links += [(f"g{graph}", *pair) for pair in ends]
    return (
        pd.DataFrame(made, columns=["graph", "label", "client"]),
        pd.DataFrame(rows, columns=["graph", "node", "kind"]),
        pd.DataFrame(links, columns=["graph", "source", "target"]),
    )


def items(count: int = 40) -> pd.DataFrame:
    """Items, not in the order of their ids."""
    rows = np.arange(count)
    order = (rows * 7) % count
    return pd.DataFrame(
        {"item": [f"i{k:02d}" for k in order], "title": [f"thing {k % 5}" for k in order], "price": 1.0 + order % 9}
    )


def interactions(count: int = 500, split: bool = True) -> pd.DataFrame:
    """Users take items whose number is like theirs, modulo four."""
    g = np.random.default_rng(5)
    user = g.integers(0, 30, count)
    item = (4 * g.integers(0, 10, count) + user % 4) % 40
    rows = pd.DataFrame({"user": user, "item": item}).drop_duplicates()
    part = np.where(rows.groupby("user").cumcount() < 3, 0, g.choice(3, len(rows), p=[0.6, 0.2, 0.2]))
    table = pd.DataFrame(
        {
            "user": [f"u{each:02d}" for each in rows["user"]],
            "item": [f"i{each:02d}" for each in rows["item"]],
            "client": np.array(CLIENTS)[rows["user"] % 2],
        }
    )
    return table.assign(split=np.array(["train", "validation", "test"])[part]) if split else table
