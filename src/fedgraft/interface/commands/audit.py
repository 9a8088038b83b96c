"""Look at what has left a site, by its node's audit log, and verify that nobody has changed the log."""

from pathlib import Path
from typing import Annotated

import typer

from fedgraft.interface.commands.options import print_table, say

SHOWN = ("time", "run", "round", "kind", "purpose", "bytes", "epsilon", "decision", "why")
"""Columns of lines on a terminal."""


def audit(
    folder: Annotated[Path, typer.Argument(metavar="NODEDIR", help="The site's folder, as of 'fedgraft node'.")],
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Verify hashes and signatures; a bad line is named, exit code 1."),
    ] = False,
    head: Annotated[
        str, typer.Option(metavar="HASH", help="With --verify: a hash of the server's that must be in the log.")
    ] = "",
    key: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="With --verify: a public key that the node had before.")
    ] = None,
    since: Annotated[str, typer.Option(metavar="DATE", help="From this day or time (UTC) on, as 2026-11-24.")] = "",
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the lines to a CSV file, in full.")] = None,
) -> None:
    """Look at what has left a site, by its node's audit log, and verify that nobody has changed the log."""
    from fedgraft.interface import audited

    log = audited.Audited.of(folder)
    if verify or head:
        say(log.verified(head, key or ()))
    lines = log.lines(since)
    if csv is not None:
        audited.write_csv(csv, lines)
    _print(audited.totals(lines), ("run", "purpose", "sent", "bytes", "refused"))
    if not verify and csv is None:
        spends = any("epsilon" in line for line in lines)
        _print(lines, tuple(name for name in SHOWN if spends or name != "epsilon"))


def _print(lines: list[dict[str, object]], columns: tuple[str, ...]) -> None:
    print_table(columns, ([_cell(name, line.get(name, "")) for name in columns] for line in lines))


def _cell(name: str, value: object) -> str:
    """Return what is shown of a line's column: the beginning of a run's name, and a time's seconds."""
    shown = f"{value:.4g}" if name == "epsilon" and isinstance(value, float) else str(value)
    return shown[: {"run": 8, "time": 19}.get(name)]
