"""Run an experiment: load, train, store, summarise. The same for a new run and for a resumed one."""

import json
import logging
import os
import platform
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import torch

from fedgraft import wire
from fedgraft.contracts import Runtime, RuntimeOptions
from fedgraft.contracts.data import Shards, names_of
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.loop.loop import Loop
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import AllClientsFailedError, InputError, Interrupted, MachineError, memory_shortage, require
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.own_parameters import joined
from fedgraft.experiment.policies import require_allowed
from fedgraft.experiment.recipes.option_names import named_as_in_recipes
from fedgraft.experiment.running import baseline_scores, portable
from fedgraft.experiment.running.baseline_scores import STAGE
from fedgraft.experiment.running.extend_run import Stored, reopened, with_rounds
from fedgraft.experiment.running.loops import loop_of, running
from fedgraft.experiment.running.recorder import Recorder, Silent, Watcher
from fedgraft.experiment.running.remarks import stale_scores
from fedgraft.experiment.running.summary import summarise
from fedgraft.experiment.running.warm_start import Start
from fedgraft.experiment.seen_rows import content_of, rows_of
from fedgraft.experiment.storage.folder_check import CHECKPOINT, FEDERATION, RUN, STATE
from fedgraft.experiment.storage.matching import matched_here
from fedgraft.experiment.storage.outside_classes import given_network, note_made, stored_experiment
from fedgraft.experiment.storage.provenance import SPENT, Origin, check_clients, check_options, origin_of
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.experiment.storage.server_root import make_root, root_in
from fedgraft.experiment.storage.stored_state import check_state
from fedgraft.runtimes.workers.in_process import InProcess
from fedgraft.runtimes.workers.signals import deferred
from fedgraft.wire.layouts import digest

ALL_FAILED = "all clients failed"
"""What ended a run that cannot go on, as its summary says."""
LOG = logging.getLogger("fedgraft.experiment.running.runner")
VERY_MANY = 5_000
"""Clients from which on a note says what it takes to score all."""
LIBRARIES = ("fedgraft", "torch", "numpy", "scipy", "pandas")


class Sites(Protocol):
    """Where the clients of a federation are: their data are loaded there.

    Attributes:
        where: the federation's folder.
    """

    where: str

    def joined(
        self, experiment: Experiment, run: str, count: int | None = None
    ) -> AbstractContextManager[tuple[Experiment, Runtime, Sequence[Any]]]:
        """Enter with a runtime to which the clients have connected, and each client's name and data's fingerprint.

        The experiment then says how all read their data. A run that is taken up has the first `count` clients, those
        with which it began.
        """
        ...

    def leave(self, experiment: Experiment, state: RunState, summary: Mapping[str, Any]) -> None:
        """Hand every client what the run leaves it."""
        ...

    def fingerprints(self, memories: Mapping[int, bytes]) -> dict[int, bytes]:
        """Return {client: fingerprint of what it remembers}, of what the runtime's `memories` yielded.

        {} where nobody but the sites knows it: a fingerprint would let the server try data until it fits.
        """
        ...


def execute(
    experiment: Experiment,
    folder: Path | None = None,
    watcher: Watcher | None = None,
    keep: Callable[[Experiment, RunFolder], Experiment] | None = None,
    sites: Sites | None = None,
    start: Start | None = None,
) -> dict[str, Any]:
    """Run a new experiment; with a folder, store it there so that it can be resumed.

    Args:
        experiment: what to run.
        folder: not there yet, or empty; where the run cannot begin, all is left as it was before.
        watcher: follows the run.
        keep: puts what was given in memory, such as tables, into the new folder; the experiment that reads it there.
        sites: where the clients' data are, if not here; needs a folder.
        start: the model to begin with; None draws one. Not at sites, which draw theirs.

    Returns:
        The summary. Raises `InputError`, `BudgetError`, `AllClientsFailedError` or `Interrupted`.
    """
    _check_machine(experiment.runtime)
    watcher = watcher or Silent()
    with nullcontext() if folder is None else _new(folder) as run_folder:
        if sites is not None:
            assert run_folder is not None, "a run at sites needs a folder"
            return _execute_at(sites, experiment, run_folder, watcher)
        experiment = experiment if keep is None or run_folder is None else keep(experiment, run_folder)
        experiment, shards = _loaded(experiment if start is None else start.reading(experiment))
        began = origin_of(experiment.recipe.sections, shards, experiment.plan.task)
        if start is not None:
            start.tell(experiment, shards)
            experiment = start.begin(experiment, began, names_of(shards))
        if run_folder is not None:
            seen = b"" if experiment.split_seed is None else content_of(rows_of(shards, experiment.begins.seen))
            _describe(run_folder, experiment, environment(), began, start, seen)
        return _train(experiment, shards, run_folder, None, watcher)


