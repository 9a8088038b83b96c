"""Place test examples of a trained model in two dimensions."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from fedgraft.contracts.abilities.tasks import PredictingTask
from fedgraft.errors import InputError
from fedgraft.experiment.predicting.site_run import load_run
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.experiment.storage.run_folder import RunFolder

FEWEST: Final = 5
"""Examples of a client below which t-SNE says nothing."""
PERPLEXITY: Final = 30.0
"""Of t-SNE (van der Maaten and Hinton, JMLR 2008, section 2: 5 to 50); a quarter of the examples where they are few."""


def embed(
    run_folder: RunFolder, seed: int = 0, data_root: Path | None = None, allow_changed_data: bool = False
) -> pd.DataFrame:
    """t-SNE of the last hidden layer over each client's test examples; the data are loaded again, as by `load_run`.

    Returns:
        Columns channel ("own model", and "shared alone" where clients add something private to what is shared), client,
        class (its name; of numbers in which fifth it is), x, y. Raises `InputError` for tasks without hidden layers to
        show.
    """
    from sklearn.manifold import TSNE

    run = load_run(run_folder, data_root, allow_changed_data)
    channels = {"own model": False, **({"shared alone": True} if run.plan.owned else {})}
    parts = []
    for client, name in enumerate(run.names):
        for channel, shared_alone in channels.items():
            hidden, label = _hidden(run, client, shared_alone)
            if len(hidden) < FEWEST:
                continue
            perplexity = min(PERPLEXITY, len(hidden) / 4)
            places = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(hidden)
            parts.append(
                pd.DataFrame({"channel": channel, "client": name, "class": label, "x": places[:, 0], "y": places[:, 1]})
            )
    if not parts:
        raise InputError(f"{run_folder.folder}: no client has {FEWEST} test examples, too few to show.")
    return pd.concat(parts, ignore_index=True)


def _hidden(run: FinishedRun, client: int, shared_alone: bool) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    task = run.plan.task
    hidden = None
    if isinstance(task, PredictingTask):
        hidden = task.represent(run.client_model(client, shared_alone), run.prepared(client))
    if hidden is None:
        raise InputError(f"task {run.experiment.task_name!r} has no hidden layer to show.")
    layer, label = hidden
    classes = getattr(run.shards[client], "classes", ())
    return layer, np.array([*classes, "unknown"], object)[label] if isinstance(classes, tuple) and classes else label
