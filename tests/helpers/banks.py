"""Tables of three banks: accounts, and transfers within and between them, some of them fraud."""

from pathlib import Path

import numpy as np
import pandas as pd

BANKS = ("east", "north", "west")
OPTIONS = {
    "data.name": "edges",
    "data.source": "from",
    "data.target": "to",
    "data.time": "when",
    "data.label": "fraud",
    "data.source_client": "from_bank",
    "data.target_client": "to_bank",
}


def tables(accounts: int = 60, count: int = 900) -> dict[str, pd.DataFrame]:
    """Return {"nodes": accounts, "edges": transfers}, of which some repeat and a few say no label."""
    g = np.random.default_rng(1)
    bank, mules = g.integers(0, 3, accounts), np.arange(5)
    source, target = g.integers(5, accounts, count), g.integers(0, accounts, count)
    target = np.where(g.random(count) < 0.2, g.choice(mules, count), target)
    kept = source != target
    source, target = source[kept], target[kept]
    count = len(source)
    when = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.sort(g.integers(0, 10**6, count)), "s")
    fraud = np.isin(target, mules) & (g.random(count) < 0.8)
    edges = pd.DataFrame(
        {
            "from": [f"a{each}" for each in source],
            "to": [f"a{each}" for each in target],
            "when": when,
            "fraud": np.where(g.random(count) < 0.02, None, np.where(fraud, "yes", "no")),
            "amount": np.where(g.random(count) < 0.05, np.nan, g.exponential(100, count).round(2)),
            "channel": np.array(["wire", "card"])[g.integers(0, 2, count)],
            "from_bank": np.array(BANKS)[bank[source]],
            "to_bank": np.array(BANKS)[bank[target]],
        }
    )
    nodes = pd.DataFrame({"node": [f"a{each}" for each in range(accounts)], "client": np.array(BANKS)[bank]})
    return {"nodes": nodes.assign(age=g.integers(18, 90, accounts)), "edges": edges}


def of_bank(every: dict[str, pd.DataFrame], name: str) -> dict[str, pd.DataFrame]:
    """Return what one bank has: its accounts, and transfers with an end there."""
    nodes, edges = every["nodes"], every["edges"]
    mine = (edges["from_bank"] == name) | (edges["to_bank"] == name)
    return {"nodes": nodes[nodes["client"] == name].drop(columns="client"), "edges": edges[mine]}


def written(every: dict[str, pd.DataFrame], folder: Path) -> dict[str, Path]:
    """Write tables; return {name: file}."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.csv" for name in every}
    for name, table in every.items():
        table.to_csv(paths[name], index=False)
    return paths
