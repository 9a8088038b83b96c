"""Run an experiment: load, train, store, summarise. The same for a new run and for a resumed one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

from fedgraft import wire
from fedgraft.engine.plan import Plan
from fedgraft.engine.server.loop.loop import Loop
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import AllClientsFailedError, InputError, Interrupted, MachineError, memory_shortage
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.discovery import named_as_in_recipes
from fedgraft.experiment.running.baseline_scores import STAGE
from fedgraft.experiment.running.loops import loop_of, running
from fedgraft.experiment.running.portable import check_machine
from fedgraft.experiment.running.raw_data import raw_data
from fedgraft.experiment.running.recorder import Recorder, Silent, Sites, Watcher
from fedgraft.experiment.running.settled import Settled, describe, settled_again, settled_at, settled_here
from fedgraft.experiment.running.summary import summarise
from fedgraft.experiment.running.taken_up import Stored, taken_up
from fedgraft.experiment.running.warm_start import Start
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.runtimes.workers.in_process import InProcess
from fedgraft.runtimes.workers.signals import deferred

ALL_FAILED = "all clients failed"
"""What ended a run that cannot go on, as its summary says."""


def execute(
    experiment: Job,
    folder: Path | None = None,
    watcher: Watcher | None = None,
    keep: Callable[[Job, RunFolder], Job] | None = None,
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
    check_machine(experiment.runtime)
    with nullcontext() if folder is None else _new(folder) as run_folder:
        if sites is not None:
            assert run_folder is not None, "a run at sites needs a folder"
            settling = settled_at(sites, experiment, run_folder)
        else:
            if keep is not None and run_folder is not None:
                experiment = keep(experiment, run_folder)
            settling = settled_here(experiment, start)
        with settling as settled:
            if run_folder is not None:
                describe(run_folder, settled)
            return _complete(settled, run_folder, None, watcher or Silent())


@contextmanager
def _new(folder: Path) -> Iterator[RunFolder]:
    """Enter the new folder of a run, which is taken back where the run cannot begin."""
    with RunFolder.begin(folder) as run_folder, run_folder.taken_back():
        yield run_folder


def execute_on(experiment: Job, shards: Sequence[Any], prepared: dict[int, Any]) -> dict[str, Any]:
    """Run an experiment on shards that are loaded already, in this process, storing nothing; the summary.

    `prepared` keeps the clients' prepared data for the next experiment with the same shards and the same task.
    """
    check_machine(experiment.runtime)
    experiment = experiment.fitted(shards)
    with closing(InProcess(experiment.plan, shards, 0, experiment.runtime.threads, prepared)) as runtime:
        loop = loop_of(experiment, runtime)
        state = loop.run(loop.start(), lambda state, row: loop.ledger.pending.clear())
        loop.smooth(state)
        fingerprints = experiment.runtime.fingerprints(dict(runtime.memories(changed=False)))
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
        experiment, stored, began, where = taken_up(run_folder, before, rounds)
        with settled_again(experiment, run_folder, began, where, sites) as settled:
            return _complete(settled, run_folder, stored, watcher or Silent())


def _complete(
    settled: Settled, run_folder: RunFolder | None, stored: Stored | None, watcher: Watcher
) -> dict[str, Any]:
    """Train to the end, from the beginning or from what was stored, and store the result; the summary."""
    job, remote = settled.job, settled.remote
    (state, memories), failed = _train(settled, run_folder, stored, watcher)
    result = summarise(job, state, settled.shards, settled.fingerprints(memories), remote is None)
    if run_folder is not None:
        run_folder.finish({**result, "stopped_by": ALL_FAILED} if failed else result, state.best_model)
        if failed:
            raise _with_what_is_kept(failed, state, run_folder.folder) from failed
    if remote is not None:
        remote.sites.leave(job, state, result)
    return result


def _train(
    settled: Settled, run_folder: RunFolder | None, stored: Stored | None, watcher: Watcher
) -> tuple[Stored, AllClientsFailedError | None]:
    """Return what a run comes to, and why it could not go on, None where it could."""
    plan = settled.job.plan
    if stored is not None and stored[0].finished and not _unsmoothed(plan, stored[0]):
        return stored, None
    built = {"selector": settled.job.selector, "sampler": plan.sampler, "sharing": plan.sharing, "task": plan.task}
    try:
        with named_as_in_recipes({section: type(each) for section, each in built.items()}):
            return _finish(settled, run_folder, stored, watcher), None
    except AllClientsFailedError as error:
        if (kept := _last_merged(run_folder)) is None:
            raise
        return kept, error
    except Exception as error:
        if shortage := _machine_error(error, run_folder):
            raise shortage from error
        raise


def _finish(settled: Settled, run_folder: RunFolder | None, stored: Stored | None, watcher: Watcher) -> Stored:
    """The state and what clients remember at the end of a run, from its beginning or from what was stored."""
    job, remote = settled.job, settled.remote
    substitute, root = (remote.runtime, remote.root) if remote else (None, b"")
    # First, or a signal could end the start of a worker half-way.
    with deferred() as interrupted, running(job, settled.shards, substitute, root=root) as (loop, runtime):
        raw = (lambda: None) if remote else cache(lambda: raw_data(settled.shards))
        every, is_private = job.settings.checkpoint.every_seconds, job.plan.collection.claims
        recorder = Recorder(loop, runtime, run_folder, every, is_private, watcher, interrupted, raw, bool(remote))
        if stored is None:
            STAGE.info("preparing %s clients", f"{len(settled.shards):,}")
            first = {client: wire.pack(dict(memory)) for client, memory in job.begins.own.items()}
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
        if _unsmoothed(job.plan, state):
            recorder.checkpoint(state)
            loop.smooth(state)
        recorder.checkpoint(state)
        return state, dict(runtime.memories(changed=False))


def _unsmoothed(plan: Plan, state: RunState) -> bool:
    """Return whether the answers of a run that has ended are still to be smoothed."""
    return plan.smoothing is not None and not state.smoothed


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
