"""What scoring would cost if clients did it: scores at the server are free, as the papers assume."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any, Final

from fedgraft import wire
from fedgraft.engine.plan import CLIENTS, HOME
from fedgraft.engine.protocol.protocol import Protocol
from fedgraft.experiment.experiment import Experiment
from fedgraft.reports.studies.markdown import figures

SCORING: Final = "scoring_bytes"
"""What of a stored result says how many more bytes its scores would have taken at clients; 0 where they were there."""
HEAD: Final = "MB with scoring at clients"
UNKNOWN: Final = (
    "Scores at the server are free. What they would take at clients is told where the results know it; "
    "those of earlier versions do not.\n"
)


def scoring_bytes(experiment: Experiment, summary: Mapping[str, Any]) -> int:
    """Return the bytes that a run's scores would have taken with `evaluation.at = "clients"`, in both directions.

    In each scored round from the first on, each client that is scored is sent the model behind the downlink's codec,
    the most that this takes where its size varies, and answers with its sums. Where a sharing keeps count of who has
    which model, the next order would have brought it, so that scoring adds a request without one. Answers that are
    smoothed after training are scored once more. 0 where clients were charged, and where no score leaves them.
    """
    plan = experiment.plan
    if experiment.settings.evaluation.at in (CLIENTS, HOME):
        return 0
    names = Protocol.of(plan).request_names.get("evaluate", ())
    layout, bounds = Protocol.of(plan).request_layouts.get("evaluate"), Protocol.of(plan).request_bounds.get("evaluate")
    down = wire.message_bytes(None, names) if plan.silent else wire.message_bytes(layout, names, bounds)
    up = wire.message_bytes(Protocol.of(plan).reply_layouts.get("evaluate"), Protocol.of(plan).report("evaluate"))
    rounds = len({point[0] for point in summary["curve"]} - {0})
    once = wire.message_bytes() + wire.message_bytes(
        Protocol.of(plan).reply_layouts.get("smoothed"), Protocol.of(plan).report("smoothed")
    )
    clients: int = summary["scored"] or summary["clients"]
    return clients * (rounds * (down + up) + (once if summary.get("smoothing") else 0))


def known(runs: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether any run knows what its scores would have taken."""
    return any(run.get(SCORING) is not None for run in runs)


def megabytes(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the mean MB of runs, with the mean of what scoring would take, of those that know it; "" where none does.

    >>> megabytes([{"bytes": {"total": 1_000_000}, "scoring_bytes": 500_000}, {"bytes": {"total": 2_000_000}}])
    '2'
    """
    scoring = [run[SCORING] for run in runs if run.get(SCORING) is not None]
    return figures((mean(run["bytes"]["total"] for run in runs) + mean(scoring)) / 1e6) if scoring else ""
