"""Questions about edges: who answers for each, which ends are new nodes, and a client's part with these in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.values import Indices, Questions
from fedgraft.domains.edge_data.boundary_columns import ENDS, NOBODY, SHOWN, SIDES
from fedgraft.domains.edge_data.edge_columns import CarriedRows, Make
from fedgraft.domains.edges.shards import EdgeShard
from fedgraft.domains.examples import stacked
from fedgraft.domains.nodes.base.features import FeatureCoding
from fedgraft.domains.nodes.reading.new_nodes import RemoteNodes
from fedgraft.domains.notes import tell
from fedgraft.domains.tables.columns import check_present, read_columns
from fedgraft.domains.tables.query_routing import Places, clients_said, feature_columns, owners_of
from fedgraft.domains.tables.reader import OWNER, named_once, read_asked
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.tables.schema import Column, Names, Table
from fedgraft.errors import InputError, nearest

ASKED_EDGES = Table(
    "edges", (*map(Column, ENDS), Column("client", needed=False), *(Column(s, needed=False) for s in SIDES)), rest=True
)
"""One row per edge that is asked about, with its columns, who answers, and whose its ends are."""


@dataclass(frozen=True, eq=False)
class EdgeQuery:
    """Questions about edges to one client.

    Args:
        ids: object [2, asked], of the ends.
        ends: int64 [2, asked], nodes as of `EdgeShard.ends`; new ones follow own ones, -1 = nothing is known of it.
        columns: float32 [asked, width], what is known of each.
        new: object [new], ids of new nodes.
    """

    ids: NDArray[np.object_]
    ends: Indices
    columns: NDArray[np.float32]
    new: NDArray[np.object_]


def split_edges_asked(
    shards: Sequence[EdgeShard], tables: Mapping[str, pd.DataFrame], width: int
) -> dict[int, Questions]:
    """{client: its edges}, every row of the table "edges" with one client: that of its source, else of its target.

    Columns are numbers, so many, in columns that the table "features" names in its column "name", or "0", "1" ... A
    node that no client has is new: nothing is known of it but this edge; so is one of who is said to be no client. Of
    another client's node the client that answers knows what it was told in the run, if an edge joined them; a site
    knows such nodes by `RemoteNodes`.

    Raises `InputError` for what is missing, and for an edge of which no client has an end, unless there is one client
    or a column says who answers.
    """
    rows, elsewhere = read_asked(tables, ASKED_EDGES), RemoteNodes.of(tables, len(shards))
    names = [*(shard.name for shard in shards), *elsewhere.names]
    ids = np.stack([rows[role].texts() for role in ENDS]).astype(object)
    sides = np.stack([clients_said(rows, names, side, NOBODY) for side in SIDES])
    tell(_strangers(rows, sides, names))
    said = clients_said(rows, names)
    said = np.where(said < 0, sides[0], said)
    wanted = {*ids.ravel().tolist()}
    here = owners_of([shard.ids for shard in shards], wanted)
    known = {name: {**elsewhere.owners.get(name, {}), **here.get(name, {})} for name in wanted}
    every = [
        [_owners(known, ids[end, row], int(sides[end, row])) for end in range(len(ENDS))] for row in range(len(rows))
    ]
    client = np.array([_whose(shards, ids[:, row], each, int(said[row]), rows, row) for row, each in enumerate(every)])
    told = {name: table for name, table in tables.items() if name != "edges"}
    columns = _columns(rows, feature_columns(told, width))
    answers = {}
    for each in np.unique(client).tolist():
        mine = np.flatnonzero(client == each)
        asked = _asked(shards, each, ids[:, mine], [every[row] for row in mine.tolist()], columns[mine])
        answers[each] = Questions(mine, asked)
    return answers


def asked_by_role(
    asked: pd.DataFrame,
    names: Names,
    columns: Sequence[str],
    texts: Sequence[str] | None,
    make: Make,
    whose: bool,
) -> pd.DataFrame:
    """Return edges by the usual names of columns, and what a model reads of each in columns "0", "1" ...

    Args:
        asked: a row for each edge.
        names: {role: name of its column}.
        columns: what the model's columns are made of.
        texts: those of them that hold texts; None = found out.
        make: what is made of them.
        whose: whether columns say who answers, and whose the ends are.
    """
    table = named_once(asked, where := f"{OWNER}.edges")
    rows = Rows.of_frame(table, where)
    check_present(rows, columns, "which the model reads of an edge", [names[role] for role in ENDS])
    values = make(CarriedRows(read_columns(rows, columns, texts=texts), None, None, np.arange(len(rows))))
    roles = (*ENDS, "client", *SIDES) if whose else ENDS
    made = {role: table[names[role]] for role in roles if names[role] and names[role] in table}
    return pd.DataFrame({**made, **{str(place): column for place, column in enumerate(values.T)}})


def with_asked(shard: EdgeShard, asked: EdgeQuery) -> EdgeShard:
    """The client's part with new nodes behind its own, and asked edges behind those that it has, later than all."""
    new, graph = len(asked.new), shard.graph

    def moved(nodes: NDArray[np.integer]) -> Any:
        return np.where(nodes >= graph.own, nodes + new, nodes)

    blank = FeatureCoding(graph.width, not isinstance(graph.features, np.ndarray)).empty(new)
    wider = replace(
        graph,
        ids=np.concatenate([graph.ids, asked.new]),
        features=stacked([graph.features, blank]),
        label=np.concatenate([graph.label, np.full(new, -1, graph.label.dtype)]),
        split=np.concatenate([graph.split, np.full(new, -1, np.int8)]),
        pointers=np.concatenate([graph.pointers, np.full(new, graph.pointers[-1])]),
        senders=moved(graph.senders).astype(np.int32),
    )
    count = asked.ends.shape[1]
    unknown = np.full(count, -1) if shard.classes else np.full(count, np.nan)
    return replace(
        shard,
        ids=wider.ids,
        ends=np.concatenate([moved(shard.ends), asked.ends], axis=1),
        label=np.concatenate([shard.label, unknown]),
        split=np.concatenate([shard.split, np.full(count, -1, np.int8)]),
        graph=wider,
        columns=np.concatenate([shard.columns, asked.columns]),
        order=np.concatenate([shard.order, np.ones(count)]),
    )


