"""Reads a user's own ratings and trust links from tables, with errors that name file, row, column and value."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fedgraft.contracts.table_files import Given
from fedgraft.domains.ratings.shards import Ids, Ratings
from fedgraft.domains.tables.columns import (
    Source,
    encode,
    folder_of_tables,
    numbers,
    read_table,
    row_of,
    splits_of,
    times_of,
)
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array

Named = tuple[Ids, Array]
"""A number for each row, int64 [n], and the names that they stand for."""


@dataclass(frozen=True)
class Format:
    """How tables of ratings and of trust links are read.

    Args:
        owner: what errors call the options: "Table" for Table.user ...
        user: column of ratings; item, rating, category, client: likewise.
        trust_user: column of trust links, who trusts; trust_target: column, whom.
        unknown_trust: what to do about a link with an end that has no rating: "error", or "drop" with a note.
        low: lowest rating there can be; None takes the lowest in the data, with a note. high: likewise.
        split: column of ratings, "train", "validation" or "test"; it may be missing unless it is renamed here.
        time: column of ratings, numbers or dates; "" = none.
    """

    owner: str
    user: str = "user"
    item: str = "item"
    rating: str = "rating"
    category: str = "category"
    client: str = "client"
    trust_user: str = "user"
    trust_target: str = "trusts"
    unknown_trust: str = "error"
    low: float | None = None
    high: float | None = None
    split: str = "split"
    time: str = ""


def read_ratings(form: Format, ratings: Given, trust: Given | None, given: bool) -> Ratings:
    """Read a table of ratings, or a folder of them, and one of trust links.

    Args:
        form: names of columns and the scale.
        ratings: one row per rating.
        trust: one row per link; None = no links.
        given: whether the data name each rating's client, in a column or, of a folder, by the file; folders do.
    """
    owner = form.owner
    wanted = {f"{owner}.user": form.user, f"{owner}.item": form.item, f"{owner}.rating": form.rating}
    optional = _add_columns(form, wanted)
    if isinstance(ratings, pd.DataFrame) or not Path(ratings).is_dir():
        if given:
            wanted[f"{owner}.client"] = form.client
        table, source = read_table(ratings, f"{owner}.ratings", wanted, optional)
        client = encode(table, form.client, source) if given else None
    else:
        tables, source = folder_of_tables(Path(ratings), f"{owner}.ratings", wanted, optional)
        codes = np.repeat(np.arange(len(tables)), [len(table) for table in tables.values()])
        table, client = pd.concat(list(tables.values()), ignore_index=True), (codes, np.array(list(tables)))
    return _ratings(form, table, source, (trust, f"{owner}.trust"), client)


def _add_columns(form: Format, wanted: dict[str, str]) -> list[str]:
    """Add columns that were named to those that must be there; return those that may be there by their usual names."""
    optional = []
    for option in ("category", "split"):
        column = getattr(form, option)
        if column == getattr(Format, option):
            optional.append(column)
        else:
            wanted[f"{form.owner}.{option}"] = column
    if form.time:
        wanted[f"{form.owner}.time"] = form.time
    return optional


def read_own_ratings(form: Format, ratings: Given, trust: Given | None, parameters: tuple[str, str]) -> Ratings:
    """Read one client's ratings, where categories may be missing, and its trust links.

    Args:
        form: names of columns and the scale.
        ratings: one row per rating.
        trust: one row per link; None = no links.
        parameters: what errors call the two tables.
    """
    wanted = {f"{form.owner}.{name}": getattr(form, name) for name in ("user", "item", "rating")}
    table, source = read_table(ratings, parameters[0], wanted, [form.category])
    return _ratings(form, table, source, (trust, parameters[1]), None)


def _ratings(
    form: Format, table: pd.DataFrame, source: Source, trust: tuple[Given | None, str], client: Named | None
) -> Ratings:
    """Return the whole set, from the rows of ratings; `trust` is that table and what errors call it."""
    user, user_ids = encode(table, form.user, source)
    item, item_ids = encode(table, form.item, source)
    category, category_names = np.zeros(len(table), np.int64), np.array(["all"])
    if form.category in table:
        category, category_names = encode(table, form.category, source)
    rating = numbers(table, form.rating, source)
    scale, notes = _scale(form, rating, source)
    links, dropped = _links(form, *trust, user_ids)
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
        split=splits_of(table, form.split, source) if form.split in table else None,
        time=times_of(table, form.time, source) if form.time in table else None,
        notes=(*notes, *dropped),
    )


def _scale(form: Format, rating: Array, source: Source) -> tuple[tuple[float, float], list[str]]:
    options = f"{form.owner}.low", f"{form.owner}.high"
    low = float(rating.min()) if form.low is None else form.low
    high = float(rating.max()) if form.high is None else form.high
    outside = np.flatnonzero((rating < low) | (rating > high))
    if len(outside):
        raise InputError(
            f"{row_of(source, outside[0])}: {form.rating!r} must be within {low:g}..{high:g} "
            f"({'..'.join(options)}); got {rating[outside[0]]:g} ({len(outside)} such rows)."
        )
    if low >= high:
        raise InputError(
            f"{source[0][0]}: every rating is {low:g}; set {' and '.join(options)} to the lowest and highest possible."
        )
    missing = [name for name, bound in zip(options, (form.low, form.high), strict=True) if bound is None]
    note = f"Scale {low:g}..{high:g} is what the ratings span; set {' and '.join(missing)} if more is possible."
    return (low, high), [note] if missing else []


def _links(form: Format, trust: Given | None, parameter: str, user_ids: Array) -> tuple[Ids, list[str]]:
    """Return trust links, int64 [2, m] numbers of users, and notes."""
    if trust is None:
        return np.zeros((2, 0), np.int64), []
    wanted = {f"{form.owner}.trust_user": form.trust_user, f"{form.owner}.trust_target": form.trust_target}
    table, source = read_table(trust, parameter, wanted, [], may_be_empty=True)
    ends = []
    for column in wanted.values():
        codes, names = encode(table, column, source)
        place = np.minimum(np.searchsorted(user_ids, names), len(user_ids) - 1)
        known = np.where(user_ids[place] == names, place, -1)
        ends.append(known[codes] if len(codes) else codes)
    links = np.stack(ends)
    unknown = (links < 0).any(axis=0)
    if not unknown.any():
        return links, []
    if form.unknown_trust == "error":
        row = int(np.flatnonzero(unknown)[0])
        column = form.trust_user if links[0, row] < 0 else form.trust_target
        raise InputError(
            f"{row_of(source, row)}: {column!r} must be a user with a rating; got {str(table[column].iloc[row])!r} "
            f"({int(unknown.sum())} such rows). {form.owner}.unknown_trust = 'drop' leaves them out."
        )
    return links[:, ~unknown], [f"{int(unknown.sum()):,} trust links with an end that has no rating left out."]
