"""Bring columns of features to one size by statistics of all clients, of which none tells a single row.

A client publishes of each column of numbers how many there are, their mean, spread and skewness, and of each column of
texts how many rows have which; the server answers with one transform per column, the same for all.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.domains.examples import SPARSE
from fedgraft.domains.tables.columns import Columns, Numbers
from fedgraft.domains.tables.transforms import Transforms, formed
from fedgraft.errors import InputError
from fedgraft.wire.layouts import Array, Tree

Floats = NDArray[np.float64]
Scaling: TypeAlias = Literal["auto", "standard", "rows", "none"]

UNITS: Final = (None, 1e-3, 1.0)
"""Forms of a column: as it is, or its signed logarithm sign(x) log(1 + |x| / unit)."""
HEAVY: Final = 3.0
"""Skewness from which on a logarithm is taken, if it has less than half of it; an exponential distribution has 2."""
RARE: Final = 0.25
"""Share of numbers other than zero below which a column without negative ones can be of a bag of words."""
MANY: Final = 32
"""Such columns that make a bag of words."""
MOST_TEXTS: Final = 64
"""Different texts of a column, each with a column of its own."""

FEATURES: Final = "data.features"
"""What errors call the option that names columns."""

UNKNOWN, BINARY, WORDS, NUMBER = range(4)
"""What a client says of a column of numbers: too few rows to tell; 0 and 1; part of a bag of words; other numbers."""


# --- what a client publishes ------------------------------------------------------------------------------------------


def statistics_of(
    columns: Columns, least: int, scaling: Scaling, where: str, own: bool = False, option: str = FEATURES
) -> dict[str, Tree]:
    """Return what a client publishes of its columns of features; `where` names its table in errors, `option` these.

    Nothing is told that fewer than `least` rows are behind: of a column with fewer numbers its kind is `UNKNOWN`, and a
    text of fewer rows is left out. Clients may have columns of their `own`: one that is empty is none of this client's,
    and no number of it is missing.
    """
    count, kinds, moments = _of_numbers(columns.numbers, least, scaling == "standard")
    missing = (count < len(columns)) & (~np.array(own) | (count > 0))
    return {
        "rows": len(columns),
        "names": list(columns.names),
        "kinds": kinds,
        "count": count.astype(np.uint32),
        "missing": missing.astype(np.uint8),
        "moments": moments.astype(np.float32),
        "filled": _other_than_zero(columns.numbers, kinds),
        "texts": {name: _of_texts(values, least, name, where, option) for name, values in columns.texts.items()},
    }


def _of_numbers(numbers: Numbers, least: int, every: bool) -> tuple[Array, Array, Floats]:
    """(count int64 [columns], kind uint8 [columns], mean, spread, skewness of each form [columns of `NUMBER`, 9]).

    `every` column is of other numbers than 0 and 1 or a bag of words, whatever it holds.
    """
    if not isinstance(numbers, np.ndarray):
        return _of_sparse(numbers, least, every)
    known = np.isfinite(numbers)
    count = known.sum(axis=0)
    zero, binary = known & (numbers == 0), known & ((numbers == 0) | (numbers == 1))
    rest = count - zero.sum(axis=0)
    negative = np.asarray((known & (numbers < 0)).any(axis=0))
    kinds = _kinds(count, rest, negative, binary.sum(axis=0) == count, every)
    kinds[count < least] = UNKNOWN
    return count, kinds, _moments(numbers[:, kinds == NUMBER])


def _of_sparse(numbers: sparse.csr_matrix, least: int, every: bool) -> tuple[Array, Array, Floats]:
    by_column = numbers.tocsc()
    rows, width = numbers.shape
    column = np.repeat(np.arange(width), np.diff(by_column.indptr))
    count, rest = np.full(width, rows), np.bincount(column[by_column.data != 0], minlength=width)
    negative = np.bincount(column[by_column.data < 0], minlength=width) > 0
    ones = np.bincount(column[by_column.data == 1], minlength=width)
    kinds = _kinds(count, rest, negative, ones == rest, every)
    kinds[count < least] = UNKNOWN
    return count, kinds, _moments(by_column[:, np.flatnonzero(kinds == NUMBER)].toarray())


def _other_than_zero(numbers: Numbers, kinds: Array) -> list[Tree]:
    """How many cells are other than zero in all columns of `NUMBER`, and in all others."""
    if isinstance(numbers, np.ndarray):
        filled = (np.isfinite(numbers) & (numbers != 0)).sum(axis=0)
    else:
        filled = np.asarray((numbers != 0).sum(axis=0)).ravel()
    return [int(filled[kinds == NUMBER].sum()), int(filled[kinds != NUMBER].sum())]


def _kinds(count: Array, rest: Array, negative: Array, binary: Array, every: bool) -> Array:
    """uint8 [columns]; `rest` are numbers other than zero."""
    if every:
        return np.full(len(count), NUMBER, np.uint8)
    kinds = np.where(binary, BINARY, NUMBER).astype(np.uint8)
    words = (rest < RARE * count) & ~negative
    if int(words.sum()) >= MANY:
        kinds[words] = WORDS
    return kinds


def _moments(numbers: Floats) -> Floats:
    """float64 [columns, 3 forms x (mean, spread, skewness)], of the numbers that there are."""
    parts = []
    for unit in UNITS:
        values = formed(numbers, unit)
        mean = np.nanmean(values, axis=0)
        off = values - mean
        spread = np.sqrt(np.nanmean(off**2, axis=0))
        parts += [mean, spread, np.nanmean((off / np.where(spread > 0, spread, 1.0)) ** 3, axis=0)]
    return np.stack(parts, axis=1)


def _of_texts(values: Array, least: int, name: str, where: str, option: str) -> Tree:
    """{"values": texts of at least so many rows, in their order; "count": of each; "missing": whether one is}."""
    known = values[[each is not None for each in values]].astype(str)
    texts, count = np.unique(known, return_counts=True)
    if len(texts) > MOST_TEXTS:
        raise InputError(
            f"{where}: column {name!r} has {len(texts):,} different texts, such as {str(texts[0])!r}; as a feature it "
            f"may have {MOST_TEXTS}. Name the columns that are features, without it, in {option}."
        )
    kept = count >= least
    return {
        "values": texts[kept].tolist(),
        "count": count[kept].astype(np.uint32),
        "missing": bool(len(known) < len(values)),
    }


# --- what all agree on ------------------------------------------------------------------------------------------------


def agreed(published: Sequence[Any], scaling: Scaling, option: str = FEATURES) -> dict[str, dict[str, Any]]:
    """Return the transforms {column: transform} of what clients published; columns that stay as they are left out.

    `option` is what errors call the one that names them.
    """
    for client, each in enumerate(published):
        _check(each, client)
    first = published[0]
    names, texts = list(first["names"]), set(first["texts"])
    for each in published[1:]:
        if list(each["names"]) != names:
            raise InputError(f"Clients' columns of features must be alike; got {names} and {list(each['names'])}.")
        if differ := sorted(texts ^ set(each["texts"])):
            raise InputError(f"Column {differ[0]!r} holds numbers at one client and texts at another; {option}.")
    numeric = [name for name in names if name not in texts]
    number = iter(_agreed_numbers(published, len(numeric), scaling))
    transforms = {
        name: _agreed_texts([each["texts"][name] for each in published], name, option)
        if name in texts
        else next(number)
        for name in names
    }
    return {name: transform for name, transform in transforms.items() if transform}


def all_alike(published: Sequence[Any]) -> dict[str, Any]:
    """Return what must be the same at all clients, {option of a task: value}, from what each has published of it.

    Raises `InputError` where two differ.
    """
    for client, each in enumerate(published):
        if not isinstance(each, dict) or each.keys() != published[0].keys():
            raise InputError(f"Client {client} has published something else than client 0 of what all have alike.")
        for name, value in each.items():
            if value != published[0][name]:
                raise InputError(
                    f"Clients' tables must be alike, or the recipe must say task.{name}: it is {published[0][name]} by "
                    f"those of client 0 and {value} by those of client {client}."
                )
    return {name: tuple(value) if isinstance(value, list) else value for name, value in (published or [{}])[0].items()}


def are_sparse(published: Sequence[Any], transforms: Transforms) -> bool:
    """Return whether few features of all clients together are other than zero, as `compact` asks of one table.

    Of what is brought to another size all cells count.
    """
    filled = size = 0
    for each in published:
        of_numbers, of_others = each["filled"]
        numeric = [name for name in each["names"] if name not in each["texts"]]
        lost = [bool(transforms.by_name.get(name, {}).get("missing")) for name in numeric]
        filled += of_others + (int(each["count"][each["kinds"] == NUMBER].sum()) if transforms.scales else of_numbers)
        filled += sum(int(text["count"].sum()) for text in each["texts"].values())
        filled += int((each["rows"] - each["count"].astype(np.int64))[lost].sum())
        size += each["rows"] * len(transforms.names(each["names"]))
    return filled < SPARSE * size


def _check(published: Any, client: int) -> None:
    """Raise `InputError` for what no client can have published."""
    try:
        names, texts = published["names"], published["texts"]
        width = len([name for name in names if name not in texts])
        arrays = [published[key] for key in ("kinds", "count", "missing")]
        moments, filled = published["moments"], published["filled"]
        sound = (
            len(set(names)) == len(names)
            and set(texts) <= set(names)
            and all(isinstance(each, np.ndarray) and each.shape == (width,) for each in arrays)
            and moments.shape == (int((published["kinds"] == NUMBER).sum()), 3 * len(UNITS))
            and bool(np.isfinite(moments).all())
            and len(filled) == 2
            and all(isinstance(each, int) and each >= 0 for each in filled)
            and all(isinstance(value, str) for each in texts.values() for value in each["values"])
            and all(len(each["values"]) <= MOST_TEXTS and isinstance(each["missing"], bool) for each in texts.values())
        )
    except (KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise InputError(f"Client {client} has published something that is no statistics of its columns of features.")


def _agreed_numbers(published: Sequence[Any], width: int, scaling: Scaling) -> list[dict[str, Any]]:
    kinds = np.stack([each["kinds"] for each in published])
    counts = np.stack([each["count"] for each in published]).astype(np.float64)
    missing = np.asarray(np.stack([each["missing"] for each in published]).any(axis=0))
    moments = np.zeros((len(published), width, 3 * len(UNITS)))
    for place, each in enumerate(published):
        moments[place, kinds[place] == NUMBER] = each["moments"]
    counts[kinds != NUMBER] = 0.0
    transforms = [
        {
            **(_of_moments(moments[:, column], counts[:, column], scaling) if counts[:, column].any() else {}),
            **({"missing": True} if missing[column] else {}),
        }
        for column in range(width)
    ]
    return [{} if each.keys() == {"fill"} else each for each in transforms]


def _of_moments(moments: Floats, count: Floats, scaling: Scaling) -> dict[str, Any]:
    """The transform of one column, from float64 [clients, 9] and how many numbers each client has."""
    merged = [_merged(moments[:, 3 * form : 3 * form + 3], count) for form in range(len(UNITS))]
    mean, spread, skewness = merged[0]
    if scaling in ("rows", "none"):
        return {"fill": mean}
    form = min(range(len(UNITS)), key=lambda each: abs(merged[each][2]))
    unit = UNITS[form]
    if scaling == "auto" and unit and abs(skewness) > HEAVY and abs(merged[form][2]) < abs(skewness) / 2:
        mean, spread, _ = merged[form]
        return {"unit": unit, "mean": mean, "spread": spread or 1.0}
    return {"mean": mean, "spread": spread or 1.0}


def _merged(moments: Floats, count: Floats) -> tuple[float, float, float]:
    """Mean, spread and skewness of the numbers of several clients, float64 [clients, 3], by how many each has."""
    mean, spread, skewness = moments.T
    share = count / count.sum()
    centre = float(share @ mean)
    off = mean - centre
    variance = float(share @ (spread**2 + off**2))
    whole = variance**0.5 or 1.0
    spread, off = spread / whole, off / whole
    return centre, variance**0.5, float(share @ (skewness * spread**3 + 3 * off * spread**2 + off**3))


def _agreed_texts(parts: Sequence[Any], name: str, option: str) -> dict[str, Any]:
    values = sorted({value for part in parts for value in part["values"]})
    if len(values) > MOST_TEXTS:
        raise InputError(
            f"Column {name!r} has {len(values):,} different texts over all clients, as a feature it may have "
            f"{MOST_TEXTS}. Name the columns that are features, without it, in {option}."
        )
    missing = {"missing": True} if any(part["missing"] for part in parts) else {}
    return {"values": values, **missing}
