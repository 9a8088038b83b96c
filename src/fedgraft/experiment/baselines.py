"""What a person would try first, scored on the very split of an experiment; computed once per split and kept.

Most yardsticks are files of their own. Two train the experiment's own model, so they are made of the loop itself:
`local_only` (every client alone, zero bytes) and `centralised` (all data in one place, which no federation allows).
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgraft.contracts import RuntimeOptions, Sums
from fedgraft.contracts.scores import add
from fedgraft.contracts.task_abilities import HaloTask, PooledTask
from fedgraft.contracts.values import SCORED_SPLITS
from fedgraft.engine.server.loop import Loop
from fedgraft.engine.server.simulated_clock import Clock
from fedgraft.engine.server.stopping import Evaluation, Stopping
from fedgraft.errors import FedgraftError, InputError
from fedgraft.experiment.discovery import find
from fedgraft.experiment.experiment import TRAINED_YARDSTICKS, Experiment, build_yardstick
from fedgraft.experiment.provenance import digest_of
from fedgraft.runtimes.processes import Processes

Scores = dict[str, float]


def scores(experiment: Experiment, shards: Sequence[Any], names: Iterable[str] | None = None) -> dict[str, Scores]:
    """{yardstick: {"validation": score, "test": score, measure: on test}} for the experiment's, or for `names`.

    None where a sample is scored of clients whose data are parts of one graph: a few parts of it are no graph.
    """
    if experiment.evaluation.sample and isinstance(experiment.plan.task, HaloTask):
        return {}
    return {name: _kept(experiment, shards, name) for name in (experiment.yardsticks if names is None else names)}


def _kept(experiment: Experiment, shards: Sequence[Any], name: str) -> Scores:
    path = _cache() / f"{_key(experiment, shards, name)}.json"
    if path.is_file():
        kept: Scores = json.loads(path.read_text())
        return kept
    try:
        found = _train(experiment, shards, name) if name in TRAINED_YARDSTICKS else build_yardstick(name).score(shards)
    except FedgraftError as error:
        raise FedgraftError(f"The yardstick {name!r} could not be computed. {error}") from error
    with suppress(OSError):  # where nothing can be kept, it is computed again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.new")
        temporary.write_text(json.dumps(found))
        temporary.replace(path)
    return found


def _train(experiment: Experiment, shards: Sequence[Any], name: str) -> Scores:
    task = experiment.plan.task
    if not isinstance(task, PooledTask):
        raise InputError(f"Task {type(task).__name__} cannot be trained in one place or by each client alone.")
    groups = [[task.alone(shard)] for shard in shards] if name == "local_only" else [[task.pooled(shards)]]
    sums = [_sums(experiment, group) for group in groups]
    added = {split: add(part[split] for part in sums) for split in SCORED_SPLITS}
    measures = experiment.plan.measures(added["test"])
    return {
        **{split: task.score(added[split]) for split in SCORED_SPLITS},
        **{name: value for name, value in measures.items() if name != task.metric},
    }


def _sums(experiment: Experiment, shards: Sequence[Any]) -> dict[str, Sums]:
    """Train alone for as many rounds, scored with the round that is best on the own validation split.

    Nothing is sent, so nothing is lost on the way.
    """
    identity = find("codecs", "identity")()
    plan = replace(experiment.plan, reports=frozenset(), uplink=identity, downlink=identity, rows=identity)
    stopping = Stopping(rounds=experiment.stopping.rounds)
    scoring = Evaluation(averaging=experiment.evaluation.averaging)
    runtime = _local(experiment.runtime).start(plan, shards)
    try:
        loop = Loop(plan, find("selectors", "all")(), runtime, Clock(), stopping, scoring)
        state = loop.run(loop.start(), lambda state, row: None)
        loop.smooth(state)
        best: dict[str, Sums] = state.best["sums"]
    finally:
        runtime.close()
    return best


def _local(options: RuntimeOptions) -> RuntimeOptions:
    """Return the experiment's runtime if it is on this machine; else one that is."""
    return options if isinstance(options, Processes) else Processes(options.threads, options.device)


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "fedgraft" / "yardsticks"


def _key(experiment: Experiment, shards: Sequence[Any], name: str) -> str:
    """A fingerprint of the split, of the yardstick, and of the model and training where it trains those."""
    state = hashlib.blake2b(digest_size=16)
    state.update(f"2:{name}".encode())  # the first number changes when a yardstick's meaning does
    if name in TRAINED_YARDSTICKS:
        used = ("task", "model", "sampler", "sharing", "training", "rounds", "seed")
        state.update(f"averaging {experiment.evaluation.averaging};".encode())
        state.update(json.dumps({key: experiment.sections.get(key) for key in used}, sort_keys=True).encode())
    state.update(digest_of(shards).encode())
    return state.hexdigest()
