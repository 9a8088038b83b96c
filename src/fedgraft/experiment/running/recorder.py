"""Follow a run: rows are stored as rounds end, checkpoints now and then; and who else has a part in it."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any, Protocol

from fedgraft.contracts import Runtime
from fedgraft.engine.server.loop.loop import Loop
from fedgraft.engine.server.loop.stopping import Row
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import Interrupted
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.units import human_bytes
from fedgraft.experiment.storage.run_folder import RunFolder
from fedgraft.runtimes.workers.signals import Asked

LOG = logging.getLogger("fedgraft.data")
MOST_STORING = 0.05
"""Share of a run's time that checkpoints may take, unless every round is to be stored."""


class Watcher(Protocol):
    """An object that follows a run."""

    def after_round(self, state: RunState, row: Row) -> None:
        """Follow a round; called after each."""
        ...


class Silent:
    """A watcher that shows nothing."""

    def after_round(self, state: RunState, row: Row) -> None:
        """Do nothing after a round."""


class Sites(Protocol):
    """Where the clients of a federation are: their data are loaded there.

    Attributes:
        where: the federation's folder.
    """

    where: str

    def joined(
        self, experiment: Job, run: str, count: int | None = None
    ) -> AbstractContextManager[tuple[Job, Runtime, Sequence[Any]]]:
        """Enter with a runtime to which the clients have connected, and each client's name and data's fingerprint.

        The experiment then says how all read their data. A run that is taken up has the first `count` clients, those
        with which it began.
        """
        ...

    def leave(self, experiment: Job, state: RunState, summary: Mapping[str, Any]) -> None:
        """Hand every client what the run leaves it."""
        ...

    def fingerprints(self, memories: Mapping[int, bytes]) -> dict[int, bytes]:
        """Return {client: fingerprint of what it remembers}, of what the runtime's `memories` yielded.

        {} where nobody but the sites knows it: a fingerprint would let the server try data until it fits.
        """
        ...


class Recorder:
    """Appends rows as rounds end, and checkpoints now and then."""

    def __init__(
        self,
        loop: Loop,
        runtime: Runtime,
        run_folder: RunFolder | None,
        every_seconds: float,
        is_private: bool,
        watcher: Watcher,
        interrupted: Asked,
        raw_data: Callable[[], int | None] = lambda: None,
        at_sites: bool = False,
    ) -> None:
        self._loop, self._runtime, self._run_folder, self._watcher = loop, runtime, run_folder, watcher
        self._every_seconds, self._interrupted = every_seconds, interrupted
        self._stored_at = time.monotonic()
        self._took = 0.0  # to store the last one
        self._raw_data, self._said, self._at_sites = raw_data, False, at_sites
        self._is_private = is_private

    def after_round(self, state: RunState, row: Row) -> None:
        """Store the row, now and then the state; stop here if the user asked to."""
        entries = self._loop.ledger.drain()
        if self._run_folder is not None:
            self._run_folder.append(row, entries)
        self._compare(row)
        stop = bool(self._interrupted) and not state.finished
        # A state of very many clients takes long to store: so little of the time goes to that.
        every = max(self._every_seconds, self._took / MOST_STORING) if self._every_seconds else 0.0
        # Sites serve a round once. A round in which a client failed may end otherwise when it is made again. The next
        # one would then be asked for by another request, which all refuse that have served it: so it is stored first.
        settled = self._at_sites and bool(row.failed)
        if stop or settled or time.monotonic() - self._stored_at >= every:
            self.checkpoint(state)
        self._watcher.after_round(state, row)
        if stop:
            raise Interrupted(f"interrupted after round {state.round}", self._interrupted.number)

    def _compare(self, row: Row) -> None:
        """Say, in the round where it happens, that more was sent than sending all data once takes."""
        raw = None if self._said else self._raw_data()
        before = row.bytes_total - row.bytes if row.round > 1 else 0  # a set-up is of the first round
        self._said = True if raw is None else row.bytes_total > raw
        if raw is not None and before <= raw < row.bytes_total:
            LOG.warning(
                "Round %d: the run has sent %s, more than sending all data once takes (%s)%s.",
                row.round,
                human_bytes(row.bytes_total),
                human_bytes(raw),
                "" if self._is_private else "; budget.bytes limits it",
            )

    def checkpoint(self, state: RunState, first: Mapping[int, bytes] | None = None) -> None:
        """Make this state what a resume starts from, with whatever was charged since the last row.

        `first` is what clients remembered before the run, which does not count as changed.
        """
        began, entries = time.monotonic(), self._loop.ledger.drain()
        if self._run_folder is not None:
            self._run_folder.append(None, entries)
            self._run_folder.checkpoint(state, chain((first or {}).items(), self._runtime.memories()))
        self._stored_at = time.monotonic()
        self._took = self._stored_at - began
