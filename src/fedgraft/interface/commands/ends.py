"""End a run on the command line: print what came out, or how to go on."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from signal import SIGINT
from typing import Any

from rich.console import Console

from fedgraft.errors import Interrupted, printable
from fedgraft.interface.commands.options import print_json, say
from fedgraft.interface.result_lines import result_lines
from fedgraft.reports.stored.seed_groups import group_rows, grouped, open_named, render
from fedgraft.runtimes.workers import signals


@contextmanager
def interruptible(hint: Callable[[], str]) -> Iterator[None]:
    """Say how to go on after an interruption: outside of all progress, whose last picture it would be part of."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt, signals.Terminated) as error:
        number = getattr(error, "number", SIGINT)
        say(f"{signals.text_of(number)}. {hint()}")
        raise Interrupted("interrupted", number) from error


def resumable(folder: Path) -> AbstractContextManager[None]:
    """Enter what may be interrupted: one run."""
    go_on = f"Continue with: fedgraft resume {shlex.quote(str(folder))}"
    return interruptible(lambda: go_on if (folder / "experiment.toml").exists() else "Nothing was stored.")


def startable(folder: Path) -> AbstractContextManager[None]:
    """Enter what may be interrupted: several runs, which the same command takes up."""
    return interruptible(lambda: f"The same command with --out {shlex.quote(str(folder))} goes on from there.")


def show_seeds(summaries: Sequence[Mapping[str, Any]], folder: Path, as_json: bool) -> None:
    """Print what came out of runs with several seeds, for people or as JSON."""
    rows = group_rows(grouped(open_named([Path(summary["folder"]) for summary in summaries])))
    if as_json:
        print_json({"folder": str(folder), "runs": list(summaries), "groups": rows})
        return
    Console().print(render(rows))


def show_summary(summary: Mapping[str, Any], folder: Path, as_json: bool) -> None:
    """Print what came out, for people or as JSON."""
    if as_json:
        print_json({**summary, "folder": str(folder)})
        return
    print("\n".join(map(printable, result_lines(summary, folder))))
