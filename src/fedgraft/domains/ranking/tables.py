"""Reads a user's own interactions and items from tables, with errors that name file, row, column and value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedgraft.contracts.table_files import Given, table_of
from fedgraft.domains.ranking.item_features import Items, Rows, make_features, on_grid
from fedgraft.domains.ranking.shards import Ids, Interactions, RankingShard, last_of_pairs
from fedgraft.domains.tables.columns import (
    Source,
    as_numbers,
    encode,
    folder_of_tables,
    numbers,
    read_table,
    row_of,
    splits_of,
    times_of,
)
from fedgraft.errors import InputError, nearest, unknown
from fedgraft.wire.layouts import Array

TEXT, NUMBERS = "text", "numbers"
"""Names of the modalities that a table of items holds without being told."""


@dataclass(frozen=True)
class Columns:
    """Names of columns, as options of a data set.

    Args:
        owner: what errors call the options: "Interactions" for Interactions.user ...
        user: who; item: what; client: whose, read with partition = "given".
        split: "train", "validation" or "test" where there is such a column.
        time: when, to split by; "" splits at random.
        title: of an item, for people to read, where there is such a column.
        text: columns of items that make their text; None: the title and every column that is not of numbers.
    """

    owner: str
    user: str = "user"
    item: str = "item"
    client: str = "client"
    split: str = "split"
    time: str = ""
    title: str = "title"
    text: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The items that all clients know.

    Args:
        ids: str [items], in the order of their table.
        titles: str [items], or empty.
        features: {modality: float32 [items, width]}.
        where: what errors call it.
    """

    ids: Array
    titles: Array
    features: Mapping[str, Rows]
    where: str

    def places(self, names: Array) -> Ids:
        """Return where each name stands among the items, int64; -1 where it does not."""
        order = np.argsort(self.ids, kind="stable")
        place = order[np.minimum(np.searchsorted(self.ids, names, sorter=order), len(order) - 1)]
        return np.where(self.ids[place] == names, place, -1)


def read_catalogue(
    form: Columns,
    items: Given | None,
    taken: Sequence[str],
    sources: Mapping[str, str | Sequence[str]],
    images: object,
    width: int,
) -> Catalogue:
    """Read the items and what is known of them.

    Args:
        form: names of columns.
        items: one row per item; None where the items are those that are taken, in ascending order of ids.
        taken: ids of items with an interaction; not looked at where there is a table.
        sources: {modality: a source of `item_features`, or columns of numbers}.
        images: the folder of images.
        width: of features from texts.
    """
    if items is None:
        ids, where, table, source = np.array(sorted({*taken})), "the catalogue", None, [("", 0)]
        if given := [modality for modality, of in sources.items() if not str(of).endswith(".npy")]:
            raise InputError(f"{form.owner}.items must be given, a table of items: features {given[0]!r} need it.")
    else:
        wanted = {f"{form.owner}.item": form.item}
        every = [str(column) for column in table_of(items, f"{form.owner}.items").columns]
        table, source = read_table(items, f"{form.owner}.items", wanted, every)
        code, names = encode(table, form.item, source)
        if len(names) < len(code):
            row = int(np.flatnonzero(pd.Series(code).duplicated())[0])
            raise InputError(f"{row_of(source, row)}: item {str(names[code[row]])!r} is listed twice.")
        ids, where = names[code], source[0][0]
    made: dict[str, Rows] = {}
    texts = [""] * len(ids) if table is None else _texts(form, table, where)
    known = Items(ids, texts, np.arange(len(ids)), len(ids), where)
    for modality, of in sources.items():
        if isinstance(of, str):
            made |= make_features(form.owner, {modality: of}, known, images, width)
        elif table is not None:
            made[modality] = _standardised(table, of, source, f"{form.owner}.features")
    titled = table is not None and form.title in table
    titles = _text(table[form.title]) if table is not None and titled else []
    return Catalogue(ids, np.array(titles, dtype=np.str_), made, where)


def usual_sources(form: Columns, items: Given | None) -> dict[str, str | Sequence[str]]:
    """Return {modality: source} of all that a table of items tells: its texts, and its columns of numbers."""
    if items is None:
        return {}
    table = table_of(items, f"{form.owner}.items")
    table = table.set_axis([str(column) for column in table.columns], axis=1)
    of_numbers = [column for column in _others(form, table) if _is_numbers(table[column])]
    texts = form.text if form.text is not None else _text_columns(form, table)
    return {**({TEXT: TEXT} if texts else {}), **({NUMBERS: of_numbers} if of_numbers else {})}


def read_taken(form: Columns, given: Given, named: bool) -> tuple[pd.DataFrame, Source]:
    """Read a table of interactions, or a folder of them, one file a client; `named`: whether clients are named."""
    parameter = f"{form.owner}.interactions"
    wanted = {f"{form.owner}.{option}": getattr(form, option) for option in ("user", "item")}
    if form.time:
        wanted[f"{form.owner}.time"] = form.time
    if isinstance(given, pd.DataFrame) or not Path(given).is_dir():
        if named:
            wanted[f"{form.owner}.client"] = form.client
        return read_table(given, parameter, wanted, [form.split])
    if not named:
        raise InputError(
            f"{parameter} = {str(given)!r} is a folder, where each file is a client: {form.owner}.partition must be "
            "'given'."
        )
    tables, source = folder_of_tables(Path(given), parameter, wanted, [form.split])
    frames = [table.assign(**{form.client: name}) for name, table in tables.items()]
    return pd.concat(frames, ignore_index=True), source


