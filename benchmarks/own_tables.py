"""Write small tables of every domain, as a user may have them: ids as text, missing labels, two clients."""

from pathlib import Path

import numpy as np
import pandas as pd

CLIENTS = np.array(["north", "south"])


def write_tables(folder: Path) -> None:
    """Write the tables of all domains into a folder; each call writes the same."""
    g = np.random.default_rng(5)
    _nodes(folder, g)
    _graphs(folder, g)
    _ratings(folder, g)
    _interactions(folder, g)


def _nodes(folder: Path, g: np.random.Generator, count: int = 150) -> None:
    """Nodes with classes, with numbers and of two types, and their edges."""
    label, client = g.integers(0, 3, count), g.integers(0, 2, count)
    ids = np.array([f"n{number:03d}" for number in g.permutation(count)])
    features = {f"f{column}": np.round(g.normal(0, 1, count) + (label == column), 3) for column in range(4)}
    names = np.where(g.random(count) < 0.1, "", np.array(["cat", "dog", "owl"])[label])
    nodes = pd.DataFrame({"node": ids, "label": names, "client": CLIENTS[client], **features})
    ends = g.integers(0, count, (2, 5 * count))
    ends = ends[:, (label[ends[0]] == label[ends[1]]) & (ends[0] != ends[1])]
    edges = pd.DataFrame({"source": ids[ends[0]], "target": ids[ends[1]]})
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
    numbers = np.round(label * 10.0 + g.normal(0, 1, count), 2)
    nodes.assign(label=np.where(names == "", np.nan, numbers)).to_parquet(folder / "numbers.parquet", index=False)
    author = np.array([f"a{topic}-{who}" for topic, who in zip(label, g.integers(0, 9, count), strict=True)])
    authors = pd.DataFrame({"node": np.unique(author), "type": "author"})
    pd.concat([nodes.assign(type="paper"), authors]).to_csv(folder / "typed_nodes.csv", index=False)
    pd.DataFrame({"source_type": "paper", "source": ids, "target_type": "author", "target": author}).to_csv(
        folder / "typed_edges.csv", index=False
    )


def _graphs(folder: Path, g: np.random.Generator, count: int = 60) -> None:
    """Rings and stars with kinds of nodes and an attribute; their size is the number to tell."""
    graphs, nodes, edges = [], [], []
    for number in range(count):
        size, star = int(g.integers(4, 9)), number % 2
        graphs.append((f"g{number}", ("ring", "star")[star], float(size), CLIENTS[number // 2 % 2]))
        nodes += [(f"g{number}", node, "CNO"[node % 3], round(float(g.normal(star)), 3)) for node in range(size)]
        ends = [(0, node) if star else (node, (node + 1) % size) for node in range(star, size)]
        edges += [(f"g{number}", *pair) for pair in ends]
    table = pd.DataFrame(graphs, columns=["graph", "label", "size", "client"])
    table.drop(columns="size").to_csv(folder / "graphs.csv", index=False)
    table.drop(columns="label").to_csv(folder / "sizes.csv", index=False)
    pd.DataFrame(nodes, columns=["graph", "node", "kind", "charge"]).to_csv(folder / "graph_nodes.csv", index=False)
    pd.DataFrame(edges, columns=["graph", "source", "target"]).to_csv(folder / "graph_edges.csv", index=False)


def _ratings(folder: Path, g: np.random.Generator, count: int = 600) -> None:
    """Ratings with categories and days, and trust links."""
    user, item = g.integers(0, 40, count), g.integers(0, 50, count)
    stars = np.clip(np.rint(3 + user % 3 - item % 4 + g.normal(0, 0.5, count)), 1, 5).astype(int)
    pairs = pd.DataFrame({"user": user, "item": item, "rating": stars, "category": item % 5}).drop_duplicates(
        ["user", "item"]
    )
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(g.permutation(len(pairs)), unit="D")
    pairs.assign(time=days.strftime("%Y-%m-%d")).to_csv(folder / "ratings.csv", index=False)
    ends = g.integers(0, 40, (2, 60))
    known = np.isin(ends, pairs["user"]).all(0) & (ends[0] != ends[1])
    pd.DataFrame({"user": ends[0][known], "trusts": ends[1][known]}).to_csv(folder / "trust.csv", index=False)


def _interactions(folder: Path, g: np.random.Generator, count: int = 900) -> None:
    """Clicks of users on items, and items with a title and a price."""
    user = g.integers(0, 50, count)
    item = (user % 4 * 10 + g.integers(0, 16, count)) % 40
    clicks = pd.DataFrame({"user": [f"u{each}" for each in user], "item": [f"i{each}" for each in item]})
    clicks.drop_duplicates().to_csv(folder / "clicks.csv", index=False)
    titles = [f"{('red', 'blue', 'green', 'grey')[each // 10]} thing {each}" for each in range(40)]
    items = pd.DataFrame({"item": [f"i{each}" for each in range(40)], "title": titles, "price": np.arange(40) * 1.5})
    items.to_csv(folder / "items.csv", index=False)
