"""One client's own part of a graph, for a model that is used where the run's data are not."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pandas as pd

from fedgraft.contracts.data import ANSWER, OwnShardData, Purpose
from fedgraft.contracts.table_files import SUFFIXES, Given, header, table_of
from fedgraft.domains.nodes.base.shards import NodeShard
from fedgraft.domains.nodes.reading.own_tables import own_part
from fedgraft.domains.nodes.reading.tables import Columns
from fedgraft.domains.tables.columns import encode
from fedgraft.errors import InputError, unknown

NODES, EDGES = OWN_TABLES = ("data", "data-edges")
"""Names of the tables: one row per node; one row per edge between them."""


class FittedTask(Protocol):
    """The values that a task keeps of the data that its model was trained on."""

    @property
    def features(self) -> int:
        """Width of the nodes' features."""

    @property
    def classes(self) -> int:
        """Number of classes of nodes; 0 where nodes have numbers, or the task reads none."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, in ascending order; none in older runs."""

    @property
    def sparse(self) -> bool:
        """True where features are a sparse matrix."""


class OwnNodes(OwnShardData[NodeShard]):
    """Ability of data sets whose features have no names: read one client's own nodes, features in columns 0, 1 ..."""

    own_tables: ClassVar[tuple[str, ...]] = OWN_TABLES

    def client_shard(self, task: Any, tables: Mapping[str, Given], purpose: Purpose = ANSWER) -> NodeShard:
        """Read one client's nodes and the edges between them."""
        return own_nodes(task, tables, Columns(features=numbered(task)))


def own_nodes(task: FittedTask, tables: Mapping[str, Given], columns: Columns, check: bool = False) -> NodeShard:
    """Read one client's nodes and the edges between them.

    Args:
        task: the run's.
        tables: both of `OWN_TABLES`.
        columns: their names; `features` says which, in order.
        check: whether labels, which are not read, must be classes of the run.
    """
    if EDGES not in tables:
        raise InputError(f"--{NODES} needs --{EDGES}, the edges of these nodes; a table without rows for none.")
    table, where = table_of(tables[NODES], f"--{NODES}"), called(tables[NODES])
    if task.classes and not task.class_names:
        raise InputError(
            "task.class_names is missing in the run's experiment.toml, as an older version left it; name the "
            f"{task.classes} classes there, in ascending order."
        )
    if check and task.classes and columns.label in table:
        _check_labels(table[[columns.label]].dropna(), where, task.class_names)
    return own_part(table, where, tables[EDGES], columns, task.class_names, task.sparse)


def numbered(task: FittedTask) -> tuple[str, ...]:
    """Return columns of features where they have no names: "0", "1" ..."""
    return tuple(map(str, range(task.features)))


def named_features(task: FittedTask, nodes: Given, columns: Columns, own: Given | None) -> tuple[str, ...]:
    """Return columns of features in order: those that `columns` names, else all others of the run's table of nodes.

    Where that is not there they are those of the client's own table, in its order.

    Args:
        task: the run's.
        nodes: the run's table of nodes, or a folder of such files.
        columns: names of columns.
        own: the client's table of nodes; None where the run's data answer.
    """
    if columns.features is not None:
        return columns.features
    first = nodes if isinstance(nodes, pd.DataFrame) else _first_file(Path(nodes))
    if isinstance(first, pd.DataFrame):
        found, where = list(map(str, first.columns)), "data.nodes"
    elif own is None or first.is_file():
        found, where = header(first), str(first)
    else:
        found, where = list(map(str, table_of(own, f"--{NODES}").columns)), called(own)
    names = [name for name in found if name not in columns.others]
    if len(names) != task.features:
        raise InputError(
            f"{where}: {len(names)} columns of features, but the model was trained on {task.features}; "
            "a run that names them in data.features finds them among others."
        )
    return tuple(names)


def called(nodes: Given) -> str:
    """Return what errors call one client's own table of nodes."""
    return f"--{NODES}" if isinstance(nodes, pd.DataFrame) else str(nodes)


def _check_labels(labels: pd.DataFrame, where: str, classes: Sequence[str]) -> None:
    """Raise `InputError` for a class that the run does not know: labels are not read, but it tells of a mistake."""
    (column,) = labels.columns
    names = encode(labels, column, [(where, len(labels))])[1] if len(labels) else ()
    for name in names:
        if name not in classes:
            raise unknown(f"class of the run, as column {column!r} of {where} has it,", name, classes)


def _first_file(path: Path) -> Path:
    """Return the file, or the first table of a folder of them."""
    if not path.is_dir():
        return path
    return next((file for file in sorted(path.iterdir()) if file.suffix.lower() in SUFFIXES), path)
