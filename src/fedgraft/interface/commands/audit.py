"""Look at what has left a site, by its node's audit log, and verify that nobody has changed the log."""

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from fedgraft.errors import printable
from fedgraft.interface.commands.options import SETTINGS, say

SHOWN = ("time", "run", "round", "kind", "purpose", "bytes", "epsilon", "decision", "why")
"""Columns of lines on a terminal."""

app = typer.Typer(**SETTINGS)


@app.command()
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
    console = Console(highlight=False)
    console.print(_table(audited.totals(lines), ("run", "purpose", "sent", "bytes", "refused")))
    if not verify and csv is None:
        spends = any("epsilon" in line for line in lines)
        console.print(_table(lines, tuple(name for name in SHOWN if spends or name != "epsilon")))


def _table(rows: list[dict[str, object]], columns: tuple[str, ...]) -> Table:
    table = Table(*columns, box=box.SIMPLE)
    for row in rows:
        cells = {**row, "run": str(row.get("run", ""))[:8], "time": str(row.get("time", ""))[:19]}
        cells |= {"epsilon": f"{row['epsilon']:.4g}"} if isinstance(row.get("epsilon"), float) else {}
        table.add_row(*(printable(str(cells.get(name, ""))).replace("[", "\\[") for name in columns))
    return table
