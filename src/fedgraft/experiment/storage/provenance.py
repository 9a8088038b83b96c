"""What a run began with: its options and every client's data, so that nothing goes on, or answers, from anything else.

A run's memories name nodes and users by their place in the data; with rows in another order, models would be right and
answers wrong.
"""

import hashlib
import logging
import math
import os
import pickle
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import torch
from scipy import sparse

from fedgraft.contracts.abilities.predicting import PredictingTask
from fedgraft.contracts.data import Shards, names_of
from fedgraft.contracts.task import Task
from fedgraft.errors import InputError
from fedgraft.experiment.recipes.discovery import options_of
from fedgraft.experiment.storage.folder_check import ENVIRONMENT

FREE: Final = ("data", "runtime", "checkpoint", "budget", "description", "rounds", "patience", "baselines")
"""Options that may change between a run and its resumption; data are compared themselves, wherever they are now."""
COMPUTING: Final = ("fedgraft", "torch", "numpy")
"""Libraries that a run's bits depend on."""
LIBRARIES: Final = (*COMPUTING, "scipy", "pandas")
"""Libraries that a run's `environment.json` names."""
RESUMED: Final = "resumed"
"""Where `environment.json` lists the versions that a run was taken up with, where they were others."""
LOG = logging.getLogger("fedgraft.experiment.storage.provenance")
_DIGEST_BYTES: Final = 16

MOST_DIGESTS: Final = 16
"""Clients with a digest where a data set makes each client's data, so that its options and the seed tell the rest."""

Origin = Mapping[str, Mapping[str, Any]]
"""{"options": {"section.key": value}, "clients": {name: digest of its data}}, as JSON holds it. And "made", the options
of a data set that makes more clients than have digests; "named", {client: digest of `PredictingTask.vocabulary`}; and
"start", the digest of the first "model" where that was not drawn, and the "run" that it is of, with `SPENT`."""
SPENT: Final = "spent"
"""Of a "start": what its run claims of privacy, as JSON; absent where that is nothing."""


@dataclass(frozen=True)
class RemoteClient:
    """A client whose data are elsewhere: its name, and the fingerprint of its data, as its node says.

    "None" where its node is not there to say it.
    """

    name: str
    data: str

    def unknown(self, then: Mapping[str, str]) -> bool:
        """Return whether its data cannot be compared with what they were: now or then, its node was not there."""
        away = replace(self, data=str(None))
        return self == away or then.get(self.name) == digest_of(away)


def origin_of(sections: Mapping[str, Any], shards: Sequence[Any], task: Task[Any, Any] | None = None) -> Origin:
    """Return what a run began with: its options and a digest of every client's data.

    The task tells by which names the model numbers a client's data; it is None where the data are elsewhere.
    """
    origin: dict[str, dict[str, Any]] = {"options": _kept(sections)}
    if isinstance(shards, Shards) and len(shards) > MOST_DIGESTS:
        places = np.linspace(0, len(shards) - 1, MOST_DIGESTS).astype(int).tolist()
        return {**origin, "clients": _digests(shards, places), "made": _made(shards)}
    digests = {name: named_by(task, shard) for name, shard in zip(names_of(shards), shards, strict=True)}
    named = {name: digest for name, digest in digests.items() if digest}
    return {**origin, "clients": _digests(shards, range(len(shards))), **({"named": named} if named else {})}


def named_by(task: Task[Any, Any] | None, shard: Any) -> str:
    """Return the digest of the names that a model numbers a client's data by; "" where there are none."""
    predicting = task.ability(PredictingTask) if task else None
    names = predicting.vocabulary(shard) if predicting else ()
    return digest_of(list(names)) if names else ""


@cache  # stays what it is while a process lives, and reading versions takes longer than a round of a small run
def environment() -> Mapping[str, Any]:
    """Return what a run depends on: versions and machine."""
    machine = {"python": platform.python_version(), "platform": platform.platform(), "cores": os.cpu_count()}
    return {**machine, **{name: version(name) for name in LIBRARIES}}


