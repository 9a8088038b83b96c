"""Several sites, each with its own data, and a server that never sees them: make, start, look."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedgraft.engine.privacy.secure_sum import SIGNED_KEYS
from fedgraft.errors import InputError, Interrupted, missing_extra
from fedgraft.experiment.job import load
from fedgraft.interface.commands.options import SETTINGS, AsJson, print_json, print_table, say
from fedgraft.interface.federated import keys_made_here
from fedgraft.runtimes.federation import making, membership, operator_socket, site_keys
from fedgraft.runtimes.federation.certificates import key_of
from fedgraft.runtimes.federation.folders import NODE_KEY, SECRET, FederationFolder
from fedgraft.runtimes.federation.signed_requests import node_id
from fedgraft.runtimes.workers import signals

LOOK_SECONDS = 0.2
NEVER = {"state": "never seen", "since": None}
"""What is shown of a node that has not joined since the server was started."""

app = typer.Typer(
    name="federation",
    help="""Several sites, each with its own data, and a server that never sees them: make, start, look.

    On the server: fedgraft federation init DIR, then fedgraft federation start DIR. Each site gets its folder
    DIR/nodes/NAME and runs 'fedgraft node'. Then, on the server: fedgraft run RECIPE --on DIR
    """,
    **SETTINGS,
)
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The federation's folder, on the server.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The site's name.")]
Key = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The public key that the site has made, with 'keygen'. Default: one made here."),
]


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
    no_keys: Annotated[
        bool, typer.Option("--no-keys", help="Each site makes its key itself ('keygen'), and is added with it ('add').")
    ] = False,
) -> None:
    """Make a federation: an authority, a certificate for the server, a folder with a key for each site.

    Names of sites and the recipe are those that 'fedgraft shard' left in DIR, unless they are given here. The server's
    certificate is valid for two years, that of the authority for ten.
    """
    if no_keys and insecure:
        raise InputError("--no-keys and --insecure cannot be given together: there are no keys at all with --insecure.")
    text = None if recipe is None else load(recipe, also=None if no_keys else keys_made_here).to_toml()
    listed = making.names_of(folder, clients, names, needed=not no_keys)
    made = making.make(folder, listed, text, host, port, insecure, keys=not no_keys)
    say(f"1. Start the server: fedgraft federation start {folder}")
    if no_keys:
        add_it = f"fedgraft federation add {folder} NAME --key node.pub"
        say(f"2. Each site: fedgraft federation keygen NAME. With its public key, here: {add_it}")
    else:
        say(
            f"2. Hand each site its folder, over a safe way: {folder}/nodes/NAME. There: fedgraft node NAME --data FILE"
        )
    say(f"3. Look who is there: fedgraft federation status {folder}. Then: fedgraft run RECIPE --on {folder}")
    if not insecure:
        say(f'A site may name the server in its policy: server = "{key_of(made.authority.read_bytes())}"')
    if not (no_keys or insecure):
        say("This machine has seen these keys, and the secret of all sites; with --no-keys sites make their own.")
        say(f"So these keys prove nothing against this server: {SIGNED_KEYS} = true is refused with them.")
    if insecure:
        say(f"Whoever reaches {made.address} can take part and read along: --insecure is for trials.")


@app.command()
def keygen(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The site's own folder, new or there.")],
    secret: Annotated[
        Path | None, typer.Option(metavar="FILE", help="matching.secret of the site that made it, to be kept here.")
    ] = None,
    new_secret: Annotated[
        bool, typer.Option("--new-secret", help="Make matching.secret, too: one site does, for all others.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Make another key where there is one; it is lost.")
    ] = False,
) -> None:
    """At a site: make its key. The private half stays there; the server's operator gets the public one."""
    public = site_keys.make_keys(folder, secret, new_secret, replace)
    say(f"{folder / NODE_KEY} stays here. Send {public} to the server: fedgraft federation add DIR NAME --key FILE")
    if new_secret:
        say(f"Hand {folder / SECRET} to the other sites over a safe way, not by way of the server.")


