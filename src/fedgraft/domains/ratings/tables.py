"""Reads a user's own ratings and trust links from tables, with errors that name file, row, column and value."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fedgraft.contracts.data import ANSWER, ClientTables, Purpose
from fedgraft.domains.examples import NO_TIME, latest
from fedgraft.domains.notes import tell
from fedgraft.domains.ratings.dealing import whole_shard, with_numbers
from fedgraft.domains.ratings.shards import UNNUMBERED, Ids, Ratings, RatingShard
from fedgraft.domains.tables.reader import read
from fedgraft.domains.tables.rows import Rows, places_of
from fedgraft.domains.tables.schema import Column, Names, Table
from fedgraft.errors import InputError, WireError
from fedgraft.tables.table_files import Given, is_folder
from fedgraft.wire.layouts import Array
from fedgraft.wire.tokens import check_numbers

RATINGS = Table(
    "ratings",
    (
        Column("user"),
        Column("item"),
        Column("rating", "number"),
        Column("category", needed=False),
        Column("split", "split", needed=False),
        Column("time", "time", silent=True),
        Column("client", read_by="data.partition = 'given'"),
    ),
    folder="clients",
)
TRUST = Table("trust", (Column("trust_user", usual="user"), Column("trust_target", usual="trusts")), may_be_empty=True)
PAIRS = Table("pairs", (Column("user"), Column("item"), Column("client")))
"""Questions."""


@dataclass(frozen=True)
class Format:
    """How tables of ratings and of trust links are read; errors call the options by `owner`: "Table" for Table.user ...

    The lowest and highest rating there can be (`low`, `high`) are, where None, those in the data, with a note. A link
    with an end that has no rating is an "error", or is left out with a note ("drop"). Ratings to train on are in the
    order of their ids, others in that of rows, and of repeated ones the latest stands. Sites may match ids of users
    (`is_matched`) where there is no list of all.
    """

    owner: str
    names: Names
    low: float | None = None
    high: float | None = None
    unknown_trust: str = "drop"
    is_matched: bool = False


def read_all(form: Format, ratings: Given, trust: Given | None, named: bool) -> Ratings:
    """Read the ratings of all clients, a table or a folder of them, and the trust links, if there are any.

    `named` says whether the data name each rating's client, in a column or, of a folder, by the file; folders do.
    """
    unread = () if named and not is_folder(ratings) else ("client",)
    roles = [column.role for column in RATINGS.columns if column.role not in unread]
    rows = read(ratings, RATINGS, form.names, form.owner, only=roles)
    found = _ratings(form, rows, None if trust is None else read(trust, TRUST, form.names, form.owner), named)
    if len(found.rating) > 1 and (found.rating == found.rating[0]).all():
        raise InputError(
            f"{rows.where}: all {len(rows):,} ratings are {found.rating[0]:g}: there is nothing to tell apart, and an "
            "error of 0 would mean nothing. What was only seen or bought is for the data set 'interactions'."
        )
    return found


def read_clients(
    form: Format, ratings: Given, trust: Given | None, called: tuple[str, str], trains: bool = False
) -> Ratings:
    """Read one client's ratings, where categories may be missing, and its trust links; `called`: tables in errors.

    Where it `trains`, a column says the split, as in a table of all clients.
    """
    needed = ("user", "item", "rating")
    roles = (*needed, "category", "time", *(("split",) if trains else ()))
    rows = read(ratings, replace(RATINGS, folder=""), form.names, form.owner, called[0], needed, roles)
    links = None if trust is None else read(trust, TRUST, form.names, form.owner, called[1])
    return _ratings(form, rows, links, ordered=trains)


def _ratings(form: Format, rows: Rows, trust: Rows | None, named: bool = False, ordered: bool = True) -> Ratings:
    """Return the whole set, from rows of ratings and of trust links, each once; `ordered` by their ids."""
    (user, user_ids), (item, item_ids) = rows.read("user"), rows.read("item")
    category, category_names = rows.read("category") or (np.zeros(len(rows), np.int64), np.array(["all"]))
    rating: Array = rows.read("rating")
    scale, notes = _scale(form, rating, rows)
    links, dropped = (np.zeros((2, 0), np.int64), []) if trust is None else _links(form, trust, user_ids)
    client = rows.clients() if named else None
    split, time = rows.read("split"), rows.read("time")
    pair = user * len(item_ids) + item
    kept, repeats = latest(pair if client is None else pair * len(client[1]) + client[0], time)
    kept = kept if ordered else np.sort(kept)
    if repeats:
        stands = f"the latest by {rows.names['time']!r} stands" if time is not None else NO_TIME
        dropped = [f"{repeats:,} repeated ratings of one item by one user left out; {stands}.", *dropped]
    return Ratings(
        user=user[kept],
        item=item[kept],
        category=category[kept],
        rating=rating[kept].astype(np.float32),
        trust=links[:, np.lexsort(links[::-1])] if ordered else links,
        users=len(user_ids),
        items=len(item_ids),
        categories=len(category_names),
        scale=scale,
        client=client[0][kept] if client else None,
        user_ids=user_ids,
        item_ids=item_ids,
        category_names=tuple(category_names.tolist()),
        client_names=tuple(client[1].tolist()) if client else (),
        split=None if split is None else split[kept],
        time=None if time is None else time[kept],
        notes=(*rows.notes, *(trust.notes if trust else ()), *notes, *dropped),
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


OWN_TABLES = ("data", "trust")
"""Names of the tables to answer by: one row per rating; one row per trust link."""
SITE_TABLES = ("ratings", "trust", "users", "items")
"""Names of the tables to train on: a row per rating; a row per trust link; all users, and all items, of all sites."""
COMMON_TABLES = ("users", "items")
"""Those that are the same file at all sites."""
STARS = Format("data", RATINGS.names() | TRUST.names(), low=1.0, high=5.0)
"""The usual columns, and the scale of every data set but the user's own tables."""


