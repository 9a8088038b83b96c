"""Use a trained model: answers to queries from a run's folder and the clients' own data."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fedgraft import wire
from fedgraft.answering import answering
from fedgraft.data.graphs import Graphs
from fedgraft.data.table import Table
from fedgraft.errors import InputError, unknown
from fedgraft.experiment import Experiment
from fedgraft.graphs.tables import Columns, Given
from fedgraft.plan import Plan
from fedgraft.ratings.shards import known_shard
from fedgraft.state import RunState
from fedgraft.store import MODEL, Store
from fedgraft.tables import read_file, read_table
from fedgraft.types import Arrays

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
        self.experiment = Experiment.from_toml(self._store.experiment_toml())
        self.plan = replace(self.experiment.plan, device="cpu")

    @cached_property
    def shards(self) -> list[Any]:
        """The run's data, loaded again."""
        return self.experiment.data.load(self.experiment.seed)

    @property
    def names(self) -> list[str]:
        """Names of the clients."""
        return [str(getattr(shard, "name", number)) for number, shard in enumerate(self.shards)]

    def memory(self, client: int) -> Mapping[str, Any]:
        """What a client remembered at the end."""
        return self._end[1].get(client, {})

    def prepared(self, client: int) -> Any:
        """A client's data as it trained on them."""
        return self.plan.task.prepare(self.shards[client], self.memory(client).get("shared", {}))

    def client_model(self, client: int, shared_alone: bool = False) -> torch.nn.Module:
        """A client's model; `shared_alone` leaves out what it adds to the shared parameters."""
        group = self.plan.sharing.group(self._end[0].sharing, client)
        shared = _of_group(self.models, str(group))
        return _client_model(self.plan, self.shards[client], self.memory(client), shared, shared_alone)

    @cached_property
    def _end(self) -> tuple[RunState, dict[int, Mapping[str, Any]]]:
        stored = self._store.load()
        if stored is None:
            folder = self._store.folder
            raise InputError(f"{folder} has no checkpoint; finish the run with 'fedgraft resume {folder}'.")
        state, memories = stored
        return state, {client: wire.unpack(memory) for client, memory in memories.items() if memory}  # type: ignore[misc]


def predict(
    folder: Path,
    tables: Mapping[str, Given],
    client: str | None = None,
    own: Given | None = None,
    own_trust: Given | None = None,
) -> pd.DataFrame:
    """Answer questions with the run's model, the one that was best on validation.

    Args:
        folder: the run's folder.
        tables: CSV or Parquet files or DataFrames with the task's questions, such as {"pairs": ...} for ratings or
            {"nodes": ..., "edges": ...} for graphs.
        client: who answers all of them, by name; None leaves it to the task and to a column "client".
        own: for ratings, one client's own table, for a model that is used where the run's data are not; all its rows
            are known. Without it the run's data are loaded again, and only their training part is known.
        own_trust: that client's trust links.

    Returns:
        The rows of the first of the task's tables (of what it makes of the others where that is not given), the client
        that answered each, and the task's answers, such as "rating".
    """
    run = FinishedRun(folder)
    task, experiment = run.plan.task, run.experiment
    read = _read_tables(task.asks, tables, experiment, client)
    if own is None:
        shards, names = run.shards, run.names
    else:
        shards, names = [_own(experiment, own, own_trust)], ["own"]
        newcomer = _of_group(run.models, _only_group(run.models))
    answers: list[pd.DataFrame] = []
    for number, questions in task.questions(shards, read).items():
        if own is None:
            module, shared = run.client_model(number), run.memory(number).get("shared", {})
        else:
            module, shared = _client_model(run.plan, shards[number], {}, newcomer), {}
        found = task.predict(module, shards[number], shared, questions.asked)
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
    plan = replace(Experiment.from_toml(Store.open(folder).experiment_toml()).plan, device="cpu")
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
    names: dict[Any, str] = {}
    if isinstance(experiment.data, Graphs):
        columns = (each.name for each in fields(Columns) if each.name != "attributes")
        names = {getattr(experiment.data, column): column for column in columns}
    tables = {
        name: _table(given[name], f"--{name}").rename(columns=names) for name in asks if given.get(name) is not None
    }
    first = next(iter(tables))
    if not len(tables[first]):
        raise InputError(f"--{first} has no rows; at least one is needed.")
    if client is not None:
        tables[first] = tables[first].assign(client=client)
    return tables


def _table(given: Given, parameter: str) -> pd.DataFrame:
    return given if isinstance(given, pd.DataFrame) else read_file(Path(given), parameter)


def _own(experiment: Experiment, own: Given, trust: Given | None) -> Any:
    """One client's shard, every row of it known, with the columns and the scale of the run's data."""
    if experiment.data.task != "rating":
        raise InputError(f"--data is for ratings; this run's task is {experiment.data.task!r}.")
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
