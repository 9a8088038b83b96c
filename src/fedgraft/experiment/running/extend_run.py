"""More rounds for a run that has made all it was to make: it ends as if they had been asked for at first."""

from dataclasses import replace

from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import InputError
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.storage.run_folder import RunFolder

Stored = tuple[RunState, dict[int, bytes]]


def with_rounds(experiment: Experiment, rounds: int, state: RunState | None) -> Experiment:
    """Return a stored experiment with another number of rounds in all; `state` is what the run has come to, or None.

    Raises `InputError` where the rounds so far would have been others with this number.
    """
    if rounds == experiment.stopping.rounds:
        return experiment
    if state is not None and state.round:
        _check_exact(experiment, state)
    return experiment.with_changes({"rounds": rounds})


def reopened(run_folder: RunFolder, experiment: Experiment, stored: Stored, wanted: bool) -> Stored:
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


def _check_exact(experiment: Experiment, state: RunState) -> None:
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
