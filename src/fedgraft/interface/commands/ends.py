"""How a run ends on the command line: what came out, or how to go on."""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT
from typing import Any

from fedgraft.errors import Interrupted, printable
from fedgraft.interface.closing import closing_lines
from fedgraft.interface.commands.options import print_json, say
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


def show_summary(summary: Mapping[str, Any], folder: Path, as_json: bool) -> None:
    """Print what came out, for people or as JSON."""
    if as_json:
        print_json({**summary, "folder": str(folder)})
        return
    print("\n".join(map(printable, closing_lines(summary, folder))))
