"""A stored run's data as they are now: where they have moved to, which have changed, and which client is which."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from fedgraft.contracts.data import names_of
from fedgraft.errors import InputError
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.recipe_files import mapped
from fedgraft.experiment.storage.data_notes import without_notes
from fedgraft.experiment.storage.provenance import Origin, changed_clients, check_clients, named_by

LOG = logging.getLogger("fedgraft.data")
SHOWN = 5
"""Most names of clients that a note lists."""


@dataclass(frozen=True, eq=False)
class DataNow:
    """The clients' data as they are now.

    Args:
        shards: one per client that there is now.
        places: which client of the run each is; None for one that was not there.
        changed: those, by their number now, whose data are others than the run began with.
    """

    shards: Sequence[Any]
    places: Sequence[int | None]
    changed: frozenset[int] = frozenset()


def load(experiment: Job, began: Origin, where: str, allow_changed: bool) -> DataNow:
    """Load a stored run's data, which [data] of the file `where` names; what the run began with is in `began`.

    Where they may be others than that, a note says which are. Raises `InputError` for data that are not there, that
    have changed and may not, or whose names the model numbers otherwise.
    """
    try:
        with nullcontext() if allow_changed else without_notes():
            shards = experiment.shards()
    except InputError as error:
        missing = any(not path.exists() for path in _paths(experiment))
        hint = " If the data have moved, --data-root DIR says where they are."
        raise InputError(f"{error}{hint if missing else ''}") from error
    if not allow_changed:
        check_clients(began, shards, where)
        return DataNow(shards, range(len(shards)))
    changed = changed_clients(began, shards, where)
    if not changed:
        return DataNow(shards, range(len(shards)))
    if began.get("made"):
        raise InputError(
            f"{where}: of clients that the data set makes, not all are known as they were; changed data cannot be "
            "allowed for."
        )
    then, names = list(began["clients"]), list(names_of(shards))
    now = DataNow(
        shards,
        [then.index(name) if name in then else None for name in names],
        frozenset(number for number, name in enumerate(names) if name in changed),
    )
    _check_names(experiment, began, now, where)
    _tell(now, then, names, where)
    if experiment.plan.halo:
        LOG.warning(
            f"{where}: hidden states of nodes elsewhere are not computed anew: clients whose data have changed answer "
            "without them, the others with those of the last round."
        )
    return now


def moved(experiment: Job, root: Path) -> Job:
    """Return the experiment with its data read from another folder.

    Files keep their places below the folder that holds all of them; data that are one folder are that folder.
    """
    paths = _paths(experiment)
    if not paths:
        name = experiment.recipe.sections["data"]["name"]
        raise InputError(f"Data set {name!r} reads no files; there is nothing for --data-root {root} to say.")
    if not root.is_dir():
        raise InputError(f"--data-root {root} is no folder.")
    alone = len(paths) == 1 and not paths[0].suffix
    base = paths[0] if alone else Path(os.path.commonpath([path.parent for path in paths]))

    def changed(path: str) -> str:
        return str(root.resolve() / _whole(path).relative_to(base))

    return experiment.with_changes({f"data.{key}": mapped(each, changed) for key, each in _files(experiment).items()})


def _files(experiment: Job) -> dict[str, Any]:
    """{option of [data] that names files: its value}."""
    hints = get_type_hints(type(experiment.data))
    options: Mapping[str, Any] = experiment.recipe.sections["data"]
    return {
        key: value for key, value in options.items() if key in hints and Path in (hints[key], *get_args(hints[key]))
    }


def _paths(experiment: Job) -> list[Path]:
    """The whole paths of all files and folders that [data] names."""

    def texts(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping | list | tuple):
            for each in value.values() if isinstance(value, Mapping) else value:
                yield from texts(each)

    return [_whole(text) for text in texts(_files(experiment))]


def _whole(path: str) -> Path:
    return Path(os.path.abspath(path))


def _check_names(experiment: Job, began: Origin, now: DataNow, where: str) -> None:
    """Raise `InputError` for a client whose model numbers names otherwise than its data do now."""
    names = names_of(now.shards)
    for number in sorted(now.changed):
        digest = named_by(experiment.plan.task, now.shards[number])
        if now.places[number] is None or not digest:
            continue
        if began.get("named", {}).get(names[number]) != digest:
            raise InputError(
                f"{where}: of client {names[number]!r} not only rows have changed, but names that its model numbers "
                "(kinds and attributes of nodes, classes, or users and items with rows in tables): the model does not "
                "fit. Train one on these data: fedgraft run RECIPE --from RUN."
            )


def _tell(now: DataNow, then: Sequence[str], names: Sequence[str], where: str) -> None:
    """Note which clients' data are others."""
    came = [name for name, place in zip(names, now.places, strict=True) if place is None]
    others = [names[number] for number in sorted(now.changed) if names[number] not in came]
    gone = [name for name in then if name not in names]
    parts = {("has", "have", "other rows"): others, ("is", "are", "new"): came, ("is", "are", "gone"): gone}
    changes = "; ".join(
        f"{len(which)} {one if len(which) == 1 else many} {what} ({listed(which, SHOWN)})"
        for (one, many, what), which in parts.items()
        if which
    )
    LOG.warning(
        f"{where}: the data have changed since the run began. Of {len(then)} clients {changes}. Their models answer "
        "from the data as they are now, without what was remembered of single rows."
    )


def listed(names: Sequence[str], most: int) -> str:
    """Return names of clients as an error or a note lists them."""
    return ", ".join([*map(repr, names[:most]), *(["..."] if len(names) > most else [])])
