"""Columns of features as a user's table holds them: numbers, of which some are missing, and texts."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.domains.examples import Features, Parallel
from fedgraft.domains.notes import LOG
from fedgraft.domains.tables.rows import Cells, Rows, as_numbers
from fedgraft.errors import InputError, nearest
from fedgraft.wire.layouts import Array

Numbers: TypeAlias = "NDArray[np.float64] | sparse.csr_matrix"
"""float64 [rows, columns], nan where a number is missing; or a CSR without any that is missing."""
Texts: TypeAlias = NDArray[np.object_]
"""[rows], None where a text is missing."""

MISSING: Final = frozenset(
    {"", "#n/a", "n/a", "na", "nan", "-nan", "null", "none", "<na>", "nat", "?", "-", "missing", "unknown"}
)
"""Texts that stand for nothing in a column of numbers, in lower case."""
TRUTHS: Final = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
"""Texts that are the numbers 1 and 0, in lower case."""


@dataclass(frozen=True, eq=False)
class Columns(Parallel):
    """Columns of features, in the order of `names`; those that are not among `texts` are of `numbers`, in order.

    Args:
        names: of all columns.
        numbers: float64 [rows, columns of numbers].
        texts: {name of a column of texts: object [rows]}.
    """

    names: tuple[str, ...]
    numbers: Numbers
    texts: Mapping[str, Texts]

    def __len__(self) -> int:
        return int(self.numbers.shape[0])

    @property
    def numeric(self) -> tuple[str, ...]:
        """Names of the columns of numbers, in order."""
        return tuple(name for name in self.names if name not in self.texts)

    def filled(self, name: str) -> NDArray[np.bool_]:
        """Return which cells of a column are filled in, bool [rows]."""
        if name in self.texts:
            return np.array([value is not None for value in self.texts[name]], bool)
        numbers = self.numbers[:, self.numeric.index(name)]
        return ~np.isnan(numbers if isinstance(numbers, np.ndarray) else numbers.toarray().ravel())

    def frame(self) -> pd.DataFrame:
        """Return the columns as a table, empty where something is missing."""
        numbers = self.numbers if isinstance(self.numbers, np.ndarray) else self.numbers.toarray()
        place = {name: number for number, name in enumerate(self.numeric)}
        columns = {name: self.texts[name] if name in self.texts else numbers[:, place[name]] for name in self.names}
        return pd.DataFrame(columns, index=range(len(self)))


def read_columns(rows: Rows, names: Sequence[str], hint: str = "", texts: Sequence[str] | None = None) -> Columns:
    """Return columns of a table by name; `hint` ends the error about a cell that is neither number nor text of many.

    A column holds texts where more than half of what is filled in is no number; `texts` says which do, None = look.
    "NA", "null", "?" and the like are missing numbers; columns of true and false are 1 and 0.
    """
    numbers, found = [], {}
    for name in names:
        cells = rows.column(name)
        if name in texts if texts is not None else _is_text(cells):
            found[name] = _texts(cells)
        else:
            numbers.append(_numbers(cells, hint))
    matrix = np.stack(numbers, axis=1) if numbers else np.zeros((len(rows), 0))
    return Columns(tuple(names), matrix, found)


def _is_text(cells: Cells) -> bool:
    kinds, dtype = pd.api.types, cells.values.dtype
    if not (kinds.is_object_dtype(dtype) or kinds.is_string_dtype(dtype) or isinstance(dtype, pd.CategoricalDtype)):
        return False
    parsed, known = _parsed(cells)
    return int((known & ~np.isfinite(parsed)).sum()) * 2 > int(known.sum())


def _texts(cells: Cells) -> Texts:
    if lists := cells.lists():
        raise lists
    values = np.full(len(cells), None, object)
    if len(cells.filled):
        code, names = cells.take(cells.filled).codes()
        values[cells.filled] = names.astype(object)[code]
    return values


def _numbers(cells: Cells, hint: str) -> NDArray[np.float64]:
    """float64 [cells], nan for what is missing. Raises `InputError` for what is no number that float32 holds."""
    parsed, known = _parsed(cells)
    wrong = known & ~(np.abs(parsed) <= np.finfo(np.float32).max)
    if wrong.any():
        raise cells.error(wrong, "a finite number, as a feature", hint=hint)
    return np.where(known, parsed, np.nan)


def _parsed(cells: Cells) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(float64 [cells], nan where there is no number; bool [cells], which are filled in)."""
    values, known = cells.values, cells.values.notna().to_numpy().copy()
    if pd.api.types.is_bool_dtype(values.dtype):
        return values.to_numpy(np.float64, na_value=np.nan), known
    parsed = as_numbers(values)
    if len(unclear := np.flatnonzero(known & ~np.isfinite(parsed))) and not pd.api.types.is_numeric_dtype(values.dtype):
        lower = [str(value).strip().lower() for value in values.iloc[unclear]]
        known[unclear[np.array([text in MISSING for text in lower], bool)]] = False
        if not np.isfinite(parsed[known]).any():
            parsed[unclear] = [TRUTHS.get(text, np.nan) for text in lower]
    return parsed, known


