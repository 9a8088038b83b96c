"""Use a trained model: answers to queries from a run's folder and the clients' own data."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fedgraft import wire
from fedgraft.domains.graphs.tables import Columns, Given
from fedgraft.domains.nodes import tables as node_tables
from fedgraft.domains.nodes.own_tables import own_part
from fedgraft.domains.ratings.shards import known_shard
from fedgraft.domains.tables import SUFFIXES, encode, read_file, read_table
from fedgraft.engine.client.client import told_in
from fedgraft.engine.client.ensemble import answering
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import InputError, unknown
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.provenance import check_clients, check_options
from fedgraft.experiment.run_folder import MODEL, Store
from fedgraft.methods.data.graphs import Graphs
from fedgraft.methods.data.nodes import Nodes
from fedgraft.methods.data.table import Table
from fedgraft.methods.tasks.node import Node
from fedgraft.wire.layouts import Arrays

STARS = (1.0, 5.0)
"""The scale of every rating data set but the user's own tables."""


class FinishedRun:
    """A finished run with its clients' data and models, on the CPU: it need not be used where it was trained.

    Args:
        folder: the run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._store = Store.open(folder)
        self.models = _models(folder / MODEL)
        self._where = str(folder / "experiment.toml")
        self.experiment = Experiment.from_toml(self._store.experiment_toml(), self._where)
        check_options(self._store.origin(), self.experiment.sections, self._where)
        self.plan = replace(self.experiment.plan, device="cpu")

    @cached_property
    def shards(self) -> list[Any]:
        """The run's data, loaded again. Raises `InputError` where they have changed."""
        shards = self.experiment.data.load(self.experiment.seed)
        check_clients(self._store.origin(), shards, self._where)
        self.experiment.fitted(shards)  # raises where classes are others: of runs of older versions no more is known
        return list(shards)

    @property
    def names(self) -> list[str]:
        """Names of the clients."""
        return [str(getattr(shard, "name", number)) for number, shard in enumerate(self.shards)]

    def memory(self, client: int) -> Mapping[str, Any]:
        """What a client remembered at the end."""
        memories = self._end[1]
        remembered: Any = wire.unpack(memories[client]) if memories.get(client) else {}
        return {**remembered, "shared": told_in(self.plan, memories.get(~client, b""))}

    def prepared(self, client: int) -> Any:
        """A client's data as it trained on them, with what it remembers of nodes' states."""
        data = self.plan.task.prepare(self.shards[client], self.memory(client).get("shared", {}))
        self.plan.task.recall(data, self.memory(client).get("states"))
        return data

    def client_model(self, client: int, shared_alone: bool = False) -> torch.nn.Module:
        """A client's model; `shared_alone` leaves out what it adds to the shared parameters."""
        group = self.plan.sharing.group(self._end[0].sharing, client)
        shared = _of_group(self.models, str(group))
        return _client_model(self.plan, self.shards[client], self.memory(client), shared, shared_alone)

    @cached_property
    def _end(self) -> tuple[RunState, dict[int, bytes]]:
        stored = self._store.load()
        if stored is None:
            folder = self._store.folder
            raise InputError(f"{folder} has no checkpoint; finish the run with 'fedgraft resume {folder}'.")
        return stored


def predict(
    folder: Path,
    tables: Mapping[str, Given],
    client: str | None = None,
    own: Given | None = None,
    own_trust: Given | None = None,
    own_edges: Given | None = None,
) -> pd.DataFrame:
    """Answer questions with the run's model, the one that was best on validation.

    Args:
        folder: the run's folder.
        tables: CSV or Parquet files or DataFrames with the task's questions, such as {"pairs": ...} for ratings or
            {"nodes": ..., "edges": ...} for graphs and for nodes.
        client: who answers all of them, by name; None leaves it to the task and to a column "client".
        own: one client's own ratings or nodes, for a model that is used where the run's data are not; all its ratings
            are known. Without it the run's data are loaded again, and of ratings only their training part is known.
        own_trust: that client's trust links.
        own_edges: the edges of that client's nodes.

    Returns:
        The rows of the first of the task's tables (of what it makes of the others where that is not given), the client
        that answered each, and the task's answers, such as "rating".
    """
    for name, given in (("own_trust", own_trust), ("own_edges", own_edges)):
        if own is None and given is not None:
            raise InputError(f"{name} needs own, the table that it belongs to.")
    run = FinishedRun(folder)
    task, experiment = run.plan.task, run.experiment
    read = _read_tables(task.asks, tables, experiment, client)
    if own is None:
        shards, names = run.shards, run.names
    else:
        shards, names = [_own(run, own, own_trust, own_edges)], ["own"]
        newcomer = _of_group(run.models, _only_group(run.models))
    if isinstance(task, Node):
        read["features"] = pd.DataFrame({"name": _feature_names(experiment.data, task, own)})
    answers: list[pd.DataFrame] = []
    for number, questions in task.questions(shards, read).items():
        if own is None:
            module, remembered = run.client_model(number), run.memory(number)
        else:
            module, remembered = _client_model(run.plan, shards[number], {}, newcomer), {}
        found = task.predict(module, shards[number], remembered, questions.asked)
        answered = {"client": np.full(len(questions.rows), names[number], dtype=object)}
        answers.append(pd.DataFrame({**answered, **found}, index=questions.rows))
    result = pd.concat(answers).sort_index()
    if task.asks[0] not in read:
        return result
    asked = read[task.asks[0]].reset_index(drop=True)
    return pd.concat([asked.drop(columns=[name for name in result.columns if name in asked]), result], axis=1)


