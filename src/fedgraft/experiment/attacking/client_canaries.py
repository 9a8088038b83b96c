"""Canaries among clients: whose updates had a part in the sums of all rounds."""

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedgraft.contracts import Outcome, Selection, Selector, Sharing, View, randomness
from fedgraft.engine.client.clipped_gradients import shortened
from fedgraft.engine.privacy.options import Privacy
from fedgraft.engine.privacy.private_sums import flat
from fedgraft.engine.privacy.secure_sum import SecureSum
from fedgraft.experiment.attacking.evidence import Evidence, Weighed
from fedgraft.experiment.attacking.guesses import Floats, check_enough
from fedgraft.experiment.attacking.listening import Heard, heard, unscored
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.discovery import find
from fedgraft.experiment.running.loops import running
from fedgraft.experiment.storage.finished_run import FinishedRun
from fedgraft.wire.layouts import Arrays


def client_canaries(run: FinishedRun, count: int) -> tuple[NDArray[np.bool_], Floats, int]:
    """Train a run's recipe again, with some clients' updates zero; return who was in, scores, and how many sums.

    Each client is a canary, or as many as `count` says. Who is left out trains, and sends noise alone.
    """
    experiment, clients = run.experiment, len(run.shards)
    check_enough(min(count, clients))
    g = randomness.generator(experiment.seed, "canaries")
    canaries = np.sort(g.choice(clients, min(count, clients), replace=False))
    inside = g.random(len(canaries)) < 0.5
    silenced = _silencing(experiment.plan.sharing, frozenset(canaries[~inside].tolist()))
    rounds = heard(replace(experiment, plan=replace(experiment.plan, sharing=silenced)), list(run.shards))
    return inside, weighed_updates(run, canaries.tolist(), rounds).scores, len(rounds)


def weighed_updates(run: FinishedRun, canaries: Sequence[int], rounds: Sequence[Heard]) -> Weighed:
    """Return what sums of updates say of some clients: of shortened updates and of whole ones, the likelier.

    The attacker knows all clients' data, so all of their updates of the models that were sent.
    """
    plan = run.plan
    found = [Evidence(len(canaries)) for _ in range(2)]
    for each, updates in zip(rounds, _replayed(run.experiment, run.shards, rounds), strict=True):
        for evidence, longest in zip(found, (each.length, np.inf), strict=True):
            cut = {k: flat(shortened(updates[k], longest), plan.upload_layout) for k in each.clients}
            parts = {k: each.share * numbers for k, numbers in cut.items()}  # where nobody tells who took part
            total = np.sum(list(parts.values()), axis=0)
            nothing = np.zeros(len(total))
            own = np.stack([parts.get(k, nothing) for k in canaries])
            evidence.add(own, total - flat(each.total, plan.upload_layout))
    return max((evidence.weighed() for evidence in found), key=lambda weighed: weighed.likelihood)


def _silencing(sharing: Sharing[Any], gone: frozenset[int]) -> Sharing[Any]:
    """Return a sharing method that does as another, but whose updates of some clients are zero."""
    kind: type = type(sharing)

    class Silencing(kind):  # type: ignore[misc]
        """The same method, of whose clients some send nothing."""

        def local_update(self, trainer: Any, received: Arrays, memory: Any) -> tuple[Arrays, Any]:
            """Train, and upload nothing of it."""
            upload, memory = super().local_update(trainer, received, memory)
            if trainer.client in gone:
                upload = {name: np.zeros_like(array) for name, array in upload.items()}
            return upload, memory

    made = copy.copy(sharing)
    object.__setattr__(made, "__class__", Silencing)
    return made


@dataclass(frozen=True)
class _Told(Selector[Any]):
    """Selects whom it is told, and keeps their updates."""

    reports: ClassVar[frozenset[str]] = frozenset({"update"})

    cohort: list[int] = field(default_factory=list)
    seen: dict[int, Arrays] = field(default_factory=dict)

    def init(self, view: View) -> Any:
        """Nothing."""
        return None

    def select(self, state: Any, view: View, g: np.random.Generator) -> Selection:
        """Who was in the sum."""
        return Selection(tuple(self.cohort))

    def update(self, state: Any, view: View, outcome: Outcome) -> Any:
        """Keep what they send."""
        self.seen.clear()
        self.seen.update(outcome.updates)
        return state


def _replayed(experiment: Job, shards: Sequence[Any], rounds: Sequence[Heard]) -> Collection[dict[int, Arrays]]:
    """Return all updates of each round's cohort, {client: update}: each client trains again from what it was sent."""
    identity, told = find("codecs", "identity")(), _Told()
    plan = replace(experiment.plan, privacy=Privacy(), secure_sum=SecureSum(), uplink=identity)
    again = replace(unscored(experiment), plan=plan, selector=told, server_optimizer=None)
    found = []
    with running(again, list(shards)) as (loop, _):
        state = loop.start()
        for each in rounds:
            state.sharing, told.cohort[:] = each.sharing, each.clients
            loop.step(state)
            found.append(dict(told.seen))
    return found