def read_interactions(
    form: Columns, table: pd.DataFrame, source: Source, catalogue: Catalogue, named: bool
) -> Interactions:
    """Return the whole set, from rows of interactions; who is at two clients is two users."""
    code, item_ids = encode(table, form.item, source)
    item = catalogue.places(item_ids)[code]
    if len(lost := np.flatnonzero(item < 0)):
        name = str(item_ids[code[lost[0]]])
        raise InputError(
            f"{row_of(source, lost[0])}: item {name!r} is not in {catalogue.where} ({len(lost)} such rows)."
            f"{nearest(name, catalogue.ids.tolist())}"
        )
    person, people = encode(table, form.user, source)
    client, clients = encode(table, form.client, source) if named else (np.zeros_like(person), np.array(["all"]))
    users, user = np.unique(client * len(people) + person, return_inverse=True)
    user_ids = people[users % len(people)]
    kept = last_of_pairs(user, item)
    repeated = len(user) - len(kept)
    user, item = user[kept], item[kept]
    split = splits_of(table, form.split, source)[kept] if form.split in table else None
    if split is not None and form.time:
        options = f"{form.owner}.time = {form.time!r} and the column {form.split!r}"
        raise InputError(f"{options} of {source[0][0]} both say how to split; one is needed.")
    if split is not None and len(idle := np.setdiff1d(user, user[split == 0])):
        name = str(user_ids[idle[0]])
        raise InputError(f"{source[0][0]}: user {name!r} has no interaction for training ({len(idle)} such users).")
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
        time=times_of(table, form.time, source)[kept] if form.time else None,
        notes=(f"{repeated:,} repeated pairs of user and item left out; the last row stands.",) if repeated else (),
    )


def read_own(form: Columns, given: Given, catalogue: Catalogue, parameter: str) -> tuple[RankingShard, int]:
    """Return one client's own interactions, all known, and how many are of items that the catalogue lacks.

    Args:
        form: names of columns.
        given: one row per interaction.
        catalogue: the items of the run.
        parameter: what errors call the table.
    """
    wanted = {f"{form.owner}.{option}": getattr(form, option) for option in ("user", "item")}
    table, source = read_table(given, parameter, wanted)
    code, item_ids = encode(table, form.item, source)
    item = catalogue.places(item_ids)[code]
    kept = np.flatnonzero(item >= 0)
    if not len(kept):
        name = str(item_ids[0])
        raise InputError(f"{row_of(source, 0)}: no item of the table is in {catalogue.where}, such as {name!r}.")
    user, user_ids = encode(table.iloc[kept], form.user, [(source[0][0], len(kept))])
    rows = last_of_pairs(user, item[kept])
    shard = RankingShard(
        name="own",
        user=user[rows],
        item=item[kept][rows],
        split=np.zeros(len(rows), np.int8),
        user_ids=user_ids,
        item_ids=catalogue.ids,
        features=catalogue.features,
        titles=catalogue.titles,
    )
    return shard, len(code) - len(kept)


def _others(form: Columns, table: pd.DataFrame) -> list[str]:
    """Columns that say something of items."""
    return [str(column) for column in table if column not in (form.item, form.title)]


def _is_numbers(values: pd.Series) -> bool:
    parsed = as_numbers(values)
    return bool(np.isfinite(parsed).any() and (np.isfinite(parsed) | values.isna().to_numpy()).all())


def _text_columns(form: Columns, table: pd.DataFrame) -> list[str]:
    title = [form.title] if form.title in table else []
    return [*title, *(column for column in _others(form, table) if not _is_numbers(table[column]))]


def _texts(form: Columns, table: pd.DataFrame, where: str) -> list[str]:
    """Each item's texts, joined."""
    columns = _text_columns(form, table) if form.text is None else list(form.text)
    for column in columns:
        if column not in table:
            raise unknown(f"column of {where} ({form.owner}.text)", column, table.columns)
    parts = [_text(table[column]) for column in columns]
    return [" ".join(filter(None, row)) for row in zip(*parts, strict=True)] or [""] * len(table)


def _text(values: pd.Series) -> list[str]:
    return ["" if lacking else str(value) for value, lacking in zip(values, values.isna(), strict=True)]


def _standardised(table: pd.DataFrame, columns: Sequence[str], source: Source, option: str) -> Rows:
    """Columns of numbers with mean 0 and variance 1 over the items; those that are all equal become 0."""
    for column in columns:
        if column not in table:
            raise unknown(f"column of {source[0][0]} ({option})", column, table.columns)
    rows: NDArray[np.float64] = np.stack([numbers(table, column, source) for column in columns], axis=1)
    centred, spread = rows - rows.mean(axis=0), rows.std(axis=0)
    return on_grid(np.divide(centred, spread, out=np.zeros_like(rows), where=spread > 1e-12 * np.abs(rows).max(axis=0)))
