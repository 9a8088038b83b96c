"""The body of the ServerApp: the loop of a federation, with whoever asked for it told what happens.

`fedgraft run --on DIR` waits behind a socket for these events, in order:

    ("pid", number of this process)          ("note", text)             ("round", standing, row)
    ("done", summary)                        ("failed", kind of error, text, number of a signal)
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Client, Connection
from os import getpid
from pathlib import Path
from typing import Any, Final

from fedgraft.contracts import Runtime
from fedgraft.engine.protocol.codes import LOG as LOG_REFUSED
from fedgraft.engine.protocol.codes import POLICY, RECIPE
from fedgraft.engine.server.loop.stopping import Row
from fedgraft.engine.server.run_state import RunState
from fedgraft.errors import FedgraftError, InputError, RefusedError, memory_shortage
from fedgraft.experiment.experiment import Experiment, load
from fedgraft.experiment.predicting.site_run import pack_site_run
from fedgraft.experiment.recipes.units import human_bytes
from fedgraft.experiment.running import runner
from fedgraft.experiment.storage import disk
from fedgraft.experiment.storage.matching import CLAIMED, joined_nodes, matched_at_sites, read_told, write_told
from fedgraft.experiment.storage.provenance import RemoteClient
from fedgraft.experiment.storage.sites import PUBLISHED
from fedgraft.interface import federated
from fedgraft.interface.node import plan_of
from fedgraft.runtimes.flower_federation.folders import FederationFolder
from fedgraft.runtimes.flower_federation.journal import FORGET
from fedgraft.runtimes.flower_federation.link import Link
from fedgraft.runtimes.flower_federation.members import Members
from fedgraft.runtimes.flower_federation.nodes_runtime import NodesRuntime
from fedgraft.runtimes.flower_federation.server_app import server_app
from fedgraft.runtimes.workers.signals import Terminated

MATCHES: Final = "matches"
"""Folder of the server with what nodes of each run were told of their edges to others."""
AUDITS: Final = "audits"
"""Folder of the server with the heads that nodes' audit logs had when a run ended."""
HEADS: Final = "heads.json"
"""File there with the last head that each node has told, in whatever run."""
EDGES: Final = "edges to others"
"""What nodes claim, for errors."""
HAND_OVER_SECONDS: Final = 60.0
"""How long nodes are waited for that are to be given the trained model."""


class _Listener:
    """Whoever waits behind the socket; a run goes on where nobody does any more."""

    def __init__(self, path: str) -> None:
        self._pipe: Connection | None = None
        with suppress(OSError):
            self._pipe = Client(path, "AF_UNIX")

    def tell(self, *event: object) -> None:
        """Send an event."""
        if self._pipe is not None:
            try:
                self._pipe.send(event)
            except OSError:
                self._pipe = None

    def after_round(self, state: RunState, row: Row) -> None:
        """Tell of a round that has ended."""
        self.tell("round", {"seconds": state.seconds, "best": state.best.get("validation")}, row)


def joined_alike(experiment: Experiment, runtime: NodesRuntime) -> Experiment:
    """Wait until the nodes have joined; return the experiment with data read by what they agree on.

    Where they must agree first, from what each publishes, or edges between them are to be joined, by what each claims,
    they join again with what came of it; before that once more where each is to mask what others claim.
    """
    seconds, members = getattr(experiment.runtime, "join_seconds", 0.0), runtime.members
    runtime.wait_for_all(seconds)
    published, claimed = _said(members, PUBLISHED, "statistics of its columns"), _said(members, CLAIMED, EDGES)
    if published:
        experiment = experiment.agreed_from(published, at_sites=True)

    def again() -> None:
        members.begin_again(experiment.to_toml().encode())
        runtime.wait_for_all(seconds)

    def ask(orders: Mapping[int, bytes]) -> Mapping[int, bytes]:
        members.told = orders
        again()
        return _said(members, CLAIMED, EDGES)

    if claimed:
        experiment, members.told = matched_at_sites(experiment, claimed, len(runtime.clients()), ask)
    if published or claimed:
        again()
    return experiment.after(neighbours=joined_nodes(members.told)) if members.told else experiment


def lasting(experiment: Experiment, own: Experiment) -> Experiment:
    """Return the experiment with noise for the rounds of the nodes' own recipe where these are more, as nodes make it.

    Codes of a sum have bits by its noise, so that both ends must know it.
    """
    plan = experiment.plan
    rounds = max(plan.rounds, own.plan.rounds)
    return replace(experiment, plan=replace(plan, rounds=rounds)) if plan.collection.noisy else experiment


def _said(members: Members, name: str, what: str) -> dict[int, bytes]:
    """What nodes have said of themselves under a name, {client: bytes}. Raises `InputError` for anything else."""
    said = {client: each[name] for client, each in sorted(members.about.items()) if name in each}
    for client, each in said.items():
        if not isinstance(each, bytes):
            raise InputError(f"Client {client} has published something that is no {what}.")
    return said


class _Roster:
    """Who may take part in a run of so many clients, as the federation's folder says from moment to moment."""

    def __init__(self, folder: FederationFolder, count: int) -> None:
        self._path, self._count = folder.path, count

    def nodes(self) -> dict[int, int]:
        """{node: client}."""
        folder = FederationFolder.read(self._path)
        names = list(folder.clients)[: self._count]
        return {node: names.index(name) for name, node in folder.node_ids().items() if name in names}

    def keyless(self) -> frozenset[int]:
        """Clients whose site has no key."""
        return FederationFolder.read(self._path).keyless() & {*range(self._count)}


