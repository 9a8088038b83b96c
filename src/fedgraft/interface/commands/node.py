"""Check the data against the recipe, join the federation, and train here when the server asks for it."""

from pathlib import Path
from typing import Annotated

import typer

from fedgraft.errors import Interrupted
from fedgraft.interface.commands.options import say
from fedgraft.runtimes.workers import signals


def node(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The site's folder, from 'fedgraft federation init'.")],
    data: Annotated[
        list[str],
        typer.Option(metavar="FILE", help="A file of 'fedgraft shard', a CSV or Parquet table, or NAME=FILE for each."),
    ],
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What may leave this site. Default: what its own recipe has it send."),
    ] = None,
    head: Annotated[
        str,
        typer.Option(metavar="HASH", help="A hash of the server's, of server/audits, that this node's log must have."),
    ] = "",
) -> None:
    """Check the data against the recipe, join the federation, and train here when the server asks for it."""
    from fedgraft.interface.node import serve_node

    with signals.deferred() as stop_signal:
        serve_node(folder, data, say, lambda: bool(stop_signal), policy, head)
    say(f"{signals.text_of(stop_signal.number)}. The node goes on where it was when it is started again.")
    raise Interrupted("interrupted", stop_signal.number)
