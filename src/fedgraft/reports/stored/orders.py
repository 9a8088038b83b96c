"""Trace every order to train on the simulated clock, as stored rounds tell it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fedgraft.engine.server.loop.stopping import PROBE, SCORING
from fedgraft.reports.stored.stored_runs import StoredRun

TRAINING, COMMUNICATION, WAITING, UNHEARD = "training", "communication", "waiting", "at work, no answer"
STATES = (TRAINING, COMMUNICATION, WAITING, UNHEARD)
"""What a client does between an order and the next."""


@dataclass(frozen=True)
class Order:
    """What came of one order to train. Times are simulated seconds since the run began.

    Args:
        client: that got it.
        round: in which.
        began: when it was sent.
        round_end: end of that round.
        freed: when the client may get another: the end of the round that took its answer; of its round, where the
            answer was dropped; of the run, where it was still on its way.
        timing: seconds of training and of communication; None where the server never learnt them.
        late: whether it missed the deadline.
        lost: whether it failed or was dropped.
    """

    client: int
    round: int
    began: float
    round_end: float
    freed: float
    timing: tuple[float, float] | None
    late: bool = False
    lost: bool = False

    @property
    def stopped(self) -> float:
        """When the answer was there, or when the client is last known to have been at work."""
        return self.freed if self.timing is None else self.began + sum(self.timing)

    def spans(self) -> list[tuple[str, float, float]]:
        """(state, start, seconds) of all that the client did; a client that failed waits for nobody."""
        if self.timing is None:
            return [(UNHEARD, self.began, self.freed - self.began)]
        training, communication = self.timing
        spans = [(TRAINING, self.began, training), (COMMUNICATION, self.began + training, communication)]
        if not self.lost:
            spans.append((WAITING, self.stopped, max(0.0, self.freed - self.stopped)))
        return spans


def failed_at_training(failed: Mapping[int, str]) -> set[int]:
    """Return the clients of a round's {client: reason} that failed while they trained: not in a probe or a scoring."""
    return {client for client, reason in failed.items() if not reason.startswith((PROBE, SCORING))}


def often_chosen(run: StoredRun, most: int) -> list[int]:
    """Return clients, ascending: all; where there are more than `most`, as many, those that were chosen most often."""
    if run.clients <= most:
        return list(range(run.clients))
    times = np.bincount([client for each in run.rounds["selected"] for client in each], minlength=run.clients)
    first = np.argsort(-times, kind="stable")[:most]
    return sorted(first[times[first] > 0].tolist())


def orders(rounds: pd.DataFrame) -> list[Order]:
    """Return every order of a run, in the order of round and client.

    Args:
        rounds: as `StoredRun.rounds`.
    """
    made: list[Order] = []
    on_the_way: dict[int, Order] = {}
    end = 0.0
    rows: list[Any] = rounds.to_dict("records")
    for row in rows:
        began, end = max(row["began"], end), row["simulated_seconds"]  # but for an error of rounding
        lost = failed_at_training(row["failed"])
        for client, (training, communication) in row["timings"].items():
            timing = (training, communication)
            if client in row["staleness"]:
                if (order := on_the_way.pop(client, None)) is not None:
                    made.append(replace(order, freed=end, timing=timing, lost=client in lost))
                continue
            if late := client in row["late"]:  # it failed, and nobody waited to see it fail
                training = min(training, end - began)
                timing = (training, min(communication, end - began - training))
            made.append(Order(client, row["round"], began, end, end, timing, late, client in lost))
        for client in set(row["late"]) - set(row["timings"]):
            order = Order(client, row["round"], began, end, end, None, late=True, lost=client in lost)
            if order.lost:
                made.append(order)
            else:
                on_the_way[client] = order
    made += [replace(order, freed=end) for order in on_the_way.values()]
    return sorted(made, key=lambda order: (order.round, order.client))


def seconds_by_state(run: StoredRun) -> pd.DataFrame:
    """Return simulated seconds of the whole run: float64, a row a client, a column a state of `STATES`."""
    spans = [(order.client, state, seconds) for order in orders(run.rounds) for state, _, seconds in order.spans()]
    table = pd.DataFrame(spans, columns=["client", "state", "seconds"])
    sums = table.pivot_table(index="client", columns="state", values="seconds", aggfunc="sum", fill_value=0.0)
    return sums.reindex(index=range(run.clients), columns=list(STATES), fill_value=0.0).astype("float64")