def _strangers(rows: Rows, sides: Indices, names: Sequence[str]) -> list[str]:
    """Return a note on ends whose columns name nobody that takes part; `sides` are int64 [2, rows]."""
    notes = []
    for end, side, said in zip(ENDS, SIDES, sides, strict=True):
        if len(lost := np.flatnonzero(said == NOBODY)):
            who = np.unique(rows[side].take(lost).texts()).tolist()
            notes.append(
                f"{rows.where}: {len(lost):,} {end}s are said to be of {', '.join(map(repr, who[:SHOWN]))}, no client: "
                f"they are taken for new nodes.{nearest(who[0], names)}"
            )
    return notes


def _owners(known: Mapping[str, Places], name: str, said: int) -> Places:
    """Who has an end, of those whose it is said to be; -1 = nothing is said."""
    return {who: place for who, place in known[name].items() if said in (-1, who)}


def _whose(
    shards: Sequence[EdgeShard], ids: NDArray[np.object_], every: Sequence[Places], said: int, rows: Rows, row: int
) -> int:
    """The client that answers for an edge, by who has its ends; `said` is whom its row names, -1 for nobody."""
    if 0 <= said < len(shards):
        return said
    for name, owners in zip(ids, every, strict=True):
        here = [who for who in owners if who < len(shards)]
        if len(here) == 1:
            return here[0]
        if here:
            whose = " and ".join(repr(shards[each].name) for each in here)
            raise InputError(
                f"{rows.row(row)}: node {name!r} is of clients {whose}; a column 'client', or one that says whose the "
                "end is, must say which."
            )
    if len(shards) == 1:
        return 0
    hint = nearest(str(ids[0]), [str(name) for shard in shards for name in shard.ids])
    raise InputError(
        f"{rows.row(row)}: no client has {ids[0]!r} or {ids[1]!r}; a column 'client' must say who answers.{hint}"
    )


def _columns(rows: Rows, names: Sequence[str]) -> NDArray[np.float32]:
    """float32 [rows, width], the columns of what is known of an edge."""
    there = [str(name) for name in rows]
    for name in names:
        if name not in there:
            raise InputError(
                f"{rows.where}: no column {name!r}, which the model reads of an edge.{nearest(name, there)}"
            )
    if not names:
        return np.zeros((len(rows), 0), np.float32)
    return np.stack([rows.column(name).numbers() for name in names], axis=1).astype(np.float32)


def _asked(
    shards: Sequence[EdgeShard], client: int, ids: NDArray[np.object_], every: Sequence[Sequence[Places]], columns: Any
) -> EdgeQuery:
    """The questions to one client about edges with these ids, object [2, asked], whose ends have these owners."""
    graph = shards[client].graph
    names = [name for pair, owners in zip(ids.T.tolist(), every, strict=True) for name in _of_nobody(pair, owners)]
    new = np.array(list(dict.fromkeys(names)), object)
    own = graph.own + len(new)
    number = {name: graph.own + place for place, name in enumerate(new.tolist())}
    address = zip(graph.halo_owner.tolist(), graph.halo_place.tolist(), strict=True)
    halo = {each: own + place for place, each in enumerate(address)}

    def at(name: str, owners: Places) -> int:
        if not owners:
            return number[name]
        if client in owners:
            return int(owners[client])
        there = ((who - len(shards) if who >= len(shards) else who, place) for who, place in owners.items())
        return next((halo[pair] for pair in there if pair in halo), -1)

    ends = [
        [at(name, each) for name, each in zip(*pair, strict=True)] for pair in zip(ids.T.tolist(), every, strict=True)
    ]
    return EdgeQuery(ids, np.array(ends, np.int64).reshape(-1, 2).T, columns, new)


def _of_nobody(ids: Sequence[str], owners: Sequence[Places]) -> list[str]:
    """Those of the ids of an edge's ends that nobody has."""
    return [name for name, each in zip(ids, owners, strict=True) if not each]
