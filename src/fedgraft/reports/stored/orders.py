"""Trace every order to train on the simulated clock, and why clients were chosen, as stored rounds tell it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fedgraft.contracts.selector import AGENT, SCORE
from fedgraft.engine.server.loop.choosing import MOST_EXPLAINED
from fedgraft.engine.server.loop.stopping import PROBE, SCORING
from fedgraft.reports.stored.stored_runs import StoredRun

TRAINING, COMMUNICATION, WAITING, UNHEARD = "training", "communication", "waiting", "at work, no answer"
STATES = (TRAINING, COMMUNICATION, WAITING, UNHEARD)
"""What a client does between an order and the next."""
AGENT_TITLE = "agent's value"
"""What the term of an agent is called."""
LAST_ROUNDS = 10
"""Rounds of which it is told whom the agent would have chosen."""


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


@dataclass(frozen=True)
class TermMeans:
    """What a term was of the chosen clients, and of those that could have been chosen and were not.

    Args:
        term: its name.
        chosen: mean over rounds of the mean over the chosen.
        others: likewise, nan where only the terms of the chosen are kept.
        higher: rounds in which the mean of the chosen was higher.
        rounds: in which it is known of both; where that is none, of the chosen.
    """

    term: str
    chosen: float
    others: float
    higher: int
    rounds: int

    @property
    def title(self) -> str:
        """What the term is called."""
        return AGENT_TITLE if self.term == AGENT else self.term


@dataclass(frozen=True)
class AgentRound:
    """A round, and what its cohort would have been by the agent's values alone.

    Args:
        round: its number.
        chosen: the cohort.
        top: as many clients, those that the agent valued most; of equal values those that were chosen.
        among: clients that could have been chosen.
    """

    round: int
    chosen: tuple[int, ...]
    top: tuple[int, ...]
    among: int

    @property
    def overlap(self) -> float:
        """The share of the agent's own choice that was chosen, in [0, 1]."""
        return len(self.left) / len(self.top)

    @property
    def left(self) -> tuple[int, ...]:
        """Clients that both chose."""
        return tuple(sorted({*self.chosen} & {*self.top}))

    @property
    def dropped(self) -> tuple[int, ...]:
        """Clients that were chosen and would not have been."""
        return tuple(sorted({*self.chosen} - {*self.top}))

    @property
    def instead(self) -> tuple[int, ...]:
        """Clients that would have been chosen instead."""
        return tuple(sorted({*self.top} - {*self.chosen}))


@dataclass(frozen=True)
class AgentChoices:
    """How a run's cohorts compare with an agent's own choice.

    Args:
        rounds: every round in which the agent valued clients, at least one.
    """

    rounds: tuple[AgentRound, ...]

    @property
    def agreed(self) -> int:
        """Rounds whose cohort was the agent's own choice."""
        return sum(not each.instead for each in self.rounds)

    @property
    def overlap(self) -> float:
        """Mean share of the agent's choice that was chosen."""
        return float(np.mean([each.overlap for each in self.rounds]))

    @property
    def by_chance(self) -> float:
        """Mean share of it that random cohorts of these sizes would have."""
        return float(np.mean([min(1.0, len(each.top) / each.among) for each in self.rounds]))

    @property
    def last(self) -> tuple[AgentRound, ...]:
        """The last rounds, the newest first."""
        return self.rounds[: -LAST_ROUNDS - 1 : -1]


def is_explained(run: StoredRun) -> bool:
    """Return whether a run's rounds have terms."""
    return any(run.rounds["explanation"])


def explained_rounds(run: StoredRun) -> list[Any]:
    """The rows of the rounds that have terms, each {field: value}."""
    rows: list[Any] = run.rounds.to_dict("records")
    return [row for row in rows if row["explanation"] and row["selected"]]


def terms_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of all terms, the score and the agent's value last."""
    names = dict.fromkeys(name for row in rows for name in row["explanation"])
    return sorted(names, key=lambda name: (SCORE, AGENT).index(name) if name in (SCORE, AGENT) else -1)


def term_means(run: StoredRun) -> list[TermMeans]:
    """Return every term's means, over rounds that count the same each."""
    rows = explained_rounds(run)
    return [_means(name, rows, run.clients <= MOST_EXPLAINED) for name in terms_of(rows)]


def agent_choices(run: StoredRun) -> AgentChoices | None:
    """Return how cohorts compare with the agent's own choice; None for a run without an agent."""
    whole = run.clients <= MOST_EXPLAINED
    rounds = []
    for row in explained_rounds(run):
        if values := row["explanation"].get(AGENT):
            chosen = set(row["selected"])
            order = sorted(values, key=lambda client: (-values[client], client not in chosen, client))
            top = tuple(sorted(order[: len(chosen)]))
            rounds.append(AgentRound(row["round"], row["selected"], top, len(values) if whole else run.clients))
    return AgentChoices(tuple(rounds)) if rounds else None


def _means(name: str, rows: Iterable[Mapping[str, Any]], whole: bool) -> TermMeans:
    """A term's means; where not all clients' terms are kept, of the chosen alone."""
    pairs, alone = [], []
    for row in rows:
        values, chosen = row["explanation"].get(name, {}), set(row["selected"])
        own = [value for client, value in values.items() if client in chosen]
        others = [value for client, value in values.items() if client not in chosen]
        if own:
            alone.append(float(np.mean(own)))
            if others and whole:
                pairs.append((alone[-1], float(np.mean(others))))
    if not pairs:
        return TermMeans(name, float(np.mean(alone)) if alone else math.nan, math.nan, 0, len(alone))
    higher = sum(own > others for own, others in pairs)
    own, others = np.mean(pairs, 0).tolist()
    return TermMeans(name, own, others, higher, len(pairs))
