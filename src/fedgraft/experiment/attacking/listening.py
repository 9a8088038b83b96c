"""What a server that follows the protocol knows of a run's rounds: the model that it sent, and the sum it decoded."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fedgraft.engine.plan import PROGRESS_STEPS, Plan
from fedgraft.engine.server.rounds.arrivals import ArrivedUpdates
from fedgraft.engine.server.rounds.broadcast import Broadcast
from fedgraft.engine.server.rounds.collecting import TOGETHER
from fedgraft.engine.server.rounds.merging import Merging
from fedgraft.engine.server.run_state import RunState
from fedgraft.engine.server.sums.noised_replies import LENGTH
from fedgraft.errors import InputError
from fedgraft.experiment.job import Job
from fedgraft.experiment.running.baseline_scores import local_runtime
from fedgraft.experiment.running.loops import running
from fedgraft.wire.layouts import Arrays


@dataclass(frozen=True)
class Heard:
    """A round as the server knows it.

    Args:
        sharing: the sharing method's state, of which the model was sent.
        clients: whose parts are in the sum, ascending; all that may be, where it is not told.
        total: {name: float64 array}, the sum that was decoded: before it is divided, and before any server optimiser.
        length: to which parts are cut.
        share: with which probability each of these clients has a part in it.
    """

    sharing: Any
    clients: tuple[int, ...]
    total: Arrays
    length: float
    share: float = 1.0


class _Listening(Merging):
    """Merge as usual, and note what is to be merged."""

    def __init__(self, experiment: Job, heard: list[Heard], *parts: Any) -> None:
        super().__init__(*parts)
        self._experiment, self._heard = experiment, heard
        self._length = np.array(experiment.plan.privacy.clip)

    def merge(self, state: RunState, arrived: ArrivedUpdates) -> tuple[bool, ArrivedUpdates]:
        """Note the sum and the state that its model was of."""
        trained, plan = arrived.trained, self._experiment.plan
        if TOGETHER in trained.uploads:
            factor = trained.weights[TOGETHER]
            if plan.privacy.of_examples:  # the mean gradient was multiplied by the learning rate
                progress = int(self._experiment.stopping.progress(state) * PROGRESS_STEPS) / PROGRESS_STEPS
                factor /= plan.training.rate(progress)
            total = {name: array.astype(float) * factor for name, array in trained.uploads[TOGETHER].items()}
            who, share = self._who(len(state.profiles), trained.reports)
            self._heard.append(Heard(state.sharing, who, total, float(self._length), share))
            self._length = state.exchange.sum_scales.get(LENGTH, self._length)  # of the next round
        return super().merge(state, arrived)

    def _who(self, clients: int, reports: Iterable[int]) -> tuple[tuple[int, ...], float]:
        """Who may have a part in a sum, and with which probability; a claim says whether it is told who has."""
        selector = self._experiment.selector
        if self._experiment.plan.privacy.central and selector.by_coins:
            return tuple(range(clients)), selector.share(clients)
        return tuple(sorted(reports)), 1.0


def here(experiment: Job) -> Job:
    """Return the experiment in this process alone."""
    return replace(experiment, runtime=local_runtime(experiment.runtime)).after(agreement={}, matching={})


def unscored(experiment: Job) -> Job:
    """Return the experiment in this process, scored at its end alone: scores change nothing of its rounds."""
    evaluation = replace(experiment.settings.evaluation, every=experiment.stopping.rounds)
    return replace(here(experiment), settings=replace(experiment.settings, evaluation=evaluation))


def heard(experiment: Job, shards: Sequence[Any]) -> list[Heard]:
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