class OwnRatings(ClientTables[RatingShard]):
    """Ability of data sets of 1 to 5 stars: read one client's own ratings, from the usual columns."""

    own_tables: ClassVar[tuple[str, ...]] = OWN_TABLES

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> RatingShard:
        """Read one client's ratings."""
        return client_ratings(STARS, tables)


def client_ratings(
    form: Format, tables: Mapping[str, Given], purpose: Purpose = ANSWER, task: Any = None
) -> RatingShard:
    """Read one client's ratings and the trust links between its users; notes go to the log.

    Tables are `OWN_TABLES`, or `SITE_TABLES` to train on, of which the first is there. Users and items are numbered by
    the tables of all of them, or by what the client has where there is none.

    Raises `InputError` where the recipe, or a table that all sites have, does not say what clients have in common.
    """
    if purpose.trains:
        _check_common(form, tables, task)
        ratings = site_ratings(form, tables)
    else:
        ratings = read_clients(form, tables["data"], tables.get("trust"), ("--data", "--trust"))
    for name in COMMON_TABLES:
        if name in tables:
            ratings = _numbered(ratings, form, tables[name], name)
    shard = whole_shard(ratings, purpose, by_hash=purpose.trains and purpose.split_seed is not None)
    return _matched(shard, purpose) if form.is_matched else shard


def site_ratings(form: Format, tables: Mapping[str, Given]) -> Ratings:
    """Read a site's own ratings, to train on."""
    return read_clients(form, tables["ratings"], tables.get("trust"), ("--data ratings", "--data trust"), True)


def _matched(shard: RatingShard, purpose: Purpose) -> RatingShard:
    """The shard with the numbers that its users have in common with others', as far as the purpose knows them."""
    if not purpose.trains:
        tell(["Users of these ratings have no numbers in common with other clients': nothing of them is known there."])
        return with_numbers(shard, np.full(len(shard.users), UNNUMBERED))
    if purpose.neighbours is None or (numbers := purpose.neighbours.addresses) is None:
        return shard
    if not numbers:
        raise InputError(
            "The ids of users were matched before this site was there, so that none of its users has a number: it can "
            "take part in the next run."
        )
    try:
        check_numbers(numbers, len(shard.users))
    except WireError as error:
        raise InputError(f"The server has sent what are no numbers of users: {error}.") from error
    return with_numbers(shard, numbers["number"])


def _check_common(form: Format, tables: Mapping[str, Given], task: Any) -> None:
    if form.low is None or form.high is None:
        raise InputError(
            "The recipe must say data.low and data.high, the lowest and highest rating there can be: no site knows "
            "the ratings of the others."
        )
    if form.is_matched and task.embeddings:
        raise InputError(
            "data.match must be left out with tables of embeddings (task.embeddings): these are numbered by files of "
            "all users and all items."
        )
    if form.is_matched and "users" in tables:
        raise InputError("--data users=FILE must be left out: data.match numbers users by what each site has.")
    needed = {"users": task.embeddings or (task.share != "nothing" and not form.is_matched), "items": task.embeddings}
    for name, is_needed in needed.items():
        if is_needed and name not in tables:
            why, hint = "the model's tables are numbered", ""
            if not task.embeddings:
                why, hint = "clients tell of users (task.share)", " data.match = 'hashes' or 'psi' needs none."
            raise InputError(
                f"--data {name}=FILE is missing: ids of all {name}, one file for all sites, by which {why}.{hint}"
            )


def _numbered(ratings: Ratings, form: Format, given: Given, name: str) -> Ratings:
    """Return ratings with the users, or the items, numbered by a table of all of them, in ascending order."""
    what = name.removesuffix("s")
    rows = read(given, Table(name, (Column(what),)), form.names, "data", f"--data {name}")
    every, own = rows.read(what)[1], np.asarray(getattr(ratings, f"{what}_ids"))
    place = places_of(every, own)
    if len(lost := np.flatnonzero(place < 0)):
        got = f"{what} {str(own[lost[0]])!r}"
        raise InputError(f"{rows.where}: no {got}, which has ratings here ({len(lost)} such {name}).")
    known: dict[str, Any] = {what: place[getattr(ratings, what)], name: len(every), f"{what}_ids": every}
    if what == "user":
        known["trust"] = place[ratings.trust]
    return replace(ratings, **known)