def _execute_at(sites: Sites, experiment: Experiment, run_folder: RunFolder, watcher: Watcher) -> dict[str, Any]:
    """Run a new experiment whose clients' data are at sites; the summary."""
    if given_network(experiment.recipe.sections):
        raise InputError(
            "model is a network that was given as an instance, which the nodes of a federation do not have; "
            'give its class and options: model={"name": "package.module:Class", ...}.'
        )
    run = secrets.token_hex(16)
    with sites.joined(experiment, run) as (experiment, runtime, clients):
        experiment = experiment.among(len(clients))
        about = {**environment(), RUN: run, FEDERATION: sites.where}
        make_root(run_folder.folder, experiment)
        _describe(run_folder, experiment, about, origin_of(experiment.recipe.sections, clients))
        return _train(experiment, clients, run_folder, None, watcher, runtime, sites)


def _describe(
    run_folder: RunFolder,
    experiment: Experiment,
    about: Mapping[str, Any],
    began: Origin,
    start: Start | None = None,
    seen: bytes = b"",
) -> None:
    """Make a folder a run's: what is run, on which versions and machine, and what it begins with."""
    first, network = joined(experiment.plan.start, experiment.begins.own), given_network(experiment.recipe.sections)
    if start is not None:
        spent = {SPENT: json.dumps(dict(experiment.begins.spent))} if experiment.begins.spent else {}
        began = {**began, "start": {"model": digest(first), "run": str(start.folder.resolve()), **spent}}
    run_folder.describe(experiment.to_toml(), about, began, first, network, seen)
    note_made(experiment.recipe.sections)


@contextmanager
def _new(folder: Path) -> Iterator[RunFolder]:
    """Enter the new folder of a run, which is taken back where the run cannot begin."""
    with RunFolder.begin(folder) as run_folder, run_folder.taken_back():
        yield run_folder


def execute_on(experiment: Experiment, shards: Sequence[Any], prepared: dict[int, Any]) -> dict[str, Any]:
    """Run an experiment on shards that are loaded already, in this process, storing nothing; the summary.

    `prepared` keeps the clients' prepared data for the next experiment with the same shards and the same task.
    """
    _check_machine(experiment.runtime)
    experiment = experiment.fitted(shards)
    with closing(InProcess(experiment.plan, shards, 0, experiment.runtime.threads, prepared)) as runtime:
        loop = loop_of(experiment, runtime)
        state = loop.run(loop.start(), lambda state, row: loop.ledger.pending.clear())
        loop.smooth(state)
        fingerprints = _fingerprints(experiment.runtime, runtime)
    return summarise(experiment, state, shards, fingerprints)


