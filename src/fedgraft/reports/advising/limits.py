"""Limits of advice: work, counted in operations, and perhaps time; a run that passes one is stopped."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fedgraft.engine.server.loop.stopping import Row, Stopping
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import FedgraftError

TERA: Final = 10**12
SURE_ROUNDS: Final = 3
"""After so many rounds the operations of a run are told from those so far."""
WORK, TIME = "--work", "--minutes"
"""The options that limit work and time."""


class StoppedError(FedgraftError):
    """A job that a limit has stopped.

    Args:
        limit: the option that sets it.
        spent: operations until then.
        needed: operations that the whole job would take, as far as it is known; 0 = not.
    """

    def __init__(self, limit: str, spent: int, needed: float = 0.0) -> None:
        super().__init__(f"stopped by {limit}")
        self.limit, self.spent, self.needed = limit, spent, needed


@dataclass(frozen=True)
class Limit:
    """The most that a job may take: so many operations, and until a moment of `time.monotonic()`; inf = no limit."""

    operations: float
    until: float

    @property
    def time_is_up(self) -> bool:
        """True once the moment has passed."""
        return time.monotonic() >= self.until

    def check(self, spent: int, share: float, sure: bool) -> None:
        """Raise `StoppedError` for a job that has taken so many operations for this share of all there is to do.

        What is counted is the same on any machine, however busy; `sure` says whether it already tells the rest.
        """
        needed = spent / share if share > 0 else float(spent)
        if sure and needed > self.operations:
            raise StoppedError(WORK, spent, needed)
        if self.time_is_up:
            raise StoppedError(TIME, spent)


def human_operations(count: float) -> str:
    """Return operations as a person reads them.

    >>> human_operations(3_400_000_000), human_operations(5e12)
    ('0.0034 TFLOP', '5 TFLOP')
    """
    return f"{count / TERA:.3g} TFLOP"


class Following:
    """Follows a run."""

    def __init__(self, stopping: Stopping, limit: Limit) -> None:
        self._stopping, self._limit = stopping, limit
        self._state: RunState | None = None
        self._scored: list[dict[str, dict[str, float]]] = []

    def after_round(self, state: RunState, row: Row) -> None:
        """Note the clients' scores. Raises `StoppedError` as soon as the run is known to take too much."""
        self._state = state
        if row.validation is not None:
            self._scored.append(state.scores)
        if not state.finished:
            self._limit.check(state.flops, self._stopping.progress(state), sure=state.round >= SURE_ROUNDS)

    def figures(self, better: str, metric: str, sizes: Sequence[int]) -> dict[str, float]:
        """Return scores over clients on validation; none where some client was never scored.

        "pooled" is that of the round that is best for all; "own", where every client keeps the round that is best on
        its own split. Smoothed answers come after the last round: they are one more, and the only one that is pooled.

        Args:
            better: "lower" or "higher".
            metric: its name.
            sizes: of the clients' validation splits.
        """
        choose = min if better == "lower" else max
        smoothed = [] if self._state is None or self._scored[-1:] == [self._state.scores] else [self._state.scores]
        having = [client for client, size in enumerate(sizes) if size]
        counts = [sizes[client] for client in having]
        rounds = [_of_clients(scores, having) for scores in [*self._scored, *smoothed]]
        rounds = [scores for scores in rounds if not any(map(math.isnan, scores))]
        if not rounds:
            return {}
        own = [choose(scores) for scores in zip(*rounds, strict=True)]
        of_all = [pooled(scores, counts, metric) for scores in (rounds[-1:] if smoothed else rounds)]
        return {"pooled": choose(of_all), "own": pooled(own, counts, metric)}


def pooled(scores: Sequence[float], sizes: Sequence[int], metric: str) -> float:
    """Return the score over all clients' examples, from those of each client; errors add up as squares.

    >>> pooled([0.5, 1.0], [3, 1], "accuracy")
    0.625
    """
    power = 2 if metric == "rmse" else 1
    total = math.fsum(n * score**power for score, n in zip(scores, sizes, strict=True))
    return float((total / max(1, sum(sizes))) ** (1 / power))


def _of_clients(scores: dict[str, dict[str, float]], clients: Sequence[int]) -> list[float]:
    return [scores.get(str(client), {}).get("validation", math.nan) for client in clients]
