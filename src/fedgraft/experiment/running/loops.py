"""Build the loop of an experiment, the engine's with its methods and limits, and start the runtime under it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from fedgraft.contracts import GraphNetworkTask, Runtime
from fedgraft.engine.server.beginning import Beginning
from fedgraft.engine.server.loop.loop import Loop
from fedgraft.engine.server.rounds.merging import Merging, Refining, ServerStep
from fedgraft.experiment.job import Job

if TYPE_CHECKING:
    from fedgraft.engine.privacy.central import CentralMechanism


def loop_of(
    experiment: Job,
    runtime: Runtime,
    deadline_seconds: float | None = None,
    merging: Callable[..., Merging] = Merging,
    root: bytes = b"",
) -> Loop:
    """Return the loop of an experiment over a runtime; it waits for a client for ever where there is no deadline.

    `merging` makes what merges, from the arguments of `Merging`: an audit's listens. `root` is as of `Beginning`.
    """
    plan, optimizer = experiment.plan, experiment.server_optimizer
    step = ServerStep(plan, optimizer) if optimizer else None
    refining = Refining(plan) if GraphNetworkTask in plan.sharing.needs else None
    begun = {"statistics": experiment.joined.agreement, "matching": experiment.joined.matching}
    charges = [(purpose, client, sent) for purpose, each in begun.items() for client, sent in each.items()]
    return Loop(
        plan=plan,
        selector=experiment.selector,
        runtime=runtime,
        clock=experiment.settings.clock,
        stopping=experiment.stopping,
        evaluation=experiment.settings.evaluation,
        merging=merging(plan.sharing, experiment.aggregation, experiment.settings.safeguards, step, refining),
        dropout=experiment.settings.dropout,
        deadline_seconds=deadline_seconds,
        before=Beginning(charges, experiment.joined.neighbours, root, _noise(experiment, len(runtime.clients()))),
    )


def _noise(experiment: Job, clients: int) -> "CentralMechanism | None":
    """Return the noise that the server adds, of so many clients; None where it adds none."""
    if not experiment.plan.privacy.central:
        return None
    from fedgraft.engine.protocol.sums import central_noise_in  # its mathematics takes its time to import

    return central_noise_in(experiment.plan, experiment.selector, clients)


@contextmanager
def running(
    experiment: Job,
    shards: Sequence[Any],
    substitute: Runtime | None = None,
    merging: Callable[..., Merging] = Merging,
    root: bytes = b"",
) -> Iterator[tuple[Loop, Runtime]]:
    """Enter with an experiment's loop and the runtime under it, which is closed at the end but for a `substitute`.

    `merging` and `root` are as in `loop_of`.
    """
    with (
        nullcontext(substitute) if substitute else closing(experiment.runtime.start(experiment.plan, shards)) as runtime
    ):
        yield loop_of(experiment, runtime, experiment.runtime.deadline_seconds or None, merging, root), runtime