def resume(
    run: Path | RunFolder,
    watcher: Watcher | None = None,
    before: bool = False,
    sites: Sites | None = None,
    rounds: int | None = None,
) -> dict[str, Any]:
    """Take a stored run up after its last checkpoint; a finished one is only summarised again.

    Args:
        run: its folder, or that opened.
        watcher: follows the run.
        before: whether to go back to the checkpoint before the last one, such as when a client spoiled the model.
        sites: where the clients' data are, if not here.
        rounds: how many there are to be in all; None = as many as `experiment.toml` says. The run ends as if it had
            been begun with them.

    Raises `InputError` where rounds that were made would have been others with that number.
    """
    with run if isinstance(run, RunFolder) else RunFolder.open(run) as run_folder:
        folder = run_folder.folder
        if before:
            run_folder.go_back()
        where = str(folder / "experiment.toml")
        experiment = stored_experiment(run_folder)
        _check_machine(experiment.runtime)
        stored, began = run_folder.load(), run_folder.origin()
        check_options(began, experiment.recipe.sections, where)
        if rounds is not None:
            experiment = with_rounds(experiment, rounds, stored and stored[0])
        if stored is not None:
            stored = reopened(run_folder, experiment, stored, rounds is not None)
            where, optimizer = str(folder / CHECKPOINT / STATE), experiment.server_optimizer
            check_state(stored[0], experiment.plan, experiment.selector, where, optimizer)
        made = stored[0].round if stored else 0
        require(
            experiment.stopping.rounds >= made, "rounds", f">= {made}, as many as were made", experiment.stopping.rounds
        )
        if rounds is not None:
            run_folder.revise(experiment.to_toml())
        run_folder.rewind()
        run_folder.note_versions()
        if sites is not None:
            count = len(began["clients"])
            with sites.joined(experiment, run_folder.environment()[RUN], count) as (experiment, runtime, clients):
                check_clients(began, clients, where)
                return _train(experiment, clients, run_folder, stored, watcher or Silent(), runtime, sites)
        STAGE.info("loading data")
        shards = experiment.shards()
        check_clients(began, shards, where)
        return _train(experiment, shards, run_folder, stored, watcher or Silent())


def _loaded(experiment: Experiment) -> tuple[Experiment, Sequence[Any]]:
    """The experiment, its task knowing what it must of the data, and the clients' data."""
    STAGE.info("loading data")
    experiment = matched_here(experiment.agreed())
    shards = experiment.shards()
    if isinstance(shards, Shards) and len(shards) >= VERY_MANY and not experiment.settings.evaluation.sample:
        LOG.warning(
            f"Each scoring makes the data of all {len(shards):,} clients, and baselines need all at once; "
            "evaluation.sample=100 scores a hundred clients, the same ones in every round."
        )
    experiment = experiment.fitted(shards)
    if stale := stale_scores(experiment.selector, experiment.plan.sampler, experiment.settings.evaluation.every):
        LOG.warning(stale)
    if experiment.plan.policy.limits:
        require_allowed(experiment, experiment.plan.policy, "Section [policy]")
    return experiment, shards


@cache  # stays what it is while a process lives, and reading versions takes longer than a round of a small run
def environment() -> Mapping[str, Any]:
    """Return what a run depends on: versions and machine."""
    machine = {"python": platform.python_version(), "platform": platform.platform(), "cores": os.cpu_count()}
    return {**machine, **{name: version(name) for name in LIBRARIES}}


def _train(
    experiment: Experiment,
    shards: Sequence[Any],
    run_folder: RunFolder | None,
    stored: Stored | None,
    watcher: Watcher,
    runtime: Runtime | None = None,
    sites: Sites | None = None,
) -> dict[str, Any]:
    """Train to the end, from the beginning or from what was stored, and store the result; the summary."""
    experiment = experiment if sites is None else experiment.at_sites()
    failed: AllClientsFailedError | None = None
    told_of = experiment.runtime.fingerprints if sites is None else sites.fingerprints
    if stored is not None and stored[0].finished and not _unsmoothed(experiment.plan, stored[0]):
        state, fingerprints = stored[0], told_of(stored[1])
    else:
        plan = experiment.plan
        built = {"selector": experiment.selector, "sampler": plan.sampler, "sharing": plan.sharing, "task": plan.task}
        try:
            with named_as_in_recipes({section: type(each) for section, each in built.items()}):
                state, memories = _finish(experiment, shards, run_folder, stored, watcher, runtime)
                fingerprints = told_of(memories)
        except AllClientsFailedError as error:
            if (kept := _last_merged(run_folder)) is None:
                raise
            state, fingerprints, failed = kept[0], told_of(kept[1]), error
        except Exception as error:
            if shortage := _machine_error(error, run_folder):
                raise shortage from error
            raise
    result = summarise(experiment, state, shards, fingerprints, sites is None)
    if run_folder is not None:
        run_folder.finish({**result, "stopped_by": ALL_FAILED} if failed else result, state.best_model)
        if failed:
            raise _with_what_is_kept(failed, state, run_folder.folder) from failed
    if sites is not None:
        sites.leave(experiment, state, result)
    return result


