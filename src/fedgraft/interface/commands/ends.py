"""End a run on the command line: print what came out, or how to go on."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
def resumable(folder: Path) -> Iterator[None]:
    """Say how to go on after an interruption: outside of all progress, whose last picture it would be part of."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt, signals.Terminated) as error:
        number = getattr(error, "number", SIGINT)
        stored = (folder / "experiment.toml").exists()
        hint = f"Continue with: fedgraft resume {shlex.quote(str(folder))}" if stored else "Nothing was stored."
        say(f"{signals.said(number)}. {hint}")
        raise Interrupted("interrupted", number) from error


@contextmanager
def startable(folder: Path) -> Iterator[None]:
    """Say how to go on after an interruption of several runs, which the same command takes up."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt, signals.Terminated) as error:
        number = getattr(error, "number", SIGINT)
        say(f"{signals.said(number)}. The same command with --out {shlex.quote(str(folder))} goes on from there.")
        raise Interrupted("interrupted", number) from error


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
