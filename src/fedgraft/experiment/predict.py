"""Use a trained model: answers to queries from a run's folder and the clients' own data."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedgraft import wire
from fedgraft.contracts.data import Data, OwnShardData, QueriedData, names_of
from fedgraft.contracts.table_files import Given, table_of
from fedgraft.contracts.task_abilities import PredictingTask
from fedgraft.engine.client.client import shared_in
from fedgraft.engine.client.ensemble import ensemble_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.averaging import scored_model
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import InputError, WireError, nearest, unknown
from fedgraft.experiment.disk import read_model
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.folder_check import CHECKPOINT, MODEL, STATE
from fedgraft.experiment.provenance import check_clients, check_options
from fedgraft.experiment.run_folder import Store
from fedgraft.experiment.stored_state import check_models
from fedgraft.wire.layouts import Arrays

SHOWN = 10
"""Most names of clients that an error lists."""


class FinishedRun:
    """A finished run with its clients' data and models, on the CPU: it need not be used where it was trained.

    Args:
        folder: the run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._store = Store.open(folder)
        self._where = str(folder / "experiment.toml")
        written = self._store.experiment_toml()
        self.experiment = Experiment.from_toml(written, self._where)
        check_options(self._store.origin(), self.experiment.sections, tomllib.loads(written), self._where)
        self.plan = replace(self.experiment.plan, device="cpu")
        self.models = _models(folder / MODEL, self.plan)

    @cached_property
    def shards(self) -> Sequence[Any]:
        """The run's data, loaded again. Raises `InputError` where they have changed."""
        shards = self.experiment.data.load(self.experiment.seed)
        check_clients(self._store.origin(), shards, self._where)
        self.experiment.fitted(shards)  # raises where classes are others: of runs of older versions no more is known
        return shards

    @property
    def names(self) -> list[str]:
        """Names of the clients."""
        return list(names_of(self.shards))

    def memory(self, client: int) -> Mapping[str, Any]:
        """Return what a client remembered at the end."""
        memories = self._end[1]
        remembered: Any = wire.unpack(memories[client]) if memories.get(client) else {}
        return {**remembered, "shared": shared_in(self.plan, memories.get(~client, b""))}

    def prepared(self, client: int) -> Any:
        """Return a client's data as it trained on them, with what it remembers of nodes' states."""
        remembered = self.memory(client)
        data = self.plan.task.prepare(self.shards[client], remembered.get("shared", {}))
        return self.plan.halo.opened(data, remembered.get("states")) if self.plan.halo else data

    def number(self, name: str) -> int:
        """Return the index of a client. Raises `InputError` for a name that nobody has."""
        if name not in self.names:
            raise unknown("client", name, self.names)
        return self.names.index(name)

    def client_model(self, client: int, shared_alone: bool = False) -> torch.nn.Module:
        """Return a client's model; `shared_alone` leaves out what it adds to the shared parameters.

        Who has parameters of its own and keeps the last ones (`evaluation.keep`) has the last shared ones with them.
        """
        sharing = self._end[0].sharing
        group = self.plan.group(sharing, client)
        shared = _of_group(self.models, str(group))
        if not shared or (
            self.plan.personal and not self.plan.keep_best
        ):  # a group may be younger than the best models
            shared = scored_model(self.plan, sharing, self._end[0].averages, group)
        return _client_model(self.plan, self.shards[client], self.memory(client), shared, shared_alone)

    @cached_property
    def _end(self) -> tuple[RunState, dict[int, bytes]]:
        stored, folder = self._store.load(older=True), self._store.folder
        if stored is None:
            raise InputError(f"{folder} has no checkpoint; finish the run with 'fedgraft resume {folder}'.")
        check_models(stored[0], self.plan, str(folder / CHECKPOINT / STATE))
        return stored