def _finish(
    experiment: Experiment,
    shards: Sequence[Any],
    run_folder: RunFolder | None,
    stored: Stored | None,
    watcher: Watcher,
    site_runtime: Runtime | None = None,
) -> Stored:
    """The state and what clients remember at the end of a run, from its beginning or from what was stored."""
    at_sites = site_runtime is not None
    root = root_in(run_folder.folder, experiment) if run_folder and at_sites else b""
    # First, or a signal could end the start of a worker half-way.
    with deferred() as interrupted, running(experiment, shards, site_runtime, root=root) as (loop, runtime):
        raw_data = (lambda: None) if at_sites else cache(lambda: baseline_scores.raw_data(shards))
        recorder = Recorder(loop, runtime, run_folder, experiment, watcher, interrupted, raw_data, at_sites)
        if stored is None:
            STAGE.info("preparing %s clients", f"{len(shards):,}")
            first = {client: wire.pack(dict(memory)) for client, memory in experiment.begins.own.items()}
            with interrupted.at_once():  # there is nothing to store yet
                if first:
                    runtime.restore(first)
                state = _begin(loop)
            recorder.checkpoint(state, first)
        else:
            state, memories = stored
            runtime.restore(memories)
            loop.resume(state)
        if interrupted:
            raise Interrupted(f"interrupted after round {state.round}", interrupted.number)
        loop.run(state, recorder.after_round)
        if _unsmoothed(experiment.plan, state):
            recorder.checkpoint(state)
            loop.smooth(state)
        recorder.checkpoint(state)
        return state, dict(runtime.memories(changed=False))


def _unsmoothed(plan: Plan, state: RunState) -> bool:
    """Return whether the answers of a run that has ended are still to be smoothed."""
    return plan.smoothing is not None and not state.smoothed


def _fingerprints(options: RuntimeOptions, runtime: Runtime) -> dict[int, bytes]:
    """Return {client: fingerprint of what it remembers now}."""
    return options.fingerprints(dict(runtime.memories(changed=False)))


def _last_merged(run_folder: RunFolder | None) -> Stored | None:
    """Return what a run that cannot go on had learnt until its last checkpoint, its rows cut off there.

    None where nothing was learnt, or nothing is stored.
    """
    stored = None if run_folder is None else run_folder.load()
    if run_folder is None or stored is None or not stored[0].merges:
        return None
    run_folder.rewind()
    return stored


def _with_what_is_kept(error: AllClientsFailedError, state: RunState, folder: Path) -> AllClientsFailedError:
    """Return the error of a run that cannot go on, once what was learnt is a result."""
    return AllClientsFailedError(
        error.round,
        error.reasons,
        f"What was learnt until round {state.round} is kept: summary and best model, of round "
        f"{state.best['round']}, are in {folder}. Go on with 'fedgraft resume {folder}', from the "
        "checkpoint before the last one with --before.",
    )


def _machine_error(error: Exception, run_folder: RunFolder | None) -> MachineError | None:
    """An error of this machine, with how to go on; None for any other."""
    lacked = memory_shortage(error)
    if not (lacked or isinstance(error, MachineError)):
        return None
    text = str(error) if isinstance(error, MachineError) else f"This machine could not go on with the run: {lacked}."
    if run_folder is not None and run_folder.has_checkpoint:
        text += (
            f" The last checkpoint is intact: continue with 'fedgraft resume {run_folder.folder}', where [runtime] of "
            "its experiment.toml may be changed."
        )
    return MachineError(text)


def _begin(loop: Loop) -> RunState:
    """Make round 0: the set-up."""
    state = loop.start()
    if not any(state.examples):
        raise InputError(f"None of the {len(state.profiles)} clients has a training example.")
    return state


def _check_machine(options: RuntimeOptions) -> None:
    portable.check(options)
    if options.device == "cuda" and not torch.cuda.is_available():
        raise InputError("runtime.device = 'cuda', but torch sees no CUDA device here; use runtime.device=cpu.")
