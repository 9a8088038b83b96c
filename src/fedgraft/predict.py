"""Use a trained model: answers to queries from a run's folder and the clients' own data."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

from fedgraft import plugins, wire
from fedgraft.errors import InputError
from fedgraft.experiment import Experiment
from fedgraft.store import Store
from fedgraft.tables import read_file
from fedgraft.types import Array, Arrays

MODEL = "model.safetensors"


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
    experiment = Experiment.from_toml(store.experiment_toml())
    task = experiment.plan.task
    table = _table(queries)
    columns: dict[str, Array] = {str(name): table[name].to_numpy() for name in table}
    shards = experiment.data.load(experiment.seed) if own is None else _own(experiment, own, own_trust)
    client = task.route(shards, columns)
    models = load_file(_existing(folder / MODEL))
    memories = {} if own is not None else _memories(store)
    answers: list[pd.DataFrame] = []
    for number in np.unique(client).tolist():
        rows = np.flatnonzero(client == number)
        flat = experiment.plan.build_model()
        memory = memories.get(number, {})
        flat.load({**memory.get("private", {}), **_of_group(models, str(memory.get("group", 0)))})
        flat.module.eval()
        asked = {name: values[rows] for name, values in columns.items()}
        found = task.predict(flat.module, shards[number], memory.get("shared", {}), asked)
        answers.append(pd.DataFrame(found, index=rows))
    result = pd.concat(answers).sort_index() if answers else pd.DataFrame()
    names = [getattr(shard, "name", str(number)) for number, shard in enumerate(shards)]
    answered = pd.Series([names[number] for number in client], name="client", dtype=object)
    kept = table.drop(columns=[name for name in ("client", *result.columns) if name in table])
    return pd.concat([kept.reset_index(drop=True), answered, result], axis=1)


def _table(queries: str | Path | pd.DataFrame) -> pd.DataFrame:
    if isinstance(queries, pd.DataFrame):
        return queries
    return read_file(Path(queries), "--pairs")


def _own(experiment: Experiment, own: Any, trust: Any) -> list[Any]:
    """One client's shards, every row of them known."""
    columns: dict[str, Any] = {}
    if experiment.sections["data"]["name"] == "table":
        kept = ("user", "item", "rating", "category", "trust_user", "trust_target")
        columns = {name: experiment.sections["data"][name] for name in kept}
    table = _table(own).assign(client="own")
    options = {**columns, "ratings": table, "trust": trust, "partition": "given", "unknown_trust": "drop"}
    shards = plugins.construct(plugins.find("data", "table"), "data", options).load(experiment.seed)
    return [replace(shard, split=np.zeros_like(shard.split)) for shard in shards]


def _memories(store: Store) -> dict[int, Mapping[str, Any]]:
    """What each client remembered at the end of the run."""
    stored = store.load()
    if stored is None:
        raise InputError(f"{store.folder} has no checkpoint; finish the run with 'fedgraft resume {store.folder}'.")
    _, memories = stored
    return {client: wire.unpack(memory) for client, memory in memories.items() if memory}  # type: ignore[misc]


def _of_group(models: Arrays, group: str) -> Arrays:
    """The model of one group, from all groups' arrays."""
    if any("/" in name for name in models):
        return {name.partition("/")[2]: array for name, array in models.items() if name.startswith(f"{group}/")}
    return models


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path} is missing; finish the run with 'fedgraft resume {path.parent}'.")
    return path