@app.command()
def add(folder: Folder, name: Name, key: Key = None) -> None:
    """Add a site, or one again that was removed; it takes part in the next run."""
    before = FederationFolder.read(folder)
    federation = membership.add(before, name, key)
    name = membership.named(federation, name)
    _tell_server(federation)
    own = federation.node(name)
    say(f"{name} is client {list(federation.clients).index(name)}, and takes part in the next run.")
    if key is None:
        seen = "" if federation.insecure else " This machine has seen its key."
        say(f"Hand the site its folder, over a safe way: {own}.{seen}")
    else:
        say(f"Hand the site {own}; it puts {NODE_KEY} there, and {SECRET} of another site where ids are matched.")
    if 0 < len(before.clients) < len(federation.clients):
        say(f"Sites whose edges to others are matched need its name in node.toml: clients = {list(federation.clients)}")
    _say_signers(federation)


@app.command()
def remove(folder: Folder, name: Name) -> None:
    """Remove a site: its key is refused from now on. All others keep their numbers, so that runs can be resumed."""
    federation = FederationFolder.read(folder)
    name = membership.named(federation, name)
    membership.remove(federation, name)
    _tell_server(federation)
    say(f"{name} is refused from now on. Client {list(federation.clients).index(name)} stays free for it alone.")
    _say_signers(federation)


@app.command()
def rotate(folder: Folder, name: Name, key: Key = None) -> None:
    """Give a site a new key: its old one is refused from now on."""
    federation = FederationFolder.read(folder)
    name = membership.named(federation, name)
    membership.rotate(federation, name, key)
    _tell_server(federation)
    own = federation.node(name) / NODE_KEY
    hint = f"Hand the site {own}, over a safe way. This machine has seen it." if key is None else "It has the new one."
    say(f"The old key of {name} is refused from now on. {hint}")
    _say_signers(federation)


def _say_signers(folder: FederationFolder) -> None:
    """Say which file all sites need that know each other's keys."""
    if not folder.insecure:
        say(f"Where {SIGNED_KEYS} = true, hand all sites the keys of all: {folder.signers}")


def _tell_server(folder: FederationFolder) -> None:
    """Have a server that runs know the keys at once."""
    operator_socket.read_keys(folder)


@app.command()
def start(folder: Folder) -> None:
    """Run the federation's server until Ctrl-C; sites may come and go."""
    federation = FederationFolder.read(folder)
    with missing_extra("federation", by="'fedgraft federation start'"):
        from fedgraft.runtimes.federation.server import Server
    if renewal := making.renew_certificate(federation):
        say(renewal)
    with signals.deferred() as stop_signal:
        server = Server(federation)
        try:
            server.wait_until_ready(lambda: stop_signal)
            count = 0 if federation.insecure else len(federation.public_keys())
            if not stop_signal:
                say(f"ready at {federation.address}; {f'{count} nodes registered' if count else 'any node may join'}")
            while not stop_signal:
                server.check()
                for line in server.strangers():
                    say(line)
                time.sleep(LOOK_SECONDS)
        finally:
            server.close()
    say(f"{signals.text_of(stop_signal.number)}.")
    raise Interrupted("interrupted", stop_signal.number)


@app.command()
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Say which sites are connected, and what has been run."""
    federation = FederationFolder.read(folder)
    known = operator_socket.status(federation)
    nodes, runs = _nodes(federation, known["nodes"]), known["runs"]
    if as_json:
        print_json({"address": federation.address, "nodes": nodes, "runs": runs})
        return
    print_table(("name", "client", "state", "since"), (each.values() for each in nodes))
    if runs:
        print_table(("id", "status", "since"), (each.values() for each in runs))


def _nodes(folder: FederationFolder, known: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each client, or, where nodes have no keys, for each node."""
    if folder.insecure:
        return [{"name": "?", "client": None, **standing} for standing in known.values()]
    keys, rows = folder.public_keys(), list[dict[str, Any]]()
    for client, name in enumerate(folder.clients):
        standing = known.get(str(node_id(keys[name])), NEVER) if name in keys else {"state": "no key", "since": None}
        rows.append({"name": name, "client": client, **standing})
    return rows
