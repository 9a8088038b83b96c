"""What scoring would cost if clients did it: scores at the server are free, as the papers assume."""

from collections.abc import Mapping
from typing import Any, Final

from fedgraft import wire
from fedgraft.experiment.experiment import Experiment

SCORING: Final = "scoring_bytes"
"""What of a stored result says how many more bytes its scores would have taken at clients; 0 where they were there."""


def scoring_bytes(experiment: Experiment, summary: Mapping[str, Any]) -> int:
    """Return the bytes that a run's scores would have taken with `evaluation.at = "clients"`, in both directions.

    In each scored round from the first on, each client that is scored is sent the model behind the downlink's codec,
    the most that this takes where its size varies, and answers with its sums. Where a sharing keeps count of who has
    which model, the next order would have brought it, so that scoring adds a request without one. Answers that are
    smoothed after training are scored once more. 0 where clients were charged.
    """
    plan = experiment.plan
    if experiment.evaluation.at == "clients":
        return 0
    names = plan.request_names.get("evaluate", ())
    layout, bounds = plan.request_layouts.get("evaluate"), plan.request_bounds.get("evaluate")
    down = wire.message_bytes(None, names) if plan.silent else wire.message_bytes(layout, names, bounds)
    up = wire.message_bytes(plan.reply_layouts.get("evaluate"), plan.names("evaluate"))
    rounds = len({point[0] for point in summary["curve"]} - {0})
    once = wire.message_bytes() + wire.message_bytes(plan.reply_layouts.get("smoothed"), plan.names("smoothed"))
    clients: int = summary["scored"] or summary["clients"]
    return clients * (rounds * (down + up) + (once if summary.get("smoothing") else 0))
