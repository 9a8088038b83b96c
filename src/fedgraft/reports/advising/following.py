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
    """A run would not end in time: it would take so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"would take {seconds:.0f} s")
        self.seconds = seconds


class Following:
    """Follows a run."""

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