def load_model(folder: Path, group: str = "") -> torch.nn.Module:
    """The model that was best on validation, in evaluation mode, on the CPU.

    Args:
        folder: the run's folder.
        group: of clients with a model of their own; "" where all share one.

    Parameters that clients keep to themselves are as they were drawn at the start.
    """
    models = _models(folder / MODEL)
    groups = sorted({name.partition("/")[0] for name in models if "/" in name}) or [""]
    if group not in groups:
        raise unknown(f"group of models in {folder}", group, groups)
    stored = Experiment.from_toml(Store.open(folder).experiment_toml(), str(folder / "experiment.toml"))
    plan = replace(stored.plan, device="cpu")
    flat = plan.build_model()
    flat.load(_of_group(models, group))
    return flat.module.eval()


def _client_model(
    plan: Plan, shard: Any, memory: Mapping[str, Any], shared: Arrays, shared_alone: bool = False
) -> torch.nn.Module:
    """The model that a client ended up with: its own best, or the shared one with its private parts."""
    variant = None
    if any(map(plan.task.personal, plan.build_model().initial)):
        variant = plan.task.variant(plan.task.prepare(shard, memory.get("shared", {})))
    flat = plan.build_model(variant)
    received = {name: shared[name] for name in plan.first if name in shared}
    best, remembered = memory.get("best"), memory.get("sharing")
    if best is not None:
        flat.load(best["arrays"])
        others = best["others"]
    else:
        flat.load({**memory.get("private", {}), **plan.sharing.personalise(received, remembered)})
        others = plan.sharing.others(received, remembered)
    if shared_alone:
        flat.load(received)
        others = []
    return answering(plan.task, flat, others)


def _read_tables(
    asks: Sequence[str], given: Mapping[str, Given], experiment: Experiment, client: str | None
) -> dict[str, pd.DataFrame]:
    """The tables of questions, in the order in which the task names them, their columns named as it knows them."""
    for name in given:
        if name not in asks:
            raise InputError(f"--{name} is not for task {experiment.data.task!r}, which takes --{', --'.join(asks)}.")
    if not given:
        raise InputError(f"Nothing is asked: give --{', --'.join(asks)}.")
    tables = {}
    for name in asks:
        if given.get(name) is None:
            continue
        table, names = _table(given[name], f"--{name}"), _own_columns(experiment.data, name)
        for own, column in names.items():
            if own != column and {own, column} <= {*table.columns}:
                raise InputError(f"--{name}: columns {own!r} and {column!r} both say the {column}; one is needed.")
        tables[name] = table.rename(columns=names)
    first = next(iter(tables))
    if not len(tables[first]):
        raise InputError(f"--{first} has no rows; at least one is needed.")
    if client is not None:
        tables[first] = tables[first].assign(client=client)
    return tables


def _table(given: Given, parameter: str) -> pd.DataFrame:
    return given if isinstance(given, pd.DataFrame) else read_file(Path(given), parameter)


def _own_columns(data: Any, table: str) -> dict[str, str]:
    """{name of a column in the user's own table: what tasks call it}."""
    columns: Sequence[str] = ()
    if isinstance(data, Graphs):
        columns = [each.name for each in fields(Columns) if each.name != "attributes"]
    elif isinstance(data, Nodes):
        columns = ("node", "client") if table == "nodes" else ("source", "target")
    return {getattr(data, column): column for column in columns}


def _own(run: FinishedRun, own: Given, trust: Given | None, edges: Given | None) -> Any:
    """One client's shard."""
    experiment, task = run.experiment, run.plan.task
    if experiment.data.task not in ("rating", "node"):
        raise InputError(f"--data is for ratings and nodes; this run's task is {experiment.data.task!r}.")
    for option, given, kind in (("--trust", trust, "rating"), ("--data-edges", edges, "node")):
        if given is not None and experiment.data.task != kind:
            raise InputError(f"{option} is for {kind}s; this run's task is {experiment.data.task!r}.")
    if isinstance(task, Node):
        return _own_nodes(experiment.data, task, own, edges)
    return _own_ratings(experiment, own, trust)


