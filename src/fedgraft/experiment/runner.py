"""Run an experiment: load, train, store, summarise. The same for a new run and for a resumed one."""

import math
import os
import platform
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import mean
from typing import Any, Protocol

import numpy as np
import torch

from fedgraft.engine.server.loop import Loop
from fedgraft.engine.server.run_state import RunState
from fedgraft.engine.server.stopping import Row
from fedgraft.errors import FedgraftError, InputError, require
from fedgraft.experiment import baselines
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.provenance import check_clients, check_options, origin_of
from fedgraft.experiment.run_folder import Store
from fedgraft.runtimes.in_process import InProcess
from fedgraft.wire.layouts import Arrays, digest

CURVE = ("round", "bytes", "seconds", "validation", "test", "flops")
"""What each point of a summary's curve holds, in order."""
LIBRARIES = ("fedgraft", "torch", "numpy", "scipy", "pandas")


class Interrupted(FedgraftError):
    """The user asked to stop; the run is stored and can be resumed."""


class Watcher(Protocol):
    """Whoever follows a run."""

    def after_round(self, state: RunState, row: Row) -> None:
        """Called after every round."""
        ...


class Silent:
    """Follows nothing."""

    def after_round(self, state: RunState, row: Row) -> None:
        """Nothing to do."""


def execute(experiment: Experiment, folder: Path | None = None, watcher: Watcher | None = None) -> dict[str, Any]:
    """Run a new experiment; with a folder, store it there so that it can be resumed.

    Returns:
        The summary. Raises `InputError`, `BudgetError`, `AllClientsFailedError` or `Interrupted`.
    """
    _check_device(experiment.runtime.device)
    if folder is not None:
        Store.check_free(folder)  # before data are loaded for nothing
    shards = experiment.data.load(experiment.seed)
    experiment = experiment.fitted(shards)
    if folder is None:
        return _train(experiment, shards, None, watcher or Silent())
    with Store.create(folder, experiment.to_toml(), environment(), origin_of(experiment.sections, shards)) as store:
        return _train(experiment, shards, store, watcher or Silent())


def execute_on(experiment: Experiment, shards: Sequence[Any], prepared: dict[int, Any]) -> dict[str, Any]:
    """Run an experiment on shards that are loaded already, in this process, storing nothing; the summary.

    `prepared` keeps the clients' prepared data for the next experiment with the same shards and the same task.
    """
    experiment = experiment.fitted(shards)
    with _runtime(experiment, shards, prepared) as runtime:
        loop = _loop(experiment, runtime)
        state = loop.run(loop.start(), lambda state, row: loop.ledger.pending.clear())
        memories = dict(runtime.memories(changed=False))
    return summarise(experiment, state, shards, memories)


def resume(folder: Path, watcher: Watcher | None = None) -> dict[str, Any]:
    """Take a stored run up after its last checkpoint; a finished one is only summarised again."""
    with Store.open(folder) as store:
        where = str(folder / "experiment.toml")
        experiment = Experiment.from_toml(store.experiment_toml(), where)
        _check_device(experiment.runtime.device)
        check_options(store.origin(), experiment.sections, where)
        shards = experiment.data.load(experiment.seed)
        check_clients(store.origin(), shards, where)
        return _train(experiment, shards, store, watcher or Silent())


