"""One client's own part of a graph, for a model that is used where the run's data are not."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from fedgraft.contracts.data import ANSWER, OwnShardData, Purpose
from fedgraft.contracts.table_files import SUFFIXES, Given, columns_of, header, table_of
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.tables import EDGES, NODES, no_features, own_part, own_rows
from fedgraft.domains.tables.rows import Rows
from fedgraft.domains.tables.schema import ALL_OTHERS, Names
from fedgraft.errors import InputError, unknown

OWN_NODES, OWN_EDGES = OWN_TABLES = ("data", "data-edges")
"""Names of the tables: one row per node; one row per edge between them."""


class OwnNodes(OwnShardData[NodeShard]):
    """Ability of data sets whose features have no names: read one client's own nodes, features in columns 0, 1 ..."""

    own_tables: ClassVar[tuple[str, ...]] = OWN_TABLES

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> NodeShard:
        """Read one client's nodes and the edges between them."""
        return own_nodes(task, tables, usual_names(features=numbered(task)))


def usual_names(options: object = None, **renamed: Any) -> dict[str, Any]:
    """Return what a data set's options, or these, call the columns of nodes and of edges."""
    return NODES.names(options, **renamed) | EDGES.names(options, **renamed)


def own_nodes(task: Any, tables: Mapping[str, Given], names: Names, check: bool = False) -> NodeShard:
    """Read one client's nodes and the edges between them.

    Args:
        task: the run's.
        tables: both of `OWN_TABLES`.
        names: of their columns; "features" says which, in order.
        check: whether labels, which are not read, must be classes of the run.
    """
    if OWN_EDGES not in tables:
        raise InputError(f"--{OWN_NODES} needs --{OWN_EDGES}, the edges of these nodes; a table without rows for none.")
    rows = own_rows(tables[OWN_NODES], names, f"--{OWN_NODES}")
    if task.classes and not task.class_names:
        raise InputError(
            "task.class_names is missing in the run's experiment.toml, as an older version left it; name the "
            f"{task.classes} classes there, in ascending order."
        )
    if check and task.classes and "label" in rows:
        _check_labels(rows, task.class_names)
    return own_part(rows, tables[OWN_EDGES], task.class_names, task.sparse)


def numbered(task: Any) -> tuple[str, ...]:
    """Return columns of features where they have no names: "0", "1" ..."""
    return tuple(map(str, range(task.features)))


def named_features(task: Any, nodes: Given, names: Names, own: Given | None) -> tuple[str, ...]:
    """Return columns of features in order: those that are named, else all others of the run's table of nodes.

    Where that, or the first file of a folder of them, is not there, they are those of the client's own table, in its
    order; `own` is None where the run's data answer.
    """
    if names["features"] is not ALL_OTHERS:
        return tuple(names["features"])
    first = nodes if isinstance(nodes, pd.DataFrame) else _first_file(Path(nodes))
    if isinstance(first, pd.DataFrame):
        columns, where = columns_of(first, "data.nodes"), "data.nodes"
    elif own is None or first.is_file():
        columns, where = header(first), str(first)
    else:
        table = table_of(own, f"--{OWN_NODES}")
        columns, where = list(map(str, table.columns)), f"--{OWN_NODES}" if isinstance(own, pd.DataFrame) else str(own)
    others = no_features(names)
    features = tuple(name for name in columns if name not in others)
    if len(features) != task.features:
        raise InputError(
            f"{where}: {len(features)} columns of features, but the model was trained on {task.features}; "
            "a run that names them in data.features finds them among others."
        )
    return features


def _check_labels(rows: Rows, classes: Sequence[str]) -> None:
    """Raise `InputError` for a class that the run does not know: labels are not read, but it tells of a mistake."""
    cells = rows["label"]
    for name in cells.take(cells.filled).codes()[1] if len(cells.filled) else ():
        if name not in classes:
            raise unknown(f"class of the run, as column {cells.name!r} of {rows.where} has it,", name, classes)


def _first_file(path: Path) -> Path:
    """Return the file, or the first table of a folder of them."""
    if not path.is_dir():
        return path
    return next((file for file in sorted(path.iterdir()) if file.suffix.lower() in SUFFIXES), path)
