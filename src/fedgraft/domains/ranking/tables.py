"""Reads a user's own interactions and items from tables, with errors that name file, row, column and value."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.domains.examples import NO_TIME, latest
from fedgraft.domains.notes import LOG, tell
from fedgraft.domains.ranking import item_features
from fedgraft.domains.ranking.shards import Ids, Interactions, RankingShard, last_of_pairs
from fedgraft.domains.tables.columns import feature
from fedgraft.domains.tables.reader import read
from fedgraft.domains.tables.rows import Rows, as_numbers, places_of
from fedgraft.domains.tables.schema import Column, Names, Table
from fedgraft.errors import InputError, nearest, unknown
from fedgraft.tables.table_files import Given, is_folder
from fedgraft.wire.layouts import Array

OWNER = "Interactions"
"""What errors call the data set of a user's own tables."""
Maker = Callable[[Mapping[str, str], item_features.Items], dict[str, item_features.Rows]]
"""Makes {modality: features of the items} of {modality: a source of `item_features`}."""

INTERACTIONS = Table(
    "interactions",
    (
        Column("user"),
        Column("item"),
        Column("client", read_by="data.partition = 'given'"),
        Column("split", "split", needed=False, silent=True),
        Column("time", "time", silent=True),
    ),
    folder="clients",
)
ITEMS = Table("items", (Column("item"), Column("title", needed=False)), rest=True)
"""All other columns are features."""
_MORE = " data.features and data.text name columns that are."
USERS = Table("users", (Column("user"), Column("client")))
"""Questions."""


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The items that all clients know, str [items] in the order of their ids, with titles, or none, and features.

    `where` is what errors call it.
    """

    ids: Array
    titles: Array
    features: Mapping[str, item_features.Rows]
    where: str


def read_catalogue(
    items: Given | None,
    names: Names,
    taken: Array,
    sources: Mapping[str, Any] | None,
    text: tuple[str, ...] | None,
    make: Maker,
) -> Catalogue:
    """Read the items, a row each, and what is known of them; without a table those that are `taken`, ids ascending.

    `sources` are {modality: a source of `item_features`, or columns of numbers}; None = all that the table tells. The
    columns `text` make an item's text; None = the title and every column that is not of numbers. `make` makes features
    of sources. Items are in the order of their ids.
    """
    if items is not None:
        return _catalogue(read(items, ITEMS, names, OWNER), sources, text, make)
    sources = sources or {}
    if columns := [modality for modality, of in sources.items() if not str(of).endswith(".npy")]:
        raise InputError(f"{OWNER}.items must be given, a table of items: features {columns[0]!r} need it.")
    known = item_features.Items(taken, [""] * len(taken), np.arange(len(taken)), len(taken), "the catalogue")
    return Catalogue(taken, np.zeros(0, np.str_), make(sources, known), known.where)


def _catalogue(rows: Rows, sources: Mapping[str, Any] | None, texts: tuple[str, ...] | None, make: Maker) -> Catalogue:
    code, names = rows.read("item")
    rows.check_once(code, names, "item", noun="")
    order = np.argsort(code)  # as without a table, so that sites have the same
    rows, code = rows.take(order), code[order]
    others = [name for name in rows if name not in (rows.names["item"], rows.names["title"])]
    numeric = [name for name in others if _is_numbers(rows.frame[name])]
    if texts is None:
        title = [rows.names["title"]] if "title" in rows else []
        texts = (*title, *(name for name in others if name not in numeric))
    if sources is None:
        sources = ({"text": "text"} if texts else {}) | ({"numbers": numeric} if numeric else {})
    known = item_features.Items(names[code], _texts(rows, texts, f"{OWNER}.text"), order, len(rows), rows.where)
    made: dict[str, item_features.Rows] = {}
    for modality, of in sources.items():
        if isinstance(of, str):
            made |= make({modality: of}, known)
        else:
            made[modality] = _standardised(rows, of, f"{OWNER}.features")
    named = {column for of in sources.values() if not isinstance(of, str) for column in of} | {*texts}
    unread = [name for name in others if name not in named]
    tell([*rows.found, *([ITEMS.not_read(unread, rows.names, list(rows)) + _MORE] if unread else [])])
    titles = _text(rows["title"].values) if "title" in rows else []
    return Catalogue(known.ids, np.array(titles, dtype=np.str_), made, rows.where)


def read_taken(names: Names, given: Given, named: bool) -> Rows:
    """Read a table of interactions, or a folder of them, one file a client; `named`: whether clients are named."""
    if is_folder(given) and not named:
        raise InputError(
            f"{OWNER}.interactions = {str(given)!r} is a folder, where each file is a client: "
            f"{OWNER}.partition must be 'given'."
        )
    unread = () if named and not is_folder(given) else ("client",)
    roles = [column.role for column in INTERACTIONS.columns if column.role not in unread]
    return read(given, INTERACTIONS, names, OWNER, needed=("user", "item", "client", "time"), only=roles)


def read_interactions(rows: Rows, catalogue: Catalogue, named: bool) -> Interactions:
    """Return the whole set, from rows of interactions; who is at two clients is two users.

    They are in the order of their ids, and of a pair the latest stands.
    """
    code, item_ids = rows.read("item")
    item = places_of(catalogue.ids, item_ids)[code]
    if len(lost := np.flatnonzero(item < 0)):
        name = str(item_ids[code[lost[0]]])
        end = f".{nearest(name, catalogue.ids.tolist())}"
        raise rows.error(lost, f"item {name!r} is not in {catalogue.where}", end=end)
    person, people = rows.read("user")
    client, clients = (rows.clients() if named else None) or (np.zeros_like(person), np.array(["all"]))
    clients, place = np.unique(clients, return_inverse=True)  # files are in another order than their names
    users, user = np.unique(place[client] * len(people) + person, return_inverse=True)
    user_ids = people[users % len(people)]
    split, time = map(rows.read, ("split", "time"))
    kept, repeats = latest(user * len(catalogue.ids) + item, time)
    stands = NO_TIME if time is None else f"the latest by {rows.names['time']!r} stands"
    said = [f"{repeats:,} repeated pairs of user and item left out; {stands}."] if repeats else []
    user, item = user[kept], item[kept]
    split, time = (None if column is None else column[kept] for column in (split, time))
    if split is not None:
        _check_split(rows, user, split, user_ids)
    return Interactions(
        user=user,
        item=item,
        user_ids=user_ids,
        item_ids=catalogue.ids,
        features=catalogue.features,
        titles=catalogue.titles,
        client=users // len(people) if named else None,
        client_names=tuple(clients.tolist()) if named else (),
        split=split,
        time=time,
        notes=(*rows.notes, *said),
    )


def _check_split(rows: Rows, user: Ids, split: NDArray[np.int8], user_ids: Array) -> None:
    """Raise `InputError` where the time says how to split, too, and for a user with nothing to train on."""
    name = rows.names["split"]
    if "time" in rows:
        options = f"Interactions.time = {rows.names['time']!r} and the column {name!r}"
        raise InputError(f"{options} of {rows.where} both say how to split; one is needed.")
    if len(idle := np.setdiff1d(user, user[split == 0])):
        raise InputError(
            f"{rows.where}: user {str(user_ids[idle[0]])!r} has no interaction for training ({len(idle)} such users)."
        )


def read_own(names: Names, given: Given, catalogue: Catalogue, what: str = "items") -> RankingShard:
    """Return one client's own interactions, all known; those with items that the catalogue lacks are left out.

    `what` is what a note calls these.
    """
    roles = ("user", "item")
    rows = read(given, replace(INTERACTIONS, folder=""), names, "data", "--data", roles, roles)
    code, item_ids = rows.read("item")
    item = places_of(catalogue.ids, item_ids)[code]
    kept = np.flatnonzero(item >= 0)
    if not len(kept):
        raise InputError(f"{rows.row(0)}: no item of the table is in {catalogue.where}, such as {str(item_ids[0])!r}.")
    if lost := len(code) - len(kept):
        LOG.warning(f"--data: {lost:,} interactions with {what} that the run does not know left out.")
    user, user_ids = rows.take(kept).read("user")
    last = last_of_pairs(user, item[kept])
    return RankingShard(
        name="own",
        user=user[last],
        item=item[kept][last],
        split=np.zeros(len(last), np.int8),
        user_ids=user_ids,
        item_ids=catalogue.ids,
        features=catalogue.features,
        titles=catalogue.titles,
    )


def _is_numbers(values: pd.Series) -> bool:
    parsed = as_numbers(values)
    return bool(np.isfinite(parsed).any() and (np.isfinite(parsed) | values.isna().to_numpy()).all())


def _texts(rows: Rows, columns: Sequence[str], option: str) -> list[str]:
    """Each item's texts, joined."""
    _check_columns(rows, columns, option)
    parts = [_text(rows.frame[column]) for column in columns]
    return [" ".join(filter(None, row)) for row in zip(*parts, strict=True)] or [""] * len(rows)


def _text(values: pd.Series) -> list[str]:
    return ["" if lacking else str(value) for value, lacking in zip(values, values.isna(), strict=True)]


def _standardised(rows: Rows, columns: Sequence[str], option: str) -> item_features.Rows:
    """Columns of numbers with mean 0 and variance 1 over the items; those that are all equal become 0."""
    _check_columns(rows, columns, option)
    values: NDArray[np.float64] = np.stack([feature(rows.column(column)) for column in columns], axis=1)
    centred, spread, most = values - values.mean(axis=0), values.std(axis=0), np.abs(values).max(axis=0)
    return item_features.on_grid(np.divide(centred, spread, out=np.zeros_like(values), where=spread > 1e-12 * most))


def _check_columns(rows: Rows, columns: Sequence[str], option: str) -> None:
    for column in columns:
        if column not in rows.frame:
            raise unknown(f"column of {rows.where} ({option})", column, rows.frame.columns)
