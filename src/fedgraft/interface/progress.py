"""Show a run that goes on: a live line on a terminal, plain lines elsewhere; all on standard error."""

import logging
import math
import sys
import threading
import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedgraft.engine.server.loop.stopping import Row
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import printable
from fedgraft.experiment.job import Job
from fedgraft.experiment.recipes.units import human_bytes, human_seconds
from fedgraft.experiment.running.baseline_scores import STAGE

LINE_SECONDS = 1.0
"""Least seconds between two plain lines."""
STAGE_SECONDS = 5.0
"""How long a stage before the first round or after the last one lasts before a plain line tells it."""
_LIST_WIDTH, _BAR_WIDTH, _LEAST_BAR, _TEXT_WIDTH = 18, 32, 6, 52


class Progress:
    """A watcher that shows a run's progress.

    On a terminal: what is being prepared, then a bar of rounds and one of the budget, with the score and who was
    chosen. Elsewhere: a line for each stage that takes long, and a line a round, at most one a second, always the first
    and the last. Why a client failed is told once for each reason.

    A budget of 0 bytes is no limit; 0 clients are as many as the run finds.
    """

    def __init__(self, rounds: int, budget_bytes: int, metric: str, clients: int, quiet: bool = False) -> None:
        self._rounds, self._budget, self._metric, self._clients = rounds, budget_bytes, metric, clients
        self._quiet = quiet
        self._stream = sys.stderr
        self._console = Console(file=self._stream, soft_wrap=True, highlight=False)
        self._terminal = self._stream.isatty() and self._console.is_terminal and not self._console.is_dumb_terminal
        self._live: Live | None = None
        self._score: float | None = None
        self._unsaid = ""
        self._said_at = -math.inf
        self._reasons: set[str] = set()
        self._waiting: threading.Timer | None = None

    @classmethod
    def of(cls, experiment: Job, quiet: bool = False, rounds: int | None = None) -> "Progress":
        """Make the watcher for a run of this experiment; with other `rounds` than it says, if given."""
        stopping, clients = experiment.stopping, int(experiment.recipe.sections["data"].get("clients") or 0)
        task = experiment.plan.task
        by_data = not getattr(task, "judged", "said") and experiment.data.judged_by_data
        metric = "score" if by_data else task.metric  # which it is hangs on data that are not read yet
        return cls(rounds or stopping.rounds, stopping.bytes, metric, clients, quiet)

    def __enter__(self) -> "Progress":
        if self._terminal and not self._quiet:
            self._live = Live(console=Console(file=self._stream, highlight=False), refresh_per_second=8)
            self._live.start()
        STAGE.addFilter(self._stage)
        STAGE.setLevel(logging.INFO)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        STAGE.removeFilter(self._stage)
        STAGE.setLevel(logging.NOTSET)
        self._stage_over()
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._say_last()

    def after_round(self, state: RunState, row: Row) -> None:
        """Show a round that has ended."""
        self._stage_over()
        if self._quiet:
            return
        self._tell_failures(row)
        self._score = row.validation if row.validation is not None else self._score
        if self._live is not None:
            self._live.update(self._drawn(state, row))
            return
        self._unsaid = self._line(state, row)
        if time.monotonic() - self._said_at >= LINE_SECONDS:
            self._say_last()

    def note(self, text: str) -> None:
        """Say something once, beside the progress."""
        if self._quiet:
            return
        self._say_last()
        console = self._live.console if self._live is not None else self._console
        console.print(Text(text))

    def _stage(self, record: logging.LogRecord) -> bool:
        """Show what is done before the first round or after the last one, such as a baseline; a filter of the log."""
        self._stage_over()
        line = Text(f"{record.getMessage()} ...")
        if self._live is not None:
            self._live.update(line)
        elif not self._quiet:
            self._say_last()
            self._waiting = threading.Timer(STAGE_SECONDS, self._console.print, (line,))
            self._waiting.daemon = True
            self._waiting.start()
        return True

    def _stage_over(self) -> None:
        """Tell nothing of a stage that is over already."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _tell_failures(self, row: Row) -> None:
        """Say why clients failed, each reason once."""
        for client, reason in row.failed.items():
            if reason not in self._reasons:
                self._reasons.add(reason)
                self.note(printable(f"client {client} failed: {reason}"))

    def _say_last(self) -> None:
        """Print the last line that has been held back."""
        if self._unsaid:
            self._console.print(Text(self._unsaid))
            self._unsaid = ""
            self._said_at = time.monotonic()

    def _line(self, state: RunState, row: Row) -> str:
        spent = human_bytes(row.bytes_total) + (f" of {human_bytes(self._budget)}" if self._budget else "")
        parts = [f"round {row.round}/{self._rounds}", self._scores(state), spent, f"chose {self._chosen(state, row)}"]
        parts += [f"{_late(row)} late"] if _late(row) else []
        parts += [f"{len(row.failed)} failed"] if row.failed else []
        return ", ".join(part for part in parts if part)

    def _drawn(self, state: RunState, row: Row) -> Group:
        width = min(_BAR_WIDTH, max(_LEAST_BAR, self._console.width - _TEXT_WIDTH))
        spent = human_bytes(row.bytes_total) + (f" of {human_bytes(self._budget)}" if self._budget else "")
        grid = Table.grid(padding=(0, 2, 0, 0))
        for _ in range(3):
            grid.add_column(no_wrap=True)
        rounds = Text(f"round {row.round}/{self._rounds}", style="bold")
        grid.add_row(rounds, _bar(row.round, self._rounds, width), Text(self._scores(state)))
        bytes_cells = (_bar(row.bytes_total, self._budget, width), Text(spent)) if self._budget else (Text(spent),)
        grid.add_row(Text("bytes", style="bold"), *bytes_cells)
        who = Text(
            f"{human_seconds(state.seconds)}, chose {self._chosen(state, row)}", no_wrap=True, overflow="ellipsis"
        )
        if _late(row):
            who.append(f", {_late(row)} late")
        if row.failed:
            who.append(f", {len(row.failed)} failed", style="bold red")
        return Group(grid, who)

    def _scores(self, state: RunState) -> str:
        if self._score is None:
            return ""
        best = state.best.get("validation")
        text = f"{self._metric} {self._score:.4f}"
        return text if best is None else f"{text} (best {best:.4f})"

    def _chosen(self, state: RunState, row: Row) -> str:
        """Who: "0 3 7", or "5 of 100" where that would be long; "nobody"."""
        names = " ".join(map(str, row.selected)) or "nobody"
        return names if len(names) <= _LIST_WIDTH else f"{len(row.selected)} of {self._clients or len(state.chosen)}"


def _bar(done: float, whole: float, width: int) -> ProgressBar:
    return ProgressBar(total=whole, completed=min(done, whole), width=width)


def _late(row: Row) -> int:
    """How many of a round's clients answer after it; those whose answer is dropped have failed."""
    return len(set(row.late) - row.failed.keys())