def environment() -> dict[str, Any]:
    """What a run depended on."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        **{name: version(name) for name in LIBRARIES},
    }


def _train(experiment: Experiment, shards: Sequence[Any], store: Store | None, watcher: Watcher) -> dict[str, Any]:
    stored = store.load() if store is not None else None
    if store is not None:
        store.rewind()
    if stored is not None and stored[0].round > experiment.stopping.rounds:
        require(False, "rounds", f">= {stored[0].round}, as many as were made", experiment.stopping.rounds)
    if stored is not None and stored[0].finished:
        state, memories = stored
    else:
        try:
            state, memories = _finish(experiment, shards, store, stored, watcher)
        except Exception:  # whatever it was: a run that cannot begin leaves no folder behind
            if store is not None:
                store.discard()
            raise
    result = summarise(experiment, state, shards, memories)
    if store is not None:
        store.finish(result, best_model(state))
    return result


def _finish(
    experiment: Experiment,
    shards: Sequence[Any],
    store: Store | None,
    stored: tuple[RunState, dict[int, bytes]] | None,
    watcher: Watcher,
) -> tuple[RunState, dict[int, bytes]]:
    """The state and the memories at the end of a run, from its beginning or from what was stored."""
    with _runtime(experiment, shards) as runtime, _stop_on_interrupt() as interrupted:
        loop = _loop(experiment, runtime)
        recorder = _Recorder(loop, runtime, store, experiment.checkpoint.every_seconds, watcher, interrupted)
        if stored is None:
            state = _begin(loop)
            recorder.checkpoint(state)
        else:
            state, memories = stored
            runtime.restore(memories)
            loop.resume(state)
        loop.run(state, recorder.after_round)
        recorder.checkpoint(state)
        return state, dict(runtime.memories(changed=False))


def _begin(loop: Loop) -> RunState:
    """Round 0."""
    state = loop.start()
    if not any(state.examples):
        raise InputError(f"None of the {len(state.profiles)} clients has a training example.")
    return state


def summarise(
    experiment: Experiment, state: RunState, shards: Sequence[Any], memories: Mapping[int, bytes]
) -> dict[str, Any]:
    """The summary of a run: what `summary.json` holds and `--json` prints.

    Where clients keep models of their own, the digest covers what they remember as well.
    """
    last = state.curve[-1]
    by_client = {
        str(getattr(shards[int(client)], "name", client)): _number(scores["test"])
        for client, scores in state.scores.items()
    }
    known = [score for score in by_client.values() if score is not None]
    scores = {name: values["test"] for name, values in baselines.scores(experiment, shards).items()}
    return {
        "recipe": experiment.recipe,
        "dataset": experiment.sections["data"]["name"],
        "clients": len(shards),
        "seed": experiment.seed,
        "rounds": state.round,
        "stopped_by": state.finished,
        "metric": experiment.plan.task.metric,
        "better": experiment.plan.task.better,
        "validation": _number(last["validation"]),
        "test": _number(last["test"]),
        "test_at_best_validation": _number(state.best.get("test")),
        "measures": _measures(experiment, state),
        "test_per_client": by_client,
        "test_plain_mean": mean(known) if known else None,
        "bytes": {"total": state.bytes["down"] + state.bytes["up"], **state.bytes},
        "seconds": state.seconds,
        "simulated_seconds": state.simulated_seconds,
        "flops": state.flops or None,
        "selections": sum(state.chosen),
        "digest": digest(_all_models(experiment, state, memories)),
        "curve": [[_number(point[key]) for key in CURVE] for point in state.curve],
        "yardsticks": {name: _number(score) for name, score in scores.items()},
    }


def _measures(experiment: Experiment, state: RunState) -> dict[str, dict[str, float | None]]:
    """Every measure of the model that was best on validation, by split."""
    sums = state.best.get("sums", {})
    return {
        split: {name: _number(value) for name, value in experiment.plan.task.measures(sums[split]).items()}
        for split in sums
    }


def best_model(state: RunState) -> Arrays:
    """The shared parameters that did best on validation; of several groups, keyed "group/name"."""
    models = state.best["models"]
    if len(models) == 1:
        return dict(next(iter(models.values())))
    return {f"{group}/{name}": array for group, model in models.items() for name, array in model.items()}


def _all_models(experiment: Experiment, state: RunState, memories: Mapping[int, bytes]) -> Arrays:
    """Everything that a run's digest covers: the trained and the scored parameters of every group, and own models."""
    sharing = experiment.plan.sharing
    groups = sorted({sharing.group(state.sharing, client) for client in range(len(state.profiles))})
    models = {
        f"{kind}/{group}/{name}": array
        for group in groups
        for kind, model in (("model", sharing.model), ("evaluated", experiment.plan.scored))
        for name, array in model(state.sharing, group).items()
    }
    if experiment.plan.personal:
        models.update({f"client/{client}": np.frombuffer(memory, np.uint8) for client, memory in memories.items()})
    return models


def _number(value: float | None) -> float | None:
    """A number that JSON can hold."""
    return None if value is None or not math.isfinite(value) else value


class _Recorder:
    """Appends rows as rounds end, and checkpoints now and then."""

    def __init__(
        self,
        loop: Loop,
        runtime: InProcess,
        store: Store | None,
        every_seconds: float,
        watcher: Watcher,
        interrupted: threading.Event,
    ) -> None:
        self._loop, self._runtime, self._store, self._watcher = loop, runtime, store, watcher
        self._every_seconds, self._interrupted = every_seconds, interrupted
        self._stored_at = time.monotonic()

    def after_round(self, state: RunState, row: Row) -> None:
        """Store the row, now and then the state; stop here if the user asked to."""
        entries = self._loop.ledger.drain()
        if self._store is not None:
            self._store.append(row, entries)
        stop = self._interrupted.is_set() and not state.finished
        if stop or time.monotonic() - self._stored_at >= self._every_seconds:
            self.checkpoint(state)
        self._watcher.after_round(state, row)
        if stop:
            raise Interrupted(f"interrupted after round {state.round}")

    def checkpoint(self, state: RunState) -> None:
        """Make this state what a resume starts from, with whatever was charged since the last row."""
        entries = self._loop.ledger.drain()
        if self._store is not None:
            self._store.append(None, entries)
            self._store.checkpoint(state, self._runtime.memories())
        self._stored_at = time.monotonic()


def _loop(experiment: Experiment, runtime: InProcess) -> Loop:
    return Loop(
        plan=experiment.plan,
        selector=experiment.selector,
        runtime=runtime,
        clock=experiment.clock,
        stopping=experiment.stopping,
        evaluation=experiment.evaluation,
        dropout=experiment.dropout,
        deadline_seconds=experiment.runtime.deadline_seconds or None,
    )


@contextmanager
def _runtime(
    experiment: Experiment, shards: Sequence[Any], prepared: dict[int, Any] | None = None
) -> Iterator[InProcess]:
    options = experiment.runtime
    workers = options.workers if prepared is None else 0
    runtime = InProcess(experiment.plan, shards, workers, options.threads, prepared)
    try:
        yield runtime
    finally:
        runtime.close()


@contextmanager
def _stop_on_interrupt() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets, so that the round can end; a second one interrupts at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, previous)


def _check_device(device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("runtime.device = 'cuda', but torch sees no CUDA device here; use runtime.device=cpu.")
