"""What is made of columns of features: one transform for each, the same at all clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgraft.domains.examples import Features, compact
from fedgraft.domains.tables.columns import Columns, some
from fedgraft.wire.layouts import Array

Floats = NDArray[np.float64]

Transform: TypeAlias = Mapping[str, Any]
"""What is made of a column; {} leaves it as it is.

"mean", "spread": taken off, divided by; "unit": of the signed logarithm that is taken before; "missing": true where a
column of 0 and 1 beside it says which cells were empty, whose number is the mean, or "fill"; "values": the texts, a
column of 0 and 1 each.
"""


def formed(numbers: Floats, unit: float | None) -> Floats:
    """Return numbers as they are, or their signed logarithm in a unit."""
    return numbers if unit is None else np.sign(numbers) * np.log1p(np.abs(numbers) / unit)


_PLAIN: Final = '''"""Features that the model reads, from a table with the columns of the training data."""

import numpy as np
import pandas as pd

COLUMNS = {{
{columns}}}
"""What is made of each column: "mean" taken off and divided by "spread", of sign(x) log(1 + |x| / unit) where there is
a "unit"; a column of 0 and 1 for each of "values"; where "missing", one more that says which cells were empty."""
NAMES = {names}
"""Of the features, in order."""


def features(table: pd.DataFrame, columns: dict = COLUMNS) -> np.ndarray:
    """Return float32 [rows, features]."""
    parts = []
    for name, column in columns.items():
        empty = table[name].isna().to_numpy()
        if "values" in column:
            text = table[name].astype(str).to_numpy()
            parts += [(text == value) & ~empty for value in column["values"]]
        else:
            x = pd.to_numeric(table[name]).to_numpy(np.float64, na_value=np.nan)
            if "unit" in column:
                x = np.sign(x) * np.log1p(np.abs(x) / column["unit"])
            if "spread" in column:
                x = (x - column["mean"]) / column["spread"]
            parts.append(np.where(empty, 0.0 if "spread" in column else column.get("fill", 0.0), x))
        if column.get("missing"):
            parts.append(empty)
    return np.stack(parts, axis=1).astype(np.float32) if parts else np.zeros((len(table), 0), np.float32)
'''
_PLAIN_EDGES: Final = '''
EDGE_COLUMNS = {{
{columns}}}
"""What is made of each column of edges, likewise."""


def edge_features(table: pd.DataFrame) -> np.ndarray:
    """Return float32 [edges, columns]."""
    return features(table, EDGE_COLUMNS)
'''


@dataclass(frozen=True)
class Transforms:
    """One transform per column, {name: transform}; other columns stay as they are."""

    by_name: Mapping[str, Transform]

    def names(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the features that columns become, in order."""
        return tuple(each for name in columns for each in self._parts(name))

    def sources(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the column that each feature is made of, in order."""
        return tuple(name for name in columns for _ in self._parts(name))

    def _parts(self, name: str) -> list[str]:
        transform = self.by_name.get(name, {})
        parts = [f"{name}={value}" for value in transform["values"]] if "values" in transform else [name]
        return [*parts, *([f"{name} is missing"] if transform.get("missing") else [])]

    @property
    def added(self) -> int:
        """int, columns that say which numbers were missing."""
        return sum(bool(each.get("missing")) for each in self.by_name.values())

    @property
    def texts(self) -> tuple[str, ...]:
        """Names of the columns of texts."""
        return tuple(name for name, transform in self.by_name.items() if "values" in transform)

    @property
    def scales(self) -> bool:
        """Whether a column of numbers is brought to another size."""
        return any("spread" in each for each in self.by_name.values())

    def features(self, columns: Columns) -> Features:
        """Return the features, float32 [rows, features], dense, or CSR where few are other than zero."""
        if not self.by_name and not columns.texts:
            with np.errstate(over="ignore"):
                return compact(columns.numbers.astype(np.float32))
        if not isinstance(columns.numbers, np.ndarray):
            return self._sparse(columns)
        return compact(self.dense(columns).astype(np.float32))

    def dense(self, columns: Columns) -> Floats:
        """Return the features, float64 [rows, features]."""
        place = {name: number for number, name in enumerate(columns.numeric)}
        parts: list[Floats] = []
        numbers = columns.numbers if isinstance(columns.numbers, np.ndarray) else columns.numbers.toarray()
        for name in columns.names:
            if name in columns.texts:
                parts += self._of_texts(name, columns.texts[name])
            else:
                parts += self._of_numbers(name, numbers[:, place[name]])
        return np.stack(parts, axis=1) if parts else np.zeros((len(columns), 0))

    def _of_numbers(self, name: str, values: Floats) -> list[Floats]:
        transform = self.by_name.get(name, {})
        lost = np.isnan(values)
        if "spread" in transform:
            values = (formed(values, transform.get("unit")) - transform["mean"]) / transform["spread"]
        filled = np.where(lost, 0.0 if "spread" in transform else transform.get("fill", 0.0), values)
        return [filled, lost.astype(np.float64)] if transform.get("missing") else [filled]

    def _of_texts(self, name: str, values: Array) -> list[Floats]:
        transform = self.by_name.get(name, {"values": ()})
        parts = [np.asarray(values == value, np.float64) for value in transform["values"]]
        lost = np.array([value is None for value in values], np.float64)
        return [*parts, *([lost] if transform.get("missing") else [])]

    def plain(self, columns: Sequence[str]) -> str:
        """Return a Python module with a function `features(table)`, from a table with these columns."""
        return _PLAIN.format(columns=self._listed(columns), names=list(self.names(columns)))

    def plain_edges(self, columns: Sequence[str]) -> str:
        """Return the text of `edge_features(table)` behind that module, from a table of edges with these columns."""
        return _PLAIN_EDGES.format(columns=self._listed(columns))

    def _listed(self, columns: Sequence[str]) -> str:
        return "".join(f"    {name!r}: {dict(self.by_name.get(name, {}))!r},\n" for name in columns)

    def unknown(self, columns: Columns) -> list[str]:
        """Return notes on texts that have no column of their own."""
        notes = []
        for name, values in columns.texts.items():
            known = {None, *self.by_name.get(name, {}).get("values", ())}
            if others := [value for value in values.tolist() if value not in known]:
                distinct = sorted(set(others))
                notes.append(f"Feature {name!r}: {some(distinct)} in {len(others):,} rows count as none: too few rows.")
        return notes

    def _sparse(self, columns: Columns) -> Features:
        """Of a CSR the columns that change are dense inside it."""
        changed = [number for number, name in enumerate(columns.numeric) if name in self.by_name]
        matrix, names = sparse.csr_matrix(columns.numbers), columns.numeric
        kept = matrix.tolil(copy=True) if changed else matrix
        for number in changed:
            column = matrix[:, number].toarray().ravel()
            kept[:, number] = self._of_numbers(names[number], column)[0][:, None]
        return compact(sparse.csr_matrix(kept, dtype=np.float32))


def notes_on(published: Sequence[Any], transforms: Mapping[str, Transform], what: str = "Features") -> list[str]:
    """Return notes on what is made of columns: which are brought to one size, stay, are texts, lack numbers.

    `what` is what they call the columns.
    """
    if not published:
        return []
    groups: dict[str, list[str]] = {}
    texts = published[0]["texts"]
    filled = [sum(map(int, counts)) for counts in zip(*(each["count"] for each in published), strict=True)]
    numeric = [name for name in published[0]["names"] if name not in texts]
    empty = {name for name, count in zip(numeric, filled, strict=True) if not count}
    for name in published[0]["names"]:
        transform = transforms.get(name, {})
        if name in empty:
            groups.setdefault("empty", []).append(name)
            continue
        group = "logarithm" if "unit" in transform else "standard" if "spread" in transform else "kept"
        groups.setdefault("texts" if "values" in transform else group, []).append(name)
        if transform.get("missing"):
            groups.setdefault("missing", []).append(name)
    says = {
        "standard": "brought to mean 0 and variance 1 over all clients",
        "logarithm": "likewise, their signed logarithm",
        "texts": "a column of 0 and 1 for each text",
        "kept": "left as they are",
        "empty": "empty in every row",
        "missing": "some cells are empty: the mean, and a column of 0 and 1 beside it",
    }
    parts = [f"{some(groups[group])}: {text}" for group, text in says.items() if group in groups]
    return [f"{what}: {'; '.join(parts)} (data.scaling)."] if transforms else []
