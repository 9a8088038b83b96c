"""Answer predictions over HTTP, as JSON, until Ctrl-C; needs the extra 'fedgraft[serve]'."""

from typing import Annotated

import typer

from fedgraft.errors import Interrupted
from fedgraft.interface.commands.options import Folder, say
from fedgraft.interface.json_tables import MAX_REQUEST, MAX_ROWS
from fedgraft.runtimes.workers import signals


def serve(
    folder: Folder,
    host: Annotated[str, typer.Option(help="Address to listen at; there is no authentication.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    max_request: Annotated[str, typer.Option(metavar="SIZE", help="Largest body of a request.")] = MAX_REQUEST,
    max_rows: Annotated[
        int, typer.Option(min=1, help="Most rows of a table, and most answers, of a request.")
    ] = MAX_ROWS,
) -> None:
    """Answer predictions over HTTP, as JSON, until Ctrl-C; needs the extra 'fedgraft[serve]'.

    Ask with POST /predict; GET /schema says what there is to ask, GET /health which run answers.
    """
    from fedgraft.interface.serve import serve as answer  # what the extra installs is imported by no other command

    number = answer(folder, host, port, max_request, max_rows, say)
    say(f"{signals.text_of(number)}.")
    raise Interrupted("interrupted", number)