@cache
def versions() -> Mapping[str, str]:
    """{name: version} of Python and of the libraries that a run's bits depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in COMPUTING}}


def with_versions(environment: dict[str, Any], stored: Mapping[str, str] | None, folder: Path) -> dict[str, Any]:
    """Return what `environment.json` is to say of a run that goes on; other versions than before are noted and told.

    `stored` are the versions that the last checkpoint was stored with; None without one.
    """
    now, noted = versions(), environment.get(RESUMED, [])
    if not isinstance(noted, list):
        raise InputError(f"{folder / ENVIRONMENT} is damaged: {RESUMED} is no list.")
    then = environment if stored is None else stored
    changed = [name for name in now if then.get(name) != now[name]]
    if not changed:
        return environment
    before, after = (", ".join(f"{name} {each.get(name)}" for name in changed) for each in (then, now))
    LOG.warning(
        f"{folder} was stored with {before} and goes on with {after}: its results may differ from those of a run with "
        "one version throughout."
    )
    return environment if noted[-1:] == [now] else {**environment, RESUMED: [*noted, now]}


def check_shape(began: Mapping[str, Any], where: str) -> None:
    """Raise `InputError` unless the content of an `origin.json` is an origin."""
    parts = [began.get(name, {}) for name in ("clients", "named", "start", "options", "made")]
    digests = [digest for part in parts[:3] if isinstance(part, dict) for digest in part.values()]
    known = began.get("options") and began.get("clients") and all(isinstance(part, dict) for part in parts)
    if not known or not all(isinstance(each, str) for each in digests):
        raise InputError(f"{where} is damaged: it does not hold options and the clients' data.")


def check_options(began: Origin, sections: Mapping[str, Any], where: str) -> None:
    """Raise `InputError` for an option of a run, resolved from the file `where`, that is not as the run began."""
    then, now = began["options"], _kept(sections)
    for key in sorted({*then, *now}):
        if then.get(key) != now.get(key):
            raise InputError(
                f"{where}: {key} = {now.get(key)!r}, but the run began with {then.get(key)!r}. Undo that, or begin a "
                f"new run; only {', '.join(FREE[:-1])} and {FREE[-1]} may be changed."
            )


def check_clients(began: Origin, shards: Sequence[Any], where: str) -> None:
    """Raise `InputError` for data, named by [data] of the file `where`, that are others than the run began with."""
    if changed := changed_clients(began, shards, where):
        more, have = (f" and {len(changed) - 1} more", "have") if len(changed) > 1 else ("", "has")
        raise InputError(
            f"The data that [data] of {where} names have changed since the run began: client {changed[0]!r}{more} of "
            f"{len(began['clients'])} {have} other rows, or the same in another order. A run goes on only with what it "
            "began with; 'fedgraft run RECIPE --from RUN' trains its model on with new data, and with "
            "--allow-changed-data it answers from them."
        )


def changed_clients(began: Origin, shards: Sequence[Any], where: str) -> list[str]:
    """Return the names of clients whose data are others than the run began with, of those that came and went too.

    Arguments as of `check_clients`. Raises `InputError` where a data set that makes its clients has other options.
    """
    then = began["clients"]
    made, makes = began.get("made", {}), _made(shards) if isinstance(shards, Shards) else {}
    for key in {**made, **makes} if made else ():
        if made.get(key) != makes.get(key):
            raise InputError(
                f"{where}: data.{key} = {makes.get(key)!r}, but the run began with {made.get(key)!r}. Undo that, or "
                "begin a new run."
            )
    names = names_of(shards)
    now = _digests(shards, [place for place, name in enumerate(names) if not made or name in then])
    unknown = {shard.name for shard in shards if isinstance(shard, RemoteClient) and shard.unknown(then)}
    return [name for name in {**then, **now} if name not in unknown and then.get(name) != now.get(name)]


def _digests(shards: Sequence[Any], clients: Iterable[int]) -> dict[str, str]:
    names = names_of(shards)
    return {names[client]: digest_of(shards[client]) for client in clients}


def _made(shards: Shards[Any]) -> dict[str, Any]:
    """The data set that makes the clients' data: its class as "name", and its options."""
    return {"name": type(shards.data).__name__, **_plain(options_of(shards.data))}


def digest_of(value: Any) -> str:
    """A fingerprint of a client's data: of every number and every name, in their order."""
    hasher = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    _feed(hasher, value)
    return hasher.hexdigest()


def _kept(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Options by their full names, but for those that may change."""
    flat: dict[str, Any] = {}
    for key, value in sections.items():
        if key in FREE:
            continue
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": _plain(each) for name, each in value.items()}
        else:
            flat[key] = _plain(value)
    return flat


def _plain(value: Any) -> Any:
    """Return a value as JSON gives it back, which knows no infinity."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _feed(hasher: Any, value: Any) -> None:
    """Whatever shards are made of, each part behind what it is."""
    if is_dataclass(value):
        _feed(hasher, {each.name: getattr(value, each.name) for each in fields(value)})
    elif isinstance(value, torch.Tensor | pd.DataFrame):
        _feed(hasher, value.numpy(force=True) if isinstance(value, torch.Tensor) else value.to_dict("list"))
    elif isinstance(value, np.ndarray) and value.dtype != object:
        hasher.update(f"array {value.dtype.str} {value.shape};".encode())
        hasher.update(np.ascontiguousarray(value).view(np.uint8).data if value.size else b"")
    elif sparse.issparse(value):
        rows = value.tocsr()
        _feed(hasher, [rows.shape, rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data])
    elif isinstance(value, Mapping):
        _feed(hasher, [[key, each] for key, each in value.items()])
    elif isinstance(value, list | tuple | np.ndarray | Shards):
        hasher.update(f"list {len(value)};".encode())
        for each in value:
            _feed(hasher, each)
    elif value is None or isinstance(value, str | bytes | int | float | np.generic):
        hasher.update(f"{type(value).__name__} {value!r};".encode())
    else:
        hasher.update(f"{type(value).__name__};".encode())
        _feed(hasher, vars(value) if hasattr(value, "__dict__") else pickle.dumps(value))