def _own_nodes(data: Any, task: Node, own: Given, edges: Given | None) -> Any:
    """One client's nodes and the edges between them, with the columns of the run's data."""
    if edges is None:
        raise InputError("--data needs --data-edges, the edges of these nodes; a table without rows for none.")
    table, where = _table(own, "--data"), _where(own)
    columns = node_tables.Columns(features=_feature_names(data, task, own))
    if isinstance(data, Nodes):
        kept = ("node", "label", "client", "split", "source", "target")
        columns = replace(columns, **{name: getattr(data, name) for name in kept})
    if not task.class_names:
        raise InputError(
            "task.class_names is missing in the run's experiment.toml, as an older version left it; name the "
            f"{task.classes} classes there, in ascending order."
        )
    if _has_tables(data) and columns.label in table:
        _check_labels(table[[columns.label]].dropna(), where, task.class_names)
    return own_part(table, where, edges, columns, task.class_names, task.sparse)


def _check_labels(labels: pd.DataFrame, where: str, classes: Sequence[str]) -> None:
    """Raise `InputError` for a class that the run does not know: labels are not read, but it tells of a mistake."""
    (column,) = labels.columns
    names = encode(labels, column, [(where, len(labels))])[1] if len(labels) else ()
    for name in names:
        if name not in classes:
            raise unknown(f"class of the run, as column {column!r} of {where} has it,", name, classes)


def _feature_names(data: Any, task: Node, own: Given | None) -> tuple[str, ...]:
    """Columns of features in order: those of the user's own tables, else numbers from "0".

    Where the run's own table is not there and nobody named them, they are those of the client's table, in its order.
    """
    if not _has_tables(data):
        return tuple(map(str, range(task.features)))
    if data.features is not None:
        return tuple(data.features)
    path = _first_file(Path(data.nodes))
    if own is None or path.is_file():
        columns, where = _header(path), str(path)
    else:
        columns, where = list(map(str, _table(own, "--data").columns)), _where(own)
    names = [name for name in columns if name not in (data.node, data.label, data.client, data.split)]
    if len(names) != task.features:
        raise InputError(
            f"{where}: {len(names)} columns of features, but the model was trained on {task.features}; "
            "a run that names them in data.features finds them among others."
        )
    return tuple(names)


def _has_tables(data: Any) -> bool:
    """Whether the data are the user's own tables of nodes and edges."""
    return isinstance(data, Nodes) and data.edges is not None


def _first_file(path: Path) -> Path:
    """The file, or the first table of a folder of them."""
    if not path.is_dir():
        return path
    return next((file for file in sorted(path.iterdir()) if file.suffix.lower() in SUFFIXES), path)


def _header(path: Path) -> list[str]:
    """Names of columns, without what else is in the file."""
    if path.suffix.lower() == ".parquet":
        return list(map(str, pyarrow.parquet.read_schema(path).empty_table().to_pandas().columns))
    return list(map(str, pd.read_csv(path, nrows=0, skipinitialspace=True).columns))


def _where(given: Given) -> str:
    """What errors call one client's own table."""
    return "--data" if isinstance(given, pd.DataFrame) else str(given)


def _own_ratings(experiment: Experiment, own: Given, trust: Given | None) -> Any:
    """One client's ratings, all of them known, with the columns and the scale of the run's data."""
    table = _table(own, "--data")
    options: dict[str, Any] = dict(zip(("low", "high"), STARS, strict=True))
    if isinstance(experiment.data, Table):
        kept = ("user", "item", "rating", "category", "trust_user", "trust_target", "low", "high")
        options = {name: getattr(experiment.data, name) for name in kept}
        if options["category"] not in table:
            del options["category"]  # one category for all, as for every other data set
    options |= {"trust": trust, "partition": "given", "unknown_trust": "drop"}
    wanted = {name: options.get(name, name) for name in ("user", "item", "rating")}
    read_table(own, "--data", {f"data.{name}": column for name, column in wanted.items()})
    return known_shard(Table(table.assign(client="own"), **options).read(), "own")


def _only_group(models: Arrays) -> str:
    """The group of a client that was not there, "" where all have one model."""
    groups = sorted({name.partition("/")[0] for name in models if "/" in name})
    if groups:
        raise InputError(f"This run ended with {len(groups)} models, one per group of its clients; --data fits none.")
    return ""


def _of_group(models: Arrays, group: str) -> Arrays:
    """The model of one group, from all groups' arrays."""
    if any("/" in name for name in models):
        return {name.partition("/")[2]: array for name, array in models.items() if name.startswith(f"{group}/")}
    return models


def _models(path: Path) -> Arrays:
    if not path.is_file():
        raise InputError(f"{path} is missing; finish the run with 'fedgraft resume {path.parent}'.")
    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise InputError(f"{path} is damaged: {error}.") from error
