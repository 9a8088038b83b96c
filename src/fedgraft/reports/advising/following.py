"""A watcher of a federated run: each client's scores by round, and whether the run would take too long."""

import math
import time
from collections.abc import Sequence

from fedgraft.engine.server.run_state import RunState
from fedgraft.engine.server.stopping import Row, Stopping
from fedgraft.errors import FedgraftError

SURE_ROUNDS, SURE_SECONDS = 3, 3.0
"""After how much of a run its length is told."""


class TooSlowError(FedgraftError):
    """A run would not end in time.

    Args:
        seconds: that it would take.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"would take {seconds:.0f} s")
        self.seconds = seconds


class Following:
    """Follows a run.

    Args:
        stopping: limits of the run.
        allowed: seconds that it may take.
    """

    def __init__(self, stopping: Stopping, allowed: float) -> None:
        self._stopping, self._allowed = stopping, allowed
        self._began = time.monotonic()
        self._state: RunState | None = None
        self._scored: list[dict[str, dict[str, float]]] = []

    def after_round(self, state: RunState, row: Row) -> None:
        """Note the clients' scores. Raises `TooSlowError` as soon as the run's length is known to be too much."""
        self._state = state
        if row.validation is not None:
            self._scored.append(state.scores)
        spent, done = time.monotonic() - self._began, self._stopping.progress(state)
        if state.round >= SURE_ROUNDS and spent >= SURE_SECONDS and spent / done > self._allowed:
            raise TooSlowError(spent / done)

    def own_gain(self, best: float, better: str, metric: str, sizes: Sequence[int]) -> float:
        """Return the validation score if every client kept the round that is best on its own validation split.

        Args:
            best: score of the round that is best for all.
            better: "lower" or "higher".
            metric: its name; errors add up as squares.
            sizes: of the clients' validation splits.
        """
        last = [] if self._state is None or self._state.scores in self._scored else [self._state.scores]
        having = [client for client, size in enumerate(sizes) if size]
        sizes = [sizes[client] for client in having]
        rounds = [_of_clients(scores, having) for scores in [*self._scored, *last]]
        rounds = [scores for scores in rounds if not any(map(math.isnan, scores))]
        if not rounds:
            return best
        choose = min if better == "lower" else max
        kept = [choose(scores) for scores in zip(*rounds, strict=True)]
        pooled = choose(_pooled(scores, sizes, metric) for scores in rounds)
        return best + _pooled(kept, sizes, metric) - pooled


def _of_clients(scores: dict[str, dict[str, float]], clients: Sequence[int]) -> list[float]:
    return [scores.get(str(client), {}).get("validation", math.nan) for client in clients]


def _pooled(scores: Sequence[float], sizes: Sequence[int], metric: str) -> float:
    power = 2 if metric == "rmse" else 1
    total = math.fsum(n * score**power for score, n in zip(scores, sizes, strict=True))
    return float((total / sum(sizes)) ** (1 / power))
