"""Several sites, each with its own data, and a server that never sees them: make, start, look."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedgraft.errors import Interrupted, printable
from fedgraft.experiment.experiment import load
from fedgraft.experiment.running import portable
from fedgraft.interface.commands.options import SETTINGS, AsJson, print_json, say
from fedgraft.runtimes.flower_federation import control, making
from fedgraft.runtimes.flower_federation.folders import FederationFolder
from fedgraft.runtimes.flower_federation.superlink import SuperLink, register_all
from fedgraft.runtimes.workers import signals

LOOK_SECONDS = 0.2
STATES = {"online": "online", "offline": "offline", "registered": "never seen"}
"""What Flower says of a node, and what is shown."""

app = typer.Typer(
    name="federation",
    help="""Several sites, each with its own data, and a server that never sees them: make, start, look.

    On the server: fedgraft federation init DIR, then fedgraft federation start DIR. Each site gets its folder
    DIR/nodes/NAME and runs 'fedgraft node'. Then, on the server: fedgraft run RECIPE --on DIR
    """,
    **SETTINGS,
)
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The federation's folder, on the server.")]


@app.command()
def init(
    folder: Folder,
    clients: Annotated[int | None, typer.Option(min=1, metavar="N", help="So many sites: site0, site1, ...")] = None,
    names: Annotated[str | None, typer.Option(metavar="A,B,C", help="Sites by name, in the order of clients.")] = None,
    recipe: Annotated[
        str | None, typer.Option(metavar="RECIPE", help="With the data and the task. Default: DIR/recipe.toml.")
    ] = None,
    host: Annotated[str, typer.Option(help="Name or address by which sites reach the server.")] = "localhost",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The only port; sites connect to it.")] = 8000,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Neither TLS nor keys of nodes: for trials on one machine.")
    ] = False,
) -> None:
    """Make a federation: an authority, a certificate for the server, a folder with a key for each site.

    Names of sites and the recipe are those that 'fedgraft shard' left in DIR, unless they are given here. The server's
    certificate is valid for two years, that of the authority for ten.
    """
    text = None if recipe is None else load(recipe).to_toml()
    made = making.make(folder, making.names_of(folder, clients, names), text, host, port, insecure)
    say(f"1. Start the server: fedgraft federation start {folder}")
    say(f"2. Hand each site its folder, over a safe way: {folder}/nodes/NAME. There: fedgraft node NAME --data FILE")
    say(f"3. Look who is there: fedgraft federation status {folder}. Then: fedgraft run RECIPE --on {folder}")
    if insecure:
        say(f"Whoever reaches {made.address} can take part and read along: --insecure is for trials.")


@app.command()
def start(folder: Folder) -> None:
    """Run the federation's server until Ctrl-C; sites may come and go."""
    federation = FederationFolder.read(folder)
    portable.begin_again(load(str(federation.recipe)).runtime)
    known = federation.state.exists()
    if renewal := making.renew_certificate(federation):
        say(renewal)
    with signals.deferred() as stop_signal:
        server = SuperLink(federation)
        try:
            server.wait_until_ready(lambda: stop_signal)
            if known:
                _stop_runs(federation)
            count = 0 if federation.insecure else register_all(federation, lambda: stop_signal)
            if not stop_signal:
                say(f"ready at {federation.address}; {f'{count} nodes registered' if count else 'any node may join'}")
            while not stop_signal:
                server.check()
                time.sleep(LOOK_SECONDS)
        finally:
            server.close()
    say(f"{signals.text_of(stop_signal.number)}.")
    raise Interrupted("interrupted", stop_signal.number)


def _stop_runs(folder: FederationFolder) -> None:
    """End runs of an earlier start of the server, whose ServerApps ended with it: nodes may wait for their messages."""
    for run in control.runs(folder):
        if not run.status.startswith("finished"):
            control.stop(folder, run.id)


@app.command()
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Say which sites are connected, and what has been run."""
    federation = FederationFolder.read(folder)
    nodes, runs = _nodes(federation), [_run(each) for each in control.runs(federation)]
    if as_json:
        print_json({"address": federation.address, "nodes": nodes, "runs": runs})
        return
    console = Console(highlight=False)
    console.print(_table(nodes, "name", "client", "state", "since"))
    if runs:
        console.print(_table(runs, "run", "status", "since"))


def _nodes(folder: FederationFolder) -> list[dict[str, Any]]:
    """Return a row for each client, or, where nodes have no keys, for each node."""
    known = control.nodes(folder)
    if folder.insecure:
        return [_node("?", None, node) for node in known.values()]
    ids = folder.node_ids()
    return [_node(name, number, known.get(ids.get(name, -1))) for number, name in enumerate(folder.clients)]


def _node(name: str, client: int | None, node: control.Standing | None) -> dict[str, Any]:
    state, since = (node.status, node.since) if node else ("", None)
    return {"name": name, "client": client, "state": STATES.get(state, state) or "not registered", "since": since}


def _run(run: control.Standing) -> dict[str, Any]:
    return {"run": run.id, "status": run.status, "since": run.since}


def _table(rows: list[dict[str, Any]], *columns: str) -> Table:
    table = Table(*columns, box=box.SIMPLE)
    for row in rows:
        table.add_row(*(Text("-" if row[name] is None else printable(str(row[name]))) for name in columns))
    return table