class _Nodes:
    """The sites of a federation, as the runner uses them."""

    def __init__(self, link: Link, folder: FederationFolder, listener: _Listener) -> None:
        self._link, self._folder, self._listener = link, folder, listener
        self.where = str(folder.path)
        self._runtime: NodesRuntime | None = None
        self._run = ""

    @contextmanager
    def joined(
        self, experiment: Experiment, run: str, count: int | None = None
    ) -> Iterator[tuple[Experiment, Runtime, Sequence[Any]]]:
        """Enter once the nodes have joined, with an experiment that says how all read their data."""
        folder, names = self._folder, self._folder.clients[:count]
        roster = None if folder.insecure else _Roster(folder, len(names))
        recipe = experiment.to_toml().encode()
        runtime = NodesRuntime(
            self._link, run, len(names), recipe, roster, lambda text: self._listener.tell("note", text)
        )
        self._runtime, self._run = runtime, run
        kept, heads = folder.server / MATCHES / f"{run}.bin", folder.server / AUDITS / HEADS
        runtime.members.heads = _known_heads(heads, names)
        try:
            runtime.members.told = read_told(kept)
            try:
                experiment = lasting(joined_alike(experiment, runtime), load(str(folder.recipe)))
            except RefusedError as error:
                more = _beside_own(experiment, folder, error.code) or (error.code == LOG_REFUSED and f" {FORGET}")
                raise InputError(f"{error}{more or ''}") from error
            write_told(kept, runtime.members.told)
            about = runtime.members.about
            clients = [RemoteClient(name, str(about.get(k, {}).get("data"))) for k, name in enumerate(names)]
            yield experiment, runtime, clients
        finally:
            _keep_heads(heads, {names[client]: head.hex() for client, head in runtime.members.heads.items()})
            runtime.close()

    def leave(self, experiment: Experiment, state: RunState, summary: Mapping[str, Any]) -> None:
        """Give every node the model that the run leaves its client."""
        runtime, names, folder = self._runtime, self._folder.clients, self._folder.server / AUDITS
        assert runtime is not None, "joined before"
        left = [client for client in state.joined if client not in runtime.members.gone]
        models = {client: pack_site_run(experiment, state, summary, client, names[client]) for client in left}
        for client in runtime.hand_over(models, HAND_OVER_SECONDS):
            self._listener.tell("note", f"{names[client]} could not be given its model; 'fedgraft resume' tries again.")
        if runtime.heads:
            _keep_heads(folder / f"{self._run}.json", {names[k]: head for k, head in sorted(runtime.heads.items())})
        if outside := sum(runtime.outside.values()):
            self._listener.tell(
                "note",
                f"{human_bytes(outside)} of scoring went outside the protocol and are not in the ledger; "
                "evaluation.at=clients has them charged.",
            )

    def fingerprints(self, memories: Mapping[int, bytes]) -> dict[int, bytes]:
        """Return nothing: a memory's name is under a key of its site, and differs from run to run."""
        return {}


def _beside_own(experiment: Experiment, folder: FederationFolder, code: str) -> str:
    """Return what a node with the federation's own recipe says of another one; "" where it takes it.

    A node tells no words. Most sites have the recipe that lies here, so that the operator need not ask them.
    """
    if code not in (RECIPE, POLICY):
        return ""
    try:
        plan_of(experiment.to_toml().encode(), load(str(folder.recipe)))
    except FedgraftError as error:
        return f" A node with {folder.recipe} says: {error}"
    return ""


def _known_heads(path: Path, names: Sequence[str]) -> dict[int, bytes]:
    """{client: the last head that its node has told of its audit log}, of those that have told any."""
    known = disk.read_table(path) if path.exists() else {}
    return {client: bytes.fromhex(known[name]) for client, name in enumerate(names) if name in known}


def _keep_heads(path: Path, heads: Mapping[str, Any]) -> None:
    """Keep {name of a client: what its node has told of its audit log}, beside those of clients that said it before."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    before = disk.read_table(path) if path.exists() else {}
    disk.replace(path.parent, {path.name: disk.json_table({**before, **heads})}, disk.PRIVATE)


def main(link: Link, config: Mapping[str, Any]) -> None:
    """Run or resume; the configuration names folders, the recipe's file, what to do and the socket."""
    logging.getLogger("flwr").setLevel(logging.WARNING)
    listener = _Listener(str(config["socket"]))
    listener.tell("pid", getpid())
    try:
        folder = FederationFolder.read(Path(str(config["federation"])))
        sites, run_folder = _Nodes(link, folder, listener), Path(str(config["folder"]))
        if config["order"] == federated.RUN:
            summary = runner.execute(load(str(config["recipe"])), run_folder, listener, sites=sites)
        else:
            summary = runner.resume(run_folder, listener, config["order"] == federated.BEFORE, sites)
    except (FedgraftError, OSError) as error:
        listener.tell("failed", type(error).__name__, str(error), getattr(error, "number", 0))
    except (KeyboardInterrupt, Terminated) as error:
        listener.tell("failed", "Interrupted", "interrupted", getattr(error, "number", 2))
    except Exception as error:
        if not (lacked := memory_shortage(error)):
            listener.tell("failed", "Exception", f"{type(error).__name__}: {error}", 0)
            raise
        listener.tell("failed", "MachineError", lacked, 0)
    else:
        listener.tell("done", summary)


app = server_app(main)
