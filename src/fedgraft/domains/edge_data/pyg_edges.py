"""What the edges of a PyG object carry, as the table that says the same: `edge_attr`, weights and times."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from fedgraft.domains.tables import pyg_objects as pyg
from fedgraft.domains.tables.schema import Names
from fedgraft.errors import InputError, nearest
from fedgraft.wire.layouts import Array

VALUES: Final = "edge_attr"
READ_BY: Final = {
    VALUES: "data.edge_features = 'all'",
    "edge_weight": "data.weight = 'edge_weight'",
    "edge_time": "data.time = 'edge_time'",
}
"""What edges of an object may carry, and the option that reads it."""


def reads_edges(names: Names) -> bool:
    """Return whether an option names something that edges carry."""
    return bool(names["edge_features"] != () or names["weight"] or names["time"])


def unread(data: Any, where: str, names: Names) -> list[str]:
    """Return a note on each of `READ_BY` that is there and that no option reads."""
    asked = {names["weight"], names["time"], VALUES if names["edge_features"] != () else ""}
    there = [key for key in READ_BY if key not in asked and getattr(data, key, None) is not None]
    return [f"{where}.{key} is not read; {READ_BY[key]} would." for key in there]


def table_of_edges(data: Any, where: str, names: Names) -> pd.DataFrame:
    """Return the edges of an object as a table; arguments as of `columns_of_edges`."""
    return pd.DataFrame(columns_of_edges(data, where, names))


def columns_of_edges(data: Any, where: str, names: Names, owner: str = "Nodes") -> dict[str, Array]:
    """{name: [edges]} of an object: ends by position, columns of `edge_attr` "0", "1" ..., weight, time.

    The last two are the attributes that options of the `owner` name, one number per edge. Raises `InputError`, naming
    the attribute.
    """
    given = data.edge_index
    ends = pyg.ends_of(np.zeros((2, 0), np.int64) if given is None else given, f"{where}.edge_index")
    columns: dict[str, Array] = {names["source"]: ends[0], names["target"]: ends[1]}
    if (given := getattr(data, VALUES, None)) is not None:
        values = _of_edges(given, ends.shape[1], f"{where}.{VALUES}")
        columns |= {str(place): values[:, place] for place in range(values.shape[1])}
    for role in ("weight", "time"):
        if not (name := names[role]):
            continue
        if (given := getattr(data, name, None)) is None:
            raise InputError(f"{where} has no {name!r} ({owner}.{role}).{nearest(name, vars_of(data))}")
        values = _of_edges(given, ends.shape[1], f"{where}.{name}")
        if values.shape[1] != 1:
            raise InputError(f"{where}.{name} must be one number per edge; got {list(values.shape)}.")
        columns[name] = values[:, 0]
    return columns


def cross_client_edges(objects: Mapping[str, Any], names: Names) -> dict[str, Array]:
    """Return what edges of several objects carry, one after another, as attributes of one; by what errors call them."""
    attributes: dict[str, Array] = {}
    for key in dict.fromkeys((VALUES, names["weight"], names["time"])):
        lacking = [where for where, each in objects.items() if getattr(each, key or "", None) is None]
        if not key or len(lacking) == len(objects):
            continue
        if lacking:
            raise InputError(f"{lacking[0]} has no {key!r}, which other clients' objects have.")
        parts = [_of_edges(getattr(each, key), None, f"{where}.{key}") for where, each in objects.items()]
        if odd := [part.shape[1] for part in parts if part.shape[1] != parts[0].shape[1]]:
            raise InputError(f"{key!r} must be as wide at all clients: {parts[0].shape[1]}; got {odd[0]}.")
        attributes[key] = np.concatenate(parts)
    return attributes


def vars_of(data: Any) -> Sequence[str]:
    """Return the names of an object's attributes."""
    return [str(key) for key in (data.keys() if callable(getattr(data, "keys", None)) else vars(data))]


def _of_edges(given: Any, edges: int | None, where: str) -> Array:
    """An attribute of edges, numbers [edges, width]."""
    values = pyg.numpy_of(given, where)
    values = values[:, None] if values.ndim == 1 else values
    count = len(values) if edges is None else edges
    if values.ndim != 2 or len(values) != count or values.dtype.kind not in "iufb":
        raise InputError(f"{where} must be numbers of shape [{count}, n]; got {values.dtype} of {list(values.shape)}.")
    return values
