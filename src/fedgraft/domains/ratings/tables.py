"""Reads a user's own ratings and trust links from tables, with errors that name file, row, column and value."""

from dataclasses import dataclass, field, replace

import numpy as np

from fedgraft.contracts.table_files import Given, is_folder
from fedgraft.domains.ratings.shards import Ids, Ratings
from fedgraft.domains.tables.reader import read
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.tables.schema import Column, Names, Table
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array

RATINGS = Table(
    "ratings",
    (
        Column("user"),
        Column("item"),
        Column("rating", "number"),
        Column("category", needed=False),
        Column("split", "split", needed=False),
        Column("time", "time", silent=True),
        Column("client"),
    ),
    folder="clients",
)
TRUST = Table("trust", (Column("trust_user", usual="user"), Column("trust_target", usual="trusts")), may_be_empty=True)
PAIRS = Table("pairs", (Column("user"), Column("item"), Column("client")))
"""Questions."""


def names_of(options: object = None) -> Names:
    """Return what a data set's options call the columns of both tables; None for their usual names."""
    return RATINGS.names(options) | TRUST.names(options)


@dataclass(frozen=True)
class Format:
    """How tables of ratings and of trust links are read.

    Args:
        owner: what errors call the options: "Table" for Table.user ...
        names: of the columns of both.
        low: lowest rating there can be; None takes the lowest in the data, with a note. high: likewise.
        unknown_trust: what to do about a link with an end that has no rating: "error", or "drop" with a note.
    """

    owner: str
    names: Names = field(default_factory=names_of)
    low: float | None = None
    high: float | None = None
    unknown_trust: str = "drop"


def read_all(form: Format, ratings: Given, trust: Given | None, named: bool) -> Ratings:
    """Read the ratings of all clients, a table or a folder of them, and the trust links between users.

    Args:
        form: names of columns and the scale.
        ratings: one row per rating.
        trust: one row per link; None = no links.
        named: whether the data name each rating's client, in a column or, of a folder, by the file; folders do.
    """
    unread = () if named and not is_folder(ratings) else ("client",)
    roles = [column.role for column in RATINGS.columns if column.role not in unread]
    rows = read(ratings, RATINGS, form.names, form.owner, only=roles)
    return _ratings(form, rows, None if trust is None else read(trust, TRUST, form.names, form.owner), named)


def read_clients(form: Format, ratings: Given, trust: Given | None, called: tuple[str, str]) -> Ratings:
    """Read one client's ratings, where categories may be missing, and its trust links; `called`: tables in errors."""
    needed = ("user", "item", "rating")
    table = replace(RATINGS, folder="")
    rows = read(ratings, table, form.names, form.owner, called[0], needed, (*needed, "category"))
    return _ratings(form, rows, None if trust is None else read(trust, TRUST, form.names, form.owner, called[1]))


def _ratings(form: Format, rows: Rows, trust: Rows | None, named: bool = False) -> Ratings:
    """Return the whole set, from rows of ratings and of trust links."""
    (user, user_ids), (item, item_ids) = rows.read("user"), rows.read("item")
    category, category_names = rows.read("category") or (np.zeros(len(rows), np.int64), np.array(["all"]))
    rating: Array = rows.read("rating")
    scale, notes = _scale(form, rating, rows)
    links, dropped = (np.zeros((2, 0), np.int64), []) if trust is None else _links(form, trust, user_ids)
    client = rows.clients() if named else None
    return Ratings(
        user=user,
        item=item,
        category=category,
        rating=rating.astype(np.float32),
        trust=links,
        users=len(user_ids),
        items=len(item_ids),
        categories=len(category_names),
        scale=scale,
        client=client[0] if client else None,
        user_ids=user_ids,
        item_ids=item_ids,
        category_names=tuple(category_names.tolist()),
        client_names=tuple(client[1].tolist()) if client else (),
        split=rows.read("split"),
        time=rows.read("time"),
        notes=(*notes, *dropped),
    )


def _scale(form: Format, rating: Array, rows: Rows) -> tuple[tuple[float, float], list[str]]:
    options = f"{form.owner}.low", f"{form.owner}.high"
    low = float(rating.min()) if form.low is None else form.low
    high = float(rating.max()) if form.high is None else form.high
    if len(outside := np.flatnonzero((rating < low) | (rating > high))):
        must = f"within {low:g}..{high:g} ({'..'.join(options)})"
        raise rows["rating"].error(outside, must, f"{rating[outside[0]]:g}")
    if low >= high:
        raise InputError(
            f"{rows.where}: every rating is {low:g}; set {' and '.join(options)} to the lowest and highest possible."
        )
    missing = [name for name, bound in zip(options, (form.low, form.high), strict=True) if bound is None]
    note = f"Scale {low:g}..{high:g} is what the ratings span; set {' and '.join(missing)} if more is possible."
    return (low, high), [note] if missing else []


def _links(form: Format, rows: Rows, user_ids: Array) -> tuple[Ids, list[str]]:
    """Return trust links, int64 [2, m] numbers of users, and notes."""
    ends = [rows[role] for role in ("trust_user", "trust_target")]
    links = np.stack([end.among(user_ids) for end in ends])
    strange = np.flatnonzero((links < 0).any(axis=0))
    if not len(strange):
        return links, []
    if form.unknown_trust == "error":
        wrong = ends[0] if links[0, strange[0]] < 0 else ends[1]
        hint = f" {form.owner}.unknown_trust = 'drop' leaves them out."
        raise wrong.error(strange, "a user with a rating", hint=hint)
    note = f"{len(strange):,} trust links with an end that has no rating left out."
    return np.delete(links, strange, axis=1), [note]