def predict(
    folder: Path,
    tables: Mapping[str, Given | None],
    client: str | None = None,
    *own: Given | None,
    count: int | None = None,
    **own_by_name: Given | None,
) -> pd.DataFrame:
    """Answer questions with the run's model, the one that was best on validation.

    Args:
        folder: the run's folder.
        tables: {name: CSV or Parquet file or DataFrame}: questions, by names of the task's `asks`, and perhaps one
            client's own tables, by names of the data set's `own_tables`.
        client: who answers all of them, by name; None leaves it to the task and to a column "client".
        own: one client's own tables, in order, for a model that is used where the run's data are not; all that they
            hold is known. Without them the run's data are loaded again.
        count: answers to each question, for a task that gives several; None leaves it to the task and to its column.
        own_by_name: the same as `own`, the first, and `own_X`, "X" or "FIRST-X".

    Returns:
        The rows of the first of the task's tables (of what it makes of the others where that is not given), once for
        each answer, the client that answered, and the task's answers.
    """
    run = FinishedRun(folder)
    task, data = run.plan.task, run.experiment.data
    if not isinstance(task, PredictingTask):
        raise InputError(f"Task {data.task!r} answers no questions.")
    reader = data if isinstance(data, OwnShardData) else None
    own_tables = reader.own_tables if reader else ()
    every = {**tables, **_own_given(own_tables, own, own_by_name, data.task)}
    given = {name: table for name, table in every.items() if table is not None}
    _check_names(given, task.asks, own_tables, data.task)
    read = {name: _read(task, name, given[name]) for name in task.asks if name in given}
    its_own = {name: given[name] for name in own_tables if name in given}
    asked = _counted(data.task, task, _asked(data, task, read, its_own, client), count)
    if reader and its_own:
        alone: Sequence[Any] = [reader.own_shard(task, its_own)]
        shards, names, newcomer = alone, ["own"], _newcomer(run, own_tables[0])
    else:
        shards, names, newcomer = run.shards, run.names, None
    answers: list[pd.DataFrame] = []
    for number, questions in task.questions(shards, asked).items():
        remembered = run.memory(number) if newcomer is None else {}
        module = run.client_model(number) if newcomer is None else _client_model(run.plan, shards[0], {}, newcomer)
        found = task.predict(module, shards[number], remembered, questions.asked)
        answered = {"client": np.full(len(questions.rows), names[number], dtype=object)}
        answers.append(pd.DataFrame({**answered, **found}, index=questions.rows))
    return _beside(asked.get(task.asks[0]), pd.concat(answers).sort_index(kind="stable"))


def load_model(folder: Path) -> torch.nn.Module:
    """Return the model that all clients share, as it was best on validation, in evaluation mode, on the CPU.

    Raises `InputError` where clients ended with models of their own: by groups, or because some parameters or all stay
    with each of them. `FinishedRun.client_model` has what such a client answers with.
    """
    store = Store.open(folder)
    stored = Experiment.from_toml(store.experiment_toml(), str(folder / "experiment.toml"))
    plan = replace(stored.plan, device="cpu")
    models = _models(folder / MODEL, plan)
    if plan.personal or any("/" in name for name in models):
        names = list(store.summary()["test_per_client"])
        listed = ", ".join([*map(repr, names[:SHOWN]), *(["..."] if len(names) > SHOWN else [])])
        raise InputError(
            f"{folder}: there is no one model: under sharing {stored.sections['sharing']['name']!r} each client ended "
            f"with its own, in parts or in whole; use run.client_model(NAME), with one of {listed}."
        )
    flat = plan.build_model()
    flat.load(models)
    return flat.module.eval()


def _client_model(
    plan: Plan, shard: Any, memory: Mapping[str, Any], shared: Arrays, shared_alone: bool = False
) -> torch.nn.Module:
    """Return the model that a client ended up with: its own best, or the shared one with its private parts."""
    variant = None
    if plan.variants and any(map(plan.variants.personal, plan.build_model().initial)):
        variant = plan.variants.variant(plan.task.prepare(shard, memory.get("shared", {})))
    flat = plan.build_model(variant)
    received = {name: shared[name] for name in plan.first if name in shared}
    best, remembered = memory.get("best"), memory.get("sharing")
    if best is not None:
        flat.load(best["arrays"])
        others = best["others"]
    else:
        flat.load({**memory.get("private", {}), **plan.personalise(received, remembered)})
        others = plan.ensemble(received, remembered)
    if shared_alone:
        flat.load(received)
        others = []
    return ensemble_of(plan.task, flat, others)


def _own_given(
    names: Sequence[str], listed: Sequence[Given | None], named: Mapping[str, Given | None], task: str
) -> dict[str, Given]:
    """Return {name: table} of one client's own tables.

    Args:
        names: of all that there can be, the first one required.
        listed: tables in this order.
        named: tables by what a keyword calls them: `own`, the first; `own_X`, "X" or "FIRST-X".
        task: the run's.
    """
    further = {f"own_{name.removeprefix(f'{names[0]}-').replace('-', '_')}": name for name in names[1:]}
    keywords = {**dict(zip(["own"], names, strict=False)), **further}
    if len(listed) > max(len(keywords), 1):
        raise InputError(f"{len(listed)} tables of one client's own are given; task {task!r} takes {len(keywords)}.")
    every = {**dict(zip(keywords or ["own"], listed, strict=False)), **named}
    given = {keyword: table for keyword, table in every.items() if table is not None}
    for keyword in given:
        if keyword not in keywords:
            takes = ", ".join(keywords) or "no table of one client's own"
            raise InputError(f"{keyword} is not for task {task!r}, which takes {takes}.")
        if "own" not in given:
            raise InputError(f"{keyword} needs own, the table that it belongs to.")
    return {keywords[keyword]: table for keyword, table in given.items()}


