"""Use a trained model: answers to queries from a run's folder and the clients' own data."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fedgraft import wire
from fedgraft.data.table import Table
from fedgraft.errors import InputError, unknown
from fedgraft.experiment import Experiment
from fedgraft.ratings import known_shard
from fedgraft.state import RunState
from fedgraft.store import Store
from fedgraft.tables import read_file, read_table
from fedgraft.types import Array, Arrays

MODEL = "model.safetensors"
STARS = (1.0, 5.0)
"""The scale of every rating data set but the user's own tables."""


def predict(
    folder: Path,
    queries: str | Path | pd.DataFrame,
    own: str | Path | pd.DataFrame | None = None,
    own_trust: str | Path | pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Answer queries with the run's model, the one that was best on validation.

    Args:
        folder: the run's folder.
        queries: a CSV or Parquet file or a DataFrame with the task's columns, such as "user" and "item".
        own: one client's own table, for a model that is used where the run's data are not; all its rows are known.
            Without it the run's data are loaded again, and only their training part is known.
        own_trust: that client's trust links.

    Returns:
        The queries, the client that answered, and the task's answers, such as "rating".
    """
    store = Store.open(folder)
    models = _models(folder / MODEL)
    experiment = Experiment.from_toml(store.experiment_toml())
    plan = replace(experiment.plan, device="cpu")  # where a model was trained need not be where it is used
    task = plan.task
    table = _table(queries, "--pairs")
    if not len(table):
        raise InputError("--pairs has no rows; at least one is needed.")
    columns: dict[str, Array] = {str(name): table[name].to_numpy() for name in table}
    if own is None:
        state, memories = _end(store)
        shards = experiment.data.load(experiment.seed)
        groups = [str(plan.sharing.group(state.sharing, number)) for number in range(len(shards))]
    else:
        memories, shards, groups = {}, [_own(experiment, own, own_trust)], [_only_group(models)]
    client = task.route(shards, columns)
    answers: list[pd.DataFrame] = []
    for number in np.unique(client).tolist():
        rows = np.flatnonzero(client == number)
        flat = plan.build_model()
        memory = memories.get(number, {})
        flat.load({**memory.get("private", {}), **_of_group(models, groups[number])})
        flat.module.eval()
        asked = {name: values[rows] for name, values in columns.items()}
        found = task.predict(flat.module, shards[number], memory.get("shared", {}), asked)
        answers.append(pd.DataFrame(found, index=rows))
    result = pd.concat(answers).sort_index()
    names = [getattr(shard, "name", str(number)) for number, shard in enumerate(shards)]
    answered = pd.Series([names[number] for number in client], name="client", dtype=object)
    kept = table.drop(columns=[name for name in ("client", *result.columns) if name in table])
    return pd.concat([kept.reset_index(drop=True), answered, result], axis=1)


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


def _table(given: str | Path | pd.DataFrame, parameter: str) -> pd.DataFrame:
    return given if isinstance(given, pd.DataFrame) else read_file(Path(given), parameter)


def _own(experiment: Experiment, own: str | Path | pd.DataFrame, trust: str | Path | pd.DataFrame | None) -> Any:
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


def _end(store: Store) -> tuple[RunState, dict[int, Mapping[str, Any]]]:
    """The state at the end of the run, and what each client remembered."""
    stored = store.load()
    if stored is None:
        raise InputError(f"{store.folder} has no checkpoint; finish the run with 'fedgraft resume {store.folder}'.")
    state, memories = stored
    return state, {client: wire.unpack(memory) for client, memory in memories.items() if memory}  # type: ignore[misc]


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
