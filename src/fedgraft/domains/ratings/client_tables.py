"""One client's ratings from tables of its own: to answer by a model, or at its site, to train one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fedgraft.contracts.data import ANSWER, OwnShardData, Purpose
from fedgraft.contracts.table_files import Given
from fedgraft.domains.ratings.dealing import whole_shard
from fedgraft.domains.ratings.shards import Ratings, RatingShard
from fedgraft.domains.ratings.tables import Format, read_clients
from fedgraft.domains.tables.reader import read
from fedgraft.domains.tables.rows import places_of
from fedgraft.domains.tables.schema import Column, Table
from fedgraft.errors import InputError

OWN_TABLES = ("data", "trust")
"""Names of the tables to answer by: one row per rating; one row per trust link."""
SITE_TABLES = ("ratings", "trust", "users", "items")
"""Names of the tables to train on: a row per rating; a row per trust link; all users, and all items, of all sites."""
COMMON_TABLES = ("users", "items")
"""Those that are the same file at all sites."""
STARS = Format("data", low=1.0, high=5.0)
"""The usual columns, and the scale of every data set but the user's own tables."""


class OwnRatings(OwnShardData[RatingShard]):
    """Ability of data sets of 1 to 5 stars: read one client's own ratings, from the usual columns."""

    own_tables: ClassVar[tuple[str, ...]] = OWN_TABLES

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> RatingShard:
        """Read one client's ratings."""
        return client_ratings(STARS, tables)


def client_ratings(
    form: Format, tables: Mapping[str, Given], purpose: Purpose = ANSWER, task: Any = None
) -> RatingShard:
    """Read one client's ratings and the trust links between its users; notes go to the log.

    Users and items are numbered by the tables of all of them, or by what the client has where there is none.

    Args:
        form: names of columns and the scale.
        tables: some of `OWN_TABLES`, or of `SITE_TABLES` to train on; the first is there.
        purpose: what they are read for.
        task: the recipe's; not looked at to answer.

    Raises `InputError` where the recipe, or a table that all sites have, does not say what clients have in common.
    """
    if purpose.trains:
        _check_common(form, tables, task)
        ratings = read_clients(form, tables["ratings"], tables.get("trust"), ("--data ratings", "--data trust"))
    else:
        ratings = read_clients(form, tables["data"], tables.get("trust"), ("--data", "--trust"))
    for name in COMMON_TABLES:
        if name in tables:
            ratings = _numbered(ratings, form, tables[name], name)
    return whole_shard(ratings, purpose)


def _check_common(form: Format, tables: Mapping[str, Given], task: Any) -> None:
    if form.low is None or form.high is None:
        raise InputError(
            "The recipe must say data.low and data.high, the lowest and highest rating there can be: no site knows "
            "the ratings of the others."
        )
    needed = {"users": task.embeddings or task.share != "nothing", "items": task.embeddings}
    for name, is_needed in needed.items():
        if is_needed and name not in tables:
            why = "the model's tables are numbered" if task.embeddings else "clients tell of users (task.share)"
            raise InputError(
                f"--data {name}=FILE is missing: ids of all {name}, one file for all sites, by which {why}."
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
