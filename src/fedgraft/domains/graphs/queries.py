"""Questions about graphs: whose they are, and what their client makes of them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from fedgraft.contracts.values import Questions
from fedgraft.domains.graphs.shards import GraphShard
from fedgraft.domains.graphs.tables import read_queries
from fedgraft.domains.tables.reader import OWNER
from fedgraft.errors import InputError, unknown


def split_graphs(shards: Sequence[GraphShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
    """{client: its graphs}, of tables "nodes", "edges" and, where there is one, "graphs".

    Raises `InputError` for what is missing, and for graphs of no known client.
    """
    for name in ("nodes", "edges"):
        if name not in tables:
            raise InputError(f"{OWNER}: a table of {name} is needed, one row each; give --{name}.")
    for name, table in tables.items():
        if "graph" not in table:
            raise InputError(f"{OWNER}.{name}: no column 'graph'; got {', '.join(map(str, table)) or 'none'}.")
    graphs = tables.get("graphs", tables["nodes"].drop_duplicates("graph"))
    client = _clients(shards, graphs)
    found = {}
    for number in np.unique(client).tolist():
        rows = np.flatnonzero(client == number)
        wanted = graphs["graph"].iloc[rows].astype(str)
        parts = {name: tables[name] for name in ("nodes", "edges")}
        own = {name: table[table["graph"].astype(str).isin(wanted)] for name, table in parts.items()}
        own["graphs"] = graphs.iloc[rows].drop(columns="client", errors="ignore")
        found[number] = Questions(rows, read_queries(shards[number], own))
    return found


def _clients(shards: Sequence[GraphShard], graphs: pd.DataFrame) -> np.ndarray:
    names = [shard.name for shard in shards]
    if "client" not in graphs:
        if len(shards) > 1:
            raise InputError(
                f"{OWNER}: whose graphs are these? Give --client, or a column 'client' of the graphs, with one of "
                f"{', '.join(names)}."
            )
        return np.zeros(len(graphs), np.int64)
    for name in graphs["client"].astype(str).unique():
        if name not in names:
            raise unknown("client", name, names)
    return np.array([names.index(name) for name in graphs["client"].astype(str)], np.int64)
