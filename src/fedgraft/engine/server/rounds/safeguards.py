"""Safeguards against clients that send what nobody could merge, in anger or by accident.

They are no defence against a client that lies within reason: that is what robust aggregation rules are for.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge

from fedgraft.contracts import Update, View
from fedgraft.contracts.ranges import PositiveInt, check_ranges
from fedgraft.errors import require
from fedgraft.wire.layouts import Arrays

LOG = logging.getLogger("fedgraft.engine.server.rounds.safeguards")
LOSSES = {"loss": 1, "loss_sq": 2}
"""{name of a loss that clients report: its power}."""
SIZES = ("hello_bytes", "set_up_bytes")
"""Options that are sizes: a recipe may say them with a unit."""


@dataclass(frozen=True)
class Safeguards:
    """Limits of what one client can do to the model in one round, and to the choice of those who train.

    The norm of an update is the Euclidean norm of all its numbers. The typical norm is the lower median over the
    round's updates. A client moves the model by its weight times its norm.

    Source: clipping as in Sun et al., "Can You Really Backdoor Federated Learning?", 2019; the others are ours.

    Args:
        clip: most norm of an update, >= 0; a longer one is scaled down to it. 0 = none.
        most_step: most that one client can move the model, in typical norms, >= 0. Who would move it further, and by
            more than the model's own norm, is left out and named. One that trains alone is held against the model's
            norm. 100 leaves honest clients alone, however unequal they are. 0 = no limit.
        most_weight: most examples that count of one client, in medians over clients, >= 0. 100; 0 = no limit.
        most_loss: most that a client may report as its loss, in typical losses, >= 0; one that reports more counts as a
            typical client, and is named. The typical loss is the lower median over the clients that answer, and for
            this limit the largest one of the run so far, so that honest clients are far below it. It counts twice, as a
            factor, of squared losses. 10. 0 = no limit.
        most_chosen: how often one client may be selected, in means over clients that can train: who was selected as
            often rests while others can train, 0 or > 1. It holds from so many selections on. 0 (default) = no limit,
            since selectors as published have none; 2 where clients may lie.
        hello_bytes: most bytes of a client's reply to "hello", and of what it stands for once decoded, >= 1, such as
            "256MB". Who is beyond takes no part, and is named.
        set_up_bytes: most bytes of all of them together once decoded, >= 1. Where they are more, the largest are left
            out, and named.
    """

    clip: Annotated[float, Ge(0), "0 = no limit"] = 0.0
    most_step: Annotated[float, Ge(0), "0 = no limit"] = 100.0
    most_weight: Annotated[float, Ge(0), "0 = no limit"] = 100.0
    most_loss: Annotated[float, Ge(0), "0 = no limit"] = 10.0
    most_chosen: float = 0.0
    hello_bytes: PositiveInt = 256 * 10**6
    set_up_bytes: PositiveInt = 4 * 10**9

    def __post_init__(self) -> None:
        check_ranges(self, "safeguards")
        often = self.most_chosen
        require(often == 0 or 1 < often < math.inf, "safeguards.most_chosen", "> 1 and finite (0 = no limit)", often)

    def counted(self, examples: Sequence[int]) -> list[float]:
        """Return how many of each client's training examples count; a note in the log says whose do not all."""
        having = [count for count in examples if count]
        most = self.most_weight * float(np.median(having)) if self.most_weight and having else math.inf
        for client, count in enumerate(examples):
            if count > most:
                LOG.warning(
                    f"Client {client} has {count} examples; {most:g} of them count, safeguards.most_weight = "
                    f"{self.most_weight:g} medians over clients."
                )
        return [min(float(count), most) for count in examples]

    def beyond(self, updates: Sequence[Update], norms: Mapping[int, float], model: float) -> dict[int, str]:
        """Return {client: reason} of those whose updates would move the model, which they share, too far.

        `norms` are {client: norm of its update}, of the whole round; `model` is its norm.
        """
        refused: dict[int, str] = {}
        alone = len(norms) == 1
        scale = model if alone else _lower_median([*norms.values()])
        if not self.most_step or scale == 0:
            return refused
        what = "the model's own norm" if alone else "the norm of a typical one"
        while rest := [update for update in updates if update.client not in refused]:
            total = sum(update.weight for update in rest) or 1.0
            steps = {update.client: update.weight / total * norms[update.client] for update in rest}
            worst = max(steps, key=lambda client: steps[client])
            if steps[worst] <= max(self.most_step * scale, model):
                break
            refused[worst] = (
                f"left out: its update would move the model by {steps[worst] / scale:.3g} times {what}, "
                f"safeguards.most_step = {self.most_step:g}"
            )
        return refused

    def credible(
        self, reports: Mapping[int, Mapping[str, float]], scales: dict[str, float]
    ) -> Mapping[int, Mapping[str, float]]:
        """Return clients' reports, of losses that are beyond the limit what a typical client reports.

        `scales` remembers the largest typical losses of a run, {name: loss}, and is changed.
        """
        for name, power in LOSSES.items() if self.most_loss else ():
            told = {
                client: report[name] for client, report in reports.items() if math.isfinite(report.get(name, math.nan))
            }
            typical = _lower_median([*told.values()]) if len(told) > 1 else scales.get(name, 0.0)
            scale = max(scales.get(name, 0.0), typical)
            if scale <= 0:
                continue
            scales[name], most = scale, self.most_loss**power * scale
            for client in [client for client, loss in told.items() if loss > most]:
                LOG.warning(
                    f"Client {client} reports {name} = {told[client]:.3g}, which counts as {typical:.3g}: "
                    f"safeguards.most_loss = {self.most_loss:g} allows {most:.3g}."
                )
                reports = {**reports, client: {**reports[client], name: typical}}
        return reports

    def rested(self, view: View, chosen: Sequence[int]) -> View:
        """Return what a selector sees without clients that were selected too often; with them, if nobody else is there.

        `chosen` is how often each client was selected.
        """
        times, able = np.asarray(chosen), view.samples > 0
        if not self.most_chosen or not able.any():
            return view
        fresh = view.available & (times < self.most_chosen * max(1.0, float(times[able].mean())))
        fresh.flags.writeable = False
        return replace(view, available=fresh) if fresh.any() else view

    def clipped(self, updates: Sequence[Update]) -> list[Update]:
        """Return the updates, those of a larger norm than `clip` scaled down to it."""
        if not self.clip:
            return list(updates)
        after = []
        for update in updates:
            size = norm(update.arrays)
            scale = self.clip / size if size > self.clip else 1.0
            after.append(update if scale == 1.0 else replace(update, arrays=_scaled(update.arrays, scale)))
        return after


def norm(arrays: Arrays) -> float:
    """Return the Euclidean norm of all numbers, in double precision where single is not enough."""
    total = 0.0
    with np.errstate(over="ignore", under="ignore"):
        for array in arrays.values():
            square = float(np.vdot(array, array)) if array.dtype.kind == "f" else math.inf
            if not 1e-30 < square < math.inf:
                wide = array.astype(np.float64)
                square = float(np.vdot(wide, wide))
            total += square
    return math.sqrt(total)


def _lower_median(values: Sequence[float]) -> float:
    """The median; of an even number of values the lower of the middle two, which one liar of two cannot move."""
    return sorted(values)[(len(values) - 1) // 2]


def _scaled(arrays: Arrays, scale: float) -> Arrays:
    return {name: (array.astype(np.float64) * scale).astype(array.dtype) for name, array in arrays.items()}