def of_matrix(values: Array | sparse.csr_matrix, where: str) -> Columns:
    """Return the columns of an array or CSR of numbers [rows, columns], named "0", "1" ...

    nan is a missing number. Raises `InputError` for an infinite one; `where` names the array.
    """
    stored = values if isinstance(values, np.ndarray) else values.data
    if (infinite := np.isinf(stored)).any():
        whole = values if isinstance(values, np.ndarray) else values.toarray()
        row, column = (int(axis[0]) for axis in np.nonzero(np.isinf(whole)))
        raise InputError(
            f"{where}: features must be finite numbers, or nan where one is missing; got inf as feature {column} of "
            f"node {row} ({int(infinite.sum())} such values)."
        )
    if not isinstance(values, np.ndarray) and np.isnan(stored).any():
        values = values.toarray()
    matrix = values.astype(np.float64)
    return Columns(tuple(map(str, range(values.shape[1]))), matrix, {})


ColumnReader: TypeAlias = Callable[[Rows, Sequence[str]], Columns]
"""Reads columns of features from rows, by names."""


# --- features ---------------------------------------------------------------------------------------------------------


SHOWN = 5
"""Names in a message before it breaks off."""


def some(names: Sequence[str]) -> str:
    """Return the first names, in quotes, with "..." where there are more."""
    return ", ".join([*map(repr, names[:SHOWN]), *(["..."] if len(names) > SHOWN else [])])


def feature(cells: Cells, empty_is_zero: bool = False) -> NDArray[np.float64]:
    """Return a column of features as numbers, float64 [cells]; an empty one may stand for zero.

    Raises `InputError`, which names the first row, where one is no finite number.
    """
    parsed = as_numbers(cells.values)
    if empty_is_zero:
        parsed = np.where(cells.values.isna(), 0.0, parsed)
    # What float32 cannot hold is infinite in it.
    wrong = ~(np.abs(parsed) <= np.finfo(np.float32).max)
    if wrong.any():
        raise cells.error(wrong, "a finite number, as a feature")
    return parsed


def known_features(rows: Rows, columns: Sequence[str], is_sparse: bool, what: str, others: Collection[str]) -> Features:
    """Return the features that a model knows, float32 [rows, columns], dense or CSR, in the order of `columns`.

    Where they are sparse, what is missing is 0, and other columns are noted, but for those of `others`, which have
    another role and could not be meant to be features. `what` is what errors call a feature.
    """
    place = {name: number for number, name in enumerate(columns)}
    if not is_sparse:
        check_present(rows, columns, what, others)
    there = dict.fromkeys(name for name in rows if name not in others)
    present, missing = [name for name in columns if name in there], [name for name in columns if name not in there]
    unknown = [name for name in there if name not in place]
    if not present:
        check_present(rows, columns, what, others)
    if missing and unknown:
        LOG.warning(f"{rows.where}: column {unknown[0]!r} is no feature ({len(unknown)} such columns).")
    values = np.zeros((len(rows), len(columns)), np.float32)
    for name in present:
        values[:, place[name]] = feature(rows.column(name), empty_is_zero=is_sparse)
    return sparse.csr_matrix(values) if is_sparse else values


def own_features(rows: Rows, others: Collection[str], names: Sequence[str], is_sparse: bool) -> Features:
    """Return columns of a client's own nodes as a model knows them; arguments as of `known_features`."""
    return known_features(rows, names, is_sparse, "a feature of the run's data", others)


def check_present(rows: Rows, columns: Sequence[str], what: str, others: Collection[str]) -> None:
    """Raise `InputError` where a column is not there; arguments as of `known_features`."""
    if missing := [name for name in columns if name not in rows.frame]:
        hint = nearest(missing[0], [name for name in rows if name not in others and name not in columns])
        raise InputError(f"{rows.where}: no column {missing[0]!r}, {what} ({len(missing)} such columns).{hint}")


def new_features(
    rows: Rows, columns: Sequence[str], like: Features, ids: NDArray[np.object_], near: Callable[[int], Iterable[str]]
) -> Features:
    """Return the features of new nodes that questions bring, float32 [rows, columns], dense or sparse as `like`.

    `like` has no rows of the features that clients have. There may be no rows of questions. The nodes' ids are object
    [rows]; `near` returns those that a new node can be meant to have. Raises `InputError` for a new node without any
    feature: its id is taken for wrong, not for new.
    """
    check_given(rows, columns, ids, near)
    if not len(rows):
        return like
    what = f"a feature of new node {ids[0]!r}"
    return known_features(rows, columns, not isinstance(like, np.ndarray), what, ("node", "client"))


def check_given(
    rows: Rows, columns: Sequence[str], ids: NDArray[np.object_], near: Callable[[int], Iterable[str]]
) -> None:
    """Raise `InputError` for a new node without any feature; arguments as `new_features`."""
    without = rows.frame[[name for name in columns if name in rows.frame]].isna().all(axis=1).to_numpy()
    if without.any():
        first = int(without.argmax())
        end = f".{nearest(ids[first], near(first))} A new node needs its features, in columns {some(columns)}."
        raise rows.error(without, f"no client has a node {ids[first]!r}", end=end)
