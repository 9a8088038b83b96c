"""What a server that follows the protocol knows of a run's rounds: the model that it sent, and the sum it decoded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fedgraft.engine.plan import PROGRESS_STEPS, Plan
from fedgraft.engine.server.arrivals import Arrived
from fedgraft.engine.server.broadcast import Broadcast
from fedgraft.engine.server.merging import Merging
from fedgraft.engine.server.run_state import RunState
from fedgraft.engine.server.trained import TOGETHER
from fedgraft.errors import InputError
from fedgraft.experiment.experiment import Experiment
from fedgraft.experiment.running.baselines import local_runtime
from fedgraft.experiment.running.loops import running
from fedgraft.wire.layouts import Arrays


@dataclass(frozen=True)
class Heard:
    """A round as the server knows it.

    Args:
        sharing: the sharing method's state, of which the model was sent.
        clients: whose parts are in the sum, ascending.
        total: {name: float64 array}, the sum that was decoded: before it is divided, and before any server optimiser.
    """

    sharing: Any
    clients: tuple[int, ...]
    total: Arrays


class _Listening(Merging):
    """Merge as usual, and note what is to be merged."""

    def __init__(self, experiment: Experiment, heard: list[Heard], *parts: Any) -> None:
        super().__init__(*parts)
        self._experiment, self._heard = experiment, heard

    def merge(self, state: RunState, arrived: Arrived) -> tuple[bool, Arrived]:
        """Note the sum and the state that its model was of."""
        trained, plan = arrived.trained, self._experiment.plan
        if TOGETHER in trained.uploads:
            factor = trained.weights[TOGETHER]
            if plan.privacy.of_examples:  # the mean gradient was multiplied by the learning rate
                progress = int(self._experiment.stopping.progress(state) * PROGRESS_STEPS) / PROGRESS_STEPS
                factor /= plan.training.rate(progress)
            total = {name: array.astype(float) * factor for name, array in trained.uploads[TOGETHER].items()}
            self._heard.append(Heard(state.sharing, tuple(sorted(trained.reports)), total))
        return super().merge(state, arrived)


def here(experiment: Experiment) -> Experiment:
    """Return the experiment in this process alone."""
    return replace(experiment, runtime=local_runtime(experiment.runtime), agreement={}, matching={})


def unscored(experiment: Experiment) -> Experiment:
    """Return the experiment in this process, scored at its end alone: scores change nothing of its rounds."""
    evaluation = replace(experiment.evaluation, every=experiment.stopping.rounds)
    return replace(here(experiment), evaluation=evaluation)


def heard(experiment: Experiment, shards: Sequence[Any]) -> list[Heard]:
    """Run an experiment again on some clients' data; return its rounds that had a sum, in their order.

    Raises `InputError` where none had.
    """
    again, rounds = unscored(experiment), list[Heard]()
    with running(again, shards, merging=partial(_Listening, again, rounds)) as (loop, _):
        loop.run(loop.start(), lambda state, row: None)
    if not rounds:
        raise InputError("no round of the recipe, run again with canaries, had a sum: there is nothing to guess from.")
    return rounds


def models(plan: Plan, rounds: Sequence[Heard]) -> Iterator[Arrays]:
    """Return the model of each round as all clients decoded it."""
    broadcast = Broadcast(plan, {})
    for each in rounds:
        broadcast.publish(0, plan.sharing.model(each.sharing))
        yield plan.downlink.decode(broadcast.published(0), plan.download_layout)
        broadcast.merged()
