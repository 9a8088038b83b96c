"""One client's ratings at its site, from tables of its own; users and items numbered as at the other sites."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedgraft.contracts.table_files import Given
from fedgraft.domains.ratings.shards import Ids, Ratings
from fedgraft.domains.ratings.tables import Format, read_own_ratings
from fedgraft.domains.tables.columns import encode, read_table
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array

SITE_TABLES = ("ratings", "trust", "users", "items")
"""Names of the tables: a row per rating; a row per trust link; all users, and all items, of all sites."""
COMMON_TABLES = ("users", "items")
"""Those that are the same file at all sites."""


def read_site(form: Format, tables: Mapping[str, Given], task: Any) -> Ratings:
    """Return one client's ratings.

    Users and items are numbered by the tables of all of them, or by what the client has where there is none.

    Args:
        form: names of columns and the scale.
        tables: some of `SITE_TABLES`.
        task: the recipe's.

    Raises `InputError` where the recipe, or a table that all sites have, does not say what clients have in common.
    """
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
    ratings = read_own_ratings(form, tables["ratings"], tables.get("trust"), ("--data ratings", "--data trust"))
    if "users" in tables:
        every, place = _places(ratings.user_ids, tables["users"], form.user, "users")
        ratings = replace(
            ratings, user=place[ratings.user], trust=place[ratings.trust], users=len(every), user_ids=every
        )
    if "items" in tables:
        every, place = _places(ratings.item_ids, tables["items"], form.item, "items")
        ratings = replace(ratings, item=place[ratings.item], items=len(every), item_ids=every)
    return ratings


def _places(ids: Array | None, given: Given, column: str, name: str) -> tuple[Array, Ids]:
    """Return the ids of a table of all of them, ascending, and the place of each own one among them, int64."""
    table, source = read_table(given, f"--data {name}", {f"data.{name[:-1]}": column})
    every, own = encode(table, column, source)[1], np.asarray(ids)
    place = np.minimum(np.searchsorted(every, own), len(every) - 1)
    if len(lost := np.flatnonzero(every[place] != own)):
        got = f"{name[:-1]} {str(own[lost[0]])!r}"
        raise InputError(f"{source[0][0]}: no {got}, which has ratings here ({len(lost)} such {name}).")
    return every, place
