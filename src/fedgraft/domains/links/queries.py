"""Questions about pairs of nodes: whose both are, which nodes are new."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices, Questions
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.new_nodes import ends_of, nowhere
from fedgraft.domains.nodes.reading.queries import NodeQuery, split_nodes_asked
from fedgraft.domains.nodes.reading.tables import ASKED_PAIRS
from fedgraft.domains.tables.query_routing import Places, clients_said, owners_of
from fedgraft.domains.tables.reader import OWNER, named_once, read_asked
from fedgraft.domains.tables.rows import Rows
from fedgraft.errors import InputError

ENDS = ("source", "target")


@dataclass(frozen=True, eq=False)
class PairQuery:
    """Questions about pairs of nodes to one client.

    Args:
        ids: object [2, asked], the nodes' ids.
        pairs: int64 [2, asked], their numbers: 0 .. own - 1 are the client's, new ones follow.
        new: the client's new nodes, with features and edges; None without any.
    """

    ids: NDArray[np.object_]
    pairs: Indices
    new: NodeQuery | None


def split_pairs_asked(shards: Sequence[NodeShard], tables: Mapping[str, pd.DataFrame]) -> dict[int, Questions]:
    """{client: its pairs}, every row of the table "pairs" with one client.

    Of new nodes there are "nodes", "edges" and "features" as `split_nodes_asked` takes them. A new node without an edge
    is of the client whose node it is first paired with, if it says no other.

    Raises `InputError` for whatever is missing or unknown, and for a pair of two clients' nodes.
    """
    rows = read_asked(tables, ASKED_PAIRS)
    ids = ends_of(rows).astype(object)
    client_of_row = clients_said(rows, [shard.name for shard in shards])
    known = owners_of([shard.ids for shard in shards], {*ids.ravel().tolist()})
    new = _new_nodes(shards, tables, ids, client_of_row, known) if "nodes" in tables else {}
    for who, questions in new.items():
        places = zip(questions.asked.ids.tolist(), questions.asked.nodes.tolist(), strict=True)
        known |= {name: {who: place} for name, place in places if place >= shards[who].own}
    placed = [_placed(shards, known, ids[:, row], int(client_of_row[row]), rows, row) for row in range(len(rows))]
    client, pairs = np.array([who for who, _ in placed]), np.array([pair for _, pair in placed], np.int64).T
    answers = {}
    for each in np.unique(client).tolist():
        mine = np.flatnonzero(client == each)
        nodes = new[each].asked if each in new else None
        answers[each] = Questions(mine, PairQuery(ids[:, mine], pairs[:, mine], nodes))
    return answers


def _new_nodes(
    shards: Sequence[NodeShard],
    tables: Mapping[str, pd.DataFrame],
    ids: NDArray[np.object_],
    client_of_row: Indices,
    known: Mapping[str, Places],
) -> dict[int, Questions]:
    """{client: nodes of the table "nodes"}."""
    nodes = named_once(tables["nodes"], f"{OWNER}.nodes")
    edges = tables.get("edges")
    joined = set() if edges is None else {str(end) for column in ENDS if column in edges for end in edges[column]}
    near: dict[str, str] = {}
    for (one, other), who in zip(ids.T.tolist(), client_of_row.tolist(), strict=True):
        for name, partner in ((one, other), (other, one)):
            places = [who] if who >= 0 else list(known.get(partner, {}))
            if name not in known and name not in joined and len(places) == 1:
                near.setdefault(name, shards[places[0]].name)
    if "node" in nodes and near:
        client = nodes["client"] if "client" in nodes else pd.Series(None, nodes.index, dtype=object)
        nodes = nodes.assign(client=client.astype(object).fillna(nodes["node"].astype(str).map(near)))
    others = {name: tables[name] for name in ("edges", "features") if name in tables}
    return split_nodes_asked(shards, {**others, "nodes": nodes}, "a link is scored inside its client")


def _placed(
    shards: Sequence[NodeShard], known: Mapping[str, Places], ids: NDArray[np.object_], named: int, rows: Rows, row: int
) -> tuple[int, list[int]]:
    """The client that has both nodes of a pair, and which they are."""
    for column, name in zip(ENDS, ids, strict=True):
        if name not in known:
            raise nowhere(rows, row, column, name, known, shards)
    one, other = (known[name] for name in ids)
    both = [client for client in one if client in other and named in (-1, client)]
    if len(both) == 1:
        return both[0], [one[both[0]], other[both[0]]]
    if both:
        whose = " and ".join(repr(shards[client].name) for client in both)
        raise InputError(f"{rows.row(row)}: clients {whose} have such nodes; a column 'client' must say whose.")
    whose = "; ".join(
        f"{name!r} is of {' and '.join(repr(shards[client].name) for client in places)}"
        for name, places in zip(ids, (one, other), strict=True)
    )
    wanted = f"client {shards[named].name!r}, which the row names" if named >= 0 else "one client, which scores it"
    raise InputError(f"{rows.row(row)}: both nodes of a pair must be of {wanted}; {whose}.")
