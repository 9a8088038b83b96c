"""Take a stored run up where it stopped, or with more rounds than it was to make.

It ends with the same bits as if it never had stopped, and as if all rounds had been asked for at first.
"""

from dataclasses import replace
from typing import NamedTuple

from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import InputError, require
from fedgraft.experiment.job import Job
from fedgraft.experiment.running.portable import check_machine
from fedgraft.experiment.storage.folder_check import CHECKPOINT, EXPERIMENT, STATE
from fedgraft.experiment.storage.outside_classes import stored_experiment
from fedgraft.experiment.storage.provenance import Origin, check_options
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.experiment.storage.stored_state import check_state

Stored = tuple[RunState, dict[int, bytes]]


class TakenUp(NamedTuple):
    """A stored job, what it has come to, None before its first checkpoint, what it began with, and where that is."""

    job: Job
    stored: Stored | None
    began: Origin
    where: str


def taken_up(run_folder: RunFolder, before: bool, rounds: int | None) -> TakenUp:
    """Return a run as its folder, entered, has it; further arguments as of `resume`."""
    if before:
        run_folder.go_back()
    where = str(run_folder.folder / EXPERIMENT)
    experiment = stored_experiment(run_folder)
    check_machine(experiment.runtime)
    stored, began = run_folder.load(), run_folder.origin()
    check_options(began, experiment.recipe.sections, where)
    if rounds is not None:
        experiment = with_rounds(experiment, rounds, stored and stored[0])
    if stored is not None:
        stored = reopened(run_folder, experiment, stored, rounds is not None)
        where, optimizer = str(run_folder.folder / CHECKPOINT / STATE), experiment.server_optimizer
        check_state(stored[0], experiment.plan, experiment.selector, where, optimizer)
    made, planned = stored[0].round if stored else 0, experiment.stopping.rounds
    require(planned >= made, "rounds", f">= {made}, as many as were made", planned)
    if rounds is not None:
        run_folder.revise(experiment.to_toml())
    run_folder.rewind()
    run_folder.note_versions()
    return TakenUp(experiment, stored, began, where)


def with_rounds(experiment: Job, rounds: int, state: RunState | None) -> Job:
    """Return a stored experiment with another number of rounds in all; `state` is what the run has come to, or None.

    Raises `InputError` where the rounds so far would have been others with this number.
    """
    if rounds == experiment.stopping.rounds:
        return experiment
    if state is not None and state.round:
        _check_exact(experiment, state)
    return experiment.with_changes({"rounds": rounds})


def reopened(run_folder: RunFolder, experiment: Job, stored: Stored, wanted: bool) -> Stored:
    """Return a state that has more rounds to make: of a run that has ended, the one before its end.

    Answers that were smoothed after the last round are smoothed anew after the new last one.

    Args:
        run_folder: the run's, entered.
        experiment: with its number of rounds.
        stored: what the run has come to.
        wanted: whether more rounds are asked for now; else a run that another limit ended stays ended.

    Raises `InputError` where another limit ended a run that is `wanted` to go on, and where its rounds would have been
    others with this number.
    """
    state = stored[0]
    if not state.finished or state.round >= experiment.stopping.rounds:
        return stored
    if state.finished != "rounds" and not wanted:
        return stored
    if state.finished != "rounds":
        raise InputError(
            f"{run_folder.folder} was ended by {state.finished!r} after {state.round} rounds, not by their number; "
            f"{_other_way(run_folder.folder.name)}"
        )
    _check_exact(experiment, state)
    if state.smoothed:
        run_folder.go_back()
        before = run_folder.load()
        if before is None or before[0].smoothed or before[0].round != state.round:
            raise InputError(
                f"{run_folder.folder} has no checkpoint from before its answers were smoothed; {_other_way()}"
            )
        stored = before
    return replace(stored[0], finished=""), stored[1]


def _check_exact(experiment: Job, state: RunState) -> None:
    """Raise `InputError` where the rounds so far depend on how many were planned."""
    sections, every = experiment.recipe.sections, experiment.settings.evaluation.every
    schedule, selector = sections["training"]["schedule"], sections["selector"]["name"]
    why = ""
    if schedule != "constant":
        why = f"training.schedule = {schedule!r} spreads learning rates over the planned rounds"
    elif experiment.selector.paced:
        why = f"selector {selector!r} chooses by how many rounds are planned"
    elif experiment.plan.collection.claims:
        why = f"noise was made for {experiment.stopping.rounds} rounds, and more would tell more"
    elif state.finished and state.round % every:
        why = f"round {state.round} was scored as the last one, though evaluation.every = {every}"
    if why:
        raise InputError(f"The number of rounds cannot be changed any more: {why}. {_other_way()}")


def _other_way(run: str = "RUN") -> str:
    return f"'fedgraft run RECIPE --from {run}' begins a new run with its model."