def _check_names(given: Iterable[str], asks: Sequence[str], own_tables: Sequence[str], task: str) -> None:
    """Raise `InputError` for tables that the run does not know, and where one is missing."""
    known = [*asks, *own_tables]
    for name in given:
        if name not in known:
            hint = nearest(name, [*known, "client"])
            raise InputError(f"--{name} is not for task {task!r}, which takes --{', --'.join(known)}.{hint}")
    if not {*asks} & {*given}:
        raise InputError(f"Nothing is asked: give --{', --'.join(asks)}.")
    for name in own_tables:
        if name in given and own_tables[0] not in given:
            raise InputError(f"--{name} belongs to --{own_tables[0]}, one client's own data; give both.")


def _asked(
    data: Data[Any],
    task: PredictingTask[Any, Any],
    read: Mapping[str, pd.DataFrame],
    own: Mapping[str, Given],
    client: str | None,
) -> dict[str, pd.DataFrame]:
    """Return the tables of questions as the task reads them, each row of the first for `client` unless that is None."""
    tables = data.questions(task, read, own) if isinstance(data, QueriedData) else dict(read)
    first = next(iter(read))
    if not len(tables[first]):
        raise InputError(f"--{first} has no rows; at least one is needed.")
    if client is not None:
        tables[first] = tables[first].assign(client=client)
    return tables


def _read(task: PredictingTask[Any, Any], name: str, given: Given) -> pd.DataFrame:
    """Return a table of questions; of the first, a text that names no file lists what the task asks about: "7,12"."""
    text = "" if isinstance(given, pd.DataFrame) else str(given)
    if name == task.asks[0] and text and not Path(text).suffix and not Path(text).exists():
        with suppress(InputError):  # of a task that knows tables only
            return task.tables_of([part.strip() for part in text.split(",")])[name]
    return table_of(given, f"--{name}")


def _counted(
    name: str, task: PredictingTask[Any, Any], asked: dict[str, pd.DataFrame], count: int | None
) -> dict[str, pd.DataFrame]:
    """Return the tables with the number of answers that each question gets."""
    if count is None:
        return asked
    if not task.count_column:
        raise InputError(
            f"A number of answers (-k {count}) is not for task {name!r}, which gives one to each question."
        )
    first = task.asks[0]
    return {**asked, first: asked[first].assign(**{task.count_column: count})}


def _beside(rows: pd.DataFrame | None, answers: pd.DataFrame) -> pd.DataFrame:
    """Return answers beside the rows that were asked, if there are any; a column of both is that of the answers."""
    if rows is None:
        return answers
    kept = rows.drop(columns=[name for name in answers.columns if name in rows]).iloc[answers.index]
    return pd.concat([kept.reset_index(drop=True), answers.reset_index(drop=True)], axis=1)


def _newcomer(run: FinishedRun, table: str) -> Arrays:
    """Return the model for a client that was not there, but has its `table`.

    Raises `InputError` where a part of it is each client's own.
    """
    groups = {name.partition("/")[0] for name in run.models if "/" in name}
    if groups:
        raise InputError(
            f"This run ended with {len(groups)} models, one per group of its clients; --{table} fits none."
        )
    own = [name for name in run.plan.build_model().initial if not run.plan.travels(name)]
    if own:
        sharing = run.experiment.sections["sharing"]["name"]
        raise InputError(
            f"Under sharing {sharing!r} each client trained parameters of its own, such as {own[0]!r}; --{table} is of "
            "one that was not there and has none."
        )
    return run.models


def _of_group(models: Arrays, group: str) -> Arrays:
    """Return the model of one group, from all groups' arrays."""
    if any("/" in name for name in models):
        return {name.partition("/")[2]: array for name, array in models.items() if name.startswith(f"{group}/")}
    return models


def _models(path: Path, plan: Plan) -> Arrays:
    """Read the run's model, or those of all groups of clients. Raises `InputError` where they are not of this plan."""
    if not path.is_file():
        raise InputError(f"{path} is missing; finish the run with 'fedgraft resume {path.parent}'.")
    arrays = read_model(path)
    for group in sorted({name.partition("/")[0] for name in arrays if "/" in name}) or [""]:
        try:
            wire.check(_of_group(arrays, group), plan.model_layout)
        except WireError as error:
            raise InputError(f"{path} is not the model of this run's experiment.toml: {error}") from error
    return arrays
